r"""The normal equations of one signal in NumPy: the same sums as `likelihood.py`, several times faster.

A single signal has matrices of a few dozen numbers, and what costs time is the number of operations, not their size.
NumPy starts an operation sooner than torch does, all streams of the signal go through it together, and what does not
depend on the tones (powers of time, series, the data times u) is kept.

The four functions of each tone are ordered by parity about the stream's mid-time, (cos, u sin) and (sin, u cos), so
that Gram matrices, derivatives and moments carry the axes (stream, parity). Nothing here is differentiable, and the
results equal the general ones to rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.numeric import phasor, sine
from slotflow.data.sampling import Grid
from slotflow.signal.kernels import SERIES_BELOW, SERIES_TERMS, mid_time, series_coefficients
from slotflow.signal.nonuniform import Interpolant

__all__ = [
    "Array",
    "Basis",
    "Complex",
    "Equations",
    "Single",
    "from_complex_one",
    "to_complex_one",
]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Basis(NamedTuple):
    """What depends on the K frequencies alone."""

    gram: Array
    """Inner products of (cos, u sin) and of (sin, u cos), (S, 2, 2K, 2K)."""
    data: Array
    """Inner products of the same functions with the data over r_s, (S, 2, 2K)."""
    rotation: Complex
    """e^{2πifδ}/r_s, (S, K)."""


class Equations(NamedTuple):
    """The normal equations, summed over the streams."""

    gain: float
    """RSS minus the data's energy."""
    slope: Array
    """Jᵀ(x − m), (3K,)."""
    matrix: Array
    """JᵀJ, (3K, 3K)."""
    rest: Complex
    """The residual's matched filter at each tone, of each stream, (S, K)."""


