"""Looking at a series before it is analysed: offset, trend, gaps, and the band in which something is.

Offset, trend and noise are measured as :mod:`slotflow.data.trend` and :mod:`slotflow.data.noise_level` say.

**Uneven times.** Noise and spectrum are those of the samples on the nearest places of an even grid, zero where there is
none. White noise stays white on it, and its level is exact; tones are blurred, and what leaks from them through the
gaps counts as noise.

**Strongest band.** Of all stretches of 150 bins, the one with the most power above the level that noise alone exceeds
in one series out of a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.data.channel import Channel
from slotflow.data.gaps import fill_gaps
from slotflow.data.noise_level import median_power, periodogram
from slotflow.data.observation import Observation
from slotflow.data.read.timeline import MERGED
from slotflow.data.trend import (
    EXTREME,
    detrend,
    fit_line,
    places,
    removed_order,
    scaled,
    without_line,
)

__all__ = [
    "Band",
    "Description",
    "check_scale",
    "describe",
    "detrend",
    "fill_gaps",
    "spectrum_of",
    "strongest_band",
]

SIGNIFICANT = 5.0
"""Standard errors from which on an offset or a trend is called one."""
QUIETEST_NOISE = 1e-3
"""Noise below this share of the largest sample counts as this much, so that no offset is significant merely because
there is no noise."""
LOWEST_BIN = 3
"""Lowest bin of a proposed band: below it lies what is left of offset and trend."""
FEWEST_BINS = 10
"""Narrowest band that the default model analyses (`zoom.FEWEST_BINS`)."""
LEAKAGE = 1e-6
"""Share of a peak's power below which other bins are its leakage."""
LONGEST_GRID = 2**22
"""Most places of the grid that uneven samples are put on."""
FALSE_ALARM = 1e-3
"""Chance that noise alone passes for a peak somewhere."""

LARGEST_RATIO, SMALLEST_RATIO = 1e10, 1e-12
"""Largest and smallest size of data in units of the largest amplitude that the prior allows."""


@dataclass(frozen=True)
class Description:
    """What a series looks like."""

    n: int
    """Samples."""
    dt: float
    """Step in seconds; of uneven times the median step."""
    span: float
    """Length of the record in seconds."""
    t0: float
    """Time of the first sample in seconds, counted from t_ref."""
    t_ref: float
    """What t = 0 is on the clock of the file, in seconds."""
    unit: str
    """Unit of the values; empty if unknown."""
    rms: float
    """Root mean square about the mean."""
    noise: float
    """Noise level from the median of the spectrum; of complex samples that of each part."""
    offset: float
    """Value in the middle of the series without its tones; of complex samples its modulus."""
    offset_sigmas: float
    """The same in standard errors of white noise."""
    trend: float
    """Slope per second; of complex samples its modulus."""
    trend_sigmas: float
    """The same in standard errors of white noise."""
    filled: tuple[tuple[int, int], ...]
    """First and last index of each run of samples that were missing and filled."""
    notes: tuple[str, ...]
    """What the reader assumed and did."""
    even: bool = True
    """Whether the samples are evenly spaced, none missing."""
    missing: int = 0
    """Samples that were missing and left out."""
    marginalized: int = -1
    """Order of the polynomial that the likelihood marginalizes: 0 is an offset, −1 nothing."""

    @property
    def rate(self) -> float:
        """Samples per second."""
        return 1 / self.dt

    @property
    def filled_count(self) -> int:
        """Number of samples that were filled."""
        return sum(last - first + 1 for first, last in self.filled)

    @property
    def warnings(self) -> list[str]:
        """What to see to before the analysis, or to say beside a result."""
        found = []
        if self.filled:
            found.append(
                f"{self.filled_count} of {self.n:,} samples were missing and filled "
                f"({len(self.filled)} gap(s)); the likelihood takes them for data"
            )
        found += [note for note in self.notes if MERGED in note]
        # What a fit has left is what tones did to it.
        removed = max(self.marginalized, removed_order(self.notes))
        if abs(self.trend_sigmas) > SIGNIFICANT and removed < 1:
            found.append(
                f"a linear trend of {self.trend:.4g} per second ({abs(self.trend_sigmas):.1f} standard errors); "
                "remove it with detrend (on the command line --detrend 1)"
            )
        elif abs(self.offset_sigmas) > SIGNIFICANT and removed < 0:
            found.append(
                f"an offset of {self.offset:.4g} ({abs(self.offset_sigmas):.1f} standard errors); "
                "remove it with detrend (on the command line --detrend 0)"
            )
        return found

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        size = f"{self.n:,} samples × {self.dt:.6g} s = {self.span:.6g} s, {self.rate:.6g} samples per second"
        if not self.even:
            gone = f" ({self.missing:,} missing)" if self.missing else ""
            size = f"{self.n:,} samples{gone} in {self.span:.6g} s, median step {self.dt:.6g} s"
        lines = [
            size,
            f"rms {self.rms:.4g}{unit}, noise about {self.noise:.4g}{unit}, offset {self.offset:.4g}{unit}, "
            f"trend {self.trend:.4g}{unit} per second",
        ]
        return "\n".join([*lines, *self.notes, *self.warnings])


