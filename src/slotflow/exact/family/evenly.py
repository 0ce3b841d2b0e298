r"""Functions of time of many components at even instants, by products in place of exponentials.

The compressed data are looked at on a grid of even instants. Cut into blocks of B instants, the exponent E of a
component has, at the p-th instant of the q-th block, the forward differences Δ^k E in q; those beyond the degree of E
as a polynomial of time vanish (a tone or a decay has the degree 1, a chirp 2). So with s_k = exp Δ^k E of the first
block

.. math:: b_{q+1} = s_0^{(q+1)} = s_0^{(q)} s_1^{(q)} , \qquad s_k^{(q+1)} = s_k^{(q)} s_{k+1}^{(q)} ,

and all blocks follow from the exponentials of the first one, at a few products for each instant. Rounding grows with
the number of blocks alone, which is small. Whether the exponents are such polynomials is seen from their differences.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from slotflow.core.arrays import Array, Complex
from slotflow.signal.waveforms import Waveform

__all__ = ["basis_evenly"]

BLOCKS = 16
"""Blocks of a grid."""
WORTHWHILE = 20_000
"""Values of functions of time from which on the products are faster than the exponentials."""
HIGHEST_DEGREE = 3
"""Highest degree of exponents as polynomials of time that products are used for."""
ROUNDING = 1e-12
"""Differences of exponents, in units of the largest exponent, that are rounding."""


def basis_evenly(member: Waveform, times: Array, xi: Array) -> Complex:
    """The functions b of `Waveform.basis`, (..., J, M), of shapes, (..., D), at even instants since τ, (M,)."""
    values = math.prod(xi.shape[:-1]) * member.amplitudes * len(times)
    differences = _differences(member, times) if values >= WORTHWHILE else None
    if differences is None:
        direct: Complex = member.basis(times, xi)
        return direct
    factors = [np.exp(np.tensordot(xi, difference, 1)) for difference in differences]
    found = np.empty((*xi.shape[:-1], member.amplitudes, len(times)), dtype=np.complex128)
    size = factors[0].shape[-1]
    for begin in range(0, len(times), size):
        block = found[..., begin : begin + size]
        block[...] = factors[0][..., : block.shape[-1]]
        for factor, further in pairwise(factors):
            factor *= further
    return found


def _differences(member: Waveform, times: Array) -> list[Complex] | None:
    """Δ^0, Δ^1, … of the exponents from block to block, at the first one, (D, J, B) each, as far as they do not vanish.

    None where the exponents are no polynomials of a low degree.
    """
    size, step = -(-len(times) // BLOCKS), (times[-1] - times[0]) / (len(times) - 1)
    grid = times[0] + step * np.arange(BLOCKS * size)
    left = member.exponents(grid)
    left = left.reshape(*left.shape[:2], BLOCKS, size)
    negligible = ROUNDING * np.abs(left).max((1, 2, 3), keepdims=True)
    found: list[Complex] = []
    while (np.abs(left) > negligible).any():
        if len(found) > HIGHEST_DEGREE:
            return None
        found.append(left[:, :, 0])
        left = np.diff(left, axis=2)
    return found
