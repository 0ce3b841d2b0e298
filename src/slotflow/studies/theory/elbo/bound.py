r"""The evidence lower bound of an amortized posterior and its gap (paper, proposition 4.1; appendix A.2).

For any q(K, Θ | x), Jensen's inequality gives ln p(x) >= E_q[ln p(x, K, Θ) − ln q(K, Θ | x)], and with the two
factorizations p(x, K, Θ) = p(x | Θ, K) p(Θ | K) p(K) and q = q(K | x) q(Θ | x, K)

.. math::
    \mathrm{ELBO} = E_q[\ln p(x | Θ, K)]
    - E_{q(K)}[\mathrm{KL}(q(Θ | x, K) \| p(Θ | K))] - \mathrm{KL}(q(K | x) \| p(K))

(`Bound.reconstruction`, `.parameters`, `.order`). What it lacks is known as well, since the exact step knows the
evidence Z_K of each K: with p(K | x) ∝ p(K) Z_K,

.. math::
    \ln p(x) - \mathrm{ELBO} = \mathrm{KL}(q(K | x) \| p(K | x))
    + \sum_K q(K | x) \, \mathrm{KL}(q(Θ | x, K) \| p(Θ | x, K))

(`Bound.gap_over_k`, `.gap_over_theta`). The second part of each K is ln Z_K less its own bound.

**Which q.** Slots are independent given x, and q(Θ | x, K) is symmetrized over the K! labellings, as theorem 4.1 has
it. The paper's A.2 has the bare product, whose bound is smaller by up to ln K!: KL is convex, and the symmetrized
density is the mean of K! relabelled products, all of which have the same divergence. A network puts some mass where the
prior has none (amplitudes beyond its bounds, tones closer than the minimum separation). There ln p = −∞, and so is the
bound of q as it is. We restrict q to the prior's support given K, divide by the share of draws inside, and leave out K
with q(K | x) < `LEAST`; `Bound.outside` says how much mass that costs.

**A check that can fail.** The same draws give an estimate of the evidence by importance sampling, whose expectation is
p(x) itself. Where the weights allow it (`Order.ess`), it must agree with the exact step, which has never seen q.

**Independent slots.** The exact posterior of resolved tones is nearly Gaussian in z = (f, Re c, Im c). With its
covariance Σ and the blocks D of its components, the best that independent slots with the right marginals can reach is a
divergence of (tr Σ⁻¹D − d − ln det D + ln det Σ)/2 (`independence`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from slotflow.core.arrays import Array
from slotflow.exact.refined import RefinedPosterior
from slotflow.exact.target import Target
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["Bound", "Evidence", "Order", "independence", "lower_bound", "matched_loss"]

LEAST = 1e-3
"""K with a smaller q(K | x) are left out."""

Evidence = Callable[[int], tuple[float, float]]
"""Takes K to ln Z_K and its standard error."""


@dataclass(frozen=True)
class Order:
    """What q says given one K."""

    k: int
    prob: float
    """q(K | x) as the network gives it."""
    inside: float
    """Share of draws inside the prior's support."""
    reconstruction: float
    """E[ln p(x | Θ, K)]."""
    parameters: float
    """KL(q(Θ | x, K) ‖ p(Θ | K))."""
    error: float
    """Standard error of their difference."""
    log_importance: float
    """ln Z_K by importance sampling from q."""
    importance_error: float
    """Its standard error."""
    ess: float
    """Effective number of draws of that estimate."""
    log_evidence: float
    """ln Z_K by the exact step."""
    log_evidence_error: float
    """Its standard error."""

    @property
    def bound(self) -> float:
        """The lower bound of ln Z_K."""
        return self.reconstruction - self.parameters


@dataclass(frozen=True)
class Bound:
    """The bound of one signal, with its terms; ln p(K) is the prior's."""

    log_evidence: float
    """ln p(x)."""
    error: float
    """Standard error of `gap`."""
    reconstruction: float
    parameters: float
    order: float
    """KL(q(K | x) ‖ p(K))."""
    gap_over_k: float
    gap_over_theta: float
    outside: float
    """Mass of q that was left out."""
    orders: tuple[Order, ...]

    @property
    def value(self) -> float:
        """The bound."""
        return self.reconstruction - self.parameters - self.order

    @property
    def gap(self) -> float:
        """What the bound lacks."""
        return self.log_evidence - self.value


