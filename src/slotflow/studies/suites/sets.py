"""The test sets, their seeds, and their signals in batches.

Every set is drawn in physical mode with both streams and analysed under the prior that it was drawn from. Seeds lie
between those left to users and those of training, so that no model has seen a signal of these sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from slotflow.core.seeds import EVALUATION_SEED, RandomStream, stream_seed
from slotflow.data.sampling import Grid
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation, simulate
from slotflow.studies.measures.parameters import SIZE
from slotflow.studies.suites.sizes import SEED_LIMIT

__all__ = [
    "GRIDS",
    "NOMINAL",
    "SETS",
    "SignalSet",
    "batches",
    "default_batch",
    "posterior_seed",
    "suite_seed",
]

GRIDS = (Grid(3000, 0.1), Grid(5120, 1 / 512))
"""Sampling of the long and the short stream."""
DRAW_BYTES = {"cuda": 2**29, "cpu": 2**27}
"""Bytes that the draws of one batch may take; sorting them takes a few times as much."""


# ---------------------------------------------------------------------- the sets


@dataclass(frozen=True)
class SignalSet:
    """Where the signals of a set come from, and what is asked about them."""

    number: int
    """Tells the seeds of the sets apart; never reused."""
    prior: Prior
    """What the signals are drawn from and analysed under."""
    k: int | None = None
    """A fixed number of tones instead of draws from p(K)."""
    tones: bool = True
    """Whether the tones at the true K are compared with the truth."""
    catalogue: bool = False
    """Whether the tones at the most probable K are wanted as well."""


NOMINAL = Prior()
SETS = {
    "nominal": SignalSet(0, NOMINAL),
    "k1": SignalSet(1, NOMINAL, k=1),
    "k2": SignalSet(2, NOMINAL, k=2),
    "k5": SignalSet(3, NOMINAL, k=5),
    "k10": SignalSet(4, NOMINAL, k=10),
    "stress": SignalSet(5, Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0)), catalogue=True),
    "frontier": SignalSet(6, Prior(k_min=5, min_separation=0.0, sigma=(1.0, 2.0))),
    "noise": SignalSet(7, Prior(k_min=0), k=0, tones=False),
}
"""The sets by name; the order is that of the evaluation."""


def suite_seed(number: int, batch: int, seed: int) -> int:
    """Seed of one batch of one set.

    Args:
        number: The set's number, below 256.
        batch: Which batch, below 2²⁴.
        seed: The user's choice, below 2²⁸.
    """
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"expected a seed from 0 to {SEED_LIMIT - 1}, received {seed}.")
    return EVALUATION_SEED + (seed << 32) + (number << 24) + batch


def default_batch(device: torch.device, draws: int, k_max: int) -> int:
    """Signals that are analysed together: as many as the memory of their draws allows, within reason."""
    kind = "cuda" if device.type == "cuda" else "cpu"
    fits = DRAW_BYTES[kind] // (draws * k_max * SIZE * 8)
    return max(1, min(fits, {"cuda": 2000, "cpu": 500}[kind]))


def batches(
    signals: SignalSet,
    n: int,
    batch: int,
    seed: int,
    device: torch.device,
    grids: tuple[Grid, Grid | None] = GRIDS,
) -> Iterator[Simulation]:
    """The signals of a set, the same for the same arguments.

    Args:
        signals: The set.
        n: Number of signals.
        batch: Signals per batch; the last one may have fewer.
        seed: The user's seed.
        device: Where to simulate.
        grids: Long and short grid.
    """
    for i, start in enumerate(range(0, n, batch)):
        yield simulate(
            signals.prior,
            min(batch, n - start),
            *grids,
            mode="physical",
            seed=suite_seed(signals.number, i, seed),
            k=signals.k,
            device=device,
        )


def posterior_seed(seed: int) -> int:
    """Seed of the draws from the posteriors of the signals of a seed, 62 bits."""
    return stream_seed(seed, RandomStream.POSTERIOR_DRAWS) >> 2