class Single:
    """One signal of S streams.

    Args:
        grids: Sampling of each stream.
        ratios: Noise level of each stream in units of σ.
        folded: Data of each stream over r_s, (I, J) each, float64.
        reference: τ, in seconds.
    """

    def __init__(
        self,
        grids: Sequence[Grid],
        ratios: Sequence[float],
        folded: Sequence[Array],
        reference: float,
    ) -> None:
        self.grids = tuple(grids)
        self.offset = np.array([mid_time(grid) - reference for grid in grids])[:, None]
        self.ratio = np.array(ratios)[:, None]
        # The data and the data times u, (J, 2I): one product with cos and sin on the columns serves both moments.
        self.data = [
            np.concatenate([x.T, (x * _times(grid, x.shape)[1]).T], axis=1)
            for grid, x in zip(grids, folded, strict=True)
        ]
        self.times = np.concatenate(
            [_times(grid, x.shape)[0] for grid, x in zip(grids, folded, strict=True)]
        )
        self.folded = tuple(folded)
        self._last: tuple[Array, Basis] | None = None

    @functools.cached_property
    def interpolants(self) -> list[Interpolant]:
        """Σ x e^{−2πifu}/r_s of each stream at many frequencies."""
        return [
            Interpolant(x.reshape(-1)[: grid.n], grid)
            for grid, x in zip(self.grids, self.folded, strict=True)
        ]

    def matched(self, frequency: Array) -> Complex:
        """Σ x e^{−2πif(t − τ)}/r_s² over all streams at frequencies in Hz, same shape."""
        total = np.zeros(frequency.shape, dtype=np.complex128)
        for moment, offset, ratio in zip(self.interpolants, self.offset, self.ratio, strict=True):
            total += phasor(-frequency * offset) * moment(frequency) / ratio
        return total

    def gains(self, frequency: Array, c: Complex) -> Array:
        """RSS minus the data's energy of n draws of K tones, (n,).

        Args:
            frequency: In Hz, (n, K).
            c: Complex amplitudes referred to τ, (n, K).
        """
        f, c = np.ascontiguousarray(frequency.T), np.ascontiguousarray(c.T)  # (K, n)
        total: Array = np.zeros(f.shape[1])
        for s, grid in enumerate(self.grids):
            local = c * phasor(f * self.offset[s]) / self.ratio[s]
            data = self.interpolants[s](f)
            total += _energy(f, local, grid)
            total -= 2 * (local.real * data.real + local.imag * data.imag).sum(0)
        return total

    def basis(self, frequency: Array) -> Basis:
        """Gram matrices and moments at frequencies in Hz, (K,).

        The latest answer is kept: one stream is asked for after the other, and a fit starts where amplitudes have just
        been found.
        """
        last = self._last
        if last is not None and np.array_equal(last[0], frequency):
            return last[1]
        k = len(frequency)
        turns = np.remainder(frequency * self.offset, 1.0)  # (S, K)
        rotation = np.exp(2j * math.pi * turns) / self.ratio
        angle = frequency[:, None] * self.times
        wave = np.empty((2, *angle.shape))  # cos and sin at u_j and u_i of each stream
        np.cos(angle, out=wave[0])
        np.sin(angle, out=wave[1])
        data = np.empty((len(self.grids), 2, 2, k))
        begin = 0
        for out, values in zip(data, self.data, strict=True):
            cols, rows = values.shape[0], values.shape[1] // 2
            middle, end = begin + cols, begin + cols + rows
            inner = (wave[:, :, begin:middle].reshape(2 * k, cols) @ values).reshape(2, k, 2, rows)
            part = np.einsum("pkmi,qki->pqmk", inner, wave[:, :, middle:end])
            real, imag = part[0, 0] - part[1, 1], part[0, 1] + part[1, 0]  # (2, K): of u⁰ and u¹
            out[0, 0], out[0, 1], out[1, 0], out[1, 1] = real[0], -imag[1], -imag[0], real[1]
            begin = end
        basis = Basis(_gram(frequency, self.grids), data.reshape(-1, 2, 2 * k), rotation)
        self._last = frequency.copy(), basis
        return basis

    def equations(self, frequency: Array, c: Complex, stream: int | None = None) -> Equations:
        """The normal equations of K tones.

        Args:
            frequency: In Hz, (K,).
            c: Complex amplitudes referred to τ, (K,).
            stream: Which stream; the sum of all if None.
        """
        part = slice(None) if stream is None else slice(stream, stream + 1)
        gram, data, rotation = (values[part] for values in self.basis(frequency))
        size, k = rotation.shape
        local = c * rotation
        a, b, turn = local.real, local.imag, 2 * math.pi * self.offset[part]
        design = np.zeros((size, 2, k, 3, 2, k))
        on = np.einsum("spkjqk->spkjq", design)  # a view of what is not 0
        on[:, 0, :, 0, 0], on[:, 1, :, 0, 0] = -turn * b, -turn * a
        on[:, 0, :, 0, 1], on[:, 1, :, 0, 1] = -2 * math.pi * a, -2 * math.pi * b
        on[:, 0, :, 1, 0], on[:, 1, :, 1, 0] = rotation.real, -rotation.imag
        on[:, 0, :, 2, 0], on[:, 1, :, 2, 0] = -rotation.imag, -rotation.real
        jacobian = design.reshape(size, 2, 3 * k, 2 * k)
        weight = np.empty((size, 2, k, 1))  # on cos and on sin
        weight[:, 0, :, 0], weight[:, 1, :, 0] = a, -b
        model = (gram[..., :k] @ weight)[..., 0]  # (S, 2, 2K)
        rest = data - model
        gain = float(np.vdot(weight[..., 0], (model - 2 * data)[..., :k]))
        slope = (jacobian @ rest[..., None]).sum((0, 1))[:, 0]
        matrix = (jacobian @ gram @ jacobian.swapaxes(-1, -2)).sum((0, 1))
        matched = (rest[:, 0, :k] - 1j * rest[:, 1, :k]).astype(np.complex128, copy=False)
        return Equations(gain, slope, matrix, matched)


def to_complex_one(theta: Array, reference: float) -> tuple[Array, Complex]:
    """Turns (A, φ, f), (K, 3), into f and c referred to a time, (K,) each."""
    amplitude, phase, frequency = np.ascontiguousarray(theta.T)
    angle = phase + 2 * math.pi * np.remainder(frequency * reference, 1.0)
    c: Complex = amplitude * (np.cos(angle) + 1j * np.sin(angle))
    return frequency, c


def from_complex_one(frequency: Array, c: Complex, reference: float) -> Array:
    """Turns f and c, (K,) each, back into (A, φ in [0, 2π), f), (K, 3)."""
    turns = np.remainder(np.angle(c) / (2 * math.pi) - frequency * reference, 1.0)
    return np.stack([np.abs(c), 2 * math.pi * turns, frequency], 1)


