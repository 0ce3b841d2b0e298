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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import Array, namespace
from slotflow.data.sampling import Grid

__all__ = ["BETA", "WIDTH", "Interpolant", "fast_size", "kernel_weights"]

WIDTH = 16
"""W, points that each value is interpolated from."""
BETA = 2.3 * WIDTH
NODES = 120
"""Points of the integral of the kernel's transform."""
DEGREE = 60
"""Of the polynomial that stands for the kernel's transform."""


class Interpolant:
    """Σ x e^{−2πifu}, u = time since the grid's mid-time, at any frequency; differentiable in the frequency.

    The FFT is taken once, O(N log N); each frequency then costs W products, however long the data.

    Args:
        series: Data, (B, N), float64; a NumPy array for one signal on the CPU (its exponentials are twice as fast).
        grid: Sampling of the data.
    """

    def __init__(self, series: Any, grid: Grid) -> None:
        xp, n, size = namespace(series), grid.n, max(fast_size(2 * grid.n), 2 * WIDTH)
        weights: Any = kernel_weights(n, size)
        if isinstance(series, Tensor):
            weights = torch.as_tensor(weights, device=series.device)
        weighted = series * weights
        before, after = weighted[:, n // 2 :], weighted[:, : n // 2]  # i from 0 up, i below 0
        gap = xp.zeros_like(series[:, :1]) * xp.ones_like(weights[:1])
        gap = xp.broadcast_to(gap, (len(series), size - n))
        half = xp.fft.rfft(xp.concat([before, gap, after], -1))  # R is even
        table = xp.concat([half, xp.flip(half[:, 1:-1], (-1,)).conj()], -1)
        around = xp.concat([table[:, -WIDTH:], table, table[:, : 2 * WIDTH]], -1)  # period R
        self.size, self.dt, self.shift = size, grid.dt, (n - 1) / 2 - n // 2
        if isinstance(around, Tensor):
            self.windows: Any = around.unfold(1, WIDTH, 1)  # (B, places, W)
            self.rows: Any = torch.arange(len(series), device=series.device)[:, None]
            self.taps: Any = torch.arange(WIDTH, device=series.device, dtype=torch.float64)
        else:
            self.windows = np.lib.stride_tricks.sliding_window_view(around, WIDTH, axis=1)
            self.rows, self.taps = np.arange(len(series))[:, None], np.arange(WIDTH)

    def __call__(self, frequency: Any) -> Any:
        """The sum at frequencies in Hz, (B, M), float64; same shape, complex."""
        kernel, index = self._taps(frequency)  # (B, M, W), (B, M)
        one = len(self.rows) == 1
        values = self.windows[0][index[0]][None] if one else self.windows[self.rows, index]
        return self._summed("bmw,bmw->bm", values, kernel, frequency)

    def together(self, frequency: Any) -> Any:
        """The sums of all B series at the same frequencies in Hz, (M,), float64; (B, M), complex."""
        kernel, index = self._taps(frequency)  # (M, W), (M,)
        return self._summed("bmw,mw->bm", self.windows[:, index], kernel, frequency)

    def _taps(self, frequency: Any) -> tuple[Any, Any]:
        """What the W points around each frequency count, (..., W), and where in `windows` they stand, (...)."""
        xp = namespace(frequency)
        position = xp.remainder(frequency * self.dt, 1.0) * self.size
        first = xp.ceil(position - WIDTH / 2)
        if isinstance(first, Tensor):
            first = first.detach()
        kernel = _kernel((position - first)[..., None] - self.taps)
        index = first.long() if isinstance(first, Tensor) else first.astype(np.int64)
        return kernel, index + WIDTH

    def _summed(self, indices: str, values: Any, kernel: Any, frequency: Any) -> Any:
        """The points' values, (B, M, W), times what they count, (B, M)."""
        xp = namespace(frequency)
        total = xp.einsum(indices, values.real, kernel)
        total = total + 1j * xp.einsum(indices, values.imag, kernel)
        if self.shift:  # from the whole index to mid-time
            total = total * xp.exp(2j * math.pi * self.shift * self.dt * frequency)
        return total


def _kernel(x: Any) -> Any:
    """ψ, same shape; x is overwritten unless a gradient is asked for."""
    xp, into = namespace(x), None if isinstance(x, Tensor) and x.requires_grad else x
    x *= 2 * BETA / WIDTH
    x = xp.multiply(x, x, out=into)
    x *= -1
    x += BETA**2
    x = xp.sqrt(xp.clip(x, 1e-300, None, out=into), out=into)
    return xp.exp(xp.subtract(x, BETA, out=into), out=into)


@functools.lru_cache(maxsize=16)
def kernel_weights(n: int, size: int) -> Array:
    """1/ψ̂(i/R) for i = −⌊n/2⌋ and the following n − 1, (n,)."""
    # t = sin a turns the square root into a cosine: the integrand is smooth and Gauss–Legendre converges at once.
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    a = 0.5 * np.pi * nodes
    height = 0.25 * np.pi * WIDTH * shares * np.exp(BETA * (np.cos(a) - 1)) * np.cos(a)
    # The transform is an even, entire function of i/R: a series of Chebyshev polynomials gives it to rounding.
    points = 0.5 * (n + 1) / size * np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    transform = np.cos(np.pi * WIDTH * np.outer(points, np.sin(a))) @ height
    series = np.polynomial.Chebyshev.fit(points, transform, DEGREE)
    weights: Array = 1 / series((np.arange(n) - n // 2) / size)
    return weights


@functools.lru_cache(maxsize=64)
def fast_size(n: int) -> int:
    """Smallest product of 2, 3 and 5 that is even and not below n."""
    best = 1 << max(1, (n - 1).bit_length())
    for threes in range(5):
        for fives in range(4):
            odd = 3**threes * 5**fives
            twos = max(1, math.ceil(math.log2(max(n / odd, 1))))
            if n <= odd << twos < best:
                best = odd << twos
    return best
