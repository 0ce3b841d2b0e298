r"""Waveforms with one complex amplitude: θ = (A, φ, f, …), c = A e^{iΦ(τ)}.

Φ(τ) = φ + 2π(fτ + …) is the phase at the reference time, φ the one at t = 0. Whatever a waveform has beside the
frequency f enters θ as it enters ξ. A subclass states its exponents, and the turns from t = 0 to τ, which
are linear in ξ (fτ for all but a chirp).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slotflow.core.arrays import AnyArray, namespace
from slotflow.signal.waveforms.base import DATA_UNIT, Parameter, Waveform, zero_matrices

__all__ = ["AMPLITUDE", "FREQUENCY", "PHASE", "SingleAmplitude", "time_factor"]

AMPLITUDE = Parameter("amplitude", "A", DATA_UNIT)
PHASE = Parameter("phase", "φ", "rad", circular=True)
FREQUENCY = Parameter("frequency", "f", "Hz")


class SingleAmplitude(Waveform):
    """A component with one amplitude, one phase, a frequency, and perhaps more that shapes it."""

    def turn_weights(self, reference: float) -> tuple[float, ...]:
        """What each ξ is multiplied with to give the turns from t = 0 to the reference time, (D,)."""
        return (reference, *[0.0] * (len(self.shape) - 1))

    def turns(self, xi: AnyArray, reference: float) -> AnyArray:
        """Turns from t = 0 to the reference time, (..., K), of shapes, (..., K, D)."""
        weights = self.turn_weights(reference)
        total = sum(weight * xi[..., d] for d, weight in enumerate(weights) if weight or d == 0)
        turns: AnyArray = namespace(xi).remainder(total, 1.0)
        return turns

    def split(self, theta: AnyArray, reference: float) -> tuple[AnyArray, AnyArray]:
        """ξ, (..., K, D), and A e^{iΦ(τ)}, (..., K, 1), of θ, (..., K, P)."""
        xp, xi = namespace(theta), theta[..., 2:]
        amplitude, phase = theta[..., 0], theta[..., 1]
        angle = phase + 2 * math.pi * self.turns(xi, reference)
        c = amplitude * xp.cos(angle) + 1j * (amplitude * xp.sin(angle))
        return xi, c[..., None]

    def join(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """θ, (..., K, P), of ξ, (..., K, D), and complex amplitudes, (..., K, 1)."""
        xp, c = namespace(xi), c[..., 0]
        turns = xp.remainder(xp.angle(c) / (2 * math.pi) - self.turns(xi, reference), 1.0)
        two = xp.stack([xp.abs(c), 2 * math.pi * turns], -1)
        theta: AnyArray = xp.concat([two, xi], -1)
        return theta

    def without_phase(self, xi: AnyArray, modulus: AnyArray) -> AnyArray:
        """(A, 0, ξ), (..., K, P), of ξ and |c|, (..., K, 1)."""
        xp = namespace(xi)
        theta: AnyArray = xp.concat([modulus, xp.zeros_like(modulus), xi], -1)
        return theta

    def jacobian(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """Derivatives of θ by z, (..., K, P, D + 2): dA = Re(c̄ dc)/A, dφ = Im(c̄ dc)/A² − 2π d(turns)."""
        c, d = c[..., 0], xi.shape[-1]
        size = namespace(xi).abs(c)
        a, b = c.real / size, c.imag / size
        found = zero_matrices(xi[..., 0], d + 2, d + 2)
        found[..., 0, d], found[..., 0, d + 1] = a, b
        found[..., 1, d], found[..., 1, d + 1] = -b / size, a / size
        for i, weight in enumerate(self.turn_weights(reference)):
            found[..., 1, i], found[..., 2 + i, i] = -2 * math.pi * weight, 1.0
        return found

    def inverse_jacobian(self, theta: AnyArray, reference: float) -> AnyArray:
        """Derivatives of z by θ, (..., K, D + 2, P)."""
        xp, (xi, c) = namespace(theta), self.split(theta, reference)
        c, d = c[..., 0], xi.shape[-1]
        angle = theta[..., 1] + 2 * math.pi * self.turns(xi, reference)
        found = zero_matrices(xi[..., 0], d + 2, d + 2)
        found[..., d, 0], found[..., d, 1] = xp.cos(angle), -c.imag
        found[..., d + 1, 0], found[..., d + 1, 1] = xp.sin(angle), c.real
        for i, weight in enumerate(self.turn_weights(reference)):
            turn = 2 * math.pi * weight
            found[..., i, 2 + i] = 1.0
            found[..., d, 2 + i], found[..., d + 1, 2 + i] = -turn * c.imag, turn * c.real
        return found


def time_factor(functions: Sequence[Any]) -> Any:
    """Exponents of one amplitude, (D, 1, N), from functions of time, (N,) each."""
    return namespace(functions[0]).stack(list(functions))[:, None]
