r"""What people use for line spectra instead: MUSIC and ESPRIT, with the number of tones by minimum description length.

The N samples fill an M × (N − M + 1) Hankel matrix, whose singular vectors of the K largest singular values span the
tones' steering vectors.

**Order** (Wax and Kailath 1985). With the eigenvalues l₁ ≥ … ≥ l_M of the matrix times its adjoint over the number S of
its columns,

.. math:: \mathrm{MDL}(k) = -S (M - k) \ln \frac{(\prod_{i>k} l_i)^{1/(M-k)}}{\frac{1}{M-k} \sum_{i>k} l_i}
          + \tfrac12 k (2M - k) \ln S .

**ESPRIT** is that of `exact/subspace.py`.

**MUSIC.** Tones are where a steering vector's projection on the other singular vectors is least; the K deepest minima
on a fine grid are taken.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.signal
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.exact import subspace as exact_subspace

__all__ = ["description_length_order", "esprit", "music"]

ROWS = 25
"""M, half of the protocol's samples."""
GRID = 4000
"""Frequencies at which MUSIC looks."""


def description_length_order(x: NDArray[np.complex128], most: int, rows: int = ROWS) -> int:
    """Number of tones in a series (N,), between 1 and a largest one, by minimum description length."""
    columns = len(x) - rows + 1
    values = np.maximum(_subspaces(x, rows)[1] ** 2 / columns, 1e-300)
    lengths = []
    for k in range(1, most + 1):
        rest = values[k:]
        flatness = np.log(rest).mean() - np.log(rest.mean())
        penalty = 0.5 * k * (2 * rows - k) * np.log(columns)
        lengths.append(-columns * len(rest) * flatness + penalty)
    return 1 + int(np.argmin(lengths))


def esprit(x: NDArray[np.complex128], k: int, rows: int = ROWS) -> Array:
    """Frequencies of k tones in cycles per sample, (k,), sorted."""
    return exact_subspace.esprit(x, k, rows)


def music(x: NDArray[np.complex128], k: int, rows: int = ROWS) -> Array:
    """Frequencies of at most k tones in cycles per sample, at least one, sorted."""
    noise = _subspaces(x, rows)[0][:, k:]
    f = np.arange(GRID) / GRID - 0.5
    steering = np.exp(2j * np.pi * np.outer(np.arange(rows), f))
    depth = -np.log((np.abs(noise.conj().T @ steering) ** 2).sum(0))
    around = np.concatenate([depth[-1:], depth, depth[:1]])  # the spectrum is a circle
    peaks = scipy.signal.find_peaks(around)[0] - 1
    if not len(peaks):
        peaks = np.array([int(depth.argmax())])
    deepest = peaks[np.argsort(-depth[peaks])[:k]]
    return np.sort(f[deepest])


def _subspaces(x: NDArray[np.complex128], rows: int) -> tuple[NDArray[np.complex128], Array]:
    """Left singular vectors, (M, M), and singular values, (M,), of the Hankel matrix; forwards and backwards."""
    forward = scipy.linalg.hankel(x[:rows], x[rows - 1 :])
    both = np.concatenate([forward, forward[::-1, ::-1].conj()], axis=1) / np.sqrt(2)
    u, values, _ = scipy.linalg.svd(both, full_matrices=True)
    return u, values