class Band(NamedTuple):
    """A band that is worth analysing."""

    low: float
    """Lower edge in Hz."""
    high: float
    """Upper edge in Hz."""
    peak: float
    """Frequency of the highest peak in it, in Hz, to about one bin."""
    snr: float
    """Power of that peak over the noise's."""
    significant: bool
    """Whether noise alone would rarely show such a peak."""

    @property
    def name(self) -> str:
        """LOW:HIGH, as --band takes it."""
        return f"{self.low!r}:{self.high!r}"

    @property
    def edges(self) -> tuple[float, float]:
        """Both edges in Hz, as `Prior.frequency` takes them."""
        return self.low, self.high


def describe(stream: Channel) -> Description:
    """Describes a series: size, offset, trend and noise, and what was filled."""
    scale, x = scaled(stream)
    u = places(stream)
    (offset, trend), (offset_error, trend_error) = fit_line(x, u)
    power = spectrum_of(stream, x - offset - trend * u)[0][1:]
    level = float(median_power(power)) if power.size else 0.0
    noise = math.sqrt(level / (2 if stream.is_complex else 1))
    floor = max(noise, QUIETEST_NOISE)
    size: Callable[[Any], float] = abs if stream.is_complex else float
    return Description(
        n=stream.n,
        dt=stream.step,
        span=stream.duration,
        t0=stream.t0,
        t_ref=stream.t_ref,
        unit=stream.unit,
        rms=scale * float(np.sqrt(np.mean(np.abs(x - x.mean()) ** 2))),
        noise=scale * noise,
        offset=scale * size(offset),
        offset_sigmas=size(offset) / (floor * offset_error),
        trend=scale * (size(trend) / stream.step),
        trend_sigmas=size(trend) / (floor * trend_error),
        filled=stream.filled,
        notes=stream.notes,
        even=stream.is_even,
        missing=stream.missing,
        marginalized=stream.trend,
    )


