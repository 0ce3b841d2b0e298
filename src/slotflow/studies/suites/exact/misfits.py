r"""Data that sums of tones in white noise do not explain, made from data that they do.

Every kind adds Δ to a nominal signal x = s + σε, with the matched-filter SNR ‖Δ‖/σ = 20 over the long stream. The short
stream gets the same disturbance on its own instants.

- **chirp**: a tone in the band whose frequency drifts by 5 bins 1/T over the series, cos(2π(f₀u + ½ru²) + φ), u = t −
  T/2;
- **outside**: a tone between 0.1 Hz and Nyquist − 0.1 Hz, at least one bin outside the band;
- **red**: Gaussian noise of power ∝ 1/f², a sum of waves of frequencies m/2T;
- **gap**: 5 % of T, anywhere, set to zero;
- **clipped**: each stream cut at ±1.5 times its root mean square.

The tones of x can still be found beside a tone outside the band and in red noise, if the noise is taken as it is in the
band. Such an answer is as good as the word "misfit", and `ANSWERABLE` kinds are judged by both.

A gap and clipping take something away from x, noise included. Their Δ cannot be scaled; the noise level σ is chosen
instead, so that ‖Δ‖/σ = 20. With many tones such a σ would be above the prior's largest, so there are `MOST_TONES` at
most; where it still is, σ is the largest that the prior allows, and the SNR is above 20. A single tone
never reaches 1.5 times its root mean square, so clipped signals have two tones at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.signal.model import noise_free
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation, simulate

__all__ = ["ANSWERABLE", "KINDS", "Misfit", "misfit"]

KINDS = ("chirp", "outside", "red", "gap", "clipped")
"""The kinds of misfit."""
ANSWERABLE = ("outside", "red")
"""Kinds whose tones can be answered rightly all the same, under noise that need not be white outside the band."""
MISFIT_SNR = 20.0
"""‖Δ‖/σ over the long stream."""
CHIRP_BINS = 5.0
"""Bins that a chirp crosses."""
GAP_SHARE = 0.05
"""Share of T that is lost."""
CLIP_LEVEL = 1.5
"""Level of clipping in units of the root mean square."""
MOST_TONES = 5
"""Tones at most where σ follows from Δ."""
RED_WAVES = 400
"""Waves of the red noise."""


class Misfit(NamedTuple):
    """A signal of a kind."""

    observation: Observation
    snr: float
    """‖Δ‖/σ over the long stream."""
    components: Array
    """The tones of x, (K, P)."""
    sigma: float
    """Level of the white noise in x."""


def misfit(kind: str, prior: Prior, grids: tuple[Grid, Grid | None], seed: int) -> Misfit:
    """One signal of a kind.

    Args:
        kind: One of `KINDS`.
        prior: Prior of the signal underneath.
        grids: Sampling of the long and the short stream.
        seed: The same seed gives the same signal.
    """
    if kind not in KINDS:
        raise ValueError(f"expected a misfit of {', '.join(KINDS)}, received {kind!r}.")
    rng = np.random.default_rng([seed % 2**63, KINDS.index(kind)])
    present = [grid for grid in grids if grid is not None]
    if kind in ADDED:
        sim = simulate(prior, 1, *grids, mode="physical", seed=seed)
        wave = ADDED[kind](rng, prior, present[0])
        added = [wave(grid.times) for grid in present]
        scale = MISFIT_SNR * float(sim.sigma) / float(np.linalg.norm(added[0]))
        series = [x + scale * y for x, y in zip(_series(sim), added, strict=True)]
        data = _observation(series, present)
        return Misfit(data, MISFIT_SNR, sim.components(0), float(sim.sigma))
    least = max(prior.k_min, 1 if kind == "gap" else 2)
    most = max(min(prior.k_max, MOST_TONES), least)
    sim = simulate(
        replace(prior, k_min=least, k_max=most, k_probs=None), 1, *grids, mode="physical", seed=seed
    )
    start = rng.uniform(0, 1 - GAP_SHARE) * present[0].duration
    change = _clip if kind == "clipped" else _gap(start, GAP_SHARE * present[0].duration)
    return _taken_away(sim, present, change, prior.sigma)


def _taken_away(
    sim: Simulation,
    grids: list[Grid],
    change: Callable[[Array, Grid], Array],
    sigma: tuple[float, float],
) -> Misfit:
    """A signal under a change, with the noise level at which what the change takes away has the SNR that is wanted.

    Args:
        sim: One signal.
        grids: Sampling of its streams.
        change: What happens to the data of a stream.
        sigma: Smallest and largest noise level.
    """
    clean = [noise_free(sim.components(0), grid) for grid in grids]
    noise = [(x - s) / float(sim.sigma) for x, s in zip(_series(sim), clean, strict=True)]

    def excess(level: float) -> float:
        x = clean[0] + level * noise[0]
        return float(np.linalg.norm(change(x, grids[0]) - x)) / level - MISFIT_SNR

    level = _solve(excess, max(sigma[0], 1e-3 * sigma[1]), sigma[1])
    data = [s + level * e for s, e in zip(clean, noise, strict=True)]
    changed = _observation([change(x, grid) for x, grid in zip(data, grids, strict=True)], grids)
    return Misfit(changed, excess(level) + MISFIT_SNR, sim.components(0), level)


def _series(sim: Simulation) -> list[Array]:
    """The data of the streams of one signal, (N,) each."""
    return [x[0].double().numpy() for x in (sim.long, sim.short) if x is not None]


def _observation(series: list[Array], grids: list[Grid]) -> Observation:
    streams = [Channel(x, grid.dt, grid.t0) for x, grid in zip(series, grids, strict=True)]
    return Observation(*streams)


# ---------------------------------------------------------------------- what is added: t, (N,), to a wave, (N,)


def _chirp(rng: np.random.Generator, prior: Prior, grid: Grid) -> Callable[[Array], Array]:
    low, high = prior.frequency
    half = 0.5 * CHIRP_BINS / grid.duration
    middle, phase = rng.uniform(low + half, high - half), rng.uniform(0, 2 * math.pi)
    rate = rng.choice([-1.0, 1.0]) * CHIRP_BINS / grid.duration**2
    centre = grid.t0 + 0.5 * grid.duration

    def wave(t: Array) -> Array:
        u = t - centre
        turns = np.remainder(middle * u + 0.5 * rate * u**2, 1.0)
        chirp: Array = np.cos(2 * math.pi * turns + phase)
        return chirp

    return wave


def _outside(rng: np.random.Generator, prior: Prior, grid: Grid) -> Callable[[Array], Array]:
    low, high = prior.frequency
    bins, nyquist = 1 / grid.duration, 0.5 / grid.dt
    below = max(low - bins - 0.1, 0.0)
    above = max(nyquist - 0.1 - high - bins, 0.0)
    place = rng.uniform(0, below + above)
    f = 0.1 + place if place < below else high + bins + place - below
    phase = rng.uniform(0, 2 * math.pi)
    return lambda t: np.cos(2 * math.pi * np.remainder(f * t, 1.0) + phase)


def _red(rng: np.random.Generator, prior: Prior, grid: Grid) -> Callable[[Array], Array]:
    number = np.arange(1, RED_WAVES + 1)
    f = number / (2 * grid.duration)
    c = (rng.standard_normal(RED_WAVES) + 1j * rng.standard_normal(RED_WAVES)) / number

    def wave(t: Array) -> Array:
        total = np.zeros(len(t))
        for frequency, weight in zip(f, c, strict=True):
            angle = 2 * math.pi * frequency * t
            total += weight.real * np.cos(angle) - weight.imag * np.sin(angle)
        return total

    return wave


ADDED = {"chirp": _chirp, "outside": _outside, "red": _red}
"""The kinds that add a wave, and what makes it."""


# ---------------------------------------------------------------------- what is taken away


def _gap(start: float, length: float) -> Callable[[Array, Grid], Array]:
    def change(x: Array, grid: Grid) -> Array:
        t = grid.times
        return np.where((t >= start) & (t < start + length), 0.0, x)

    return change


def _clip(x: Array, grid: Grid) -> Array:
    level = CLIP_LEVEL * math.sqrt(float(np.mean(x**2)))
    clipped: Array = np.clip(x, -level, level)
    return clipped


def _solve(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function vanishes, by bisection in the logarithm; the nearer end if it does not."""
    if excess(high) >= 0:
        return high
    if excess(low) <= 0:
        return low
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
