"""Networks that are trained alike but for their phase weight: same first weights, same signals, same steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from slotflow.core.seeds import spread_seed
from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.paper.loss import PaperLoss
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.signal.simulation import Simulation, simulate

__all__ = ["draw_batch", "paper_network", "trained"]


def paper_network(network: SlotFlow) -> PaperSlotFlow:
    """The same network, which must be made of the paper's parts."""
    if not isinstance(network, PaperSlotFlow):
        raise TypeError(
            f"expected a network of the paper's parts, received {network.config.name!r}."
        )
    return network


def draw_batch(config: Config, n: int, seed: int, device: torch.device) -> Simulation:
    """Signals as the preset trains on them."""
    model = config.model
    return simulate(model.prior, n, model.long, model.short, seed=seed, device=device)


def trained(
    config: Config, weight: float, checkpoints: Sequence[int], seed: int, device: torch.device
) -> Iterator[tuple[int, PaperSlotFlow]]:
    """A network with a phase weight after some steps of its training.

    Args:
        config: A preset of the paper's parts.
        weight: w_φ of the flow's target.
        checkpoints: Numbers of steps after which it is handed over, rising; 0 is the network before the first.
        seed: Of its first weights and its signals, whatever the weight.
        device: Where to train.

    Yields:
        The number of steps, and the network, which is trained further afterwards.
    """
    flow = replace(config.model.flow, phase_weight=weight)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spread_seed(seed))
        network = paper_network(SlotFlow(replace(config.model, flow=flow))).to(device)
    objective, step = PaperLoss(network, config.loss), 0
    optimizer = torch.optim.Adam(network.parameters(), config.train.learning_rate)
    for wanted in checkpoints:
        while step < wanted:
            step += 1
            batch = draw_batch(config, config.train.batch_size, seed + step, device)
            optimizer.zero_grad()
            objective(batch)["loss"].backward()
            if config.train.clip_norm:
                torch.nn.utils.clip_grad_norm_(network.parameters(), config.train.clip_norm)
            optimizer.step()
        yield step, network
