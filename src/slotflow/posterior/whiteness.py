r"""Does the model explain the data? Tests of what it leaves.

The residual of K tones that explain the data is white Gaussian noise of one level. Each test has a p-value under that
hypothesis; the verdict (`verdict.py`) compares the smallest of the m p-values with false_alarm/m.

- **peak**: the largest peak of the residual's periodogram P(f)/σ² in the band, z. Of noise P/σ² is exponential at one
  frequency; over a band W the highest of many peaks follows 1 − (1 − e^{−z}) exp(−W T_e √z e^{−z}), T_e = T√(π/3)
  (Baluev 2008, for a rectangular window). The same outside the band: a tone there leaks in.
- **level**: the residual's mean power in the band, less what K tones took away, over that outside. Both are sums of
  exponentials, so the ratio has an F law.
- **colour**: the largest distance between the cumulative periodogram outside the band and a straight line
  (Kolmogorov), and the spectrum's lowest part against the rest (F).
- **steadiness**: the residual's power in pieces of the time series: the sum over pieces of the squared deviations, and
  the most deviant piece; χ² laws. A gap filled with zeros leaves the model's own power behind; a burst adds power.
- **shape**: the residual's third and fourth moments, each turned into a standard normal variable (skewness:
  D'Agostino 1970; kurtosis: Anscombe and Glynn 1983).
- **repeats**: so many samples in a row of exactly the same value, or so many equal to the largest or the smallest one,
  do not occur in continuous noise; they do where data are missing or clipped.
- **constant**: a stream of one value only is no measurement, and no other test is made.
- **streams**: the noise level of the short stream's residual against that of the long one (F).
- **stated level**: instead of that, where the noise level is known, the power of each stream's residual against it:
  RSS_s/σ_s² is a χ² variable of n_s degrees of freedom, less the stream's share of the 3K parameters. If nothing is
  left but rounding, this test alone is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Statistics

__all__ = ["Check", "check_residual", "peak_probability"]

GUARD = 12
"""Bins around the band that belong to neither side."""
PIECES = (10, 40)
"""Numbers of pieces into which the time series is cut."""
ROUNDING = 3e-6
"""A residual of this size, in units of the data, is no noise but rounding."""
RUN = 6
"""So many equal samples in a row are no noise."""
LEVELS = 64
"""Data of fewer distinct values are coarse, and repeats in them mean nothing."""


@dataclass(frozen=True)
class Check:
    """One test of the residual."""

    name: str
    """Which test."""
    p_value: float
    """Probability of so large a deviation if the residual were white noise."""
    words: str
    """What was found, in words."""


def check_residual(
    statistics: Statistics,
    theta: Array,
    band: tuple[float, float],
    sigma: float | None = None,
) -> tuple[Check, ...]:
    """Tests whether the data minus some tones are white noise.

    Args:
        statistics: Of one signal.
        theta: The tones (A, φ, f), (K, 3): the best fit of the largest plausible K.
        band: Frequencies in Hz that may hold tones.
        sigma: Noise level, if it is known.

    Returns:
        The checks, the smallest p-value first.
    """
    theta = np.asarray(theta, dtype=np.float64).reshape(-1, statistics.waveform.size)
    z = statistics.to_z(theta)
    rests = statistics.residuals(z)
    grid, rest = statistics.grids[0], rests[0]
    named = list(zip(("long", "short"), statistics.folded, statistics.grids, strict=False))
    for name, folded, g in named:
        if np.ptp(folded[0].numpy().reshape(-1)[: g.n]) == 0:
            return (Check("constant", 0.0, f"the {name} stream is constant"),)
    data = math.sqrt(float(statistics.energy) / statistics.n)
    stated = [] if sigma is None else _stated_level(rests, len(z) + statistics.removed, sigma)
    if float(np.sqrt(np.mean(rest**2))) <= ROUNDING * data:
        rounding = Check("rounding", 1.0, "nothing is left of the data but rounding")
        return tuple(sorted(stated, key=lambda c: c.p_value)) or (rounding,)
    checks = stated + _spectrum(rest, grid.dt, band, len(z))
    for name, values in zip(("long", "short"), rests, strict=False):
        checks += _steadiness(values, name) + _shape(values, name)
    for name, folded, g in named:
        checks.append(_repeats(folded[0].numpy().reshape(-1)[: g.n], name))
    if sigma is None and len(rests) > 1:
        checks.append(_streams(rests, len(z)))
    return tuple(sorted(checks, key=lambda c: c.p_value))


def peak_probability(z: float, bins: float) -> float:
    """P(largest peak of a noise periodogram > z) over a range of `bins` = W T independent frequencies."""
    z = min(z, 700.0)
    single = math.exp(-z)
    rate = bins * math.sqrt(math.pi / 3) * math.sqrt(max(z, 0.0)) * single
    return float(-math.expm1(math.log1p(-min(single, 1 - 1e-16)) - rate))


def _spectrum(rest: Array, dt: float, band: tuple[float, float], k: int) -> list[Check]:
    """Tests of the long stream's residual in frequency."""
    n = len(rest)
    bins, checks = 1 / (n * dt), []
    fine = 4 * n
    f_fine = np.fft.rfftfreq(fine, dt)
    spectrum = np.abs(np.fft.rfft(rest, fine)) ** 2 / n
    f, power = np.fft.rfftfreq(n, dt), spectrum[::4][: n // 2 + 1]
    inner = (f >= band[0]) & (f <= band[1])
    edge = GUARD * bins
    outer = (
        ((f < band[0] - edge) | (f > band[1] + edge))
        & (f > 0.5 * bins)
        & (f < 0.5 / dt - 0.5 * bins)
    )
    count_in, count_out = int(inner.sum()), int(outer.sum())
    if count_out < 16:  # the band is all there is
        level, dof_out = float(np.mean(rest**2)), math.inf
    else:
        level, dof_out = float(power[outer].mean()), 2.0 * count_out
    level = max(level, 1e-300)
    padded = spectrum / level
    wide = (f_fine > 1.5 * bins) & (f_fine < 0.5 / dt - 1.5 * bins)
    # What lies just beside the band counts as inside: tones there leak in and are no one else's.
    near = (f_fine >= band[0] - edge) & (f_fine <= band[1] + edge)
    for name, where in (("peak in the band", near & wide), ("peak outside the band", ~near & wide)):
        if where.sum() < 8:
            continue
        top = int(np.argmax(np.where(where, padded, 0.0)))
        height = float(_height(padded, top))
        if math.isfinite(dof_out):  # the noise level is an estimate: F instead of exponential
            height = 0.5 * dof_out * math.log1p(2 * height / dof_out)
        p = peak_probability(height, where.sum() / 4)
        beside = near[top] and not band[0] - bins <= f_fine[top] <= band[1] + bins
        place = "peak just beside the band" if beside else name
        checks.append(
            Check(name, p, f"a {place} at {f_fine[top]:.5g} Hz, {padded[top]:.1f} times the noise")
        )
    left = 2.0 * count_in - 3.0 * k
    if math.isfinite(dof_out) and left > 8:
        ratio = float(2 * power[inner].sum() / left / level)
        p = _f_test(ratio, left, dof_out)
        checks.append(
            Check("level", p, f"the residual's power in the band is {ratio:.2f} times that outside")
        )
    if count_out >= 64:
        cumulative = np.cumsum(power[outer]) / power[outer].sum()
        m = count_out
        distance = float(np.abs(cumulative[:-1] - np.arange(1, m) / m).max())
        p = float(
            special.kolmogorov(distance * (math.sqrt(m - 1) + 0.12 + 0.11 / math.sqrt(m - 1)))
        )
        checks.append(
            Check(
                "colour", p, f"the noise is not white (cumulative spectrum off by {distance:.3f})"
            )
        )
        low = power[outer][: max(m // 32, 8)]
        rest_power = power[outer][len(low) :]
        ratio = float(low.mean() / rest_power.mean())
        p = _f_test(ratio, 2 * len(low), 2 * len(rest_power))
        checks.append(
            Check(
                "low frequencies",
                p,
                f"the lowest frequencies hold {ratio:.2f} times the other noise",
            )
        )
    return checks


def _height(power: Array, top: int) -> float:
    """Height of a peak by a parabola through three points."""
    if not 0 < top < len(power) - 1:
        return float(power[top])
    a, b, c = power[top - 1 : top + 2]
    bend = a - 2 * b + c
    return float(b - (a - c) ** 2 / (8 * bend)) if bend < 0 else float(b)


def _steadiness(rest: Array, stream: str) -> list[Check]:
    """Tests of the residual's power over time."""
    checks = []
    n, square = len(rest), rest**2
    whole = max(float(square.sum()), 1e-300)
    for pieces in PIECES:
        if n < 16 * pieces:
            continue
        sizes = n // pieces + (np.arange(pieces) < n % pieces)  # as equal as can be
        sums = np.add.reduceat(square, np.cumsum(sizes) - sizes)
        share = sums / whole  # of a part: a beta variable
        low = special.betainc(0.5 * sizes, 0.5 * (n - sizes), share)
        high = special.betainc(0.5 * (n - sizes), 0.5 * sizes, 1 - share)
        p = np.minimum(2 * np.minimum(low, high), 1.0)
        worst = int(p.argmin())
        each = float(-math.expm1(pieces * math.log1p(-min(float(p[worst]), 1 - 1e-16))))
        factor = share[worst] * n / sizes[worst]
        checks.append(
            Check(
                f"steadiness ({stream}, {pieces})",
                each,
                f"the {stream} stream's residual has {factor:.2f} times its mean power in part {worst + 1} of {pieces}",
            )
        )
    return checks


def _shape(rest: Array, stream: str) -> list[Check]:
    """Skewness and kurtosis of the residual."""
    n = len(rest)
    spread = float(rest.std())
    if n < 200 or spread == 0:
        return []
    unit = (rest - rest.mean()) / spread
    square = unit * unit
    skewness, kurtosis = float((square * unit).mean()), float((square * square).mean()) - 3
    return [
        Check(
            f"kurtosis ({stream})",
            _normal_p(_kurtosis_score(kurtosis, n)),
            f"the {stream} stream's residual is not Gaussian (kurtosis {kurtosis:+.2f})",
        ),
        Check(
            f"skewness ({stream})",
            _normal_p(_skewness_score(skewness, n)),
            f"the {stream} stream's residual is not Gaussian (skewness {skewness:+.2f})",
        ),
    ]


def _repeats(values: Array, stream: str) -> Check:
    """Looks for samples that are exactly equal."""
    name = f"repeats ({stream})"
    distinct, counts = np.unique(values, return_counts=True)
    edges = np.flatnonzero(np.append(np.diff(values) != 0, True))
    longest = int(np.diff(np.insert(edges, 0, -1)).max())
    if longest >= RUN and len(distinct) > LEVELS:
        return Check(
            name, 0.0, f"the {stream} stream has {longest} equal samples in a row (a gap?)"
        )
    if len(distinct) > LEVELS:
        for i, next_one, word in ((0, 1, "smallest"), (-1, -2, "largest")):
            if counts[i] >= RUN and counts[i] >= 4 * counts[next_one]:
                return Check(
                    name,
                    0.0,
                    f"the {stream} stream has its {word} value {counts[i]} times (clipped?)",
                )
    return Check(name, 1.0, f"the {stream} stream has no suspicious repeats")


def _streams(rests: list[Array], k: int) -> Check:
    """Compares the noise levels of the streams' residuals."""
    first, second = rests[0], rests[1]
    dof = _degrees(rests, k)
    ratio = float((second**2).sum() / dof[1] / max((first**2).sum() / dof[0], 1e-300))
    p = _f_test(ratio, dof[1], dof[0])
    return Check(
        "streams", p, f"the short stream's noise power is {ratio:.2f} times the long one's"
    )


def _stated_level(rests: list[Array], k: int, sigma: float) -> list[Check]:
    """Compares each stream's residual, in units of its noise ratio, with the known noise level."""
    checks = []
    for name, rest, dof in zip(("long", "short"), rests, _degrees(rests, k), strict=False):
        if dof <= 0:  # more parameters than samples
            continue
        power = float((rest**2).sum()) / sigma**2
        low, high = special.chdtr(dof, power), special.chdtrc(dof, power)
        checks.append(
            Check(
                f"stated level ({name})",
                float(min(2 * min(low, high), 1.0)),
                f"the scatter of the {name} stream's residual is {math.sqrt(power / dof):.3g} times the stated level",
            )
        )
    return checks


def _degrees(rests: list[Array], k: int) -> list[float]:
    """Degrees of freedom of each stream's residual: all fix the k tones, and each gives up its share of 3k."""
    total = sum(len(rest) for rest in rests)
    return [len(rest) * (1 - 3.0 * k / total) for rest in rests]


def _f_test(ratio: float, dof: float, dof_below: float) -> float:
    """Two-sided p-value of a ratio of mean powers with so many degrees of freedom above and below."""
    low, high = special.fdtr(dof, dof_below, ratio), special.fdtrc(dof, dof_below, ratio)
    return float(min(2 * min(low, high), 1.0))


def _normal_p(score: float) -> float:
    """Two-sided p-value of a standard normal variable."""
    return float(special.erfc(abs(score) / math.sqrt(2)))


def _skewness_score(skewness: float, n: int) -> float:
    """A standard normal variable if the n values are Gaussian: an inverse hyperbolic sine of their skewness."""
    y = skewness * math.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    spread = 3.0 * (n * n + 27 * n - 70) * (n + 1) * (n + 3)
    spread /= (n - 2) * (n + 5) * (n + 7) * (n + 9)
    w = math.sqrt(2 * (spread - 1)) - 1
    return math.asinh(y * math.sqrt((w - 1) / 2)) / math.sqrt(0.5 * math.log(w))


def _kurtosis_score(kurtosis: float, n: int) -> float:
    """A standard normal variable if the n values are Gaussian: a cube root of their kurtosis, 0 on average."""
    variance = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    x = (kurtosis + 6 / (n + 1)) / math.sqrt(variance)
    skew = 6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9))
    skew *= math.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6 + 8 / skew * (2 / skew + math.sqrt(1 + 4 / skew**2))
    below = 1 + x * math.sqrt(2 / (a - 4))
    root = math.copysign(((1 - 2 / a) / max(abs(below), 1e-300)) ** (1 / 3), below)
    return (1 - 2 / (9 * a) - root) / math.sqrt(2 / (9 * a))
