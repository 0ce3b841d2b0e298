r"""Tests of the residual in frequency: peaks, level, colour.

- **peak in the band**, **peak outside the band**: the highest one, in units of the noise.
- **level**: the mean power in the band, less what the fit took away, over that outside: an F law.
- **colour**: the largest distance between the cumulative periodogram and what white noise would give (Kolmogorov): of
  the frequencies outside the band where there are enough, of all of them otherwise. Each component has taken the
  power of its degrees of freedom from the bins around it.
- **low frequencies**: the lowest part of what lies outside against the rest (F).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slotflow.core.arrays import Array
from slotflow.posterior.whiteness.laws import Check, f_test, peak_probability
from slotflow.posterior.whiteness.left import Left

__all__ = ["Level", "colour_test", "height_outside", "lowest_of", "peaks", "spectrum_checks"]

GUARD = 12
"""Bins around the band that belong to neither side."""
FEWEST_OUTSIDE = 16
"""Bins outside the band that tell the noise level."""
FEWEST_FOR_COLOUR = 64
"""Bins outside the band that tell its colour."""
FEWEST_IN_ALL = 16
"""Bins in all that tell a colour where the band is all there is."""
REACH = 4
"""Bins around a component that its degrees of freedom are taken from."""
PADDING = 4
"""Frequencies per bin among which peaks are looked for."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Level:
    """The noise's mean power."""

    power: float
    """Of a real degree of freedom."""
    dof: float
    """Real degrees of freedom that it was found from."""
    outside: bool
    """Whether these are other ones than those that are compared with it."""

    def height(self, ratio: float) -> float:
        """The exponential variable that is as improbable as P/level, which is an F or a beta variable."""
        if self.outside:
            return float(height_outside(ratio, self.dof))
        share = 2 * ratio / self.dof
        return (0.5 * self.dof - 1) * -math.log1p(-share) if share < 1 else math.inf


def height_outside(ratio: Any, dof: float) -> Any:
    """The exponential variable that is as improbable as P over a level of so many other degrees of freedom."""
    return 0.5 * dof * np.log1p(2 * ratio / dof)


def spectrum_checks(left: Left, band: tuple[float, float]) -> list[Check]:
    """Tests of an even residual in frequency.

    Args:
        left: The residual.
        band: Frequencies in Hz that may hold components.
    """
    bins, (f, power) = left.bin, left.spectrum()
    inner, outer = _within(left, f, band, 0.0), ~_within(left, f, band, GUARD * bins)
    outer &= _apart_from_ends(left, f, 0.5 * bins)
    count_out = int(outer.sum())
    if count_out < FEWEST_OUTSIDE:  # the band is all there is
        level = Level(max(left.variance, 1e-300), left.dof, False)
    else:
        level = Level(max(float(power[outer].mean()), 1e-300), 2.0 * count_out, True)
    checks = peaks(left, band, level)
    taken = left.taken.dof[_within(left, left.taken.at, band, 0.0)].sum()
    dof = 2.0 * float(inner.sum()) - float(taken)
    if level.outside and dof > 8:
        ratio = float(2 * power[inner].sum() / dof / level.power)
        words = f"the residual's power in the band is {ratio:.2f} times that outside"
        checks.append(Check("level", f_test(ratio, dof, level.dof), words, size=ratio))
    if count_out >= FEWEST_FOR_COLOUR:
        return checks + _colour(power[outer], np.ones(count_out)) + _low(f[outer], power[outer])
    everywhere = _apart_from_ends(left, f, 0.5 * bins)
    if everywhere.sum() >= FEWEST_IN_ALL:
        checks += _colour(power[everywhere], _expected(left, f)[everywhere])
    return checks


