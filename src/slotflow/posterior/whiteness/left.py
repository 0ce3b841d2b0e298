r"""What a fit leaves of the data: for each channel a series that is white noise if the model is right.

Residuals come whitened from the likelihood. What the fit has taken from a series is kept beside it, as frequencies
with the degrees of freedom that went with each: the residual of white noise is a little less than white there.

Where the noise is known in a band only (`likelihood.local`), the series is cut to that band: its m Fourier
coefficients in the band, transformed back, are m complex samples at the step T/m. They are white and independent if
the noise in the band is, so that every test of a complex series is a test of the band, and nothing outside counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.data.channel import Channel
from slotflow.signal.likelihood import GeneralTones, Likelihood, Statistics
from slotflow.signal.likelihood.curves import sums_on_a_grid
from slotflow.signal.noise.model import ChannelNoise

__all__ = ["Left", "channel_labels", "cut_to_band", "measured_values", "what_is_left"]

STREAMS = ("long", "short")
"""Names of two channels of which the second is shorter."""
LINE_DOF = 4
"""Degrees of freedom of a line outside the band: its amplitudes and their drift."""


@dataclass(frozen=True, eq=False)
class Taken:
    """What a fit has taken out of a series."""

    at: Array = field(default_factory=lambda: np.zeros(0))
    """Frequencies in Hz, (J,)."""
    dof: Array = field(default_factory=lambda: np.zeros(0))
    """Real degrees of freedom that went with each, (J,)."""
    unseen: float = 0.0
    """Those that were taken before, at frequencies that are not known."""

    @property
    def total(self) -> float:
        """All of them."""
        return float(self.dof.sum()) + self.unseen


@dataclass(frozen=True, eq=False)
class Left:
    """What is left of one channel."""

    name: str
    """Of the channel: "long", "short", its own, or its number; empty where it is the only one."""
    values: Array | Complex
    """Whitened residual, (n,)."""
    times: Array
    """In seconds, (n,)."""
    step: float | None
    """Sampling step in seconds; None where samples are not even."""
    taken: Taken = field(default_factory=Taken)
    """What the fit took out."""
    scale: Array | None = None
    """Size of a tone of unit amplitude at each sample, (n,), where samples differ; None where they do not."""
    origin: float | None = None
    """Frequency in Hz that the first Fourier coefficient stands for, where the series was cut to a band."""
    spent: Array | None = None
    """Degrees of freedom that the fit took from each sample, (n,), where they differ; None where they do not."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.values)

    @property
    def is_complex(self) -> bool:
        """Whether samples are complex."""
        return np.iscomplexobj(self.values)

    @property
    def copies(self) -> int:
        """Real numbers in a sample."""
        return 2 if self.is_complex else 1

    @property
    def who(self) -> str:
        """The channel in words: "the short stream" or "channel 2"."""
        is_stream = self.label in STREAMS
        return f"the {self.label} stream" if is_stream else f"channel {self.name}"

    @property
    def whose(self) -> str:
        """Before "residual", in words: "the", "the short stream's" or "channel 2's"."""
        return f"{self.who}'s" if self.name else "the"

    @property
    def label(self) -> str:
        """Behind the name of a test, to tell channels apart."""
        return self.name or "long"

    @cached_property
    def square(self) -> Array:
        """|values|², (n,)."""
        square: Array = self.values.real**2
        return square + self.values.imag**2 if self.is_complex else square

    @property
    def dof(self) -> float:
        """Real degrees of freedom that are left."""
        return self.copies * self.n - self.taken.total

    @property
    def variance(self) -> float:
        """Mean power of a real degree of freedom."""
        return float(self.square.sum()) / max(self.dof, 1.0)

    @property
    def reals(self) -> Array:
        """The samples as real numbers, (n,) or (2n,)."""
        parts = [self.values.real, self.values.imag] if self.is_complex else [self.values.real]
        return np.concatenate(parts)

    @cached_property
    def bin(self) -> float:
        """1/T, in Hz."""
        if self.step is not None:
            return 1 / (self.n * self.step)
        return (self.n - 1) / (self.n * float(self.times[-1] - self.times[0]))

    @cached_property
    def nyquist(self) -> float:
        """Highest frequency that is looked at, in Hz."""
        step = float(np.median(np.diff(self.times))) if self.step is None else self.step
        return 0.5 / step

    @property
    def sharpness(self) -> float:
        """How many more independent frequencies a bin holds than that of an even series: T_e √(3/π)/T."""
        if self.step is not None:
            return 1.0
        weights = np.ones(self.n) if self.scale is None else self.scale**2
        spread = np.average(
            (self.times - np.average(self.times, weights=weights)) ** 2, weights=weights
        )
        return float(np.sqrt(12 * spread)) * self.bin

    def spectrum(self, padding: int = 1) -> tuple[Array, Array]:
        """Frequencies in Hz, in rising order, and the power there in units of that of a real sample, (F,) each.

        Args:
            padding: Frequencies per bin.
        """
        fine, power = padding * self.n, self.copies * self.n
        if self.step is None:
            return self._uneven_spectrum(padding)
        if not self.is_complex:
            found = np.abs(np.fft.rfft(self.values, fine)) ** 2 / power
            return np.arange(fine // 2 + 1) / (fine * self.step), found
        found = np.abs(np.fft.fft(self.values, fine)) ** 2 / power
        if self.origin is not None:
            return self.origin + np.arange(fine) / float(fine * self.step), found
        f = (np.arange(fine) - fine // 2) / (fine * self.step)
        return f, np.fft.fftshift(found)

    def _uneven_spectrum(self, padding: int) -> tuple[Array, Array]:
        """The same of samples at any times: |Σ √w r e^{−2πift}|²/Σ w."""
        scale = np.ones(self.n) if self.scale is None else self.scale
        u = self.times - 0.5 * (self.times[0] + self.times[-1])
        step = self.bin / padding
        first = -self.nyquist if self.is_complex else 0.0
        count = int((self.nyquist - first) / step) + 1
        sums = sums_on_a_grid(u, (scale * self.values.conj() + 0j)[None], first, step, count)[0]
        power: Array = np.abs(sums) ** 2 / (self.copies * float((scale**2).sum()))
        return first + step * np.arange(count, dtype=np.float64), power


def what_is_left(likelihood: Likelihood, theta: Array) -> list[Left]:
    """What some components, (K, P), leave of each channel."""
    z, waveform = likelihood.to_z(theta), likelihood.waveform
    places = np.asarray(waveform.place_in_z(z), dtype=np.float64)
    rests = [np.asarray(rest) for rest in likelihood.residuals(z)]
    count = sum(len(rest) for rest in rests)
    found = []
    for s, (rest, name) in enumerate(zip(rests, _names(likelihood, len(rests)), strict=True)):
        # All channels fix the components, and each gives up its share of their degrees of freedom.
        each = waveform.coordinates * len(rest) / count
        dof, unseen = np.full(len(places), each), each * likelihood.removed
        if isinstance(likelihood, Statistics):
            grid = likelihood.grids[s]
            taken = Taken(places, dof, unseen)
            found.append(Left(name, rest, grid.times, grid.dt, taken))
            continue
        assert isinstance(likelihood, GeneralTones)
        part, channel = likelihood.parts[s], likelihood.observation.channels[s]
        more_at, more = _nuisances(channel, likelihood.node.channels[s], part.kept)
        taken = Taken(
            np.concatenate([places, more_at]),
            np.concatenate([dof, (2 if likelihood.complex else 1) * more]),
            unseen,
        )
        scale = None if channel.is_even else np.sqrt(part.weights)
        step = channel.step if channel.is_even else None
        found.append(Left(name, rest, part.times, step, taken, scale))
    return found


def measured_values(likelihood: Likelihood) -> list[Array | Complex]:
    """Each channel's data as they were measured, up to a factor, (n,) each."""
    if isinstance(likelihood, GeneralTones):
        return [channel.values for channel in likelihood.observation.channels]
    assert isinstance(likelihood, Statistics)
    named = zip(likelihood.folded, likelihood.grids, strict=True)
    return [np.asarray(folded[0]).reshape(-1)[: grid.n] for folded, grid in named]


def _names(likelihood: Likelihood, count: int) -> Sequence[str]:
    """What channels are called; the only one has no name."""
    if count == 1:
        return ("",)
    if isinstance(likelihood, Statistics):
        return channel_labels([grid.duration for grid in likelihood.grids])
    assert isinstance(likelihood, GeneralTones)
    channels = likelihood.observation.channels
    usual = channel_labels([channel.duration for channel in channels])
    return [c.name or name for c, name in zip(channels, usual, strict=True)]


def channel_labels(durations: Sequence[float]) -> Sequence[str]:
    """What several channels without names are called, given their lengths in seconds."""
    if len(durations) == 2 and durations[1] < durations[0]:
        return STREAMS
    return [f"{i + 1}" for i in range(len(durations))]


def _nuisances(
    channel: Channel, noise: ChannelNoise, kept: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Where offsets, trends and lines outside the band take something, in Hz, and how much, (J,) each."""
    flat = channel.trend + 1.0
    if channel.trend >= 0 and channel.segments is not None:
        flat = len(np.unique(channel.segments[kept])) + float(channel.trend)
    lines = np.asarray(noise.lines, dtype=np.float64)
    return np.append(0.0, lines), np.append(max(flat, 0.0), np.full(len(lines), LINE_DOF))


def cut_to_band(left: Left, band: tuple[float, float]) -> Left:
    """An even series cut to the frequencies of a band in Hz: m complex samples at the step T/m."""
    assert left.step is not None
    duration = left.n * left.step
    first, last = int(np.ceil(band[0] * duration)), int(np.floor(band[1] * duration))
    if not left.is_complex:
        first, last = max(first, 1), min(last, (left.n - 1) // 2)
    m = max(last - first + 1, 1)
    chosen = np.fft.fft(left.values)[np.arange(first, first + m) % left.n]
    inside = (left.taken.at >= band[0]) & (left.taken.at <= band[1])
    # A complex coefficient of a real series has half the power of one of a complex series in each of its parts.
    size = np.sqrt((2 / left.copies) * m / left.n)
    return Left(
        left.name,
        np.fft.ifft(chosen) * size,
        left.times[0] + duration / m * np.arange(m),
        duration / m,
        Taken(left.taken.at[inside] - first / duration, left.taken.dof[inside]),
        origin=first / duration,
        spent=None if left.spent is None else _regrouped(left.spent, m),
    )


def _regrouped(each: Array, m: int) -> Array:
    """What n samples have each, (n,), shared out among m that fill the same time, (m,)."""
    total = np.concatenate([[0.0], np.cumsum(each)])
    return np.diff(np.interp(np.linspace(0, len(each), m + 1), np.arange(len(each) + 1), total))
