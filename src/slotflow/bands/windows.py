r"""Bands wider than the model's window: overlapping windows, analysed one after the other.

**Cores and guards.** The band is cut into cores of at most 90 bins of 1/T (`LAYOUTS`). A core is analysed together with
a guard on either side, and only tones whose frequency lies in the core are kept: each tone belongs to one window.
Tones in the guard are free parameters there too, so that a pair on both sides of a border is fitted jointly. Borders
move, by at most `SHIFT` bins, to the middle of the widest gap between tones.

**Search.** The classical pursuit (`baselines/classical.py`) finds the tones of the whole band first, all of them fitted
together on all streams. Bands of more than `BLOCK` bins are searched in pieces, each without the tones of the others,
until the tones stay the same.

**Neighbours.** A tone farther from the core than the guard (less a strip of `STRIP` bins, in which none is left) is
subtracted before the window is analysed. The windows' answers take the place of the search's; all tones are then
fitted together again (`coupling.py`). What a correction δ(t) of the subtracted tones leaks into a window is max |2/N
Σ δ e^{−2πift}| there; a window into which more than `LEAK` standard errors of an amplitude, σ√(2/N), would leak is
analysed again, and so is one that was called a misfit before its neighbours' last corrections.

**Number of tones.** The stated prior, p(K) included, holds for each window; `core_draws.py` says how the windows'
answers are put together.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.bands.core_draws import STRIP, Window, best_tones, inside, without
from slotflow.bands.coupling import joint_fit
from slotflow.bands.posterior import BandPosterior
from slotflow.data.observation import Observation
from slotflow.exact.classical import classical
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from slotflow.network.model import SlotFlow

__all__ = ["BandPosterior", "Window", "infer_band", "is_crowded", "needs_windows"]

SHIFT = 10.0
"""Largest way of a border to the widest gap, in bins."""
LAYOUTS = ((90.0, 20.0), (45.0, 20.0), (22.0, 20.0), (22.0, 10.0), (12.0, 10.0))
"""Widest core and guard in bins; narrower ones where a window would hold as many tones as its prior allows."""
BLOCK = 1000.0
"""Widest band in bins that is searched at once."""
MOST = 150
"""Most tones that the search looks for in a block."""
SWEEPS = 4
"""Most rounds of the search over several blocks."""
ROUNDS = 3
"""Most rounds of the windows."""
ROUNDING = 1e-6
"""What is left of the data, in units of them, where there is no noise."""
STILL = 0.1
"""Largest change of a frequency, in bins, between sweeps that count as the same."""
LEAK = 0.2
"""Largest leakage of a correction that does no harm, in standard errors of an amplitude."""

Array = NDArray[np.float64]


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
    **options: Any,
) -> BandPosterior:
    """Posterior of a band of any width.

    Example::

        post = model.infer(observation, prior=Prior(k_min=0, frequency=(1.0, 4.0)))
        print(post.verdict, post.k_map, post.summary())
        post.window_verdicts  # one for each of post.windows

    Args:
        model: One that takes any band (`zoom`).
        observation: What was measured.
        prior: The prior; its band may have any width. Its p(K) is that of each window, K = 0 among them; a k_max beyond
            what the model can count is that of the whole band.
        refine: As in `SlotFlow.infer`.
        **options: Further keywords of `SlotFlow.infer`; a time budget is that of one window.
    """
    _check(model, observation, prior)
    most = prior.k_max if prior.k_max > model.k_max else None
    prior = dataclasses.replace(prior, k_max=min(prior.k_max, model.k_max))
    duration = observation.long.duration
    tones = _search(observation, prior)
    left, given = (np.abs(o.long.values).max() for o in (without(observation, tones), observation))
    if left < ROUNDING * given:
        raise ValueError(
            f"{len(tones)} tones leave nothing of the data but rounding, and windows need noise; narrow the band to "
            f"{model.widest_band:.0f} bins of 1/T."
        )
    borders, guard = _layout(TONE.place_of(tones), prior, duration)
    posts = _answers(model, observation, prior, borders, guard, tones, {"refine": refine} | options)
    windows = tuple(
        Window((float(a), float(b)), post, best_tones(post), guard)
        for (a, b), post in zip(itertools.pairwise(borders), posts, strict=True)
    )
    return BandPosterior(observation, prior, windows, coupled=refine, most=most)


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


def _search(obs: Observation, prior: Prior) -> Array:
    """Parameters of the tones that the classical pursuit finds in the band, (K, P)."""
    duration, (low, high) = obs.long.duration, prior.frequency
    blocks = np.linspace(low, high, math.ceil((high - low) * duration / BLOCK) + 1)
    none = np.zeros((0, TONE.size))
    tones = [none for _ in blocks[1:]]
    for _ in range(SWEEPS if len(tones) > 1 else 1):
        before = np.concatenate(tones)
        for i, edges in enumerate(itertools.pairwise(blocks)):
            others = np.concatenate([none, *tones[:i], *tones[i + 1 :]])
            own = dataclasses.replace(
                prior,
                frequency=(float(edges[0]), float(edges[1])),
                k_max=MOST,
                k_probs=None,
                min_separation=0.0,
            )
            found = classical(without(obs, others), own)
            tones[i] = found.fits[int(found.k_bic[0])].theta[0].numpy()
        after = np.concatenate(tones)
        if (
            len(after) == len(before)
            and (np.abs(_sorted_places(after) - _sorted_places(before)) * duration < STILL).all()
        ):
            break
    return np.concatenate(tones)


def _sorted_places(tones: Array) -> Array:
    """Frequencies of tones, (K, P), in rising order, (K,)."""
    return np.sort(TONE.place_of(tones))


def _layout(frequencies: Array, prior: Prior, duration: float) -> tuple[Array, float]:
    """Borders (W + 1,) and guard, in Hz, of windows that hold fewer tones than a window's prior allows."""
    low, high = prior.frequency
    for core, guard in LAYOUTS:
        nominal = np.linspace(low, high, math.ceil((high - low) * duration / core) + 1)
        borders = _at_gaps(nominal, frequencies, min(SHIFT, core / 4) / duration)
        reach = guard / duration
        held = [
            ((frequencies >= a - reach) & (frequencies <= b + reach)).sum()
            for a, b in itertools.pairwise(borders)
        ]
        if max(held) < prior.k_max:
            break
    return borders, reach


