r"""Momentum with orthogonal steps for matrices (Muon), Adam for everything else.

Adam scales the step of every weight by itself. A layer acts as a whole, though: what its output can change by in one
step is bounded by the largest singular value of the step, and a momentum B of few large singular values spends that
on few directions. Muon (Jordan and others, 2024) takes the nearest matrix with orthonormal rows or columns instead,

.. math:: B = U S V^\top \;\to\; O = U V^\top, \qquad W \leftarrow W - η \sqrt{\max(1, r/c)}\, O

for W of r rows and c columns: all directions move alike, and η means the same for layers of any width. U Vᵀ is found
without a decomposition, by a few steps of the odd polynomial X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X, which drives singular
values towards 1. The usual coefficients reach the range 0.7 to 1.2 after five steps, which is near enough. Matrices of
one shape go through it together.

Convolutions count as matrices of (channels out) × (channels in · kernel). Vectors, and matrices with fewer than
`FEWEST_ROWS` rows or columns, such as last layers of few outputs, take the steps of Adam.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["FEWEST_ROWS", "Muon", "is_matrix", "orthogonal"]

FEWEST_ROWS = 16
"""Rows and columns from which on a parameter is stepped as a matrix."""
MOMENTUM = 0.95
POLYNOMIAL = (3.4445, -4.7750, 2.0315)
"""a, b, c."""
POLYNOMIAL_STEPS = 5
EPSILON = 1e-8


def is_matrix(parameter: Tensor) -> bool:
    """Whether a parameter is stepped as a matrix."""
    return parameter.ndim >= 2 and min(parameter.flatten(1).shape) >= FEWEST_ROWS


def orthogonal(matrices: Tensor) -> Tensor:
    """About the nearest matrices with orthonormal rows or columns, (G, r, c) to (G, r, c); in bfloat16 on a GPU."""
    dtype = torch.bfloat16 if matrices.is_cuda else matrices.dtype
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = (matrices.mT if tall else matrices).to(dtype)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + EPSILON)
    a, b, c = POLYNOMIAL
    for _ in range(POLYNOMIAL_STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    found: Tensor = (x.mT if tall else x).to(matrices.dtype)
    return found


class Muon(torch.optim.Optimizer):
    """Orthogonal steps for matrices, Adam with decoupled weight decay for the others.

    A group's "factor" is its learning rate over that of the schedule, which is Adam's; the first group is Adam's.

    Args:
        parameters: What to train.
        learning_rate: Adam's.
        matrix_learning_rate: η, that of the matrices: the largest singular value of a step.
        betas: Adam's decay rates.
        weight_decay: Share of a weight that is taken off per step and learning rate.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        learning_rate: float,
        matrix_learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        every = list(parameters)
        matrices = [p for p in every if is_matrix(p)]
        others = [p for p in every if not is_matrix(p)]
        shared = {"betas": tuple(betas), "weight_decay": weight_decay, "steps": 0}
        factor = matrix_learning_rate / learning_rate
        groups: list[dict[str, Any]] = [
            {"params": others, "matrices": False, "factor": 1.0, "lr": learning_rate},
            {"params": matrices, "matrices": True, "factor": factor, "lr": matrix_learning_rate},
        ]
        super().__init__([g for g in groups if g["params"]], shared)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step; a closure is not supported."""
        assert closure is None
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if not moved:
                continue
            group["steps"] += 1
            if group["weight_decay"]:
                torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
            (self._orthogonal_step if group["matrices"] else self._adam_step)(group, moved)

    def _orthogonal_step(self, group: dict[str, Any], moved: list[Tensor]) -> None:
        """Moves matrices, those of one shape together."""
        gradients = [_gradient(p) for p in moved]
        momenta = self._kept("momentum", moved)
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # Nesterov's
        shapes: dict[torch.Size, list[int]] = {}
        for i, gradient in enumerate(gradients):
            shapes.setdefault(gradient.flatten(1).shape, []).append(i)
        for (rows, columns), places in shapes.items():
            steps = orthogonal(torch.stack([ahead[i].flatten(1) for i in places]))
            rate = group["lr"] * math.sqrt(max(1.0, rows / columns))
            for i, one in zip(places, steps, strict=True):
                moved[i].add_(one.view_as(moved[i]), alpha=-rate)

    def _adam_step(self, group: dict[str, Any], moved: list[Tensor]) -> None:
        """Moves all other parameters."""
        gradients, (first, second) = [_gradient(p) for p in moved], group["betas"]
        means, squares = self._kept("mean", moved), self._kept("square", moved)
        torch._foreach_lerp_(means, gradients, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        spread = torch._foreach_sqrt(squares)
        torch._foreach_div_(spread, math.sqrt(1 - second ** group["steps"]))
        torch._foreach_add_(spread, EPSILON)
        torch._foreach_addcdiv_(moved, means, spread, -group["lr"] / (1 - first ** group["steps"]))

    def _kept(self, name: str, moved: list[Tensor]) -> list[Tensor]:
        """What is kept of earlier steps under a name, zeros at first."""
        for p in moved:
            if name not in self.state[p]:
                self.state[p][name] = torch.zeros_like(p)
        return [self.state[p][name] for p in moved]


def _gradient(parameter: Tensor) -> Tensor:
    """Its gradient, which is there."""
    assert parameter.grad is not None
    return parameter.grad
