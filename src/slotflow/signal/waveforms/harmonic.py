r"""A harmonic series: a periodic signal, tones at f, 2f, …, mf with amplitudes and phases of their own.

.. math:: m(t) = \sum_{j=1}^{m} A_j \cos(2π j f t + φ_j)

f is the fundamental; the prior's law of amplitudes holds for each A_j. The columns of θ are (A, φ, f, A_2, φ_2, …,
A_m, φ_m), so that the first three are those of a tone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slotflow.core.arrays import AnyArray, namespace
from slotflow.signal.waveforms.base import DATA_UNIT, Parameter, Waveform, zero_matrices
from slotflow.signal.waveforms.single import AMPLITUDE, FREQUENCY, PHASE

__all__ = ["Harmonic"]

MOST_HARMONICS = 32
"""More harmonics than this are refused."""


class Harmonic(Waveform):
    """A fundamental with its multiples.

    Args:
        harmonics: m, how many tones there are, the fundamental among them.
    """

    name = "harmonic"
    shape = ("frequency",)

    def __init__(self, harmonics: int | str = 4) -> None:
        try:
            number = int(harmonics)
            whole = number == float(harmonics)
        except ValueError:
            number, whole = 0, False
        if not whole or not 1 <= number <= MOST_HARMONICS:
            raise ValueError(
                f"Harmonic expects a whole number of harmonics from 1 to {MOST_HARMONICS}, received {harmonics!r}."
            )
        self.amplitudes = number
        more = [
            parameter
            for j in range(2, number + 1)
            for parameter in (
                Parameter(f"amplitude_{j}", f"A_{j}", DATA_UNIT),
                Parameter(f"phase_{j}", f"φ_{j}", "rad", circular=True),
            )
        ]
        self.parameters = (AMPLITUDE, PHASE, FREQUENCY, *more)

    @property
    def settings(self) -> Mapping[str, str]:
        """The number of harmonics."""
        return {"harmonics": str(self.amplitudes)}

    def _columns(self, kind: str) -> list[int]:
        """Columns of all amplitudes or phases, the fundamental's first."""
        return [self.column(kind)] + [
            self.column(f"{kind}_{j}") for j in range(2, self.amplitudes + 1)
        ]

    def split(self, theta: AnyArray, reference: float) -> tuple[AnyArray, AnyArray]:
        """f, (..., K, 1), and A_j e^{i(φ_j + 2πjfτ)}, (..., K, M)."""
        xp, f = namespace(theta), theta[..., self.column("frequency")]
        amplitude, phase = (
            theta[..., self._columns("amplitude")],
            theta[..., self._columns("phase")],
        )
        angle = phase + 2 * math.pi * xp.remainder(self._turns(f, reference), 1.0)
        c: AnyArray = amplitude * xp.cos(angle) + 1j * (amplitude * xp.sin(angle))
        return f[..., None], c

    def _turns(self, f: AnyArray, reference: float) -> AnyArray:
        """Turns jfτ, (..., K, M), of fundamentals, (..., K)."""
        xp = namespace(f)
        turns: AnyArray = xp.stack([j * f * reference for j in range(1, self.amplitudes + 1)], -1)
        return turns

    def join(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """θ, (..., K, P), of f, (..., K, 1), and complex amplitudes, (..., K, M)."""
        xp, f = namespace(xi), xi[..., 0]
        turns = xp.remainder(xp.angle(c) / (2 * math.pi) - self._turns(f, reference), 1.0)
        theta: AnyArray = self._arranged(f, xp.abs(c), 2 * math.pi * turns)
        return theta

    def _arranged(self, f: AnyArray, amplitude: AnyArray, phase: AnyArray) -> AnyArray:
        """θ of f, (..., K), amplitudes and phases, (..., K, M)."""
        columns: list[AnyArray] = [f] * self.size
        for j, (a, p) in enumerate(
            zip(self._columns("amplitude"), self._columns("phase"), strict=True)
        ):
            columns[a], columns[p] = amplitude[..., j], phase[..., j]
        theta: AnyArray = namespace(f).stack(columns, -1)
        return theta

    def without_phase(self, xi: AnyArray, modulus: AnyArray) -> AnyArray:
        """θ with all phases 0."""
        none: AnyArray = namespace(xi).zeros_like(modulus)
        return self._arranged(xi[..., 0], modulus, none)

    def jacobian(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """Derivatives of θ by z, (..., K, P, 1 + 2M)."""
        m, size = self.amplitudes, namespace(xi).abs(c)
        a, b = c.real / size, c.imag / size
        found = zero_matrices(xi[..., 0], self.size, 1 + 2 * m)
        found[..., self.column("frequency"), 0] = 1.0
        for j, (row, angle) in enumerate(
            zip(self._columns("amplitude"), self._columns("phase"), strict=True)
        ):
            found[..., row, 1 + j], found[..., row, 1 + m + j] = a[..., j], b[..., j]
            found[..., angle, 0] = -2 * math.pi * (j + 1) * reference
            found[..., angle, 1 + j] = -b[..., j] / size[..., j]
            found[..., angle, 1 + m + j] = a[..., j] / size[..., j]
        return found

    def inverse_jacobian(self, theta: AnyArray, reference: float) -> AnyArray:
        """Derivatives of z by θ, (..., K, 1 + 2M, P)."""
        m, xp = self.amplitudes, namespace(theta)
        f, c = self.split(theta, reference)
        found = zero_matrices(f[..., 0], 1 + 2 * m, self.size)
        place = self.column("frequency")
        found[..., 0, place] = 1.0
        turned = theta[..., self._columns("phase")] + 2 * math.pi * self._turns(
            f[..., 0], reference
        )
        for j, (column, angle) in enumerate(
            zip(self._columns("amplitude"), self._columns("phase"), strict=True)
        ):
            turn = 2 * math.pi * (j + 1) * reference
            found[..., 1 + j, column] = xp.cos(turned[..., j])
            found[..., 1 + m + j, column] = xp.sin(turned[..., j])
            found[..., 1 + j, angle], found[..., 1 + m + j, angle] = -c.imag[..., j], c.real[..., j]
            found[..., 1 + j, place] = -turn * c.imag[..., j]
            found[..., 1 + m + j, place] = turn * c.real[..., j]
        return found

    def exponents(self, t: Any) -> Any:
        """2πiju, (1, M, N)."""
        rows = [2j * math.pi * j * t for j in range(1, self.amplitudes + 1)]
        return namespace(t).stack(rows)[None]

    def scales(self, duration: float) -> tuple[float, ...]:
        """1/mT, in Hz: the highest harmonic moves by a bin."""
        return (1 / (self.amplitudes * duration),)

    def occupied(self, band: tuple[float, float], duration: float) -> list[tuple[float, float]]:
        """The band and its multiples."""
        return [(j * band[0], j * band[1]) for j in range(1, self.amplitudes + 1)]
