"""What a result says of the noise: which kind was assumed and why, its level, and its shape with their posterior.

The level σ is that of the first channel after whitening, the one that `Prior.sigma` speaks of. What one compares with
a picture of the spectrum is `in_band`, the level per sample of white noise that has the same power density in the
middle of the band: σ/|g(f)| for a whitening filter of the gain g, and σ itself where the noise is white.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from slotflow.core.units import HERTZ, FrequencyUnit

__all__ = ["Estimate", "NoiseFacts", "ShapeNode"]

FREQUENCIES = ("knee",)
"""Unknowns of the shape that are in Hz."""


class Estimate(NamedTuple):
    """A number with its posterior standard deviation."""

    mean: float
    """Posterior mean."""
    sd: float
    """Posterior standard deviation; NaN where it is not known, 0 where the number was stated."""

    def __str__(self) -> str:
        if not self.sd > 0:
            return f"{self.mean:.4g}"
        digits = max(0, 1 - math.floor(math.log10(self.sd)))
        if digits > 6 or abs(self.mean) >= 1e6:
            return f"{self.mean:.4g} ± {self.sd:.2g}"
        return f"{self.mean:.{digits}f} ± {self.sd:.{digits}f}"


class ShapeNode(NamedTuple):
    """One value of the shape's parameters, and its posterior probability."""

    values: tuple[float, ...]
    """In the order of `NoiseFacts.shape`."""
    probability: float
    """p(node | x), over all K."""


@dataclass(frozen=True)
class NoiseFacts:
    """The noise of a result."""

    name: str
    """"white", "local", "ar(2)", "power_law", "psd"."""
    level: Estimate
    """σ of the first channel after whitening, in the data's unit."""
    in_band: Estimate
    """Level per sample of white noise of the same density in the middle of the band."""
    words: str = ""
    """Why this noise was assumed."""
    parameters: tuple[str, ...] = ()
    """Names of the unknowns of the shape."""
    nodes: tuple[ShapeNode, ...] = ()
    """Values of those unknowns that were compared, with their posterior probabilities; empty where there are none."""
    channels: tuple[tuple[str, float], ...] = ()
    """Name of each channel and its noise level over that of the first."""
    known: bool = False
    """Whether the level was stated."""

    @property
    def shape(self) -> dict[str, Estimate]:
        """Posterior mean and standard deviation of each unknown of the shape."""
        found = {}
        for i, name in enumerate(self.parameters):
            mean = sum(node.probability * node.values[i] for node in self.nodes)
            square = sum(node.probability * (node.values[i] - mean) ** 2 for node in self.nodes)
            found[name] = Estimate(mean, math.sqrt(square))
        return found

    def shape_in(self, unit: FrequencyUnit = HERTZ) -> dict[str, str]:
        """Each unknown of the shape in words, frequencies in a unit: {"knee": "0.31 ± 0.02 1/yr"}."""
        found = {}
        for name, value in self.shape.items():
            if name in FREQUENCIES:
                scaled = Estimate(unit.factor * value.mean, unit.factor * value.sd)
                found[name] = f"{scaled} {unit.name}"
            else:
                found[name] = str(value)
        return found

    def __str__(self) -> str:
        level = f"{self.level} (known)" if self.known else str(self.level)
        parts = [self.name, f"level {level}"]
        if self.name != "white" and math.isfinite(self.in_band.mean):
            parts.append(f"{self.in_band} in the band")
        parts += [f"{name} {value}" for name, value in self.shape_in().items()]
        parts += [f"{name} × {ratio:.4g}" for name, ratio in self.channels[1:] if ratio != 1]
        return ", ".join(parts) + (f" ({self.words})" if self.words else "")

    def __repr__(self) -> str:
        return f"NoiseFacts({self})"

    def record(self) -> dict[str, Any]:
        """The same as plain values."""
        shape = {name: value._asdict() for name, value in self.shape.items()}
        facts = asdict(self) | {
            "level": self.level._asdict(),
            "in_band": self.in_band._asdict(),
            "nodes": [node._asdict() for node in self.nodes],
        }
        return facts | {"shape": shape}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> NoiseFacts:
        """What `record` gave, read from a file."""
        return cls(
            str(record["name"]),
            Estimate(**record["level"]),
            Estimate(**record["in_band"]),
            str(record["words"]),
            tuple(record["parameters"]),
            tuple(ShapeNode(tuple(n["values"]), n["probability"]) for n in record["nodes"]),
            tuple((str(name), float(ratio)) for name, ratio in record["channels"]),
            bool(record["known"]),
        )
