"""Even channels about a reference time: their constants in either library, and how samples fold into rows and columns.

The samples u = u_i + u_j of a grid fold into I rows and J ≈ √N columns, so that sums over them need sines at I + J
points only (`folded.py`). The power series of the closed forms (`kernels.py`) have coefficients of each grid's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.data.sampling import Grid

__all__ = ["SERIES_TERMS", "Placed", "folded_times", "folds", "placed_channels"]

SERIES_TERMS = 7
"""Terms of the power series around f = 0."""


class _Constants(NamedTuple):
    """What the closed forms need to know of S channels: (S, 1, …) each but for the last two."""

    n: Any
    dt: Any
    half_even: Any
    """½ where n is even, 0 where it is odd."""
    offset: Any
    ratio: Any
    series: Any
    """Coefficients of the three power series in −v², (terms, 3, S, 1, …), lowest first."""
    signs: Any
    """−1 and 1, (2, 1, …)."""
    units: Any
    """What D, D' and D'' are multiplied with to be S_0, S_1 and S_2, (3, S, 1, …)."""
    order: Any
    """Which of W_0, W_1 and W_2 are the inner products of (w e, e) with (w e, e), (4,), int64."""


class Placed:
    """Even channels, where they lie about the reference time, and what they weigh.

    Signals that are sampled alike share one object (`placed_channels`), so that a device gets its constants once.

    Args:
        grids: Sampling of each of S channels.
        offsets: δ, from the reference time to each channel's mid-time, in seconds.
        ratios: r, each channel's noise level in units of σ.
    """

    def __init__(
        self, grids: Sequence[Grid], offsets: Sequence[float], ratios: Sequence[float]
    ) -> None:
        self.grids, self.offsets, self.ratios = tuple(grids), tuple(offsets), tuple(ratios)
        self._constants: dict[tuple[int, Any], _Constants] = {}
        self._times: dict[torch.device | None, Any] = {}

    def constants(self, like: Any) -> _Constants:
        """The channels' constants in the library, on the device and with the number of axes of some frequencies."""
        key = like.ndim, like.device if isinstance(like, Tensor) else None
        if key not in self._constants:
            self._constants[key] = self._build(*key)
        return self._constants[key]

    def signs(self, like: Any) -> Any:
        """−1 and 1, (2, 1, …) with the axes of some frequencies."""
        return self.constants(like).signs

    def times(self, like: Any) -> Any:
        """−2π u_j and −2π u_i of all channels in one row, (ΣJ + I,), in the library and on the device of `like`."""
        device = like.device if isinstance(like, Tensor) else None
        if device not in self._times:
            row = (
                -2
                * math.pi
                * np.concatenate([u for grid in self.grids for u in folded_times(grid)])
            )
            with torch.inference_mode(False):
                self._times[device] = (
                    row if device is None else upload(torch.from_numpy(row), device)
                )
        return self._times[device]

    def _build(self, ndim: int, device: torch.device | None) -> _Constants:
        n, dt = np.array([[float(g.n), g.dt] for g in self.grids]).T
        series = np.array([_series_coefficients(g.n) for g in self.grids])  # (S, 3, terms)
        series = np.moveaxis(series * np.stack([n, -n * n, -(n**3)], 1)[..., None], 0, -1)
        values = [
            n,
            dt,
            0.5 * (n % 2 == 0),
            np.array(self.offsets),
            np.array(self.ratios),
            series.swapaxes(0, 1),
            np.array([-1.0, 1.0]),
            np.stack([np.ones_like(dt), -0.5 * dt, -0.25 * dt * dt]),
        ]
        shaped = [np.ascontiguousarray(x).reshape(*x.shape, *(1,) * ndim) for x in values]
        shaped.append(np.array([2, 1, 1, 0]))
        if device is None:
            return _Constants(*shaped)
        with torch.inference_mode(False):  # they outlive the call; the next one may build a graph
            return _Constants(*(upload(torch.from_numpy(x), device) for x in shaped))


@functools.lru_cache(maxsize=256)
def placed_channels(
    grids: tuple[Grid, ...], offsets: tuple[float, ...], ratios: tuple[float, ...]
) -> Placed:
    """The channels of given grids, offsets and ratios; arguments of `Placed`."""
    return Placed(grids, offsets, ratios)


@functools.lru_cache(maxsize=64)
def _series_coefficients(n: int) -> tuple[tuple[float, ...], ...]:
    """Coefficients of the three power series in −v² without their powers of N and dt, lowest first."""
    h = (2 * torch.arange(n, dtype=torch.float64) - (n - 1)) / n
    means = [float((h ** (2 * m)).mean()) for m in range(SERIES_TERMS + 1)]
    terms = range(SERIES_TERMS)
    return (
        tuple(means[m] / math.factorial(2 * m) for m in terms),
        tuple(means[m + 1] / math.factorial(2 * m + 1) for m in terms),
        tuple(means[m + 1] / math.factorial(2 * m) for m in terms),
    )


def folds(n: int) -> tuple[int, int]:
    """Rows I and columns J that n samples are folded into."""
    cols = max(1, math.isqrt(n))
    return -(-n // cols), cols


def folded_times(grid: Grid) -> tuple[Any, Any]:
    """u_j, (J,), and u_i, (I,), of the samples u = u_i + u_j."""
    rows, cols = folds(grid.n)
    return grid.dt * np.arange(cols), grid.dt * (cols * np.arange(rows) - 0.5 * (grid.n - 1))
