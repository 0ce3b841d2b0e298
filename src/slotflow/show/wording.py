"""Numbers, limits, the answer and the state of the data in words, for the terminal, for pictures and for reports."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.data.observation import Observation
from slotflow.data.preprocess import describe
from slotflow.signal.prior import Prior

if TYPE_CHECKING:
    from slotflow.posterior.facts import Facts

__all__ = [
    "ROUNDING_SHARE",
    "chance",
    "data_notes",
    "data_warnings",
    "evidence_words",
    "fill_warnings",
    "headline",
    "kind_words",
    "limit_words",
    "measured",
    "number",
    "ratio_words",
]

ROUNDING_SHARE = 1e-12
"""An uncertainty that is a smaller share of its value only reflects rounding: all draws are the same."""
FEWEST_CYCLES = 10
"""With fewer cycles of a tone, a short stream cannot tell an offset from the tone."""
MOST_DECIMALS, SMALLEST_PLAIN = 9, 1e-3
"""Decimals of a number that is written without an exponent, and the size from which on it may have more."""
LARGEST_PLAIN = 1e6
"""Number from which on one whose last digits mean nothing has an exponent."""
FEW_KINDS = 3
"""Numbers of components of each class that are told."""
NAMES = ("", "short stream: ")
"""What stands before words about the long and about the short stream."""


def measured(value: float, sd: float) -> str:
    """A value and two digits of its uncertainty: 2.526053 ± 0.000033; the value alone where that says nothing."""
    alone = number(value, sd)
    if not (math.isfinite(value) and _says_something(sd, value)):
        return alone
    return f"{alone} ± {number(sd, sd)}"


def number(value: float, sd: float) -> str:
    """A value to two digits of its uncertainty, or six digits of its own where that says nothing.

    It has an exponent only where it would take too many decimals or zeros without.
    """
    if not math.isfinite(value):  # a parameter that the component's class lacks
        return "–"
    if not _says_something(sd, value):
        return f"{value:z.6g}"
    place = 1 - math.floor(math.log10(sd))
    if 0 <= place <= MOST_DECIMALS or (place > 0 and abs(value) >= SMALLEST_PLAIN):
        return f"{value:z.{place}f}"
    if round(value, place) == 0:
        return "0"
    if place < 0 and max(abs(value), sd) < LARGEST_PLAIN:
        return f"{round(value, place):.0f}"
    size = math.floor(math.log10(abs(value)))
    return f"{value:.{max(size + place, 0)}e}"


def _says_something(sd: float, value: float) -> bool:
    """Whether an uncertainty is known, and larger than what rounding makes of equal draws."""
    return math.isfinite(sd) and sd > ROUNDING_SHARE * abs(value)


def chance(p: float, digits: int = 3) -> str:
    """A probability with some digits, never rounded to certainty: 0.909, 0.9996, > 0.9999 or < 0.001."""
    last = 10.0**-digits
    if p < last / 2:
        return f"< {last:.{digits}f}"
    if p < 1 - last / 2:
        return f"{p:.{digits}f}"
    last /= 10
    return f"> {1 - last:.{digits + 1}f}" if p >= 1 - last / 2 else f"{p:.{digits + 1}f}"


def kind_words(kinds: Sequence[tuple[str, float]]) -> str:
    """The most probable numbers of components of each class: "2 chirp, 2 damped (0.992); 3 chirp (0.008)"."""
    return "; ".join(f"{name} ({chance(p)})" for name, p in kinds[:FEW_KINDS])


def headline(post: Facts, digits: int = 3) -> str:
    """The answer in one line: how many components, and how probable; a misfit has no probability worth printing.

    Args:
        post: The posterior.
        digits: Of the probability.
    """
    k, verdict = post.k_map, post.verdict
    count = f"{k} component{'' if k == 1 else 's'}"
    if verdict.status == "misfit":
        stands = 0 if verdict.standing is None else sum(verdict.standing.stands)
        which = (
            "which stands"
            if k == 1
            else f"{'all' if stands == k else stands} of which stand{'s' * (stands == 1)}"
        )
        some = f", {which}" if stands else ""
        return f"{count} at best{some}, but the data are not explained"
    if verdict.unexamined:
        missing = list(verdict.unexamined)
        others = ", ".join(str(j) for j in missing)
        p = chance(float(post.k_probs[k] / (1 - post.k_probs[missing].sum())), digits)
        was = "was" if len(missing) == 1 else "were"
        return f"{count} (probability {p} among what was looked at; K = {others} {was} not)"
    return f"{count} (probability {chance(float(post.k_probs[k]), digits)})"


def evidence_words(value: float, error: float) -> str:
    """Ln Z and its standard error: −5982.43 ± 0.02; the value alone where it is a bound."""
    text = f"{value:.2f}".replace("-", "−")
    if math.isnan(error):
        return f"{text} (approximate, without a standard error)"
    if math.isinf(error):
        return text
    return f"{text} ± {error:.2f}" if error >= 0.005 else f"{text} (standard error < 0.01)"


def ratio_words(value: float, best: float, error: float) -> str:
    """Ln Z less that of the most probable K; ≲ where it is a limit, empty where one of the two is not known."""
    if not (math.isfinite(value) and math.isfinite(best)):
        return ""
    sign = "≲ " if math.isinf(error) else ""
    return sign + f"{value - best:+.1f}".replace("-", "−")


def limit_words(limit: dict[str, Any], unit: str, frequency: FrequencyUnit = HERTZ) -> str:
    """The upper limits in words.

    Args:
        limit: What `UpperLimit.record` gives.
        unit: Of the amplitudes.
        frequency: Of the frequencies.
    """
    best, median, worst = (f"{limit[name]:.3g}" for name in ("best", "median", "worst"))
    unit = f" {unit}" if unit else ""
    return (
        f"A lone tone's amplitude would be below {median}{unit} ({100 * limit['credibility']:g} %, median over the "
        f"band; {best} at {frequency.text(limit['best_frequency'], 5)} to {worst} at "
        f"{frequency.text(limit['worst_frequency'], 5)})"
    )


def data_notes(obs: Observation) -> list[str]:
    """What the reader assumed and did, in words; notes of the short stream that the long one shares appear once."""
    notes = list(obs.long.notes)
    other = () if obs.short is None else obs.short.notes
    return notes + [f"{NAMES[1]}{note}" for note in other if note not in notes]


def fill_warnings(obs: Observation) -> list[str]:
    """What to say beside a result that rests on filled samples, for each stream that has some."""
    return [
        name + describe(channel).warnings[0]
        for name, channel in zip(NAMES, obs.channels, strict=False)
        if channel.filled
    ]


def data_warnings(obs: Observation, prior: Prior) -> list[str]:
    """Offsets and trends that neither noise explains nor the likelihood integrates out, with what to do about them.

    Args:
        obs: The data.
        prior: Says where tones may lie.
    """
    found = []
    for name, channel in zip(NAMES, obs.channels, strict=False):
        if channel is obs.long or prior.frequency[0] * channel.duration >= FEWEST_CYCLES:
            facts = dataclasses.replace(describe(channel), filled=())
            if channel.trend > 0:
                facts = dataclasses.replace(facts, trend_sigmas=0.0, offset_sigmas=0.0)
            found += [name + text for text in facts.warnings]
    return found
