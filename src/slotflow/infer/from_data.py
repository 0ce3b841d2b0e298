r"""Bounds of amplitude and noise level that contain what the data show, and nothing that they cannot know.

**Noise.** σ is at least 0. It is at most the root mean square of the series without offset and trend, or three times
the level outside the band where that is more (`slotflow.data.noise_level`).

**Amplitudes.** The highest peak of the amplitude spectrum in the band decides: the peak of a lone tone is as high as
its amplitude. Tones closer than a bin may partly cancel, so the upper bound is twice that peak, or 8.5 times the noise
of an amplitude, σ√(2/N) for N samples, where nothing stands out. The lower bound is the weakest tone that stands out of
the noise, 5 σ√(2/N). Two spectra are looked at: one weighted by a Hann window, into which an offset or a tone outside
the band leaks little, and one without a window, which keeps close tones apart.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.preprocess import describe
from slotflow.data.trend import without_line

__all__ = ["amplitude_bounds", "noise_scale", "sigma_bounds"]

Bounds = tuple[float, float]

ABOVE_PEAK = 2.0
"""Upper bound of the amplitudes over the highest peak."""
STANDS_OUT, SMALLEST_UPPER = 5.0, 8.5
"""In units of the noise of an amplitude: the weakest tone that stands out, and the smallest upper bound."""
ABOVE_LEVEL = 3.0
"""Upper bound of σ over the level outside the band."""
SMALLEST_RATIO = 1e-4
"""Smallest lower bound of the amplitudes over the upper one: weaker tones drown in what a window leaks."""


def noise_scale(observation: Observation, band: Bounds) -> tuple[float, float]:
    """Noise level and root mean square of the long stream, its offset and trend aside.

    Args:
        observation: The data.
        band: Frequencies in Hz that may hold tones; the noise is measured outside, or from the median of the whole
            spectrum where too little lies outside.
    """
    rest = without_line(observation.long).values
    scale = float(np.abs(rest).max()) or 1.0
    rms = scale * float(np.sqrt(np.mean((rest / scale) ** 2)))
    level, _ = observation.noise_level(band)
    if math.isnan(level):
        level = describe(observation.long).noise
    return min(level, rms), rms


def sigma_bounds(level: float, rms: float) -> Bounds:
    """Bounds of σ for what `noise_scale` gives."""
    return 0.0, _two_digits(max(ABOVE_LEVEL * level, rms))


def amplitude_bounds(
    observation: Observation, band: Bounds, level: float, smallest_ratio: float = SMALLEST_RATIO
) -> Bounds:
    """Bounds of A.

    Args:
        observation: The data.
        band: Frequencies in Hz that may hold tones.
        level: Noise level of the long stream.
        smallest_ratio: The lower bound is no smaller share of the upper one.
    """
    noise = level * math.sqrt(2 / observation.long.n)
    peak = _highest_peak(observation.long, band)
    upper = _two_digits(max(ABOVE_PEAK * peak, SMALLEST_UPPER * noise))
    return _two_digits(max(STANDS_OUT * noise, smallest_ratio * upper)), upper


def _highest_peak(channel: Channel, band: Bounds) -> float:
    """Amplitude of the highest peak in a band, with and without a window."""
    rest = without_line(channel).values
    scale = float(np.abs(rest).max()) or 1.0  # no square of anything overflows
    low, high = (round(2 * edge * channel.duration) for edge in band)  # half bins
    peak = 0.0
    for window in (np.ones(channel.n), np.hanning(channel.n + 2)[1:-1]):
        spectrum = np.abs(np.fft.rfft(window * (rest / scale), 2 * channel.n))
        found = float(spectrum[low : high + 1].max(initial=0.0))
        peak = max(peak, scale * 2 * found / float(window.sum()))
    return peak


def _two_digits(value: float) -> float:
    """A positive number rounded up to two significant digits."""
    place = math.floor(math.log10(value)) - 1
    digits = math.ceil(value / 10.0**place - 1e-9)
    return float(f"{digits}e{place}")
