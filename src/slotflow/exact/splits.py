r"""Proposals for unresolved pairs: single tones of a fit split in two.

The fit of K − 1 tones has one tone (f̄, C) replaced by a pair c_1 + c_2 = C at the distance δ,

.. math:: f_1 = \bar f - δ\, \Re(c_2/C), \quad f_2 = \bar f + δ\, \Re(c_1/C) ,

which keeps the first two moments of the pair's spectrum; (f̄, C, δ, c_1) → (f_1, c_1, f_2, c_2) has the Jacobian 1. A
single tone fitted to the pair has the amplitude C_b = C − e c_1 c_2/C, e = (2πδT)²/24, which is what is drawn from the
fit; |dC_b/dC|² = |1 − e c_1²/C²|².

The data see the next moments: with the tone's SNR ρ, the quadrature part of the dipole in units of the noise is
1.81 ρ δT |Im c_1/C| and the quadrupole 1.47 ρ (δT)² |c_1 c_2/C²|. |c_1| is drawn from the prior, its angle ψ to C from
1/√(ψ² + ψ_0²), which is how the room for δ goes, and δ from a half-normal that both moments limit.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.exact.gaussian import Gaussian
from slotflow.exact.target import Array, Target, to_theta

__all__ = ["Split"]

REACH = 1.3
"""Width of the distances of a pair in units of what its moments allow."""
OPPOSITE = 0.2
"""Share of pairs whose first tone points away from their sum."""


class Split:
    """Pairs in place of single tones of a fit.

    Args:
        target: Of K = D + number of splits.
        gaussian: Mean and covariance of the D tones, (3D,) and (3D, 3D).
        tones: Which of them are split, increasing.
        widen: Factor on the standard deviations of those.
    """

    def __init__(
        self,
        target: Target,
        gaussian: tuple[Array, Array],
        tones: tuple[int, ...],
        widen: float = 1.4,
    ) -> None:
        stretch = np.ones((len(gaussian[0]) // 3, 3))
        stretch[list(tones)] = widen
        self.gaussian, self.tones = Gaussian(*gaussian, stretch.ravel()), tones
        self.prior, self.bin = target.prior, target.bin
        count = sum(g.n for g in target.statistics.grids[:1])
        centre = gaussian[0].reshape(-1, 3)
        theta = torch.from_numpy(to_theta(centre[None], target.statistics.reference))
        rss = float(target.statistics.rss(theta))
        sigma = target.noise.precision(rss) ** -0.5
        self.snr = np.hypot(centre[:, 1], centre[:, 2]) * math.sqrt(count / 2) / sigma  # ρ, (D,)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        base = self.gaussian.sample(n, rng)
        columns: list[Array] = []
        for j in range(base.shape[1]):
            if j not in self.tones:
                columns.append(base[:, j])
                continue
            total = base[:, j, 1] + 1j * base[:, j, 2]
            a_low, a_high = self.prior.amplitude
            u = rng.random(n)
            amplitude = (
                a_low * (a_high / a_low) ** u
                if self.prior.amplitude_law == "loguniform"
                else a_low + u * (a_high - a_low)
            )
            width = self._width(j)
            angle = width * np.sinh(rng.uniform(-1, 1, n) * math.asinh(math.pi / width))
            angle += np.where(rng.random(n) < OPPOSITE, math.pi, 0.0)
            first = amplitude * np.exp(1j * angle) * total / np.abs(total)
            scale = self._scale(first, total - first, self.snr[j])
            distance = self.prior.min_separation + scale * np.abs(rng.standard_normal(n))
            part = self._part(distance) * first
            half = 0.5 * (total + part)
            root = np.sqrt(half**2 - part * first)
            root = np.where(np.abs(half + root - total) < np.abs(half - root - total), root, -root)
            total = half + root
            second = total - first
            f_1 = base[:, j, 0] - distance * (second / total).real
            f_2 = base[:, j, 0] + distance * (first / total).real
            columns.append(np.stack([f_1, first.real, first.imag], -1))
            columns.append(np.stack([f_2, second.real, second.imag], -1))
        return np.stack(columns, 1)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        columns: list[Array] = []
        log_prob = np.zeros(len(z))
        a_low, a_high = self.prior.amplitude
        i = 0
        for j in range(len(self.gaussian.mean) // 3):
            if j not in self.tones:
                columns.append(z[:, i])
                i += 1
                continue
            first, second = (z[:, i + m, 1] + 1j * z[:, i + m, 2] for m in (0, 1))
            f_1, f_2 = z[:, i, 0], z[:, i + 1, 0]
            i += 2
            middle = f_1 + (f_2 - f_1) * (second / (first + second)).real
            true = first + second
            part = self._part(f_2 - f_1) * first
            total = true - part + part * first / true  # C of the single tone
            log_prob += 2 * np.log(np.abs(1 - part * first / true**2))
            log_prob[np.abs(part * first / true - total) < np.abs(true - total)] = -np.inf
            amplitude = np.abs(first)
            scale = self._scale(first, total - first, self.snr[j])
            distance = (f_2 - f_1 - self.prior.min_separation) / scale
            columns.append(np.stack([middle, total.real, total.imag], -1))
            log_prob += 0.5 * math.log(2 / math.pi) - 0.5 * distance**2 - np.log(scale)
            power, size = (
                (2, math.log(a_high / a_low))
                if self.prior.amplitude_law == "loguniform"
                else (1, a_high - a_low)
            )
            log_prob -= power * np.log(amplitude) + math.log(size)
            angle, width = np.angle(first / total), self._width(j)
            log_prob += np.log(
                (1 - OPPOSITE) / np.hypot(angle, width)
                + OPPOSITE / np.hypot(math.pi - np.abs(angle), width)
            )
            log_prob -= math.log(2 * math.asinh(math.pi / width))
        return log_prob + self.gaussian.log_prob(np.stack(columns, 1))

    def _part(self, distance: Array) -> Array:
        """(2πδT)²/24, (n,): how much of a pair's quadrupole looks like a smaller sum."""
        return (2 * math.pi * distance / self.bin) ** 2 / 24

    def _width(self, j: int) -> float:
        """Angle of c_1 to C of tone j from which on the dipole limits δ."""
        snr = float(self.snr[j])
        return math.sqrt(0.37 * snr + 1) / (0.9 * snr)

    def _scale(
        self, first: NDArray[np.complex128], second: NDArray[np.complex128], snr: float
    ) -> Array:
        """Standard deviation of δ before it is folded, in Hz, (n,)."""
        total = first + second
        dipole = 1.81 * snr * np.abs((first / total).imag)
        quadrupole = 1.47 * snr * np.abs(first * second / total**2)
        scale: Array = REACH * self.bin / np.sqrt(dipole**2 + quadrupole + 1.0)
        return scale
