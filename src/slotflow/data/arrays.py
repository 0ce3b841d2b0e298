"""Samples and time stamps as they come in arrays: tensors of any kind, numbers, dates."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.data.gaps import last_digit

__all__ = ["as_array", "as_numpy", "is_tensor", "seconds_of"]

CALENDAR = ("Y", "M")
"""Units of NumPy's dates and durations that are not always equally long."""


def is_tensor(x: object) -> bool:
    """Whether this is a torch tensor; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def as_numpy(x: Any) -> NDArray[Any]:
    """Anything that is an array, or can be one; tensors of any device, type and part of a graph included."""
    if is_tensor(x):
        x = x.detach().cpu().resolve_conj().resolve_neg()
        x = x.double() if x.is_floating_point() else x
    return as_array(x)


def as_array(x: Any) -> NDArray[Any]:
    """Anything that NumPy can make an array of; where it is masked it is NaN, or NaT in dates and durations."""
    if not isinstance(x, np.ma.MaskedArray):
        return np.asarray(x)
    if x.dtype.kind in "iub":  # whole numbers have no NaN
        x = x.astype(np.float64)
    absent = np.array("NaT", x.dtype) if x.dtype.kind in "mM" else np.nan
    found: NDArray[Any] = x.filled(absent)
    return found


def seconds_of(stamps: NDArray[Any], t_ref: float) -> tuple[NDArray[np.float64], float, float]:
    """Time stamps in seconds after t_ref.

    Args:
        stamps: Numbers, which count from t_ref; dates (datetime64), which count from 1970; or durations (timedelta64).
        t_ref: The instant to count from, in seconds; 0 stands for the first of them if they are dates.

    Returns:
        The stamps in seconds, (n,), float64; the instant that they count from; and what their last digit is worth where
        that may matter (dates, single and half precision), else 0.
    """
    kind = stamps.dtype.kind
    if kind == "M":
        if np.isnat(stamps).any():
            raise ValueError(
                f"times must be known, received {int(np.isnat(stamps).sum())} of {stamps.size} that are no dates "
                "(NaT); leave these samples out."
            )
        rough = np.datetime_data(stamps.dtype)[0] in CALENDAR
        stamps = stamps.astype("M8[s]") if rough else stamps
        begin = t_ref or float((stamps[0] - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
        whole = np.datetime64(int(begin), "s")
        after: NDArray[np.float64] = (stamps - whole) / np.timedelta64(1, "s")
        tick = float(np.ones(1, stamps.dtype.str.replace("M8", "m8"))[0] / np.timedelta64(1, "s"))
        return after - (begin - int(begin)), begin, 0.0 if rough or tick > 1 else tick
    if kind == "m":
        if np.datetime_data(stamps.dtype)[0] in CALENDAR:
            raise ValueError(
                f"times must be durations of a fixed length, received the type {stamps.dtype}, whose months and years "
                "have none; give dates (datetime64), or convert them to days."
            )
        return stamps / np.timedelta64(1, "s"), t_ref, 0.0
    if kind not in "fiub":
        raise ValueError(
            f"times must be seconds or dates (datetime64), received the type {stamps.dtype}; convert them first, for "
            "example with pandas.to_datetime(times).to_numpy('datetime64[ns]')."
        )
    short = kind == "f" and stamps.dtype.itemsize < 8 and np.isfinite(stamps).all()
    return stamps.astype(np.float64), t_ref, last_digit(stamps) if short else 0.0
