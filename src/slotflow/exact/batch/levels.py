"""The noise level of B signals, integrated out of the likelihood; the formulas are those of `signal/noise/white.py`."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor

from slotflow.signal.likelihood import Statistics
from slotflow.signal.noise import WhiteNoise
from slotflow.signal.noise.white import log_marginal, precision
from slotflow.signal.prior import Prior

__all__ = ["Levels"]

ROUNDS = 8
"""Rounds of common draws of σ; a signal whose bounds leave out some of them all draws its own."""
UNTOUCHED = 1e-17
"""Share of the density of σ outside its bounds that rounding swallows."""


class Levels:
    """Noise levels under one prior.

    Args:
        statistics: Of B signals.
        prior: Gives the bounds of σ.

    Raises:
        ValueError: A known σ is too small for some of the data.
    """

    def __init__(self, statistics: Statistics, prior: Prior) -> None:
        self.energy, n = statistics.energy, statistics.n
        spent = statistics.waveform.coordinates * statistics.removed
        rms = (self.energy / n).sqrt().tolist()
        each = [WhiteNoise.under(prior.sigma, max(n - spent, 2), one) for one in rms]
        self.n, self.high, self.known = each[0].n, each[0].high, each[0].known
        self.low: Tensor | float = self.high
        if not self.known:
            self.low = torch.tensor([one.low for one in each], dtype=torch.float64).to(self.energy)
        self.constant = (
            -0.5 * self.n * math.log(2 * math.pi)
            - statistics.log_scale
            - (0.0 if self.known else math.log(prior.sigma[1] - prior.sigma[0]))
        )

    def log_likelihood(self, rss: Tensor, k: int) -> Tensor:
        """Log-likelihood with σ integrated out, K! included, of RSS, (B, n)."""
        constant = self.constant + math.lgamma(k + 1)
        if isinstance(self.low, float):
            at_known: Tensor = log_marginal(rss, self.n, self.low, self.high) + constant
            return at_known
        cut = self._cut(rss)
        found = torch.empty_like(rss)
        for rows in (cut, ~cut):  # incomplete gamma functions only where the bounds matter
            if bool(rows.any()):
                low = self.low[rows, None]
                found[rows] = log_marginal(rss[rows], self.n, low, self.high)
        return found + constant

    def precision(self, rss: Tensor) -> Tensor:
        """1/σ² that the curvature of the likelihood sees, (B,), at RSS of the same shape."""
        found: Tensor = precision(rss, self.n, self.low, self.high)
        return found

    def variance(self, rss: Tensor) -> Tensor:
        """σ² of a fit, (B,)."""
        return torch.full_like(rss, self.high**2) if self.known else rss / self.n

    def sample(self, rss: Tensor, seed: tuple[int, int]) -> Tensor:
        """One σ for each RSS, (B, n), from numbers that all signals share."""
        if isinstance(self.low, float):
            return torch.full_like(rss, self.high)
        rng = np.random.default_rng(seed)
        shape, low = 0.5 * (self.n - 1), self.low[:, None]
        sigma = torch.full_like(rss, math.nan)
        for _ in range(ROUNDS):
            gamma = torch.from_numpy(rng.standard_gamma(shape, rss.shape[1])).to(rss.device)
            drawn = (0.5 * rss / gamma).sqrt()
            wanted = sigma.isnan() & (drawn >= low) & (drawn <= self.high)
            sigma = torch.where(wanted, drawn, sigma)
            if not bool(sigma.isnan().any()):
                return sigma
        for i in torch.nonzero(sigma.isnan().any(-1)).flatten().tolist():  # a bound cuts
            noise = WhiteNoise(self.n, float(self.low[i]), self.high)
            drawn_here = noise.sample(rss[i].cpu().numpy(), np.random.default_rng(seed))
            sigma[i] = torch.from_numpy(drawn_here).to(sigma)
        return sigma

    def _cut(self, rss: Tensor) -> Tensor:
        """Of which signals the bounds cut off more of σ's density than rounding would, (B,), at RSS, (B, n)."""
        shape = 0.5 * (self.n - 1)
        least = (0.5 * rss.amin(-1) / self.low**2).cpu().numpy()
        most = (0.5 * rss.amax(-1) / self.high**2).cpu().numpy()
        outside = np.maximum(special.gammaincc(shape, least), special.gammainc(shape, most))
        return torch.from_numpy(~(outside <= UNTOUCHED)).to(rss.device)
