r"""A training that can be looked at, annealed, at any number of signals: constant learning rate with short branches.

A network at a constant learning rate η is not at its best: its weights jitter around the place that they would settle
at. A cosine over N signals ends there, but belongs to one N, and a curve of n numbers would need n trainings. Here the
rate is constant in the trunk. For the point at N signals a branch leaves the trunk at (1 − a) N, its rate falls on a
straight line to 0 at N, its average weights are kept, and the trunk goes on from where the branch left it, as if there
had been none. Every point is thus annealed over the same share a of its signals, and has seen each of them once. With
points at N_1 < … < N_n the steps of all of it are those of

.. math:: (1 - a) N_n + a \sum_i N_i

signals, little more than those of one training if the points rise geometrically.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from slotflow.core.seeds import spread_seed
from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.train.batches import draw_batch
from slotflow.train.objectives import build_objective
from slotflow.train.schedule import predicted_share, set_learning_rate
from slotflow.train.state import TrainingState

__all__ = ["ANNEALED_SHARE", "AnnealedTraining"]

ANNEALED_SHARE = 0.2
"""a: the share of its signals over which a point's learning rate falls."""


def _leaves_at(point: int) -> int:
    """The step of the trunk at which the branch of a point begins."""
    return point - max(1, round(ANNEALED_SHARE * point))


class AnnealedTraining:
    """A network with its optimizer, at a constant learning rate.

    Args:
        config: Model, loss and training; its schedule must be "constant", and its numbers of epochs are not used.
        total: Steps of the last point, over which the loss has its curriculum.
        seed: Of the first weights and of the signals: step s has those of the seed plus 1 + s.
        device: Where to train.
    """

    def __init__(self, config: Config, total: int, seed: int, device: torch.device) -> None:
        if config.train.schedule != "constant":
            raise ValueError(f"expected a constant schedule, received {config.train.schedule!r}.")
        torch.manual_seed(spread_seed(seed))
        network = SlotFlow(config.model).to(device)
        self.config, self.total, self.seed, self.device = config, total, seed, device
        self.objective = build_objective(network, config.loss, config.train.bfloat16)
        if config.train.compile:
            self.objective.compile_parts()
        self.state = TrainingState(network, config)

    def point(self, step: int) -> SlotFlow:
        """Trains up to the branch of a number of steps, and gives the network that is annealed there.

        Args:
            step: Beyond all points that were asked for before.
        """
        while self.state.step < _leaves_at(step):
            self._step()
        trunk = self._kept()
        first = self.state.step
        while self.state.step < step:
            self._step((step - self.state.step) / (step - first))
        weights = {name: value.clone() for name, value in self.state.weights.items()}
        self._restore(trunk)
        found = SlotFlow(self.config.model).to(self.device)  # not a copy: that one may be compiled
        found.load_state_dict(weights)
        return found.eval()

    def _step(self, share: float = 1.0) -> None:
        """One step with a share of the learning rate."""
        state, cfg = self.state, self.config.train
        own = self.seed + 1 + state.step
        torch.manual_seed(
            spread_seed(own)
        )  # of what the loss draws: a branch must not move the trunk
        batch = draw_batch(self.config, cfg.batch_size, own, self.device)
        shown = predicted_share(self.config.loss.curriculum, state.step / self.total)
        loss: Tensor = self.objective(batch, shown)["loss"]
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if cfg.clip_norm:
            nn.utils.clip_grad_norm_(state.model.parameters(), cfg.clip_norm)
        set_learning_rate(state.optimizer, cfg, state.step, 0.0)
        for group in state.optimizer.param_groups:
            group["lr"] *= share
        state.optimizer.step()
        state.follow()
        state.step += 1

    def _kept(self) -> dict[str, Any]:
        """All that a branch changes."""
        state = self.state
        parts = (state.model.state_dict(), state.ema, state.optimizer.state_dict())
        return {"parts": deepcopy(parts), "step": state.step}

    def _restore(self, trunk: dict[str, Any]) -> None:
        """Goes back to where a branch began; the averages are followed in place, so they are filled, not replaced."""
        state, (weights, averages, optimizer) = self.state, trunk["parts"]
        state.model.load_state_dict(weights)
        for name, average in averages.items():
            state.ema[name].copy_(average)
        state.optimizer.load_state_dict(optimizer)
        state.step = trunk["step"]
