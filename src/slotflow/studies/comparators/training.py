"""Trains one method of the leaderboard: the same signals, the same number of steps and the same recipe for each.

Signals follow from the seed of the round and the number of the step (`slotflow.studies.trainings.draw_batch`), so that
methods which are trained in different processes see the same batches in the same order. Before anything else is drawn,
the seed decides the weights of the encoder, which is built first: they are the same for all methods. What is kept is a
moving average of the weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from slotflow.core.seeds import spread_seed
from slotflow.network.config import Config
from slotflow.studies.comparators.equivariant import Equivariant
from slotflow.studies.comparators.interface import Comparator
from slotflow.studies.comparators.presences import Presences
from slotflow.studies.comparators.saturated import Saturated
from slotflow.studies.comparators.sequential import Sequential
from slotflow.studies.comparators.slots import PaperSlots
from slotflow.studies.frame.study import Data
from slotflow.studies.trainings import draw_batch
from slotflow.train.muon import Muon
from slotflow.train.schedule import set_learning_rate

__all__ = ["METHODS", "build", "train"]

METHODS: dict[str, Callable[[Config], Comparator]] = {
    "paper": PaperSlots,
    "saturated": lambda config: Saturated(config.model),
    "equivariant": lambda config: Equivariant(config.model),
    "sequential": lambda config: Sequential(config.model),
    "presences": lambda config: Presences(config.model),
}
"""What is trained, by name."""
LAST_SHARE = 0.1
"""Share of the steps at the end over which the loss is averaged."""


def build(name: str, config: Config, seed: int, device: torch.device) -> Comparator:
    """An untrained method, its weights from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spread_seed(seed))
        return METHODS[name](config).to(device)


def train(
    name: str, config: Config, steps: int, seed: int, device: torch.device
) -> tuple[Comparator, Data]:
    """Trains a method.

    Args:
        name: Of the method.
        config: Model and recipe; the numbers of epochs and steps in it are not used.
        steps: Steps of the training.
        seed: Of the first weights and, plus the number of the step, of the signals.
        device: Where to train.

    Returns:
        The method with the averaged weights, and what is to be said of the training: "seconds", steps that were
        "skipped" because their gradient was not finite, and the mean "loss" of the last tenth.
    """
    cfg = config.train
    model = build(name, config, seed, device).train()
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(cfg.ema))  # type: ignore[no-untyped-call]
    optimizer = Muon(
        model.parameters(),
        cfg.learning_rate,
        cfg.matrix_learning_rate,
        cfg.betas,
        cfg.weight_decay,
    )
    skipped, last, began = 0, [], time.perf_counter()
    for step in range(steps):
        batch = draw_batch(config, cfg.batch_size, seed + step + 1, device)
        terms = model.loss(batch, cfg.bfloat16)
        optimizer.zero_grad()
        terms["loss"].backward()  # type: ignore[no-untyped-call]
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), cfg.clip_norm or torch.inf))
        if not math.isfinite(norm):
            skipped += 1
            continue
        set_learning_rate(optimizer, cfg, step, step / steps)
        optimizer.step()
        averaged.update_parameters(model)
        if step >= (1 - LAST_SHARE) * steps:
            last.append(float(terms["loss"].detach()))
    facts = {
        "seconds": time.perf_counter() - began,
        "skipped": skipped,
        "loss": sum(last) / len(last) if last else None,
    }
    kept = averaged.module
    assert isinstance(kept, Comparator)
    return kept.eval(), facts
