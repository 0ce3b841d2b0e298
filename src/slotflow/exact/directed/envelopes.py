r"""Tones whose amplitude or frequency changes slowly.

A component is c e^{2πifu} e^{E(u)} with an exponent that is linear in a few coefficients x,

.. math:: E(u) = \sum_j x_j g_j(u), \qquad g_j = P_p(s) \text{ or } i P_p(s), \quad s = 2u/T ,

P_p being Legendre's polynomials over the record: none for a tone, i P_2 for a drifting one (x = πḟT²/6), P_1 for a
damped one (x = −γT/2), and P_1 to P_Q for one whose amplitude is modulated. A drift is uniform below `MOST_DRIFT`, a
rate log-uniform between two bounds (few tones grow), and coefficients of a modulation are normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from slotflow.core.arrays import Array

__all__ = ["CHIRP", "DAMPED", "MODULATED", "STEADY", "Component", "Envelope", "periodic"]

MOST_DRIFT = 30.0
"""Bins by which a frequency may drift over the record."""
RATES = (0.1, 30.0)
"""Smallest and largest γT of a damped tone."""
GROWING = 0.1
"""Probability that an exponential grows."""
DEPTH = 0.3
"""Standard deviation of each coefficient of a modulation."""
MODULATIONS = 5
"""Forms of a modulation, all of them equally probable: polynomials of four degrees, and a periodic one."""


@dataclass(frozen=True)
class Envelope:
    """How a component changes."""

    name: str
    """In verdicts: a waveform of the package where there is one."""
    directions: tuple[tuple[int, complex], ...] = ()
    """Degree and factor (1 or i) of each g."""
    law: str = "normal"
    """Of the coefficients: "uniform", "loguniform" or "normal"."""
    cycles: float = 0.0
    """Periods over the record of a periodic modulation, whose g are its cosine and sine; 0 of any other."""

    def log_prior(self, x: Array) -> float:
        """Logarithm of the density of the coefficients, (J,)."""
        if not len(x):
            return 0.0
        if self.law == "uniform":
            return -len(x) * math.log(2 * MOST_DRIFT * math.pi / 6)
        if self.law == "loguniform":
            rate = float(np.clip(2 * np.abs(x[0]), *RATES))
            sign = GROWING if x[0] > 0 else 1 - GROWING
            return math.log(2 * sign / rate) - math.log(math.log(RATES[1] / RATES[0]))
        spent = len(x) * math.log(DEPTH * math.sqrt(2 * math.pi))
        return float(-0.5 * (x @ x) / DEPTH**2) - spent - math.log(MODULATIONS)

    @property
    def precision(self) -> float:
        """Curvature of −ln p of each coefficient."""
        return 1 / DEPTH**2 if self.law == "normal" else 0.0


STEADY = Envelope("tone")
CHIRP = Envelope("chirp", ((2, 1j),), "uniform")
DAMPED = Envelope("damped", ((1, 1.0),), "loguniform")
MODULATED = tuple(
    Envelope("modulated", tuple((p, 1.0) for p in range(1, order + 1))) for order in (2, 4, 6, 8)
)
"""Tones of modulated amplitude, by the degree of the polynomial."""


def periodic(cycles: float) -> Envelope:
    """A tone whose amplitude has so many periods over the record."""
    return Envelope("modulated", ((0, 1.0), (0, 1.0)), cycles=cycles)


@dataclass(frozen=True, eq=False)
class Component:
    """One of the components of a signal."""

    frequency: float
    """In Hz."""
    c: complex
    """Amplitude at the reference."""
    envelope: Envelope = STEADY
    """How it changes."""
    x: Array = field(default_factory=lambda: np.zeros(0))
    """Coefficients of its change, (J,)."""

    @property
    def row(self) -> Array:
        """All real parameters: f, Re c, Im c, x."""
        return np.concatenate([[self.frequency, self.c.real, self.c.imag], self.x])

    def at(self, row: Array) -> Component:
        """The same with other parameters."""
        return replace(self, frequency=float(row[0]), c=complex(row[1], row[2]), x=row[3:])
