r"""Bands wider than the model's window: overlapping windows, analysed one after the other.

**Search** (`search.py`). All tones of the band are found first, above a noise floor that is local in frequency. If the
noise turns out to be white although part of the floor stands high, tones were taken for noise there, and the search is
made again above a floor that is flat.

**Cores and guards** (`layout.py`). Windows lie around clusters of these tones. Where cores meet, each is analysed
together with a guard on either side, and only tones whose frequency lies in the core are kept: each tone belongs to one
window. Tones in the guard are free parameters there too, so that a pair on both sides of a border is fitted jointly.
What lies between clusters is not analysed; the search tells down to which amplitude it is empty.

**Windows** (`analysis.py`). Each is analysed without the tones far from it, with noise of its own (`noise.py`), the one
with the strongest tone first.

**Time.** The budget is that of the whole band. The search may take `SEARCH_SHARE` of it, and putting the windows
together has `RESERVED_SHARE`. Windows for which there is no time keep the answer of the search, and the verdict says
so.

**Number of tones.** The stated prior, p(K) included, holds for each window; `core_draws.py` says how the windows'
answers are put together.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.bands.analysis import Analysis, Question
from slotflow.bands.core_draws import Window, without
from slotflow.bands.found import FoundTones
from slotflow.bands.layout import Layout, cut, empty_layout
from slotflow.bands.level import Levels
from slotflow.bands.lines import as_lines
from slotflow.bands.noise import WindowNoise, window_noise
from slotflow.bands.peeling import Peeled, level_of, peeled
from slotflow.bands.posterior import BandPosterior
from slotflow.bands.search import search_spectrum
from slotflow.core.arrays import Array
from slotflow.core.stages import announce, tell
from slotflow.data.observation import Observation
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.facts import EmptyRegion
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.noise.stated import parse_noise
from slotflow.signal.noise.versions import white_noise
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from slotflow.network.model import SlotFlow

__all__ = [
    "DEFAULT_SECONDS",
    "BandPosterior",
    "Window",
    "infer_band",
    "is_crowded",
    "needs_windows",
]

DEFAULT_SECONDS = 20.0
"""Time budget of a band."""
SEARCH_SHARE = 0.35
"""Share of the budget that the search may take."""
LINES_SHARE = 0.15
"""Share of the budget in which pairs become lines."""
RESERVED_SHARE = 0.1
"""Share of the budget that is kept for putting the windows together."""
HIGH = 0.8
"""Noise level over what the search took for it below which its floor is made of tones."""
SAMPLES_OF_A_TONE = 12
"""Samples for each tone from which on red noise is not described by them."""
ROUNDING = 1e-6
"""What is left of the data, in units of them, where there is no noise."""
UNTESTED = "white: there was no time for a test"
"""Why the noise of windows is white where the search took all the time."""


def needs_windows(model: SlotFlow, observation: Observation, prior: Prior) -> bool:
    """Whether a band is too wide for the model's window, or may hold more tones than it can count.

    Args:
        model: One whose window can be moved; another one never needs windows, which it could not answer.
        observation: What was measured.
        prior: What is assumed.
    """
    if model.widest_band is None or observation.free_names:  # windows do not know free gains
        return False
    low, high = prior.frequency
    if (high - low) * observation.long.duration > model.widest_band:
        return True
    return prior.k_max > model.k_max and prior.k_min == 0 and prior.k_probs is None


def is_crowded(model: SlotFlow, post: Posterior, prior: Prior) -> bool:
    """Whether the largest number of tones that a model knows was not enough, so that windows are worth a try."""
    full = post.k_map == prior.k_max and post.verdict.status == "misfit"
    free = prior.k_min == 0 and prior.k_probs is None and not post.observation.free_names
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
    levels, found = _searched(Levels(observation, prior.frequency), SEARCH_SHARE * max_seconds)
    _check_noise(model, levels.data, found.theta)
    deadline = began + (1 - RESERVED_SHARE) * max_seconds
    tell("noise")
    hidden = None
    if not refine:
        noise, chosen = "white", WindowNoise("white")
    elif time.perf_counter() > deadline:
        noise, chosen = "white", WindowNoise(white_noise(levels.data, UNTESTED))
    else:
        hidden = _hidden(levels, found)
        known = found.theta if hidden is None else hidden.theta
        chosen = window_noise(levels.data, noise, prior.frequency, known)
    level = found.quiet_level if hidden is None else hidden.level
    if level is not None and parse_noise(noise).kind == "auto" and not chosen.is_local:
        seconds = SEARCH_SHARE * (deadline - time.perf_counter())
        again = _searched(Levels(observation, prior.frequency), seconds, level)
        if again[1].complete:
            levels, found = again
    observation, likelihood, noise = levels.data, levels.likelihood, chosen
    described = found.theta
    if noise.is_local:
        soon = time.perf_counter() + LINES_SHARE * max_seconds
        found = as_lines(likelihood, found, prior.frequency, min(deadline, soon))
    if len(found.theta):
        layout = cut(observation, prior, TONE.place_of(found.theta))
    else:
        layout = empty_layout(observation, prior, found.likeliest)
    bins = (prior.frequency[1] - prior.frequency[0]) * observation.long.duration
    announce(
        f"a band of {bins:.0f} bins of 1/T, in which the search found {_counted(len(found.theta), 'tone')}: analysed "
        f"in {_counted(len(layout.cores), 'window')}"
    )
    question = Question(model, tuple(derived), noise, {"refine": refine} | options)
    windows = Analysis(question, layout, likelihood, found, deadline, described).windows()
    band = BandPosterior(
        levels.shown,
        prior,
        windows,
        likelihood=likelihood if refine else None,
        most=most,
        empty=_empty(layout, found) if found.complete else (),
        complete=found.complete,
    )
    band.assumed = dataclasses.replace(
        Assumed.stated(prior, observation.long.duration), in_windows=True
    )
    return band


def _hidden(levels: Levels, found: FoundTones) -> Peeled | None:
    """The tones of a band where, at few and odd times, they hide each other from a search; None where they do not."""
    likelihood = levels.likelihood
    if not isinstance(likelihood, GeneralTones):
        return None
    rest = likelihood.less(likelihood.to_z(found.theta)) if len(found.theta) else likelihood
    out = peeled(likelihood, levels.band)
    few = SAMPLES_OF_A_TONE * len(out.theta) <= likelihood.n
    return out if few and out.level < HIGH * level_of(rest, levels.band) else None


def _searched(
    levels: Levels, max_seconds: float, noise: float | None = None
) -> tuple[Levels, FoundTones]:
    """What a search finds in data, and the data beside that.

    Args:
        levels: The data.
        max_seconds: Its time.
        noise: Level of the noise, where it is the same at all frequencies.
    """
    found = search_spectrum(
        levels.likelihood,
        levels.band,
        max_seconds=max_seconds,
        levels=levels,
        noise=noise,
        report=lambda n: tell("search", n),
    )
    return levels.beside(found.theta), found


def _counted(count: int, noun: str) -> str:
    """A number of things in words: "1 tone", "3 tones"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
            f"expected a model for any band such as 'zoom', received {model.config.name!r}, which knows only "
            "that of its training; use SlotFlow.from_pretrained()."
        )
    if observation.long.is_even and high > observation.long.nyquist:
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
