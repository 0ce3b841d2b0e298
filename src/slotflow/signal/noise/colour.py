r"""Is what remains white? Tests of a series without its lines.

- **cumulative**: the largest distance between the cumulative periodogram and a straight line (Kolmogorov), bins beside
  lines left out.
- **lags**: correlations of neighbouring samples, ρ_l. Of n white samples without m lines they have the mean
  −(3/n) Σ cos 2πf_m l and the variance 1/n; the first one is tested alone, and the first `LAGS` together (χ²). At odd
  times, neighbours are the next samples, whatever their distance.
- **band**: the mean power inside the band against that outside, both sums of exponentials (F).
- **lowest**: the lowest 1/32 of the spectrum against the rest (F).

`looks_white` is a quick first look for even real series, whose lines are not taken off but left out: bins above
`QUICK_PEAK` times the median and their neighbours. It costs one transform, and what it passes needs no further thought.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from slotflow.core.arrays import Array
from slotflow.signal.noise.background import LEAKED, OUTSIDE
from slotflow.signal.noise.lines import Line
from slotflow.signal.noise.series import OVERSAMPLING, Series

__all__ = ["Whiteness", "looks_white", "shape_test", "whiteness_of"]

Bounds = tuple[float, float]

LAGS = 12
"""Lags that are tested together."""
BESIDE_LINE = 1.6
"""Bins on either side of a line that are left out."""
QUICK_PEAK = 8.0
"""Power over the median from which on a bin is left out by the quick look."""
QUICK_P = 0.02
"""Smallest p-value of a quick look that calls noise white."""
CROWDED_RUN = 64
"""So many bins in a row that are left out are no lines."""
LOWEST_BINS = 16
"""Bins from 0 Hz on of which a quick look leaves out one line at most."""
GUARD_BINS = 12
"""Bins beside the band that belong to neither side."""


@dataclass(frozen=True)
class Whiteness:
    """What tests of whiteness found."""

    p_value: float
    """Of the worst test, times the number of tests."""
    first_lag: float
    """Correlation of neighbouring samples."""
    words: str
    """The worst test in words."""


def whiteness_of(
    series: Series, lines: Sequence[Line] = (), band: Bounds | None = None, outside: bool = False
) -> Whiteness:
    """Tests whether a series without its lines is white noise.

    Args:
        series: What remains, whitened if a filter is to be judged.
        lines: What was taken off.
        band: Frequencies in Hz that are compared with the others; None if there is no such comparison.
        outside: Whether only what lies outside the band is tested, because tones are left in it.
    """
    if outside:
        tests = _spectrum_tests(series, lines, band, outside=True)
    else:
        tests = [*_lag_tests(series, lines), *_spectrum_tests(series, lines, band)]
    first_lag = _correlations(series, lines, 1)[0]
    if not tests:
        return Whiteness(1.0, first_lag, f"{series.n} samples are too few for a test")
    p, words = min(tests)
    return Whiteness(min(p * len(tests), 1.0), first_lag, words)


def shape_test(
    series: Series, shape: Callable[[Array], Array], lines: Sequence[Line] = ()
) -> float:
    """P-value of a spectrum's shape: whether the Hann periodogram over it is that of white noise.

    Args:
        series: What remains without lines.
        shape: The power at frequencies in Hz, up to a factor.
        lines: What was taken off.
    """
    f, power = series.spectrum()
    f, power = f[:: 2 * OVERSAMPLING], power[:: 2 * OVERSAMPLING]  # nearly independent
    kept = np.abs(f) * series.duration > 0.75
    for line in lines:
        kept &= np.abs(f - line.frequency) * series.duration > 2.5
    order = np.argsort(np.abs(f[kept]), kind="stable")
    white = (power[kept] / shape(f[kept]))[order]
    if len(white) < 24:
        return 1.0
    return min(2 * min(_kolmogorov(white), _lowest(white)), 1.0)


def looks_white(series: Series, band: Bounds) -> bool:
    """Whether a quick look at an even real series finds white noise, with lines or without.

    Args:
        series: The samples less their nuisances.
        band: Frequencies in Hz that may be full of lines; they are compared with the others by their median.
    """
    if (
        series.n < 256
        or not series.joined[1:].all()
        or series.is_complex
        or series.errors is not None
    ):
        return False
    spectrum = np.fft.rfft(series.values)
    hann = spectrum[1:-1] - 0.5 * (spectrum[:-2] + spectrum[2:])
    power = hann.real**2 + hann.imag**2
    bins = np.arange(1, len(power) + 1)
    high = power > QUICK_PEAK * np.median(power)
    left_out = ndimage.binary_dilation(high, iterations=2)
    low, high_edge = band[0] * series.duration, band[1] * series.duration
    inside = (bins >= low) & (bins <= high_edge)
    near = (bins > low - GUARD_BINS) & (bins < high_edge + GUARD_BINS)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], left_out, [0]])))
    crowded = len(edges) > 0 and np.diff(edges)[::2].max() >= CROWDED_RUN
    slow = left_out & ~(near & (low > LOWEST_BINS)) if near.mean() > 0.5 else left_out & ~near
    away = np.maximum(np.maximum(low - bins, bins - high_edge), 1.0)
    leaked = power / max(float(np.median(power)), 1e-300) * math.log(2) / (math.pi * away) ** 2
    beside = high & (away > OUTSIDE)
    if crowded or slow[:LOWEST_BINS].sum() > 5 or (leaked[beside] > LEAKED).any():
        return False
    alone = bins % 2 == 0  # Hann bins at a distance of two are nearly independent
    outside, inner = power[~near & ~left_out & alone], power[inside & ~left_out]
    if len(outside) < 64:
        outside, inner = power[~left_out & alone], power[:0]
    if len(outside) < 64 or min(_kolmogorov(outside), _lowest(outside)) < QUICK_P:
        return False
    if len(inner) < 8:
        return len(inner) == inside.sum() or not len(inner)
    ratio = math.log(float(np.median(inner) / np.median(outside)))
    return abs(ratio) < max(3 / math.sqrt(0.25 * len(inner)), 0.25)


def _correlations(series: Series, lines: Sequence[Line], lags: int) -> Array:
    """Correlations of neighbouring samples, with what lines took away put back, (lags,)."""
    values = series.values if series.errors is None else series.values / series.errors
    power = max(float((np.abs(values) ** 2).mean()), 1e-300)
    follows = series.joined if series.can_be_filtered else np.ones(series.n, dtype=bool)
    valid: NDArray[np.bool_] = np.ones(series.n, dtype=bool)
    found = []
    for lag in range(1, lags + 1):
        valid = valid[1:] & follows[lag:]
        pairs = (values[lag:] * values[:-lag].conj()).real[valid]
        f = np.array([line.frequency for line in lines])
        taken = 3 / series.n * float(np.cos(2 * math.pi * f * lag * series.step).sum())
        found.append(float(pairs.mean()) / power + taken if len(pairs) else 0.0)
    return np.array(found)


def _lag_tests(series: Series, lines: Sequence[Line]) -> list[tuple[float, str]]:
    """Tests of the correlations of neighbours: p-values with words."""
    lags = min(LAGS, series.n // 8)
    if lags < 1 or series.n < 3 * len(lines) + 16:
        return []
    rho = _correlations(series, lines, lags)
    n = (2 if series.is_complex else 1) * series.n * float(series.joined[1:].mean())
    if not series.can_be_filtered:
        rho, n = rho[:1], (2.0 if series.is_complex else 1.0) * series.n
    score = rho * math.sqrt(max(n, 1.0))
    tests = [
        (
            float(special.erfc(abs(score[0]) / math.sqrt(2))),
            f"neighbouring samples correlate with {rho[0]:+.2f}",
        )
    ]
    if len(score) > 1:
        together = float((score**2).sum())
        largest = int(np.argmax(np.abs(rho)))
        which = f"samples {largest + 1} steps apart" if largest else "neighbouring samples"
        words = f"{which} correlate with {rho[largest]:+.2f}"
        tests.append((float(special.chdtrc(len(score), together)), words))
    return tests


def _spectrum_tests(
    series: Series, lines: Sequence[Line], band: Bounds | None, outside: bool = False
) -> list[tuple[float, str]]:
    """Tests of the periodogram, or of what lies outside the band alone: p-values with words."""
    f, power = series.spectrum(tapered=False)
    f, power = f[::OVERSAMPLING], power[::OVERSAMPLING]
    kept = np.abs(f) * series.duration > 0.75
    if not series.is_complex:
        kept &= f < series.nyquist - 0.5 / series.duration
    for line in lines:
        kept &= np.abs(f - line.frequency) * series.duration > BESIDE_LINE
    if outside and band is not None:
        guard = 0.5 * GUARD_BINS / series.duration
        kept &= (f < band[0] - guard) | (f > band[1] + guard)
        band = None
    f, power = f[kept], power[kept]
    if len(power) < 24 or not (series.joined[1:].all() or series.n > 64):
        return []
    share = power.cumsum() / power.sum()
    off = float(np.abs(share - np.arange(1, len(share) + 1) / len(share)).max())
    tests = [(_kolmogorov(power), f"the cumulative spectrum is off by {off:.2f}")]
    order = np.argsort(np.abs(f), kind="stable")
    low = power[order][: max(len(power) // 32, 4)].mean() / power.mean()
    tests.append((_lowest(power[order]), f"the lowest frequencies hold {low:.1f} times the power"))
    if band is not None:
        inside = (f >= band[0]) & (f <= band[1])
        if min(inside.sum(), (~inside).sum()) >= 8:
            ratio = power[inside].mean() / power[~inside].mean()
            words = f"the band holds {ratio:.2f} times the power elsewhere"
            tests.append((_two_levels(power, inside), words))
    return tests


def _kolmogorov(power: Array) -> float:
    """P-value of the largest distance between cumulative powers, (m,), and a straight line."""
    m = len(power)
    share = power.cumsum()[:-1] / max(float(power.sum()), 1e-300)
    distance = float(np.abs(share - np.arange(1, m) / m).max())
    root = math.sqrt(m - 1)
    return float(special.kolmogorov(distance * (root + 0.12 + 0.11 / root)))


def _lowest(power: Array) -> float:
    """P-value of the mean power of the lowest bins against the others, powers in rising order of frequency."""
    inside = np.arange(len(power)) < max(len(power) // 32, 4)
    return _two_levels(power, inside)


def _two_levels(power: Array, inside: NDArray[np.bool_]) -> float:
    """Two-sided p-value of the ratio of mean powers of exponentials inside and outside."""
    a, b = int(inside.sum()), int((~inside).sum())
    if min(a, b) == 0:
        return 1.0
    ratio = float(power[inside].mean() / max(float(power[~inside].mean()), 1e-300))
    low, high = special.fdtr(2 * a, 2 * b, ratio), special.fdtrc(2 * a, 2 * b, ratio)
    return float(min(2 * min(low, high), 1.0))
