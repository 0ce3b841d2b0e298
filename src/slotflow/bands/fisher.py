"""The covariance of many tones around their joint fit, whatever the distances between them."""

from __future__ import annotations

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Likelihood

__all__ = ["joint_covariance"]

SMALLEST_EIGENVALUE = 1e-9
"""Of the matrix with a unit diagonal: directions that the data tell less about count as known to that precision."""


def joint_covariance(likelihood: Likelihood, theta: Array) -> Array:
    """(JᵀJ)⁻¹ of the coordinates of tones (K, P), sorted by place, for σ = 1; (K·Z, K·Z).

    Args:
        likelihood: Of one signal.
        theta: The tones at their joint maximum.
    """
    z = likelihood.to_z(theta)[None]
    equations = likelihood.in_numpy.equations(*likelihood.waveform.unpack(z))
    matrix = np.asarray(equations.matrix)[0]
    scale = 1 / np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
    values = np.maximum(values, SMALLEST_EIGENVALUE)
    covariance: Array = (vectors / values) @ vectors.T * scale * scale[:, None]
    return covariance
