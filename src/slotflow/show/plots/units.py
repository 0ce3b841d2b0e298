"""Numbers on pictures that can be read: SI prefixes, powers of ten, hours and days."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axis import Axis

__all__ = [
    "clock",
    "figures",
    "quantity",
    "readable",
    "rounded",
    "scale",
    "texts",
    "tick_in",
    "with_unit",
]

Float = NDArray[np.float64]

PREFIXES = dict(zip(range(-8, 9), (*"yzafpnµm", "", *"kMGTPEZY"), strict=True))
"""Names of the powers of 1,000."""
PLAIN = (0.01, 1e5)
"""Range of the largest of several values within which they need no prefix."""
DECIMALS = 6
"""With more decimals than these a standard deviation stands in brackets, in units of the value's last digit."""
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
CLOCK = ((86_400.0, "d"), (3600.0, "h"))
"""Units of time for stretches of at least three of them and of more than 10,000 s."""


def scale(width: float, unit: str) -> tuple[float, str]:
    """A factor of a power of 1,000 that makes a width readable, and the unit then: 3e-5 Hz to (1e6, "µHz")."""
    if not width > 0:
        return 1.0, unit
    power = int(np.floor(np.log10(2 * width) / 3))
    if not unit:
        return 10.0 ** (-3 * power), "" if power == 0 else f"$10^{{{3 * power}}}$"
    power = min(max(power, min(PREFIXES)), max(PREFIXES))
    return 10.0 ** (-3 * power), PREFIXES[power] + unit


def readable(largest: float, unit: str) -> tuple[float, str]:
    """A factor and a unit for values up to a largest one: as they are if they can be read, else as of `scale`."""
    return (1.0, unit) if PLAIN[0] <= largest < PLAIN[1] else scale(largest / 2, unit)


def quantity(value: float, unit: str) -> str:
    """A value with a readable unit: 3.33 mHz; 999.7 mHz are 1 Hz."""
    value = float(f"{value:.3g}")
    factor, prefix = scale(value / 2, unit)
    return f"{factor * value:.3g} {prefix}"


def figures(value: float) -> str:
    """A value with three significant figures, an exponent written as a power of ten."""
    text, _, power = f"{value:#.3g}".partition("e")
    return f"{text} × 10{str(int(power)).translate(RAISED)}" if power else text.rstrip(".")


def clock(seconds: float) -> tuple[float, str]:
    """A factor and a unit for a stretch of time: seconds up to 10,000 s, then hours and days, else µs and the like."""
    if seconds > 1e4:
        return next(((1 / size, name) for size, name in CLOCK if seconds >= 3 * size), (1.0, "s"))
    return readable(seconds, "s")


def with_unit(name: str, *units: str) -> str:
    """A name with what stands in brackets behind it, nothing if there is nothing: x(t) [10⁻³ mV]."""
    known = " ".join(unit for unit in units if unit)
    return f"{name} [{known}]" if known else name


def tick_in(axis: Axis, factor: float) -> None:
    """Ticks of an axis whose ends are settled at round numbers of another unit, its values times the factor."""
    if factor == 1.0:
        return
    from matplotlib.ticker import MaxNLocator

    low, high = sorted(factor * np.asarray(axis.get_view_interval()))
    ticks = np.asarray(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    ticks = ticks[(ticks >= low - 1e-9 * (high - low)) & (ticks <= high + 1e-9 * (high - low))]
    step = np.abs(np.diff(ticks)).min(initial=high - low)
    places = next(
        n for n in range(17) if n == 16 or np.all(abs(ticks.round(n) - ticks) < 0.01 * step)
    )
    axis.set_ticks(ticks / factor, [f"{tick:.{places}f}".replace("-", "−") for tick in ticks])


def texts(values: Float, sds: Float, unit: str, *, prefixed: bool = True) -> list[str]:
    """Values with their standard deviations, all in one readable unit.

    Args:
        values: (K,).
        sds: (K,).
        unit: Empty if there is none.
        prefixed: Whether the unit takes prefixes; a power of ten stands before one that does not.
    """
    factor, prefix = readable(float(np.abs(values).max()), unit if prefixed else "")
    found = [rounded(factor * x, factor * sd) for x, sd in zip(values, sds, strict=True)]
    behind = f" {unit}" if unit else ""
    if prefix.startswith("$"):
        return [f"({text}) × {prefix}{behind}" for text in found]
    return [f"{text} {prefix}" if prefix else f"{text}{behind}" for text in found]


def rounded(value: float, sd: float) -> str:
    """A value and its standard deviation, with two digits of the latter: 0.701 ± 0.010, or 3.00046183(36)."""
    if not sd > 0:
        return f"{value:.6g}"
    place = int(np.clip(1 - np.floor(np.log10(sd)), 0, 15))
    if place > DECIMALS:
        return f"{value:.{place}f}({10.0**place * sd:.0f})"
    return f"{value:.{place}f} ± {sd:.{place}f}"
