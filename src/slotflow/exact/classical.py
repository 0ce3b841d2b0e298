r"""The classical estimator: matching pursuit, joint Gauss–Newton, order by BIC or by Laplace evidence.

**Pursuit.** For K = 1, 2, … the strongest peak of the residual's zero-padded periodogram inside the band, on the long
stream, starts one more tone. All K tones are then refitted together on all streams (`signal/fit.py`), so that an
early tone moves as its neighbours are found. A tone that started on the wrong peak is shed on the way back: from each
order one tone (the weakest, or one of the closest pair) is left out and the rest refitted, which becomes the fit of
the order below if it explains the data better. Where the rest stands on the fit of that order already, or the tone is
worth far more than the two orders differ by, this is spared (`pursuit.py`).

**BIC.** With n samples and σ² = RSS/n, BIC_K = n ln(RSS_K / n) + 3K ln n, or RSS_K / σ² + 3K ln n where the prior says
that σ is known. It knows nothing else of the prior.

**Evidence.** ln Z_K by Laplace's approximation under a given prior (`signal/evidence.py`); p(K | x) ∝ Z_K p(K). Where
the order that BIC and the prior favour has no Gaussian (its fit did not converge), evidences of the other orders say
nothing about it, and p(K | x) ∝ exp(−BIC_K/2) p(K) takes their place.

Resolved tones at the paper's noise levels are an easy case for it. Below the resolution 1/T the pursuit can miss
the second tone of a pair, the posterior is no Gaussian, and p(K | x) is overconfident.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slotflow.core.budget import time_left
from slotflow.data.observation import Observation, as_list
from slotflow.data.sampling import Grid
from slotflow.exact.classical_fits import Classical, evidence_of, improve, no_fit
from slotflow.exact.pursuit import (
    HOPELESS,
    crowded,
    strongest,
    weakest,
    without_one,
    worth_going_on,
)
from slotflow.signal.fit import linear_amplitudes
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Classical", "classical"]

SPARE = 2
"""Orders beyond the prior's k_max that the pursuit may pass through: a wrong tone is shed on the way back."""
ALL_THE_WAY = 60
"""Gauss–Newton steps of a fit that is to converge."""


@torch.no_grad()
def classical(
    observation: Observation | Sequence[Observation], prior: Prior | None = None
) -> Classical:
    """Fits every order up to the prior's k_max.

    Args:
        observation: One observation, or several on the same grids.
        prior: Band, largest order, and what the evidence is taken under; the paper's if None.
    """
    pursuit = _Pursuit.of(as_list(observation), Prior() if prior is None else prior)
    complete = pursuit.forward()
    complete = pursuit.backward() and complete
    pursuit.settle_neighbours()
    return pursuit.finished(complete)


