r"""The covariance of many tones around their joint fit, whatever the distances between them.

Around a fit of tones that the data do not resolve, JᵀJ alone allows frequencies tens of bins away and amplitudes
hundreds of times too large, which the data refuse: the model is not linear so far. A tone lies about where its peak is,
and no amplitude is much larger than the largest. Precisions of a bin and of `LARGER` times that amplitude,

.. math:: (J^T J + σ^2 P)^{-1} ,

say so; of tones that are resolved they change next to nothing.
"""

from __future__ import annotations

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Likelihood

__all__ = ["held", "joint_covariance"]

LARGER = 3.0
"""Scale of the amplitudes that are allowed, in units of the largest one."""

SMALLEST_EIGENVALUE = 1e-9
"""Of the matrix with a unit diagonal: directions that the data tell less about count as known to that precision."""


def held(likelihood: Likelihood, theta: Array, level: Array | float) -> Array:
    """σ² P of the coordinates of tones (K, P), (K·Z,).

    Args:
        likelihood: Of one signal.
        theta: The tones at their joint maximum.
        level: Noise level σ at each of them, (K,), or everywhere.
    """
    waveform, k = likelihood.waveform, len(theta)
    first = len(waveform.shape)
    scale = np.empty((k, waveform.coordinates))
    scale[:, :first] = waveform.scales(likelihood.duration)
    scale[:, first:] = LARGER * float(waveform.of(theta, "amplitude").max(initial=0.0))
    found: Array = (np.reshape(level, (-1, 1)) / np.maximum(scale, 1e-300)) ** 2
    return found.ravel()


def joint_covariance(likelihood: Likelihood, theta: Array, hold: Array | float = 0.0) -> Array:
    """(JᵀJ + σ²P)⁻¹ of the coordinates of tones (K, P), sorted by place, for σ = 1; (K·Z, K·Z).

    Args:
        likelihood: Of one signal.
        theta: The tones at their joint maximum.
        hold: σ² P (`held`), (K·Z,); 0: (JᵀJ)⁻¹ alone.
    """
    z = likelihood.to_z(theta)[None]
    equations = likelihood.in_numpy.equations(*likelihood.waveform.unpack(z))
    matrix = np.asarray(equations.matrix)[0]
    matrix = matrix + np.diag(np.broadcast_to(hold, len(matrix)))
    scale = 1 / np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
    values = np.maximum(values, SMALLEST_EIGENVALUE)
    covariance: Array = (vectors / values) @ vectors.T * scale * scale[:, None]
    return covariance
