r"""The exact posterior as an object: joint draws of each K, evidence, effective sample size and a verdict.

It answers every question that an amortized posterior answers, with draws in which the components are correlated as the
data say. The density of a labelled tuple is known: ln p(Θ, K | x) = ln p(Θ, x | K) − ln Z_K + ln p(K | x).

Draws of a K that was not worth sampling (`orders.methods` names it "bound") are the network's; its p(K | x) is next to
nothing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.exact.orders import Orders
from slotflow.posterior.posterior import Posterior, Slots
from slotflow.posterior.verdict import Verdict
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.target import Array, Target, residuals, to_theta, to_z

__all__ = ["JointDraws", "RefinedPosterior", "WeightedDraws"]


class WeightedDraws(NamedTuple):
    """Draws of p(Θ, σ | x, K) with their weights."""

    theta: Array
    """(A, φ in [0, 2π), f), sorted by frequency, (n, K, 3)."""
    sigma: Array
    """Noise level, (n,)."""
    log_weights: Array
    """Logarithms of weights that sum to one, (n,)."""

    @property
    def weights(self) -> Array:
        """The weights, (n,)."""
        return np.exp(self.log_weights)


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
        """No exact draw was moved."""
        return 0.0 if self.sampled(k) else self.amortized.constrained_fraction(k)


class RefinedPosterior(Posterior):
    """The exact posterior: joint draws, evidence, effective sample size and a verdict.

    Example::

        post = model.infer(observation, prior=prior)
        print(post.verdict)  # exact, approximate or misfit, and why
        post.k_probs, post.log_evidence[post.k_map]  # p(K | x); ln Z_K and its standard error
        post.sample(1000)  # equally weighted joint draws, (1000, K, 3)
        post.weighted().log_weights  # or the draws as they were weighted
        post.correlation()  # (3K, 3K), between components too
        post.sample_sigma(1000)  # the noise level
        post.best_fit(), post.residual()[0]  # the largest likelihood, and what it leaves of the long stream

    Args:
        amortized: The network's answer that it came from.
        slots: The draws.
        verdict: How far they can be trusted.
    """

    slots: JointDraws

    def __init__(self, amortized: Posterior, slots: JointDraws, verdict: Verdict) -> None:
        sigma, spread = amortized.noise_std, amortized.noise_std_error
        if slots.sampled(slots.orders.k_map):
            best = slots.orders.results[slots.orders.k_map]
            weights, known = np.exp(best.log_weights), slots.prior.known_sigma
            sigma = float(np.sum(weights * best.sigma)) if known is None else known
            spread = math.sqrt(float(np.sum(weights * (best.sigma - sigma) ** 2)))
        super().__init__(
            slots.orders.k_probs,
            slots,
            amortized.observation,
            sigma,
            spread,
            method=f"{amortized.method}+exact",
            prior=slots.prior,
        )
        self.amortized = amortized
        self._verdict = verdict

    def __repr__(self) -> str:
        text = f"{self.method}, k_map={self.k_map}, p={self.k_probs[self.k_map]:.3f}"
        return f"RefinedPosterior({text}, {self.verdict.status})"

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted, and why; `print(post.verdict)` reads as a sentence."""
        return self._verdict

    @property
    def orders(self) -> Orders:
        """Everything that is known of each K, how it was found included."""
        return self.slots.orders

    @property
    def log_evidence(self) -> Array:
        """Ln Z_K and its standard error, (K_max + 1, 2).

        The error is inf where ln Z_K is a bound or an estimate that sufficed to exclude a K; ln Z_K is −inf where
        not even that was needed.
        """
        return np.stack([self.orders.log_evidence, self.orders.log_evidence_error], -1)

    @property
    def ess(self) -> float:
        """Effective share of the draws of the most probable K, 0 to 1."""
        return self.orders.results[self.k_map].ess if self.slots.sampled(self.k_map) else 0.0

    def weighted(self, k: int | None = None) -> WeightedDraws:
        """Draws as they were weighted: theta (n, k, 3), sigma (n,), log_weights (n,) and weights (n,).

        Args:
            k: Number of components; k_map if None. A K that was not sampled is refused.
        """
        found = self.orders.results[self._sampled(k)]
        return WeightedDraws(found.theta, found.sigma, found.log_weights)

    def sample_sigma(self, n: int, k: int | None = None, seed: int = 0) -> Array:
        """Draws of the noise level, (n,); those of `sample` with the same seed belong to them.

        Args:
            n: Number of draws.
            k: Number of components; k_map if None. A K that was not sampled is refused.
            seed: The same seed gives the same draws.
        """
        return self.orders.sample(n, np.random.default_rng(seed), self._sampled(k))[1]

    def best_fit(self, k: int | None = None) -> Array:
        """(A, φ, f) of the largest likelihood that was found for k tones, (k, 3).

        Fewer tones where the prior excludes every maximum of that order that was found.

        Args:
            k: Number of components; k_map if None. One that was excluded without a fit is fitted now, from the fits
                beside it.
        """
        k = self._k(k)
        found = self.orders.fits
        return (
            found[k] if k in found else _fitted(k, found, self.slots.statistics, self.slots.prior)
        )

    def residual(self, k: int | None = None) -> list[Array]:
        """Each stream's data minus the best fit, over the stream's noise ratio, (N_s,).

        Args:
            k: Number of components of the fit, as of `best_fit`; k_map if None.
        """
        statistics = self.slots.statistics
        return residuals(statistics, to_z(self.best_fit(k), statistics.reference))

    def extra_variables(self, n: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Evidences, and σ of each draw (NaN for a draw of a K that was not sampled), for `to_dataset`."""
        sigma = np.full(n, np.nan)
        for k, rows, k_seed in self._plan(n, seed):
            if self.slots.sampled(k):
                sigma[rows] = self.sample_sigma(rows.size, k, k_seed)
        value, error = self.log_evidence.T
        variables = {
            "sigma": (
                ("draw",),
                sigma,
                {"units": self.unit or "data units", "long_name": "noise level"},
            ),
            "log_evidence": (("k_value",), value, {"long_name": "ln Z_K"}),
            "log_evidence_error": (("k_value",), error, {"long_name": "standard error of ln Z_K"}),
        }
        return variables, {"ess": self.ess}

    def _sampled(self, k: int | None) -> int:
        k = self._k(k)
        if not self.slots.sampled(k):
            have = sorted(j for j in self.orders.results if self.slots.sampled(j))
            raise ValueError(
                f"expected a number of components that was sampled, one of {have}, received {k}; "
                f"the verdict says why: {self.verdict}."
            )
        return k


def _fitted(k: int, found: dict[int, Array], statistics: Statistics, prior: Prior) -> Array:
    """The fit of a number of tones that has none, one tone at a time from the nearest that have, (k, 3) or fewer."""
    from slotflow.exact.modes import Modes
    from slotflow.exact.search import TOUCH

    modes = Modes(statistics, prior)
    sizes = sorted({len(fit) for fit in found.values()})
    for fit in found.values():
        modes.add([np.sort(fit[:, 2])])
    for j in range(min((n for n in sizes if n > k), default=k) - 1, k - 1, -1):
        modes.down(j)
    for j in range(max((n for n in sizes if n < k), default=0) + 1, k + 1):
        modes.up(j)
        if not modes.plausible(j):  # nor are there more
            break
    for j in range(k, 0, -1):
        for mode in modes.plausible(j):
            if not mode.bounded and mode.gap(1.0) > prior.min_separation - TOUCH * modes.bin:
                return to_theta(mode.z, statistics.reference)
    return np.zeros((0, 3))
