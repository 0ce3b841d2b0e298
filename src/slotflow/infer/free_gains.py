"""What is assumed of channels of a free gain: their noise levels, their amplitudes, and how wide a band may be.

The likelihood integrates one noise level out, that of the first channel, and takes the others in units of it. Channels
whose response is unknown may count in other units, so that levels that are not stated are estimated before the
analysis. So are the bounds of the amplitudes in each free channel, where the prior's come from the data; the lower one
is then 0 in every channel, since a tone that one sensor sees another may not.
"""

from __future__ import annotations

from dataclasses import replace

from slotflow.data.gain import FreeGain
from slotflow.data.observation import Observation
from slotflow.infer.from_data import scales_of
from slotflow.infer.request import with_channels
from slotflow.signal.likelihood import FreeGains
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.noise.versions import measured_level
from slotflow.signal.prior import Prior

__all__ = ["WIDEST", "check_width", "known_part", "with_amplitudes", "with_levels"]

Bounds = tuple[float, float]

WIDEST = 2000
"""Widest band in bins of 1/T in which channels of a free gain are analysed."""


def known_part(likelihood: GeneralTones) -> GeneralTones:
    """The likelihood of the channels of a known gain, which sizes of noise and amplitudes are read from."""
    return likelihood.blocks[0] if isinstance(likelihood, FreeGains) else likelihood


def with_levels(observation: Observation) -> Observation:
    """The same with noise levels of all channels, estimated where one of a free gain has none."""
    channels = observation.channels
    if all(c.sigma is not None for c in (channels[0], *(c for c in channels if c.has_free_gain))):
        return observation
    return with_channels(observation, [replace(c, sigma=measured_level(c)) for c in channels])


def with_amplitudes(
    observation: Observation, likelihood: FreeGains, prior: Prior
) -> tuple[Observation, Prior]:
    """Bounds of all amplitudes from what each channel shows; those that a free channel has are kept.

    Args:
        observation: The data.
        likelihood: Of all amplitudes, which gets the same bounds.
        prior: With bounds from the data.

    Returns:
        The data and the prior with the bounds.
    """
    invisible = prior.amplitude_law == "uniform"  # 0 has no logarithm
    blocks, channels = iter(likelihood.blocks[1:]), []
    for channel in observation.channels:
        if isinstance(channel.gain, FreeGain):
            block = next(blocks)
            if channel.gain.amplitude is None:
                low, high = scales_of(block, prior.frequency).amplitude()
                channel = replace(channel, gain=FreeGain((0.0 if invisible else low, high)))
        channels.append(channel)
    found = with_channels(observation, channels)
    for one in (likelihood, *likelihood.nodes):
        assert isinstance(one, FreeGains)
        one.observation = found
    low, high = prior.amplitude
    return found, replace(prior, amplitude=(0.0 if invisible else low, high))


def check_width(observation: Observation, band: Bounds) -> None:
    """Refuses a band that is too wide for one analysis of channels of a free gain: windows do not know them."""
    bins = (band[1] - band[0]) * observation.long.duration
    if observation.free_names and bins > WIDEST:
        raise ValueError(
            f"channels of a free gain ({', '.join(observation.free_names)}) are analysed in one window, expected a "
            f"band of at most {WIDEST} bins of 1/T, received {bins:.0f}; narrow it (the prior's frequency, on the "
            "command line --band F_LO:F_HI)."
        )
