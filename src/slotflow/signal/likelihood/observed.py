"""Which likelihood an observation takes: the fast one for even white data, the general one for anything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from slotflow.data.observation import Observation
from slotflow.signal.likelihood.free_gains import FreeGains
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.statistics import Statistics
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode

__all__ = ["FEWEST_CYCLES", "likelihood_of"]

FEWEST_CYCLES = 20.0
"""Cycles of the band's lowest frequency in a record from which on tones do not see an offset."""


def likelihood_of(
    observation: Observation, noise: NoiseModel | None, band: tuple[float, float]
) -> Statistics | GeneralTones:
    """The likelihood of tones in an observation.

    Args:
        observation: What was measured; an offset of a plain series must have been subtracted before, unless the band
            begins so low that tones see it.
        noise: What is assumed of the noise; white where it is None.
        band: Lowest and highest frequency in Hz that tones may have.
    """
    if noise is None:
        noise = NoiseModel("white", (NoiseNode(tuple(_known_ratios(observation))),))
    long = observation.long
    offset = band[0] * long.duration < FEWEST_CYCLES and any(
        c.trend >= 0 for c in observation.channels
    )
    if noise.is_white and observation.is_plain and not offset:
        return Statistics.from_observation(observation)
    longest = [
        max(len(node.channels[s].taps) for node in noise.nodes)
        for s in range(len(observation.channels))
    ]
    kind = FreeGains if observation.free_names else GeneralTones
    found = [kind(observation, _padded(node, longest), band, noise.local) for node in noise.nodes]
    if found[0].n < 1:
        raise ValueError(
            f"expected more samples than there are offsets and trends, which are marginalized, received {long.n:,} "
            "samples of which these leave nothing; state fewer segments or a lower trend."
        )
    found[0].nodes = tuple(found[1:])
    return found[0]


def _known_ratios(observation: Observation) -> list[ChannelNoise]:
    """White noise of each channel, at the levels that the channels know, in units of the first one's."""
    levels = [channel.sigma for channel in observation.channels]
    first = levels[0]
    return [
        ChannelNoise(ratio=1.0 if level is None or first is None else level / first)
        for level in levels
    ]


def _padded(node: NoiseNode, lengths: list[int]) -> NoiseNode:
    """The same with taps of given lengths: all values of the shape are then judged by the same samples."""
    channels = []
    for channel, length in zip(node.channels, lengths, strict=True):
        taps: Any = np.zeros(length, dtype=channel.taps.dtype)
        taps[: len(channel.taps)] = channel.taps
        channels.append(replace(channel, taps=taps))
    return replace(node, channels=tuple(channels))
