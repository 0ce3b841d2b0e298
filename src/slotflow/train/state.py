"""What a training is at any moment, and the checkpoint that holds all of it.

Weights, their moving average, the optimizer, the schedule, the counters and the random state go into one file, so that
a resumed run goes on as if it had never stopped.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slotflow.network.checkpoint import (
    CheckpointError,
    flatten_optimizer,
    load_training,
    load_weights,
    restore_optimizer,
    save_training,
)
from slotflow.network.config import Config, TrainConfig
from slotflow.network.model import SlotFlow
from slotflow.train.means import TermMeans
from slotflow.train.muon import Muon

__all__ = ["TrainingState", "build_optimizer"]

FREE_TO_CHANGE = frozenset({"max_epochs", "early_stopping", "log_steps", "checkpoint_minutes"})
"""Entries of a config that a resumed run may change: none of them changes the steps taken so far."""


class TrainingState:
    """The model that is trained and everything that goes with it.

    Args:
        model: On its device.
        config: Model, loss and training.
    """

    def __init__(self, model: SlotFlow, config: Config) -> None:
        cfg = config.train
        self.model, self.config = model, config
        self.ema = {n: p.detach().clone() for n, p in model.state_dict().items()} if cfg.ema else {}
        self.optimizer = build_optimizer(model, cfg)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer,
            factor=cfg.plateau_factor,
            patience=cfg.plateau_patience,
            min_lr=cfg.min_learning_rate,
            threshold_mode="abs",  # a relative one points the wrong way once the loss is negative
        )
        self.step = 0
        """Steps taken."""
        self.seconds = 0.0
        """Time of training, that of earlier runs included."""
        self.best = math.inf
        """Smallest validation loss."""
        self.bad_epochs = 0
        """Epochs since then."""
        self.means = TermMeans()
        """Loss terms since the last line of the metrics."""

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights to keep: the moving average, or the trained ones where there is none."""
        return self.ema or self.model.state_dict()

    @cached_property
    def _averaged(self) -> tuple[list[Tensor], list[Tensor]]:
        """Averages and the weights that they follow."""
        current = self.model.state_dict()
        names = [name for name, average in self.ema.items() if average.is_floating_point()]
        return [self.ema[n] for n in names], [current[n] for n in names]

    def follow(self) -> None:
        """Moves the average towards the weights after a step, faster in the beginning."""
        if self.ema:
            decay = min(self.config.train.ema, (1 + self.step) / (10 + self.step))
            torch._foreach_lerp_(*self._averaged, 1 - decay)

    def improve(self, loss: float) -> bool:
        """Takes note of a validation loss and says whether it is the smallest so far."""
        improved = loss < self.best
        self.best = min(self.best, loss)
        self.bad_epochs = 0 if improved else self.bad_epochs + 1
        return improved

    def save(self, path: Path) -> None:
        """Writes the checkpoint, atomically."""
        tensors, groups = flatten_optimizer(self.optimizer)
        parts = {
            "model": self.model.state_dict(),
            "ema": self.ema,
            "optimizer": tensors,
            "rng": {"cpu": torch.get_rng_state()},
        }
        rest = {
            "config": self.config.to_dict(),
            "optimizer_groups": groups,
            "plateau": self.plateau.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best,
            "bad_epochs": self.bad_epochs,
            "sums": {name: float(value) for name, value in self.means.sums.items()},
            "summed": self.means.count,
        }
        save_training(path, parts, rest)

    def restore(self, path: Path) -> None:
        """Takes over the checkpoint of the same run."""
        parts, saved = load_training(path)
        _check_same_run(saved["config"], self.config.to_dict(), path)
        load_weights(self.model, parts["model"], path)
        for name, average in parts.get("ema", {}).items():
            self.ema[name].copy_(average)
        restore_optimizer(self.optimizer, parts.get("optimizer", {}), saved["optimizer_groups"])
        self.plateau.load_state_dict(saved["plateau"])
        torch.set_rng_state(parts["rng"]["cpu"])
        self.step, self.seconds = saved["step"], saved["seconds"]
        self.best, self.bad_epochs = saved["best"], saved["bad_epochs"]
        self.means = TermMeans(saved["sums"], saved["summed"])


def build_optimizer(model: SlotFlow, cfg: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer of a config."""
    if cfg.optimizer == "muon":
        return Muon(
            model.parameters(),
            cfg.learning_rate,
            cfg.matrix_learning_rate,
            cfg.betas,
            cfg.weight_decay,
        )
    decoupled = cfg.optimizer == "adamw"
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    return kind(
        model.parameters(),
        cfg.learning_rate,
        cfg.betas,
        weight_decay=cfg.weight_decay if decoupled else 0.0,
        fused=model.device.type == "cuda",
    )


def _check_same_run(saved: dict[str, Any], config: dict[str, Any], checkpoint: Path) -> None:
    """Refuses to resume with a config that would have led to other steps."""
    for section, entries in config.items():
        before = saved.get(section)
        if (before is None) != (entries is None):  # one has a mixture, the other has not
            raise CheckpointError(
                f"{checkpoint}: trained with {section} = {before}, asked to resume with {entries}; resume with the "
                "run's own config, or start a new run with init."
            )
        known: dict[str, Any] = before or {}
        for key, value in (entries or {}).items():
            if key not in FREE_TO_CHANGE and known.get(key, value) != value:
                raise CheckpointError(
                    f"{checkpoint}: trained with {section}.{key} = {known[key]}, asked to resume with "
                    f"{value}; resume with the run's own config, or start a new run with init."
                )
