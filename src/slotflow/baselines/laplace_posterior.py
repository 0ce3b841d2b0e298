"""The classical estimator's answer as a posterior: Laplace's approximation of each K.

Draws of K tones are those of the joint Gaussian around the fit of order K (`classical.py`), cut to the prior's support;
p(K | x) comes from the fits' evidences. Orders without such draws, because the fit did not converge or lies outside
the prior, are left out, and the verdict says so where they held any probability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from slotflow.data.observation import Observation
from slotflow.exact.classical import Classical, classical
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.residual import residual
from slotflow.posterior.verdict import Verdict, check_residual, judge
from slotflow.signal.evidence import gaussian_draws
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.target import Array

__all__ = ["LaplaceDraws", "LaplacePosterior", "classical_posterior"]

NEGLIGIBLE = 1e-9
"""Probability below which an order is left out."""
COUNTED = 2000
"""Draws from which the share outside the prior is estimated."""
LEFT_OUT = 0.01
"""Probability of the orders without draws from which on the verdict mentions them."""
UNSAMPLED = "Laplace's approximation around the best fit, not checked against the likelihood"


class LaplaceDraws:
    """Draws from the Gaussian of each order, as the densities behind a Posterior.

    Args:
        result: Fits of one signal.
    """

    def __init__(self, result: Classical) -> None:
        self.result, self.k_max = result, result.prior.k_max

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws, (n, k, 3), sorted by frequency."""
        theta = self.result.sample(0, n, k, seed)
        order = np.argsort(theta[..., 2], -1)
        return np.take_along_axis(theta, order[..., None], 1)

    def log_prob(self, theta: Array) -> Array:
        """Not defined slot by slot: the draws are joint."""
        raise NotImplementedError("the components of joint draws have a joint density only.")

    def joint_log_prob(self, theta: Array) -> Array:
        """NaN: the share of the Gaussian inside the prior is not computed."""
        return np.full(len(theta), math.nan)

    def constrained_fraction(self, k: int) -> float:
        """Share of the Gaussian's draws outside the prior, which are drawn again."""
        fit, generator = self.result.fits[k], torch.Generator().manual_seed(0)
        normal = torch.randn(COUNTED, 3 * k, generator=generator, dtype=torch.float64)
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
        slots, probs = LaplaceDraws(result), result.k_probs[0].copy()
        for k in np.flatnonzero(probs).tolist():
            if probs[k] < NEGLIGIBLE or not _drawable(slots, k):
                probs[k] = 0.0
        if not probs.any():
            raise ValueError(
                "no order has a fit inside the prior; widen the bounds of amplitude or frequency, see that a stated "
                "noise level is right, or sample instead."
            )
        self.left_out = 1 - float(probs.sum())
        """Probability of the orders that have no draws."""
        probs /= probs.sum()
        fit, n = result.fits[int(probs.argmax())], sum(s.n for s in observation.channels)
        sigma = float(fit.sigma[0])
        error = sigma / math.sqrt(2 * n) if result.prior.known_sigma is None else 0.0
        super().__init__(probs, slots, observation, sigma, error, "classical", result.prior)
        self.n_samples = n
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
            statistics = Statistics.from_observation(self.observation)
            checks = check_residual(
                statistics, self._best, self.prior.frequency, self.prior.known_sigma
            )
            reason = UNSAMPLED
            if self.left_out > LEFT_OUT:
                reason += f"; orders of the probability {self.left_out:.2f} have no Gaussian"
            at_k_max = float(self.k_probs[self.prior.k_max])
            self._verdict = judge(checks, refined=False, at_k_max=at_k_max, unsampled=reason)
        return self._verdict

    def sample_sigma(self, n: int, k: int | None = None, seed: int = 0) -> Array:
        """Draws of the noise level, (n,), cut to the prior; independent of the tones to this order."""
        assert self.prior is not None
        level = float(self.slots.result.fits[self._k(k)].sigma[0])
        noise = np.random.default_rng(seed).standard_normal(n) / math.sqrt(2 * self.n_samples)
        return np.clip(level * (1 + noise), *self.prior.sigma)

    def residual(self) -> list[Array]:
        """Each stream's data minus the best fit of the most probable K, over the stream's noise ratio, (N_s,)."""
        return residual(self, self._best)

    def extra_variables(self, n: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Evidences, BIC, and σ of each draw, for `to_dataset`."""
        sigma = np.full(n, np.nan)
        for k, rows, k_seed in self._plan(n, seed):
            sigma[rows] = self.sample_sigma(rows.size, k, k_seed)
        variables = {
            "sigma": (
                ("draw",),
                sigma,
                {"units": self.unit or "data units", "long_name": "noise level"},
            ),
            "log_evidence": (("k_value",), self.log_z, {"long_name": "ln Z_K by Laplace"}),
            "bic": (("k_value",), self.bic, {"long_name": "Bayesian information criterion"}),
        }
        return variables, {}

    @property
    def _best(self) -> Array:
        """The fit of the most probable K, (K, 3)."""
        theta: Array = self.slots.result.fits[self.k_map].theta[0].numpy()
        return theta


def classical_posterior(observation: Observation, prior: Prior) -> LaplacePosterior:
    """The classical estimator's answer to one observation as a posterior."""
    return LaplacePosterior(classical(observation, prior), observation)


def _drawable(slots: LaplaceDraws, k: int) -> bool:
    """Whether order k has draws inside the prior."""
    try:
        slots.sample(1, k, 0)
    except ValueError:
        return False
    return True
