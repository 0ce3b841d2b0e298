"""The verdict on a result: exact, approximate or misfit, and why, in words.

The data are called a misfit if the smallest p-value of the m tests of the residual (`whiteness`) is below
false_alarm/m, which bounds the rate of false alarms of all tests together. Draws are called exact if their weights
can be trusted, enough of them are effective and p(K | x) is known well; anything else is approximate. Only what was
tested is claimed: where a series is too short for some tests, the reason says so.

A misfit is graded: `standing` says which components stand all the same, and by how much their errors grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.data.trend import detrend
from slotflow.posterior.alternative import Alternative
from slotflow.posterior.standing import Standing, standing
from slotflow.posterior.whiteness import (
    Check,
    check_residual,
    colour_doubts,
    peak_probability,
)
from slotflow.signal.likelihood import GeneralTones, Likelihood
from slotflow.signal.prior import Prior

__all__ = [
    "FALSE_ALARM",
    "HEAVY_TAIL",
    "UNCERTAIN_K",
    "Check",
    "DrawQuality",
    "Verdict",
    "check_residual",
    "colour_doubts",
    "ess_words",
    "exact_words",
    "graded",
    "incomplete",
    "judge",
    "peak_probability",
    "residual_words",
    "unlikely_amplitude",
    "white_words",
]


FALSE_ALARM = 1e-3
"""Rate of misfits among data that the model describes."""
AMORTIZED = "amortized only, not checked against the likelihood"
"""Why the network's answer alone is approximate."""
HEAVY_TAIL = 0.7
"""Pareto k from which on importance weights cannot be trusted."""
UNCERTAIN_K = 0.05
"""Standard error of p(K | x) above which the number of components is called uncertain."""
NAMED_TESTS = 3
"""Failed tests that a verdict names."""
TOPICS = {
    "colour": ("neighbours", "lags", "colour"),
    "steadiness": ("steadiness",),
    "shape": ("kurtosis", "skewness"),
}
"""What tests are about, with the beginnings of their names, where it depends on the data whether they can be made."""


@dataclass(frozen=True)
class Verdict:
    """How far a result can be trusted."""

    status: str
    """"exact", "approximate" or "misfit"."""
    reason: str
    """Why, in words."""
    checks: Sequence[Check] = ()
    """The tests of the residual, the most deviant first."""
    standing: Standing | None = None
    """How the components of the most probable K stand, where the data are a misfit."""
    unexamined: tuple[int, ...] = ()
    """Numbers of components that matter and were not looked at: their probabilities are not the data's."""
    doubt: Check | None = None
    """The test of the noise's colour that alone keeps the result from being exact, if there is one."""
    alternatives: tuple[Alternative, ...] = ()
    """What may stand in for tones: components that drift, decay or are modulated."""

    def __str__(self) -> str:
        return f"{self.status}: {self.reason}" + (f"; {self.survives}" if self.survives else "")

    @property
    def inflation(self) -> tuple[float, ...]:
        """Factor for the errors of each component of the most probable K, in the order of their places; () for none."""
        return () if self.standing is None else self.standing.inflation

    @property
    def survives(self) -> str:
        """Which numbers of a misfit can be used, in words; empty for any other verdict."""
        return "" if self.standing is None else self.standing.words

    @property
    def grade(self) -> str:
        """What can be used: "all" of the numbers, all but "unconfirmed", only "components", or "nothing"."""
        if self.status != "misfit":
            return "all" if self.status == "exact" else "unconfirmed"
        stands = self.standing is not None and any(self.standing.stands)
        return "components" if stands else "nothing"

    @property
    def untested(self) -> tuple[str, ...]:
        """What could not be tested, of colour, steadiness and shape; all of them where nothing was tested."""
        names = tuple(check.name for check in self.checks)
        return tuple(
            topic
            for topic, tests in TOPICS.items()
            if not any(name.startswith(tests) for name in names)
        )


@dataclass(frozen=True)
class DrawQuality:
    """How good the draws of an answer are: of the most probable K, or of all K that matter."""

    ess: float
    """Their effective share, 0 to 1."""
    pareto_k: float = 0.0
    """Shape of their weights' tail; 0 for draws without weights and for tempered ones."""
    k_error: float = 0.0
    """Standard error of the largest p(K | x), or the largest standard error of any."""
    smallest_ess: float = 0.1
    """Effective share below which draws are called approximate."""


def judge(
    checks: Sequence[Check],
    draws: DrawQuality | None = None,
    *,
    at_k_max: float = 0.0,
    false_alarm: float = FALSE_ALARM,
    unsampled: str = AMORTIZED,
    tested: str = "the residual",
    doubts: Sequence[Check] = (),
) -> Verdict:
    """The verdict on a result.

    Args:
        checks: The tests of the residual, from `check_residual`.
        draws: How good the draws are; None if the likelihood was not sampled at all.
        at_k_max: p(K = K_max | x).
        false_alarm: Rate of misfits among data that the model describes.
        unsampled: The reason if the likelihood was not sampled.
        tested: What the tests have looked at, from `residual_words`.
        doubts: Tests that are no reason for a misfit but may be one for doubt, from `colour_doubts`.
    """
    checks = tuple(checks)
    limit = false_alarm / max(len(checks), 1)
    broken = [check for check in checks if check.p_value < limit]
    if broken:
        reason = _misfit(broken, at_k_max, sampled=draws is not None)
        if draws is None and unsampled:
            reason += f"; {unsampled}"
        return Verdict("misfit", reason, checks)
    if draws is None:
        return Verdict("approximate", unsampled, checks)
    if poor := _poor_draws(checks, draws):
        return Verdict("approximate", poor, checks)
    suspect = next((check for check in (*checks, *doubts) if check.p_value < check.doubt), None)
    if suspect is not None:
        reason = (
            f"perhaps {suspect.words} (p = {suspect.p_value:.1g}), which so many tones in so few samples may hide; "
            f"ESS per draw {ess_words(draws.ess)}"
        )
        return Verdict("approximate", reason, checks, doubt=suspect)
    if draws.k_error > UNCERTAIN_K:
        return Verdict("approximate", f"p(K | x) is uncertain by {draws.k_error:.2f}", checks)
    return Verdict("exact", exact_words(draws.ess, white_words(checks, tested)), checks)


