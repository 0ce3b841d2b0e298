"""Several batches of posteriors as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.facts import Facts
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict
from slotflow.signal.prior import Prior

__all__ = ["Joined"]


class Joined(Batched):
    """The posteriors of the signals of several batches, one batch after the other.

    Args:
        parts: At least one batch; all have the same K_max, sampling and waveform.
    """

    def __init__(self, parts: Sequence[Batched]) -> None:
        self.parts = list(parts)
        errors = [part.noise_std_error for part in self.parts]
        known = [error for error in errors if error is not None]
        super().__init__(
            np.concatenate([part.k_probs for part in self.parts]),
            np.concatenate([part.noise_std for part in self.parts]),
            np.concatenate(known) if len(known) == len(errors) else None,
            self.parts[0].resolution,
        )
        self.waveform = self.parts[0].waveform
        self.first = np.cumsum([0, *map(len, self.parts)])
        """Where each part begins, and the end."""

    def _at(self, row: int) -> tuple[Batched, int]:
        """The part that a signal belongs to, and its row there."""
        part = int(np.searchsorted(self.first, row, side="right")) - 1
        return self.parts[part], row - int(self.first[part])

    def one(self, row: int) -> Posterior:
        """The posterior of one signal."""
        part, own = self._at(row)
        return part.one(own)

    def facts(self, rows: Rows) -> list[Facts]:
        """What is known of some signals without a draw."""
        where = [self._at(row) for row in rows.tolist()]
        return [part.facts(np.array([own]))[0] for part, own in where]

    def observation(self, row: int) -> Observation:
        """The data of one signal."""
        part, own = self._at(row)
        return part.observation(own)

    def prior_of(self, row: int) -> Prior | None:
        """The prior that one signal was answered under, where it is known."""
        part, own = self._at(row)
        return part.prior_of(own)

    def verdicts(self, rows: Rows) -> list[Verdict]:
        """How far the results of some signals can be trusted."""
        where = [self._at(row) for row in rows.tolist()]
        return [part.verdicts(np.array([own]))[0] for part, own in where]

    def draws(
        self, rows: Rows, counts: Rows, sizes: Rows, seeds: Rows, out: Array | None = None
    ) -> Array:
        """Draws of Θ given K of some signals, (S, n, k, P)."""
        out = self.room(counts, sizes, out)
        owner = np.searchsorted(self.first, rows, side="right") - 1
        for number in np.unique(owner).tolist():
            own = np.flatnonzero(owner == number)
            local = rows[own] - self.first[number]
            drawn = self.parts[number].draws(local, counts[own], sizes[own], seeds[own])
            out[own, : drawn.shape[1], : drawn.shape[2]] = drawn
        return out
