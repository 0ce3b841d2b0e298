r"""From an amortized answer to the exact one: the network proposes, the likelihood decides.

The components of the amortized posterior, or of whoever else proposes (`start.py`), are starting points. `search.py`
climbs from them to the maxima, samples p(Θ, σ | x, K) for every K that matters with exact weights, and compares the
evidences. The result (`refined.py`) is a posterior of the same kind with joint draws, in which the components are
correlated as the data say, and with a verdict (`judged.py`), which also says why where nothing was sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from slotflow.exact.directed.alternatives import alternatives
from slotflow.exact.judged import (
    completed,
    noise_outside,
    padded,
    unsampled,
    unvisited,
    verdict_of,
)
from slotflow.exact.lift import integrated, lifted
from slotflow.exact.orders import Orders
from slotflow.exact.refined import JointDraws, RefinedPosterior, WeightedDraws
from slotflow.exact.search import across_orders
from slotflow.exact.start import Start
from slotflow.exact.tempering import Tempering
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import FreeGains, IntegratedGains, Likelihood, Statistics
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior

__all__ = [
    "STEP_FAILURES",
    "Effort",
    "JointDraws",
    "RefinedPosterior",
    "WeightedDraws",
    "check_budget",
    "concluded",
    "exact_posterior",
    "refine",
    "unvisited",
]

FEWEST_DRAWS = 100
"""Fewer weighted draws cannot be judged: the tail of their weights is unknown."""
LIFT = 1
"""Which of the streams of random numbers of a seed the amplitudes in free channels are drawn from."""
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
STEP_FAILURES: tuple[type[Exception], ...] = (ArithmeticError, LookupError, ValueError, *SINGULAR)
"""What the exact step may raise where a signal is at fault, which is no reason to lose the others' answers."""


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
        draws: Weighted draws of each K; a K below 5 % may have a quarter.
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
    """Weighted draws of each K; a K below 5 % may have a quarter."""
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
    if contradiction := noise_outside(start, prior):
        return unsampled(start, prior, likelihood, "misfit", contradiction)
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
        return unsampled(start, prior, likelihood, "approximate", reason)
    if isinstance(search, IntegratedGains):
        rng = np.random.default_rng([effort.seed, LIFT])
        orders = lifted(orders, search, prior, unvisited(orders, prior), rng)
    return concluded(orders, start, likelihood, prior, effort.draws, noise, left_out)


def concluded(
    orders: Orders,
    start: Start,
    likelihood: Likelihood,
    prior: Prior,
    draws: int,
    noise: NoiseModel | None = None,
    left_out: str = "",
) -> RefinedPosterior:
    """The posterior that evidences and draws of each K are, with its verdict.

    Args:
        orders: Evidences and draws.
        start: Who proposed.
        likelihood: Of the data.
        prior: The prior that was answered under.
        draws: Weighted draws of each K that were asked for.
        noise: Which noise the likelihood assumes; white if None.
        left_out: What was not looked at, in words; empty where everything was.
    """
    missing = unvisited(orders, prior)
    begun = replace(start, extra=None)  # which processes cannot send to each other
    judged = partial(verdict_of, orders, missing, likelihood, prior, begun, draws, left_out)
    verdict = judged()
    named = alternatives(orders, likelihood, prior, start.observation)
    orders = completed(padded(orders, start.k_max), missing, start.k_probs)
    slots = JointDraws(orders, likelihood, prior, start.slots, start.waveform)
    return RefinedPosterior(start, slots, verdict, noise, named, partial(judged, verdict.checks))


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
