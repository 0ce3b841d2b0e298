r"""Fourier moments of data on even grids, Σ x u^p e^{−2πifu}, with few sines.

With u = u_i + u_j, the rows and columns of x folded into I × J (`placed.py`), the sum is one matrix product with cos
and sin on the J columns and one contraction over the I rows: sines on I + J ≈ 2√N points only. All functions take NumPy
arrays and torch tensors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from slotflow.core.arrays import namespace
from slotflow.core.devices import upload
from slotflow.core.numeric import cos_sin
from slotflow.data.sampling import Grid
from slotflow.signal.likelihood.placed import Placed, folded_times, folds

__all__ = ["fold", "moment_data", "moments", "unfolded"]


def fold(values: Any) -> Any:
    """Folds series, shape (B, N), into rows and columns, shape (B, I, J), zeros at the end."""
    batch, n = values.shape
    rows, cols = folds(n)
    padded = torch.nn.functional.pad(torch.as_tensor(values), (0, rows * cols - n))
    folded = padded.reshape(batch, rows, cols)
    return folded if isinstance(values, Tensor) else folded.numpy()


def unfolded(folded: Any, grid: Grid) -> Any:
    """The series, (B, N), that (B, I, J) was folded from."""
    return folded.reshape(len(folded), -1)[:, : grid.n]


def moment_data(folded: Any, grid: Grid, powers: int) -> Any:
    """The data times u^p for p = powers − 1 down to 0, as `moments` takes them, (B, J, powers · I)."""
    xp, (u_j, u_i) = namespace(folded), folded_times(grid)
    u: Any = u_i[:, None] + u_j
    if isinstance(folded, Tensor):
        u = upload(torch.from_numpy(u), folded.device)
    terms = [folded]
    for _ in range(1, powers):
        terms.append(terms[-1] * u)
    return xp.concat([term.mT for term in reversed(terms)], -1)


def moments(data: Sequence[Any], frequency: Any, channels: Placed) -> Any:
    """Σ x u^p e^{−2πifu} for p = .. down to 0, u = time since each channel's mid-time.

    Args:
        data: Each channel's data times powers of u as `moment_data` gives them, (B, J, powers · I), float64.
        frequency: In Hz, (B, K), float64.
        channels: S channels.

    Returns:
        (S, B, powers, K), complex.
    """
    xp, (batch, k) = namespace(frequency), frequency.shape
    wave = cos_sin(frequency[..., None] * channels.times(frequency))  # (2, B, K, ΣJ + I)
    sums, begin = [], 0
    for values, grid in zip(data, channels.grids, strict=True):
        rows, cols = folds(grid.n)
        middle, end = begin + cols, begin + cols + rows
        fine = wave[..., begin:middle].swapaxes(0, 1).reshape(batch, 2 * k, cols)
        inner = (fine @ values).reshape(batch, 2, k, values.shape[-1] // rows, rows)
        sums.append(xp.einsum("bxkmi,ybki->xybmk", inner, wave[..., middle:end]))
        begin = end
    parts = xp.stack(sums, 2)  # cos or sin of u_j, of u_i, channel, …
    return parts[0, 0] - parts[1, 1] + 1j * (parts[0, 1] + parts[1, 0])
