r"""Bands wider than the model's window: overlapping windows, analysed one after the other.

**Cores and guards.** The band is cut into cores of at most `CORES[0]` bins of 1/T. A core is analysed together with
`GUARD` bins on either side, and only tones whose frequency lies in the core are kept: each tone belongs to one window.
Tones in the guard are free parameters there too, so that a pair on both sides of a border is fitted jointly. Borders
move, by at most `SHIFT` bins, to the middle of the widest gap between tones.

**Neighbours.** A tone farther from the core than the guard (less a strip of `STRIP` bins, in which none is left) is
subtracted before the window is analysed, at its best fit in the window that owns it. The network alone sweeps over the
windows, looking at the long stream, until the tones stay the same; then the exact step runs, on both streams. What a
correction δ(t) of the subtracted tones leaks into a window is max |2/N Σ δ e^{−2πift}| there; a window into which more
than `LEAK` standard errors of an amplitude, σ√(2/N), would leak is analysed again, and so is one that was called a
misfit before its neighbours' last corrections.

**Number of tones.** The stated prior, p(K) included, holds for each window; `band_posterior.py` says how the windows'
answers are put together.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.band_posterior import GUARD, STRIP, BandPosterior, Window, inside, without
from slotflow.posterior import CentredSlots, Posterior
from slotflow.priors import Prior
from slotflow.streams import Observation

if TYPE_CHECKING:
    from slotflow.model import SlotFlow
    from slotflow.zoom import ZoomSlotFlow

__all__ = ["BandPosterior", "Window", "infer_band", "is_wide"]

SHIFT = 10.0
"""Largest way of a border to the widest gap, in bins."""
CORES = (90.0, 45.0, 22.0)
"""Widest core in bins; the next one is tried where a window shows as many tones as its prior allows."""
SWEEPS = 5
"""Most sweeps of the network."""
EXACT_SWEEPS = 3
"""Most rounds of the exact step."""
STILL = 0.1
"""Largest change of a frequency, in bins, between sweeps that count as the same."""
LEAK = 0.2
"""Largest leakage of a correction that does no harm, in standard errors of an amplitude."""

Array = NDArray[np.float64]


def is_wide(model: SlotFlow, observation: Observation, prior: Prior) -> bool:
    """Whether a prior's band is wider than the model's window, and the model one that can be moved."""
    from slotflow.zoom import ZoomSlotFlow

    if not isinstance(model, ZoomSlotFlow):
        return False
    low, high = prior.frequency
    return (high - low) * observation.long.duration > model.sizes.bins * (1 + 1e-9)


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

        post = model.infer_band(observation, Prior(k_min=0, frequency=(1.0, 4.0)))
        print(post.verdict, post.k_map, post.summary())
        [window.posterior.verdict for window in post.windows]

    Args:
        model: One that takes any band (`zoom`).
        observation: What was measured.
        prior: The prior; its band may have any width, and its p(K) is that of each window, K = 0 among them.
        refine: As in `SlotFlow.infer`.
        **options: Further keywords of `SlotFlow.infer`; a time budget is that of one window.
    """
    from slotflow.zoom import ZoomSlotFlow

    if not isinstance(model, ZoomSlotFlow):
        raise ValueError(
            f"expected a model for any band such as 'zoom', received {model.config.name!r}, which knows that of its "
            "training alone; use SlotFlow.from_pretrained()."
        )
    if prior.k_max > model.k_max:
        raise ValueError(
            f"the model {model.config.name!r} knows up to {model.k_max} components in a window, the prior has k_max = "
            f"{prior.k_max}; lower it: it is that of each window."
        )
    duration = observation.long.duration
    low, high = prior.frequency
    if high > observation.long.nyquist:
        raise ValueError(
            f"expected a band below the Nyquist frequency of {observation.long.nyquist:g} Hz, received "
            f"{low:g}–{high:g} Hz; lower the prior's frequency range or sample faster."
        )
    if prior.k_min > 0:
        raise ValueError(
            f"a band of {(high - low) * duration:.0f} bins of 1/T is analysed in windows, any of which may be empty: "
            f"expected k_min = 0, received {prior.k_min}; lower it, or narrow the band to {model.sizes.bins} bins."
        )
    search = {name: options[name] for name in options.keys() - {"draws", "max_seconds"}}
    for core in CORES:
        borders, tones, posts = _search(model, Observation(observation.long), prior, core, search)
        if all(post.k_map < prior.k_max for post in posts):
            break
    if refine:
        posts = _refine(model, observation, prior, borders, tones, options)
    windows = tuple(
        Window((float(a), float(b)), post, _best(post))
        for (a, b), post in zip(itertools.pairwise(borders), posts, strict=True)
    )
    return BandPosterior(observation, prior, windows)


