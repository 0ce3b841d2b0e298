"""The classical estimator on the signals of a set, for comparison with a network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from slotflow.studies.suites.sets import SignalSet, batches, default_batch
from slotflow.studies.suites.sizes import Sizes

__all__ = ["classical_exact"]

SIGNALS_AT_ONCE = 50
"""Signals that the classical estimator takes at once."""


def classical_exact(
    signals: SignalSet,
    sizes: Sizes,
    *,
    seed: int,
    device: torch.device,
    advance: Callable[[int], None] | None = None,
) -> Tensor:
    """Whether the classical estimator's most probable K is the true one.

    Args:
        signals: The set; its prior is what the evidence is taken under.
        sizes: As of `run_set`, which decide which signals these are; the first `n_classical` of them are analysed.
        seed: The user's seed.
        device: Where the set is simulated; the estimator itself runs on the CPU.
        advance: Called with the number of signals after each step.

    Returns:
        Shape (min(n, n_classical),), bool.
    """
    from slotflow.exact.classical import classical

    exact: list[Tensor] = []
    left = min(sizes.n, sizes.n_classical)
    batch = sizes.batch or default_batch(device, sizes.draws, signals.prior.k_max)
    for sim in batches(signals, sizes.n, batch, seed, device):
        for start in range(0, min(len(sim.k), left), SIGNALS_AT_ONCE):
            stop = min(start + SIGNALS_AT_ONCE, left, len(sim.k))
            found = classical([sim.observation(i) for i in range(start, stop)], signals.prior)
            exact.append(torch.from_numpy(found.k_map) == sim.k[start:stop])
            if advance is not None:
                advance(stop - start)
        left -= min(len(sim.k), left)
        if left == 0:
            break
    return torch.cat(exact) if exact else torch.zeros(0, dtype=torch.bool)
