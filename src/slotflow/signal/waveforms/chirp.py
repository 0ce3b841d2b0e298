r"""A chirp: a sinusoid whose frequency drifts at a constant rate, f(t) = f + ḟ (t − τ).

f is the frequency at the reference time τ, the middle of the record, where f and ḟ are uncorrelated:

.. math:: m(t) = A \cos Φ(t), \qquad Φ(t) = φ + 2π\,[f t + \tfrac12 ḟ\,((t - τ)^2 - τ^2)] ,

so that Φ(0) = φ and Φ(τ) = φ + 2πfτ − πḟτ². In u = t − τ, b = e^{2πi(fu + ḟu²/2)}. Over a record of the length T a
drift of 4/T² makes the frequency move by four bins; that is its bin here, since a quadratic phase of ±π/2 at the ends
of the record is about the least that can be seen at a modest signal-to-noise ratio.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from slotflow.core.arrays import Array
from slotflow.signal.waveforms.base import Parameter
from slotflow.signal.waveforms.ranges import Range
from slotflow.signal.waveforms.single import (
    AMPLITUDE,
    FREQUENCY,
    PHASE,
    SingleAmplitude,
    time_factor,
)

__all__ = ["Chirp"]

LARGEST_DRIFT = 30.0
"""Drift that is assumed possible where none is stated, in units of 1/T²: it carries a chirp over 30 bins."""
SEARCH_STEP = 0.75
"""Distance of the drifts that a search tries, in units of a drift's bin."""


class Chirp(SingleAmplitude):
    """A sinusoid that drifts: amplitude, phase at t = 0, frequency at mid-record and its rate of change.

    Args:
        drift: Bounds of ḟ in Hz/s, or text as the command line has it.
        law: "uniform" or "loguniform".
    """

    name = "chirp"
    parameters: tuple[Parameter, ...] = (
        AMPLITUDE,
        PHASE,
        FREQUENCY,
        Parameter("drift", "ḟ", "Hz/s"),
    )
    shape: tuple[str, ...] = ("frequency", "drift")

    def __init__(self, drift: Sequence[float] | str, law: str = "uniform") -> None:
        self.ranges = {"drift": Range.checked("drift", drift, law)}

    @classmethod
    def suggested(cls, duration: float, share: float = 1.0) -> Mapping[str, str]:
        """Drifts of up to a share of `LARGEST_DRIFT` bins."""
        drift = share * LARGEST_DRIFT / duration**2
        return {"drift": f"{-drift!r}:{drift!r}"}

    def on(self, start: float, reference: float) -> Self:
        """The same with its frequency known to refer to τ."""
        settled = copy.copy(self)
        settled.tau = reference
        return settled

    def turn_weights(self, reference: float) -> tuple[float, ...]:
        """Turns from t = 0 to an instant t by f and ḟ: t and ((t − τ)² − τ²)/2; the instant is τ unless `on` said."""
        tau = reference if self.tau is None else self.tau
        return (reference, 0.5 * ((reference - tau) ** 2 - tau**2))

    def exponents(self, t: Any) -> Any:
        """2πiu and πiu², (2, 1, N)."""
        return time_factor([2j * math.pi * t, 1j * math.pi * t**2])

    def scales(self, duration: float) -> tuple[float, ...]:
        """1/T in Hz and 4/T² in Hz/s."""
        return (1 / duration, 4 / duration**2)

    def occupied(self, band: tuple[float, float], duration: float) -> list[tuple[float, float]]:
        """The band, and what drifts leave of it within half a record."""
        drift = self.ranges["drift"]
        reach = 0.5 * duration * max(abs(drift.low), abs(drift.high))
        return [(band[0] - reach, band[1] + reach)]

    def search_axes(self, duration: float) -> tuple[Array, ...]:
        """Drifts about a bin apart, at which the best of them loses a few per cent of a chirp's power."""
        return (self.ranges["drift"].steps(SEARCH_STEP * self.scales(duration)[1]),)

    def dilution(self, duration: float) -> float:
        """√(|ḟ|T²), over how many bins a chirp spreads, or 1."""
        drift = self.ranges["drift"]
        return max(math.sqrt(max(abs(drift.low), abs(drift.high))) * duration, 1.0)
