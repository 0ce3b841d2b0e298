r"""Normalized densities of z = (f, Re c, Im c) that candidates are drawn from: Gaussians and mixtures.

**Straightening.** In z the posterior of a resolved tone is a Gaussian but for two terms of the order of 1/SNR: the
error of a frequency goes as 1/A, and a tone's phase is best known at a time of its own, not at mid-time. `Warped` is a
Gaussian in coordinates without them,

.. math:: y = (f - \hat f)\, A / \hat A, \quad c^* = c\, e^{iθ(f - \hat f)}, \quad |d(y, c^*)/dz| = A/\hat A ,

θ being such that f and the phase of c* do not correlate. p̃ as a density of (y, c*) is p̃ Π Â/A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp, solve_lower
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Gaussian", "Mixture", "Proposal", "Warped"]


class Proposal(Protocol):
    """A normalized density of z = (f, Re c, Im c) of K tones; draws outside the support are allowed."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, Z)."""

    def log_prob(self, z: Array) -> Array:
        """Log density at sorted z, (n, K, Z); shape (n,)."""


class Gaussian:
    """A Gaussian of z.

    Args:
        mean: (K·Z,).
        covariance: (K·Z, K·Z).
        widen: Factor on the standard deviations, one number or (K·Z,).
        waveform: The form of a component.
    """

    def __init__(
        self,
        mean: Array,
        covariance: Array,
        widen: float | Array = 1.0,
        waveform: Waveform = TONE,
    ) -> None:
        self.size = waveform.coordinates
        self.mean = np.asarray(mean, dtype=np.float64)
        d = len(self.mean)
        stretch = np.broadcast_to(np.asarray(widen, dtype=np.float64), (d,))
        covariance = covariance * stretch[:, None] * stretch
        self.scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        unit = covariance / (self.scale[:, None] * self.scale)
        self.factor = np.linalg.cholesky(unit) if d else unit
        self.normalizer = (
            0.5 * d * math.log(2 * math.pi)
            + float(np.log(np.diag(self.factor)).sum())
            + float(np.log(self.scale).sum())
        )

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, Z)."""
        d = len(self.mean)
        drawn: Array = self.mean + (rng.standard_normal((n, d)) @ self.factor.T) * self.scale
        return drawn.reshape(n, d // self.size, self.size)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        return self.log_prob_flat(z.reshape(len(z), len(self.mean)))

    def log_prob_flat(self, z: Array, shift: float | Array = 0.0) -> Array:
        """Log density of (n, K·Z) with the mean moved by `shift`."""
        if len(self.mean) == 0:
            return np.zeros(len(z))
        unit = (z - self.mean - shift) / self.scale
        white = solve_lower(self.factor, unit.T)
        log_prob: Array = -0.5 * np.einsum("dn,dn->n", white, white) - self.normalizer
        return log_prob


class Warped:
    """A Gaussian of (y, c*), in which a tone's posterior is straighter than in z (see the module's docstring).

    Args:
        mean: Maximum of p̃ Π A^{−1} in z, (K·Z,).
        covariance: Inverse curvature there, (K·Z, K·Z).
        widen: Factor on the standard deviations, one number or (K·Z,).
        waveform: The form of a component: of one shape parameter and one amplitude.
    """

    def __init__(
        self,
        mean: Array,
        covariance: Array,
        widen: float | Array = 1.0,
        waveform: Waveform = TONE,
    ) -> None:
        self.waveform, size = waveform, waveform.coordinates
        centre = mean.reshape(-1, size)
        self.frequency, c = (part[:, 0] for part in waveform.unpack(centre))
        self.amplitude = np.abs(c)
        # Rows of f, Re c and Im c of each component.
        rows, real, imag = (np.arange(i, len(mean), size) for i in range(size))
        variance = np.maximum(covariance[rows, rows], 1e-300)
        tangent = (
            c.real * covariance[rows, imag] - c.imag * covariance[rows, real]
        ) / self.amplitude
        self.theta = -tangent / (self.amplitude * variance)
        straight = np.eye(len(mean))
        straight[real, rows] = -self.theta * c.imag
        straight[imag, rows] = self.theta * c.real
        start = mean.copy()
        start[rows] = 0.0
        self.gaussian = Gaussian(start, straight @ covariance @ straight.T, widen, waveform)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, Z)."""
        x = self.gaussian.sample(n, rng)
        amplitude, f = self.waveform.moduli(x)[..., 0], self.waveform.place_in_z(x)  # f: a view
        f *= self.amplitude / np.maximum(amplitude, 1e-300)
        x = self._turned(x, -1.0)
        self.waveform.place_in_z(x)[:] += self.frequency
        return x

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        amplitude, x = self.waveform.moduli(z)[..., 0], z.copy()
        self.waveform.place_in_z(x)[:] -= self.frequency
        x = self._turned(x, 1.0)
        self.waveform.place_in_z(x)[:] *= amplitude / self.amplitude
        with np.errstate(divide="ignore"):
            jacobian: Array = np.log(amplitude / self.amplitude).sum(-1)
        return self.gaussian.log_prob(x) + jacobian

    def _turned(self, x: Array, sign: float) -> Array:
        """X with c turned by ±θ (f − f̂); x holds f − f̂ in place of f."""
        away, c = self.waveform.unpack(x)
        angle = sign * self.theta[:, None] * away
        return self.waveform.pack(away, c * (np.cos(angle) + 1j * np.sin(angle)))


class Mixture:
    """Several proposals with given probabilities.

    Args:
        parts: The proposals.
        weights: Their probabilities, normalized here; equal if None.
    """

    def __init__(self, parts: Sequence[Proposal], weights: Sequence[float] | None = None) -> None:
        if not parts:
            raise ValueError("expected at least one proposal for a mixture, received none.")
        self.parts = list(parts)
        share = np.ones(len(self.parts)) if weights is None else np.asarray(weights, np.float64)
        self.weights = share / share.sum()

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, Z), in random order."""
        counts = rng.multinomial(n, self.weights)
        drawn = [part.sample(int(m), rng) for part, m in zip(self.parts, counts, strict=True) if m]
        if len(drawn) == 1:
            return drawn[0]
        return np.concatenate(drawn)[rng.permutation(n)]

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        if len(self.parts) == 1:
            return self.parts[0].log_prob(z)
        terms = np.stack([part.log_prob(z) for part in self.parts])
        density: Array = log_sum_exp(terms + np.log(self.weights)[:, None], axis=0)
        return density
