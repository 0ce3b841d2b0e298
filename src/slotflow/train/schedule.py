"""What changes in the course of training: the learning rate and the share of predicted counts.

The cosine may have several cycles, each a number of times longer than the one before it, with warm restarts between
them. At the end of each cycle the network is annealed as at the end of a training of that length. So one training
shows how the loss depends on the signals seen, and leaves a usable network early on.
"""

from __future__ import annotations

import math

import torch

from slotflow.network.config import TrainConfig

__all__ = ["cycle_at", "predicted_share", "set_learning_rate"]

RISE_OF_RESTART = 0.02
"""Share of a cycle, beyond the first, over which the learning rate rises from its floor."""


def set_learning_rate(
    optimizer: torch.optim.Optimizer, cfg: TrainConfig, step: int, done: float
) -> None:
    """Warm-up, then the schedule; ReduceLROnPlateau sets its own after the warm-up.

    A group of parameters may have a "factor" on the rate (`slotflow.train.muon`).
    """
    if step < cfg.warmup_steps:
        rate = cfg.learning_rate * (step + 1) / cfg.warmup_steps
    elif cfg.schedule == "cosine":
        cycle, share = cycle_at(cfg, done)
        fall = 0.5 * (1 + math.cos(math.pi * share))
        if cycle:
            fall *= min(share / RISE_OF_RESTART, 1.0)
        rate = cfg.min_learning_rate + fall * (cfg.learning_rate - cfg.min_learning_rate)
    elif step == cfg.warmup_steps or cfg.schedule == "constant":
        rate = cfg.learning_rate
    else:
        return
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)


def cycle_at(cfg: TrainConfig, done: float) -> tuple[int, float]:
    """The number of the cosine's cycle at a share of the training, and the share of that cycle that is over."""
    lengths = [cfg.cycle_growth**i for i in range(cfg.cycles)]
    start, total = 0.0, sum(lengths)
    for number, length in enumerate(lengths):
        share = (min(done, 1.0) * total - start) / length
        if share < 1 or number == cfg.cycles - 1:
            return number, min(max(share, 0.0), 1.0)
        start += length
    raise AssertionError("the last cycle never ends")


def predicted_share(curriculum: tuple[float, float] | None, done: float) -> float:
    """Share of signals that get the predicted number of slots."""
    if curriculum is None:
        return 0.0
    start, end = curriculum
    return min(max((done - start) / (end - start), 0.0), 1.0)
