r"""The shared conditional flow (paper, section 3.4): slot context c_k to a density q(y | c_k), built on zuko.

.. math:: q(y \mid c) = \mathcal{N}(f(y; c); 0, I) \left| \det \frac{\partial f}{\partial y} \right|, \qquad
    f = f_L \circ \pi_L \circ \dots \circ f_1 \circ \pi_1 .

Each f_l is a coupling layer: the first half of the coordinates stays, and a network of that half and of c gives the
transform of the other half: a rational-quadratic spline on [−B, B] (in the paper the even layers) or an affine map (the
odd ones). A "marginal" layer is a spline of every coordinate that depends on c alone: its knots are computed once
per slot, not once per draw. π_l are fixed random permutations, chosen so that no coordinate is left out.

The network's first layer is linear in [y_a, c], so it splits into W_a y_a + W_c c. The second term does not depend on
y: `project` computes it once per slot, after which a draw or a density costs nothing that grows with the context's
width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Transform
from zuko.distributions import DiagNormal, NormalizingFlow
from zuko.transforms import (
    ComposedTransform,
    CouplingTransform,
    DependentTransform,
    MonotonicAffineTransform,
    MonotonicRQSTransform,
    PermutationTransform,
)

from slotflow.network.config import FlowConfig

__all__ = ["SMALLEST_SLOPE", "ConditionalFlow", "CouplingLayer", "balanced_permutations"]

SMALLEST_SLOPE = 1e-3
"""Slope that no transform falls below: zuko's default."""

CONTEXT_GAIN = 10.0
"""Initial scale of the context's weights, relative to torch's default."""
OUTPUT_GAIN = 0.05
"""Initial standard deviation of the last layers' weights: near the identity."""
ROWS_AT_ONCE = 2**13
"""Draws that a CPU takes through the layers together: with more of them, its caches do not hold what lies between."""
PERMUTATION_CANDIDATES = 4096
"""Random sets of permutations from which the most even one is taken."""


