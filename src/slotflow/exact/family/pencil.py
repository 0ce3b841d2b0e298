r"""Tones and decaying tones all at once, from the singular vectors of a Hankel matrix: they propose sets of components.

The compressed data are those of a series s at M even instants, y = Re H s; of all such series the smallest one is
taken, which a few steps of conjugate gradients find (LSQR). A sum of K decaying tones c_k λ_k^n, λ = e^{(2πif − γ)Δ},
fills a Hankel matrix of rank K, whose left singular vectors U of the K largest singular values obey

.. math:: U_{1:} = U_{:-1} Ψ , \qquad \operatorname{eig} Ψ = \{λ_k\}

(ESPRIT; Roy and Kailath 1989). One decomposition serves all orders, and two lines that overlap are found together,
where a search that adds one component at a time would first have to place one between them. Noise in s is not white,
and a gap is filled with little: these are starts of fits, and evidence decides on the order.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, lsqr, svds

from slotflow.core.arrays import Array, Complex
from slotflow.signal.likelihood.compressed import Compressed

__all__ = ["poles", "series"]

STEPS = 20
"""Steps of conjugate gradients at most."""
ROWS = 0.4
"""Rows of the Hankel matrix, in units of the number of instants."""


def series(data: Compressed, left: Array | None = None) -> Complex:
    """The smallest series at the data's instants, (M,), that explains the compressed data or a residual, (r,)."""
    m, image = len(data.times), data.image

    def forth(s: Array) -> Array:
        s = s.ravel()
        return data.shown(s[:m] + 1j * s[m:])

    def back(y: Array) -> Array:
        pulled = y.ravel() @ image
        return np.concatenate([pulled.real, -pulled.imag])

    operator = LinearOperator((len(image), 2 * m), forth, back, dtype=np.float64)
    found = lsqr(operator, data.data if left is None else left, iter_lim=STEPS)[0]
    return np.asarray(found[:m] + 1j * found[m:])


def poles(s: Complex, times: Array, centre: float, most: int) -> list[Array]:
    """Frequencies in Hz and rates of decay in 1/s of 1, 2, …, `most` exponentials, (k, 2) each.

    Args:
        s: A series, (M,).
        times: Its even instants in seconds, (M,).
        centre: Middle of the band in Hz, which frequencies are nearest to.
        most: The largest order.
    """
    step = float(times[1] - times[0])
    s = s * np.exp(-2j * math.pi * centre * times)
    rows = int(ROWS * len(s))
    most = min(most, rows - 2)
    if most < 1 or not np.abs(s).max() > 0:
        return []
    matrix = scipy.linalg.hankel(s[:rows], s[rows - 1 :])
    # A stated start of the iteration makes the answer the same at every call.
    vectors, values, _ = svds(matrix, k=most, v0=np.ones(min(matrix.shape), dtype=matrix.dtype))
    vectors = vectors[:, np.argsort(-values)]
    found = []
    for k in range(1, most + 1):
        turn = scipy.linalg.lstsq(vectors[:-1, :k], vectors[1:, :k])[0]
        logs = np.log(scipy.linalg.eigvals(turn) + 0j) / step
        found.append(np.stack([centre + logs.imag / (2 * math.pi), -logs.real], -1))
    return found
