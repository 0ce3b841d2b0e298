r"""The offsets and trends of even series: the polynomial of what the tones leave, not of the data.

A tone has a mean of its own unless the record holds whole cycles of it. Over N samples that are Δ apart, with their
middle at t_m, it is

.. math:: \frac1N \sum_n A \cos(2π f t_n + φ) = A \cos(2π f t_m + φ) \frac{\sin(π f N Δ)}{N \sin(π f Δ)} ,

up to A/(π c) for c cycles, and so it is with a slope. Where the mean of the data is subtracted, this offset stays
behind. It is far above the noise where there is little of it, and all of it leaks into the tones: the search would put
false ones beside them. So the polynomial follows the tones as they are found (`SpectrumFit.fit`).

Other data than even, real ones have a likelihood that marginalizes the polynomial.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slotflow.bands.core_draws import seen_in
from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.trend import detrend
from slotflow.signal.likelihood import Likelihood, Statistics, likelihood_of
from slotflow.signal.waveforms import TONE

__all__ = ["Levels"]


@dataclass(frozen=True, eq=False)
class Levels:
    """Data in white noise without the polynomials that are left beside some tones."""

    observation: Observation
    """The data as they are."""
    band: tuple[float, float]
    """Lowest and highest frequency in Hz that will be asked for."""
    theta: Array = dataclasses.field(default_factory=lambda: np.zeros((0, TONE.size)))
    """The tones, (K, P)."""

    def beside(self, theta: Array) -> Levels:
        """The same data beside other tones (K, P)."""
        return dataclasses.replace(self, theta=theta)

    @property
    def follow(self) -> bool:
        """Whether polynomials are subtracted here."""
        return self.observation.is_plain

    @cached_property
    def _polynomials(self) -> tuple[Array, ...]:
        """What is subtracted from each channel, (n,) or (1,) each."""
        return tuple(_polynomial(channel, self.theta) for channel in self.observation.channels)

    @cached_property
    def data(self) -> Observation:
        """The data without the polynomials."""
        if not self.follow:
            return self.observation
        level = [
            dataclasses.replace(c, values=c.values - part) if c.trend >= 0 else c
            for c, part in zip(self.observation.channels, self._polynomials, strict=True)
        ]
        return Observation(level, removed=self.observation.removed)

    @property
    def shown(self) -> Observation:
        """The data of a result: a trend is subtracted, an offset stays."""
        both = zip(self.observation.channels, self.data.channels, strict=True)
        channels = [level if given.trend > 0 else given for given, level in both]
        return Observation(channels, removed=self.observation.removed)

    @cached_property
    def likelihood(self) -> Likelihood:
        """Their likelihood."""
        if not self.follow:
            return likelihood_of(self.observation, None, self.band)
        return Statistics.from_observation(self.data)

    def apart(self, other: Levels) -> float:
        """Sum of squares that tells these data from those beside other tones, each channel over its noise ratio."""
        assert isinstance(self.likelihood, Statistics)
        total = 0.0
        for channel, new, old, ratio in zip(
            self.observation.channels,
            self._polynomials,
            other._polynomials,
            self.likelihood.ratios,
            strict=True,
        ):
            total += channel.n * float(np.mean((new - old) ** 2)) / ratio**2
        return total


def _polynomial(channel: Channel, theta: Array) -> Array:
    """The least-squares polynomial of what tones (K, P) leave of an even series, (n,); a constant as (1,)."""
    if channel.trend < 0:
        return np.zeros(1)
    if channel.trend == 0:
        return np.array([channel.values.mean() - _mean(channel, theta)])
    rest = dataclasses.replace(channel, values=channel.values - seen_in(channel, theta))
    fitted: Array = rest.values - detrend(rest, channel.trend).values
    return fitted


def _mean(channel: Channel, theta: Array) -> float:
    """Mean of tones (K, P) over the samples of an even series."""
    _, c = TONE.split(theta, channel.mid_time)
    half = np.pi * TONE.place_of(theta) * channel.dt
    envelope = np.sin(channel.n * half) / (channel.n * np.where(half > 0, np.sin(half), 1.0))
    return float((c[:, 0].real * envelope).sum())
