"""Numbers on pictures that can be read: SI prefixes, powers of ten, hours and days."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.show.prefixes import power_of_ten, readable, scale
from slotflow.signal.waveforms.base import DATA_UNIT, Parameter

if TYPE_CHECKING:
    from matplotlib.axis import Axis

__all__ = [
    "clock",
    "figures",
    "frequency_scale",
    "near",
    "quantity",
    "readable",
    "rounded",
    "scale",
    "shown_in",
    "symbol_of",
    "texts",
    "tick_in",
    "title_of",
    "with_unit",
]

Float = NDArray[np.float64]

MOST_DECIMALS = 6
"""With more decimals, a standard deviation stands in brackets, in units of the value's last digit."""
LONG_UNITS = ((86_400.0, "d"), (3600.0, "h"))
"""Units of time for stretches of at least three of them and of more than 10,000 s."""
TURN = 2 * np.pi
MATHTEXT = {"φ": r"\phi", "ḟ": r"\dot{f}", "f̈": r"\ddot{f}"}
"""Symbols that mathtext draws better by their commands."""


def frequency_scale(largest: float, unit: FrequencyUnit) -> tuple[float, str]:
    """A factor and a unit for frequencies up to a largest one in Hz: a stated unit, or Hz with a fitting prefix."""
    if unit.name == HERTZ.name:
        return readable(largest, unit.name)
    return unit.factor, unit.name


def shown_in(parameter: Parameter, unit: FrequencyUnit, data_unit: str) -> tuple[float, str, str]:
    """How to show a parameter: a factor, a unit that takes prefixes, and one that does not; one of them is empty."""
    if parameter.unit == DATA_UNIT:
        return 1.0, "", data_unit
    if parameter.unit == HERTZ.name and unit.name != HERTZ.name:
        return unit.factor, "", unit.name
    return 1.0, parameter.unit, ""


def quantity(value: float, unit: str) -> str:
    """A value with a readable unit: 3.33 mHz; 999.7 mHz are 1 Hz."""
    value = float(f"{value:.3g}")
    factor, prefix = scale(value / 2, unit)
    return f"{factor * value:.3g} {prefix}"


def figures(value: float) -> str:
    """A value with three significant figures, an exponent written as a power of ten."""
    text, _, power = f"{value:#.3g}".partition("e")
    return f"{text} × {power_of_ten(int(power))}" if power else text.rstrip(".")


def clock(seconds: float) -> tuple[float, str]:
    """A factor and a unit for a stretch of time: µs, ms or s up to 10,000 s, hours or days beyond."""
    if seconds > 1e4:
        return next(
            ((1 / size, name) for size, name in LONG_UNITS if seconds >= 3 * size), (1.0, "s")
        )
    return readable(seconds, "s")


def near(angle: Any, centre: Any) -> Any:
    """Angles within half a turn of a centre; same shape as the angles."""
    return (angle - centre + np.pi) % TURN - np.pi + centre


def symbol_of(parameter: Parameter, j: int) -> str:
    """The symbol of a parameter of component j, counted from 0, as mathtext writes it."""
    symbol, _, of = parameter.symbol.partition("_")
    index = f"{j + 1}"
    if of:  # mathtext would read some letters of a channel's name as commands
        index = f"\\mathrm{{{re.sub(r'[^A-Za-z0-9,.+-]', ' ', of)}}}, {index}"
    for letter, command in MATHTEXT.items():
        symbol = symbol.replace(letter, command)
    return f"${symbol}_{{{index}}}$"


def title_of(parameter: Parameter) -> str:
    """The name of a parameter as a title: "Amplitude", "Phase B"."""
    name = parameter.name.replace("_", " ")
    return name[:1].upper() + name[1:]


def with_unit(name: str, *units: str) -> str:
    """A name with its unit in brackets, such as x(t) [10⁻³ mV]; the name alone if there is no unit."""
    known = " ".join(unit for unit in units if unit)
    return f"{name} [{known}]" if known else name


def tick_in(axis: Axis, factor: float) -> None:
    """Puts the ticks of an axis at round numbers of a unit in which its values are larger by a factor."""
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
        prefixed: Whether the unit takes prefixes; otherwise a power of ten stands before it.
    """
    factor, prefix = readable(float(np.abs(values).max()), unit if prefixed else "")
    found = [rounded(factor * x, factor * sd) for x, sd in zip(values, sds, strict=True)]
    behind = f" {unit}" if unit else ""
    if prefix.startswith("$"):
        return [f"({text}) × {prefix}{behind}" for text in found]
    if prefix.startswith("10"):  # of an inverse unit: 10⁻³/s
        return [f"({text}) × {prefix}" for text in found]
    return [f"{text} {prefix}" if prefix else f"{text}{behind}" for text in found]


def rounded(value: float, sd: float) -> str:
    """A value with two digits of its standard deviation: 0.701 ± 0.010, or 3.00046183(36)."""
    if not sd > 0:
        return f"{value:.6g}".replace("-", "−")
    place = int(np.clip(1 - np.floor(np.log10(sd)), 0, 15))
    number = f"{value:.{place}f}".replace("-", "−")
    if place > MOST_DECIMALS:
        return f"{number}({10.0**place * sd:.0f})"
    return f"{number} ± {sd:.{place}f}"
