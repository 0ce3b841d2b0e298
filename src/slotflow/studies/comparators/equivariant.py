r"""A permutation-equivariant flow over a set of K components, after Set Flow (Rasul et al. 2019).

The classifier gives K; given K, the labelled components start from independent standard normal vectors and pass through
coupling layers that treat all of them alike. A layer splits the *coordinates* of a component, not the components: some
of them stay, u_j, and give, together with the set of all u, the map of the others, v_j,

.. math:: v_j \mapsto t(v_j;\, h(u_j, \{u_1, …, u_K\}, g, K)) ,

where h sees the set through self-attention without positions. If the components are permuted, so is everything that
follows, and the Jacobian is the same: the density of a labelled list does not depend on the labels, and that of the
set is K! times as large. There is nothing to match and nothing to sort.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from slotflow.network.config import FlowConfig, ModelConfig
from slotflow.network.flow import balanced_permutations
from slotflow.studies.comparators.interface import Counted, Encoded, one_hot_count
from slotflow.studies.comparators.maps import (
    Map,
    heard_context,
    near_identity,
    outputs_of,
    standard_normal,
)

__all__ = ["Equivariant", "SetCoupling"]

WIDTH_PER_HEAD = 32
"""Width of each head of the attention between components."""


class Equivariant(Counted):
    """Components alike, coupled by attention among each other."""

    labelled = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        flow, size = config.flow, self.target.dim
        orders = torch.from_numpy(balanced_permutations(size, size // 2, flow.layers))
        at = torch.arange(size)
        layers = []
        for i, order in enumerate(orders):
            at = at[order]  # coordinate at each position, as in `ConditionalFlow`
            context = config.encoder.context + self.k_max + 1
            kind = flow.kinds[i % len(flow.kinds)]
            layers.append(SetCoupling(at, context, flow, config.encoder.heads, kind=kind))
        self.layers = nn.ModuleList(layers)

    def flow_log_prob(self, context: Tensor, y: Tensor, k: Tensor) -> Tensor:
        """Log density of the first k components in any order, (B, K, P) with counts (B,) to (B,)."""
        mask = torch.arange(y.shape[1], device=y.device) < k[:, None]
        seen = one_hot_count(context, k, self.k_max)
        log_q = y.new_zeros(len(y))
        for layer in self.layers:
            y, slope = layer(y, seen, mask)
            log_q = log_q + slope
        return log_q + (standard_normal(y).sum(-1) * mask).sum(-1)

    def draw(self, encoded: Encoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P), float64."""
        batch = len(encoded.context)
        shape = (batch * n, k, self.target.dim)
        y = torch.randn(shape, generator=generator, device=self.device, dtype=self.dtype)
        mask = y.new_ones(shape[:2], dtype=torch.bool)
        count = torch.full((batch,), k, device=self.device)
        seen = one_hot_count(encoded.context, count, self.k_max).repeat_interleave(n, dim=0)
        for layer in reversed(self.layers):
            y = layer.undo(y, seen, mask)  # type: ignore[operator]
        return self.target.decode(y).reshape(batch, n, k, -1)

    def log_prob_set(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln q({θ} | K = k, x) = ln K! + ln q of any labelled list, (B, k, P) to (B,), float64."""
        return self.log_prob(encoded, theta) + math.lgamma(theta.shape[1] + 1)


class SetCoupling(nn.Module):
    """A coupling layer over the coordinates of components that see each other's kept coordinates.

    Args:
        order: Coordinates, those that are kept first, (P,), int64.
        context: Width of what the layer is conditioned on.
        config: Width and depth of its network, bins and bound of its splines.
        heads: Of the attention between components.
        kind: "spline" or "affine".
    """

    kept: Tensor
    moved: Tensor

    def __init__(
        self, order: Tensor, context: int, config: FlowConfig, heads: int, *, kind: str
    ) -> None:
        super().__init__()
        self.kind, self.config = kind, config
        self.register_buffer("kept", order[: len(order) // 2])
        self.register_buffer("moved", order[len(order) // 2 :])
        width = WIDTH_PER_HEAD * heads
        self.from_kept = nn.Linear(len(self.kept), width)
        self.to_set = nn.Linear(context, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.from_context = heard_context(context, config.hidden)
        self.from_set = nn.Linear(width, config.hidden, bias=False)
        inner: list[nn.Module] = []
        for _ in range(config.hidden_layers - 1):
            inner += [nn.ReLU(), nn.Linear(config.hidden, config.hidden)]
        self.inner = nn.Sequential(*inner, nn.ReLU())
        outputs = len(self.moved) * outputs_of(kind, config)
        self.out = near_identity(nn.Linear(config.hidden, outputs))

    def map(self, kept: Tensor, context: Tensor, mask: Tensor) -> Map:
        """The map of the moved coordinates, from the kept ones (B, K, kept), contexts (B, C) and the mask (B, K)."""
        h = torch.nn.functional.gelu(self.from_kept(kept) + self.to_set(context)[:, None])
        mixed = self.attention(h, h, h, key_padding_mask=~mask, need_weights=False)[0]
        h = self.from_set(h + mixed) + self.from_context(context)[:, None]
        h = self.out(self.inner(h))
        return Map(h.reshape(*h.shape[:-1], len(self.moved), -1), self.kind, self.config)

    def forward(self, y: Tensor, context: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What the layer makes of y and ln of its slope: (B, K, P), (B, C), mask (B, K) to (B, K, P) and (B,)."""
        kept, moved = y[..., self.kept], y[..., self.moved]
        z, slope = self.map(kept, context, mask).forward(moved)
        return self._merged(kept, z), (slope.sum(-1) * mask).sum(-1)

    def undo(self, z: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """The y that the layer takes to z, (B, K, P) each."""
        kept, moved = z[..., self.kept], z[..., self.moved]
        return self._merged(kept, self.map(kept, context, mask).inverse(moved))

    def _merged(self, kept: Tensor, moved: Tensor) -> Tensor:
        """Kept and moved coordinates in their places, (B, K, P)."""
        together = torch.cat([kept.to(moved.dtype), moved], dim=-1)
        return together[..., torch.cat([self.kept, self.moved]).argsort()]
