r"""Several networks of one kind that are trained at the same time, each on signals of its own.

Small networks and small batches leave a GPU idle: the host launches thousands of tiny kernels for each step. M networks
of one config launch no more than one of them if all weights carry a first dimension M and every part of the network is
mapped over it (`torch.func.vmap`). The rest of a step, from the spectra to the assignment, has no weights, and sees the
signals of all members as one batch,

.. math:: x = (x_{1,1}, …, x_{1,B}, x_{2,1}, …, x_{M,B}) , \qquad L = \frac1M \sum_m L_m ,

so that the objective of a single network is used as it is. The gradient of M·L by the weights of member m is that of
L_m: members do not know of each other. A part gets rows of all members (signals, slots or pairs, as many of each
member), splits them into M equal blocks, and puts the results in a row again. That needs signals of one K. The flow
loss of `zoom` is a mean over the slots of those signals whose number it got right; members with fewer of them weigh
less in the pooled mean, which matters in the first steps only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten, tree_unflatten

from slotflow.network.model import SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow

__all__ = ["member", "stacked"]


def stacked(networks: Sequence[SlotFlow]) -> SlotFlow:
    """One network that stands for several of the same config: every weight has a first dimension M.

    Args:
        networks: M of them; they stay as they are.

    Returns:
        A network whose parts take rows of all members, those of the first member first.
    """
    together = deepcopy(networks[0])
    weights = [dict(network.named_parameters()) for network in networks]
    for name, _ in list(together.named_parameters()):
        owner, _, last = name.rpartition(".")
        value = torch.stack([one[name].detach() for one in weights])
        setattr(together.get_submodule(owner), last, nn.Parameter(value))
    for part, method in _parts(together):
        setattr(part, method, _memberwise(part, method, len(networks)))
    return together


def member(network: SlotFlow, weights: dict[str, Tensor], number: int, plain: SlotFlow) -> SlotFlow:
    """One of the members as a network of its own.

    Args:
        network: What `stacked` returned.
        weights: Its weights or their moving average, (M, …) each; buffers, which members share, are as in any network.
        number: Which member, from 0.
        plain: A network of the same config, which is overwritten.
    """
    own = {name for name, _ in network.named_parameters()}
    state = {name: value[number] if name in own else value for name, value in weights.items()}
    plain.load_state_dict(state)
    return plain.eval()


def _parts(network: SlotFlow) -> list[tuple[nn.Module, str]]:
    """Modules that hold all weights, with the method by which the objective calls each of them."""
    if isinstance(network, ZoomSlotFlow):
        slots = network.slots
        whole = [network.encoder, *slots.rounds, slots.last, slots.norm, network.recount]
    elif isinstance(network, PaperSlotFlow):
        whole = [network.encoder, network.cardinality]
    else:
        raise TypeError(
            f"expected a network like `paper` or `zoom`, received {network.config.name!r}."
        )
    calls = [(part, "forward") for part in whole]
    return [*calls, (network.flow, "project"), (network.flow, "log_prob")]


class _Called(nn.Module):
    """A module's method as the forward of a module, for `functional_call`."""

    def __init__(self, part: nn.Module, method: str) -> None:
        super().__init__()
        self.part = part
        self.method = getattr(type(part), method)

    def forward(self, *args: Any) -> Any:
        """What the method gives."""
        return self.method(self.part, *args)


def _memberwise(part: nn.Module, method: str, members: int) -> Callable[..., Any]:
    """The method with the weights of each member for its block of rows.

    Tensors with as many rows as the first one are split; everything else is the same for all members.
    """
    called = _Called(part, method)

    def apply(*args: Any) -> Any:
        leaves, shape = tree_flatten(args)
        rows = next(leaf for leaf in leaves if isinstance(leaf, Tensor)).shape[0]
        split = [isinstance(x, Tensor) and x.ndim > 0 and x.shape[0] == rows for x in leaves]
        blocks = [
            x.unflatten(0, (members, -1)) for x, own in zip(leaves, split, strict=True) if own
        ]

        structure: list[Any] = []  # of the result, whose entries may be None besides tensors

        def one(weights: dict[str, Tensor], blocks: list[Tensor]) -> list[Tensor]:
            left = iter(blocks)
            filled = [next(left) if own else x for x, own in zip(leaves, split, strict=True)]
            result = functional_call(called, weights, tuple(tree_unflatten(filled, shape)))
            values, of = tree_flatten(result)
            structure[:] = [of, [value is not None for value in values]]
            return [value for value in values if value is not None]

        with sdpa_kernel(SDPBackend.MATH):  # the other kernels have no rule for a further dimension
            found = iter(vmap(one)(dict(called.named_parameters()), blocks))
        of, there = structure
        return tree_unflatten([next(found).flatten(0, 1) if own else None for own in there], of)

    return apply
