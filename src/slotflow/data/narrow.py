r"""A series cut to a band: complex samples at a lower rate, in which nothing but the band is left.

A recording or a decay often has strong lines far from those of interest, and many more samples than a narrow band
needs. With a symmetric low-pass filter h of n taps around the band's centre f_c,

.. math:: y(t_m) = g \sum_j h_j\, e^{2\pi i f_c (j - c) Δ}\, x(t_m - (j - c) Δ), \qquad c = (n - 1)/2 ,

g = 1 for complex samples and 2 for real ones, so that a component A cos(2πft + φ) of the band becomes A e^{i(2πft +
φ)}. Frequencies, phases and decays stay what they are; only every D-th sample is kept, and a complex series of that
step holds any band that is no wider than its rate.

- The filter passes the band and falls by 60 dB within a margin on either side; the new rate is the band with its
  margins, so that what is folded lies in the margins and white noise stays nearly white.
- Samples are kept where the whole filter lies inside the series. A component that begins at once, such as a decay
  after a pulse, is steady there: the first n/2 samples are the price for keeping its neighbours out.
"""

from __future__ import annotations

import numpy as np

from slotflow.data.channel import Channel

__all__ = ["narrow"]

ATTENUATION = 60.0
"""In dB, of what lies beyond the margins."""
MARGIN = 0.2
"""Width of each margin over that of the band."""
FEWEST = 16
"""Samples that must be left."""


def narrow(channel: Channel, band: tuple[float, float], margin: float | None = None) -> Channel:
    """The part of an even series that lies in a band, as complex samples at a lower rate.

    Args:
        channel: Even samples without gaps, real or complex.
        band: Lowest and highest frequency in Hz.
        margin: Hz on either side of the band within which the filter falls; by default a fifth of the band's width. A
            narrower one keeps close neighbours out, and costs more samples at both ends.

    Returns:
        The channel, with the same frequencies, phases and times. State the same band in the prior.
    """
    from scipy.signal import firwin, kaiserord, upfirdn

    low, high = map(float, band)
    _check(channel, low, high)
    width = MARGIN * (high - low) if margin is None else float(margin)
    if not width > 0:
        raise ValueError(f"expected a margin above 0 Hz, received {margin}.")
    rate, half = 1 / channel.dt, 0.5 * (high - low)
    every = int(rate / (2 * half + width))
    if every < 2:
        raise ValueError(
            f"expected a band that is narrow beside the sampling rate of {rate:g} Hz, received {low:g} to {high:g} Hz "
            f"with a margin of {width:g} Hz; analyse the series as it is."
        )
    taps, beta = kaiserord(ATTENUATION, 2 * width / rate)
    taps |= 1  # an odd number has a middle
    if channel.n < taps + FEWEST * every:
        raise ValueError(
            f"expected more than {taps + FEWEST * every} samples for a band of {high - low:g} Hz with a margin of "
            f"{width:g} Hz, received {channel.n}; widen the margin or the band."
        )
    filter_ = firwin(taps, half + 0.5 * width, window=("kaiser", beta), fs=rate)
    middle = (taps - 1) // 2
    turn = np.exp(2j * np.pi * 0.5 * (low + high) * channel.dt * (np.arange(taps) - middle))
    gain = 1.0 if channel.is_complex else 2.0
    ahead = -(taps - 1) % every  # zeros, so that the first sample with a whole filter is kept
    padded = np.concatenate([np.zeros(ahead), channel.values])
    full = upfirdn(gain * filter_ * turn, padded, down=every)
    first = (taps - 1 + ahead) // every
    count = (channel.n - taps) // every + 1
    steady = low - width <= 0 <= high + width
    note = (
        f"cut to {low:g} to {high:g} Hz by a filter of {taps} samples, one sample kept of {every}"
    )
    return Channel(
        full[first : first + count],
        every * channel.dt,
        channel.t0 + middle * channel.dt,
        t_ref=channel.t_ref,
        unit=channel.unit,
        notes=(*channel.notes, note),
        name=channel.name,
        trend=channel.trend if steady else -1,
        time_unit=channel.time_unit,
    )


def _check(channel: Channel, low: float, high: float) -> None:
    """Refuses a band that the series does not have, and a series that cannot be filtered."""
    if not channel.is_even or channel.errors is not None:
        kind = "errors of their own" if channel.is_even else "uneven times"
        raise ValueError(
            f"expected even samples without gaps and errors, received samples of {kind}; fill the gaps (fill), or "
            "state the band in the prior and analyse the series as it is."
        )
    nyquist = 0.5 / channel.dt
    lowest = -nyquist if channel.is_complex else 0.0
    if not (low < high and lowest <= low and high <= nyquist):
        raise ValueError(
            f"expected a band between {lowest:g} and {nyquist:g} Hz, received {low:g} to {high:g} Hz."
        )
