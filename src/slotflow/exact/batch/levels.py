"""The noise level of B signals, integrated out of the likelihood; the formulas are those of `signal/noise/white.py`."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.signal.likelihood import Statistics
from slotflow.signal.noise import WhiteNoise
from slotflow.signal.noise.white import log_marginal, lowest_level, precision
from slotflow.signal.prior import Prior

__all__ = ["Levels"]

MORE_CANDIDATES = (1, 2, 5, 64)
"""Common draws of σ in further rounds, for signals whose bounds leave out earlier ones; after the last a signal draws
its own."""
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
        spent, (_, self.high) = statistics.waveform.coordinates * statistics.removed, prior.sigma
        self.n, rms = max(n - spent, 2), (self.energy / n).sqrt()
        self.known = prior.known_sigma is not None
        self.low: Tensor | float = self.high
        if self.known:
            WhiteNoise.under(prior.sigma, self.n, float(rms.max()))
        else:
            self.low = lowest_level(prior.sigma, rms)
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
        if not bool(cut.any()):
            uncut: Tensor = log_marginal(rss, self.n, self.low, self.high, cut=False)
            return uncut + constant
        found = torch.empty_like(rss)
        for rows, matter in ((cut, True), (~cut, False)):  # incomplete gamma functions are slow
            low = self.low[rows, None]
            found[rows] = log_marginal(rss[rows], self.n, low, self.high, cut=matter)
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
        rng, shape, low = np.random.default_rng(seed), 0.5 * (self.n - 1), self.low

        def candidates(rows: Any, size: int) -> Tensor:
            """The first of so many draws between the bounds, NaN where there is none, (rows, n)."""
            gamma = torch.from_numpy(rng.standard_gamma(shape, (size, rss.shape[1])))
            drawn = (0.5 * rss[rows, None] / upload(gamma, rss.device)).sqrt()  # (rows, size, n)
            good = (drawn >= low[rows, None, None]) & (drawn <= self.high)
            first = drawn.gather(1, good.int().argmax(1, keepdim=True))[:, 0]
            return torch.where(good.any(1), first, math.nan)

        sigma = candidates(slice(None), 1)
        for size in MORE_CANDIDATES:
            left = torch.nonzero(sigma.isnan().any(-1)).flatten()
            if not len(left):
                return sigma
            sigma[left] = torch.where(sigma[left].isnan(), candidates(left, size), sigma[left])
        for i in torch.nonzero(sigma.isnan().any(-1)).flatten().tolist():  # a bound cuts
            noise = WhiteNoise(self.n, float(low[i]), self.high)
            drawn_here = noise.sample(rss[i].cpu().numpy(), np.random.default_rng(seed))
            sigma[i] = torch.from_numpy(drawn_here).to(sigma)
        return sigma

    def _cut(self, rss: Tensor) -> Tensor:
        """Of which signals the bounds cut off more of σ's density than rounding would, (B,), at RSS, (B, n)."""
        least, most = _untouched(0.5 * (self.n - 1))
        below = 0.5 * rss.amin(-1) / self.low**2 >= least
        return ~(below & (0.5 * rss.amax(-1) / self.high**2 <= most))


@cache
def _untouched(shape: float) -> tuple[float, float]:
    """RSS/2σ² at the lower bound at least, and at the upper one at most, where rounding swallows what is cut off."""
    return float(special.gammainccinv(shape, UNTOUCHED)), float(
        special.gammaincinv(shape, UNTOUCHED)
    )
