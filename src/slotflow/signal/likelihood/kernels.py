r"""Sums over even grids in closed form: the Dirichlet kernel with its moments.

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

All functions take NumPy arrays and torch tensors alike; S is the number of channels (`placed.py`), the first axis of
what they return.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import namespace
from slotflow.core.numeric import cosine, phasor, sine
from slotflow.signal.likelihood.placed import SERIES_TERMS, Placed

__all__ = ["dirichlet", "energy_of_tones", "rotation", "window"]

SERIES_BELOW = 0.5
"""|Ny| below which the power series is used."""


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
        turn = phasor(frequency * k.offset) * (
            1 / (k.ratio * k.ratio)
        )  # of complex numbers, quicker
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
    return phasor(frequency * k.offset) * (1 / k.ratio)


def energy_of_tones(f: Any, c: Any, channel: Placed) -> Any:
    """Σ_u (Σ_k Re c_k e^{2πif_k u})² in one channel, each pair of tones once.

    Args:
        f: In Hz, (K, …), float64.
        c: Complex amplitudes at the channel's mid-time, (K, …).
        channel: The channel.

    Returns:
        (…).
    """
    xp, k = namespace(f), len(f)
    if isinstance(f, Tensor):  # indices that are on the device already
        a, b = torch.triu_indices(k, k, 1, device=f.device)
    else:
        a, b = _pairs(k)
    f_a, f_b, c_a, c_b = f[a], f[b], c[a], c[b]
    same, cross = c_a.real * c_b.real, c_a.imag * c_b.imag
    real, imaginary = c.real**2, c.imag**2
    product = xp.concat([same + cross, same - cross, 0.5 * (real - imaginary)])
    s_0 = dirichlet(xp.concat([f_a - f_b, f_a + f_b, 2 * f]), channel, powers=1)[0, 0]
    return xp.einsum("p...,p...->...", s_0, product) + 0.5 * channel.grids[0].n * (
        real + imaginary
    ).sum(0)


@functools.cache
def _pairs(k: int) -> tuple[Any, Any]:
    """Both of each pair of k tones, (k (k − 1)/2,) each."""
    return np.triu_indices(k, 1)


def _replaced(values: Any, where: Any, by: Any) -> Any:
    """Values with some of them replaced; NumPy looks first whether there are any."""
    if isinstance(values, Tensor):
        return torch.where(where, by, values)
    return np.where(where, by, values) if where.any() else values


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
