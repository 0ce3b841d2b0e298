"""Slots of the paper's network for a batch of signals at their true K, and the component that each of them takes."""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.network.matching import all_pairs, match
from slotflow.network.model import SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.paper.onehot import slot_contexts, slot_index
from slotflow.signal.simulation import Simulation

__all__ = ["matched_pairs", "pair_log_prob", "paper_network", "slot_terms"]


def paper_network(network: SlotFlow) -> PaperSlotFlow:
    """The same network, which must be made of the paper's parts."""
    if not isinstance(network, PaperSlotFlow):
        raise TypeError(
            f"expected a network of the paper's parts, received {network.config.name!r}."
        )
    return network


def slot_terms(network: PaperSlotFlow, batch: Simulation) -> tuple[Tensor, Tensor]:
    """Context terms of every slot of a batch, (ΣK, L, H), and the logits of K, (B, k_max + 1)."""
    assert batch.short is not None
    encoding, logits = network.encode(batch.long.to(network.dtype), batch.short.to(network.dtype))
    signal, slot = (upload(index, network.device) for index in slot_index(batch.k))
    contexts = slot_contexts(encoding.context, signal, slot, network.k_max)
    return network.flow.project(contexts), logits


def pair_log_prob(
    network: PaperSlotFlow, projected: Tensor, theta: Tensor, k: Tensor, together: int | None = None
) -> Tensor:
    """Log density of the network's target for every pair of a slot and a component of one signal.

    Args:
        network: The network.
        projected: Context terms of the slots, (ΣK, L, H).
        theta: The components, (ΣK, P).
        k: Slots, and components, of each signal, (B,), int64, on the CPU.
        together: Pairs that go through the flow at once, which bounds the memory; all of them if None.

    Returns:
        Shape (ΣK²,), in the order of `slotflow.network.matching.all_pairs`.
    """
    y = network.target.encode(theta).to(network.dtype)  # (ΣK, dim)
    i, j = (upload(index, y.device) for index in all_pairs(k, k))
    size = together or max(1, len(i))
    found = [
        network.flow.log_prob(projected[slot], y[component])
        for slot, component in zip(torch.split(i, size), torch.split(j, size), strict=True)
    ]
    return torch.cat(found)


@torch.no_grad()
def matched_pairs(
    network: PaperSlotFlow, batch: Simulation, projected: Tensor | None = None
) -> Tensor:
    """Component row of each slot row at the cheapest assignment under the network's own target.

    Args:
        network: The network.
        batch: Signals, on the network's device.
        projected: What `slot_terms` gave, (ΣK, L, H); computed if None.

    Returns:
        Shape (ΣK,), int64, on the CPU.
    """
    terms = slot_terms(network, batch)[0] if projected is None else projected
    log_prob = pair_log_prob(network, terms, batch.theta[batch.mask], batch.k)
    return match(-log_prob, batch.k, batch.k)[1]
