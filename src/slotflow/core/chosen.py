"""Which members of a sequence are asked for, where it may be several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Several", "several"]

Several = slice | Sequence[int] | NDArray[Any]
"""A slice, a list of places, or an array of places or of truth values."""


def several(index: Any, n: int) -> slice | NDArray[np.int64] | None:
    """The members of a sequence of n that an index asks for; None if it is one place.

    Args:
        index: What stands in the brackets.
        n: How many members there are.
    """
    if isinstance(index, slice):
        return index
    places = np.asarray(index)
    if places.ndim == 0 and places.dtype.kind in "iu":
        return None
    if places.size == 0 and places.ndim == 1:
        places = places.astype(np.int64)
    if places.ndim != 1 or places.dtype.kind not in "iub":
        raise ValueError(
            f"expected a place, a slice, a list of places or a truth value for each of {n}, received {index!r}."
        )
    if places.dtype.kind == "b":
        if len(places) != n:
            raise ValueError(f"expected a truth value for each of {n}, received {len(places)}.")
        return np.flatnonzero(places)
    if len(places) and not (-n <= places.min() and places.max() < n):
        raise IndexError(f"expected places in 0..{n - 1}, received {index!r}.")
    return places.astype(np.int64)
