"""Posteriors of single signals side by side, so that their tables are made together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict
from slotflow.signal.prior import Prior

__all__ = ["Gathered"]


class Gathered(Batched):
    """The posteriors of signals that were answered one by one.

    Args:
        posts: At least one; all have the same K_max, resolution and waveform.
    """

    def __init__(self, posts: Sequence[Posterior]) -> None:
        self.posts = list(posts)
        errors = [post.noise_std_error for post in self.posts]
        known = [np.nan if error is None else error for error in errors]
        super().__init__(
            np.stack([post.k_probs for post in self.posts]),
            np.array([post.noise_std for post in self.posts]),
            np.array(known),
            self.posts[0].resolution,
        )
        self.waveform = self.posts[0].waveform

    def one(self, row: int) -> Posterior:
        """The posterior of one signal."""
        return self.posts[row]

    def observation(self, row: int) -> Observation:
        """The data of one signal."""
        return self.posts[row].observation

    def prior_of(self, row: int) -> Prior | None:
        """The prior that one signal was answered under, where it is known."""
        return self.posts[row].prior

    def verdicts(self, rows: Rows) -> list[Verdict]:
        """How far the results of some signals can be trusted."""
        return [self.posts[row].verdict for row in rows.tolist()]

    def draws(
        self, rows: Rows, counts: Rows, sizes: Rows, seeds: Rows, out: Array | None = None
    ) -> Array:
        """Draws of Θ given K of some signals, (S, n, k, P)."""
        if out is None:
            shape = (len(rows), int(sizes.max()), int(counts.max()), self.waveform.size)
            out = np.empty(shape)
        out[:] = np.nan
        asked = zip(rows.tolist(), counts.tolist(), sizes.tolist(), seeds.tolist(), strict=True)
        for own, (row, k, n, seed) in zip(out, asked, strict=True):
            own[:n, :k] = self.posts[row].sample(n, k, seed)
        return out
