"""The classical estimator's answer as a posterior: Laplace's approximation of each K.

Draws of K tones are those of the joint Gaussian around the fit of order K (`classical.py`), cut to the prior's support;
p(K | x) comes from the fits' evidences. Orders without such draws, because the fit did not converge or lies outside
the prior, are left out, and the verdict says so where they held any probability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.classical import Classical, classical
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict, check_residual, graded, judge
from slotflow.signal.evidence import gaussian_draws
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["LaplaceDraws", "LaplacePosterior", "classical_posterior"]

NEGLIGIBLE = 1e-9
"""Probability below which an order is left out."""
SHARE_DRAWS = 2000
"""Draws from which the share outside the prior is estimated."""
LEFT_OUT_SHARE = 0.01
"""Probability of the orders without draws above which the verdict mentions them."""
UNSAMPLED = "Laplace's approximation around the best fit, not checked against the likelihood"


class LaplaceDraws:
    """Draws from the Gaussian of each order, as the densities behind a Posterior.

    Args:
        result: Fits of one signal.
        n_samples: Number of samples of all channels.
    """

    def __init__(self, result: Classical, n_samples: int) -> None:
        self.result, self.k_max, self.n_samples = result, result.prior.k_max, n_samples

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws, (n, k, P), sorted by frequency."""
        return TONE.sorted(self.result.sample(0, n, k, seed))

    def sampled(self, k: int) -> bool:
        """Whether there are draws of k components: fits that did not converge or lie outside the prior have none."""
        try:
            self.sample(1, k, 0)
        except ValueError:
            return False
        return True

    def sample_sigma(self, n: int, k: int, seed: int) -> Array:
        """Draws of the noise level, (n,), cut to the prior; to this order it is independent of the tones."""
        level = float(self.result.fits[k].sigma[0])
        noise = np.random.default_rng(seed).standard_normal(n) / math.sqrt(2 * self.n_samples)
        return np.clip(level * (1 + noise), *self.result.prior.sigma)

    def log_prob(self, theta: Array) -> Array:
        """Raises an error: the draws are joint, so no slot has a density of its own."""
        raise NotImplementedError("the components of joint draws have a joint density only.")

    def joint_log_prob(self, theta: Array) -> Array:
        """NaN: the share of the Gaussian inside the prior is not computed."""
        return np.full(len(theta), math.nan)

    def constrained_fraction(self, k: int) -> float:
        """Share of the Gaussian's draws outside the prior, which are drawn again."""
        fit, generator = self.result.fits[k], torch.Generator().manual_seed(0)
        normal = torch.randn(SHARE_DRAWS, TONE.size * k, generator=generator, dtype=torch.float64)
        draws = gaussian_draws(fit.theta[:1], fit.covariance[:1], normal)[0]
        return float((self.result.prior.log_prob_theta(draws) == -math.inf).double().mean())


class LaplacePosterior(Posterior):
    """The classical estimator's answer.

    Args:
        result: Fits of one signal.
        observation: The data.
    """

    slots: LaplaceDraws

    def __init__(self, result: Classical, observation: Observation) -> None:
        n = sum(s.n for s in observation.channels)
        slots, probs = LaplaceDraws(result, n), result.k_probs[0].copy()
        for k in np.flatnonzero(probs).tolist():
            if probs[k] < NEGLIGIBLE or not slots.sampled(k):
                probs[k] = 0.0
        if not probs.any():
            raise ValueError(
                "no order has a fit inside the prior; widen the bounds of amplitude or frequency, see that a stated "
                "noise level is right, or sample instead."
            )
        self.left_out = 1 - float(probs.sum())
        """Probability of the orders that have no draws."""
        probs /= probs.sum()
        sigma = float(result.fits[int(probs.argmax())].sigma[0])
        error = sigma / math.sqrt(2 * n) if result.prior.known_sigma is None else 0.0
        super().__init__(probs, slots, observation, sigma, error, "classical", result.prior)
        self.log_evidence = np.stack([self.log_z, np.full(probs.size, math.nan)], -1)
        self._verdict: Verdict | None = None

    @property
    def log_z(self) -> Array:
        """Laplace's ln Z_K, (K_max + 1,); −inf without a fit."""
        value: Array = self.slots.result.log_evidence[0].numpy()
        return value

    @property
    def bic(self) -> Array:
        """BIC of each order, (K_max + 1,); inf without a fit."""
        value: Array = self.slots.result.bic[0].numpy()
        return value

    @property
    def verdict(self) -> Verdict:
        """Approximate, or a misfit if the residual of the best fit is not white noise."""
        if self._verdict is None:
            assert self.prior is not None
            statistics, fit = self.statistics(), self.best_fit()
            checks = check_residual(statistics, fit, self.prior.frequency, self.prior.known_sigma)
            reason = UNSAMPLED
            if self.left_out > LEFT_OUT_SHARE:
                reason += f"; orders of the probability {self.left_out:.2f} have no Gaussian"
            if not self.slots.result.complete:
                reason += (
                    "; the time budget ended before all orders were looked at, raise max_seconds"
                )
            at_k_max = float(self.k_probs[self.prior.k_max])
            verdict = judge(checks, at_k_max=at_k_max, unsampled=reason)
            self._verdict = graded(verdict, statistics, fit, self.noise_std)
        return self._verdict

    def known_fit(self, k: int) -> Array | None:
        """The fit of order k, (k, P); None where it did not converge or has no draws."""
        if not self.sampled(k):
            return None
        theta: Array = self.slots.result.fits[k].theta[0].numpy()
        return theta

    def best_fit(self, k: int | None = None) -> Array:
        """The fit of order k, (k, P).

        Args:
            k: Number of components; k_map if None. A K without draws is an error.
        """
        theta: Array = self.slots.result.fits[self._sampled(k)].theta[0].numpy()
        return theta

    def tables_by_k(self) -> Mapping[str, tuple[Array, str]]:
        """The Bayesian information criterion, for files."""
        return {"bic": (self.bic, "Bayesian information criterion")}


def classical_posterior(observation: Observation, prior: Prior) -> LaplacePosterior:
    """The classical estimator's answer to one observation as a posterior."""
    return LaplacePosterior(classical(observation, prior), observation)
