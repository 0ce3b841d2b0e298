r"""Fourier moments at very many frequencies: one FFT, then a short interpolation at each frequency.

Importance sampling asks for the sum Σ x e^{−2πifu} at thousands of frequencies per signal. Written with g = f·dt and a
whole index i from −N/2 to N/2, it is a function of g with the period 1 and no harmonics above N/2, so that R ≥ 2N even
points B_l and a kernel ψ of W points give it everywhere (a non-uniform FFT of the second kind):

.. math:: \sum_i x_i e^{-2πi g i} = \sum_l ψ(gR - l)\, B_l, \quad
          B_l = \sum_i \frac{x_i}{\hat ψ(i/R)}\, e^{-2πi l i/R} .

The kernel is the exponential of a semicircle, ψ(x) = exp(β(√(1 − (2x/W)²) − 1)), cheap to evaluate and nearly as
compact as the best possible. Its transform has no closed form and is integrated once for each grid. What of ψ̂ lies
beyond ξ = 1 − N/2R ≥ 3/4 folds back and is the error: with W = 16 it is of the order of rounding.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.data.sampling import Grid

__all__ = ["Interpolant", "interpolated_moment"]

WIDTH = 16
BETA = 2.3 * WIDTH
NODES = 120


def interpolated_moment(series: Tensor, frequency: Tensor, grid: Grid) -> Tensor:
    """Σ x e^{−2πifu}, u = time since the grid's mid-time, in O(N log N + M) per signal; differentiable.

    Args:
        series: Data, shape (B, N), float64.
        frequency: In Hz, shape (B, M), float64.
        grid: Sampling of the data.

    Returns:
        Shape (B, M), complex.
    """
    n, device = grid.n, series.device
    size = max(_fast_size(2 * n), 2 * WIDTH)
    weights = _weights(n, size).to(device)
    padded = torch.nn.functional.pad(series * weights, (0, size - n)).roll(-(n // 2), -1)
    table = torch.fft.fft(padded)  # (B, R)

    cycles = frequency * grid.dt
    position = torch.remainder(cycles, 1.0) * size
    first = (position.detach() - WIDTH / 2).ceil()
    distance = (position - first)[..., None] - torch.arange(
        WIDTH, device=device, dtype=torch.float64
    )  # (B, M, W), within ±W/2
    inside = (1 - (distance * (2 / WIDTH)) ** 2).clamp_min(1e-300)
    kernel = (BETA * (inside.sqrt() - 1)).exp()
    taps = (first.long()[..., None] + torch.arange(WIDTH, device=device)) % size
    values = table.gather(1, taps.flatten(1)).unflatten(1, taps.shape[1:])
    total = torch.complex((values.real * kernel).sum(-1), (values.imag * kernel).sum(-1))
    shift = 2 * math.pi * ((n - 1) / 2 - n // 2) * cycles  # from the whole index to mid-time
    return total * torch.complex(shift.cos(), shift.sin())


class Interpolant:
    """The same for one signal in NumPy, with the FFT kept: many calls cost their interpolation only.

    Args:
        series: Data, (N,), float64.
        grid: Sampling of the data.
    """

    def __init__(self, series: NDArray[np.float64], grid: Grid) -> None:
        n, size = grid.n, max(_fast_size(2 * grid.n), 2 * WIDTH)
        padded = np.zeros(size)
        padded[:n] = series * _weights(n, size).numpy()
        half = np.fft.rfft(np.roll(padded, -(n // 2)))  # R is even
        table = np.concatenate([half, half[-2:0:-1].conj()])
        around = np.concatenate([table[-WIDTH:], table, table[: 2 * WIDTH]])  # B has the period R
        self.windows = np.lib.stride_tricks.sliding_window_view(around, WIDTH)
        self.size, self.dt, self.shift = size, grid.dt, (n - 1) / 2 - n // 2

    def __call__(self, frequency: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Σ x e^{−2πifu} at frequencies in Hz, of any shape, float64; same shape."""
        cycles = frequency.reshape(-1) * self.dt
        position = (cycles - np.floor(cycles)) * self.size
        first = np.ceil(position - WIDTH / 2)
        x = (position - first)[:, None] - np.arange(WIDTH)  # (M, W), within ±W/2
        x *= 2 / WIDTH
        np.multiply(x, x, out=x)
        np.subtract(1, x, out=x)
        np.maximum(x, 1e-300, out=x)
        np.sqrt(x, out=x)
        x -= 1
        x *= BETA
        kernel = np.exp(x, out=x)
        values = self.windows[first.astype(np.int64) + WIDTH]  # (M, W)
        total: NDArray[np.complex128] = np.empty(len(cycles), dtype=np.complex128)
        total.real = np.einsum("mw,mw->m", values.real, kernel)
        total.imag = np.einsum("mw,mw->m", values.imag, kernel)
        if self.shift:
            total *= np.exp(2j * math.pi * self.shift * cycles)
        return total.reshape(frequency.shape)


@functools.lru_cache(maxsize=16)
def _weights(n: int, size: int) -> Tensor:
    """1/ψ̂(i/R) for i = −⌊n/2⌋ and the following n − 1, shape (n,), on the CPU."""
    # t = sin a turns the square root into a cosine: the integrand is smooth and Gauss–Legendre converges at once.
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    a = 0.5 * np.pi * nodes
    height = 0.25 * np.pi * WIDTH * weights * np.exp(BETA * (np.cos(a) - 1)) * np.cos(a)
    xi = (np.arange(n) - n // 2) / size
    transform = np.concatenate(
        [
            np.cos(np.pi * WIDTH * np.outer(part, np.sin(a))) @ height
            for part in np.array_split(xi, 1 + n // 4096)
        ]
    )
    return torch.as_tensor(1 / transform)


def _fast_size(n: int) -> int:
    """Smallest product of 2, 3 and 5 that is even and not below n."""
    best = 1 << max(1, (n - 1).bit_length())
    for threes in range(5):
        for fives in range(4):
            odd = 3**threes * 5**fives
            twos = max(1, math.ceil(math.log2(max(n / odd, 1))))
            if n <= odd << twos < best:
                best = odd << twos
    return best
