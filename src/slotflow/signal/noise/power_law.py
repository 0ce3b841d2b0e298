r"""Red noise above a white floor, S(f) = σ² (1 + (|f|/f_k)^{−α}), with unknown knee f_k and exponent α.

**Prior**: ln f_k uniform between 1/4T and Nyquist, α uniform between `EXPONENTS`; all channels share both, and each has
its own level relative to σ.

How a channel is made white for one value of them is in `red_whitening.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize

from slotflow.core.arrays import Array
from slotflow.signal.noise.model import NoiseModel, NoiseNode
from slotflow.signal.noise.quadrature import nodes_of
from slotflow.signal.noise.red_whitening import Shape, Whitener, red_power, whitener_of
from slotflow.signal.noise.series import Series

__all__ = ["EXPONENTS", "fitted_power_law", "likely_shape", "power_law_noise"]

EXPONENTS = (0.25, 4.0)
"""Bounds of α."""


def power_law_noise(
    versions: Sequence[Sequence[Series]], words: str = "", known: Shape | None = None
) -> NoiseModel:
    """Red noise on nodes over its knee and exponent.

    Args:
        versions: The series of each channel without lines, first the version that is most plausible.
        words: Why this noise.
        known: Knee in Hz and exponent, if they are.
    """
    return fitted_power_law(versions, words, known)[0]


def fitted_power_law(
    versions: Sequence[Sequence[Series]], words: str = "", known: Shape | None = None
) -> tuple[NoiseModel, float]:
    """The same and the logarithm of the evidence, on the scale on which white noise of n reals has −(n/2) ln Σx²."""
    first = versions[0]
    log_prior = _prior(first)
    shape = likely_shape(first) if known is None else known
    start = np.array([math.log(shape[0]), shape[1]])
    whiteners = [[whitener_of(series, shape) for series in version] for version in versions]
    ratios = _ratios(whiteners[0], shape)
    if known is None:

        def log_likelihood(x: Array) -> Array:
            at = math.exp(x[0]), float(x[1])
            return np.array([_log_likelihood(channels, at, ratios) for channels in whiteners])

        nodes = nodes_of(log_likelihood, log_prior, [start] * len(versions), _scale(first, shape))
        points, weights, evidence = nodes.points, nodes.log_weights, float(nodes.log_evidence()[0])
    else:
        points, weights = start[None], np.zeros(1)
        evidence = _log_likelihood(whiteners[0], shape, ratios)
    found = []
    for x, log_weight in zip(points, weights, strict=True):
        at = math.exp(x[0]), float(x[1])
        channels = tuple(w.noise(at, r) for w, r in zip(whiteners[0], ratios, strict=True))
        found.append(NoiseNode(channels, float(log_weight), at))
    model = NoiseModel("power_law", tuple(found), parameters=("knee", "exponent"), words=words)
    return model, evidence


def likely_shape(channels: Sequence[Series]) -> Shape:
    """Knee and exponent by a quick fit to the spectra of channels without lines."""
    start = _start(channels, _prior(channels))
    return math.exp(start[0]), float(start[1])


def _prior(channels: Sequence[Series]) -> Callable[[Array], float]:
    """Logarithm of the prior density of (ln f_k, α)."""
    low = math.log(0.25 / max(series.duration for series in channels))
    high = math.log(max(series.nyquist for series in channels))
    density = -math.log((high - low) * (EXPONENTS[1] - EXPONENTS[0]))

    def log_prior(x: Array) -> float:
        inside = low <= x[0] <= high and EXPONENTS[0] <= x[1] <= EXPONENTS[1]
        return density if inside else -math.inf

    return log_prior


def _ratios(whiteners: Sequence[Whitener], shape: Shape) -> list[float]:
    """Levels of the channels over that of the first."""
    levels = []
    for whitener in whiteners:
        rss, _, reals = whitener.quadratic(shape)
        levels.append(math.sqrt(max(rss, 1e-300) / reals))
    return [level / levels[0] for level in levels]


def _log_likelihood(whiteners: Sequence[Whitener], shape: Shape, ratios: Sequence[float]) -> float:
    """Logarithm of the likelihood with the level profiled, up to a constant."""
    total, n, log_scale = 0.0, 0, 0.0
    for whitener, ratio in zip(whiteners, ratios, strict=True):
        rss, half, reals = whitener.quadratic(shape)
        total += rss / ratio**2
        log_scale += half
        n += reals
    return -0.5 * n * math.log(max(total, 1e-300)) - log_scale


# ---------------------------------------------------------------------- where to begin


def _start(channels: Sequence[Series], log_prior: Callable[[Array], float]) -> Array:
    """Ln f_k and α where Whittle's approximation to the likelihood is largest, the level profiled, (2,)."""
    spectra = [_bins(series) for series in channels]

    def cost(x: Array) -> float:
        if not math.isfinite(log_prior(x)):
            return 1e30
        total = 0.0
        for f, power in spectra:
            s = 1 + red_power(f, math.exp(x[0]), float(x[1]))
            total += len(f) * math.log(float((power / s).mean())) + float(np.log(s).sum())
        return total

    low = 0.5 / max(series.duration for series in channels)
    high = 0.5 * max(series.nyquist for series in channels)
    knees = np.linspace(math.log(low), math.log(high), 10)
    guesses = [np.array([k, a]) for k in knees for a in (0.6, 1.2, 2.0, 3.0)]
    best = min(guesses, key=cost)
    found = optimize.minimize(
        cost, best, method="Nelder-Mead", options={"xatol": 0.02, "fatol": 0.1}
    )
    start: Array = found.x
    return start


def _bins(series: Series) -> tuple[Array, Array]:
    """Every fourth frequency of a tapered spectrum from 1/T on, and the power there, (F,) each."""
    f, power = series.spectrum()
    f, power = f[::4], np.maximum(power[::4], 1e-300)
    inner = np.abs(f) * series.duration > 0.9
    return f[inner], power[inner]


def _scale(channels: Sequence[Series], shape: Shape) -> Array:
    """Rough standard deviations of ln f_k and α."""
    knee, exponent = shape
    red = sum(min(3 * knee, s.nyquist) * s.duration for s in channels)
    red = max(red, 2.0)
    return np.array([min(1.5 / (exponent * math.sqrt(red)), 0.7), min(1.5 / math.sqrt(red), 0.7)])
