r"""From an amortized answer to the exact one: the network proposes, the likelihood decides.

The components of the amortized posterior are starting points. `orders.py` climbs from them to the maxima, samples p(Θ,
σ | x, K) for every K that matters with exact weights, and compares the evidences. The result is a posterior of the
same kind with joint draws, in which the components are correlated as the data say, and with a verdict (`verdict.py`).

The density of a labelled tuple is known but for nothing: ln p(Θ, K | x) = ln p(Θ, x | K) − ln Z_K + ln p(K | x).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slotflow.exact.likelihood import Statistics
from slotflow.exact.orders import NEGLIGIBLE, Orders, across_orders
from slotflow.exact.target import Array, Target, residuals, to_z
from slotflow.exact.tempering import Tempering
from slotflow.exact.verdict import Verdict, check_residual, judge
from slotflow.posterior import Posterior, Slots
from slotflow.priors import Prior

__all__ = ["JointDraws", "RefinedPosterior", "refine"]

STARTS = 3
"""Numbers of components, the most probable first, whose components are starting points."""
MEDIAN_DRAWS = 200
"""Draws behind a starting point."""


class JointDraws:
    """Joint draws of each number of components, as the densities behind a Posterior.

    Args:
        orders: The result across K.
        statistics: Of the data.
        prior: The prior.
        amortized: What to ask for a number of components that was not sampled.
    """

    def __init__(
        self, orders: Orders, statistics: Statistics, prior: Prior, amortized: Slots
    ) -> None:
        self.orders, self.statistics, self.prior = orders, statistics, prior
        self.amortized, self.k_max = amortized, len(orders.k_probs) - 1

    def sampled(self, k: int) -> bool:
        """Whether there are exact draws of k components."""
        return k in self.orders.results and len(self.orders.results[k].log_weights) > 0

    def sample(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Draws, (n, k, 3)."""
        if not self.sampled(k):
            return self.amortized.sample(n, k, seed)
        return self.orders.sample(n, np.random.default_rng(seed), k)[0]

    def log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Not defined slot by slot: the draws are joint."""
        raise NotImplementedError(
            "the components of a refined posterior have a joint density only."
        )

    def joint_log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Ln p(Θ | x, K) of labelled tuples, (n, k, 3) to (n,); NaN where Z_K is not known."""
        k = theta.shape[1]
        log_z = self.orders.log_evidence[k]
        if not math.isfinite(log_z) or not math.isfinite(self.orders.log_evidence_error[k]):
            return np.full(len(theta), np.nan)
        order = np.argsort(theta[..., 2], axis=1)[..., None]
        z = to_z(np.take_along_axis(theta, order, 1), self.statistics.reference)
        log_prob, _ = Target(self.statistics, self.prior, k).log_prob(z)
        jacobian = np.log(np.maximum(theta[..., 0], 1e-300)).sum(-1)
        result: NDArray[np.float64] = log_prob - math.lgamma(k + 1) + jacobian - log_z
        return result

    def constrained_fraction(self, k: int) -> float:
        """No draw was moved."""
        return 0.0


