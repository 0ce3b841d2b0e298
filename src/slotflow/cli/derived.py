"""Bounds of amplitude and noise level that the data ask for, where the model's own do not fit their units.

**Amplitudes.** The highest peak of the amplitude spectrum in the band, over all signals, decides: a lone tone's peak is
as high as its amplitude. The model's own bounds stay unless that peak contradicts them by more than noise explains: it
is too high for the upper bound, or too low for the lower one though it stands out of the noise, or though that is far
below what the model's own units know. Tones that may come
closer than two bins add up or cancel; then a factor of 3 counts as no contradiction, as in
:func:`slotflow.posterior.verdict.unlikely_amplitude`. Else the upper bound is 1.5 times the peak. The lower one is the
weakest tone that stands out of the noise, 5 σ √(2/N) for N samples, but no smaller share of the upper one than the
model was trained for. The series is detrended and weighted by a Hann window first, so that an offset, or a tone outside
the band, leaks little into the peak; its noise is then larger by √(N Σ w²)/Σ w.

**Noise.** Where a signal's noise lies outside the bounds of σ or far below, they are 0 and three times the largest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from slotflow.data.observation import Observation
from slotflow.data.preprocess import LARGEST, SMALLEST
from slotflow.data.trend import without_line
from slotflow.network.config import Config, preset_names
from slotflow.network.model import SlotFlow
from slotflow.signal.prior import Prior

__all__ = ["derived_bounds", "trained_ratios"]

SMALL = 1e-3
"""Noise below this share of the upper bound of σ asks for a bound of its own."""
APART, CLOSE, RESOLVED = 1.2, 3.0, 2.0
"""Factors between peak and bounds that are no contradiction: of tones apart, of close ones, and bins between these."""
ABOVE = 1.5
"""Upper bound of the amplitudes over the highest peak."""
SEEN, LARGE = 5.0, 8.5
"""In units of the noise: of a peak that stands out, and of the smallest bounds of A."""


def derived_bounds(
    prior: Prior,
    network: SlotFlow,
    observations: Iterable[Observation],
    amplitude: bool,
    sigma: bool,
) -> Prior:
    """The prior with bounds of amplitude and noise level that fit the data, in one pass over them.

    Args:
        prior: The prior with the model's own bounds, which stay where they fit.
        network: The model.
        observations: Those of the file, at least one.
        amplitude: Whether the bounds of A may change; no if the user states them.
        sigma: Whether those of σ may.
    """
    quietest, loudest = math.inf, 0.0
    peak, error, level, size = 0.0, 0.0, 0.0, 0.0  # of the signal with the highest peak
    for obs in observations:
        rms = float(np.sqrt(np.mean(obs.long.values**2)))
        noise = obs.noise_level(prior.frequency)[0]
        noise = rms if math.isnan(noise) else min(noise, rms)
        quietest, loudest = min(quietest, noise), max(loudest, noise)
        found, blur = _highest_peak(obs, prior.frequency)
        if found >= peak:
            level = noise * math.sqrt(2 / obs.long.n)
            peak, error = found, blur * level
        size = max(size, *(float(np.abs(stream.values).max()) for stream in obs.channels))
    close = prior.min_separation * obs.long.duration < RESOLVED
    foreign = 0 < loudest < SMALL * prior.sigma[1] and peak < prior.amplitude[0] / CLOSE
    if amplitude and (foreign or _contradict(prior.amplitude, peak, SEEN * error, size, close)):
        prior = dataclasses.replace(prior, amplitude=_around(peak, level, network))
    if sigma and loudest > 0:
        low, high = prior.sigma
        if not (max(low, SMALL * high) <= quietest and loudest <= high):
            prior = dataclasses.replace(prior, sigma=(0.0, 3 * loudest))
    return prior


def trained_ratios(network: SlotFlow) -> tuple[float, float]:
    """Smallest and largest lower bound of A over the upper one that the model was trained for."""
    low, high = network.config.prior.amplitude
    name = network.config.name
    mixture = Config.from_preset(name).mixture if name in preset_names() else None
    parts = () if mixture is None else mixture.parts
    ratios = [edge / high for part in parts for edge in part.amplitude_low] or [low / high]
    return min(ratios), max(ratios)


def _highest_peak(obs: Observation, band: tuple[float, float]) -> tuple[float, float]:
    """Amplitude of the highest peak of the long stream's spectrum in a band, and its noise in units of σ √(2/N)."""
    stream = without_line(obs.long)
    window = np.hanning(stream.n + 2)[1:-1]
    scale = float(np.abs(stream.values).max()) or 1.0  # no square of anything overflows
    low, high = (round(2 * edge * stream.duration) for edge in band)  # half bins
    spectrum = np.abs(np.fft.rfft(window * (stream.values / scale), 2 * stream.n))
    total = float(window.sum())
    peak = scale * 2 / total * float(spectrum[low : high + 1].max(initial=0.0))
    return peak, math.sqrt(stream.n * float((window**2).sum())) / total


def _contradict(
    bounds: tuple[float, float], peak: float, slack: float, size: float, close: bool
) -> bool:
    """Whether data cannot be meant by bounds of A.

    Args:
        bounds: The bounds.
        peak: The highest peak.
        slack: What noise may add to it or take away, or show by itself.
        size: The largest sample.
        close: Whether tones may be unresolved.
    """
    smallest, largest = bounds
    if peak == 0:
        return False
    if not SMALLEST < size / largest < LARGEST:  # the model would refuse them
        return True
    factor = CLOSE if close else APART
    return peak - slack > factor * largest or slack < peak < smallest / factor - slack


def _around(peak: float, level: float, network: SlotFlow) -> tuple[float, float]:
    """Bounds of A for a highest peak and a noise level in A, to two digits."""
    upper = _two_digits(max(ABOVE * peak, LARGE * level))
    lower = _two_digits(max(SEEN * level, trained_ratios(network)[0] * upper))
    return lower, upper


def _two_digits(value: float) -> float:
    """A positive number rounded up to two significant digits."""
    place = math.floor(math.log10(value)) - 1
    digits = math.ceil(value / 10.0**place - 1e-9)
    return float(f"{digits}e{place}")
