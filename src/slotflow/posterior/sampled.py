"""A posterior that is a set of draws: the common form of the answers of Monte-Carlo samplers.

It is used as any other `Posterior`: the same summary, files, plots and comparisons. Draws of K components are joint,
and components are in the order of their frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.data.observation import Observation
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.residual import best_draw
from slotflow.posterior.verdict import Verdict, check_residual, judge
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.target import Array

__all__ = ["Draws", "SampledPosterior", "Sampling"]

CONVERGED = 1.1
"""R-hat above which chains have not converged."""


@dataclass
class Draws:
    """Equally weighted draws of each number of components, as the densities behind a Posterior."""

    k_max: int
    """Largest K."""
    theta: Mapping[int, Array]
    """(A, φ, f) of each K that was visited, (n_K, K, 3), sorted by frequency."""
    sigma: Mapping[int, Array]
    """Noise level of the same draws, (n_K,)."""

    def rows(self, n: int, k: int, seed: int) -> NDArray[np.int64]:
        """Which draws to hand out, (n,): none a second time before all were there once."""
        size = len(self.theta.get(k, ()))
        if not self.theta:
            raise ValueError("the file holds no draws; save the posterior again, with some.")
        if size == 0:
            visited = ", ".join(str(j) for j in sorted(self.theta))
            raise ValueError(
                f"expected a K that was visited, one of {visited}, received {k}: there are no draws of it; "
                "sample or save more draws, or choose another."
            )
        rng = np.random.default_rng(seed)
        again = [rng.permutation(size) for _ in range(n // size)]
        return np.concatenate([*again, rng.choice(size, n % size, replace=False)])

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws, (n, k, 3)."""
        rows = self.rows(n, k, seed)
        return self.theta[k][rows]

    def log_prob(self, theta: Array) -> Array:
        """Not defined slot by slot: the draws are joint."""
        raise NotImplementedError("the components of sampled draws have a joint density only.")

    def joint_log_prob(self, theta: Array) -> Array:
        """NaN: a sampler knows its density up to a factor only."""
        return np.full(len(theta), math.nan)

    def constrained_fraction(self, k: int) -> float:
        """No draw was moved."""
        return 0.0


@dataclass(frozen=True)
class Sampling:
    """How a sampler's run went, of the draws that were kept."""

    effective: float
    """Independent draws of the most probable K with the same Monte-Carlo error, median over its parameters."""
    least_effective: float
    """The same of the parameter that has the fewest."""
    k_error: float
    """Monte-Carlo standard error of the largest p(K | x)."""
    jumps: int
    """Births and deaths that were accepted, at all temperatures."""
    r_hat: float
    """Of the log-likelihood or of K, whichever is larger."""
    autocorrelation: float
    """Median autocorrelation time of the parameters' ensemble means, in steps."""
    warm_up: int
    """Steps that were left out."""
    steps: int
    """Steps that were kept."""
    seconds: float
    """Wall time of everything."""
    acceptance: Mapping[str, float] = field(default_factory=dict)
    """Share of each move's proposals that were accepted, at temperature 1."""
    swaps: tuple[float, ...] = ()
    """Share of the exchanges between neighbouring temperatures that were accepted, the coldest first."""


class SampledPosterior(Posterior):
    """The posterior as a sampler's draws.

    Args:
        draws: Of each K.
        k_probs: Shares of the draws, (K_max + 1,).
        observation: The data.
        prior: The prior.
        method: Name of the sampler.
        sampling: How the run went.
    """

    slots: Draws

    def __init__(
        self,
        draws: Draws,
        k_probs: Array,
        observation: Observation,
        prior: Prior,
        method: str,
        sampling: Sampling,
    ) -> None:
        sigma, known = draws.sigma[int(np.argmax(k_probs))], prior.known_sigma
        level = float(sigma.mean()) if known is None else known
        spread = float(sigma.std()) if known is None else 0.0
        super().__init__(k_probs, draws, observation, level, spread, method, prior)
        self.sampling = sampling
        self._verdict: Verdict | None = None

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted: the chains' convergence, and the residual of the best draw."""
        if self._verdict is None:
            self._verdict = self._judge()
        return self._verdict

    @property
    def ess(self) -> float:
        """Effective share of the draws of the most probable K, 0 to 1."""
        return min(self.sampling.effective / len(self.slots.theta[self.k_map]), 1.0)

    def sample_sigma(self, n: int, k: int | None = None, seed: int = 0) -> Array:
        """Draws of the noise level, (n,); those of `sample` with the same seed belong to them."""
        chosen = self._k(k)
        rows = self.slots.rows(n, chosen, seed)
        return self.slots.sigma[chosen][rows]

    def extra_variables(self, n: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """σ of each draw and the effective share of draws, for `to_dataset`."""
        sigma = np.full(n, np.nan)
        for k, rows, k_seed in self._plan(n, seed):
            sigma[rows] = self.sample_sigma(rows.size, k, k_seed)
        words = {"units": self.unit or "data units", "long_name": "noise level"}
        return {"sigma": (("draw",), sigma, words)}, {"ess": self.ess}

    def _judge(self) -> Verdict:
        assert self.prior is not None
        statistics, s = Statistics.from_observation(self.observation), self.sampling
        verdict = judge(
            check_residual(
                statistics, best_draw(self), self.prior.frequency, self.prior.known_sigma
            ),
            refined=True,
            ess=1.0,
            pareto_k=0.0,
            k_error=s.k_error,
            at_k_max=float(self.k_probs[self.prior.k_max]),
        )
        if verdict.status != "exact":
            return verdict
        if not s.r_hat < CONVERGED:
            reason = f"the chains have not converged (R-hat {s.r_hat:.2f}); run more steps"
            return Verdict("approximate", reason, verdict.checks)
        reason = (
            f"{s.effective:.0f} effective draws, R-hat {s.r_hat:.2f}, the residual is white noise"
        )
        return Verdict("exact", reason, verdict.checks)
