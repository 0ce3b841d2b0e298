r"""When two sets of parameters can be told apart (paper, definition 4.1; section 4.4).

θ and θ' are called γ-distinguishable if

.. math:: E_{x \sim p(\cdot | θ)} \|x - μ_{θ'}\|^2 > γ σ^2 , \qquad γ > 2 .

With x = μ_θ + noise of N independent samples, the left side is

.. math:: \|μ_θ - μ_{θ'}\|^2 + N σ^2

(`expected_square`). **Taken literally the definition is empty**: the noise alone exceeds 2σ² as soon as there are three
samples, so that any θ is distinguishable from itself. What can be meant is the first part alone,

.. math:: D = \|μ_θ - μ_{θ'}\|^2 / σ^2 ,

the squared distance of the two signals in units of the noise. √D is the separation of the two hypotheses in standard
deviations: the best test errs with probability Φ(−√D/2) (`least_error`).

For two tones of one amplitude whose phases agree at mid-time, D = (2π Δf T)² N A² / 24σ² where Δf ≪ 1/T, and N A²/σ²
where they are resolved. In the paper's data N A²/2σ² is several hundred and more, so that D > 2 begins at some
hundredths of a bin (`closest`), far below the Rayleigh distance 1/T that the definition's second sentence asks for.
Telling *which* of two tones is there is easy; telling *whether there are two* is what needs 1/T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import norm
from torch import Tensor

from slotflow.data.sampling import Grid
from slotflow.signal.model import noise_free

__all__ = ["closest", "distance", "expected_square", "least_error"]

PAPER_GAMMA = 2.0
"""γ must exceed this (assumption 4.1)."""


def distance(theta: Tensor, other: Tensor, sigma: float, grids: Sequence[Grid]) -> float:
    """D, the squared distance of two signals in units of the noise.

    Args:
        theta: Components of one, (K, P), float64.
        other: Components of the other, (K', P), float64.
        sigma: Noise level σ of every sample.
        grids: Sampling of the streams.
    """
    means = [[noise_free(one[None], grid)[0] for grid in grids] for one in (theta, other)]
    square = sum(float(((a - b) ** 2).sum()) for a, b in zip(*means, strict=True))
    return square / sigma**2


def closest(amplitude: float, sigma: float, samples: int, separation: float = PAPER_GAMMA) -> float:
    """Δf T, in bins, at which two tones alike but for their frequency are at the distance D of each other.

    Args:
        amplitude: A of both; their phases agree at mid-time.
        sigma: σ.
        samples: N.
        separation: D, small enough for Δf to be well below 1/T.
    """
    return math.sqrt(24 * separation * sigma**2 / (samples * amplitude**2)) / (2 * math.pi)


def expected_square(separation: float, samples: int) -> float:
    """E‖x − μ_θ'‖² / σ² = D + N of two signals at the distance D."""
    return separation + samples


def least_error(separation: float) -> float:
    """Share of errors of the best test between two equally probable signals at the distance D."""
    return float(norm.sf(math.sqrt(separation) / 2))
