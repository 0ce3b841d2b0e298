"""Means over rounds of a study, with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["mean_and_error"]


def mean_and_error(values: Sequence[float]) -> list[float | None]:
    """Mean of some numbers, (n,), and its standard error, None where there is one number alone."""
    n = len(values)
    error = float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else None
    return [float(np.mean(values)), error]
