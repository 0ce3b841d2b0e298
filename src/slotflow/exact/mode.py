r"""One maximum of the likelihood of K components: where it is, how sharp, and whether the prior allows it.

A component's strength c_k Σ_kk⁻¹ c_k, of its complex amplitudes c and their covariance Σ with everything else unknown,
is its squared SNR: in the linearized model RSS/2σ² rises by half of it without the component.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, namespace
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["OUTSIDE", "Mode", "near_bounds", "reordered", "same", "strength_of"]

OUTSIDE = 5.0
"""Standard deviations of an amplitude by which a maximum may lie outside the prior."""
RESOLVED = 2.0
"""Distance in bins from which on components do not share what they explain."""
TOUCH = 0.1
"""Bins by which a maximum may undercut the smallest separation."""


@dataclass(frozen=True, eq=False)
class Mode:
    """One maximum of the likelihood of K tones."""

    z: Array
    """Coordinates, sorted by place, (K, Z)."""
    rss: float
    """Residual sum of squares."""
    covariance: Array
    """Of z, σ² (JᵀJ)⁻¹, (K·Z, K·Z); with the bound's precision added if bounded."""
    bounded: bool = False
    """Whether amplitudes were held back: this is a maximum under a Gaussian prior of c, not of the likelihood."""
    waveform: Waveform = TONE
    """The form of a component."""
    strength_apart: Array | None = None
    """Squared SNR of each component in channels where its amplitude is integrated out, (K,), if there are any."""

    @property
    def places(self) -> Array:
        """What the components are sorted by (frequencies of tones), (K,)."""
        return self.waveform.place_in_z(self.z)

    @cached_property
    def _amplitude_blocks(self) -> Array:
        """Covariance of each component's Re c and Im c, (K, 2M, 2M)."""
        k, first = len(self.z), len(self.waveform.shape)
        blocks = self.covariance.reshape(k, self.z.shape[1], k, self.z.shape[1])
        every = np.arange(k)
        own: Array = blocks[every, first:, every, first:]
        return own

    @cached_property
    def strength(self) -> Array:
        """c_k Σ_kk⁻¹ c_k, squared SNR of each component with all others unknown, (K,)."""
        c = self.z[:, len(self.waveform.shape) :]
        if not len(c):
            return np.zeros(0)
        strength: Array = strength_of(c, np.linalg.pinv(self._amplitude_blocks))
        return strength if self.strength_apart is None else strength + self.strength_apart

    def plausible(self, prior: Prior) -> bool:
        """Whether all amplitudes lie within the prior's bounds or close to them for their errors."""
        c = self.z[:, len(self.waveform.shape) :]
        amplitude = self.waveform.moduli(self.z)[:, 0]
        return bool(near_bounds(c, amplitude, self._amplitude_blocks, prior).all())

    def gap(self, bins: float) -> float:
        """Smallest distance of two places in units of `bins` Hz; inf for fewer than two components."""
        return float(np.diff(self.places).min() / bins) if len(self.z) > 1 else math.inf

    def resolved(self, bins: float) -> bool:
        """Whether this is a maximum of the likelihood whose components are `RESOLVED` times `bins` Hz apart."""
        return not self.bounded and self.gap(bins) > RESOLVED

    def keeps_apart(self, prior: Prior, bins: float) -> bool:
        """Whether components are as far from each other as the prior asks for, but for `TOUCH` of `bins` Hz."""
        return self.gap(1.0) > prior.min_separation - TOUCH * bins


def strength_of(c: Any, precision: Any) -> Any:
    """c_k Σ_kk⁻¹ c_k, (..., K), of amplitudes, (..., K, 2M), and the inverses of their covariances."""
    return namespace(c).einsum("...ki,...kij,...kj->...k", c, precision, c)


def near_bounds(c: Any, amplitude: Any, blocks: Any, prior: Prior) -> Any:
    """Whether amplitudes lie within the prior's bounds or close to them for their errors, (..., K).

    Args:
        c: Re c and Im c, (..., K, 2M).
        amplitude: |c|, (..., K).
        blocks: Covariances of c, (..., K, 2M, 2M).
        prior: Gives the bounds.
    """
    xp = namespace(c)
    unit = c / xp.clip(amplitude, 1e-300, None)[..., None]
    spread = xp.sqrt(xp.clip(strength_of(unit, blocks), 0.0, None))
    low, high = prior.amplitude
    return (amplitude > low - OUTSIDE * spread) & (amplitude < high + OUTSIDE * spread)


def reordered(covariance: Array, order: NDArray[np.int64]) -> Array:
    """A covariance of the coordinates of K components, (K·Z, K·Z), with the components in another order."""
    k = len(order)
    blocks = covariance.reshape(k, len(covariance) // k, k, -1)[order][:, :, order]
    return blocks.reshape(covariance.shape)


def same(a: Mode, b: Mode, bins: float) -> bool:
    """Whether two maxima of the same order are one."""
    first = len(a.waveform.shape)
    near = np.abs(a.places - b.places).max() < 0.02 * bins
    c_a, c_b = a.z[:, first:], b.z[:, first:]
    return bool(near and np.abs(c_a - c_b).max() < 0.05 * np.abs(c_a).max())
