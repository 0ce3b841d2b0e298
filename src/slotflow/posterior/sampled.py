"""A posterior that is a set of draws: the common form of the answers of Monte-Carlo samplers.

It is used as any other `Posterior`: the same summary, files, plots and comparisons. Draws of K components are joint,
and components are in the order of their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.draws import Draws
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import (
    DrawQuality,
    Verdict,
    check_residual,
    graded,
    judge,
    white_words,
)
from slotflow.signal.prior import Prior

__all__ = ["CONVERGED", "Draws", "SampledPosterior", "SamplerRun"]

CONVERGED = 1.1
"""R-hat above which chains have not converged."""


@dataclass(frozen=True)
class SamplerRun:
    """How a sampler's run went, as far as the draws that were kept can tell."""

    effective: float
    """Independent draws of the most probable K with the same Monte-Carlo error, median over its parameters."""
    least_effective: float
    """The same of the parameter that has the fewest."""
    k_error: float
    """Monte-Carlo standard error of the largest p(K | x)."""
    jumps: int
    """Births and deaths that were accepted, at all temperatures."""
    r_hat: float
    """R-hat of the log-likelihood or of K, whichever is larger."""
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
    temperatures: Mapping[int, int] = field(default_factory=dict)
    """Points of each K's path from the prior to the posterior; empty for a sampler without such paths."""
    evaluations: int = 0
    """Likelihoods that were computed, for all K; 0 where they were not counted."""
    given_up: int | None = None
    """The K at which time ran out; None if it did not."""

    def revised(self, verdict: Verdict) -> Verdict:
        """The verdict on draws and residual, less confident where the run itself gives reason to doubt."""
        if self.given_up is not None:  # what is left of the data may be the next tone
            reason = f"time ran out before K = {self.given_up} was sampled; allow more"
            return Verdict("approximate", reason, verdict.checks)
        if verdict.status != "misfit" and not self.r_hat < CONVERGED:
            reason = f"the chains have not converged (R-hat {self.r_hat:.2f}); run more steps"
            if self.temperatures:  # independent islands of particles instead of chains
                reason = (
                    f"the islands disagree (R-hat {self.r_hat:.2f}); take more particles or sweeps"
                )
            return Verdict("approximate", reason, verdict.checks)
        if verdict.status != "exact":
            return verdict
        words = f"{self.effective:.0f} effective draws, R-hat {self.r_hat:.2f}"
        return Verdict("exact", f"{words}, {white_words(verdict.checks)}", verdict.checks)


class SampledPosterior(Posterior):
    """The posterior as a sampler's draws of each K, with the evidences where the sampler has them.

    Args:
        draws: Of each K.
        k_probs: p(K | x), (K_max + 1,).
        observation: The data.
        prior: The prior.
        method: Name of the sampler.
        sampling: How the run went.
        log_evidence: ln Z_K and its standard error, (K_max + 1, 2); −inf and inf where a K was not sampled.
    """

    slots: Draws

    def __init__(
        self,
        draws: Draws,
        k_probs: Array,
        observation: Observation,
        prior: Prior,
        method: str,
        sampling: SamplerRun,
        log_evidence: Array | None = None,
    ) -> None:
        best = int(np.argmax(k_probs))
        sigma, known = draws.sigma[best], prior.known_sigma
        level = float(sigma.mean()) if known is None else known
        spread = float(sigma.std()) if known is None else 0.0
        super().__init__(k_probs, draws, observation, level, spread, method, prior)
        self.sampling = sampling
        self.log_evidence = log_evidence
        self.ess = min(sampling.effective / len(draws.theta[best]), 1.0)
        self._verdict: Verdict | None = None

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted: the chains' convergence, and the residual of the best draw."""
        if self._verdict is None:
            self._verdict = self._judge()
        return self._verdict

    def _judge(self) -> Verdict:
        assert self.prior is not None
        verdict = judge(
            check_residual(
                self.statistics(), self.best_fit(), self.prior.frequency, self.prior.known_sigma
            ),
            DrawQuality(ess=1.0, k_error=self.sampling.k_error),
            at_k_max=float(self.k_probs[self.prior.k_max]),
        )
        found = self.sampling.revised(verdict)
        return graded(found, self.statistics(), self.best_fit(), self.noise_std)