def _within(left: Left, f: Array, band: tuple[float, float], edge: float) -> Mask:
    """Which frequencies lie in a band widened by an edge; of complex samples all are meant modulo the rate."""
    low, high = band[0] - edge, band[1] + edge
    if not left.is_complex or left.origin is not None:
        inside: Mask = (f >= low) & (f <= high)
        return inside
    rate = 2 * left.nyquist
    if high - low >= rate:
        return np.ones(len(f), dtype=bool)
    wrapped: Mask = np.mod(f - low, rate) <= np.mod(high - low, rate)
    return wrapped


def _apart_from_ends(left: Left, f: Array, edge: float) -> Mask:
    """Frequencies further than an edge from zero and, of real samples, from Nyquist's; all of a cut band."""
    if left.origin is not None:
        return np.ones(len(f), dtype=bool)
    away: Mask = np.abs(f) > edge
    return away if left.is_complex else away & (f < left.nyquist - edge)


def peaks(left: Left, band: tuple[float, float], level: Level) -> list[Check]:
    """Tests of the highest peaks in and outside the band."""
    bins, (f, power) = left.bin, left.spectrum(PADDING)
    wide = _apart_from_ends(left, f, 1.5 * bins)
    # What lies just beside the band counts as inside: tones there leak in and are no one else's.
    near = _within(left, f, band, GUARD * bins)
    found, checks = power / level.power, []
    for name, where in (("peak in the band", near & wide), ("peak outside the band", ~near & wide)):
        if where.sum() < 8:
            continue
        top = int(np.argmax(np.where(where, found, 0.0)))
        beside = near[top] and not _within(left, f[top : top + 1], band, bins)[0]
        place = "peak just beside the band" if beside else name
        height = float(_top(found, top))
        p = peak_probability(level.height(height), where.sum() / PADDING * left.sharpness)
        words = f"a {place} at {f[top]:.5g} Hz, {height:.1f} times the noise"
        checks.append(Check(name, p, words, frequency=float(f[top]), size=height))
    return checks


def _top(power: Array, top: int) -> float:
    """Height of a peak by a parabola through three points."""
    if not 0 < top < len(power) - 1:
        return float(power[top])
    a, b, c = power[top - 1 : top + 2]
    bend = a - 2 * b + c
    return float(b - (a - c) ** 2 / (8 * bend)) if bend < 0 else float(b)


def _expected(left: Left, f: Array) -> Array:
    """The share of white noise that the fit leaves in each bin, (F,)."""
    share, origin = np.ones(len(f)), left.origin or 0.0
    for place, dof in zip(left.taken.at + origin, left.taken.dof, strict=True):
        around = np.argsort(np.abs(f - place))[:REACH]
        share[around] -= 0.5 * dof / REACH
    return np.maximum(share, 0.05)


def _colour(power: Array, expected: Array) -> list[Check]:
    """The cumulative periodogram against that of white noise."""
    cumulative, straight = np.cumsum(power) / power.sum(), np.cumsum(expected) / expected.sum()
    distance = float(np.abs(cumulative - straight)[:-1].max())
    p = float(colour_test(distance, float(expected.sum())))
    words = f"the noise is not white (cumulative spectrum off by {distance:.3f})"
    return [Check("colour", p, words)]


def colour_test(distance: Any, m: float) -> Any:
    """P-value of the largest distance of the cumulative spectrum of m frequencies from that of white noise."""
    return special.kolmogorov(distance * (math.sqrt(m - 1) + 0.12 + 0.11 / math.sqrt(m - 1)))


def _low(f: Array, power: Array) -> list[Check]:
    """The lowest frequencies outside the band against the others."""
    power = power[np.argsort(np.abs(f), kind="stable")]
    low = power[: lowest_of(len(power))]
    rest = power[len(low) :]
    ratio = float(low.mean() / rest.mean())
    p = f_test(ratio, 2 * len(low), 2 * len(rest))
    words = f"the lowest frequencies hold {ratio:.2f} times the other noise"
    return [Check("low frequencies", p, words)]


def lowest_of(count: int) -> int:
    """How many of some frequencies are the lowest ones."""
    return max(count // 32, 8)