def spectrum_of(stream: Channel, x: NDArray[Any]) -> tuple[NDArray[np.float64], float]:
    """Hann periodogram of a series at any times, and the width of its bins in Hz.

    Args:
        stream: The series, which says when its samples were taken.
        x: Samples to take instead of its own, (n,).

    Returns:
        Power from zero frequency on, (bins,), whose mean is σ² in white noise; of complex samples for frequencies of
        both signs, as `np.fft.fft` orders them. And the distance of two bins.
    """
    if stream.is_even and not stream.is_complex:
        return periodogram(x), 1 / stream.duration
    u = places(stream)
    span = float(u[-1] - u[0])
    step = max(span / (LONGEST_GRID - 1), 1.0)
    index = np.rint((u - u[0]) / step).astype(np.int64)
    n = int(index[-1]) + 1
    w = np.cos(np.pi * u / (span + 2)) ** 2
    grid = np.bincount(index, w * x.real, n).astype(x.dtype)
    if stream.is_complex:
        grid += 1j * np.bincount(index, w * x.imag, n)
    transform = np.fft.fft(grid) if stream.is_complex else np.fft.rfft(grid)[: n // 2]
    return np.abs(transform) ** 2 / (w**2).sum(), 1 / (n * step * stream.step)


def strongest_band(stream: Channel, bins: int = 150) -> Band:
    """Proposes a band for the default model: the strongest stretch of the spectrum.

    An offset, a linear trend and what leaks from them do not count: both are removed, and the lowest bins are left out.

    Args:
        stream: The series.
        bins: Width of the band in bins of 1/T at most; a short series has fewer.

    Returns:
        The band, below the Nyquist frequency, its edges rounded to a decimal of less than half a bin. What is
        significant in it lies in its middle, if there is room.
    """
    if bins < FEWEST_BINS + 3:
        raise ValueError(f"expected bins >= {FEWEST_BINS + 3}, received {bins}.")
    if stream.is_complex:
        raise ValueError(
            "expected a real series to find a band in, received a complex one; state the band."
        )
    power, width_of_bin = spectrum_of(stream, scaled(without_line(stream))[1])
    last = power.size - 1  # bins 0 .. last
    width = min(bins, last - LOWEST_BIN) - 2  # edges are rounded by half a bin at most
    if width < FEWEST_BINS + 1:
        raise ValueError(
            f"expected a series of at least {2 * (LOWEST_BIN + FEWEST_BINS + 4)} samples to find a band in, received "
            f"{stream.n}; measure longer."
        )
    power[:LOWEST_BIN] = 0.0
    level = max(float(median_power(power[LOWEST_BIN:])), 1e-30)
    threshold = level * math.log(power.size / FALSE_ALARM)
    significant = bool(power.max() > threshold)
    excess = (power - threshold).clip(min=0) if significant else power
    sums = np.concatenate([[0.0], np.cumsum(excess)])
    totals = sums[width + 1 :] - sums[: -width - 1]  # of the bins low .. low + width
    low = LOWEST_BIN + int(totals[LOWEST_BIN:].argmax())
    peak = low + int(power[low : low + width + 1].argmax())
    # The stretch between the outermost peaks goes to the middle; a window's leakage is no peak.
    peaks = low + np.flatnonzero(excess[low : low + width + 1] > LEAKAGE * power[peak])
    if significant:
        middle = (int(peaks[0]) + int(peaks[-1])) // 2
        low = min(max(middle - width // 2, LOWEST_BIN), last - width)
    digits = max(0, math.ceil(-math.log10(width_of_bin)))
    edges = [round(place * width_of_bin, digits) for place in (low, low + width)]
    found = float(power[peak]) / level
    return Band(edges[0], edges[1], peak * width_of_bin, found, significant)


def check_scale(observation: Observation, amplitude: tuple[float, float]) -> None:
    """Refuses data that are not of the size that a prior speaks of: their squares would be no numbers.

    Args:
        observation: The data.
        amplitude: The prior's bounds of A.
    """
    for stream in observation.channels:
        size = float(np.abs(stream.values).max())
        within = 1 / EXTREME < size < EXTREME and 1 / EXTREME < amplitude[1] < EXTREME
        if size > 0 and not (within and SMALLEST_RATIO < size / amplitude[1] < LARGEST_RATIO):
            raise ValueError(
                f"expected data of about the size of the prior's amplitudes, which reach up to {amplitude[1]:.4g}, "
                f"received samples of up to {size:.4g}; state the amplitudes in the data's units (Prior.amplitude, on "
                "the command line --amplitude), or scale the data."
            )
