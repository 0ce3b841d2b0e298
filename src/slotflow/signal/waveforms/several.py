r"""Waveforms with several complex amplitudes, each with a phase of its own: c_j = A_j e^{iΦ_j(τ)}.

The phase at the reference time is Φ_j(τ) = φ_j + 2π Σ_d w_{jd} ξ_d, φ_j being the one at t = 0: the turns from t = 0
to τ are linear in ξ. A subclass states the weights w and its exponents; `amplitude_columns` and `phase_columns` say
where A_j and φ_j stand in θ. An amplitude that a component lacks is 0, and so is its phase.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property

from slotflow.core.arrays import AnyArray, namespace
from slotflow.signal.waveforms.base import DATA_UNIT, Parameter, Waveform, zero_matrices

__all__ = ["SeveralAmplitudes", "further_amplitudes"]


def further_amplitudes(number: int) -> tuple[Parameter, ...]:
    """A_2, φ_2, …, A_m, φ_m."""
    return tuple(
        parameter
        for j in range(2, number + 1)
        for parameter in (
            Parameter(f"amplitude_{j}", f"A_{j}", DATA_UNIT),
            Parameter(f"phase_{j}", f"φ_{j}", "rad", circular=True),
        )
    )


class SeveralAmplitudes(Waveform):
    """A component with several amplitudes and phases, a frequency, and perhaps more that shapes it."""

    @abstractmethod
    def turn_weights(self, reference: float) -> tuple[tuple[float, ...], ...]:
        """w, (M, D): what each ξ is multiplied with to give the turns of each amplitude from t = 0 to τ."""

    @cached_property
    def shape_columns(self) -> tuple[int, ...]:
        """Columns of θ that hold shape parameters, (D,)."""
        return tuple(self.column(name) for name in self.shape)

    def _turns(self, xi: AnyArray, reference: float) -> AnyArray:
        """Turns from t = 0 to the reference time, (..., K, M), of shapes, (..., K, D)."""
        xp = namespace(xi)
        totals = [
            sum(weight * xi[..., d] for d, weight in enumerate(row) if weight or d == 0)
            for row in self.turn_weights(reference)
        ]
        turns: AnyArray = xp.remainder(xp.stack(totals, -1), 1.0)
        return turns

    def split(self, theta: AnyArray, reference: float) -> tuple[AnyArray, AnyArray]:
        """ξ, (..., K, D), and A_j e^{iΦ_j(τ)}, (..., K, M), of θ, (..., K, P)."""
        xp, xi = namespace(theta), theta[..., list(self.shape_columns)]
        amplitude = theta[..., list(self.amplitude_columns)]
        phase = theta[..., list(self.phase_columns)]
        angle = phase + 2 * math.pi * self._turns(xi, reference)
        c: AnyArray = amplitude * xp.cos(angle) + 1j * (amplitude * xp.sin(angle))
        return xi, c

    def join(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """θ, (..., K, P), of ξ, (..., K, D), and complex amplitudes, (..., K, M)."""
        xp, size = namespace(xi), namespace(xi).abs(c)
        turns = xp.remainder(xp.angle(c) / (2 * math.pi) - self._turns(xi, reference), 1.0)
        theta: AnyArray = self._arranged(xi, size, xp.where(size > 0, 2 * math.pi * turns, 0.0))
        return theta

    def _arranged(self, xi: AnyArray, amplitude: AnyArray, phase: AnyArray) -> AnyArray:
        """θ of shapes, (..., K, D), amplitudes and phases, (..., K, M)."""
        columns: list[AnyArray] = [xi[..., 0]] * self.size
        for d, column in enumerate(self.shape_columns):
            columns[column] = xi[..., d]
        for j, (a, p) in enumerate(zip(self.amplitude_columns, self.phase_columns, strict=True)):
            columns[a], columns[p] = amplitude[..., j], phase[..., j]
        theta: AnyArray = namespace(xi).stack(columns, -1)
        return theta

    def without_phase(self, xi: AnyArray, modulus: AnyArray) -> AnyArray:
        """θ with all phases 0, (..., K, P), of ξ and |c|, (..., K, M)."""
        theta: AnyArray = self._arranged(xi, modulus, namespace(xi).zeros_like(modulus))
        return theta

    def jacobian(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """Derivatives of θ by z, (..., K, P, D + 2M): dA = Re(c̄ dc)/A, dφ = Im(c̄ dc)/A² − 2π d(turns)."""
        xp, d, m = namespace(xi), len(self.shape), self.amplitudes
        size = xp.abs(c)
        there = size > 0
        safe = xp.where(there, size, 1.0)
        a, b = xp.where(there, c.real / safe, 1.0), c.imag / safe
        weights = self.turn_weights(reference)
        found = zero_matrices(xi[..., 0], self.size, d + 2 * m)
        for i, column in enumerate(self.shape_columns):
            found[..., column, i] = 1.0
        for j, (row, angle) in enumerate(
            zip(self.amplitude_columns, self.phase_columns, strict=True)
        ):
            found[..., row, d + j], found[..., row, d + m + j] = a[..., j], b[..., j]
            found[..., angle, d + j] = -b[..., j] / safe[..., j]
            found[..., angle, d + m + j] = a[..., j] / safe[..., j]
            for i, weight in enumerate(weights[j]):
                found[..., angle, i] = -2 * math.pi * weight
        return found

    def inverse_jacobian(self, theta: AnyArray, reference: float) -> AnyArray:
        """Derivatives of z by θ, (..., K, D + 2M, P)."""
        xp, (xi, c) = namespace(theta), self.split(theta, reference)
        d, m, weights = len(self.shape), self.amplitudes, self.turn_weights(reference)
        turned = theta[..., list(self.phase_columns)] + 2 * math.pi * self._turns(xi, reference)
        found = zero_matrices(xi[..., 0], d + 2 * m, self.size)
        for i, column in enumerate(self.shape_columns):
            found[..., i, column] = 1.0
        for j, (row, angle) in enumerate(
            zip(self.amplitude_columns, self.phase_columns, strict=True)
        ):
            real, imag = c.real[..., j], c.imag[..., j]
            found[..., d + j, row] = xp.cos(turned[..., j])
            found[..., d + m + j, row] = xp.sin(turned[..., j])
            found[..., d + j, angle], found[..., d + m + j, angle] = -imag, real
            for column, weight in zip(self.shape_columns, weights[j], strict=True):
                turn = 2 * math.pi * weight
                found[..., d + j, column] = -turn * imag
                found[..., d + m + j, column] = turn * real
        return found
