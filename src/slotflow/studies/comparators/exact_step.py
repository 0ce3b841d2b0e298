"""The exact step behind the interface of the leaderboard: what the data allow to know, and what it costs.

The posterior of every signal by importance sampling from the proposals of the released network (`slotflow.exact`). It
is not amortized, and it is no competitor; ln p(Θ, K | x) is what no method can exceed on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slotflow.exact.refined import RefinedPosterior
from slotflow.network.model import SlotFlow
from slotflow.signal.simulation import Simulation
from slotflow.studies.answers import exact_of
from slotflow.studies.comparators.interface import Reference

__all__ = ["ExactEncoded", "ExactStep"]

DRAWS = 1000
"""Weighted draws behind each posterior."""


@dataclass(frozen=True, eq=False)
class ExactEncoded:
    """The posteriors of B signals."""

    posteriors: Sequence[RefinedPosterior]
    k_max: int
    device: torch.device
    """Where tensors go; the posteriors themselves are NumPy's."""

    @property
    def log_counts(self) -> Tensor:
        """Ln p(K | x), (B, k_max + 1), float64, index = K; K that were not looked at have −∞."""
        found = np.zeros((len(self.posteriors), self.k_max + 1))
        for row, post in zip(found, self.posteriors, strict=True):
            known = post.k_probs[
                : len(row)
            ]  # some have places for more K, which the prior excludes
            row[: len(known)] = known
        return torch.as_tensor(found).log().to(self.device)

    def take(self, rows: Tensor) -> ExactEncoded:
        """Some of the signals, rows (S,), int64."""
        return replace(self, posteriors=[self.posteriors[row] for row in rows.tolist()])


class ExactStep(Reference[SlotFlow]):
    """Exact posteriors from what the network proposes, signal by signal; components are ordered by frequency."""

    def encode(self, batch: Simulation) -> ExactEncoded:
        """The posteriors of signals."""
        found = (
            self.network.infer(
                batch.observation(i), prior=self.prior, draws=DRAWS, seed=batch.seed + i
            )
            for i in range(len(batch.k))
        )
        return ExactEncoded([exact_of(post) for post in found], self.k_max, self.device)

    def draw(self, encoded: ExactEncoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P), float64."""
        seed = int(torch.randint(2**31, (1,), generator=generator, device=generator.device))
        found = [post.slots.sample(n, k, seed + i) for i, post in enumerate(encoded.posteriors)]
        return torch.as_tensor(np.stack(found)).to(self.device)

    def log_prob(self, encoded: ExactEncoded, theta: Tensor) -> Tensor:
        """Ln p(θ_1, …, θ_k | K = k, x), which has no labels, (B, k, P) to (B,), float64."""
        values = [
            post.slots.joint_log_prob(one[None])[0]
            for post, one in zip(encoded.posteriors, theta.double().cpu().numpy(), strict=True)
        ]
        return torch.as_tensor(np.array(values)).to(self.device)

    def log_prob_set(self, encoded: ExactEncoded, theta: Tensor) -> Tensor:
        """Ln p({θ} | K = k, x), (B, k, P) to (B,), float64."""
        return self.log_prob(encoded, theta) + math.lgamma(theta.shape[1] + 1)
