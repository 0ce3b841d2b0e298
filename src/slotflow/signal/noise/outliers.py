r"""Outliers: samples far outside the distribution of the others are dropped, counted and said.

A sample is judged by how well the others predict it. With a filter a that whitens the noise (`background.py`), the
error of interpolating sample t from all others is

.. math:: e_t = \frac{\sum_k c_k x_{t+k}}{c_0} , \qquad c_k = \sum_j \bar a_j a_{j+k} ,

of the standard deviation σ_ε/√c_0; for white noise it is the sample itself. Lines are taken off before. The scale of e
is that of its median modulus, which outliers hardly move. A sample counts as an outlier if |e_t| exceeds `BEYOND`
standard deviations and that of its neighbours, which an outlier spoils; it is dropped, and the rest is judged again.

What is dropped was chosen by its size: Gaussian noise loses 6 samples of ten million.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, signal

from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.signal.noise.background import background_of
from slotflow.signal.noise.filters import Samples
from slotflow.signal.noise.series import Series, series_of

__all__ = ["without_outliers"]

BEYOND = 5.0
"""Standard deviations beyond which a sample is an outlier."""
ROUNDS = 8
"""How often what remains is judged again."""
LARGEST_SHARE = 0.05
"""Share of the samples that may be dropped."""
ORDER = 8
"""Highest order of the filter."""


def without_outliers(observation: Observation, tones: Any = None) -> Observation:
    """The observation without outliers, whose number each channel notes.

    Args:
        observation: The data.
        tones: Components θ that were found, (K, P), if any.
    """
    channels = [_clipped(channel, tones) for channel in observation.channels]
    return Observation(channels, removed=observation.removed)


def _clipped(channel: Channel, tones: Any) -> Channel:
    """A channel without its outliers."""
    found = channel
    for _ in range(ROUNDS):
        outliers = _outliers(series_of(found, tones))
        if not outliers.any():
            break
        values = found.values.copy()
        values[outliers] = np.nan
        found = replace(found, values=values)
        if channel.n - found.n > LARGEST_SHARE * channel.n:
            raise ValueError(
                f"expected outliers to be rare, received more than {LARGEST_SHARE:.0%} of {channel.n:,} samples beyond "
                f"{BEYOND:g} standard deviations; leave outliers='clip' out, or look at the data first."
            )
    dropped = channel.n - found.n
    if not dropped:
        return channel
    words = f"{dropped} outliers beyond {BEYOND:g} standard deviations dropped"
    return replace(found, notes=(*channel.notes, words))


def _outliers(series: Series) -> NDArray[np.bool_]:
    """Samples that are outliers and larger than their neighbours, (n,)."""
    background = background_of(series, ORDER)
    errors = 1.0 if series.errors is None else series.errors
    size = np.abs(_interpolation_errors(background.rest, background.taps)) / errors
    # The median of the modulus of a normal variable is 0.6745 sd; of a complex one √(2 ln 2) sd of each part.
    unit = math.sqrt(2 * math.log(2)) if series.is_complex else 0.67448975
    scale = max(float(np.median(size)) / unit, 1e-300)
    highest = ndimage.maximum_filter1d(size, 2 * background.order + 1)
    found: NDArray[np.bool_] = (size > BEYOND * scale) & (size >= highest)
    return found


def _interpolation_errors(series: Series, taps: Samples) -> Samples:
    """Each sample less what the others make one expect, (n,); at the ends of a stretch less what its side says."""
    if len(taps) == 1:
        return series.values
    around = np.correlate(taps, taps, mode="full")
    around = around / around[len(taps) - 1]
    found = series.values.copy()
    for piece in series.stretches:
        found[piece] = signal.convolve(series.values[piece], around, mode="same")
    return found