@dataclass(frozen=True, eq=False)
class _Pursuit:
    """Fits of B signals on the way; `result` is changed in place."""

    statistics: Statistics
    series: Tensor
    """The long streams, (B, N)."""
    noise: Tensor
    """Estimates of σ, (B,), or NaN."""
    result: Classical

    @classmethod
    def of(cls, several: Sequence[Observation], prior: Prior) -> _Pursuit:
        """The beginning: no fits, and no evidence known."""
        statistics = Statistics.from_observation(several)
        grid = statistics.grids[0]
        if prior.frequency[1] > 0.5 / grid.dt:
            raise ValueError(
                f"expected a band below the Nyquist frequency of {0.5 / grid.dt:g} Hz, received "
                f"{prior.frequency} Hz; lower the prior's frequency range."
            )
        series = torch.as_tensor(np.stack([one.long.values for one in several]))
        known = prior.known_sigma
        levels = [known or one.noise_level(prior.frequency)[0] for one in several]
        size, orders = len(several), prior.k_max + 1 + SPARE
        result = Classical(
            [no_fit(size, k) for k in range(orders)],
            bic=torch.full((size, orders), math.inf, dtype=torch.float64),
            log_evidence=torch.full((size, orders), math.nan, dtype=torch.float64),
            prior=prior,
        )  # evidence: NaN as long as it is not known
        return cls(statistics, series, torch.tensor(levels).double(), result)

    @property
    def grid(self) -> Grid:
        """Sampling of the long stream."""
        return self.statistics.grids[0]

    @property
    def orders(self) -> int:
        """Orders that are looked at, 0 among them."""
        return len(self.result.fits)

    @property
    def everyone(self) -> Tensor:
        """All signals, (B,)."""
        return torch.arange(len(self.series))

    def best(self) -> Tensor:
        """The larger of the orders that BIC and evidence favour, (B,)."""
        evidence = evidence_of(self.result, self.everyone, self.statistics.n)
        return torch.maximum(self.result.bic.argmin(-1), evidence.argmax(-1))

    def forward(self) -> bool:
        """One more tone at a time; whether all orders that may matter were looked at."""
        active, fits, statistics = self.everyone, self.result.fits, self.statistics
        for k in range(self.orders):
            start = torch.zeros(len(active), 0, TONE.size, dtype=torch.float64)
            if k > 0:
                before = fits[k - 1].theta[active]
                peak = strongest(
                    self.series[active], before, self.noise[active], self.grid, self.result.prior
                )
                frequency = torch.cat([TONE.place_of(before), peak[:, None]], dim=1)
                start = linear_amplitudes(statistics.take(active), frequency)
            improve(self.result, k, start, active, statistics)
            active = active[worth_going_on(self.result, active, k, statistics.n)]
            if len(active) == 0 or time_left() < 0:
                break
        return len(active) == 0 or k == self.orders - 1

    def backward(self) -> bool:
        """One tone less, where that could be the answer; whether there was time for all of it."""
        best, fits = self.best(), self.result.fits
        for k in range(self.orders - 2, 0, -1):
            if time_left() < 0:
                return False
            near = (k >= best - 2) & self.result.bic[:, k + 1].isfinite()
            for drop in (weakest, crowded):
                rows = torch.nonzero(near).squeeze(-1)
                if len(rows):
                    dropped = drop(fits[k + 1].theta[rows])
                    frequency, promising = without_one(fits, k, dropped, rows, self.grid)
                    rows = rows[promising]
                if len(rows):
                    start = linear_amplitudes(self.statistics.take(rows), frequency[promising])
                    improve(self.result, k, start, rows, self.statistics)
        return True

    def settle_neighbours(self) -> None:
        """Goes on with neighbours of the best order that ran out of steps."""
        best, fits = self.best(), self.result.fits
        for k in range(1, self.orders):
            near = (k - best).abs() <= 1
            near &= self.result.bic[:, k].isfinite() & ~fits[k].converged
            rows = torch.nonzero(near).squeeze(-1)
            if len(rows):
                start = fits[k].theta[rows]
                improve(self.result, k, start, rows, self.statistics, ALL_THE_WAY)

    def finished(self, complete: bool) -> Classical:
        """The orders that were asked for; whatever still counts goes all the way."""
        prior, n = self.result.prior, self.statistics.n
        asked = prior.k_max + 1
        evidence = evidence_of(self.result, self.everyone, n)[:, :asked]
        fits = self.result.fits[:asked]
        result = Classical(fits, self.result.bic[:, :asked], evidence, prior, complete)
        counts = evidence > evidence.amax(-1, keepdim=True) - HOPELESS
        counts.scatter_(1, torch.as_tensor(result.k_bic)[:, None], True)
        for k in range(asked):
            rows = torch.nonzero(counts[:, k]).squeeze(-1)
            if len(rows):
                start = fits[k].theta[rows]
                improve(result, k, start, rows, self.statistics, ALL_THE_WAY, final=True)
        return replace(result, log_evidence=evidence_of(result, self.everyone, n))
