r"""A masked autoregressive flow over (K, Θ), after CoSMIC (Davies et al. 2025).

All models share one space of K_max components. K comes first, from the classifier; given K, the components in the order
of their frequencies fill the first d = K·P of D = K_max·P coordinates, and the others are *saturated*: they follow the
base density, pass through every layer as they are, and no other coordinate sees them. With the mask m_i = [i < d],

.. math:: z_i = t(y_i;\, h_i(m ⊙ y_{<i},\, g, K)) \text{ where } m_i = 1, \qquad
    \ln q(Θ \mid K, x) = \sum_{i < d} \ln \mathcal{N}(z_i) + \ln |∂z_i/∂y_i| .

Layers take turns in the direction of their order, y_{<i} or y_{>i}, and between rational-quadratic splines and affine
maps. The sums and networks always have the width of K_max, whatever K is. A draw undoes a layer coordinate by
coordinate; d passes suffice.

A list of components that is out of order has a density as well, a small one, which `log_prob_set` sums up.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from zuko.nn import MaskedLinear

from slotflow.network.config import FlowConfig, ModelConfig
from slotflow.studies.comparators.interface import Counted, Encoded, one_hot_count
from slotflow.studies.comparators.maps import (
    Map,
    heard_context,
    near_identity,
    outputs_of,
    standard_normal,
)

__all__ = ["AutoregressiveLayer", "Saturated"]


class Saturated(Counted):
    """K first, then sorted components one coordinate after the other."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        flow, size = config.flow, config.prior.waveform.size
        self.layers = nn.ModuleList(
            AutoregressiveLayer(
                self.k_max * size,
                config.encoder.context + self.k_max + 1,
                flow,
                kind=flow.kinds[i % len(flow.kinds)],
                falling=bool(i // len(flow.kinds) % 2),
            )
            for i in range(flow.layers)
        )

    def flow_log_prob(self, context: Tensor, y: Tensor, k: Tensor) -> Tensor:
        """Log density of the first k of sorted components, (B, K, P) with counts (B,) to (B,)."""
        size = y.shape[-1]
        z = nn.functional.pad(y.flatten(1), (0, size * (self.k_max - y.shape[1])))  # (B, D)
        mask = torch.arange(z.shape[1], device=z.device) < size * k[:, None]
        seen = one_hot_count(context, k, self.k_max)
        log_q = z.new_zeros(len(z))
        for layer in self.layers:
            z, slope = layer(z, seen, mask)
            log_q = log_q + slope
        return log_q + (standard_normal(z) * mask).sum(-1)

    def draw(self, encoded: Encoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P), float64."""
        batch, size = len(encoded.context), self.config.prior.waveform.size
        shape = (batch * n, self.k_max * size)
        z = torch.randn(shape, generator=generator, device=self.device, dtype=self.dtype)
        mask = torch.arange(shape[1], device=self.device) < size * k
        count = torch.full((batch,), k, device=self.device)
        seen = one_hot_count(encoded.context, count, self.k_max).repeat_interleave(n, dim=0)
        for layer in reversed(self.layers):
            z = layer.undo(z, seen, mask.expand(shape), passes=size * k)  # type: ignore[operator]
        y = z.reshape(batch, n, self.k_max, size)[:, :, :k]
        return self.target.decode(y)


class AutoregressiveLayer(nn.Module):
    """One triangular map of D coordinates, of which the mask says which take part.

    Args:
        dim: D.
        context: Width of what the layer is conditioned on.
        config: Width and depth of its network, bins and bound of its splines.
        kind: "spline" or "affine".
        falling: Whether a coordinate sees those after it instead of those before.
    """

    def __init__(
        self, dim: int, context: int, config: FlowConfig, *, kind: str, falling: bool
    ) -> None:
        super().__init__()
        self.kind, self.config = kind, config
        place = torch.arange(1, dim + 1)
        place = place.flip(0) if falling else place  # 1 for the coordinate that sees no other
        unit = torch.arange(config.hidden) % dim  # the last place that a hidden unit may see
        outputs = outputs_of(kind, config)
        self.from_context = heard_context(context, config.hidden)
        self.from_y = MaskedLinear(unit[:, None] >= place)
        inner: list[nn.Module] = []
        for _ in range(config.hidden_layers - 1):
            inner += [nn.ReLU(), MaskedLinear(unit[:, None] >= unit)]
        self.inner = nn.Sequential(*inner, nn.ReLU())
        seen = (place[:, None] > unit).repeat_interleave(outputs, dim=0)
        self.out = near_identity(MaskedLinear(seen))

    def map(self, y: Tensor, term: Tensor) -> Map:
        """The map of each coordinate given those that it sees: y (B, D) and the context's term (B, hidden)."""
        h: Tensor = self.out(self.inner(term + self.from_y(y)))
        return Map(h.reshape(*y.shape, -1), self.kind, self.config)

    def forward(self, y: Tensor, context: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What the layer makes of y and ln of its slope: (B, D), (B, C), mask (B, D) to (B, D) and (B,)."""
        y = torch.where(mask, y, 0.0)
        z, slope = self.map(y, self.from_context(context)).forward(y)
        return torch.where(mask, z, 0.0), torch.where(mask, slope, 0.0).sum(-1)

    def undo(self, z: Tensor, context: Tensor, mask: Tensor, passes: int) -> Tensor:
        """The y that the layer takes to z, (B, D) each, after as many passes as there are coordinates in the mask."""
        term, z = self.from_context(context), torch.where(mask, z, 0.0)
        y = torch.zeros_like(z)
        for _ in range(passes):
            y = torch.where(mask, self.map(y, term).inverse(z), 0.0)
        return y