def _energy(f: Array, c: Complex, grid: Grid) -> Array:
    """Σ_u (Σ_k Re c_k e^{2πif_k u})² of frequencies and amplitudes at mid-time, (K, n) each; (n,), see `kernels.py`."""
    a, b = np.triu_indices(len(f), 1)
    f_a, f_b, c_a, c_b = f[a], f[b], c[a], c[b]
    same, cross = c_a.real * c_b.real, c_a.imag * c_b.imag
    square = c.real**2, c.imag**2
    product = np.concatenate([same + cross, same - cross, 0.5 * (square[0] - square[1])])
    cycles = np.concatenate([f_a - f_b, f_a + f_b, 2 * f]) * grid.dt
    turns = np.rint(cycles)
    y = math.pi * (cycles - turns)
    below = sine(y)
    zero = below == 0
    below[zero] = 1.0
    kernel = sine(grid.n * y) / below
    kernel[zero] = grid.n
    if grid.n % 2 == 0:  # a shift by the sampling rate changes the sign
        product *= 1 - 2 * (turns - 2 * np.floor(0.5 * turns))
    total: Array = np.einsum("pn,pn->n", kernel, product)
    total += 0.5 * grid.n * (square[0] + square[1]).sum(0)
    return total


def _gram(frequency: Array, grids: tuple[Grid, ...]) -> Array:
    """The even and the odd Gram matrix of every stream, (S, 2, 2K, 2K); see `kernels.py`."""
    n, dt, even, coefficients = _constants(grids)
    k = len(frequency)
    pairs = np.empty((2, k, k))
    np.subtract.outer(frequency, frequency, out=pairs[0])
    np.add.outer(frequency, frequency, out=pairs[1])
    cycles = pairs * dt  # (S, 2, K, K)
    turns = np.rint(cycles)
    y = math.pi * (cycles - turns)
    v = n * y
    near = np.abs(v) < SERIES_BELOW
    y[near] = 1.0
    ny = n * y
    sine = np.sin(y)
    cotangent = np.cos(y) / sine
    s = np.empty((3, *cycles.shape))
    s[0] = np.sin(ny) / sine
    d1 = n * np.cos(ny) / sine - s[0] * cotangent
    s[1] = -0.5 * d1
    s[2] = 0.25 * (n * n - 1) * s[0] + 0.5 * d1 * cotangent
    where = near.nonzero()
    v_near = v[where]
    series = coefficients[where[0], :, 0]  # (M, 3): all there is at f = 0
    if v_near.any():
        powers = (-v_near * v_near)[:, None] ** np.arange(SERIES_TERMS)
        series = (coefficients[where[0]] * powers[:, None]).sum(-1)
    series[:, 1] *= v_near
    s[:, near] = series.T
    s *= 0.5 - np.remainder(turns * even, 2)  # half the kernel, and the sign of a shift by the rate
    s[1] *= dt
    s[2] *= dt * dt
    minus, plus = s[:, :, 0], s[:, :, 1]  # (3, S, K, K)
    gram = np.empty((len(grids), 2, 2, k, 2, k))
    cross = minus[1] + plus[1]
    gram[:, 0, 0, :, 0], gram[:, 1, 0, :, 0] = minus[0] + plus[0], minus[0] - plus[0]
    gram[:, 0, 1, :, 1], gram[:, 1, 1, :, 1] = minus[2] - plus[2], minus[2] + plus[2]
    gram[:, 0, 1, :, 0], gram[:, 1, 0, :, 1] = cross, cross
    gram[:, 0, 0, :, 1] = gram[:, 1, 1, :, 0] = cross.swapaxes(-1, -2)
    return gram.reshape(len(grids), 2, 2 * k, 2 * k)


@functools.lru_cache(maxsize=64)
def _constants(grids: tuple[Grid, ...]) -> tuple[Array, Array, Array, Array]:
    """n, dt, whether n is even, (S, 1, 1, 1) each, and the series' coefficients, (S, 3, terms), for dt = 1."""
    n = np.array([float(grid.n) for grid in grids])
    table = np.array([series_coefficients(grid.n) for grid in grids])  # (S, 3, terms)
    table *= np.stack([n, n * n / 2, n**3 / 4], 1)[..., None]
    columns = n, np.array([grid.dt for grid in grids]), (n % 2 == 0).astype(np.float64)
    shaped = [value.reshape(-1, 1, 1, 1) for value in columns]
    return shaped[0], shaped[1], shaped[2], table


@functools.lru_cache(maxsize=64)
def _times(grid: Grid, shape: tuple[int, int]) -> tuple[Array, Array]:
    """−2π u_j and −2π u_i in one row, (J + I,), and u of each sample, (I, J)."""
    rows, cols = shape
    u_i = grid.dt * (cols * np.arange(rows) - 0.5 * (grid.n - 1))
    u_j = grid.dt * np.arange(cols)
    return -2 * math.pi * np.concatenate([u_j, u_i]), u_i[:, None] + u_j
