"""The prior of amplitudes in channels of a free gain: the law of all amplitudes, between a channel's own bounds."""

from __future__ import annotations

import math

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.data.gain import FreeGain
from slotflow.data.observation import Observation
from slotflow.signal.prior import Prior
from slotflow.signal.prior_draws import amplitudes_at
from slotflow.signal.waveforms import TONE, GainTone

__all__ = ["check_tones", "free_bounds", "with_free_amplitudes"]


def free_bounds(observation: Observation, prior: Prior) -> list[tuple[float, float]]:
    """Bounds of the amplitudes in each channel of a free gain: its own, or the prior's."""
    gains = [c.gain for c in observation.channels if isinstance(c.gain, FreeGain)]
    return [prior.amplitude if gain.amplitude is None else gain.amplitude for gain in gains]


def check_tones(observation: Observation, prior: Prior) -> None:
    """Refuses components other than tones in channels of a free gain."""
    if observation.free_names and prior.waveform != TONE:
        raise ValueError(
            f"channels of a free gain ({', '.join(observation.free_names)}) expect tones, received the waveform "
            f"{prior.waveform.text!r}; drop it, or give the channels known gains."
        )


def with_free_amplitudes(
    theta: Array, observation: Observation, prior: Prior, rng: np.random.Generator
) -> Array:
    """Tones, (..., K, 3), with amplitudes and phases in the free channels that are drawn from their prior, (..., K, P).

    Args:
        theta: The tones.
        observation: Whose channels count; without free ones the tones are returned as they are.
        prior: Gives the law, and the bounds where a channel has none.
        rng: Source of randomness.
    """
    if not observation.free_names:
        return theta
    check_tones(observation, prior)
    shape, found = theta.shape[:-1], []
    for bounds in free_bounds(observation, prior):
        u = torch.from_numpy(rng.random(shape))
        found.append(
            (amplitudes_at(bounds, prior.amplitude_law, u).numpy(), 2 * math.pi * rng.random(shape))
        )
    amplitudes, phases = (np.stack(columns, -1) for columns in zip(*found, strict=True))
    return GainTone(observation.free_names).with_free(theta, amplitudes, phases)
