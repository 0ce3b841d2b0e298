r"""The normal equations of one signal in NumPy: the same sums as `likelihood.py`, in a third of the time.

A single signal has matrices of a few dozen numbers, and what costs time is the number of operations, not their size.
NumPy starts an operation in a third of the time that torch needs, all streams of the signal go through it together,
and what does not depend on the tones (powers of time, series, the data times u) is kept.

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

from slotflow.config import Grid
from slotflow.exact.kernels import SERIES_BELOW, SERIES_TERMS, mid_time, series_coefficients

__all__ = ["Basis", "Equations", "Single"]

Array = NDArray[np.float64]


class Basis(NamedTuple):
    """What depends on the K frequencies alone."""

    gram: Array
    """Inner products of (cos, u sin) and of (sin, u cos), (S, 2, 2K, 2K)."""
    data: Array
    """Inner products of the same functions with the data over r_s, (S, 2, 2K)."""
    rotation: NDArray[np.complex128]
    """e^{2πifδ}/r_s, (S, K)."""


class Equations(NamedTuple):
    """The normal equations, summed over the streams."""

    gain: float
    """RSS minus the data's energy."""
    slope: Array
    """Jᵀ(x − m), (3K,)."""
    matrix: Array
    """JᵀJ, (3K, 3K)."""
    rest: NDArray[np.complex128]
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
        self._last: tuple[Array, int | None, Basis] | None = None

    def basis(self, frequency: Array, stream: int | None = None) -> Basis:
        """Gram matrices and moments at frequencies in Hz, (K,), of all streams or of one (S = 1).

        The latest answer is kept: amplitudes are fitted, and a fit starts, where another has just ended.
        """
        last = self._last
        if last is not None and last[1] == stream and np.array_equal(last[0], frequency):
            return last[2]
        part = slice(None) if stream is None else slice(stream, stream + 1)
        grids, k = self.grids[part], len(frequency)
        turns = np.remainder(frequency * self.offset[part], 1.0)  # (S, K)
        rotation = np.exp(2j * math.pi * turns) / self.ratio[part]
        data = np.empty((len(grids), 2, 2, k))
        for out, grid, values in zip(data, grids, self.data[part], strict=True):
            cols, rows = values.shape[0], values.shape[1] // 2
            angle = frequency[:, None] * _times(grid, (rows, cols))[0]  # (K, J + I)
            wave = np.stack([np.cos(angle), np.sin(angle)])
            inner = (wave[:, :, :cols].reshape(2 * k, cols) @ values).reshape(2, k, 2, rows)
            partial = inner[0] + 1j * inner[1]  # (K, 2, I)
            coarse = wave[0, :, cols:] + 1j * wave[1, :, cols:]
            moment = (partial @ coarse[:, :, None])[:, :, 0].T  # (2, K): of u⁰ and of u¹
            out[0, 0], out[0, 1] = moment[0].real, -moment[1].imag
            out[1, 0], out[1, 1] = -moment[0].imag, moment[1].real
        basis = Basis(_gram(frequency, grids), data.reshape(-1, 2, 2 * k), rotation)
        self._last = frequency.copy(), stream, basis
        return basis

    def equations(
        self, frequency: Array, c: NDArray[np.complex128], stream: int | None = None
    ) -> Equations:
        """The normal equations of K tones.

        Args:
            frequency: In Hz, (K,).
            c: Complex amplitudes referred to τ, (K,).
            stream: Which stream; the sum of all if None.
        """
        gram, data, rotation = self.basis(frequency, stream)
        offset = self.offset if stream is None else self.offset[stream]
        size, k = rotation.shape
        local = c * rotation
        a, b, turn = local.real, local.imag, 2 * math.pi * offset
        design = np.zeros((size, 2, k, 3, 2, k))
        on = np.einsum("spkjqk->spkjq", design)  # a view of what is not 0
        on[:, 0, :, 0, 0], on[:, 1, :, 0, 0] = -turn * b, -turn * a
        on[:, 0, :, 0, 1], on[:, 1, :, 0, 1] = -2 * math.pi * a, -2 * math.pi * b
        on[:, 0, :, 1, 0], on[:, 1, :, 1, 0] = rotation.real, -rotation.imag
        on[:, 0, :, 2, 0], on[:, 1, :, 2, 0] = -rotation.imag, -rotation.real
        jacobian = design.reshape(size, 2, 3 * k, 2 * k)
        weight = np.stack([a, -b], 1)[..., None]  # on cos and on sin, (S, 2, K, 1)
        model = (gram[..., :k] @ weight)[..., 0]  # (S, 2, 2K)
        rest = data - model
        gain = float(np.vdot(weight[..., 0], (model - 2 * data)[..., :k]))
        slope = (jacobian @ rest[..., None]).sum((0, 1))[:, 0]
        matrix = (jacobian @ gram @ jacobian.swapaxes(-1, -2)).sum((0, 1))
        return Equations(gain, slope, matrix, rest[:, 0, :k] - 1j * rest[:, 1, :k])


def _gram(frequency: Array, grids: tuple[Grid, ...]) -> Array:
    """The even and the odd Gram matrix of every stream, (S, 2, 2K, 2K); see `kernels.py`."""
    n, dt, even, coefficients = _constants(grids)
    k = len(frequency)
    pairs = np.stack([frequency[:, None] - frequency, frequency[:, None] + frequency])
    cycles = pairs * dt  # (S, 2, K, K)
    turns = np.rint(cycles)
    y = math.pi * (cycles - turns)
    v = n * y
    near = np.abs(v) < SERIES_BELOW
    y[near] = 1.0
    ny = n * y
    sine, cotangent = np.sin(y), 1 / np.tan(y)
    d0 = np.sin(ny) / sine
    d1 = n * np.cos(ny) / sine - d0 * cotangent
    s = np.empty((3, *cycles.shape))
    s[0], s[1], s[2] = d0, -0.5 * d1, 0.25 * (n * n - 1) * d0 + 0.5 * d1 * cotangent
    where = np.nonzero(near)
    v_near = v[where][:, None]
    terms = coefficients[where[0]] * (-(v_near**2))[..., None] ** np.arange(SERIES_TERMS)
    series = terms.sum(-1)  # (M, 3)
    series[:, 1:2] *= v_near
    s[(slice(None), *where)] = series.T
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
