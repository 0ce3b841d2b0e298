"""What was assumed of an observation, and where each assumption comes from: part of every result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotflow.core.fields import plain
from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.data.preprocess import Band
from slotflow.signal.prior import Prior

__all__ = ["DATA", "MODEL", "PARTS", "STATED", "WEAK", "Assumed"]

STATED, DATA, MODEL, WEAK = "stated", "the data", "the model", "weak"
"""Where an assumption comes from: the user, the data, the network's own prior, or the wish to assume little."""


PARTS = ("frequency", "amplitude", "min_separation", "sigma", "k")
"""Parts of a prior that come from somewhere, by the names of its fields; k for p(K)."""


@dataclass(frozen=True)
class Assumed:
    """The prior of a result and where its parts come from."""

    prior: Prior
    """What was assumed beforehand."""
    duration: float
    """Length T of the long stream in seconds; 1/T is a bin."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """For frequency, amplitude, min_separation, sigma and k: `STATED`, `DATA`, `MODEL` or `WEAK`."""
    band: Band | None = None
    """The band that was proposed, where the data decided on it."""
    in_windows: bool = False
    """Whether the band was analysed in several windows; p(K) of the prior is then that of each window."""
    warnings: tuple[str, ...] = ()
    """What speaks against the assumptions, in words."""

    @classmethod
    def stated(cls, prior: Prior, duration: float) -> Assumed:
        """A prior that the user states as a whole, for a long stream of some seconds."""
        return cls(prior, duration, dict.fromkeys(PARTS, STATED))

    @property
    def bins(self) -> float:
        """Width of the band in bins of 1/T."""
        low, high = self.prior.frequency
        return (high - low) * self.duration

    def lines(self, levels: Sequence[float | None] = (), unit: FrequencyUnit = HERTZ) -> list[str]:
        """The band and the prior, in words, one line each.

        Args:
            levels: Known noise level of each stream, to be named where they differ.
            unit: Of the frequencies.
        """
        prior, bin_width = self.prior, 1 / self.duration
        (low, high), (smallest, largest) = prior.frequency, prior.amplitude
        each = " in each window" if self.in_windows else ""
        law = "" if prior.amplitude_law == "uniform" else f", {prior.amplitude_law}"
        separation = "no minimum separation"
        if prior.min_separation > 0:
            bins = prior.min_separation * self.duration
            separation = f"separation >= {unit.text(prior.min_separation, 4)} ({bins:.3g} bins)"
        return [
            f"band   {unit.span(low, high, 9)}, {self.bins:.4g} bins of 1/T = "
            f"{unit.text(bin_width, 4)}{self._band_source(unit)}",
            f"prior  K = {prior.k_min}..{prior.k_max}{each}, A in {smallest:g}–{largest:g}{law}"
            f"{self._from_data('amplitude')}, {separation}, {self._noise_words(levels)}",
        ]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.warnings])

    def record(self) -> dict[str, Any]:
        """The same as plain values."""
        found = None if self.band is None else {"name": self.band.name, **self.band._asdict()}
        return {
            "bin": 1 / self.duration,
            "band_bins": self.bins,
            "band_from": self.sources.get("frequency", ""),
            "amplitude_from": self.sources.get("amplitude", ""),
            "separation_from": self.sources.get("min_separation", ""),
            "sigma_from": self.sources.get("sigma", ""),
            "k_from": self.sources.get("k", ""),
            "proposed": found,
            "prior": plain(dataclasses.asdict(self.prior)),
            "in_windows": self.in_windows,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Assumed:
        """What `record` gave, read from a file."""
        bounds = ("amplitude", "frequency", "sigma", "k_probs")
        fields: dict[str, Any] = {
            name: tuple(value) if name in bounds and value is not None else value
            for name, value in record["prior"].items()
        }
        names = {
            "frequency": "band_from",
            "amplitude": "amplitude_from",
            "min_separation": "separation_from",
            "sigma": "sigma_from",
            "k": "k_from",
        }
        band = record["proposed"]
        found = None if band is None else Band(**{name: band[name] for name in Band._fields})
        return cls(
            Prior(**fields),
            1 / record["bin"],
            {name: record[key] for name, key in names.items()},
            found,
            record["in_windows"],
            tuple(record["warnings"]),
        )

    def _from_data(self, name: str) -> str:
        """Says that bounds come from the data, if they do."""
        return " (from the data)" if self.sources.get(name) == DATA else ""

    def _noise_words(self, levels: Sequence[float | None]) -> str:
        """What is assumed of the noise level."""
        low, high = self.prior.sigma
        if low == high:
            others = [level for level in levels[1:] if level is not None and level != levels[0]]
            more = "".join(f", {level:.6g} in the short stream" for level in others)
            return f"σ = {low:.6g} (known{more})"
        return f"σ in {low:.4g}–{high:.4g}{self._from_data('sigma')}"

    def _band_source(self, unit: FrequencyUnit) -> str:
        """Where the band comes from, if the user did not state it."""
        if self.band is None:
            return ", the model's own" if self.sources.get("frequency") == MODEL else ""
        found = f"which holds the strongest peak, at {unit.text(self.band.peak)}"
        if not self.band.significant:
            found = "although no peak stands out of the noise"
        name = self.band.name
        if unit.name != HERTZ.name:
            low, high = (f"{edge * unit.factor:.4g}" for edge in self.prior.frequency)
            name = f"{low}:{high}{unit.name.removeprefix('1')}"
        return f", proposed: --band {name}, {found}"
