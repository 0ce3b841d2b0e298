"""What changes in the course of training: the learning rate and the share of predicted counts."""

from __future__ import annotations

import math

import torch

from slotflow.network.config import TrainConfig

__all__ = ["predicted_share", "set_learning_rate"]


def set_learning_rate(
    optimizer: torch.optim.Optimizer, cfg: TrainConfig, step: int, done: float
) -> None:
    """Warm-up, then the schedule; ReduceLROnPlateau sets its own after the warm-up.

    A group of parameters may have a "factor" on the rate (`slotflow.train.muon`).
    """
    if step < cfg.warmup_steps:
        rate = cfg.learning_rate * (step + 1) / cfg.warmup_steps
    elif cfg.schedule == "cosine":
        fall = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
        rate = cfg.min_learning_rate + fall * (cfg.learning_rate - cfg.min_learning_rate)
    elif step == cfg.warmup_steps or cfg.schedule == "constant":
        rate = cfg.learning_rate
    else:
        return
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)


def predicted_share(curriculum: tuple[float, float] | None, done: float) -> float:
    """Share of signals that get the predicted number of slots."""
    if curriculum is None:
        return 0.0
    start, end = curriculum
    return min(max((done - start) / (end - start), 0.0), 1.0)
