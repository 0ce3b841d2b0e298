r"""A tone: a sinusoid that lasts as long as the record, m(t) = A cos(2πft + φ).

With the complex amplitude c = A e^{i(φ + 2πfτ)} it is Re c e^{2πif(t − τ)}. Its shape ξ is the frequency alone, its
bin 1/T.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slotflow.core.arrays import AnyArray, Array, namespace
from slotflow.signal.waveforms.base import DATA_UNIT, Parameter, Waveform

__all__ = ["TONE", "Tone"]


class Tone(Waveform):
    """A sinusoid with an amplitude, a phase at t = 0 and a frequency."""

    name = "tone"
    parameters = (
        Parameter("amplitude", "A", DATA_UNIT),
        Parameter("phase", "φ", "rad", circular=True),
        Parameter("frequency", "f", "Hz"),
    )
    shape = ("frequency",)

    def split(self, theta: AnyArray, reference: float) -> tuple[AnyArray, AnyArray]:
        """Frequency, (..., K, 1), and A e^{i(φ + 2πfτ)}, (..., K, 1), of (A, φ, f), (..., K, 3)."""
        xp = namespace(theta)
        amplitude, phase, f = theta[..., 0], theta[..., 1], theta[..., 2]
        angle = phase + 2 * math.pi * xp.remainder(f * reference, 1.0)
        c = amplitude * xp.cos(angle) + 1j * (amplitude * xp.sin(angle))
        return f[..., None], c[..., None]

    def join(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """(A, φ in [0, 2π), f), (..., K, 3), of frequencies and complex amplitudes."""
        xp = namespace(xi)
        f, c = xi[..., 0], c[..., 0]
        turns = xp.remainder(xp.angle(c) / (2 * math.pi) - f * reference, 1.0)
        theta: AnyArray = xp.stack([xp.abs(c), 2 * math.pi * turns, f], -1)
        return theta

    def without_phase(self, xi: AnyArray, modulus: AnyArray) -> AnyArray:
        """(A, 0, f), (..., K, 3), of frequencies and |c|."""
        xp, amplitude = namespace(xi), modulus[..., 0]
        theta: AnyArray = xp.stack([amplitude, xp.zeros_like(amplitude), xi[..., 0]], -1)
        return theta

    def jacobian(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """d(A, φ, f)/d(f, Re c, Im c), (..., K, 3, 3): dA = Re(c̄ dc)/A, dφ = Im(c̄ dc)/A² − 2πτ df."""
        xp, c = namespace(xi), c[..., 0]
        size = xp.abs(c)
        a, b = c.real / size, c.imag / size
        zero, one = xp.zeros_like(a), xp.ones_like(a)
        rows = [zero, a, b, -2 * math.pi * reference * one, -b / size, a / size, one, zero, zero]
        derivatives: AnyArray = xp.stack(rows, -1).reshape(*a.shape, 3, 3)
        return derivatives

    def inverse_jacobian(self, theta: AnyArray, reference: float) -> AnyArray:
        """d(f, Re c, Im c)/d(A, φ, f), (..., K, 3, 3)."""
        xp, c = namespace(theta), self.split(theta, reference)[1][..., 0]
        angle = theta[..., 1] + 2 * math.pi * xp.remainder(theta[..., 2] * reference, 1.0)
        zero, one, turn = xp.zeros_like(angle), xp.ones_like(angle), 2 * math.pi * reference
        rows = [zero, zero, one, xp.cos(angle), -c.imag, -turn * c.imag]
        rows += [xp.sin(angle), c.real, turn * c.real]
        derivatives: AnyArray = xp.stack(rows, -1).reshape(*angle.shape, 3, 3)
        return derivatives

    def exponents(self, t: Any) -> Any:
        """2πit, (1, 1, N)."""
        return (2j * math.pi * t)[None, None]

    def basis(self, t: Any, xi: Any) -> Any:
        """e^{2πift}, (..., K, 1, N)."""
        xp = namespace(xi)
        return xp.exp(2j * math.pi * xp.remainder(xi[..., None] * t, 1.0))

    def of_pole(self, frequency: float, rate: float) -> Array | None:
        """The frequency, (1,)."""
        return np.array([frequency])

    def scales(self, duration: float) -> tuple[float, ...]:
        """1/T, in Hz."""
        return (1 / duration,)


TONE = Tone()
"""The tone has no settings: one object serves everywhere."""