class RefinedPosterior(Posterior):
    """The exact posterior: joint draws, evidence, effective sample size and a verdict."""

    slots: JointDraws

    def __init__(self, amortized: Posterior, slots: JointDraws, verdict: Verdict) -> None:
        best = slots.orders.results.get(slots.orders.k_map)
        sigma = (
            amortized.noise_std
            if best is None
            else float(np.sum(np.exp(best.log_weights) * best.sigma))
        )
        spread = None
        if best is not None:
            spread = math.sqrt(float(np.sum(np.exp(best.log_weights) * (best.sigma - sigma) ** 2)))
        super().__init__(
            slots.orders.k_probs,
            slots,
            amortized.observation,
            sigma,
            spread,
            method=f"{amortized.method}+exact",
            prior=amortized.prior,
        )
        self._verdict = verdict

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted, and why."""
        return self._verdict

    @property
    def orders(self) -> Orders:
        """Evidence and weighted draws of each K."""
        return self.slots.orders

    @property
    def log_evidence(self) -> Array:
        """Ln Z_K and its standard error, (K_max + 1, 2); −inf where a K was not needed."""
        return np.stack([self.orders.log_evidence, self.orders.log_evidence_error], -1)

    @property
    def ess(self) -> float:
        """Effective share of the draws of the most probable K, 0 to 1."""
        found = self.orders.results.get(self.k_map)
        return 0.0 if found is None else found.ess

    def weighted(self, k: int | None = None) -> tuple[Array, Array, Array]:
        """Draws as they were weighted: theta (n, k, 3), sigma (n,) and log_weights (n,)."""
        found = self.orders.results[self._k(k)]
        return found.theta, found.sigma, found.log_weights

    def sample_sigma(self, n: int, k: int | None = None, seed: int = 0) -> Array:
        """Draws of the noise level, (n,); those of `sample` with the same seed belong to them."""
        return self.orders.sample(n, np.random.default_rng(seed), self._k(k))[1]

    def residual(self) -> list[Array]:
        """Each stream's data minus the best fit of the most probable K, over the stream's noise ratio, (N_s,)."""
        fit = self.orders.fits.get(self.k_map, np.zeros((0, 3)))
        return residuals(self.slots.statistics, to_z(fit, self.slots.statistics.reference))


def refine(
    post: Posterior,
    *,
    draws: int = 2000,
    seed: int = 0,
    max_seconds: float = 10.0,
) -> RefinedPosterior:
    """The exact posterior behind an amortized one.

    Args:
        post: Where to start from; it must know its prior.
        draws: Weighted draws of each K.
        seed: Of everything random.
        max_seconds: No further K is begun after this time, and tempered sampling hurries.
    """
    prior = post.prior
    if prior is None:
        raise ValueError(
            f"the posterior by {post.method!r} does not know its prior; give one to the model's infer."
        )
    low, high = prior.sigma
    if math.isfinite(post.noise_std) and not 0.9 * low <= post.noise_std <= 1.1 * high:
        raise ValueError(
            f"expected a noise level within the prior's {low:g}–{high:g}, but the data show "
            f"{post.noise_std:.4g}; widen Prior.sigma, in the data's units."
        )
    prior = replace(prior, k_max=post.k_max) if prior.k_max > post.k_max else prior
    statistics = Statistics.from_observation(post.observation)
    inside = np.arange(post.k_probs.size)[prior.k_min : prior.k_max + 1]
    ranked = inside[np.argsort(-post.k_probs[inside], kind="stable")]
    chosen = [int(k) for k in ranked[:STARTS] if k == ranked[0] or post.k_probs[k] > 1e-4]
    starts = [_medians(post, k, seed) for k in chosen]
    extra: list[float] = []
    if chosen[0] < prior.k_max:
        extra = _medians(post, chosen[0] + 1, seed)[:, 2].tolist()
    orders = across_orders(
        statistics,
        prior,
        starts=starts,
        extra=extra,
        draws=draws,
        rng=np.random.default_rng(seed),
        tempering=Tempering(max_seconds=max_seconds),
        max_seconds=max_seconds,
    )
    slots = JointDraws(orders, statistics, prior, post.slots)
    return RefinedPosterior(post, slots, _verdict(orders, statistics, prior))


def _medians(post: Posterior, k: int, seed: int) -> Array:
    """(A, φ, f) at the medians of k components, (k, 3); phases by their circular mean."""
    draws = post.sample(MEDIAN_DRAWS, k, seed)
    middle: Array = np.median(draws, axis=0).reshape(k, 3)
    middle[:, 1] = np.mod(np.angle(np.exp(1j * draws[..., 1]).mean(0)), 2 * np.pi)
    return middle


def _verdict(orders: Orders, statistics: Statistics, prior: Prior) -> Verdict:
    """Judges the result by its draws and by the residual of the largest K that is plausible."""
    fit = orders.fits.get(orders.largest, np.zeros((0, 3)))
    best = orders.results.get(orders.k_map)
    verdict = judge(
        check_residual(statistics, fit, prior.frequency),
        refined=best is not None,
        ess=0.0 if best is None else best.ess,
        pareto_k=math.inf if best is None else best.pareto_k,
        k_error=orders.k_error,
        at_k_max=float(orders.k_probs[prior.k_max]),
    )
    missing = unvisited(orders, prior)
    if verdict.status == "exact" and missing:
        reason = f"the time budget ended before K = {missing[0]} was looked at; raise max_seconds"
        return Verdict("approximate", reason, verdict.checks)
    return verdict


def unvisited(orders: Orders, prior: Prior) -> list[int]:
    """Orders beside a plausible one that the prior allows and that were not looked at."""
    possible = np.pad(prior.k_probs_full > 0, (0, len(orders.k_probs) - prior.k_max - 1))
    seen = orders.log_evidence > -np.inf
    plausible = orders.k_probs > NEGLIGIBLE
    beside = np.zeros_like(plausible)
    beside[1:] |= plausible[:-1]
    beside[:-1] |= plausible[1:]
    return [int(k) for k in np.flatnonzero(beside & possible & ~seen)]
