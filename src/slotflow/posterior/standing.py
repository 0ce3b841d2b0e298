r"""What stands of an answer that does not explain the data: which components, and with what errors.

The count of components of a misfit means nothing, since what is left of the data may hold more of them, or none. A
strong component is there all the same. What disturbs its estimate is what the fit leaves of the data at the
frequencies around it: a fit to noise of the power spectrum S has the variance S(f)/σ² times that of a fit to white
noise of the level σ, as long as S is even over the few bins that matter. So the errors of component k are to be
multiplied by

.. math:: \sqrt{\max(1, P_k/σ^2)},

with P_k the mean of the residual's periodogram at distances of 1.5 to 6.5 bins on either side (nearer, the fit has
taken what there was). A component stands if its amplitude is five times its error thus inflated, √(2 P_k/Σ w).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Likelihood

__all__ = ["STANDS", "Standing", "standing"]

STANDS = 5.0
"""Inflated standard deviations of its amplitude at which a component stands."""
DISTANCES = np.concatenate([np.arange(1.5, 7), -np.arange(1.5, 7)])
"""Distances in bins at which the residual is looked at around each component."""


@dataclass(frozen=True)
class Standing:
    """How each component of a fit stands against what is left around it, in the order of their places."""

    inflation: tuple[float, ...]
    """Factor by which the errors of each component are to be multiplied, at least 1."""
    heights: tuple[float, ...]
    """Each component's amplitude in units of its inflated standard deviation."""

    @property
    def stands(self) -> tuple[bool, ...]:
        """Which components stand."""
        return tuple(height >= STANDS for height in self.heights)

    @property
    def words(self) -> str:
        """What survives, in words."""
        count, number = len(self.heights), sum(self.stands)
        if number == 0:
            return "no tone stands out from what is left around it" if count else ""
        factors = [f for f, stands in zip(self.inflation, self.stands, strict=True) if stands]
        low, high = f"{min(factors):.1f}", f"{max(factors):.1f}"
        errors = "errors as they are"
        if high != "1.0":
            errors = f"errors inflated by {low if low == high else f'{low}–{high}'}"
        which = f"{number} of {count} tones stand{'s' * (number == 1)}"
        if number == count:
            several = "both tones stand" if count == 2 else f"all {count} tones stand"
            which = "the tone stands" if count == 1 else several
        return f"{which} with {errors}; the count does not"


def standing(
    likelihood: Likelihood, theta: Array, sigma: float | Sequence[float] | Array
) -> Standing:
    """How components stand against what they leave of the data.

    Args:
        likelihood: Of one signal.
        theta: The components, (K, P).
        sigma: Noise level that their errors were found with, one for all or one for each, (K,), in rising order of
            place.
    """
    waveform = likelihood.waveform
    theta = np.asarray(theta, dtype=np.float64).reshape(-1, waveform.size)
    if not len(theta):
        return Standing((), ())
    one = likelihood.in_numpy
    z = np.asarray(one.to_z(theta))
    xi, _ = waveform.unpack(z)
    around = xi[:, None] + 0.0 * DISTANCES[:, None]
    around[..., waveform.shape.index(waveform.place)] += DISTANCES * likelihood.bin
    rest = one.less(z).in_numpy
    power = _power(rest, around.reshape(-1, xi.shape[-1])).reshape(len(z), -1).mean(1)
    weight = np.abs(_diagonal(one, xi))[:, 0]
    level = np.broadcast_to(np.asarray(sigma, dtype=np.float64), power.shape)
    floor = np.maximum(power, level**2)
    modulus = np.sqrt((waveform.moduli(z) ** 2).sum(-1))
    heights = modulus / np.sqrt(np.maximum(2 * floor / weight, 1e-300))
    inflation = np.sqrt(floor / np.maximum(level**2, 1e-300))
    return Standing(tuple(map(float, inflation)), tuple(map(float, heights)))


def _power(likelihood: Likelihood, xi: Array) -> Array:
    """|Σ b̄ x|²/Σ |b|² at shapes (G, D), of the strongest function of each, (G,)."""
    matched = np.abs(np.asarray(likelihood.matched(xi[None])[0])) ** 2
    power: Array = (matched / np.abs(_diagonal(likelihood, xi))).max(-1)
    return power


def _diagonal(likelihood: Likelihood, xi: Array) -> Array:
    """Σ |b|² at shapes (G, D), (G, M)."""
    overlap = np.asarray(likelihood.overlap(xi, xi))
    found: Array = np.diagonal(overlap, axis1=-2, axis2=-1).real
    return found
