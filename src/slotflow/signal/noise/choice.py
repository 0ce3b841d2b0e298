"""Which noise to assume: as stated, or by tests of the data.

`auto` means that the tests of `tested.py` decide, after a quick look that is enough for most series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slotflow.data.observation import Observation
from slotflow.signal.noise.ar import HIGHEST_ORDER, ar_noise, check_filters, evident_order
from slotflow.signal.noise.background import background_of
from slotflow.signal.noise.colour import looks_white
from slotflow.signal.noise.filters import taps_of_coefficients
from slotflow.signal.noise.local import LOCAL_ORDER, local_noise
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode
from slotflow.signal.noise.power_law import power_law_noise
from slotflow.signal.noise.psd import psd_noise
from slotflow.signal.noise.series import Series, series_of
from slotflow.signal.noise.stated import StatedNoise, parse_noise
from slotflow.signal.noise.tested import tested_noise
from slotflow.signal.noise.versions import known_ratios, red_versions_of, versions_of, white_noise

__all__ = ["choose_noise"]

Bounds = tuple[float, float]


def choose_noise(
    observation: Observation, stated: Any, band: Bounds, tones: Any = None
) -> NoiseModel:
    """The noise to be assumed in the analysis of a band.

    Args:
        observation: The data.
        stated: What `slotflow.noise` builds or its short form: "auto", "white", "local", "ar(2)", "power_law", …;
            or the noise itself.
        band: Lowest and highest frequency in Hz of what is looked for.
        tones: Components θ that were found, (K, P), if any; the noise is that of the data without them.
    """
    if isinstance(stated, NoiseModel):
        return stated
    noise = parse_noise(stated)
    if noise.kind == "white":
        return white_noise(observation, "white, as stated")
    channels = [series_of(channel, tones) for channel in observation.channels]
    if noise.kind == "psd":
        return psd_noise(channels, noise.densities, f"{noise.text}, as stated")
    if noise.kind == "auto" and all(looks_white(series, band) for series in channels):
        return white_noise(observation, "white: a quick look at the spectrum finds no colour")
    channels = _resolved(observation, channels)
    if noise.kind == "ar":
        return _stated_ar(channels, noise)
    if noise.kind == "power_law":
        backgrounds = [background_of(series, LOCAL_ORDER) for series in channels]
        return power_law_noise(
            red_versions_of(backgrounds), f"{noise.text}, as stated", noise.shape
        )
    if noise.kind == "local":
        backgrounds = [background_of(series, LOCAL_ORDER) for series in channels]
        return local_noise(backgrounds, band, known_ratios(observation), "local, as stated")
    return tested_noise(observation, channels, band)


def _resolved(observation: Observation, channels: Sequence[Series]) -> list[Series]:
    """The channels, all but the first without the lines that the first one shows, where their gain is known.

    A shorter channel does not tell tones of the band from slow drifts.
    """
    if len(channels) == 1:
        return list(channels)
    long, lines = observation.long, background_of(channels[0], LOCAL_ORDER).lines
    found = [channels[0]]
    for channel, series in zip(observation.channels[1:], channels[1:], strict=True):
        for line in () if channel.has_free_gain else lines:
            values = channel.factor / long.factor * line.values(series.times - long.mid_time)
            series = series.less(values if series.is_complex else values.real)
        found.append(series)
    return found


def _stated_ar(channels: Sequence[Series], noise: StatedNoise) -> NoiseModel:
    """Autoregressive noise of a stated order, of known coefficients, or of the order with the most evidence."""
    check_filters(channels, f"{noise.text} noise")
    if noise.coefficients:
        taps = taps_of_coefficients(noise.coefficients)
        node = NoiseNode(tuple(ChannelNoise(taps) for _ in channels))
        return NoiseModel(f"ar({len(taps) - 1})", (node,), words=f"{noise.text}, as stated")
    backgrounds = [
        background_of(series, max(noise.order or 0, HIGHEST_ORDER)) for series in channels
    ]
    versions = versions_of(backgrounds)
    order, words = noise.order, f"{noise.text}, as stated"
    if order is None:
        order = max(evident_order(versions[0]), 1)
        words = f"ar, as stated; order {order} has the most evidence"
    return ar_noise(versions, order, words)
