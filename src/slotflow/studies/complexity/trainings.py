"""Trainings on nested sets of fixed size, side by side, with a validation on fresh signals at checkpoints.

All trainings of a seed begin with the same weights and take the same number of steps of the same size; what differs is
how many different signals they have. The loss that counts is the paper's: classification and flow, without the
auxiliary terms. Of each training the least validation loss over the checkpoints is kept (early stopping), since
trainings on few signals get worse again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from slotflow.core.seeds import spread_seed
from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.objective import Objective
from slotflow.signal.simulation import Simulation
from slotflow.studies.complexity.fixed_sets import batches_of
from slotflow.studies.complexity.members import member, stacked
from slotflow.train.objectives import build_objective
from slotflow.train.schedule import set_learning_rate
from slotflow.train.state import TrainingState

__all__ = ["clip_members", "train_on_sets", "validation_terms"]


def train_on_sets(
    config: Config,
    signals: Simulation,
    sets: Sequence[range],
    checkpoints: Sequence[int],
    weight_seeds: Sequence[int],
) -> Iterator[tuple[int, Iterator[SlotFlow]]]:
    """Trains one network for each training set.

    Args:
        config: Model, loss and training; the numbers of epochs and steps in it are not used.
        signals: All signals, on the device of the training, all of one K.
        sets: Which of them each of the M trainings has.
        checkpoints: Numbers of steps after which the networks are handed over, rising.
        weight_seeds: Of the first weights, (M,); the first of them is that of the orders as well.

    Yields:
        The number of steps, and for each set the network with the weights that would be kept: their moving average. A
        network is valid until the next one is asked for.
    """
    device, cfg, total = signals.long.device, config.train, checkpoints[-1]
    networks = [_first_network(config, seed).to(device) for seed in weight_seeds]
    network, plain = stacked(networks), networks[0]
    objective = build_objective(network, config.loss, cfg.bfloat16)
    state = TrainingState(network, config)
    for batch in batches_of(signals, sets, total, cfg.batch_size, weight_seeds[0]):
        state.optimizer.zero_grad()
        (len(sets) * objective(batch)["loss"]).backward()
        clip_members(list(network.parameters()), cfg.clip_norm or torch.inf)
        set_learning_rate(state.optimizer, cfg, state.step, state.step / total)
        state.optimizer.step()
        state.follow()
        state.step += 1
        if state.step in checkpoints:
            yield state.step, (member(network, state.weights, i, plain) for i in range(len(sets)))


def _first_network(config: Config, seed: int) -> SlotFlow:
    """A network with random weights of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spread_seed(seed))
        return SlotFlow(config.model)


def clip_members(weights: Sequence[nn.Parameter], largest: float) -> None:
    """Scales the gradient of each member down to a norm; one that is not finite becomes 0, and the others stay.

    Args:
        weights: Weights of M members, (M, …) each, with their gradients.
        largest: Largest norm of a member's gradient.
    """
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    squares = torch.stack([g.flatten(1).square().sum(1) for g in gradients])  # (weights, M)
    norm = squares.sum(0).sqrt()  # (M,)
    finite = norm.isfinite()
    factor = torch.where(finite, (largest / (norm + 1e-6)).clamp(max=1.0), 0.0)
    for g in gradients:
        shape = (-1, *(1,) * (g.ndim - 1))
        g.mul_(factor.view(shape))
        g.masked_fill_(~finite.view(shape), 0.0)


@torch.no_grad()
def validation_terms(
    objective: Objective[SlotFlow], batches: Sequence[Simulation]
) -> dict[str, float]:
    """Means of the loss terms over batches of fresh signals, (n,) of them in each."""
    sizes = torch.tensor([len(batch.k) for batch in batches], dtype=torch.float64)
    found: dict[str, list[Tensor]] = {}
    for batch in batches:
        for name, term in objective(batch).items():
            found.setdefault(name, []).append(term.double())
    table = torch.stack(
        [torch.stack(values) for values in found.values()]
    ).cpu()  # (terms, batches)
    means = (table @ sizes / sizes.sum()).tolist()
    return dict(zip(found, means, strict=True))
