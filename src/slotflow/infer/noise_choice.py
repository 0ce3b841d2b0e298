"""Which noise to assume."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from slotflow.data.observation import Observation
from slotflow.signal.noise.model import NoiseModel

__all__ = ["choose_noise"]


def choose_noise(
    observation: Observation, stated: Any, band: tuple[float, float], tones: Any = None
) -> NoiseModel:
    """The noise that is stated, or that a test of the data asks for."""
    if find_spec("slotflow.signal.noise.choice") is not None:
        chosen: NoiseModel = import_module("slotflow.signal.noise.choice").choose_noise(
            observation, stated, band, tones
        )
        return chosen
    return NoiseModel.white(len(observation.channels))
