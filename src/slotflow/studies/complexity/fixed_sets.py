"""Training sets of fixed size: drawn once, kept on the device, and gone through again and again.

Sets of one seed are nested: that of N signals is the first N of the largest (`nested_sets`). A training takes its
batches from passes over its set, each in a new order, one pass after another; a batch may hold the end of one pass and
the beginning of the next, so that batches are equally large for all N. Validation signals come from other seeds
(`core/seeds.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.core.seeds import VALIDATION_SEED, spread_seed
from slotflow.network.config import ModelConfig
from slotflow.signal.simulation import Simulation, simulate
from slotflow.studies.trainings import training_seed

__all__ = [
    "batches_of",
    "nested_sets",
    "orders",
    "taken",
    "training_signals",
    "validation_batches",
]

SEEDS_PER_ROUND = 2**20
"""More than the batches of a validation."""


def training_signals(
    model: ModelConfig, n: int, k: int, number: int, seed: int, device: torch.device
) -> Simulation:
    """Signals of K components that the trainings of a round have their sets of.

    Args:
        model: Prior and sampling.
        n: How many.
        k: Number of components of every signal.
        number: Number of the round.
        seed: The user's seed.
        device: Where they stay.
    """
    first = training_seed(number, seed)
    return simulate(model.prior, n, model.long, model.short, seed=first, k=k, device=device)


def validation_batches(
    model: ModelConfig, sizes: Sequence[int], k: int, number: int, seed: int, device: torch.device
) -> list[Simulation]:
    """Fresh signals of K components, in batches of the given sizes; the other arguments as in `training_signals`."""
    first = VALIDATION_SEED + SEEDS_PER_ROUND * (1 + number + (seed << 20))
    return [
        simulate(model.prior, n, model.long, model.short, seed=first + i, k=k, device=device)
        for i, n in enumerate(sizes)
    ]


def nested_sets(sizes: Sequence[int], seeds: int) -> list[range]:
    """Which signals each training has: for every seed those of the largest set, of which smaller sets are the first.

    Args:
        sizes: N, rising, (n,).
        seeds: How many times.

    Returns:
        seeds · n of them, the sizes of the first seed first.
    """
    return [range(seed * sizes[-1], seed * sizes[-1] + n) for seed in range(seeds) for n in sizes]


def orders(n: int, steps: int, batch: int, seed: int) -> Tensor:
    """Which signals of a set each step takes.

    Args:
        n: Size of the set.
        steps: Steps of the training.
        batch: Signals of a step.
        seed: Of the orders of all passes.

    Returns:
        Their numbers in the set, (steps, batch), int64, on the CPU.
    """
    generator = torch.Generator().manual_seed(spread_seed(seed))
    passes = -(-steps * batch // n)
    order = torch.cat([torch.randperm(n, generator=generator) for _ in range(passes)])
    return order[: steps * batch].view(steps, batch)


def taken(signals: Simulation, index: Tensor) -> Simulation:
    """Some signals of a batch, repeats allowed; index has the shape (m,), int64, and is on the CPU."""
    there = upload(index, signals.long.device)
    return replace(
        signals,
        k=signals.k[index],
        theta=signals.theta[there],
        sigma=signals.sigma[there],
        long=signals.long[there],
        short=None if signals.short is None else signals.short[there],
        prior=None if signals.prior is None else signals.prior.take(there),
    )


def batches_of(
    signals: Simulation, sets: Sequence[range], steps: int, batch: int, seed: int
) -> Iterator[Simulation]:
    """The batches of trainings on sets of their own that take their steps together.

    Args:
        signals: All signals.
        sets: Which of them each training has.
        steps: Steps of all trainings.
        batch: Signals of a step of one training.
        seed: Of the orders.

    Yields:
        For each step the batches of all trainings in a row, those of the first training first.
    """
    index = torch.stack(
        [own.start + orders(len(own), steps, batch, seed + i) for i, own in enumerate(sets)], 1
    )
    for step in range(steps):
        yield replace(taken(signals, index[step].flatten()), seed=seed + step)