def lower_bound(
    amortized: Posterior, exact: RefinedPosterior, evidence: Evidence, draws: int, seed: int
) -> Bound:
    """The bound of an amortized posterior.

    Args:
        amortized: q.
        exact: The exact posterior of the same data, which knows the likelihood.
        evidence: ln Z_K of any K, with its error.
        draws: Draws of each K.
        seed: Of the draws.
    """
    prior = exact.slots.prior
    kept = [int(k) for k in np.flatnonzero(amortized.k_probs >= LEAST)]
    found = [_order(amortized, exact, k, evidence, draws, seed) for k in kept]
    orders = tuple(order for order in found if order is not None)
    mass = np.array([order.prob * order.inside for order in orders])
    q = mass / mass.sum()
    log_p = np.array([float(prior.log_prob_k(order.k)) for order in orders])
    log_z = np.array([order.log_evidence for order in orders])
    whole = _log_evidence(exact, prior, orders)
    bounds = np.array([order.bound for order in orders])
    errors = np.array([math.hypot(o.error, o.log_evidence_error) for o in orders])
    return Bound(
        log_evidence=whole,
        error=float(np.sqrt(((q * errors) ** 2).sum())),
        reconstruction=float(q @ [order.reconstruction for order in orders]),
        parameters=float(q @ [order.parameters for order in orders]),
        order=float(q @ (np.log(q) - log_p)),
        gap_over_k=float(q @ (np.log(q) - log_p - log_z + whole)),
        gap_over_theta=float(q @ (log_z - bounds)),
        outside=float(1 - mass.sum()),
        orders=orders,
    )


def _log_evidence(exact: RefinedPosterior, prior: Prior, orders: tuple[Order, ...]) -> float:
    """Ln p(x): the exact step's evidences, and those that were asked for besides."""
    log_z = exact.log_evidence[:, 0].copy()
    for order in orders:
        log_z[order.k] = order.log_evidence
    log_p = prior.log_prob_k(np.arange(len(log_z))).numpy()
    return float(logsumexp(log_p + log_z))


def _order(
    amortized: Posterior, exact: RefinedPosterior, k: int, evidence: Evidence, draws: int, seed: int
) -> Order | None:
    """What q says given K; None if no draw is inside the prior's support."""
    theta = amortized.sample(draws, k, seed)  # (n, k, P)
    log_prior = exact.slots.prior.log_prob_theta(theta).numpy()
    inside = np.isfinite(log_prior)
    share = float(inside.mean())
    if share == 0:
        return None
    theta, log_prior = theta[inside], log_prior[inside]
    log_q = np.asarray(amortized.log_prob(theta)) - math.log(amortized.k_probs[k] * share)
    log_joint = exact.slots.log_joint(theta)  # ln p(Θ, x | K)
    log_weight: Array = log_joint - log_q
    weight = np.exp(log_weight - log_weight.max())
    n = len(theta)
    log_z, log_z_error = evidence(k)
    return Order(
        k=k,
        prob=float(amortized.k_probs[k]),
        inside=share,
        reconstruction=float((log_joint - log_prior).mean()),
        parameters=float((log_q - log_prior).mean()),
        error=float(log_weight.std() / math.sqrt(n)),
        log_importance=float(log_weight.max() + math.log(weight.mean())),
        importance_error=float(weight.std() / weight.mean() / math.sqrt(n)),
        ess=float(weight.sum() ** 2 / (weight**2).sum()),
        log_evidence=log_z,
        log_evidence_error=log_z_error,
    )


def independence(exact: RefinedPosterior) -> float:
    """Divergence of independent slots with the right marginals from the exact posterior at its most probable K.

    Both are taken as Gaussian. NaN where there is no Gaussian around the best fit.
    """
    slots, k = exact.slots, exact.k_map
    theta = slots.waveform.sorted(exact.best_fit()[None])
    if theta.shape[1] != k:
        return math.nan
    z = slots.waveform.to_z(theta, slots.statistics.reference)[0]
    found = Target(slots.statistics, slots.prior, k).gaussian(z)
    if found is None:
        return math.nan
    covariance = found[1]
    size = len(covariance) // k
    own = np.kron(np.eye(k), np.ones((size, size)))
    blocks = covariance * own
    trace = float(np.trace(np.linalg.solve(covariance, blocks))) - len(covariance)
    volumes = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(blocks)[1]
    return 0.5 * (trace + float(volumes))


def matched_loss(amortized: Posterior, truth: Array) -> float:
    """The paper's flow loss of one signal: mean −ln q of the true components, (K, P), at the best assignment."""
    log_q = amortized.slots.log_prob(truth[None])[0]  # (slot, component)
    cost = np.nan_to_num(-log_q, posinf=1e6)
    rows, columns = linear_sum_assignment(cost)
    return float(cost[rows, columns].mean())
