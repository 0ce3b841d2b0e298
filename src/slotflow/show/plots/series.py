r"""Series at any times as pictures show them: without their offset, beside the signals, and over frequency.

The spectrum of samples x at times t with weights w is

.. math:: A(f) = \frac{2}{\sum w} \Big| \sum_i w_i x_i e^{-2πift_i} \Big|

(1 instead of 2 for complex samples), so that a lone tone's peak is as high as its amplitude. What a tone of amplitude 1
looks like around its own frequency is the sampling's window |Σ w e^{−2πift}|/Σw; gaps give it side lobes, and peaks
at other places are aliases.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal.windows import tukey

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.sampling import Instants, Sampling
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood.curves import sums_on_a_grid
from slotflow.signal.likelihood.observed import FEWEST_CYCLES
from slotflow.signal.likelihood.samples import nuisance_columns, whitened
from slotflow.signal.model import component_sum
from slotflow.signal.noise.model import ChannelNoise
from slotflow.signal.waveforms import Waveform

__all__ = [
    "amplitudes",
    "cleaned",
    "cut_to_band",
    "hann",
    "in_band_only",
    "power",
    "signals_at",
    "window_amplitudes",
]

Values = NDArray[Any]
Band = tuple[float, float]

PER_BIN = 12
"""Frequencies per bin 1/T at which spectra are drawn."""
MOST_POINTS = 2**18
"""Frequencies of a spectrum at most."""
SMALL_PART = 0.5
"""Share of the spectrum below which a band is shown without what lies beside it."""
FADED = 0.2
"""Share of a record over which it fades in and out before it is cut to a band."""
MOST_NUMBERS = 2**25
"""Complex numbers that signals of complex data may take on the way."""


def cleaned(post: Posterior) -> list[Values]:
    """The samples of each channel without the offsets and trends that the likelihood integrates out, (n,) each.

    They are fitted by least squares to what the best fit leaves. Plain series in white noise are shown as they are,
    unless the band begins so low that their offset was integrated out.
    """
    observation = post.observation
    coloured = post.noise is not None and post.noise.name != "white"
    low = math.inf if post.prior is None else post.prior.frequency[0]
    seen = low * observation.long.duration < FEWEST_CYCLES  # the offset, by tones of few cycles
    if observation.is_plain and not (coloured or seen):
        return [channel.values for channel in observation.channels]
    theta = post.best_fit()
    found = []
    for channel, name in zip(observation.channels, observation.gain_names, strict=True):
        form, own = post.waveform.in_channel(theta, name)
        model = signals_at(own, channel.sampling, form, channel.is_complex, channel.factor)
        part = whitened(channel, ChannelNoise())
        columns, _ = nuisance_columns(channel, ChannelNoise(), part, channel.mid_time)
        root = np.sqrt(part.weights)
        rest = channel.values - model
        fitted, *_ = np.linalg.lstsq((columns * root).T, rest * root, rcond=None)
        found.append(channel.values - fitted @ columns)
    return found


def in_band_only(post: Posterior) -> bool:
    """Whether the analysis knows the noise, and explains the data, in a band that is a small part of the spectrum."""
    if post.noise is None or post.noise.name != "local" or post.prior is None:
        return False
    low, high = post.prior.frequency
    return high - low < SMALL_PART * post.observation.long.nyquist


def cut_to_band(channel: Channel, values: Values, band: Band) -> Values:
    """What samples of an even channel hold between two frequencies in Hz, (n,); their ends fade in and out."""
    taper = tukey(channel.n, FADED)
    f = np.fft.fftfreq(channel.n, channel.dt)
    f = f if channel.is_complex else np.abs(f)
    kept = np.where((f >= band[0]) & (f <= band[1]), np.fft.fft(values * taper), 0.0)
    found = np.fft.ifft(kept)
    return found if channel.is_complex else found.real


def hann(channel: Channel) -> Array:
    """A Hann window over a record, of the mean 1: what lies outside a band leaks little into it, (n,)."""
    turns = (channel.times - channel.times[0]) / max(channel.duration, 1e-300)
    window: Array = 1 - np.cos(2 * np.pi * turns)
    return window


def signals_at(
    theta: Array,
    sampling: Sampling,
    waveform: Waveform,
    is_complex: bool,
    gain: complex = 1.0,
) -> Values:
    """Sums of components at sampling instants, (..., N), complex where the data are.

    Args:
        theta: Components, (..., K, P).
        sampling: The instants.
        waveform: What the components are.
        is_complex: Whether the data are complex.
        gain: What the channel makes of the components' amplitudes.
    """
    tau = 0.0 if waveform.tau is None else waveform.tau
    if not is_complex:
        xi, c = waveform.split(theta, tau)
        return np.asarray(component_sum(xi, gain * c, sampling, tau, waveform))
    rows = theta.reshape(math.prod(theta.shape[:-2]), *theta.shape[-2:])  # none of 0 components
    size = max(1, MOST_NUMBERS // max(sampling.n * rows.shape[1], 1))
    found = np.zeros((len(rows), sampling.n), dtype=np.complex128)
    for first in range(0, len(rows), size):
        xi, c = waveform.split(rows[first : first + size], tau)
        basis = waveform.basis(sampling.times - tau, xi)
        found[first : first + size] = (gain * c[..., None] * basis).sum((-3, -2))
    return found.reshape(*theta.shape[:-2], sampling.n)


def amplitudes(channel: Channel, values: Values, band: Band) -> tuple[Array, Array]:
    """Frequencies of a band and the amplitude spectrum of a channel's samples at them, (m,) each.

    Args:
        channel: Says when the samples were taken and how they are weighted.
        values: The samples, (n,).
        band: Lowest and highest frequency in Hz.
    """
    weights = _weights(channel)
    f, sums = _transform(channel.times, weights * values, channel.duration, band)
    return f, (1 if channel.is_complex else 2) / weights.sum() * np.abs(sums)


def window_amplitudes(channel: Channel, centre: float, band: Band) -> tuple[Array, Array]:
    """Frequencies of a band and what a tone of amplitude 1 at some frequency looks like at them, (m,) each."""
    weights = _weights(channel)
    around = (band[0] - centre, band[1] - centre)
    f, sums = _transform(channel.times, weights + 0j, channel.duration, around)
    return f + centre, np.abs(sums) / weights.sum()


def power(times: Array, values: Values, band: Band) -> tuple[Array, Array]:
    """Frequencies of a band and the power of samples of unit variance at them, (m,) each; 1 on average for noise.

    Args:
        times: In seconds, (n,).
        values: The samples, (n,); real and imaginary part of complex ones have unit variance each.
        band: Lowest and highest frequency in Hz.
    """
    f, sums = _transform(times, values, Instants(times).duration, band)
    return f, np.abs(sums) ** 2 / (len(times) * (2 if np.iscomplexobj(values) else 1))


def _weights(channel: Channel) -> Array:
    """1/e² of each sample, (n,)."""
    if channel.errors is None:
        return np.ones(channel.n)
    weights: Array = channel.errors**-2.0
    return weights


def _transform(times: Array, values: Values, duration: float, band: Band) -> tuple[Array, Values]:
    """Frequencies of a band and Σ x e^{−2πift} at them, but for a phase, (m,) each."""
    u = times - 0.5 * (times[0] + times[-1])
    count = int(np.clip(PER_BIN * (band[1] - band[0]) * duration, 2, MOST_POINTS)) + 1
    step = (band[1] - band[0]) / (count - 1)
    fine = max(
        1, int(np.ceil(2.2 * step * float(np.abs(u).max(initial=0.0))))
    )  # see sums_on_a_grid
    grid: Array = band[0] + step / fine * np.arange(fine * (count - 1) + 1.0)
    sums = sums_on_a_grid(u, values.conj()[None] + 0j, band[0], step / fine, len(grid))[0]
    return grid, sums.conj()
