"""Networks of the paper's parts that are trained side by side: one batch after another, each given to all of them.

Every network takes its step on a batch before the next one is drawn, so that all of them have seen the same signals at
any time, and have begun with weights of the same seed. What differs between them is what their configs say.

A step whose gradient is not finite is left out and counted; the network goes on with the next batch. Degenerate targets
and flows without affine layers may need that, and their trainings are measured like the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from slotflow.core.seeds import TRAINING_SEED, spread_seed
from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.signal.simulation import Simulation, simulate
from slotflow.studies.slots import paper_network
from slotflow.train.objectives import build_objective
from slotflow.train.schedule import set_learning_rate
from slotflow.train.state import TrainingState

__all__ = ["Training", "draw_batch", "train_together", "training_seed", "varied"]

SEEDS_PER_ROUND = 2**20
"""More than the steps of a training."""


def training_seed(number: int, seed: int) -> int:
    """Seed of the trainings of a round of a study, from the round's number and the user's seed."""
    return TRAINING_SEED + SEEDS_PER_ROUND * (1 + number + (seed << 20))


def varied(
    config: Config,
    *,
    encoder: Mapping[str, Any] | None = None,
    flow: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
) -> Config:
    """A config with some fields of its encoder, its flow and its training changed."""
    model = replace(
        config.model,
        encoder=replace(config.model.encoder, **(encoder or {})),
        flow=replace(config.model.flow, **(flow or {})),
    )
    return replace(config, model=model, train=replace(config.train, **(train or {})))


def draw_batch(config: Config, n: int, seed: int, device: torch.device) -> Simulation:
    """Signals as a config trains on them."""
    model = config.model
    return simulate(model.prior, n, model.long, model.short, seed=seed, device=device)


class Training:
    """A network with its optimizer and its objective.

    Args:
        config: Model, loss and training; the numbers of epochs and steps in it are not used.
        seed: Of the first weights.
        device: Where to train.
    """

    def __init__(self, config: Config, seed: int, device: torch.device) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(spread_seed(seed))
            self.network = paper_network(SlotFlow(config.model)).to(device)
        self.config = config
        self.objective = build_objective(self.network, config.loss, config.train.bfloat16)
        self.state = TrainingState(self.network, config)
        self.gradient_norms: list[float] = []
        """Norm of the gradient at every step, before it is clipped; those that are not finite are not in it."""

    @property
    def skipped(self) -> int:
        """Steps that were left out."""
        return self.state.step - len(self.gradient_norms)

    def step(self, batch: Simulation, total: int) -> None:
        """One step.

        Args:
            batch: Signals, on the network's device.
            total: Steps of the whole training, over which the learning rate falls.
        """
        state, cfg = self.state, self.config.train
        terms = self.objective(batch)
        state.optimizer.zero_grad()
        terms["loss"].backward()
        norm = float(
            nn.utils.clip_grad_norm_(self.network.parameters(), cfg.clip_norm or torch.inf)
        )
        if math.isfinite(norm):
            set_learning_rate(state.optimizer, cfg, state.step, state.step / total)
            state.optimizer.step()
            state.follow()
            state.means.add(terms)
            self.gradient_norms.append(norm)
        state.step += 1

    def mean_terms(self) -> dict[str, float]:
        """Means of the loss terms over the steps since the last call; empty if there were none."""
        means = self.state.means
        return means.take(self.network.device, 1) if means.count else {}

    def averaged(self) -> PaperSlotFlow:
        """A copy of the network with the weights that are kept: their moving average, where there is one."""
        copy = deepcopy(self.network)
        copy.load_state_dict(self.state.weights)
        return copy.eval()


def train_together(
    configs: Mapping[str, Config], checkpoints: Sequence[int], seed: int, device: torch.device
) -> Iterator[tuple[int, dict[str, Training]]]:
    """Trains a network for each config on the same signals.

    Args:
        configs: What to train, by name; prior, sampling and size of the batches must be the same.
        checkpoints: Numbers of steps after which the networks are handed over, rising; 0 is before the first.
        seed: Of the first weights and of the signals.
        device: Where to train.

    Yields:
        The number of steps, and the trainings by name, which go on afterwards.
    """
    first, *others = configs.values()
    for other in others:
        if _signals(other) != _signals(first):
            raise ValueError(
                f"expected trainings on the same signals, received {_signals(first)} and {_signals(other)}."
            )
    trainings = {name: Training(config, seed, device) for name, config in configs.items()}
    step, total = 0, checkpoints[-1]
    for wanted in checkpoints:
        while step < wanted:
            step += 1
            batch = draw_batch(first, first.train.batch_size, seed + step, device)
            for training in trainings.values():
                training.step(batch, total)
        yield step, trainings


def _signals(config: Config) -> tuple[object, ...]:
    """What decides the signals of a training."""
    model = config.model
    return model.prior, model.long, model.short, config.train.batch_size
