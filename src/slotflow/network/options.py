"""Keywords of the call of inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import torch
from numpy.typing import ArrayLike

from slotflow.signal.prior import Prior

__all__ = ["InferOptions", "KPrior", "PriorStatement"]

KPrior = ArrayLike | Mapping[int, float]
"""p(K): k_max + 1 numbers, index = K, or a mapping from K to a number."""
PriorStatement = Prior | Mapping[str, Any] | None
"""A prior, some of its fields by their names, or nothing: the rest is then taken from the data."""


class InferOptions(TypedDict, total=False):
    """Keywords of `SlotFlow.infer` and `SlotFlow.infer_each`, which explain them."""

    method: str
    prior: PriorStatement
    k_prior: KPrior | None
    draws: int
    max_seconds: float
    seed: int
    device: str | torch.device | None
    dtype: torch.dtype | None
    threads: int | None
    processes: int | None
    batch_size: int
    sampler: Mapping[str, Any] | None
    noise: Any
    outliers: str | None
    trend: int | None