class ConditionalFlow(nn.Module):
    """Conditional coupling flow over `dim` coordinates.

    Args:
        dim: Number of coordinates.
        context: Width of the slot contexts.
        config: Layers, widths, bins and bound.
        context_gain: Initial scale of the context's weights, relative to torch's default.
        output_gain: Initial standard deviation of the last layers' weights.
    """

    def __init__(
        self,
        dim: int,
        context: int,
        config: FlowConfig,
        context_gain: float = CONTEXT_GAIN,
        output_gain: float = OUTPUT_GAIN,
    ) -> None:
        super().__init__()
        self.dim, self.context = dim, context
        orders = balanced_permutations(dim, dim // 2, config.layers)
        self.layers = nn.ModuleList(
            CouplingLayer(
                dim,
                context,
                config,
                kind=config.kinds[i % len(config.kinds)],
                order=torch.from_numpy(order),
                gains=(context_gain, output_gain),
            )
            for i, order in enumerate(orders)
        )

    def project(self, context: Tensor) -> Tensor:
        """Slot contexts (S, C) to the layers' context terms (S, L, H), once per slot."""
        terms = [layer.project(context) for layer in self.layers]  # type: ignore[operator]
        return torch.stack(terms, dim=-2)

    def distribution(self, projected: Tensor) -> NormalizingFlow:
        """The density q(y | c) for each row.

        Args:
            projected: Output of `project`, (S, L, H), or rows of it.

        Returns:
            A zuko distribution with batch shape (S,) and event shape (dim,): `log_prob` takes y of shape (..., S, dim).
        """
        transforms = []
        for layer, term in zip(self.layers, projected.unbind(-2), strict=True):
            transforms += layer(term)
        zeros = torch.zeros(*projected.shape[:-2], self.dim, device=projected.device)
        if projected.dtype == torch.float64:
            zeros = zeros.double()
        return NormalizingFlow(
            ComposedTransform(*transforms), DiagNormal(zeros, torch.ones_like(zeros))
        )

    def log_prob(self, projected: Tensor, y: Tensor) -> Tensor:
        """Log density of coordinates (..., S, dim) given rows of `project`, (S, L, H); (..., S)."""
        log_prob: Tensor = self.distribution(projected).log_prob(y)
        return log_prob

    def forward(self, context: Tensor) -> NormalizingFlow:
        """The density q(y | c) for each slot context (S, C)."""
        return self.distribution(self.project(context))

    def draw(self, projected: Tensor, n: int, generator: torch.Generator) -> Tensor:
        """Draws from q(y | c) with a given generator.

        Args:
            projected: Output of `project`, (S, L, H).
            n: Draws per slot.
            generator: Source of randomness on the flow's device.

        Returns:
            Coordinates, (n, S, dim).
        """
        dtype = torch.float64 if projected.dtype == torch.float64 else torch.float32
        shape = (n, *projected.shape[:-2], self.dim)
        normal = torch.randn(shape, generator=generator, device=projected.device, dtype=dtype)
        return self.from_normal(projected, normal)

    def from_normal(self, projected: Tensor, normal: Tensor) -> Tensor:
        """What the flow makes of standard normal numbers: draws from q(y | c).

        Args:
            projected: Output of `project`, (S, L, H).
            normal: The numbers, (n, S, dim).

        Returns:
            Coordinates, (n, S, dim).
        """
        transforms = self.distribution(projected).transform.transforms

        def undone(y: Tensor) -> Tensor:
            for transform in reversed(transforms):
                y = _undo(transform, y)
            return y

        slots = max(1, math.prod(normal.shape[1:-1]))
        if normal.device.type != "cpu" or len(normal) * slots <= ROWS_AT_ONCE:
            return undone(normal)
        pieces = torch.tensor_split(
            normal, min(len(normal), -(-len(normal) * slots // ROWS_AT_ONCE))
        )
        return torch.cat([undone(some) for some in pieces])


class CouplingLayer(nn.Module):
    """One permutation and one coupling transform with its network."""

    order: Tensor

    def __init__(
        self,
        dim: int,
        context: int,
        config: FlowConfig,
        *,
        kind: str,
        order: Tensor,
        gains: tuple[float, float],
    ) -> None:
        super().__init__()
        self.kept = 0 if kind == "marginal" else dim // 2
        self.moved = dim - self.kept
        self.kind, self.bins, self.bound = kind, config.bins, config.bound
        outputs = 2 if kind == "affine" else 3 * config.bins - 1
        self.register_buffer("order", order)
        self.from_context = nn.Linear(context, config.hidden)
        if self.kept:
            self.from_kept = nn.Linear(self.kept, config.hidden, bias=False)
        hidden: list[nn.Module] = [nn.ReLU()]
        for _ in range(config.hidden_layers - 1):
            hidden += [nn.Linear(config.hidden, config.hidden), nn.ReLU()]
        self.hidden = nn.Sequential(*hidden)
        self.out = nn.Linear(config.hidden, self.moved * outputs)
        # The flow starts near the identity, but with a context that is heard: at the usual scale its term is small
        # beside the kept half's, and training settles on the marginal over signals instead of the posterior.
        nn.init.normal_(self.from_context.weight, std=gains[0] / (3 * context) ** 0.5)
        nn.init.normal_(self.out.weight, std=gains[1])
        nn.init.zeros_(self.out.bias)

    def project(self, context: Tensor) -> Tensor:
        """Slot contexts (S, C) to this layer's context term (S, H)."""
        term: Tensor = self.from_context(context)
        return term

    def forward(self, term: Tensor) -> list[Transform]:
        """The permutation and the transform for context terms (S, H)."""
        if not self.kept:
            return [PermutationTransform(self.order), self.transform(term, None)]
        coupling = HalfCoupling(partial(self.transform, term), self.kept)
        return [PermutationTransform(self.order), coupling]

    def outputs(self, before: Tensor) -> Tensor:
        """What the network makes of its first layer, (..., S, H) to (..., S, moved, outputs)."""
        h: Tensor = self.out(self.hidden(before))
        h = h if h.dtype == torch.float64 else h.float()  # splines need more than bfloat16
        return h.reshape(*h.shape[:-1], self.moved, -1)

    def transform(self, term: Tensor, kept: Tensor | None) -> DependentTransform:
        """The transform of the moved coordinates, given the kept ones (..., S, kept)."""
        h = self.outputs(term if kept is None else term + self.from_kept(kept))
        if self.kind == "affine":
            return DependentTransform(MonotonicAffineTransform(h[..., 0], h[..., 1]), 1)
        widths, heights, slopes = torch.tensor_split(h, (self.bins, 2 * self.bins), dim=-1)
        return DependentTransform(Spline(widths, heights, slopes, self.bound), 1)


class HalfCoupling(CouplingTransform):  # type: ignore[misc]
    """zuko's coupling transform with the split by slices, which no device has to wait for."""

    def __init__(self, meta: Callable[[Tensor], Transform], kept: int) -> None:
        super(CouplingTransform, self).__init__()
        self.meta, self.kept = meta, kept

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The kept and the moved half of x (..., dim)."""
        return x[..., : self.kept], x[..., self.kept :]

    def _inverse(self, y: Tensor) -> Tensor:
        """The x that the coupling takes to y, (..., dim) each."""
        kept, moved = self.split(y)
        return self.merge(kept, _undo(self.meta(kept), moved), y.shape)

    def merge(self, x_a: Tensor, x_b: Tensor, shape: torch.Size) -> Tensor:
        """The inverse of `split`."""
        return torch.cat([x_a, x_b], dim=-1)


class Spline(MonotonicRQSTransform):  # type: ignore[misc]
    """zuko's rational-quadratic spline with its knots by one running sum.

    Widths and heights are softened to |w| < ln(1000)/2 before their exponentials are normalized, so that these need no
    safeguard against overflow; torch's softmax over a handful of numbers takes longer than all the rest of a spline.

    Args:
        widths: Unconstrained widths of the bins, (..., bins).
        heights: Unconstrained heights, (..., bins).
        derivatives: Unconstrained slopes at the inner knots, (..., bins − 1).
        bound: The spline lives on [−bound, bound].
        slope: Smallest slope.
    """

    def __init__(
        self,
        widths: Tensor,
        heights: Tensor,
        derivatives: Tensor,
        bound: float,
        slope: float = SMALLEST_SLOPE,
    ) -> None:
        super(MonotonicRQSTransform, self).__init__()
        limit = -math.log(slope)
        self.horizontal = self._knots(widths, limit, bound)
        self.vertical = self._knots(heights, limit, bound)
        soft = derivatives / (1 + (derivatives / limit).abs())
        self.derivatives = nn.functional.pad(soft, (1, 1)).exp()

    @staticmethod
    def _knots(sizes: Tensor, limit: float, bound: float) -> Tensor:
        """Places of the knots, (..., bins + 1), from unconstrained sizes of the bins."""
        parts = (sizes / (1 + (2 * sizes / limit).abs())).exp()
        if parts.device.type == "cuda":  # where sums along a short last axis are slow
            sums = parts.movedim(-1, 0).contiguous().cumsum(0).movedim(0, -1)
        else:
            sums = parts.cumsum(-1)
        total = nn.functional.pad(sums, (1, 0))
        return total * (2 * bound / total[..., -1:]) - bound


def _undo(transform: Transform, y: Tensor) -> Tensor:
    """The x that a transform takes to y, same shape.

    `transform.inv` ties a transform and its inverse to each other. Their tensors then stay in memory until Python's
    collector of cycles runs, which counts objects and not bytes: gigabytes, where every draw makes a new transform.
    """
    base = transform.base if isinstance(transform, DependentTransform) else transform
    x: Tensor = base._inverse(y)
    return x


def balanced_permutations(dim: int, kept: int, layers: int) -> NDArray[np.int64]:
    """Random permutations under which every coordinate gets its share of both kinds of layer.

    Of many random candidates the most even one is taken: each coordinate moved equally often by the splines and
    equally often by the affine layers, and every two coordinates on different sides at least once, since a coupling
    layer lets a coordinate depend only on those of the other side.

    Args:
        dim: Number of coordinates.
        kept: Coordinates that a layer leaves as they are.
        layers: Number of layers, splines first and every second.

    Returns:
        Order of the coordinates before each layer, relative to the layer before, (layers, dim).
    """
    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(np.arange(dim), (PERMUTATION_CANDIDATES, layers, 1)), axis=-1)
    at = np.tile(np.arange(dim), (PERMUTATION_CANDIDATES, 1))  # coordinate at each position
    moved = np.zeros((PERMUTATION_CANDIDATES, layers, dim), dtype=np.int64)
    for layer in range(layers):
        at = np.take_along_axis(at, orders[:, layer], axis=1)
        np.put_along_axis(moved[:, layer], at[:, kept:], 1, axis=1)
    kinds = (moved, moved[:, ::2], moved[:, 1::2])  # all layers, splines, affine layers
    unevenness = sum(np.ptp(some.sum(1), axis=-1) for some in kinds)
    apart = (moved[..., :, None] != moved[..., None, :]).any(1)  # (candidates, dim, dim)
    never = (moved.sum(1) == 0).sum(-1)
    score = unevenness + (~apart).sum((1, 2)) + dim * dim * layers * never
    best: NDArray[np.int64] = orders[int(np.argmin(score))]
    return best
