r"""Tones in channels of known gains, with the amplitudes in channels of a free gain integrated out.

Let the amplitudes u of the free channels have independent Gaussian priors of the variance λσ² in each part. With RSS_j
= E − 2 d·u + u·G u in a free channel at given frequencies,

.. math:: \int p(x_j \mid f, u, σ)\, N(u; 0, λσ^2)\, du \;\propto\; |1 + λG|^{-1/2}
          \exp\Big( - \frac{E - d\,(G + 1/λ)^{-1} d}{2σ^2} \Big) ,

in which σ enters as in a plain RSS: search, proposals and evidence of plain tones (f, c_0) stay what they are, with RSS
lowered by d (G + 1/λ)⁻¹ d and the prior multiplied by the volume |1 + λG|^{−1/2}. The derivatives by f are those of the
joint normal equations with u eliminated. What the amplitudes are, and what their prior is really, is decided
afterwards, draw by draw (`slotflow.exact.lift`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.signal.likelihood.base import Likelihood
from slotflow.signal.likelihood.free_gains import FreeGains
from slotflow.signal.likelihood.products import Equations, Products
from slotflow.signal.waveforms import TONE

__all__ = ["IntegratedGains"]


class IntegratedGains(Likelihood):
    """The likelihood of plain tones in the known channels, with the amplitudes in free channels integrated out.

    Args:
        whole: The likelihood of all amplitudes.
        variances: λ of each free channel.
    """

    def __init__(self, whole: FreeGains, variances: Sequence[float]) -> None:
        self.whole, self.variances = whole, tuple(float(v) for v in variances)
        self.waveform, self.reference = TONE, whole.reference
        self.known, self.free = whole.blocks[0], whole.blocks[1:]
        self.energy: Any = whole.energy
        self.removed, self.log_weight, self.complex = whole.removed, whole.log_weight, whole.complex

        self.nodes = tuple(
            IntegratedGains(one, variances) for one in whole.nodes if isinstance(one, FreeGains)
        )

    @property
    def n(self) -> int:
        """Real degrees of freedom of the data of all channels."""
        return self.whole.n

    @property
    def duration(self) -> float:
        """Length of the first channel in seconds."""
        return self.whole.duration

    @property
    def limits(self) -> tuple[float, float]:
        """The band and a few bins on either side of it, in Hz."""
        return self.whole.limits

    @property
    def log_scale(self) -> float:
        """Half the logarithm of the determinant of the noise's covariance over σ²."""
        return self.whole.log_scale

    # ------------------------------------------------------------------ the free channels

    def conditionals(self, j: int, xi: Array) -> tuple[Array, Array]:
        """Mean, (m, 2K), and precision times σ², (m, 2K, 2K), of all Re u, then all Im u of a free channel.

        Args:
            j: Which of the free channels.
            xi: Frequencies, (m, K, 1).
        """
        gram, data = self.free[j].amplitude_systems(xi)
        precision = gram + np.eye(gram.shape[-1]) / self.variances[j]
        mean: Array = np.linalg.solve(precision, data[..., None])[..., 0].astype(np.float64)
        return mean, precision

    def apart(self, xi: Any) -> tuple[Any, Any]:
        """By how much RSS falls in the free channels, and ln |1 + λG|^{−1/2}, (m,) each; see `Likelihood.apart`."""
        xi = np.asarray(xi)
        gain, log_volume = np.zeros(len(xi)), np.zeros(len(xi))
        if xi.shape[1]:
            for block, variance in zip(self.free, self.variances, strict=True):
                gram, data = block.amplitude_systems(xi)
                matrix = np.eye(gram.shape[-1]) + variance * gram
                gain += variance * (data * np.linalg.solve(matrix, data[..., None])[..., 0]).sum(-1)
                log_volume -= 0.5 * np.linalg.slogdet(matrix)[1]
        return gain, log_volume

    def strength_apart(self, z: Any) -> Array:
        """ûᵀ Σ⁻¹ û of each tone's amplitude in the free channels for σ = 1, summed over them, (K,)."""
        xi, k = TONE.unpack(np.asarray(z))[0], len(z)
        strength = np.zeros(k)
        for j in range(len(self.free) if k else 0):
            mean, precision = (part[0] for part in self.conditionals(j, xi[None]))
            covariance = np.linalg.inv(precision).reshape(2, k, 2, k)
            own = covariance[:, np.arange(k), :, np.arange(k)]  # (K, 2, 2)
            pair = mean.reshape(2, k).T
            strength += np.einsum("ki,kij,kj->k", pair, np.linalg.inv(own), pair)
        return strength

    def equations(self, xi: Any, c: Any) -> Equations:
        """RSS with its first derivatives and the Gauss–Newton matrix, the free amplitudes eliminated."""
        if isinstance(xi, Tensor):
            found = self.equations(xi.detach().numpy(), c.detach().numpy())
            return Equations(*(torch.from_numpy(x) for x in found))
        gain, slope, matrix = self.known.equations(xi, c)
        batch, k = xi.shape[:2]
        if not k:
            return Equations(gain, slope, matrix)
        slope, matrix = (
            slope.reshape(batch, k, -1),
            matrix.reshape(batch, k, -1, k, slope.shape[-1] // k),
        )
        for j, block in enumerate(self.free):
            mean, _ = self.conditionals(j, xi)
            u = (mean[:, :k] + 1j * mean[:, k:])[..., None]
            lower, pull, curve = block.equations(xi, u)
            size = curve.shape[-1] // k
            every = np.arange(k * size).reshape(k, size)
            shapes, parts = every[:, 0], every[:, 1:].ravel()
            cross = curve[:, parts[:, None], shapes]  # (B, 2K, K)
            own = curve[:, parts[:, None], parts] + np.eye(len(parts)) / self.variances[j]
            gain = gain + lower + (mean**2).sum(-1) / self.variances[j]
            slope[:, :, 0] += pull[:, shapes]  # by u it is 0 but for the prior's, at the mean
            matrix[:, :, 0, :, 0] += curve[:, shapes[:, None], shapes] - cross.mT @ np.linalg.solve(
                own, cross
            )
        return Equations(
            gain,
            slope.reshape(batch, -1),
            matrix.reshape(batch, slope.shape[1] * slope.shape[2], -1),
        )

    def gains(self, xi: Any, c: Any) -> Any:
        """RSS minus the data's energy of n draws, (1, n), at (1, n, K, 1) each."""
        if isinstance(xi, Tensor):
            return torch.from_numpy(self.gains(xi.detach().numpy(), c.detach().numpy()))
        return self.known.gains(xi, c) - self.apart(xi[0])[0]

    def second_order(self, z: Array) -> Array:
        """That of the known channels, with what the free ones add by f alone, (K, 3, 3)."""
        bends, (xi, _) = self.known.second_order(z), TONE.unpack(z)
        for j, block in enumerate(self.free):
            if len(z):
                mean = self.conditionals(j, xi[None])[0][0]
                u = mean[: len(z)] + 1j * mean[len(z) :]
                bends[:, 0, 0] += block.second_order(TONE.from_simple(xi[:, 0], u))[:, 0, 0]
        return bends

    # ------------------------------------------------------------------ the known channels

    def products(self, xi: Any) -> Products:
        """Those of the known channels."""
        return self.known.products(xi)

    def matched(self, xi: Any) -> Any:
        """That of the known channels."""
        return self.known.matched(xi)

    def overlap(self, xi_a: Any, xi_b: Any) -> Any:
        """That of the known channels."""
        return self.known.overlap(xi_a, xi_b)

    def kernel(self, distance: Any) -> Any:
        """That of the known channels."""
        return self.known.kernel(distance)

    def coupling(self, xi: Array, z: Array) -> Array:
        """That of the known channels."""
        return self.known.coupling(xi, z)

    def amplitude_systems(self, xi: Array) -> tuple[Array, Array]:
        """Those of the known channels; what the free ones gain is `apart`."""
        return self.known.amplitude_systems(xi)

    @property
    def span(self) -> float:
        """That of the known channels, in seconds."""
        return self.known.span

    @property
    def weight(self) -> float:
        """That of the known channels."""
        return self.known.weight

    def weight_at(self, place: Any) -> Any:
        """That of the known channels; same shape."""
        return self.known.weight_at(place)

    def residuals(self, z: Any) -> list[Any]:
        """Those of all channels, with the amplitudes of largest likelihood in the free ones."""
        theta = self.whole.completed(TONE.to_theta(np.asarray(z), self.reference))
        return self.whole.residuals(self.whole.waveform.to_z(theta, self.reference))

    # ------------------------------------------------------------------ views

    @property
    def in_numpy(self) -> IntegratedGains:
        """The same with its energy in a NumPy array."""
        other = copy.copy(self)
        other.energy = np.asarray(self.energy)
        return other

    def take(self, index: Tensor) -> IntegratedGains:
        """The one signal as often as an index, (B',), or the true entries of a mask asks for it."""
        other = copy.copy(self)
        other.energy = self.energy[index]
        return other

    def less(self, z: Any) -> IntegratedGains:
        """The signal with tones z, (K, 3), taken out of the known channels; of the free ones the energy is counted."""
        other = copy.copy(self)
        other.known = self.known.less(z)
        xi, c = TONE.unpack(np.asarray(z, dtype=np.float64))
        gain = self.gains(xi[None, None], c[None, None])[0, 0] if len(xi) else 0.0
        other.energy = self.energy[:1] + gain
        return other
