r"""Sums over even grids in closed form: the Dirichlet kernel with its moments, and Fourier moments of data.

Let u = (i − (N−1)/2)·dt, i = 0..N−1, be time since the grid's mid-time. The grid is symmetric about u = 0, so of

.. math:: S_0(f) = \sum_u \cos 2πfu, \quad S_1(f) = \sum_u u \sin 2πfu, \quad S_2(f) = \sum_u u^2 \cos 2πfu

all other parities vanish. With y = πf·dt, D(y) = sin(Ny)/sin(y) and primes for d/dy,

.. math:: S_0 = D, \quad S_1 = -\tfrac{dt}{2} D', \quad S_2 = -\tfrac{dt^2}{4} D'', \quad
          D' = \frac{N\cos Ny - D\cos y}{\sin y}, \quad D'' = (1 - N^2) D - 2 D' \cot y ,

the last from differentiating D sin y = sin Ny twice. Shifting f by m/dt multiplies D by (−1)^{m(N−1)}: f·dt is reduced
to [−½, ½] first, and multiples of the sampling rate are as good as zero. The quotients lose (1/Ny)² in relative
precision, so for |Ny| < ½ the power series in v = Ny takes over: with h = 2u/(N·dt) in (−1, 1) and M_p the mean of h^p,

.. math:: S_0 = N \sum_m \frac{(-v^2)^m}{(2m)!} M_{2m}, \quad
          S_1 = \frac{N^2 dt}{2} v \sum_m \frac{(-v^2)^m}{(2m+1)!} M_{2m+2}, \quad
          S_2 = \frac{N^3 dt^2}{4} \sum_m \frac{(-v^2)^m}{(2m)!} M_{2m+2} ,

of which seven terms leave 1e-15. Both branches are accurate to a few units in the last place of the kernel's maximum.

**About another instant.** With w = u + δ and weights 1/r² the moments of the sampling itself are

.. math:: W_p(f) = r^{-2} \sum w^p e^{2πifw}: \quad W_0 = ρ S_0, \quad W_1 = ρ (δ S_0 + i S_1), \quad
          W_2 = ρ (δ^2 S_0 + 2iδ S_1 + S_2), \quad ρ = e^{2πifδ}/r^2 ,

and every inner product of two tones or of their derivatives is one of these at the sum or difference of two
frequencies.

**Moments of data.** Σ x u^p e^{−2πifu} of data x with u = u_i + u_j (rows and columns of x folded into I × J): one
matrix product with cos and sin on the J columns, one contraction over the I rows, and sines on I + J ≈ 2√N points only.

All functions take NumPy arrays and torch tensors alike; S is the number of channels, the
first axis of what they return.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import namespace
from slotflow.core.devices import upload
from slotflow.core.numeric import cos_sin, cosine, phasor, sine
from slotflow.data.sampling import Grid

__all__ = [
    "Placed",
    "dirichlet",
    "fold",
    "moment_data",
    "moments",
    "placed_channels",
    "rotation",
    "unfolded",
    "window",
]

SERIES_BELOW = 0.5
"""|Ny| below which the power series is used."""
SERIES_TERMS = 7


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
            row = -2 * math.pi * np.concatenate([u for grid in self.grids for u in _times(grid)])
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


def dirichlet(frequency: Any, channels: Placed, powers: int = 3) -> Any:
    """S_0, S_1, S_2 of the module's docstring, differentiable once.

    Args:
        frequency: In Hz, any shape, float64, of either sign.
        channels: S channels; only their n and dt count.
        powers: How many of them.

    Returns:
        (powers, S, *shape of frequency).
    """
    xp, k = namespace(frequency), channels.constants(frequency)
    y = frequency * k.dt
    turns = y.round()
    y -= turns
    y *= math.pi
    sign = (
        k.half_even * turns
    )  # −1 after a shift by an odd multiple of the sampling rate, if n is even
    sign -= xp.floor(sign)
    sign *= -4
    sign += 1
    if powers == 1:  # the quotient itself is accurate down to y = 0
        zero = y == 0
        y = _replaced(y, zero, 1.0)
        kernel = sine(k.n * y)
        kernel = kernel / sine(y)
        return (_replaced(kernel, zero, k.n) * sign)[None]
    v = k.n * y
    near = xp.abs(v) < SERIES_BELOW
    y = xp.where(near, 1.0, y)
    ny, below = k.n * y, sine(y)
    cotangent = cosine(y) / below
    d0 = sine(ny) / below
    d1 = k.n * cosine(ny) / below - d0 * cotangent
    closed = [d0, d1] if powers == 2 else [d0, d1, (1 - k.n * k.n) * d0 - 2 * d1 * cotangent]
    d = xp.stack(closed)
    if isinstance(near, Tensor):  # everywhere: to know where would mean to wait for the device
        series = _series(torch.where(near, v, 0.0), k.series)
        d = torch.where(near, series[:powers], d)
    else:
        at = near.nonzero()
        d[:, *at] = _series(v[at], k.series.reshape(SERIES_TERMS, 3, -1)[..., at[0]])[:powers]
    return d * (sign * k.units[:powers])


def _replaced(values: Any, where: Any, by: Any) -> Any:
    """Values with some of them replaced; NumPy looks first whether there are any."""
    if isinstance(values, Tensor):
        return torch.where(where, by, values)
    return np.where(where, by, values) if where.any() else values


def window(frequency: Any, channels: Placed, powers: int = 3, turn: Any = None) -> Any:
    """W_0, W_1, W_2 of the module's docstring: moments of each channel's sampling about the reference time.

    Args:
        frequency: In Hz, any shape, float64, of either sign.
        channels: S channels.
        powers: How many of them.
        turn: ρ, (S, *shape of frequency), where it is known already.

    Returns:
        (powers, S, *shape of frequency), complex.
    """
    k = channels.constants(frequency)
    s = dirichlet(frequency, channels, powers)
    if turn is None:
        turn = phasor(frequency * k.offset) / (k.ratio * k.ratio)
    if powers == 1:
        return turn * s
    w = turn * s
    w[1] *= 1j
    if any(channels.offsets):
        if powers > 2:
            w[2] += k.offset * (k.offset * w[0] + 2 * w[1])
        w[1] += k.offset * w[0]
    return w


def rotation(frequency: Any, channels: Placed) -> Any:
    """e^{2πifδ}/r of each channel, (S, *shape of frequency)."""
    k = channels.constants(frequency)
    return phasor(frequency * k.offset) / k.ratio


def fold(values: Any) -> Any:
    """Folds series, shape (B, N), into rows and columns, shape (B, I, J), zeros at the end."""
    batch, n = values.shape
    rows, cols = _folds(n)
    padded = torch.nn.functional.pad(torch.as_tensor(values), (0, rows * cols - n))
    folded = padded.reshape(batch, rows, cols)
    return folded if isinstance(values, Tensor) else folded.numpy()


def unfolded(folded: Any, grid: Grid) -> Any:
    """The series, (B, N), that (B, I, J) was folded from."""
    return folded.reshape(len(folded), -1)[:, : grid.n]


def moment_data(folded: Any, grid: Grid, powers: int) -> Any:
    """The data times u^p for p = powers − 1 down to 0, as `moments` takes them, (B, J, powers · I)."""
    xp, (u_j, u_i) = namespace(folded), _times(grid)
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
        rows, cols = _folds(grid.n)
        middle, end = begin + cols, begin + cols + rows
        fine = wave[..., begin:middle].swapaxes(0, 1).reshape(batch, 2 * k, cols)
        inner = (fine @ values).reshape(batch, 2, k, values.shape[-1] // rows, rows)
        sums.append(xp.einsum("bxkmi,ybki->xybmk", inner, wave[..., middle:end]))
        begin = end
    parts = xp.stack(sums, 2)  # cos or sin of u_j, of u_i, channel, …
    return parts[0, 0] - parts[1, 1] + 1j * (parts[0, 1] + parts[1, 0])


def _series(v: Any, coefficients: Any) -> Any:
    """D, D' and D'' from the power series, (3, *shape of v)."""
    if not isinstance(v, Tensor) and not v.any():  # f = 0 exactly: the first terms alone
        first: Any = coefficients[0].copy()
        first[1] = 0.0
        return first
    square, value = -v * v, coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = value * square + coefficient
    return namespace(v).stack([value[0], value[1] * v, value[2]])


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


def _folds(n: int) -> tuple[int, int]:
    """Rows I and columns J that n samples are folded into."""
    cols = max(1, math.isqrt(n))
    return -(-n // cols), cols


def _times(grid: Grid) -> tuple[Any, Any]:
    """u_j, (J,), and u_i, (I,), of the samples u = u_i + u_j."""
    rows, cols = _folds(grid.n)
    return grid.dt * np.arange(cols), grid.dt * (cols * np.arange(rows) - 0.5 * (grid.n - 1))
