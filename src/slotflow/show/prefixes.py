"""Units in which numbers can be read: with an SI prefix, or with a power of ten before them."""

from __future__ import annotations

import numpy as np

__all__ = ["power_of_ten", "readable", "scale"]

PREFIXES = dict(zip(range(-8, 9), (*"yzafpnµm", "", *"kMGTPEZY"), strict=True))
"""Names of the powers of 1,000."""
PLAIN_RANGE = (0.01, 1e5)
"""If the largest of several values lies in this range, they need no prefix."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
INVERSE = "1/"
"""How units begin that have nothing to put a prefix to."""


def power_of_ten(exponent: int) -> str:
    """A power of ten: 10⁻³."""
    return f"10{str(exponent).translate(SUPERSCRIPTS)}"


def scale(width: float, unit: str) -> tuple[float, str]:
    """A factor of a power of 1,000 that makes a width readable, and the unit then.

    3e-5 Hz give (1e6, "µHz"), 2e-3 1/s give (1e3, "10⁻³/s"). A power without a unit is mathtext, as pictures write it.
    """
    if not width > 0:
        return 1.0, unit
    power = int(np.floor(np.log10(2 * width) / 3))
    if not unit:
        return 10.0 ** (-3 * power), "" if power == 0 else f"$10^{{{3 * power}}}$"
    if unit.startswith(INVERSE):
        named = f"{power_of_ten(3 * power)}{unit.removeprefix('1')}" if power else unit
        return 10.0 ** (-3 * power), named
    power = min(max(power, min(PREFIXES)), max(PREFIXES))
    return 10.0 ** (-3 * power), PREFIXES[power] + unit


def readable(largest: float, unit: str) -> tuple[float, str]:
    """A factor and a unit for values up to a largest one: the unit itself if they can be read in it, or `scale`."""
    return (1.0, unit) if PLAIN_RANGE[0] <= largest < PLAIN_RANGE[1] else scale(largest / 2, unit)
