"""Numbers, limits and the state of the data in words, for the terminal and for reports."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from slotflow.data.observation import Observation
from slotflow.data.preprocess import describe
from slotflow.signal.prior import Prior

__all__ = [
    "data_notes",
    "data_warnings",
    "evidence_words",
    "fill_warnings",
    "limit_words",
    "measured",
    "number",
    "ratio_words",
]

ROUNDING = 1e-14
"""An uncertainty of so small a share of its value is that of the arithmetic: all draws are the same."""
FEWEST_CYCLES = 10
"""A short stream with fewer cycles of a tone cannot tell an offset from it."""


def measured(value: float, sd: float) -> str:
    """A value and its uncertainty with two digits of the latter: 2.526053 ± 0.000033; alone if that is but rounding."""
    if sd <= ROUNDING * abs(value):
        return f"{value:.6g}"
    return f"{number(value, sd)} ± {number(sd, sd)}"


def number(value: float, sd: float) -> str:
    """A value to two digits of its uncertainty; with an exponent where decimals would not do."""
    if not (math.isfinite(sd) and sd > 0):
        return f"{value:.4f}"
    place = 1 - math.floor(math.log10(sd))
    if 0 <= place <= 9:
        return f"{value:.{place}f}"
    size = math.floor(math.log10(abs(value))) if value else -place
    return f"{value:.{max(size + place, 1)}e}"


def evidence_words(value: float, error: float) -> str:
    """Ln Z and its standard error: −5982.43 ± 0.02; the value alone where the error is not known."""
    text = f"{value:.2f}".replace("-", "−")
    if not math.isfinite(error):
        return text
    return f"{text} ± {error:.2f}" if error >= 0.005 else f"{text} (standard error < 0.01)"


def ratio_words(value: float, best: float, error: float) -> str:
    """Ln Z less that of the most probable K; ≲ where it is a limit, empty where one of them is not known."""
    if not (math.isfinite(value) and math.isfinite(best)):
        return ""
    sign = "" if math.isfinite(error) else "≲ "
    return sign + f"{value - best:+.1f}".replace("-", "−")


def limit_words(limit: dict[str, Any], unit: str) -> str:
    """The upper limits in words."""
    best, median, worst = (f"{limit[name]:.3g}" for name in ("best", "median", "worst"))
    unit = f" {unit}" if unit else ""
    return (
        f"A lone tone's amplitude would be below {median}{unit} ({100 * limit['credibility']:g} %, median over the "
        f"band; {best} at {limit['best_frequency']:.5g} Hz to {worst} at {limit['worst_frequency']:.5g} Hz)"
    )


def data_notes(obs: Observation) -> list[str]:
    """What the reader assumed and did, in words; of the short stream, what the long one's notes do not say."""
    notes = list(obs.long.notes)
    other = () if obs.short is None else obs.short.notes
    return notes + [f"short stream: {note}" for note in other if note not in notes]


def fill_warnings(obs: Observation) -> list[str]:
    """What to say beside a result that rests on filled samples; of each stream that has some."""
    return [
        name + describe(stream).warnings[0]
        for name, stream in zip(("", "short stream: "), obs.channels, strict=False)
        if stream.filled
    ]


def data_warnings(obs: Observation, prior: Prior) -> list[str]:
    """Offsets and trends that noise does not explain, with what to do about them.

    Args:
        obs: The data.
        prior: Says where tones may lie.
    """
    found = []
    for name, stream in zip(("", "short stream: "), obs.channels, strict=False):
        if stream is obs.long or prior.frequency[0] * stream.duration >= FEWEST_CYCLES:
            facts = dataclasses.replace(describe(stream), filled=())
            found += [name + text for text in facts.warnings]
    return found
