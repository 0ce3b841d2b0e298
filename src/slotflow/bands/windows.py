r"""Bands wider than the model's window: overlapping windows, analysed one after the other.

**Cores and guards** (`layout.py`). The band is cut into cores of at most 90 bins of 1/T. A core is analysed together
with a guard on either side, and only tones whose frequency lies in the core are kept: each tone belongs to one window.
Tones in the guard are free parameters there too, so that a pair on both sides of a border is fitted jointly. Borders
move to the middle of the widest gap between tones nearby.

**Search** (`search.py`). The classical pursuit finds the tones of the whole band first, all of them fitted together on
all streams.

**Neighbours.** A tone farther from the core than the guard (less a strip of `STRIP` bins, in which none is left) is
subtracted before the window is analysed. The windows' answers take the place of the search's; all tones are then
fitted together again (`coupling.py`). What a correction δ(t) of the subtracted tones leaks into a window is max |2/N
Σ δ e^{−2πift}| there; a window into which more than `HARMLESS_LEAK` standard errors of an amplitude, σ√(2/N), would
leak is analysed again, and so is one that was called a misfit before its neighbours' last corrections.

**Number of tones.** The stated prior, p(K) included, holds for each window; `core_draws.py` says how the windows'
answers are put together.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.bands.core_draws import Window, best_tones, inside, without
from slotflow.bands.coupling import joint_fit
from slotflow.bands.layout import Layout, cut
from slotflow.bands.posterior import BandPosterior
from slotflow.bands.search import search_spectrum
from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from slotflow.network.model import SlotFlow

__all__ = ["BandPosterior", "Window", "infer_band", "is_crowded", "needs_windows"]

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
    tones = search_spectrum(Statistics.from_observation(observation), prior.frequency).theta
    left, given = (np.abs(o.long.values).max() for o in (without(observation, tones), observation))
    if left < ROUNDING * given:
        raise ValueError(
            f"{len(tones)} tones leave nothing of the data but rounding, and windows need noise; narrow the band to "
            f"{model.widest_band:.0f} bins of 1/T."
        )
    layout = cut(observation, prior, TONE.place_of(tones))
    posts = _answers(model, layout, tones, {"refine": refine} | options)
    windows = tuple(
        Window(core, post, best_tones(post), layout.guard)
        for core, post in zip(layout.cores, posts, strict=True)
    )
    found = BandPosterior(observation, prior, windows, coupled=refine, most=most)
    stated = Assumed.stated(prior, observation.long.duration)
    found.assumed = dataclasses.replace(stated, in_windows=True)
    return found


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


def _answers(
    model: SlotFlow, layout: Layout, found: Array, options: dict[str, Any]
) -> list[Posterior]:
    """The posterior of every window; those are analysed again whose neighbours' tones have changed.

    Args:
        model: The network.
        layout: The windows.
        found: Parameters of the tones that the search found, (K, P).
        options: Of `SlotFlow.infer`.
    """
    cores, obs = layout.cores, layout.observation
    tones = [inside(found, core) for core in cores]
    statistics = Statistics.from_observation(obs)
    posts: dict[int, Posterior] = {}
    views: dict[int, Observation] = {}
    todo = list(range(len(cores)))
    for _ in range(MOST_ROUNDS):
        for i in todo:
            views[i], window = layout.view(i, tones)
            posts[i] = model.infer(views[i], prior=window, **options)
            tones[i] = inside(best_tones(posts[i]), cores[i])
        tones = _together(statistics, cores, tones)
        todo = []
        for i, post in sorted(posts.items()):
            now, window = layout.view(i, tones)
            leak = _leak(now, views[i], window.frequency, statistics.ratios)
            if leak > HARMLESS_LEAK * post.noise_std or (
                leak > 0 and post.verdict.status == "misfit"
            ):
                todo.append(i)
        if not todo:
            break
    return [posts[i] for i in range(len(cores))]


def _together(
    statistics: Statistics, cores: list[tuple[float, float]], tones: list[Array]
) -> list[Array]:
    """The tones of all cores at their joint maximum on all streams, or as they are where there is none nearby."""
    best = joint_fit(statistics, np.concatenate(tones))
    if best is None:
        return tones
    moved = [inside(best, core) for core in cores]
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
