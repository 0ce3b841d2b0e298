r"""The band to analyse where none is stated: everything that the data can show, or the part of it that holds all peaks.

**Everything** (`whole_band`) begins at 1.5/T, half a bin further for each order of the trend that is marginalized, and
ends half a bin below the Nyquist frequency; complex samples show the whole circle of frequencies. Wide bands are
searched as a whole and analysed in windows around what was found (`slotflow.bands`).

**One stretch** is enough where all tones lie in it: even, real series in which a search of everything finds tones there
and nowhere else are answered in one window, which is the network's own where it holds them. A quick look (`look`) comes
before the search, since what stands out of a tapered spectrum far apart needs no search to be told so; but it does not
see every tone that the likelihood does. Where a peak lies at its lowest bins, the stretch begins where everything does.
If nothing is found, everything is what the answer is about, and so it is where a tone is in doubt: in a stretch that
was chosen for it, its evidence would be too large by the ratio of the widths. Channels of a free gain are always
answered in one window; where the spectrum is wider, that with the most power.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.bands.level import Levels
from slotflow.bands.search import search_spectrum
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.preprocess import LOWEST_BIN, Band, strongest_band
from slotflow.infer.free_gains import WIDEST
from slotflow.infer.look import MARGIN, look_at
from slotflow.infer.offsets import wanted_order, with_trends
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import FEWEST_BINS
from slotflow.signal.waveforms import TONE

__all__ = ["beyond_words", "checked_band", "proposed_band", "whole_band"]

Bounds = tuple[float, float]

BEYOND_DOUBT = 2.0
"""Power of a tone, over the least that the search counts, from which on the width of the band decides nothing."""
SEARCH_SECONDS = 3.0
"""Longest search of everything; one that was not finished may have missed tones, and then nothing is left out."""
SHARE = 0.05
"""Share of the steps of uneven times that are as close as the one that the highest frequency comes from."""
NEARLY = 0.6
"""Share of that frequency from which on a band holds nearly all that the times show."""
ROOMY = 1000.0
"""Bins of 1/T up to which uneven times are looked at beyond the Nyquist frequency of their median step."""
FIRST_BIN = 1.5
"""Lowest frequency beside an offset that is marginalized, in bins."""


def whole_band(observation: Observation) -> Bounds:
    """Lowest and highest frequency in Hz that the first channel can show."""
    channel = observation.long
    if channel.is_complex:
        return -channel.nyquist, channel.nyquist
    order = max(channel.trend, wanted_order(channel) if channel.trend == 0 else 0)
    low = (FIRST_BIN + 0.5 * order) / channel.duration
    high = _highest(channel) - 0.5 / channel.duration
    if not low < high:
        raise ValueError(
            f"expected a series long enough to show a frequency, received {channel.n} samples; measure longer."
        )
    return low, high


def _closest(channel: Channel) -> float:
    """The step that a share of all steps does not exceed, in seconds."""
    return max(float(np.quantile(np.diff(channel.times), SHARE)), 1e-300)


def _highest(channel: Channel) -> float:
    """The Nyquist frequency, of uneven times that of their closest steps as far as the band stays `ROOMY`."""
    if channel.is_even:
        return channel.nyquist
    return max(channel.nyquist, min(0.5 / _closest(channel), ROOMY / channel.duration))


def beyond_words(channel: Channel, high: float) -> str:
    """Says that tones above a band that nobody has stated were not looked for, where uneven times would show them."""
    if channel.is_even or channel.is_complex or high > NEARLY * 0.5 / _closest(channel):
        return ""
    return (
        f"the times are uneven, and tones above {high:.4g} Hz, which the closest samples show, were not looked for; to "
        "look further, state the band (--band LOW:HIGH, Prior.frequency)"
    )


def checked_band(observation: Observation, band: Bounds) -> Bounds:
    """A stated band as the data can show it; one of complex data that wraps around goes on beyond Nyquist.

    Args:
        observation: The data.
        band: Lower and upper edge in Hz; the lower one may be the larger where a band wraps around.
    """
    (low, high), channel = band, observation.long
    if not (math.isfinite(low) and math.isfinite(high)):
        return band  # the prior refuses it
    if channel.is_complex:
        rate = 2 * channel.nyquist
        if high < low:
            high += rate
        if channel.is_even and high - low > rate * (1 + 1e-9):
            raise ValueError(
                f"expected a band of at most {rate:g} Hz, the whole circle of frequencies of complex samples "
                f"{channel.step:g} s apart, received {band[0]:g}–{band[1]:g} Hz; narrow it."
            )
        return low, high
    if low < 0:
        raise ValueError(
            f"expected a band above 0 Hz, since real series do not tell f from −f, received {low:g}–{high:g} Hz; state "
            "its positive part, or give complex samples."
        )
    if low >= high:
        raise ValueError(f"expected a band with lower < upper, received {band}; exchange the two.")
    return band


def proposed_band(model: SlotFlow, observation: Observation) -> tuple[Bounds, Band | None]:
    """The band to analyse, and the proposal behind it; None for the network's own band and for everything.

    Args:
        model: The network, one that takes any band.
        observation: The data.
    """
    assert model.widest_band is not None
    everything, channel = whole_band(observation), observation.long
    bins = (everything[1] - everything[0]) * channel.duration
    if observation.free_names and bins > WIDEST:  # windows do not know free gains
        band = strongest_band(channel, WIDEST)
        return band.edges, band
    if not observation.is_plain:
        return everything, None
    if bins <= model.widest_band:
        return everything, None
    own, look = model.config.prior.frequency, look_at(channel)
    stretches: list[tuple[Bounds, Band | None]] = []
    if own[1] <= channel.nyquist and _is_window(model, channel, own):
        stretches.append((own, None))
    strongest = strongest_band(channel, math.floor(model.widest_band))
    if len(look.peaks) and look.peaks[0] < LOWEST_BIN + MARGIN:  # the tone may lie lower still
        strongest = strongest._replace(low=everything[0])
    stretches.append((strongest.edges, strongest))
    stretches = [one for one in stretches if not len(look.peaks_outside(one[0]))]
    if not stretches:
        return everything, None
    levels = Levels(with_trends(observation), everything)
    found = search_spectrum(
        levels.likelihood, everything, max_seconds=SEARCH_SECONDS, levels=levels
    )
    if not found.complete or not len(found.theta) or found.significance.min() < BEYOND_DOUBT:
        return everything, None
    places = TONE.place_of(found.theta)
    holding = [one for one in stretches if one[0][0] <= places.min() and places.max() <= one[0][1]]
    return holding[0] if holding else (everything, None)


def _is_window(model: SlotFlow, channel: Channel, band: Bounds) -> bool:
    """Whether a network can analyse a band at once."""
    assert model.widest_band is not None
    return FEWEST_BINS <= (band[1] - band[0]) * channel.duration <= model.widest_band
