r"""From an amortized answer to the exact one: the network proposes, the likelihood decides.

The components of the amortized posterior, or of whoever else proposes (`start.py`), are starting points. `search.py`
climbs from them to the maxima, samples p(Θ, σ | x, K) for every K that matters with exact weights, and compares the
evidences. The result (`refined.py`) is a posterior of the same kind with joint draws, in which the components are
correlated as the data say, and with a verdict (`verdict.py`).

Data whose noise level the prior of σ excludes are not sampled: K_max tones would be spent on the noise. The answer is
then the network's, and the verdict says what to change. A known level is compared with what lies outside the band, and
only louder data are not sampled; whether it is right is what the tests of the residual decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.exact.lift import integrated, lifted
from slotflow.exact.orders import NEGLIGIBLE, Orders
from slotflow.exact.refined import JointDraws, RefinedPosterior, WeightedDraws
from slotflow.exact.search import across_orders
from slotflow.exact.start import Start
from slotflow.exact.tempering import Tempering
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import (
    DrawQuality,
    Verdict,
    check_residual,
    colour_doubts,
    incomplete,
    judge,
    residual_words,
    unlikely_amplitude,
)
from slotflow.signal.likelihood import FreeGains, IntegratedGains, Likelihood, Statistics
from slotflow.signal.noise import SMALLEST_LEVEL
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior

__all__ = [
    "Effort",
    "JointDraws",
    "RefinedPosterior",
    "WeightedDraws",
    "check_budget",
    "exact_posterior",
    "refine",
    "unvisited",
]

FEWEST_DRAWS = 100
"""Fewer weighted draws cannot be judged: the tail of their weights is unknown."""
EFFECTIVE = 0.1
"""Effective draws of an exact answer for each draw that was asked for."""
LIFT = 1
"""Which of the streams of random numbers of a seed the amplitudes in free channels are drawn from."""
BEYOND = 0.1
"""Share by which the data's noise level may lie outside the prior's bounds, or five standard errors if that is more."""
UNCHECKED = "the draws are the network's, not checked"
UNPROPOSED = "nothing was sampled"
CLOSE_LEFT_OUT = "tones less than one bin apart were left out, since data without noise cannot tell how many there are"
NO_SOLUTION = (
    "which happens where there is no noise to weigh tones against; state a noise level (--sigma, Prior.sigma) or a "
    "smallest separation (--min-separation, Prior.min_separation)"
)
SINGULAR: tuple[type[Exception], ...] = (
    np.linalg.LinAlgError,
    vars(torch.linalg)["LinAlgError"],
)
"""What linear algebra raises where a fit has no solution."""


def refine(
    post: Posterior,
    *,
    prior: Prior | None = None,
    draws: int = 2000,
    seed: int = 0,
    max_seconds: float = 10.0,
    noise: NoiseModel | None = None,
) -> RefinedPosterior:
    """The exact posterior behind an amortized one.

    Args:
        post: Where to start from.
        prior: The prior to answer under; None: the one that the posterior was found under.
        draws: Weighted draws of each K.
        seed: Of everything random.
        max_seconds: No further K is begun after this time, and tempered sampling hurries. One K is always sampled.
        noise: White noise, with words that say why it was assumed.
    """
    check_budget(draws, max_seconds)
    prior = post.prior if prior is None else prior
    if prior is None:
        raise ValueError(
            f"the posterior by {post.method!r} does not know its prior; give one: refine(prior=...)."
        )
    if prior.k_max > post.k_max:
        raise ValueError(
            f"expected a prior of at most {post.k_max} components, which the posterior knows, received k_max = "
            f"{prior.k_max}; lower it."
        )
    start = Start.from_posterior(post, prior, seed)
    likelihood = Statistics.from_observation(post.observation)
    effort = Effort(draws, seed, max_seconds)
    return exact_posterior(start, likelihood, prior, effort, noise)


@dataclass(frozen=True)
class Effort:
    """How much work an exact answer may be."""

    draws: int = 2000
    """Weighted draws of each K."""
    seed: int = 0
    """Of everything random."""
    max_seconds: float = 10.0
    """No further K is begun after this time, and tempered sampling hurries. One K is always sampled."""

    def __post_init__(self) -> None:
        check_budget(self.draws, self.max_seconds)


def exact_posterior(
    start: Start,
    likelihood: Likelihood,
    prior: Prior,
    effort: Effort,
    noise: NoiseModel | None = None,
) -> RefinedPosterior:
    """The exact posterior of any data.

    Args:
        start: Who proposes, and where.
        likelihood: Of the data.
        prior: The prior to answer under.
        effort: Draws, seed and time.
        noise: Which noise the likelihood assumes; white if None.
    """
    if contradiction := _noise_outside(start, prior):
        return _unsampled(start, prior, likelihood, "misfit", contradiction)
    apart, search = _a_bin_apart(prior, likelihood), likelihood
    if isinstance(likelihood, FreeGains):
        search = integrated(likelihood, prior, start.sigma[0])
    try:
        try:
            orders, left_out = _sampled(start, search, prior, effort), ""
        except SINGULAR:  # as in data without noise, which tones of any small distance fit alike
            orders, left_out = _sampled(start, search, apart, effort), CLOSE_LEFT_OUT
            prior = apart
    except SINGULAR as error:
        reason = f"the equations of the tones have no solution ({error}), {NO_SOLUTION}"
        return _unsampled(start, prior, likelihood, "approximate", reason)
    if isinstance(search, IntegratedGains):
        rng = np.random.default_rng([effort.seed, LIFT])
        orders = lifted(orders, search, prior, unvisited(orders, prior), rng)
    missing = unvisited(orders, prior)
    verdict = _verdict(orders, missing, likelihood, prior, start, effort.draws)
    if left_out:
        status = "approximate" if verdict.status == "exact" else verdict.status
        verdict = replace(verdict, status=status, reason=f"{verdict.reason}; {left_out}")
    orders = _completed(_padded(orders, start.k_max), missing, start.k_probs)
    slots = JointDraws(orders, likelihood, prior, start.slots, start.waveform)
    return RefinedPosterior(start, slots, verdict, noise)


def _sampled(start: Start, likelihood: Likelihood, prior: Prior, effort: Effort) -> Orders:
    """Every K that matters, sampled under a prior."""
    return across_orders(
        likelihood,
        prior,
        starts=start.components,
        extra=start.extra,
        pursue=start.follows_spectrum,
        draws=effort.draws,
        rng=np.random.default_rng(effort.seed),
        tempering=Tempering(max_seconds=effort.max_seconds),
        max_seconds=effort.max_seconds,
    )


def _a_bin_apart(prior: Prior, likelihood: Likelihood) -> Prior:
    """The same prior for components that lie a bin apart or more, as far as the band has room for them."""
    low, high = prior.frequency
    room = (high - low) / max(prior.k_max, 1)
    return replace(prior, min_separation=max(prior.min_separation, min(likelihood.bin, 0.5 * room)))


def check_budget(draws: int, max_seconds: float) -> None:
    """Refuses numbers of draws and time budgets that make no sense."""
    if draws != int(draws) or draws < FEWEST_DRAWS:
        raise ValueError(
            f"expected a whole number of at least {FEWEST_DRAWS} weighted draws, received draws={draws}."
        )
    if not max_seconds >= 0:
        raise ValueError(
            f"expected max_seconds >= 0, received {max_seconds}; refine=False skips the exact step."
        )


def _noise_outside(start: Start, prior: Prior) -> str:
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
    margin = max(BEYOND * sigma, 5 * (error_of_sigma or 0.0))
    rms = math.sqrt(float(np.mean(start.observation.long.values**2)))
    if 0 < rms < 10 * SMALLEST_LEVEL * high:
        return (
            f"the data's rms of {rms:.4g} is too small for the prior's σ of {low:g}–{high:g}, which is never taken "
            f"below {SMALLEST_LEVEL:g} of its upper bound; state Prior.sigma in the data's units"
        )
    if not math.isfinite(sigma) or low - margin <= sigma <= high + margin:
        return ""
    return (
        f"the data's noise level of about {sigma:.4g} lies outside the prior's {low:g}–{high:g}; widen Prior.sigma, in "
        "the data's units"
    )


def _unsampled(
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


def _unchecked(start: Start) -> str:
    """What draws are worth that the likelihood has not weighed."""
    return UNPROPOSED if start.amortized is None else UNCHECKED


def _padded(orders: Orders, k_max: int) -> Orders:
    """The same with entries for every K that the network knows."""
    more = (0, k_max + 1 - len(orders.k_probs))
    return replace(
        orders,
        log_evidence=np.pad(orders.log_evidence, more, constant_values=-np.inf),
        log_evidence_error=np.pad(orders.log_evidence_error, more, constant_values=np.inf),
        k_probs=np.pad(orders.k_probs, more),
    )


def _verdict(
    orders: Orders,
    missing: list[int],
    likelihood: Likelihood,
    prior: Prior,
    start: Start,
    draws: int,
) -> Verdict:
    """Judges the result by its draws and by the residual of the largest K that is plausible."""
    fit = orders.fits.get(orders.largest, np.zeros((0, likelihood.waveform.size)))
    best = orders.results.get(orders.k_map)
    quality = None
    if best is not None and (taken := len(best.log_weights)):
        enough = EFFECTIVE * min(draws / taken, 1.0)
        quality = DrawQuality(best.ess, best.pareto_k, orders.k_error, enough)
    doubts, most_probable = [], orders.fits.get(orders.k_map)
    if most_probable is not None and len(most_probable) < len(fit):
        doubts = colour_doubts(likelihood, most_probable, prior.frequency)
    verdict = judge(
        check_residual(likelihood, fit, prior.frequency, prior.known_sigma),
        quality,
        at_k_max=float(orders.k_probs[prior.k_max]),
        unsampled=f"no draw of K = {orders.k_map} has any weight: the prior (amplitude, band, separation) excludes "
        f"what fits the data; {_unchecked(start)}",
        tested=residual_words(likelihood),
        doubts=doubts,
    )
    doubtful = verdict.status == "misfit" and start.amortized is not None
    if doubtful and (doubt := unlikely_amplitude(start.observation, prior)):
        verdict = replace(verdict, reason=f"{verdict.reason}; {doubt}")
    return incomplete(verdict, missing, "" if start.amortized is None else "the network's")


def _completed(orders: Orders, missing: list[int], proposed: Array) -> Orders:
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
