"""The classical estimator on the signals of a set, for comparison with a network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from slotflow.studies.suites.sets import SignalSet, batches

__all__ = ["classical_exact"]

CHUNK = 50
"""Signals that the classical estimator takes at once."""


def classical_exact(
    signals: SignalSet,
    n: int,
    count: int,
    *,
    batch: int,
    seed: int,
    device: torch.device,
    advance: Callable[[int], None] | None = None,
) -> Tensor:
    """Whether the classical estimator's most probable K is the true one.

    Args:
        signals: The set; its prior is what the evidence is taken under.
        n: Signals of the set, batch and seed as in `run_set`: they decide which signals these are.
        count: How many of them to analyse, from the first on.
        batch: Signals per batch of the set.
        seed: The user's seed.
        device: Where the set is simulated; the estimator itself runs on the CPU.
        advance: Called with the number of signals after each step.

    Returns:
        Shape (min(n, count),), bool.
    """
    from slotflow.exact.classical import classical

    exact: list[Tensor] = []
    left = min(n, count)
    for sim in batches(signals, n, batch, seed, device):
        for start in range(0, min(len(sim.k), left), CHUNK):
            stop = min(start + CHUNK, left, len(sim.k))
            found = classical([sim.observation(i) for i in range(start, stop)], signals.prior)
            exact.append(torch.from_numpy(found.k_map) == sim.k[start:stop])
            if advance is not None:
                advance(stop - start)
        left -= min(len(sim.k), left)
        if left == 0:
            break
    return torch.cat(exact) if exact else torch.zeros(0, dtype=torch.bool)
