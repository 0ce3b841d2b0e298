"""A channel as those who study its noise see it: samples without offset and trend, and which of them follow each other.

A filter needs neighbours at equal steps. Samples join into **stretches** wherever the next one comes a step later; a
gap or an odd step ends a stretch. Samples at times of no common step have no stretches, and no filter is fitted to
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.signal.likelihood.curves import sums_on_a_grid
from slotflow.signal.noise.filters import Samples, whitened
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["OVERSAMPLING", "Series", "series_of"]

SAME_STEP = 1e-2
"""Relative deviation from the median step up to which a sample directly follows the one before."""
FILTERED_SHARE = 0.8
"""Share of the samples that must directly follow another for filters to make sense."""
OVERSAMPLING = 4
"""Frequencies of a spectrum per 1/T."""


@dataclass(frozen=True, eq=False)
class Series:
    """Samples of one channel less its nuisances."""

    values: Samples
    """(n,), real or complex."""
    times: Array
    """In seconds, (n,)."""
    step: float
    """Median step in seconds."""
    errors: Array | None = None
    """Standard deviation of each sample in units of σ, (n,)."""
    nuisances: Array | None = None
    """Orthonormal functions over the errors that the values hold nothing of, (n, J)."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.values)

    @property
    def is_complex(self) -> bool:
        """Whether the samples are complex."""
        return self.values.dtype.kind == "c"

    @property
    def duration(self) -> float:
        """From the first to the last sample and one step more, in seconds."""
        return float(self.times[-1] - self.times[0]) + self.step

    @property
    def nyquist(self) -> float:
        """Half the sampling rate, in Hz."""
        return 0.5 / self.step

    @cached_property
    def joined(self) -> NDArray[np.bool_]:
        """Whether a sample directly follows the one before, (n,); False for the first."""
        steps = np.diff(self.times, prepend=-np.inf)
        near: NDArray[np.bool_] = np.abs(steps - self.step) <= SAME_STEP * self.step
        return near

    @cached_property
    def stretches(self) -> tuple[slice, ...]:
        """Runs of samples that directly follow each other."""
        first = np.flatnonzero(~self.joined)
        return tuple(
            slice(int(a), int(b)) for a, b in zip(first, np.append(first[1:], self.n), strict=True)
        )

    @property
    def can_be_filtered(self) -> bool:
        """Whether most samples have a neighbour at the common step, and none has an error of its own."""
        return self.errors is None and float(self.joined.mean()) >= FILTERED_SHARE

    @property
    def longest_filter(self) -> int:
        """Highest order of a filter that leaves most of the samples."""
        return max(self.n // (12 * len(self.stretches)), 0) if self.can_be_filtered else 0

    def less(self, values: Samples) -> Series:
        """The series minus values, (n,), and minus what then looks like a nuisance."""
        rest = self.values - values
        if self.nuisances is not None:
            errors = 1.0 if self.errors is None else self.errors
            rest = rest - errors * (self.nuisances @ (self.nuisances.T @ (rest / errors)))
        return replace(self, values=rest)

    def filtered(self, taps: Samples) -> Series:
        """The whitened series at the times of the samples that are left."""
        order = len(taps) - 1
        if order == 0:
            return self
        left = np.concatenate(
            [np.arange(s.start + order, s.stop, dtype=np.int64) for s in self.stretches]
        )
        return Series(whitened(self.values, taps, self.stretches), self.times[left], self.step)

    def spectrum(self, tapered: bool = True) -> tuple[Array, Array]:
        """Frequencies at steps of 1/4T, (F,), and the power of the samples there in units where white noise has σ².

        Args:
            tapered: Whether Hann weights keep strong lines from leaking.

        Returns:
            From 0 to Nyquist for real samples, from −Nyquist to Nyquist for complex ones.
        """
        u = (self.times - self.times[0]) / self.duration + 0.5 * self.step / self.duration
        weights = 0.5 - 0.5 * np.cos(2 * np.pi * u) if tapered else np.ones(self.n)
        inverse = 1.0 if self.errors is None else 1 / self.errors
        scale = float(((weights * inverse) ** 2).sum())
        size, sums = self._transform(weights * inverse**2 * self.values)
        f = np.arange(-(size // 2) if self.is_complex else 0, size // 2 + 1) / (size * self.step)
        return f, np.abs(sums) ** 2 / scale

    def _transform(self, rows: Samples) -> tuple[int, Samples]:
        """Σ x e^{−2πift} at multiples of 1/(size·step), up to a phase that depends on f."""
        steps = round(self.duration / self.step)
        place = np.rint((self.times - self.times[0]) / self.step)
        away = np.abs(self.times - self.times[0] - place * self.step).max()
        size = int(fft.next_fast_len(OVERSAMPLING * max(steps, 8), real=True))
        size += size % 2
        if away <= SAME_STEP * self.step:
            grid = np.zeros(size, dtype=rows.dtype)
            grid[place.astype(np.int64)] = rows
            if not self.is_complex:
                return size, np.asarray(fft.rfft(grid))
            both = np.asarray(fft.fftshift(fft.fft(grid)))
            return size, np.append(both, both[0])
        u, spacing = self.times - self.times.mean(), 1 / (size * self.step)
        if not self.is_complex:  # Σ x e^{+2πift} has the same modulus
            found = sums_on_a_grid(u, rows[None].astype(np.complex128), 0.0, spacing, size // 2 + 1)
            return size, found[0]
        first = -(size // 2) * spacing
        found = sums_on_a_grid(-u, rows[None], first, spacing, size + 1)
        return size, found[0]


def series_of(channel: Channel, tones: Any = None, waveform: Waveform = TONE) -> Series:
    """The samples of a channel less components, offset, trend and the offsets of segments.

    Args:
        channel: The data.
        tones: Components θ that are known or were found, (K, P), to be taken off; None for none.
        waveform: Their form.
    """
    values = channel.values.copy()
    if tones is not None and len(tones):
        xi, c = waveform.split(np.asarray(tones, dtype=np.float64), channel.mid_time)
        basis = waveform.basis(channel.times - channel.mid_time, xi)
        total = channel.factor * (c[..., None] * basis).sum((0, 1))
        values = values - (total if channel.is_complex else total.real)
    columns = _nuisances(channel)
    series = Series(values, channel.times, channel.step, channel.errors, columns)
    return series.less(np.zeros_like(values))


def _nuisances(channel: Channel) -> Array | None:
    """Offset, trend and offsets of segments over the errors, as orthonormal columns, (n, J); None if there are none."""
    u = (channel.times - channel.mid_time) / max(channel.duration, 1e-300)
    columns = [u**order for order in range(channel.trend + 1)]
    if channel.segments is not None:
        labels = np.unique(channel.segments)[1 if columns else 0 :]
        columns += [(channel.segments == label) * 1.0 for label in labels]
    if not columns:
        return None
    weights = 1.0 if channel.errors is None else 1 / channel.errors
    return np.linalg.qr(np.stack(columns, 1) * np.reshape(weights, (-1, 1)))[0]
