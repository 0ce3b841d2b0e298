"""A flow's log density on a GPU, recorded once and replayed: hundreds of small kernels for the price of one launch.

Half of a training step of the paper's network goes to waiting for the host to launch the kernels of its flow. A CUDA
graph launches all of them at once, but knows one number of rows: rows are filled up to a number that batches hardly
ever exceed, and those that do are computed as they come. Costs without gradient are a graph of their own, since they
have another number of rows and another precision; matched pairs are recorded forwards and backwards
(`torch.cuda.make_graphed_callables`).

A replay writes over what the one before it has left: each call with gradient needs its backward before the next one,
and gradients of the weights must be used, and set to None, before the next backward. They are not added up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from slotflow.network.flow import ConditionalFlow
from slotflow.network.straight import StraightDensity

__all__ = ["ReplayedDensity", "fill_up"]

SPARE = 1.15
"""Rows that a graph has room for, over those of the batch that it is recorded with."""
WARM_UPS = 3
"""Runs before a recording, in which libraries get their workspaces."""


class ReplayedDensity:
    """Log density of a flow on a GPU.

    Args:
        flow: On the GPU; its weights may change, their places in memory may not.
    """

    def __init__(self, flow: ConditionalFlow) -> None:
        self.flow, self.straight = flow, StraightDensity(flow)
        self.graphs: dict[bool, _Recorded | None] = {}
        """With and without gradient; None where recording has failed."""

    def __call__(self, projected: Tensor, y: Tensor) -> Tensor:
        """Log density of coordinates (S, dim) given rows of `ConditionalFlow.project`, (S, L, H); (S,)."""
        graded = torch.is_grad_enabled()
        if graded not in self.graphs:
            self.graphs[graded] = self._record(projected, y, graded)
        recorded = self.graphs[graded]
        if recorded is None or len(y) > recorded.rows or projected.dtype != recorded.dtype:
            found: Tensor = self.straight(projected, y)
            return found
        return recorded(projected, y)

    def _record(self, projected: Tensor, y: Tensor, graded: bool) -> _Recorded | None:
        try:
            if graded:  # its forward is replaced by the recorded one
                return _Trained(StraightDensity(self.flow), projected.detach(), y)
            return _Scored(self.straight, projected, y)
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            warnings.warn(
                f"the flow's kernels could not be recorded ({reason}); training goes on, more slowly.",
                stacklevel=2,
            )
            return None


class _Recorded:
    """A graph for a fixed number of rows."""

    def __init__(self, projected: Tensor, y: Tensor) -> None:
        self.rows, self.dtype = int(SPARE * len(y)) + 1, projected.dtype
        self.samples = fill_up(projected, self.rows), fill_up(y, self.rows)

    def __call__(self, projected: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError


class _Scored(_Recorded):
    """Costs, without gradient."""

    def __init__(self, straight: StraightDensity, projected: Tensor, y: Tensor) -> None:
        super().__init__(projected, y)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                straight(*self.samples)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.found: Tensor = straight(*self.samples)

    def __call__(self, projected: Tensor, y: Tensor) -> Tensor:
        """Log densities; those of the next call are written over them."""
        for sample, given in zip(self.samples, (projected, y), strict=True):
            sample[: len(given)] = given
        self.graph.replay()
        return self.found[: len(y)]


class _Trained(_Recorded):
    """Matched pairs, with gradient."""

    def __init__(self, straight: StraightDensity, projected: Tensor, y: Tensor) -> None:
        super().__init__(projected, y)
        samples = self.samples[0].requires_grad_(), self.samples[1]
        make: Callable[..., Any] = torch.cuda.make_graphed_callables
        self.graphed = make(straight, samples, num_warmup_iters=WARM_UPS, allow_unused_input=True)

    def __call__(self, projected: Tensor, y: Tensor) -> Tensor:
        found: Tensor = self.graphed(fill_up(projected, self.rows), fill_up(y, self.rows))
        return found[: len(y)]


def fill_up(x: Tensor, rows: int) -> Tensor:
    """Rows of zeros after those of x, (S, ...) to (rows, ...)."""
    return torch.cat([x, x.new_zeros(rows - len(x), *x.shape[1:])])
