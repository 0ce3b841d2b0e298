r"""Bounds of amplitude and noise level that contain what the data show, and nothing that they cannot know.

**Noise.** σ is at least 0. It is at most the root mean square of the data without offset and trend, or three times the
noise level where that is more.

**Amplitudes.** The highest peak of the amplitude spectrum in the band decides: the peak of a lone tone is as high as
its amplitude. Tones closer than a bin may partly cancel, so the upper bound is twice that peak, or 8.5 times the noise
of an amplitude, σ√(2/N) for N samples, where nothing stands out. The lower bound is the weakest tone that stands out of
the noise, 5 σ√(2/N).

**Even, real, white data** (`plain_scales`). The level comes from outside the band (`slotflow.data.noise_level`). Two
spectra are looked at: one weighted by a Hann window, into which an offset or a tone outside the band leaks little, and
one without a window, which keeps close tones apart.

**Any data** (`scales_of`). The amplitude of a lone tone is 2|D|/W, for real and complex samples alike, with the
matched filter D and twice the energy W of a tone of unit amplitude. The level is that of what the tones that stand out
leave of the band (`slotflow.bands.peeling`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slotflow.bands.peeling import LOOK, energies, level_of, peeled
from slotflow.bands.search import search_spectrum
from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.preprocess import describe, spectrum_of
from slotflow.data.trend import detrend, scaled, without_line
from slotflow.signal.likelihood.general import GeneralTones

__all__ = [
    "Scales",
    "plain_scales",
    "prominent_places",
    "rough_level",
    "rough_scales",
    "scales_of",
    "two_digits",
]

Bounds = tuple[float, float]

ABOVE_PEAK = 2.0
"""Upper bound of the amplitudes over the highest peak."""
STANDS_OUT, SMALLEST_UPPER = 5.0, 8.5
"""In units of the noise of an amplitude: the weakest tone that stands out, and the smallest upper bound."""
ABOVE_LEVEL = 3.0
"""Upper bound of σ over the noise level."""
SMALLEST_RATIO = 1e-6
"""Smallest lower bound of the amplitudes over the upper one: weaker ones may come from rounding."""


@dataclass(frozen=True)
class Scales:
    """Sizes of noise and tones, as a band shows them before it is analysed."""

    level: float
    """Noise level σ."""
    rms: float
    """Root mean square of the data in units of the noise's shape, tones included."""
    peak: float
    """Amplitude of the highest peak in the band."""
    amplitude_noise: float
    """Standard deviation of an amplitude, where it is known best."""
    places: Array = field(default_factory=lambda: np.zeros(0))
    """Frequencies in Hz of tones that stand out, (K,), where the band was searched for them."""

    @property
    def sigma(self) -> Bounds:
        """Bounds of σ."""
        return 0.0, two_digits(max(ABOVE_LEVEL * self.level, self.rms))

    def amplitude(self, smallest_ratio: float = SMALLEST_RATIO) -> Bounds:
        """Bounds of A, the lower one no smaller share of the upper one than `smallest_ratio`."""
        upper = two_digits(max(ABOVE_PEAK * self.peak, SMALLEST_UPPER * self.amplitude_noise))
        lower = max(STANDS_OUT * self.amplitude_noise, smallest_ratio * upper)
        return two_digits(lower), upper


def plain_scales(observation: Observation, band: Bounds) -> Scales:
    """The scales of an even, real series in white noise.

    Args:
        observation: The data, of which the long stream is looked at.
        band: Frequencies in Hz that may hold tones; the noise is measured outside, or from the median of the whole
            spectrum where too little lies outside.
    """
    channel = observation.long
    rest = without_line(channel).values
    scale = float(np.abs(rest).max()) or 1.0
    rms = scale * float(np.sqrt(np.mean((rest / scale) ** 2)))
    level, _ = observation.noise_level(band)
    if math.isnan(level):
        level = describe(channel).noise
    level = min(level, rms)
    return Scales(level, rms, _highest_peak(channel, band), level * math.sqrt(2 / channel.n))


def scales_of(likelihood: GeneralTones, band: Bounds) -> Scales:
    """The scales of any data.

    Args:
        likelihood: Of the data under the noise that is assumed; of channels of a free gain ask for the blocks.
        band: Frequencies in Hz that may hold tones.
    """
    found = peeled(likelihood, band)
    f, energy = energies(likelihood, band)
    filtered = np.abs(likelihood.matched(f[None, :, None])[0, :, 0])
    rms = math.sqrt(float(likelihood.energy[0]) / likelihood.n)
    level = min(found.level, rms)
    peak = float((2 * filtered / energy).max())
    return Scales(level, rms, peak, level * math.sqrt(2 / float(energy.max())), found.places)


def rough_level(likelihood: GeneralTones, band: Bounds) -> float:
    """The noise level that the median of a band's spectrum tells, tones and all.

    Args:
        likelihood: Of the data under the noise that is assumed.
        band: Frequencies in Hz that may hold tones.
    """
    rms = math.sqrt(float(likelihood.energy[0]) / likelihood.n)
    return min(level_of(likelihood, band), rms)


def prominent_places(likelihood: GeneralTones, band: Bounds) -> Array:
    """Frequencies in Hz of the tones that stand out of a band, (K,).

    Args:
        likelihood: Of the data under the noise that is assumed.
        band: Frequencies in Hz that may hold tones.
    """
    tones = search_spectrum(likelihood, band, max_seconds=LOOK).theta
    return np.sort(likelihood.waveform.place_of(tones))


def rough_scales(observation: Observation) -> Scales:
    """The scales of a whole spectrum, for bands that are analysed in windows, each of which has its own.

    Args:
        observation: Data of any sampling; the first channel is looked at.
    """
    channel = observation.long
    if channel.trend > 1:
        channel = detrend(channel, channel.trend)
    scale, x = scaled(without_line(channel))
    power, _ = spectrum_of(channel, x)
    parts = 2 if channel.is_complex else 1  # real numbers in a sample
    rms = scale * math.sqrt(float(np.mean(np.abs(x) ** 2)) / parts)
    level = min(describe(channel).noise, rms)
    # |Σ w x|² = Σ w² P for the Hann window w, whose sum is N/2 and whose sum of squares is 3N/8.
    peak = scale * 2 / parts * math.sqrt(1.5 * float(power.max(initial=0.0)) / channel.n)
    noise = level * math.sqrt(2 / parts / channel.n)
    if channel.errors is not None:  # σ is in units of them
        rms = scale * math.sqrt(float(np.mean(np.abs(x / channel.errors) ** 2)) / parts)
        level = min(level / float(np.median(channel.errors)), rms)
    return Scales(level, rms, peak, noise)


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


def two_digits(value: float) -> float:
    """A positive number rounded up to two significant digits."""
    place = math.floor(math.log10(value)) - 1
    digits = math.ceil(value / 10.0**place - 1e-9)
    return float(f"{digits}e{place}")
