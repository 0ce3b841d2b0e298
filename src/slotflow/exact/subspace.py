r"""Sets of tones all at once, from the singular vectors of short complex data: they propose where tones fill a band.

Where there is a tone in every bin or two, a search that adds one tone at a time places the first ones between others
and may stay there. The samples of K complex tones fill an M × (N − M + 1) Hankel matrix of rank K, forwards and, with
their conjugates, backwards, and its left singular vectors U of the K largest singular values obey

.. math:: U_{1:} = U_{:-1} Ψ , \qquad \operatorname{eig} Ψ = \{ e^{2πi f_k} \}

(ESPRIT; Roy and Kailath 1989). M = N/2 is the usual choice; a larger M resolves more, at the price of more noise in U
(`SHARES`). Every order is asked for with each M; those of the smallest BIC are carried to the nearest minimum of

.. math:: \min_c \| x - E(f)\, c \|^2

over the frequencies alone (variable projection; Golub and Pereyra 1973), which is reached from farther away than the
minimum over frequencies and amplitudes. These are starts of fits, and evidence decides on the order.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import least_squares

from slotflow.core.arrays import Array, Complex

__all__ = ["esprit", "subspace_sets"]

SHARES = (0.5, 0.6)
"""Rows of the Hankel matrix over the number of samples."""
POLISHED = 3
"""Sets of the smallest BIC that are carried to a minimum."""
KEPT = 2
"""Sets that are proposed."""
EVALUATIONS = 100
"""Evaluations of the residual in a polish at most, for each tone."""
SCALE = 0.5
"""Scale of a step in a frequency, in bins."""


def subspace_sets(x: Complex, most: int) -> list[Array]:
    """Frequencies of tones in cycles per sample on [−1/2, 1/2), (k,) each and sorted, the smallest BIC first.

    Args:
        x: Even complex samples in white noise, (N,).
        most: The largest number of tones.
    """
    most = min(most, (len(x) - 1) // 3)
    if most < 1 or not np.abs(x).max() > 0:
        return []
    asked = []
    for share in SHARES:
        vectors = _left_vectors(x, round(share * len(x)))
        asked += [_poles(vectors[:, :k]) for k in range(1, min(most, vectors.shape[1] - 1) + 1)]
    asked.sort(key=lambda f: _bic(x, f))
    polished = [_polished(x, f) for f in asked[:POLISHED]]
    polished.sort(key=lambda f: _bic(x, f))
    return polished[:KEPT]


def esprit(x: Complex, k: int, rows: int) -> Array:
    """Frequencies of k tones in cycles per sample, (k,), sorted.

    Args:
        x: Even complex samples, (N,).
        k: Number of tones.
        rows: M, more than k.
    """
    return _poles(_left_vectors(x, rows)[:, :k])


def _left_vectors(x: Complex, rows: int) -> Complex:
    """Left singular vectors of the Hankel matrix, forwards and backwards, (M, ≤ M), the strongest first."""
    forward = scipy.linalg.hankel(x[:rows], x[rows - 1 :])
    both = np.concatenate([forward, forward[::-1, ::-1].conj()], axis=1)
    vectors: Complex = scipy.linalg.svd(both, full_matrices=False)[0]
    return vectors


def _poles(signal: Complex) -> Array:
    """Frequencies of the tones whose span a matrix (M, k) holds, (k,), sorted."""
    turn = scipy.linalg.lstsq(signal[:-1], signal[1:])[0]
    found: Array = np.sort(np.angle(scipy.linalg.eigvals(turn)) / (2 * math.pi))
    return found


def _residual(x: Complex, f: Array) -> Complex:
    """What tones at some frequencies, (k,), leave at best, (N,)."""
    u = np.arange(len(x)) - 0.5 * (len(x) - 1)
    basis = scipy.linalg.qr(np.exp(2j * math.pi * np.outer(u, f)), mode="economic")[0]
    left: Complex = x - basis @ (basis.conj().T @ x)
    return left


def _bic(x: Complex, f: Array) -> float:
    """BIC of tones at some frequencies, (k,); of N complex samples there are 2N real numbers."""
    n, rss = 2 * len(x), float((np.abs(_residual(x, f)) ** 2).sum())
    return n * math.log(max(rss, 1e-300) / n) + 3 * len(f) * math.log(n)


def _polished(x: Complex, f: Array) -> Array:
    """Frequencies at the nearest minimum of what they leave, (k,), sorted; as they are where there is none."""

    def left(g: Array) -> NDArray[np.float64]:
        rest = _residual(x, g)
        return np.concatenate([rest.real, rest.imag])

    best = least_squares(
        left, f, method="lm", x_scale=SCALE / len(x), max_nfev=EVALUATIONS * len(f)
    ).x
    folded: Array = np.sort(np.remainder(best + 0.5, 1.0) - 0.5)
    return folded if np.isfinite(folded).all() else f
