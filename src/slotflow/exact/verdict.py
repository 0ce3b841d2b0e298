"""The verdict on a result: exact, approximate or misfit, and why, in words.

The data are called a misfit if the smallest p-value of the m tests of the residual (`whiteness.py`) is below
false_alarm/m, which bounds the rate of false alarms of all tests together. Draws are called exact if their weights can
be trusted, enough of them are effective and p(K | x) is known; anything else is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slotflow.exact.whiteness import Check, check_residual, peak_probability

__all__ = ["Check", "Verdict", "check_residual", "judge", "peak_probability"]


@dataclass(frozen=True)
class Verdict:
    """How far a result can be trusted."""

    status: str
    """"exact", "approximate" or "misfit"."""
    reason: str
    """Why, in words."""
    checks: tuple[Check, ...] = ()
    """The tests of the residual, the most deviant first."""

    def __str__(self) -> str:
        return f"{self.status}: {self.reason}"


def judge(
    checks: Sequence[Check],
    *,
    refined: bool,
    ess: float = 0.0,
    pareto_k: float = math.inf,
    k_error: float = 0.0,
    at_k_max: float = 0.0,
    smallest_ess: float = 0.1,
    false_alarm: float = 1e-3,
    budget: str = "",
) -> Verdict:
    """The verdict on a result.

    Args:
        checks: Of `check_residual`.
        refined: Whether the likelihood was sampled at all.
        ess: Effective share of the draws of the most probable K.
        pareto_k: Shape of their weights' tail; 0 for tempered draws that kept their budget.
        k_error: Standard error of the largest p(K | x).
        at_k_max: p(K = K_max | x).
        smallest_ess: Share below which draws are called approximate.
        false_alarm: Rate of misfits among data that the model describes.
        budget: What the result says about its time, added to the reason if not empty.
    """
    limit = false_alarm / max(len(checks), 1)
    broken = [c for c in checks if c.p_value < limit]
    checks = tuple(checks)
    note = f"; {budget}" if budget else ""
    if broken:
        reason = "the tones do not explain the data: " + "; ".join(c.words for c in broken[:3])
        if at_k_max > 0.5 and broken[0].name == "peak in the band":
            reason += f"; there may be more tones than K_max (p(K = K_max) = {at_k_max:.2f})"
        return Verdict("misfit", reason + note, checks)
    if not refined:
        return Verdict("approximate", "amortized only, not checked by sampling" + note, checks)
    if not (pareto_k < 0.7):
        return Verdict(
            "approximate",
            f"the weights have a heavy tail (Pareto k = {pareto_k:.2f}), ESS per draw {ess:.3f}"
            + note,
            checks,
        )
    if ess < smallest_ess:
        return Verdict(
            "approximate", f"the ESS per draw is {ess:.3f}, below {smallest_ess:g}" + note, checks
        )
    if k_error > 0.05:
        return Verdict("approximate", f"p(K | x) is uncertain by {k_error:.2f}" + note, checks)
    return Verdict("exact", f"ESS per draw {ess:.2f}, the residual is white noise" + note, checks)
