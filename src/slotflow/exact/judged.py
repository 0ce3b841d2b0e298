"""What is said of an exact answer: whether it was sampled, how far it can be trusted, and what was not looked at.

Data whose noise level the prior of σ excludes are not sampled: K_max tones would be spent on the noise. The answer is
then the network's, and the verdict says what to change. A known level is compared with what lies outside the band, and
only louder data are not sampled; whether it is right is what the tests of the residual decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.exact.orders import NEGLIGIBLE, Orders
from slotflow.exact.refined import JointDraws, RefinedPosterior
from slotflow.exact.slow_noise import slow_noise_doubt
from slotflow.exact.start import Start
from slotflow.posterior.verdict import (
    FALSE_ALARM,
    Check,
    DrawQuality,
    Verdict,
    check_residual,
    colour_doubts,
    incomplete,
    judge,
    residual_words,
    unlikely_amplitude,
)
from slotflow.signal.likelihood import GeneralTones, Likelihood
from slotflow.signal.noise import SMALLEST_LEVEL
from slotflow.signal.prior import Prior

__all__ = [
    "HANGS",
    "completed",
    "noise_fits",
    "noise_outside",
    "padded",
    "unsampled",
    "unvisited",
    "verdict_of",
]

EFFECTIVE = 0.1
"""Effective draws of an exact answer for each draw that was asked for."""
BEYOND = 0.1
"""Share by which the data's noise level may lie outside the prior's bounds, or five standard errors if that is more."""
SHORT = 500
"""Real degrees of freedom below which the colour of the noise is hardly known."""
COLOUR_ODDS = 5.0
"""Odds of the last tone that another noise of the same kind may undo in a short series."""
HANGS = "depends on the colour of the noise"
"""In the reason of such a verdict."""
UNCHECKED = "the draws are the network's, not checked"
UNPROPOSED = "nothing was sampled"


def noise_outside(start: Start, prior: Prior) -> str:
    """Why the data's noise level contradicts the prior of σ; empty where it does not.

    Only a network that has read the data knows their level before the likelihood is asked.
    """
    if start.amortized is None:
        return ""
    low, high = prior.sigma
    if prior.known_sigma is not None:
        level, error = start.observation.noise_level(prior.frequency)
        if not level - max(BEYOND * level, 5 * error) > high:  # NaN: the band is all there is
            return ""
        return (
            f"the data's noise level of about {level:.4g} is above the stated {high:g}; correct that (Prior.sigma, "
            "--sigma), in the data's units"
        )
    sigma, error_of_sigma = start.sigma
    rms = math.sqrt(float(np.mean(start.observation.long.values**2)))
    if bool(noise_fits(np.array(sigma), np.array(error_of_sigma or 0.0), np.array(rms), prior)):
        return ""
    if _is_faint(np.array(rms), high):
        return (
            f"the data's rms of {rms:.4g} is too small for the prior's σ of {low:g}–{high:g}, which is never taken "
            f"below {SMALLEST_LEVEL:g} of its upper bound; state Prior.sigma in the data's units"
        )
    return (
        f"the data's noise level of about {sigma:.4g} lies outside the prior's {low:g}–{high:g}; widen Prior.sigma, in "
        "the data's units"
    )


def noise_fits(sigma: Array, error: Array, rms: Array, prior: Prior) -> NDArray[np.bool_]:
    """Whether levels of the data's noise do not contradict a prior of unknown σ; shape of the levels.

    Args:
        sigma: Estimates of the level.
        error: Their standard errors.
        rms: Root mean squares of the long streams.
        prior: Gives the bounds of σ.
    """
    low, high = prior.sigma
    margin = np.maximum(BEYOND * sigma, 5 * error)
    inside = (low - margin <= sigma) & (sigma <= high + margin)
    fits: NDArray[np.bool_] = (~np.isfinite(sigma) | inside) & ~_is_faint(rms, high)
    return fits


def _is_faint(rms: Array, high: float) -> NDArray[np.bool_]:
    """Whether data are so small that the smallest σ is not, for an upper bound of σ; same shape."""
    faint: NDArray[np.bool_] = (rms > 0) & (rms < 10 * SMALLEST_LEVEL * high)
    return faint


def unsampled(
    start: Start, prior: Prior, likelihood: Likelihood, status: str, reason: str
) -> RefinedPosterior:
    """The proposer's answer with a verdict that says why it was not sampled; the residual is looked at all the same."""
    none = np.zeros((0, likelihood.waveform.size))
    fit = start.components[0] if start.components else none
    beyond = (0, start.k_max - prior.k_max)
    probs = start.k_probs * np.pad(prior.k_probs_full > 0, beyond)
    if not probs.sum() > 0:
        probs = np.pad(prior.k_probs_full, beyond)
    nothing = np.full(start.k_max + 1, -np.inf)
    orders = Orders(nothing, -nothing, probs / probs.sum(), {}, {len(fit): fit}, 0.0)
    checks = check_residual(likelihood, fit, prior.frequency, prior.known_sigma)
    found = judge(checks, unsampled=_unchecked(start))
    status = "misfit" if found.status == "misfit" else status
    verdict = Verdict(status, f"{reason}; {found.reason}", found.checks)
    slots = JointDraws(orders, likelihood, prior, start.slots, start.waveform)
    return RefinedPosterior(start, slots, verdict)


