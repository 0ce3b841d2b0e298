"""What the default network answers to a batch of signals, as arrays over the signals on the network's device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.core.devices import download, in_halves
from slotflow.data.observation import Observation
from slotflow.network.zoom.alike import draw_alike
from slotflow.network.zoom.analysis import Analysis
from slotflow.network.zoom.densities import ZoomSlotDensities
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.late import SignalFacts
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict, judge
from slotflow.signal.prior import Prior

__all__ = ["ZoomPosteriors"]

ROWS_AT_ONCE = {"cpu": 2**16, "cuda": 2**22}
"""Draws of single slots that are made together."""


class ZoomPosteriors(Batched):
    """The network's posteriors of B signals.

    Args:
        analysis: What the network made of them.
        observations: The data.
        priors: The prior of each signal, or one for all.
        name: Of the network.
        assumed: What was assumed of each signal, if that is the same for all.
    """

    def __init__(
        self,
        analysis: Analysis,
        observations: Sequence[Observation],
        priors: Sequence[Prior] | Prior,
        name: str,
        assumed: Assumed | None = None,
    ) -> None:
        sigma = analysis.noise.cpu().numpy()
        error = sigma / np.sqrt(2 * analysis.statistics.n)
        duration = analysis.statistics.grids[0].duration
        super().__init__(analysis.k_probs.cpu().numpy(), sigma, error, 1 / duration)
        if (
            len(sigma) > 1
        ):  # without the sums that the pass has left: whoever takes some signals makes them anew
            analysis = replace(analysis, statistics=replace(analysis.statistics))
        self.analysis, self.observations, self.priors = analysis, observations, priors
        self.name, self.assumed = name, assumed

    def one(self, row: int) -> Posterior:
        """The posterior of one signal."""
        assert self.noise_std_error is not None
        post = Posterior(
            self.k_probs[row],
            ZoomSlotDensities(self.analysis.take(row), self.k_max),
            self.observations[row],
            float(self.noise_std[row]),
            float(self.noise_std_error[row]),
            method=self.method,
            prior=self.prior_of(row),
        )
        post.assumed = self.assumed
        return post

    def facts(self, rows: Rows) -> list[SignalFacts]:
        """What is known of some signals without a draw."""
        assert self.noise_std_error is not None
        verdicts, found = self.verdicts(rows), []
        for row, verdict in zip(rows.tolist(), verdicts, strict=True):
            noise = float(self.noise_std[row]), float(self.noise_std_error[row])
            one = SignalFacts(
                self.k_probs[row],
                lambda row=row: self.one(row).slots,  # type: ignore[misc]
                self.observations[row],
                noise,
                self.method,
                self.prior_of(row),
                verdict,
            )
            one.assumed = self.assumed
            found.append(one)
        return found

    @property
    def method(self) -> str:
        """Where the answers come from."""
        return f"slotflow:{self.name}"

    def observation(self, row: int) -> Observation:
        """The data of one signal."""
        return self.observations[row]

    def prior_of(self, row: int) -> Prior:
        """The prior that one signal was answered under."""
        return self.priors if isinstance(self.priors, Prior) else self.priors[row]

    def verdicts(self, rows: Rows) -> list[Verdict]:
        """The network alone does not judge its answers."""
        return [judge(())] * len(rows)

    def draws(
        self, rows: Rows, counts: Rows, sizes: Rows, seeds: Rows, out: Array | None = None
    ) -> Array:
        """Draws of Θ given K of some signals, (S, n, k, P)."""
        self.analysis = self.analysis.current()
        if out is None:
            shape = (len(rows), int(sizes.max()), int(counts.max()), self.waveform.size)
            out = np.empty(shape)
        host = torch.from_numpy(out)
        at_hand = self.analysis.first_k.numpy()[rows] == counts
        everyone, others = np.arange(len(rows)), np.flatnonzero(~at_hand & (counts > 0))
        # First those whose slots are known, written as one piece in which the others have no component yet.
        for mine, number in ((everyone, np.where(at_hand, counts, 0)), (others, counts)):

            def draw(some: Rows, number: Rows = number) -> Tensor:
                return self._drawn(rows[some], number[some], sizes[some], seeds[some])

            for chunk in self._chunks(mine, number, sizes):
                for some, drawn in in_halves(draw, chunk):
                    missing = [a - b for a, b in zip(out.shape, drawn.shape, strict=True)]
                    room = (0, 0, 0, missing[2], 0, missing[1])
                    padded = torch.nn.functional.pad(drawn, room, value=math.nan)
                    if (np.diff(some) == 1).all():  # one piece, copied from the device at once
                        download(padded, host[int(some[0]) : int(some[-1]) + 1])
                    else:
                        host[some] = padded.to(host.device)
        return out

    def _drawn(self, rows: Rows, counts: Rows, sizes: Rows, seeds: Rows) -> Tensor:
        """The same on the network's device."""
        if not counts.any():
            shape = (len(rows), int(sizes.max()), 1, self.waveform.size)
            return torch.full(shape, math.nan, dtype=torch.float64)
        slots = self.analysis.slots_of(torch.from_numpy(rows), torch.from_numpy(counts))
        return draw_alike(slots, sizes, seeds).transpose(0, 1)

    def _chunks(self, mine: Rows, counts: Rows, sizes: Rows) -> Iterator[Rows]:
        """Signals in pieces of which the flow takes all draws at once, those of like sizes together."""
        device = self.analysis.places.device.type
        limit = ROWS_AT_ONCE.get(device, ROWS_AT_ONCE["cpu"])
        mine = mine[np.argsort(-sizes[mine], kind="stable")]
        while mine.size:
            total = np.cumsum(counts[mine]) * sizes[mine[0]]
            now, mine = np.split(mine, [max(1, int(np.searchsorted(total, limit, side="right")))])
            yield now
