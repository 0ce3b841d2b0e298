r"""Sums over an even grid in closed form: the Dirichlet kernel, Gram matrices of tones, and Fourier moments of data.

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

**Gram matrices.** Products of two tones are sums and differences of frequencies, f± = f_a ± f_b. About mid-time the
even functions (cos, u sin) and the odd ones (sin, u cos) are orthogonal, so two matrices of size 2K hold everything:

====================  =============================  ====================  =============================
cos_a · cos_b         (S_0(f−) + S_0(f+)) / 2        sin_a · sin_b         (S_0(f−) − S_0(f+)) / 2
u sin_a · cos_b       (S_1(f+) + S_1(f−)) / 2        sin_a · u cos_b       (S_1(f+) + S_1(f−)) / 2
u sin_a · u sin_b     (S_2(f−) − S_2(f+)) / 2        u cos_a · u cos_b     (S_2(f−) + S_2(f+)) / 2
====================  =============================  ====================  =============================

**Moments.** Σ x u^p e^{−2πifu} of data x with u = u_i + u_j (rows and columns of x folded into I × J): one matrix
product with cos and sin on the J columns, one contraction over the I rows, and sines on I + J ≈ 2√N points only.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

from slotflow.core.numeric import Array, phasor
from slotflow.data.sampling import Grid

__all__ = [
    "dirichlet",
    "energy",
    "fold",
    "gram",
    "mid_time",
    "moments",
    "series_coefficients",
    "tone_products",
]

SERIES_BELOW = 0.5
SERIES_TERMS = 7


def mid_time(grid: Grid) -> float:
    """Time half-way between the first and the last sample, in seconds."""
    return grid.t0 + 0.5 * (grid.n - 1) * grid.dt


def dirichlet(frequency: Tensor, grid: Grid, powers: int = 3) -> list[Tensor]:
    """S_0, S_1, S_2 of the module's docstring, differentiable once.

    Args:
        frequency: In Hz, any shape, float64, of either sign.
        grid: Sampling; its t0 plays no part.
        powers: 1 for S_0 alone, 3 for all.

    Returns:
        One or three tensors of the shape of `frequency`.
    """
    n, half = grid.n, 0.5 * grid.dt
    cycles = frequency * grid.dt
    turns = cycles.round()
    y = math.pi * (cycles - turns)
    sign = 1 - 2 * torch.remainder(turns, 2) if n % 2 == 0 else torch.ones_like(y)
    if powers == 1:  # the quotient itself is accurate down to y = 0
        zero = y == 0
        y = torch.where(zero, 1.0, y)
        return [sign * torch.where(zero, float(n), (n * y).sin() / y.sin())]
    v = n * y
    small = v.abs() < SERIES_BELOW
    y_safe = torch.where(small, 1.0, y)
    sine, cosine = y_safe.sin(), y_safe.cos()
    d0 = (n * y_safe).sin() / sine
    d1 = (n * (n * y_safe).cos() - d0 * cosine) / sine
    d2 = (1 - n * n) * d0 - 2 * d1 * cosine / sine
    closed = [d0, -half * d1, -(half**2) * d2]

    s0, s1, s2 = series_coefficients(n)
    v_safe = torch.where(small, v, 0.0)
    square = -v_safe * v_safe
    series = [
        n * _horner(s0, square),
        n * n * half * v_safe * _horner(s1, square),
        n**3 * half**2 * _horner(s2, square),
    ]
    return [sign * torch.where(small, a, b) for a, b in zip(series, closed, strict=True)]


def gram(frequency: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Inner products of tones and their frequency derivatives about the grid's mid-time.

    Args:
        frequency: In Hz, shape (..., K), float64.
        grid: Sampling.

    Returns:
        The even matrix, of (cos_1..cos_K, u sin_1..u sin_K), and the odd one, of (sin_1..sin_K, u cos_1..u cos_K),
        shape (..., 2K, 2K) each.
    """
    a, b = frequency[..., :, None], frequency[..., None, :]
    s0, s1, s2 = dirichlet(torch.stack([a - b, a + b]), grid)
    s0, s1, s2 = 0.5 * s0, 0.5 * s1, 0.5 * s2
    cross = s1[0] + s1[1]  # u sin_a · cos_b and sin_a · u cos_b
    even = torch.cat([s0[0] + s0[1], cross.mT], -1), torch.cat([cross, s2[0] - s2[1]], -1)
    odd = torch.cat([s0[0] - s0[1], cross], -1), torch.cat([cross.mT, s2[0] + s2[1]], -1)
    return torch.cat(even, -2), torch.cat(odd, -2)


def energy(frequency: Tensor, c: Tensor, grid: Grid) -> Tensor:
    """Σ_u (Σ_k Re c_k e^{2πif_k u})², each pair of tones once.

    Args:
        frequency: In Hz, shape (..., K), float64.
        c: Complex amplitudes at mid-time, shape (..., K).
        grid: Sampling.

    Returns:
        Shape (...).
    """
    k = frequency.shape[-1]
    a, b = torch.triu_indices(k, k, 1, device=frequency.device)
    f_a, f_b, c_a, c_b = frequency[..., a], frequency[..., b], c[..., a], c[..., b]
    f = torch.cat([f_a - f_b, f_a + f_b, 2 * frequency], -1)
    product = torch.cat([(c_a * c_b.conj()).real, (c_a * c_b).real, 0.5 * (c * c).real], -1)
    (s0,) = dirichlet(f, grid, powers=1)
    return (s0 * product).sum(-1) + 0.5 * grid.n * (c * c.conj()).real.sum(-1)


