r"""Bands wider than the model's window: overlapping windows, analysed one after the other.

**Search** (`search.py`). All tones of the band are found first, above a noise floor that is local in frequency.

**Cores and guards** (`layout.py`). Windows lie around clusters of these tones. Where cores meet, each is analysed
together with a guard on either side, and only tones whose frequency lies in the core are kept: each tone belongs to one
window. Tones in the guard are free parameters there too, so that a pair on both sides of a border is fitted jointly.
What lies between clusters is not analysed; the search tells down to which amplitude it is empty.

**Neighbours.** A tone farther from the core than the guard (less a strip of `STRIP` bins, in which none is left) is
subtracted before the window is analysed. The windows' answers take the place of the search's; all tones are then
fitted together again (`coupling.py`). What a correction δ(t) of the subtracted tones leaks into a window is max |2/N
Σ δ e^{−2πift}| there; a window into which more than `HARMLESS_LEAK` standard errors of an amplitude, σ√(2/N), would
leak is analysed again, and so is one that was called a misfit before its neighbours' last corrections.

**Time.** The budget is that of the whole band. The search may take `SEARCH_SHARE` of it; windows are analysed with the
strongest tone first, each with at most `GENEROUS` times its equal share of what is left, so that what one does not need
goes to those after it. Windows for which nothing is left keep the answer of the search (`unexamined.py`), and the
verdict says so.

**Number of tones.** The stated prior, p(K) included, holds for each window; `core_draws.py` says how the windows'
answers are put together.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.bands.core_draws import Window, best_tones, inside, without
from slotflow.bands.coupling import joint_fit
from slotflow.bands.layout import Layout, cut, empty_layout
from slotflow.bands.noise import WindowNoise, window_noise
from slotflow.bands.posterior import BandPosterior
from slotflow.bands.search import FoundTones, search_spectrum
from slotflow.bands.unexamined import searched_posterior
from slotflow.core.arrays import Array
from slotflow.core.stages import announce, tell
from slotflow.data.observation import Observation
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.facts import EmptyRegion
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import Likelihood, Statistics, likelihood_of
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from slotflow.network.model import SlotFlow

__all__ = ["BandPosterior", "Window", "infer_band", "is_crowded", "needs_windows"]

DEFAULT_SECONDS = 20.0
"""Time budget of a band."""
SEARCH_SHARE = 0.35
"""Share of the budget that the search may take."""
RESERVED_SHARE = 0.1
"""Share of the budget that is kept for putting the windows together."""
GENEROUS = 2.5
"""Time that a window may take, in equal shares of what is left."""
SHORTEST_SHARE = 0.15
"""Seconds below which a window is not begun."""
MOST_ROUNDS = 3
"""Most rounds in which windows are analysed."""
ROUNDING = 1e-6
"""What is left of the data, in units of them, where there is no noise."""
HARMLESS_LEAK = 0.2
"""Largest leakage of a correction that does no harm, in standard errors of an amplitude."""


def needs_windows(model: SlotFlow, observation: Observation, prior: Prior) -> bool:
    """Whether a band is too wide for the model's window, or may hold more tones than it can count.

    Args:
        model: One whose window can be moved; another one never needs windows, which it could not answer.
        observation: What was measured.
        prior: What is assumed.
    """
    if model.widest_band is None:
        return False
    low, high = prior.frequency
    if (high - low) * observation.long.duration > model.widest_band:
        return True
    return prior.k_max > model.k_max and prior.k_min == 0 and prior.k_probs is None


def is_crowded(model: SlotFlow, post: Posterior, prior: Prior) -> bool:
    """Whether the largest number of tones that a model knows was not enough, so that windows are worth a try."""
    full = post.k_map == prior.k_max and post.verdict.status == "misfit"
    free = prior.k_min == 0 and prior.k_probs is None
    return full and free and model.widest_band is not None and prior.k_max == model.k_max


def infer_band(
    model: SlotFlow,
    observation: Observation,
    prior: Prior,
    *,
    refine: bool = True,
    derived: Sequence[str] = (),
    noise: Any = "auto",
    max_seconds: float = DEFAULT_SECONDS,
    **options: Any,
) -> BandPosterior:
    """Posterior of a band of any width.

    Example::

        post = model.infer(observation, prior=Prior(k_min=0, frequency=(1.0, 4.0)))
        print(post.verdict, post.k_map, post.summary())
        post.window_verdicts  # one for each of post.windows
        post.empty_regions  # where nothing was found, and down to which amplitude

    Args:
        model: One that takes any band (`zoom`).
        observation: What was measured.
        prior: The prior; its band may have any width. Its p(K) is that of each window, K = 0 among them; a k_max beyond
            what the model can count is that of the whole band.
        refine: As in `SlotFlow.infer`.
        derived: Fields of the prior that came from the data; each window takes its own from its own data.
        noise: What is said of the noise; "auto" decides once for all windows whether it is white, or local to each.
        max_seconds: Time budget of the whole band.
        **options: Further keywords of `SlotFlow.infer`.
    """
    began = time.perf_counter()
    _check(model, observation, prior)
    most = prior.k_max if prior.k_max > model.k_max else None
    prior = dataclasses.replace(prior, k_max=min(prior.k_max, model.k_max))
    tell("search")
    likelihood = _likelihood(observation, prior.frequency)
    found = search_spectrum(
        likelihood,
        prior.frequency,
        max_seconds=SEARCH_SHARE * max_seconds,
        report=lambda n: tell("search", n),
    )
    _check_noise(model, observation, found.theta)
    if len(found.theta):
        layout = cut(observation, prior, TONE.place_of(found.theta))
    else:
        layout = empty_layout(observation, prior, found.likeliest)
    bins = (prior.frequency[1] - prior.frequency[0]) * observation.long.duration
    announce(
        f"a band of {bins:.0f} bins of 1/T, in which the search found {len(found.theta)} tones: analysed in "
        f"{len(layout.cores)} window{'s' if len(layout.cores) != 1 else ''}"
    )
    tell("noise")
    noise = window_noise(observation, noise if refine else "white", prior.frequency, found.theta)
    deadline = began + (1 - RESERVED_SHARE) * max_seconds
    question = _Question(model, tuple(derived), noise, {"refine": refine} | options)
    windows = _Analysis(question, layout, likelihood, found, deadline).windows()
    band = BandPosterior(
        observation,
        prior,
        windows,
        likelihood=likelihood if refine else None,
        most=most,
        empty=_empty(layout, found),
    )
    band.assumed = dataclasses.replace(
        Assumed.stated(prior, observation.long.duration), in_windows=True
    )
    return band


def _likelihood(observation: Observation, band: tuple[float, float]) -> Likelihood:
    """The likelihood of all data in white noise; of plain series the offset is subtracted, which is faster."""
    if not observation.is_plain or any(channel.trend > 0 for channel in observation.channels):
        return likelihood_of(observation, None, band)
    level = [
        dataclasses.replace(c, values=c.values - (c.values.mean() if c.trend == 0 else 0.0))
        for c in observation.channels
    ]
    return Statistics.from_observation(Observation(level, removed=observation.removed))


def _empty(layout: Layout, found: FoundTones) -> tuple[EmptyRegion, ...]:
    """What belongs to no window, with the amplitude from which on a tone would have been found."""
    return tuple(EmptyRegion(a, b, found.smallest_amplitude(a, b)) for a, b in layout.gaps)


def _check_noise(model: SlotFlow, observation: Observation, tones: Array) -> None:
    """Refuses data of which the tones leave nothing."""
    left, given = (np.abs(o.long.values).max() for o in (without(observation, tones), observation))
    if left < ROUNDING * given:
        raise ValueError(
            f"{len(tones)} tones leave nothing of the data but rounding, and windows need noise; narrow the band to "
            f"{model.widest_band:.0f} bins of 1/T."
        )


def _check(model: SlotFlow, observation: Observation, prior: Prior) -> None:
    """Refuses a model, a band or a prior over K that windows cannot answer."""
    low, high = prior.frequency
    if model.widest_band is None:
        raise ValueError(
            f"expected a model for any band such as 'zoom', received {model.config.name!r}, which knows that of its "
            "training alone; use SlotFlow.from_pretrained()."
        )
    if high > observation.long.nyquist:
        raise ValueError(
            f"expected a band below the Nyquist frequency of {observation.long.nyquist:g} Hz, received "
            f"{low:g}–{high:g} Hz; lower the prior's frequency range or sample faster."
        )
    if prior.k_max > model.k_max and prior.k_probs is not None:
        raise ValueError(
            f"the model {model.config.name!r} knows up to {model.k_max} components in a window, the prior states p(K) "
            f"up to k_max = {prior.k_max}; lower it, or leave p(K) uniform from 0 on."
        )
    if prior.k_min > 0:
        bins = (high - low) * observation.long.duration
        raise ValueError(
            f"a band of {bins:.0f} bins of 1/T is analysed in windows, any of which may be empty: expected k_min = 0, "
            f"received {prior.k_min}; lower it, or narrow the band to {model.widest_band:.0f} bins."
        )


@dataclass(frozen=True)
class _Question:
    """What every window is asked."""

    model: SlotFlow
    derived: tuple[str, ...]
    """Fields of the prior that a window takes from its own data."""
    noise: WindowNoise
    options: dict[str, Any]
    """Further keywords of `SlotFlow.infer`."""

    def ask(self, view: Observation, prior: Prior, max_seconds: float) -> Posterior:
        """The posterior of a window.

        Args:
            view: Its data.
            prior: Its prior.
            max_seconds: Its time budget.
        """
        said: dict[str, Any] = {"prior": prior, "noise": self.noise.of(prior.frequency)}
        if self.derived:
            names = [field.name for field in dataclasses.fields(prior)]
            kept = [name for name in names if name not in (*self.derived, "k_probs")]
            said["prior"] = {name: getattr(prior, name) for name in kept}
            if prior.k_probs is not None:
                said["k_prior"] = dict(enumerate(prior.k_probs))
        if self.noise.is_local:  # what was taken out lies outside of what counts
            view = Observation(view.channels, removed=0)
        return self.model.infer(view, max_seconds=max_seconds, **(self.options | said))


@dataclass
class _Analysis:
    """The windows of a band, one after the other."""

    question: _Question
    layout: Layout
    likelihood: Likelihood
    """Of all data."""
    found: FoundTones
    deadline: float
    """When windows must be done, on the clock of `time.perf_counter`."""

    def __post_init__(self) -> None:
        self.tones = [inside(self.found.theta, core) for core in self.layout.cores]
        self.posts: dict[int, Posterior] = {}
        self.far: dict[int, Array] = {}

    @property
    def left(self) -> float:
        """Seconds until windows must be done."""
        return self.deadline - time.perf_counter()

    def windows(self) -> tuple[Window, ...]:
        """Every window with its posterior; those are analysed again whose neighbours' tones have changed."""
        cores, guard = self.layout.cores, self.layout.guard
        todo = self._strongest_first()
        for _ in range(MOST_ROUNDS):
            for done, i in enumerate(todo):
                tell("windows", done, len(todo))
                self._analyse(i, len(todo) - done)
            tell("windows", len(todo), len(todo))
            self._fit_together()
            todo = self._changed() if self.left > SHORTEST_SHARE else []
            if not todo:
                break
        return tuple(
            Window(core, self.posts[i], best_tones(self.posts[i]), guard)
            for i, core in enumerate(cores)
        )

    def _strongest_first(self) -> list[int]:
        """The windows in the order of the amplitude of their strongest tone."""
        size = [float(TONE.of(t, "amplitude").max(initial=0.0)) for t in self.tones]
        return [int(i) for i in np.argsort(-np.array(size), kind="stable")]

    def _analyse(self, i: int, waiting: int) -> None:
        """The posterior of window i, one of so many that wait for the rest of the time."""
        view, prior = self.layout.view(i, self.tones)
        share = min(GENEROUS * self.left / waiting, self.left)
        if share > SHORTEST_SHARE:
            post = self.question.ask(view, prior, share)
        elif i in self.posts:
            return
        else:
            post = self._unexamined(view, prior)
        self.posts[i], self.far[i] = post, self.layout.far(i, self.tones)
        self.tones[i] = inside(best_tones(post), self.layout.cores[i])

    def _unexamined(self, view: Observation, prior: Prior) -> Posterior:
        """The answer of the search for a window."""
        level = self.found.noise_level(*prior.frequency)
        known = inside(self.found.theta, prior.frequency)
        return searched_posterior(
            view, likelihood_of(view, None, prior.frequency), prior, known, level
        )

    def _fit_together(self) -> None:
        """Carries the tones of all cores to their joint maximum, or leaves them where there is none nearby."""
        best = joint_fit(self.likelihood, np.concatenate(self.tones))
        if best is None:
            return
        moved = [inside(best, core) for core in self.layout.cores]
        if [len(t) for t in moved] == [len(t) for t in self.tones]:
            self.tones = moved

    def _changed(self) -> list[int]:
        """Windows into which the corrections of their neighbours would leak more than is harmless."""
        found = []
        for i, post in sorted(self.posts.items()):
            core, now = self.layout.cores[i], self.layout.far(i, self.tones)
            leak = _leak(self.likelihood, now, self.far[i], core)
            if leak > HARMLESS_LEAK * post.noise_std or (
                leak > 0 and post.verdict.status == "misfit"
            ):
                found.append(i)
        return found


def _leak(likelihood: Likelihood, now: Array, then: Array, band: tuple[float, float]) -> float:
    """The largest amplitude in a band that two sets of tones outside differ by, in its standard errors for σ = 1.

    Args:
        likelihood: Of all data.
        now: One set, (k, P).
        then: The other.
        band: Lower and upper edge in Hz.
    """
    if np.array_equal(now, then):
        return 0.0
    f = np.linspace(*band, max(math.ceil(2 * (band[1] - band[0]) / likelihood.bin), 2))
    total = np.zeros(len(f), np.complex128)
    for theta, sign in ((now, 1), (then, -1)):
        place, c = likelihood.waveform.simple(likelihood.to_z(theta))
        total += sign * 0.5 * (likelihood.kernel(place - f[:, None]) * c).sum(-1)
    return float(np.abs(total).max()) * math.sqrt(2 / likelihood.weight)
