r"""A quadratic chirp: a sinusoid whose drift changes too, f(t) = f + ḟ u + ½ f̈ u² with u = t − τ.

It is what a sweep looks like over a record in which its curvature shows: a bat call or a sonar pulse, a binary that
spirals in, a carrier seen from a satellite that passes by. f, ḟ and f̈ are those at the middle τ of the record:

.. math:: m(t) = A \cos Φ(t), \qquad
          Φ(t) = φ + 2π\,[f t + \tfrac12 ḟ\,(u^2 - τ^2) + \tfrac16 f̈\,(u^3 + τ^3)] ,

so that Φ(0) = φ, and b = e^{2πi(fu + ḟu²/2 + f̈u³/6)}. A cubic phase is mostly another frequency: what no frequency
makes up for is 2/5 of it, πf̈T³/60 at the ends of the record. It reaches π/2 at f̈ = 30/T³, which is the bin here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slotflow.core.arrays import Array
from slotflow.signal.waveforms.base import Parameter
from slotflow.signal.waveforms.chirp import SEARCH_STEP, Chirp
from slotflow.signal.waveforms.ranges import Range
from slotflow.signal.waveforms.single import time_factor

__all__ = ["QuadraticChirp"]

LARGEST_CURVATURE = 120.0
"""Curvature that is assumed possible where none is stated, in units of 1/T³: it bends a sweep by 15 bins."""


class QuadraticChirp(Chirp):
    """A sinusoid that sweeps along a parabola: a chirp, and the rate of change of its drift.

    Args:
        drift: Bounds of ḟ at mid-record in Hz/s, or text as the command line has it.
        curvature: Bounds of f̈ in Hz/s², or text.
        law: "uniform" or "loguniform", of both.
    """

    name = "quadratic"
    parameters: tuple[Parameter, ...] = (*Chirp.parameters, Parameter("curvature", "f̈", "Hz/s²"))
    shape: tuple[str, ...] = (*Chirp.shape, "curvature")

    def __init__(
        self, drift: Sequence[float] | str, curvature: Sequence[float] | str, law: str = "uniform"
    ) -> None:
        super().__init__(drift, law)
        self.ranges = {**self.ranges, "curvature": Range.checked("curvature", curvature, law)}

    @classmethod
    def suggested(cls, duration: float, share: float = 1.0) -> Mapping[str, str]:
        """A chirp's drifts, and curvatures of up to a share of `LARGEST_CURVATURE`."""
        bound = share * LARGEST_CURVATURE / duration**3
        return {**super().suggested(duration, share), "curvature": f"{-bound!r}:{bound!r}"}

    def turn_weights(self, reference: float) -> tuple[float, ...]:
        """A chirp's, and ((t − τ)³ + τ³)/6 for f̈."""
        tau = reference if self.tau is None else self.tau
        return (*super().turn_weights(reference), ((reference - tau) ** 3 + tau**3) / 6)

    def exponents(self, t: Any) -> Any:
        """2πiu, πiu² and πiu³/3, (3, 1, N)."""
        turn = 1j * math.pi
        return time_factor([2 * turn * t, turn * t**2, turn / 3 * t**3])

    def scales(self, duration: float) -> tuple[float, ...]:
        """A chirp's, and 30/T³ in Hz/s²."""
        return (*super().scales(duration), 30 / duration**3)

    def occupied(self, band: tuple[float, float], duration: float) -> list[tuple[float, float]]:
        """What a chirp occupies, and what the parabola leaves of it within half a record."""
        curvature = self.ranges["curvature"]
        bend = 0.125 * duration**2
        below, above = min(bend * curvature.low, 0.0), max(bend * curvature.high, 0.0)
        return [(low + below, high + above) for low, high in super().occupied(band, duration)]

    def search_axes(self, duration: float) -> tuple[Array, ...]:
        """A chirp's, and curvatures about a bin apart."""
        step = SEARCH_STEP * self.scales(duration)[2]
        return (*super().search_axes(duration), self.ranges["curvature"].steps(step))

    def dilution(self, duration: float) -> float:
        """√(bins over which a sweep spreads), or 1."""
        curvature = self.ranges["curvature"]
        bend = max(abs(curvature.low), abs(curvature.high)) * duration**3 / 8
        return math.sqrt(super().dilution(duration) ** 2 + bend)
