"""A verdict on tones that names what may stand in for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from slotflow.posterior.alternative import CLASSES, Alternative
from slotflow.posterior.verdict import Verdict

__all__ = ["with_alternatives"]

LARGEST_POWER = 30
"""Power of ten above which odds are not told apart."""
NAMED = 3
"""Alternatives that a verdict names."""


def with_alternatives(verdict: Verdict, found: Sequence[Alternative]) -> Verdict:
    """A verdict that names what may stand in for tones; an exact one becomes approximate.

    Args:
        verdict: On the tones.
        found: What may stand in for them.
    """
    if not found:
        return verdict
    names = "; ".join(one.words for one in found[:NAMED])
    if len(found) > NAMED:
        names += f"; and {len(found) - NAMED} more"
    reason = f"perhaps {names}{_odds(float(found[0].log_odds))}{_remedy(found)}"
    exact = verdict.status == "exact"
    return replace(
        verdict,
        status="approximate" if exact else verdict.status,
        reason=f"{reason}; as tones: {verdict.reason}" if exact else f"{verdict.reason}; {reason}",
        alternatives=tuple(found),
    )


def _odds(log_odds: float) -> str:
    """Odds in words, where they favour the alternative."""
    power = log_odds / math.log(10)
    if power <= 0:
        return ""
    if power > LARGEST_POWER:
        return f": odds above 1e{LARGEST_POWER} : 1"
    rounded = f"{float(f'{10**power:.1g}'):g}".replace("e+0", "e").replace("e+", "e")
    return f": odds {rounded} : 1"


def _remedy(found: Sequence[Alternative]) -> str:
    """How to have the data analysed for what is named."""
    kinds = [kind for kind in CLASSES if any(one.kind == kind for one in found)]
    return f" (--classes tone,{','.join(kinds)})" if kinds else ""
