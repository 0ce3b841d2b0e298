"""The posteriors of many signals as arrays, for methods that answer many signals at once.

`Batched` is to `Posteriors` what `Result` is to tables and files: the contract. A method that answers a batch keeps its
arrays and implements `one`, the full posterior of a single signal, which is made when it is asked for. Where there is a
faster way, it implements `draws` as well, the draws of Θ given K of some of the signals; they are those of the single
posteriors up to rounding. Joint draws and what is made of them follow from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.facts import Facts
from slotflow.posterior.plan import joint_plan
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Batched", "Rows"]

Rows = NDArray[np.int64]
"""Numbers of signals in a batch, (S,)."""


class Batched(ABC):
    """The posteriors of B signals that were sampled alike.

    Args:
        k_probs: p(K | x), (B, K_max + 1).
        noise_std: Estimate of σ, (B,).
        noise_std_error: Its standard error, (B,), where there is one.
        resolution: 1/T of the long stream in Hz.
    """

    waveform: Waveform = TONE
    """What a component is."""
    log_evidence: Array | None = None
    """Ln Z_K and its standard error, (B, K_max + 1, 2); None where the method has none."""
    ess: Array | None = None
    """Effective share of the draws of the most probable K, (B,); None where the method has none."""

    def __init__(
        self, k_probs: Array, noise_std: Array, noise_std_error: Array | None, resolution: float
    ) -> None:
        self.k_probs, self.noise_std, self.noise_std_error = k_probs, noise_std, noise_std_error
        self.resolution = resolution

    def __len__(self) -> int:
        return len(self.k_probs)

    @property
    def k_max(self) -> int:
        """Largest K."""
        return int(self.k_probs.shape[1]) - 1

    @abstractmethod
    def one(self, row: int) -> Posterior:
        """The posterior of one signal."""

    def facts(self, rows: Rows) -> Sequence[Facts]:
        """What is known of some signals without a draw: what the posterior of each would say."""
        return [self.one(int(row)) for row in rows]

    def observation(self, row: int) -> Observation:
        """The data of one signal."""
        return self.one(row).observation

    def draws(
        self, rows: Rows, counts: Rows, sizes: Rows, seeds: Rows, out: Array | None = None
    ) -> Array:
        """Draws of Θ given K of some signals; a signal may be asked for several K.

        Args:
            rows: Which signals, (S,).
            counts: The K of each, (S,).
            sizes: How many draws of each, (S,).
            seeds: Their seeds, (S,).
            out: Where to write them; a new array if None.

        Returns:
            (S, n, k, P), n and k being the largest size and K, or those of `out`; row s holds
            `one(rows[s]).sample(sizes[s], counts[s], seeds[s])`, and NaN beyond.
        """
        out = self.room(counts, sizes, out)
        asked = zip(rows.tolist(), counts.tolist(), sizes.tolist(), seeds.tolist(), strict=True)
        for own, (row, k, n, seed) in zip(out, asked, strict=True):
            own[:n, :k] = self.one(row).sample(n, k, seed)
        return out

    def room(self, counts: Rows, sizes: Rows, out: Array | None) -> Array:
        """What `draws` writes to, a new array if None; NaN throughout."""
        if out is None:
            out = np.empty((len(counts), int(sizes.max()), int(counts.max()), self.waveform.size))
        out[:] = np.nan
        return out

    def prior_of(self, row: int) -> Prior | None:
        """The prior that one signal was answered under, where it is known."""
        return self.one(row).prior

    def verdicts(self, rows: Rows) -> list[Verdict]:
        """How far the results of some signals can be trusted."""
        return [self.one(int(row)).verdict for row in rows]

    def sample_joint(
        self, rows: Rows, n: int, seed: int, out: Array | None = None
    ) -> tuple[Array, NDArray[np.int64]]:
        """Draws (K, Θ) of some signals.

        Args:
            rows: Which signals, (S,).
            n: Draws of each.
            seed: The same seed gives the same draws, of each signal those of `Posterior.sample_joint`.
            out: Where to write Θ; a new array if None.

        Returns:
            Θ, (S, n, K_max, P), NaN where a draw has no such component, and K of each draw, (S, n).
        """
        plan = joint_plan(self.k_probs[rows], n, seed)
        theta = np.empty((len(rows), n, self.k_max, self.waveform.size)) if out is None else out
        if not theta.size:
            return theta, plan.counts
        # All signals at once, those of more than one K as if they had none; then every K of these.
        certain = (plan.sizes == n).any(1)
        most = np.where(certain, plan.sizes.argmax(1), 0)
        seeds = plan.seeds[np.arange(len(rows)), most]
        self.draws(rows, most, np.full(len(rows), n), seeds, theta)
        signals, counts = np.nonzero(np.where(certain[:, None], 0, plan.sizes))
        signals, counts = signals[counts > 0], counts[counts > 0]
        if signals.size:
            sizes, seeds = plan.sizes[signals, counts], plan.seeds[signals, counts]
            drawn = self.draws(rows[signals], counts, sizes, seeds)
            has = plan.counts[signals] == counts[:, None]  # (S', n)
            job, draw = np.nonzero(has)
            place = np.cumsum(has, 1)[job, draw] - 1
            theta[signals[job], draw, : drawn.shape[2]] = drawn[job, place]
        return theta, plan.counts
