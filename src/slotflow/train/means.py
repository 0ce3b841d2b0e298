"""Means of loss terms over the steps of all processes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["TermMeans"]


class TermMeans:
    """Sums of named terms that wait to be averaged; adding to them makes no device wait.

    Args:
        sums: Sums to start from.
        count: Number of steps that they come from.
    """

    def __init__(self, sums: Mapping[str, float] | None = None, count: int = 0) -> None:
        self.sums: dict[str, Tensor | float] = dict(sums or {})
        self.count = count

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Adds the terms of one step, scalars."""
        for name, term in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + term.detach()
        self.count += 1

    def take(self, device: torch.device, world: int) -> dict[str, float]:
        """Means over the steps and over all processes; the sums are empty afterwards."""
        names = list(self.sums)
        values = torch.stack([torch.as_tensor(self.sums[n], device=device).double() for n in names])
        values /= self.count
        if world > 1:
            dist.all_reduce(values)
            values /= world
        self.sums, self.count = {}, 0
        return dict(zip(names, values.tolist(), strict=True))
