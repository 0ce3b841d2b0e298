"""Units in which frequencies are shown: hertz with its prefixes, and cycles per hour, day or year.

Everything is computed in seconds and hertz; a unit is chosen where a person reads a number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "FREQUENCY_UNITS",
    "HERTZ",
    "TIME_UNITS",
    "FrequencyUnit",
    "duration_in_seconds",
    "frequency_unit",
    "natural_unit",
    "split_unit",
]

TIME_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "yr": 31_557_600.0}
"""Seconds in each unit of time; a year is 365.25 days."""
DURATION = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([a-z]*)", re.IGNORECASE)

NUMBER = r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?"
IN_HERTZ = re.compile(rf"(?<![\w.:])(?:({NUMBER})( to |–))?({NUMBER}) Hz\b")
"""A number of Hz, or a range, in a text."""


@dataclass(frozen=True)
class FrequencyUnit:
    """A unit of frequency."""

    name: str
    """As it is written behind a number."""
    hertz: float
    """What one of it is in Hz."""

    @property
    def factor(self) -> float:
        """What a number of Hz is multiplied by to be one of this unit."""
        return 1 / self.hertz

    def text(self, hertz: float, digits: int = 6) -> str:
        """A frequency in Hz in this unit, with some significant digits: 11.606 c/d."""
        return f"{hertz * self.factor:.{digits}g} {self.name}"

    def span(self, low: float, high: float, digits: int = 6) -> str:
        """Two frequencies in Hz in this unit, as a range: 5–7 c/d, −3 to 5 Hz."""
        between = " to " if low < 0 else "–"
        start = f"{low * self.factor:.{digits}g}{between}".replace("-", "−", 1 if low < 0 else 0)
        return start + self.text(high, digits).replace("-", "−", 1 if high < 0 else 0)

    def reword(self, words: str) -> str:
        """Words in which frequencies are given in Hz, such as those of a verdict, with them in this unit."""
        if self.name == "Hz":
            return words

        def shown(found: re.Match[str]) -> str:
            start = "" if found[1] is None else f"{float(found[1]) * self.factor:.5g}{found[2]}"
            return start + self.text(float(found[3]), 5)

        return IN_HERTZ.sub(shown, words)


HERTZ = FrequencyUnit("Hz", 1.0)
FREQUENCY_UNITS = {
    unit.name: unit
    for unit in (
        FrequencyUnit("GHz", 1e9),
        FrequencyUnit("MHz", 1e6),
        FrequencyUnit("kHz", 1e3),
        HERTZ,
        FrequencyUnit("mHz", 1e-3),
        FrequencyUnit("uHz", 1e-6),
        FrequencyUnit("nHz", 1e-9),
        FrequencyUnit("1/min", 1 / TIME_UNITS["min"]),
        FrequencyUnit("1/h", 1 / TIME_UNITS["h"]),
        FrequencyUnit("1/d", 1 / TIME_UNITS["d"]),
        FrequencyUnit("c/d", 1 / TIME_UNITS["d"]),
        FrequencyUnit("1/yr", 1 / TIME_UNITS["yr"]),
    )
}
"""Every unit by its name."""
OTHER_SPELLINGS = {"µHz": "uHz", "μHz": "uHz", "cpd": "c/d", "cph": "1/h", "1/y": "1/yr"}
NATURAL = {"h": "1/h", "d": "c/d", "yr": "1/yr"}
"""The unit in which people who write times in hours, days or years read frequencies."""


def frequency_unit(name: str) -> FrequencyUnit:
    """The unit of a name, such as "c/d".

    Args:
        name: One of `FREQUENCY_UNITS`, or another spelling of one.
    """
    unit = FREQUENCY_UNITS.get(OTHER_SPELLINGS.get(name, name))
    if unit is None:
        raise ValueError(
            f"expected a unit of frequency, one of {', '.join(FREQUENCY_UNITS)}, received {name!r}."
        )
    return unit


def split_unit(text: str) -> tuple[str, FrequencyUnit]:
    """What stands before a unit of frequency at the end of a text, and that unit; Hz if there is none.

    Cycles per day are written ``7c/d``, ``7/d`` or ``7 1/d``; a digit right before a 1 would belong to the number.
    """
    text = text.strip()
    spellings = {name.removeprefix("1"): name for name in (*FREQUENCY_UNITS, *OTHER_SPELLINGS)}
    for spelling in sorted(spellings, key=len, reverse=True):  # mHz before Hz
        if text.endswith(spelling):
            before, name = text.removesuffix(spelling), spellings[spelling]
            if name.startswith("1") and before.endswith(" 1"):
                before = before.removesuffix("1")
            return before.strip(), frequency_unit(name)
    return text, HERTZ


def natural_unit(time_unit: str) -> FrequencyUnit:
    """The unit in which frequencies are shown of data whose times came in a unit: c/d for days, else mostly Hz."""
    return FREQUENCY_UNITS[NATURAL.get(time_unit, HERTZ.name)]


def duration_in_seconds(text: str) -> float | None:
    """Seconds in a time such as "12.5", "3 h" or "1990.5yr"; None if the text is none."""
    found = DURATION.fullmatch(text.strip())
    if found is None or (found[2] or "s") not in TIME_UNITS:
        return None
    return float(found[1]) * TIME_UNITS[found[2] or "s"]
