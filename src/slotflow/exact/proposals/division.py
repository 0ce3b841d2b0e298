r"""Proposals of K tones from draws of K − 1: one of them is divided in two.

A draw z' of K − 1 tones is one of p(Θ | x, K − 1), of known density π = p̃/Z_{K−1}. One tone is chosen and divided by a
draw from its table (`splits.py`), and the others move by s, what the table says of the cell. Only neighbours can have
been one tone, so that the density of a set is a sum over its K − 1 pairs of neighbours,

.. math:: q(z) = \sum_j w_j\; π(z_{j,j+1 \text{ merged}} - s)\; t_j(δ, |c_1|, ψ)\, /\, |c_1| .

Unlike a Gaussian around the maximum of K − 1 tones, their draws may have any shape: a pair among them that is itself
unresolved stays as the data leave it. In some draws the others do not move, since what the table says of them is
a linear estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance
from slotflow.exact.proposals.splits import PairTable, divided, merged
from slotflow.exact.target import Target

__all__ = ["Division"]

SHARES = (0.75, 0.25)
"""Draws in which the others move, and in which they stay."""
EVEN = 0.5
"""Share of the divisions that is spread evenly over the tones, whatever their tables promise."""


class Division:
    """K tones: draws of K − 1, one of them divided.

    Args:
        target: Of K − 1 tones.
        lower: Their draws and evidence.
        tables: Of pairs in place of each tone of a maximum of them. They rest on differences of large numbers, so the
            covariance that they are made with must be that of the model, not of draws.
    """

    def __init__(self, target: Target, lower: Importance, tables: Sequence[PairTable]) -> None:
        self.target, self.lower = target, lower
        self.z = target.statistics.to_z(lower.theta)
        self.tables = tables
        promise = np.array([table.log_gain for table in self.tables])
        with np.errstate(invalid="ignore"):
            promise = np.exp(promise - log_sum_exp(promise))
        even = 1 / target.k
        self.chosen: Array = EVEN * even + (1 - EVEN) * np.nan_to_num(promise, nan=even)
        self.chosen /= self.chosen.sum()

    def carried(self, result: Importance, share: float = 1.0) -> Importance:
        """A result with the errors of the draws of K − 1 and of their evidence added to its own.

        A share s of n draws come from L effective ones. Of the variance v of a weight at most all is that of the draw
        which it came from: then the mean of n weights has the variance v/n + s² v/L. Particles of tempered sampling
        have ancestors in common, and count for as many as are effective.

        Args:
            result: The result.
            share: Of the draws that come from those of K − 1.
        """
        lower = self.lower
        n = result.effective if result.method == "tempering" else len(result.log_weights)
        again = 1 + share**2 * n / max(lower.effective, 1.0)
        error = math.hypot(result.log_evidence_error * math.sqrt(again), lower.log_evidence_error)
        return replace(result, log_evidence_error=error)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        base = self.z[rng.choice(len(self.z), n, p=np.exp(self.lower.log_weights))]
        which = rng.choice(len(self.tables), n, p=self.chosen)
        moves = rng.random(n) < SHARES[0]
        z = np.empty((n, self.target.k + 1, base.shape[2]))
        for j, table in enumerate(self.tables):
            at = np.flatnonzero(which == j)
            cell, *inner = table.sample(len(at), rng)
            tones = base[at] + np.where(moves[at, None, None], table.moved(cell), 0.0)
            z[at, :j], z[at, j + 2 :] = tones[:, :j], tones[:, j + 1 :]
            z[at, j : j + 2] = divided(tones[:, j], *inner)
        return z

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        rows, logs = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        before = [np.zeros((0, self.target.k, z.shape[2]))]
        for j, table in enumerate(self.tables):
            tone, *inner = merged(z[:, j : j + 2])
            cell, log_density = table.locate(*inner)
            near = np.flatnonzero(log_density > -np.inf)
            base = np.concatenate([z[near, :j], tone[near, None], z[near, j + 2 :]], 1)
            log_density = log_density[near] - np.log(inner[1][near]) + math.log(self.chosen[j])
            for share, moved in zip(SHARES, (table.moved(cell[near]), 0.0), strict=True):
                rows.append(near)
                before.append(base - moved)
                logs.append(log_density + math.log(share))
        # All that the draws may have been before, in one call: most pairs of neighbours are too far apart to count.
        row = np.concatenate(rows)
        term = np.concatenate(logs) + self.target.log_prob(np.concatenate(before))[0]
        top = np.full(len(z), -np.inf)
        np.maximum.at(top, row, term)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            total = np.log(np.bincount(row, np.exp(term - top[row]), len(z))) + top
        log_prob: Array = total - self.lower.log_evidence
        return log_prob