def fold(values: Tensor) -> Tensor:
    """Folds series, shape (B, N), into rows and columns, shape (B, I, J), zeros at the end."""
    batch, n = values.shape
    cols = max(1, math.isqrt(n))
    rows = -(-n // cols)
    padded = torch.nn.functional.pad(values, (0, rows * cols - n))
    return padded.reshape(batch, rows, cols)


def moments(folded: Tensor, frequency: Tensor, grid: Grid, powers: int = 2) -> list[Tensor]:
    """Σ x u^p e^{−2πifu} for p = 0..powers − 1, u = time since the grid's mid-time.

    Args:
        folded: Data as `fold` returns it, shape (B, I, J), float64.
        frequency: In Hz, shape (B, M), float64.
        grid: Sampling of the data.
        powers: 1, 2 or 3.

    Returns:
        `powers` complex tensors of shape (B, M).
    """
    _, rows, cols = folded.shape
    start = -0.5 * (grid.n - 1) * grid.dt
    index = torch.arange(max(rows, cols), device=folded.device, dtype=torch.float64)
    u_i, u_j = start + grid.dt * cols * index[:rows], grid.dt * index[:cols]
    omega = -2 * math.pi * frequency[..., None]
    fine, coarse = omega * u_j, omega * u_i  # (B, M, J), (B, M, I)
    waves = torch.stack([fine.cos(), fine.sin()], 1)  # (B, 2, M, J)
    columns = torch.stack([waves * u_j**q for q in range(powers)], 1)  # (B, P, 2, M, J)
    inner = (columns.flatten(1, 3) @ folded.mT).reshape(
        *columns.shape[:-1], rows
    )  # (B, P, 2, M, I)
    partial = torch.complex(inner[:, :, 0], inner[:, :, 1])  # (B, P, M, I)
    rotation = torch.polar(torch.ones_like(coarse), coarse)  # (B, M, I)
    sums = []
    for p in range(powers):
        total = partial[:, p]
        for q in range(p):
            total = total + math.comb(p, q) * u_i ** (p - q) * partial[:, q]
        sums.append((rotation * total).sum(-1))
    return sums


def tone_products(f: Array, z: Array, grid: Grid, offset: float) -> Array:
    """Products of a tone's derivatives by Re c and Im c at f, (G,), with those of z, (D, 3): (G, 2, 3D)."""
    difference = z[None, :, 0] - f[:, None]  # (G, D), below the sampling rate's half
    s_0, s_1 = _closed(difference, grid)
    turn = phasor(difference * offset)
    zeroth, first = turn * s_0, turn * (1j * s_1 + offset * s_0)
    first *= 2j * math.pi * (z[:, 1] + 1j * z[:, 2])
    products: Array = np.empty((len(f), 2, len(z), 3))  # times the conjugates of 1 and i
    products[:, 0, :, 0], products[:, 1, :, 0] = first.real, first.imag
    products[:, 0, :, 1], products[:, 1, :, 1] = zeroth.real, zeroth.imag
    products[:, 0, :, 2], products[:, 1, :, 2] = -zeroth.imag, zeroth.real
    products *= 0.5
    return products.reshape(len(f), 2, -1)


def _closed(frequency: Array, grid: Grid) -> tuple[Array, Array]:
    """S_0 and S_1 at |f| < 1/2dt, same shape: what `dirichlet` gives, with the series only where it is needed."""
    n, y = grid.n, torch.from_numpy(math.pi * grid.dt * frequency)
    near = (n * y).abs() < SERIES_BELOW
    y[near] = 1.0
    sine = y.sin()
    s_0 = (n * y).sin() / sine
    s_1 = (-0.5 * grid.dt) * (n * (n * y).cos() - s_0 * y.cos()) / sine
    if bool(near.any()):
        s_0[near], s_1[near], _ = dirichlet(torch.from_numpy(frequency)[near], grid)
    return s_0.numpy(), s_1.numpy()


@functools.lru_cache(maxsize=64)
def series_coefficients(n: int) -> tuple[tuple[float, ...], ...]:
    """Coefficients of the three power series in −v², lowest first."""
    h = (2 * torch.arange(n, dtype=torch.float64) - (n - 1)) / n
    means = [float((h ** (2 * m)).mean()) for m in range(SERIES_TERMS + 1)]
    terms = range(SERIES_TERMS)
    return (
        tuple(means[m] / math.factorial(2 * m) for m in terms),
        tuple(means[m + 1] / math.factorial(2 * m + 1) for m in terms),
        tuple(means[m + 1] / math.factorial(2 * m) for m in terms),
    )


def _horner(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Σ coefficients[m] x^m, same shape as x."""
    value = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
