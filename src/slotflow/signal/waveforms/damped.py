r"""A damped tone: a sinusoid that decays from the beginning of the record, m(t) = A e^{−γ(t − t_0)} cos(2πft + φ).

A is the amplitude at the first sample t_0, φ the phase at t = 0 (as a tone's), γ > 0 the rate of decay in 1/s; 1/γ is
the decay time and γ/π the full width of the line at half its power, in Hz. Most of its power is near t_0, and so is the
instant at which its phase is known best; hence c refers to t_0 instead of τ: in u = t − τ,

.. math:: b = e^{(2πif - γ)(u + τ - t_0)} , \qquad c = A e^{i(φ + 2πft_0)} ,

with τ − t_0 the `lead`, which `on` takes from the record. Its bin in γ is that of an angular frequency, 2/T.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

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

__all__ = ["Damped"]

SLOWEST_DECAY, FASTEST_DECAY = 1.0, 30.0
"""Rates that are assumed possible where none are stated, in units of 1/T: from hardly at all to a thirtieth of T."""
SEARCH_RATIO = 1.6
"""Ratio of the rates that a search tries."""
LINE_WIDTHS = 0.5
"""How far a line reaches beyond its frequency in Hz, in units of γ: about three of its half-widths γ/2π."""


class Damped(SingleAmplitude):
    """A sinusoid that decays: amplitude at the first sample, phase at t = 0, frequency and rate of decay.

    Args:
        rate: Bounds of γ in 1/s, or text as the command line has it; or None where `time` is given.
        law: "uniform" or "loguniform".
        time: Bounds of the decay time 1/γ in seconds, with a law that is log-uniform, the same for γ and 1/γ.
    """

    name = "damped"
    parameters = (AMPLITUDE, PHASE, FREQUENCY, Parameter("rate", "γ", "1/s"))
    shape = ("frequency", "rate")
    positive = ("rate",)
    lead: float = 0.0
    """τ − t_0, in seconds."""

    def __init__(
        self,
        rate: Sequence[float] | str | None = None,
        law: str = "uniform",
        time: Sequence[float] | str | None = None,
    ) -> None:
        if (rate is None) == (time is None):
            raise ValueError(
                "Damped expects the rate of decay in 1/s or the decay time in seconds, received "
                f"{'neither' if rate is None else 'both'}; give one, as in Damped(rate=(0.01, 0.2))."
            )
        if time is not None:
            span = Range.checked("time", time, "loguniform", least=0.0)
            self.ranges = {"rate": Range(1 / span.high, 1 / span.low, "loguniform")}
            return
        assert rate is not None
        self.ranges = {"rate": Range.checked("rate", rate, law, least=0.0)}

    @classmethod
    def suggested(cls, duration: float, share: float = 1.0) -> Mapping[str, str]:
        """Rates from `SLOWEST_DECAY` to a share of `FASTEST_DECAY`, log-uniform."""
        slow, fast = SLOWEST_DECAY / duration, share * FASTEST_DECAY / duration
        return {"rate": f"{slow!r}:{fast!r}:loguniform"}

    @classmethod
    def replaces(cls, setting: str) -> str:
        """A decay time takes the place of the rate."""
        return "rate" if setting == "time" else setting

    def on(self, start: float, reference: float) -> Self:
        """The same with its decay beginning at the first sample."""
        settled = copy.copy(self)
        settled.lead, settled.tau = reference - start, reference
        return settled

    def turn_weights(self, reference: float) -> tuple[float, ...]:
        """The first sample t_0, and 0 for γ."""
        return (reference - self.lead, 0.0)

    def exponents(self, t: Any) -> Any:
        """2πi and −1, times u + τ − t_0, (2, 1, N)."""
        since = t + self.lead
        return time_factor([2j * math.pi * since, -since + 0j])

    def size_of(self, xi: Array, duration: float) -> Array:
        """√((1 − e^{−2γT})/2γT)."""
        x = 2 * duration * np.maximum(xi[..., 1], 1e-9 / duration)
        return np.sqrt(-np.expm1(-x) / x)

    def breadth(self, xi: Array, duration: float) -> Array:
        """γ + 1/T."""
        broad: Array = np.maximum(xi[..., 1], 0.0) + 1 / duration
        return broad

    def scales(self, duration: float) -> tuple[float, ...]:
        """1/T in Hz and 2/T in 1/s."""
        return (1 / duration, 2 / duration)

    def occupied(self, band: tuple[float, float], duration: float) -> list[tuple[float, float]]:
        """The band and the wings of the broadest line."""
        reach = LINE_WIDTHS * self.ranges["rate"].high
        return [(band[0] - reach, band[1] + reach)]

    def search_axes(self, duration: float) -> tuple[Array, ...]:
        """Rates in a geometric series, since a line is the harder to tell from others the broader it is."""
        rate = self.ranges["rate"]
        low = max(rate.low, min(0.5 / duration, rate.high))
        steps = math.ceil(math.log(rate.high / low) / math.log(SEARCH_RATIO))
        return (np.geomspace(low, rate.high, max(steps + 1, 2)),)

    def of_pole(self, frequency: float, rate: float) -> Array | None:
        """Frequency and rate, (2,), the rate within its bounds."""
        law = self.ranges["rate"]
        return np.array([frequency, min(max(rate, law.low), law.high)])

    def dilution(self, duration: float) -> float:
        """γT of the broadest line, or 1."""
        return max(self.ranges["rate"].high * duration, 1.0)
