"""The verdict on a result: exact, approximate or misfit, and why, in words.

The data are called a misfit if the smallest p-value of the m tests of the residual (`whiteness.py`) is below
false_alarm/m, which bounds the rate of false alarms of all tests together. Draws are called exact if their weights can
be trusted, enough of them are effective and p(K | x) is known; anything else is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotflow.data.observation import Observation
from slotflow.posterior.whiteness import Check, check_residual, peak_probability
from slotflow.signal.prior import Prior

__all__ = [
    "Check",
    "Verdict",
    "check_residual",
    "ess_words",
    "judge",
    "peak_probability",
    "unlikely_amplitude",
]


FALSE_ALARM = 1e-3
"""Rate of misfits among data that the model describes."""
AMORTIZED = "amortized only, not checked against the likelihood"
"""Why the network's answer alone is approximate."""


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
    false_alarm: float = FALSE_ALARM,
    budget: str = "",
    unsampled: str = AMORTIZED,
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
        unsampled: The reason if the likelihood was not sampled.
    """
    limit = false_alarm / max(len(checks), 1)
    broken = [c for c in checks if c.p_value < limit]
    checks = tuple(checks)
    note = f"; {budget}" if budget else ""
    if broken:
        reason = "the tones do not explain the data: " + "; ".join(c.words for c in broken[:3])
        if {"peak in the band", "level"} & {c.name for c in broken}:
            if at_k_max > 0.5:
                reason += f"; there may be more tones than K_max (p(K = K_max) = {at_k_max:.2f})"
            elif refined:
                reason += "; no further tone that the prior allows (amplitude, separation) would"
        if not refined and unsampled:
            reason += f"; {unsampled}"
        return Verdict("misfit", reason + note, checks)
    if not refined:
        return Verdict("approximate", unsampled + note, checks)
    if any(c.name == "rounding" for c in checks):
        return Verdict(
            "approximate",
            f"{checks[0].words}: σ sits at its floor, which widths and evidence depend on; ESS per draw "
            + ess_words(ess)
            + note,
            checks,
        )
    if not (pareto_k < 0.7):
        return Verdict(
            "approximate",
            f"the weights have a heavy tail (Pareto k = {pareto_k:.2f}), ESS per draw {ess_words(ess)}"
            + note,
            checks,
        )
    if ess < smallest_ess:
        return Verdict(
            "approximate",
            f"the ESS per draw is {ess_words(ess)}, below {smallest_ess:g}" + note,
            checks,
        )
    if k_error > 0.05:
        return Verdict("approximate", f"p(K | x) is uncertain by {k_error:.2f}" + note, checks)
    return Verdict(
        "exact", f"ESS per draw {ess_words(ess)}, the residual is white noise" + note, checks
    )


def ess_words(ess: float) -> str:
    """An effective share of draws, with more digits where two decimals would read as zero: 0.97, 0.020, 0.0004."""
    if ess <= 0:
        return "0 (no draw has any weight)"
    if ess >= 0.1:
        return f"{ess:.2f}"
    return f"{ess:.3f}" if ess >= 1e-3 else f"{ess:.1g}"


def unlikely_amplitude(observation: Observation, prior: Prior) -> str:
    """A complaint about amplitude bounds that the band's spectrum contradicts; empty where it does not.

    A lone tone's peak is as high as its amplitude; a few unresolved ones may add up to more, hence the factor 3.
    """
    stream = observation.long
    low, high = (round(edge * stream.duration) for edge in prior.frequency)
    spectrum = np.abs(np.fft.rfft(stream.values, 2 * stream.n))[2 * low : 2 * high + 1]
    peak = 2 / stream.n * float(spectrum.max(initial=0))
    level, _ = observation.noise_level(prior.frequency)
    floor = 0.0 if math.isnan(level) else 5 * level * math.sqrt(2 / stream.n)
    smallest, largest = prior.amplitude
    if peak > 3 * largest:
        where = "above"
    elif floor < peak < smallest / 3:
        where = "below"
    else:
        return ""
    return (
        f"the strongest peak in the band has the amplitude {peak:.3g}, {where} the assumed "
        f"{smallest:g}–{largest:g}"
    )