def verdict_of(
    orders: Orders,
    missing: list[int],
    likelihood: Likelihood,
    prior: Prior,
    start: Start,
    draws: int,
    left_out: str = "",
    checks: Sequence[Check] | None = None,
    false_alarm: float = FALSE_ALARM,
) -> Verdict:
    """Judges the result by its draws and by the residual of the largest K that is plausible.

    Args:
        orders: Evidences and draws.
        missing: Numbers of components that matter and were not looked at.
        likelihood: Of the data.
        prior: The prior that was answered under.
        start: Who proposed.
        draws: Weighted draws of each K that were asked for.
        left_out: What else was not looked at, in words; empty where everything was.
        checks: The tests of the residual, where they were made before.
        false_alarm: Rate of misfits among data that the model describes.
    """
    fit = orders.fits.get(orders.largest, np.zeros((0, likelihood.waveform.size)))
    best = orders.results.get(orders.k_map)
    quality = None
    if best is not None and (taken := len(best.log_weights)):
        enough = EFFECTIVE * min(draws / taken, 1.0)
        quality = DrawQuality(best.ess, best.pareto_k, orders.k_error, enough)
    doubts, most_probable = [], orders.fits.get(orders.k_map)
    if most_probable is not None and len(most_probable) < len(fit):
        doubts = colour_doubts(likelihood, most_probable, prior.frequency)
    if checks is None:
        checks = check_residual(likelihood, fit, prior.frequency, prior.known_sigma)
    verdict = judge(
        checks,
        quality,
        at_k_max=float(orders.k_probs[prior.k_max]),
        unsampled=f"no draw of K = {orders.k_map} has any weight: the prior (amplitude, band, separation) excludes "
        f"what fits the data; {_unchecked(start)}",
        false_alarm=false_alarm,
        tested=residual_words(likelihood),
        doubts=doubts,
    )
    doubtful = verdict.status == "misfit" and start.amortized is not None
    if doubtful and (doubt := unlikely_amplitude(start.observation, prior)):
        verdict = replace(verdict, reason=f"{verdict.reason}; {doubt}")
    verdict = _without_colour(verdict, orders, likelihood)
    if verdict.status == "exact":
        verdict = _without_slow_noise(verdict, most_probable, likelihood, prior)
    verdict = incomplete(verdict, missing, "" if start.amortized is None else "the network's")
    if not left_out:
        return verdict
    status = "approximate" if verdict.status == "exact" else verdict.status
    return replace(verdict, status=status, reason=f"{verdict.reason}; {left_out}")


def _without_colour(verdict: Verdict, orders: Orders, likelihood: Likelihood) -> Verdict:
    """The same verdict; an exact one becomes approximate where the last tone hangs on the colour of a short series.

    A few dozen samples hardly tell the order of an autoregression, or how coloured it is, from a slow tone. The noise
    that was chosen, and the prior of its coefficients, then move the odds of a tone by a factor of a few: a tone with
    smaller odds than that is none that the data show.
    """
    if not isinstance(likelihood, GeneralTones) or likelihood.local or likelihood.n >= SHORT:
        return verdict
    white = all(channel.is_white for channel in likelihood.node.channels)
    if verdict.status != "exact" or white or not orders.k_map:
        return verdict
    fewer = float(orders.k_probs[: orders.k_map].sum())
    odds = (1 - fewer) / max(fewer, 1e-300)
    if odds > COLOUR_ODDS:
        return verdict
    count = "is a tone at all" if orders.k_map == 1 else f"are {orders.k_map} tones or fewer"
    reason = f"whether there {count} {HANGS}, which such a short series can hardly tell (odds {odds:.1f} : 1)"
    return replace(verdict, status="approximate", reason=reason)


def _without_slow_noise(
    verdict: Verdict, fit: Array | None, likelihood: Likelihood, prior: Prior
) -> Verdict:
    """The same verdict; an exact one becomes approximate where the slowest tones (K, P) may be slow noise."""
    doubt = "" if fit is None else slow_noise_doubt(likelihood, fit, prior)
    if not doubt:
        return verdict
    return replace(verdict, status="approximate", reason=f"{doubt}; {verdict.reason}")


def padded(orders: Orders, k_max: int) -> Orders:
    """The same with entries for every K that the network knows."""
    more = (0, k_max + 1 - len(orders.k_probs))
    return replace(
        orders,
        log_evidence=np.pad(orders.log_evidence, more, constant_values=-np.inf),
        log_evidence_error=np.pad(orders.log_evidence_error, more, constant_values=np.inf),
        k_probs=np.pad(orders.k_probs, more),
    )


def completed(orders: Orders, missing: list[int], proposed: Array) -> Orders:
    """The same with the odds that the proposer gives to orders for which there was no time, instead of zero."""
    best = orders.k_map
    if not missing or not proposed[best] > 0:
        return orders
    k_probs = orders.k_probs.copy()
    # No order that was not looked at may seem more probable than one that was.
    k_probs[missing] = k_probs[best] * np.minimum(proposed[missing] / proposed[best], 1.0)
    return replace(orders, k_probs=k_probs / k_probs.sum())


def unvisited(orders: Orders, prior: Prior) -> list[int]:
    """Orders next to a plausible one, among those that the prior allows, that were not looked at."""
    possible = np.flatnonzero(prior.k_probs_full > 0)
    seen = orders.log_evidence > -np.inf
    seen[list(orders.methods)] = True  # an evidence of zero was looked at as well
    plausible = orders.k_probs[possible] > NEGLIGIBLE
    beside = np.zeros_like(plausible)
    beside[1:] |= plausible[:-1]
    beside[:-1] |= plausible[1:]
    return [int(k) for k in possible[beside] if not seen[k]]


def _unchecked(start: Start) -> str:
    """What draws are worth that the likelihood has not weighed."""
    return UNPROPOSED if start.amortized is None else UNCHECKED
