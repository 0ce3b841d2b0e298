"""Posteriors of single signals side by side, so that their tables are made together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slotflow.posterior.batched import Batched
from slotflow.posterior.posterior import Posterior

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
