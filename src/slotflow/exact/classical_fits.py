"""Fits of every order by the classical estimator: BIC and evidence of each, and how one of them is improved.

**Accuracy.** Fits on the way stop a tenth of a standard deviation from the maximum (`ROUGH`). Orders that still count
in the end go all the way, and only they have a `mismatch`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.signal.evidence import gaussian_draws, log_evidence
from slotflow.signal.fit import TOLERANCE, Laplace, fit
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Classical", "evidence_of", "improve", "no_fit"]

QUICK = 10
"""Gauss–Newton steps of a first fit; resolved tones need three."""
ROUGH = 1e-2
"""Decrement at which a first fit may stop: within 0.1 standard deviations and 0.005 in log L of the maximum."""
FAR = 250.0
"""Evidence is not computed for orders whose BIC/2 is worse than the best by so much."""


@dataclass(frozen=True, eq=False)
class Classical:
    """Fits of every order to B signals; index K = 0..K_max throughout."""

    fits: list[Laplace]
    """The joint fit of each order; signals whose pursuit ended earlier have converged = False."""
    bic: Tensor
    """BIC, (B, K_max + 1), inf where there is no fit."""
    log_evidence: Tensor
    """ln Z_K, (B, K_max + 1), −inf where there is no fit, or one that is worse by `FAR`."""
    prior: Prior
    """The prior of the evidence."""
    complete: bool = True
    """Whether all orders that may matter were looked at before the time of the call was over."""

    @property
    def k_bic(self) -> NDArray[np.int64]:
        """Order of the smallest BIC, (B,)."""
        order: NDArray[np.int64] = self.bic.argmin(-1).numpy()
        return order

    @property
    def k_probs(self) -> NDArray[np.float64]:
        """p(K | x), (B, K_max + 1)."""
        log_prior = self.prior.log_prob_k(torch.arange(self.prior.k_max + 1))
        logits = self.log_evidence + log_prior
        likely = (log_prior - self.bic / 2).argmax(-1, keepdim=True)
        lost = logits.gather(-1, likely) == -math.inf  # the order to beat has no evidence
        probs: NDArray[np.float64]
        probs = torch.where(lost, log_prior - self.bic / 2, logits).softmax(-1).numpy()
        return probs

    @property
    def k_map(self) -> NDArray[np.int64]:
        """Most probable K, (B,)."""
        order: NDArray[np.int64] = self.k_probs.argmax(-1)
        return order

    def sample(self, i: int, n: int, k: int | None = None, seed: int = 0) -> NDArray[np.float64]:
        """Joint draws of signal i from the Gaussian of order k, cut to the prior's support.

        Args:
            i: Which signal.
            n: Number of draws.
            k: Order; k_map if None.
            seed: The same seed gives the same draws.

        Returns:
            (A, φ in [0, 2π), f), (n, k, 3).
        """
        k = int(self.k_map[i]) if k is None else k
        if not 0 <= k < len(self.fits) or not bool(self.fits[k].converged[i]):
            raise ValueError(
                f"expected an order with a fit, received k = {k} for signal {i}; those of this signal "
                f"are {[j for j, f in enumerate(self.fits) if bool(f.converged[i])]}."
            )
        order, generator = self.fits[k], torch.Generator().manual_seed(seed)
        found: list[Tensor] = []
        for _ in range(1000):
            z = torch.randn(n, TONE.size * k, generator=generator, dtype=torch.float64)
            draws = gaussian_draws(order.theta[i : i + 1], order.covariance[i : i + 1], z)[0]
            found.append(draws[self.prior.log_prob_theta(draws) > -math.inf])
            if sum(map(len, found)) >= n:
                theta: NDArray[np.float64] = torch.cat(found)[:n].numpy()
                return theta
        raise ValueError(
            f"the fit of order {k} to signal {i} lies outside the prior; choose another order or prior."
        )


def improve(
    result: Classical,
    k: int,
    start: Tensor,
    rows: Tensor,
    statistics: Statistics,
    max_iterations: int = QUICK,
    final: bool = False,
) -> None:
    """Fits k tones to some signals and keeps what explains the data better than what is there.

    Args:
        result: Changed in place.
        k: Order.
        start: Where to start, (R, k, 3).
        rows: Which signals, (R,).
        statistics: Of all signals.
        max_iterations: Gauss–Newton steps at most.
        final: Whether to go all the way and to compare the curvature there; only a fit that arrives is kept.
    """
    n, known = statistics.n, result.prior.known_sigma
    found = fit(
        statistics.take(rows),
        start,
        sigma=None if known is None else torch.full((len(rows),), known, dtype=torch.float64),
        max_iterations=max_iterations,
        max_shift=2.0,
        tolerance=TOLERANCE if final else ROUGH,
        curvature=final,
    )
    rss = found.rss
    misfit = n * (rss / n).clamp_min(1e-300).log() if known is None else rss / known**2
    bic = misfit + TONE.size * k * math.log(n)
    better = (bic <= result.bic[rows, k] + 1e-9) & bic.isfinite()
    if final:
        better &= found.converged
    chosen = rows[better]
    result.bic[chosen, k] = bic[better]
    result.log_evidence[chosen, k] = math.nan
    for name, values in vars(result.fits[k]).items():
        values[chosen] = getattr(found, name)[better]


def evidence_of(result: Classical, rows: Tensor, n: int) -> Tensor:
    """Ln Z_K of some signals, (R, orders), computed where it is not known yet and the order is not too far off."""
    bic = result.bic[rows]
    near = bic < bic.amin(-1, keepdim=True) + 2 * FAR
    missing = near & result.log_evidence[rows].isnan()
    for k in missing.any(0).nonzero().squeeze(-1).tolist():
        some = rows[missing[:, k]]
        found = Laplace(**{name: value[some] for name, value in vars(result.fits[k]).items()})
        result.log_evidence[some, k] = log_evidence(found, result.prior, n)
    return torch.where(near, result.log_evidence[rows], -math.inf)


def no_fit(size: int, k: int) -> Laplace:
    """No fit of order k to any of the signals."""
    zero = torch.zeros(size, dtype=torch.float64)
    return Laplace(
        theta=torch.zeros(size, k, TONE.size, dtype=torch.float64),
        sigma=zero.clone(),
        covariance=torch.zeros(size, TONE.size * k, TONE.size * k, dtype=torch.float64),
        log_likelihood=zero.clone(),
        rss=zero.clone(),
        iterations=torch.zeros(size, dtype=torch.int64),
        converged=torch.zeros(size, dtype=torch.bool),
        mismatch=zero.clone(),
    )
