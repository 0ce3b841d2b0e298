r"""A harmonic series: a periodic signal, tones at f, 2f, …, mf with amplitudes and phases of their own.

.. math:: m(t) = \sum_{j=1}^{m} A_j \cos(2π j f t + φ_j)

f is the fundamental; the prior's law of amplitudes holds for each A_j. The columns of θ are (A, φ, f, A_2, φ_2, …,
A_m, φ_m), so that the first three are those of a tone. Where m is unknown, `Harmonic.up_to` makes each number a class
of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slotflow.core.arrays import namespace
from slotflow.signal.waveforms.base import Waveform
from slotflow.signal.waveforms.classes import Classes
from slotflow.signal.waveforms.several import SeveralAmplitudes, further_amplitudes
from slotflow.signal.waveforms.single import AMPLITUDE, FREQUENCY, PHASE

__all__ = ["Harmonic"]

USUAL_HARMONICS = 4
"""Harmonics that are assumed where their number is not stated."""
MOST_HARMONICS = 32
"""More harmonics than this are refused."""


class Harmonic(SeveralAmplitudes):
    """A fundamental with its multiples.

    Args:
        harmonics: m, how many tones there are, the fundamental among them.
    """

    name = "harmonic"
    shape = ("frequency",)

    def __init__(self, harmonics: int | str = USUAL_HARMONICS) -> None:
        try:
            number = int(harmonics)
            whole = number == float(harmonics)
        except (TypeError, ValueError):
            number, whole = 0, False
        if not whole or not 1 <= number <= MOST_HARMONICS:
            raise ValueError(
                f"Harmonic expects a whole number of harmonics from 1 to {MOST_HARMONICS}, received {harmonics!r}."
            )
        self.amplitudes = number
        self.parameters = (AMPLITUDE, PHASE, FREQUENCY, *further_amplitudes(number))

    @classmethod
    def of_settings(cls, **settings: Any) -> Waveform:
        """A series of a given number of harmonics, or of at most as many as the setting `most` says."""
        return cls.up_to(**settings) if "most" in settings else cls(**settings)

    @classmethod
    def suggested(cls, duration: float, share: float = 1.0) -> Mapping[str, str]:
        """A share of `USUAL_HARMONICS`."""
        return {"harmonics": str(max(round(share * USUAL_HARMONICS), 1))}

    @classmethod
    def replaces(cls, setting: str) -> str:
        """A largest number, and a least one, take the place of the number."""
        return "harmonics" if setting in ("most", "least") else setting

    @staticmethod
    def up_to(most: int | str, least: int | str = 1) -> Waveform:
        """Harmonic series of an unknown number of harmonics: classes m1, m2, …, whose probabilities are those of m.

        Each number is as probable as the others a priori, and the evidence decides.

        Args:
            most: The largest number of harmonics.
            least: The smallest one.
        """
        last, first = Harmonic(most).amplitudes, Harmonic(least).amplitudes
        if first >= last:
            raise ValueError(
                f"Harmonic.up_to expects a largest number of harmonics above the least one, {first}, received {most!r}."
            )
        return Classes(**{f"m{j}": Harmonic(j) for j in range(first, last + 1)})

    @property
    def settings(self) -> Mapping[str, str]:
        """The number of harmonics."""
        return {"harmonics": str(self.amplitudes)}

    def turn_weights(self, reference: float) -> tuple[tuple[float, ...], ...]:
        """jτ for the j-th harmonic, (M, 1)."""
        return tuple((j * reference,) for j in range(1, self.amplitudes + 1))

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