def _search(
    model: ZoomSlotFlow, obs: Observation, prior: Prior, core: float, options: dict[str, Any]
) -> tuple[Array, list[Array], list[Posterior]]:
    """Sweeps of the network: the borders (W + 1,), the tones of each core and the windows' posteriors."""
    low, high = prior.frequency
    duration = obs.long.duration
    number = math.ceil((high - low) * duration / core)
    nominal = np.linspace(low, high, number + 1)
    borders, tones = nominal.copy(), [np.zeros((0, 3)) for _ in range(number)]
    posts: list[Posterior] = []
    power = np.abs(np.fft.rfft(obs.long.values - obs.long.values.mean()))
    places = np.fft.rfftfreq(obs.long.n, obs.long.dt)
    peaks = [
        power[(places >= a) & (places <= b)].max(initial=0.0)
        for a, b in itertools.pairwise(borders)
    ]
    order = np.argsort(-np.array(peaks), kind="stable")  # what leaks most comes first
    for _ in range(SWEEPS):
        before = np.concatenate(tones)
        found: dict[int, Posterior] = {}
        for i in order:
            view = _window_view(obs, prior, borders, tones, int(i))
            found[int(i)] = post = model.infer(view[0], refine=False, prior=view[1], **options)
            tones[i] = inside(_best(post), (borders[i], borders[i + 1]))
        posts = [found[i] for i in range(number)]
        after = np.concatenate(tones)
        moved = _at_gaps(nominal, after[:, 2], SHIFT / duration)
        same = len(after) == len(before) and bool(
            (np.abs(after[:, 2] - before[:, 2]) * duration < STILL).all()
        )
        if same and np.allclose(moved, borders, rtol=0, atol=STILL / duration):
            break
        borders = moved
        tones = [inside(after, (a, b)) for a, b in itertools.pairwise(borders)]
    return borders, tones, posts


def _refine(
    model: ZoomSlotFlow,
    obs: Observation,
    prior: Prior,
    borders: Array,
    tones: list[Array],
    options: dict[str, Any],
) -> list[Posterior]:
    """The exact step on every window, again where the neighbours' fits have changed."""
    number = len(tones)
    posts: list[Posterior | None] = [None] * number
    views: list[Observation] = [obs] * number
    todo = list(range(number))
    for _ in range(EXACT_SWEEPS):
        for i in todo:
            views[i], window = _window_view(obs, prior, borders, tones, i)
            posts[i] = post = model.infer(views[i], prior=window, **options)
            tones[i] = inside(_best(post), (borders[i], borders[i + 1]))
        todo = []
        for i, post in enumerate(posts):
            assert post is not None
            now, window = _window_view(obs, prior, borders, tones, i)
            delta = now.long.values - views[i].long.values
            first, last = (round(edge * obs.long.duration) for edge in window.frequency)
            leak = np.abs(np.fft.rfft(delta))[first : last + 1].max(initial=0.0)
            noise = post.noise_std * math.sqrt(2 / obs.long.n)
            outdated = post.verdict.status == "misfit" and bool(delta.any())
            if outdated or 2 / obs.long.n * leak > LEAK * noise:
                todo.append(i)
        if not todo:
            break
    return [post for post in posts if post is not None]


def _window_view(
    obs: Observation, prior: Prior, borders: Array, tones: list[Array], i: int
) -> tuple[Observation, Prior]:
    """What window i is asked: the data without the tones far from its core, and the prior of core and guard."""
    duration = obs.long.duration
    low, high = prior.frequency
    a, b = borders[i], borders[i + 1]
    reach = (GUARD - STRIP) / duration
    others = np.concatenate([t for j, t in enumerate(tones) if j != i] or [np.zeros((0, 3))])
    far = others[(others[:, 2] < a - reach) | (others[:, 2] > b + reach)]
    edges = max(low, a - GUARD / duration), min(high, b + GUARD / duration)
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


def _best(post: Posterior) -> Array:
    """(A, φ, f) of the most probable number of tones, (k, 3)."""
    k = post.k_map
    orders = getattr(post, "orders", None)
    if orders is not None and k in orders.fits:
        return np.asarray(orders.fits[k]).reshape(-1, 3)
    if isinstance(post.slots, CentredSlots):
        return post.slots.centres(k).reshape(-1, 3)
    draws = post.sample(200, k)
    middle: Array = np.median(draws, axis=0).reshape(k, 3)
    middle[:, 1] = np.angle(np.exp(1j * draws[..., 1]).mean(0))
    return middle