def exact_words(ess: float, white: str) -> str:
    """The reason of an exact result, from the effective share of its draws and `white_words`."""
    return f"ESS per draw {ess_words(ess)}, {white}"


def residual_words(likelihood: Likelihood) -> str:
    """What is tested of the data: the residual, the whitened one, or its part in the band."""
    if not isinstance(likelihood, GeneralTones):
        return "the residual"
    if likelihood.local:
        return "the residual in the band"
    white = all(channel.is_white for channel in likelihood.node.channels)
    return "the residual" if white else "the whitened residual"


def white_words(checks: Sequence[Check], tested: str = "the residual") -> str:
    """That the residual is white noise, as far as that was tested."""
    text = f"{tested} is white noise"
    if missing := Verdict("", "", tuple(checks)).untested:
        text += f" as far as these data can tell (not tested: its {_listed(missing)})"
    return text


def _listed(words: Sequence[str]) -> str:
    """Words with commas and an "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def graded(verdict: Verdict, likelihood: Likelihood, theta: Array | None, sigma: float) -> Verdict:
    """The same verdict; a misfit says which components stand all the same.

    Args:
        verdict: The verdict.
        likelihood: Of the data.
        theta: The best fit of the most probable K, (K, P); None where there is none.
        sigma: Noise level that the errors of its components were found with.
    """
    if verdict.status != "misfit" or theta is None:
        return verdict
    return replace(verdict, standing=standing(likelihood, theta, sigma))


def incomplete(verdict: Verdict, orders: Sequence[int], whose: str = "") -> Verdict:
    """The same verdict where some numbers of components were not looked at: an exact one becomes approximate.

    Args:
        verdict: The verdict.
        orders: Numbers of components next to a plausible one for which there was no time.
        whose: Whose odds they have instead, such as "the network's".
    """
    if not orders:
        return verdict
    verdict = replace(verdict, unexamined=tuple(orders))
    if verdict.status != "exact":
        return verdict
    odds = f" (its odds are {whose})" if whose else ""
    reason = f"the time budget ended before K = {orders[0]} was looked at{odds}; raise max_seconds"
    return replace(verdict, status="approximate", reason=reason)


def _misfit(broken: Sequence[Check], at_k_max: float, sampled: bool) -> str:
    """Why the data are a misfit: the first tests that failed, and what another tone could do about it."""
    alike = {check.words.split(" (")[0]: check.words for check in reversed(broken)}  # once each
    found = "; ".join(list(reversed(alike.values()))[:NAMED_TESTS])
    reason = f"the tones do not explain the data: {found}"
    if not {"peak in the band", "level"} & {check.name for check in broken}:
        return reason
    if at_k_max > 0.5:
        return f"{reason}; there may be more tones than K_max (p(K = K_max) = {at_k_max:.2f})"
    if sampled:
        return f"{reason}; nor would any further tone that the prior allows (amplitude, separation)"
    return reason


def _poor_draws(checks: Sequence[Check], draws: DrawQuality) -> str:
    """Why the draws of a model that explains the data cannot be trusted; empty if they can."""
    ess = ess_words(draws.ess)
    if any(check.name == "rounding" for check in checks):
        return (
            f"{checks[0].words}: without noise, widths and p(K | x) rest on the smallest σ that the prior allows; "
            f"state the noise level (--sigma, Prior.sigma) if there is one; ESS per draw {ess}"
        )
    if not draws.pareto_k < HEAVY_TAIL:
        tail = f"Pareto k = {draws.pareto_k:.2f}"
        return f"the weights have a heavy tail ({tail}), ESS per draw {ess}"
    if draws.ess < draws.smallest_ess:
        return f"the ESS per draw is {ess}, below {draws.smallest_ess:g}"
    return ""


def ess_words(ess: float) -> str:
    """An effective share of draws, with more digits where two decimals would read as zero: 0.97, 0.020, 0.0004."""
    if ess <= 0:
        return "0 (no draw has any weight)"
    if ess >= 0.1:
        return f"{ess:.2f}"
    return f"{ess:.3f}" if ess >= 1e-3 else f"{ess:.1g}"


def unlikely_amplitude(observation: Observation, prior: Prior) -> str:
    """A complaint about amplitude bounds that the band's spectrum contradicts; empty where it does not.

    A lone tone's peak is as high as its amplitude; a few unresolved ones may add up to more, hence the factor 3. Only
    plain series have such a spectrum at hand. What the likelihood marginalizes is no tone's.
    """
    if not observation.is_plain:
        return ""
    stream = observation.long
    low, high = (round(edge * stream.duration) for edge in prior.frequency)
    x = detrend(stream, stream.trend).values if stream.trend >= 0 else stream.values
    spectrum = np.abs(np.fft.rfft(x, 2 * stream.n))[2 * low : 2 * high + 1]
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
