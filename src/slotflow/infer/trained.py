"""What priors a network has been trained under, and what to say of others."""

from __future__ import annotations

from functools import lru_cache

from slotflow.data.observation import Observation
from slotflow.network.config import Config, preset_names
from slotflow.network.model import SlotFlow
from slotflow.signal.mixture import PriorMixture
from slotflow.signal.prior import Prior

__all__ = ["smallest_ratio", "untrained"]

TOLERANCE = 0.01
"""Share by which a prior may lie outside those of the training without a word."""


def _mixture(model: SlotFlow) -> PriorMixture | None:
    """The priors of the training, if the preset of the model's name is one that varies them."""
    return _preset_mixture(model.config.name)


@lru_cache
def _preset_mixture(name: str) -> PriorMixture | None:
    """The priors of a preset, if there is one of the name; its file is read once."""
    return Config.from_preset(name).mixture if name in preset_names() else None


def _ratios(model: SlotFlow) -> tuple[float, float]:
    """Smallest and largest lower bound of A over the upper one in the training."""
    low, high = model.config.prior.amplitude
    mixture = _mixture(model)
    parts = () if mixture is None else mixture.parts
    ratios = [edge / high for part in parts for edge in part.amplitude_low] or [low / high]
    return min(ratios), max(ratios)


def smallest_ratio(model: SlotFlow) -> float:
    """Smallest lower bound of A over the upper one that the network was trained for."""
    return _ratios(model)[0]


def untrained(model: SlotFlow, observation: Observation, prior: Prior) -> list[str]:
    """What to say of a prior outside those of the training, under which the network's answers are not evaluated."""
    mixture = _mixture(model)
    if mixture is None or model.widest_band is None:
        return []
    own, duration = model.config.prior, model.config.long.duration
    lowest, highest = _ratios(model)
    found = []
    ratio = prior.amplitude[0] / prior.amplitude[1]
    if not (1 - TOLERANCE) * lowest <= ratio <= (1 + TOLERANCE) * highest:
        found.append(
            f"lower bounds of A from {lowest:.3g} to {highest:.3g} times the upper one, received {ratio:.3g} times; "
            "state other bounds (--amplitude)"
        )
    bins = (own.frequency[1] - own.frequency[0]) * duration
    narrowest = bins * min(part.width[0] for part in mixture.parts)
    width = (prior.frequency[1] - prior.frequency[0]) * observation.long.duration
    if width < (1 - TOLERANCE) * narrowest:
        found.append(
            f"bands of {narrowest:.3g} bins and more, received {width:.3g}; widen the band (--band)"
        )
    widest_gap = duration * max(part.min_separation[1] for part in mixture.parts)
    separation = prior.min_separation * observation.long.duration
    if separation > (1 + TOLERANCE) * widest_gap:
        found.append(
            f"separations of up to {widest_gap:.3g} bins, received {separation:.3g}; lower the separation "
            "(--min-separation)"
        )
    return [f"the network was trained for {text}, or take its count with care" for text in found]