def _answers(
    model: SlotFlow,
    obs: Observation,
    prior: Prior,
    borders: Array,
    guard: float,
    found: Array,
    options: dict[str, Any],
) -> list[Posterior]:
    """The posterior of every window; those are analysed again whose neighbours' tones have changed.

    Args:
        model: The network.
        obs: The data.
        prior: That of the band.
        borders: Of the cores, in Hz, (W + 1,).
        guard: In Hz.
        found: Parameters of the tones that the search found, (K, P).
        options: Of `SlotFlow.infer`.
    """
    number = len(borders) - 1
    tones = [inside(found, edges) for edges in itertools.pairwise(borders)]
    statistics = Statistics.from_observation(obs)
    posts: dict[int, Posterior] = {}
    views: list[Observation] = [obs] * number
    todo = list(range(number))
    for _ in range(ROUNDS):
        for i in todo:
            views[i], window = _window_view(obs, prior, borders, guard, tones, i)
            posts[i] = model.infer(views[i], prior=window, **options)
            tones[i] = inside(best_tones(posts[i]), (borders[i], borders[i + 1]))
        tones = _together(statistics, borders, tones)
        todo = []
        for i, post in sorted(posts.items()):
            now, window = _window_view(obs, prior, borders, guard, tones, i)
            leak = _leak(now, views[i], window.frequency, statistics.ratios)
            if leak > LEAK * post.noise_std or (leak > 0 and post.verdict.status == "misfit"):
                todo.append(i)
        if not todo:
            break
    return [posts[i] for i in range(number)]


def _together(statistics: Statistics, borders: Array, tones: list[Array]) -> list[Array]:
    """The tones of all cores at their joint maximum on all streams, or as they are where there is none nearby."""
    best = joint_fit(statistics, np.concatenate(tones))
    if best is None:
        return tones
    moved = [inside(best, edges) for edges in itertools.pairwise(borders)]
    return moved if [len(t) for t in moved] == [len(t) for t in tones] else tones


def _leak(
    now: Observation, then: Observation, band: tuple[float, float], ratios: tuple[float, ...]
) -> float:
    """The largest amplitude in a band that two views differ by, in units of its standard error for σ = 1.

    Args:
        now: One view.
        then: The other.
        band: Lower and upper edge in Hz.
        ratios: Noise level of each stream in units of σ.
    """
    total = samples = 0.0
    for new, old, ratio in zip(now.channels, then.channels, ratios, strict=True):
        change = np.abs(np.fft.rfft(new.values - old.values))
        first, last = math.floor(band[0] * new.duration), math.ceil(band[1] * new.duration)
        total += change[first : last + 1].max(initial=0.0) / ratio**2
        samples += new.n / ratio**2
    return total * math.sqrt(2 / samples)


def _window_view(
    obs: Observation, prior: Prior, borders: Array, guard: float, tones: list[Array], i: int
) -> tuple[Observation, Prior]:
    """What window i is asked: the data without the tones far from its core, and the prior of core and guard."""
    duration = obs.long.duration
    low, high = prior.frequency
    a, b = borders[i], borders[i + 1]
    reach = guard - STRIP / duration
    others = np.concatenate([*tones[:i], *tones[i + 1 :], np.zeros((0, TONE.size))])
    place = TONE.place_of(others)
    far = others[(place < a - reach) | (place > b + reach)]
    edges = max(low, a - guard), min(high, b + guard)
    room = edges[1] - edges[0]
    k_max = prior.k_max
    if prior.min_separation > 0:  # as many as fit, and no more than stated
        k_max = max(1, min(k_max, math.ceil(room / prior.min_separation)))
    own = dataclasses.replace(
        prior,
        frequency=edges,
        k_max=k_max,
        k_probs=None if prior.k_probs is None else prior.k_probs[: k_max + 1],
    )
    return without(obs, far), own


def _at_gaps(nominal: Array, frequencies: Array, shift: float) -> Array:
    """Borders (W + 1,), the inner ones in the middle of the widest gap within reach."""
    borders = nominal.copy()
    for i in range(1, len(nominal) - 1):
        low, high = nominal[i] - shift, nominal[i] + shift
        near = np.sort(frequencies[(frequencies > low) & (frequencies < high)])
        edges = np.concatenate([[low], near, [high]])
        if len(near):
            widest = int(np.diff(edges).argmax())
            borders[i] = edges[widest : widest + 2].mean()
    return borders
