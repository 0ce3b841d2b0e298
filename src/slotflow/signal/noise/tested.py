"""The noise that tests of the data speak for.

Each channel is looked at twice, once as lines in white noise and once as lines in autoregressive noise
(`background.py`). The noise is **white** if what remains of the first passes the tests of `colour.py` and the second
has no more than `ODDS` on its side: a red series of a hundred samples can be explained by a few slow lines in white
noise, but at a price of `LINE_PRICE` each. If it is not white, the noise is

- **coloured**, autoregressive or a power law, whichever has the better evidence, if what is looked for fills much of
  the spectrum and the whitened rest passes the tests;
- **local** otherwise, so that only the band counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.signal.noise.ar import ar_noise, evident_order
from slotflow.signal.noise.background import Background, background_of
from slotflow.signal.noise.burg import order_evidence, partial_autocorrelations
from slotflow.signal.noise.colour import Whiteness, shape_test, whiteness_of
from slotflow.signal.noise.filters import taps_of_partial
from slotflow.signal.noise.local import LOCAL_ORDER, local_noise
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.noise.power_law import fitted_power_law, likely_shape, power_law_noise
from slotflow.signal.noise.red_whitening import red_power
from slotflow.signal.noise.series import Series
from slotflow.signal.noise.versions import (
    SLOW_BINS,
    known_ratios,
    red_versions_of,
    versions_of,
    white_noise,
)

__all__ = ["tested_noise"]

Bounds = tuple[float, float]

SMALLEST_P = 1e-3
"""P-value below which noise is not white."""
SMALLEST_SHOWN_P = 1e-9
"""P-value below which it is not told how small it is."""
ODDS = 4.0
"""Logarithm of the odds against white noise from which on it is given up."""
OBVIOUS = 0.1
"""What a sample must add to the logarithm of the odds against white noise for it to be given up at once."""
MANY_SAMPLES = 5000
"""Samples from which on that is done: in shorter ones crowded tones may look like colour."""
LINE_PRICE = 1.5
"""What a line costs of the logarithm of the evidence, in units of ln n."""
MUCH_OF_THE_SPECTRUM = 0.4
"""Share of the spectrum in the band from which on the noise is modelled as a whole."""
LONGEST_RED = 10_000
"""Samples up to which a power law is tried."""
SHORT = 400
"""Samples up to which the noise is modelled as a whole in any case."""


def tested_noise(observation: Observation, channels: Sequence[Series], band: Bounds) -> NoiseModel:
    """The noise that tests of the data speak for."""
    linked = [i > 0 and not c.has_free_gain for i, c in enumerate(observation.channels)]
    looks = [
        _look(series, band, tones_left) for series, tones_left in zip(channels, linked, strict=True)
    ]
    if all(look.is_white for look in looks):
        found = _slow_noise(channels, looks, band)
        return found if found is not None else _white_but_for_lines(observation, looks, band)
    worst = max(looks, key=lambda look: look.against_white)
    reason = f"white noise is refused ({worst.words})"
    coloured = [look.coloured for look in looks]
    first = channels[0]
    share = (band[1] - band[0]) / ((2 if first.is_complex else 1) * first.nyquist)
    if first.n <= SHORT or share >= MUCH_OF_THE_SPECTRUM:
        found = _as_a_whole(coloured, reason)
        if found is not None:
            return found
    return local_noise(coloured, band, known_ratios(observation), f"local: {reason}")


def _white_but_for_lines(
    observation: Observation, looks: Sequence[_Look], band: Bounds
) -> NoiseModel:
    """White noise, or local noise where lines outside the band leak into it."""
    p = min(look.test.p_value for look in looks)
    leaking = sum(len(look.white.leaking(band)) for look in looks)
    if not leaking:
        return white_noise(observation, f"white: it passes the tests (p = {p:.2g})")
    words = f"local: the noise is white, but {leaking} lines outside the band leak into it"
    return local_noise([look.white for look in looks], band, known_ratios(observation), words)


def _slow_noise(
    channels: Sequence[Series], looks: Sequence[_Look], band: Bounds
) -> NoiseModel | None:
    """A power law, if it explains the slowest lines of white noise better and the band reaches down to them."""
    slow = [SLOW_BINS / series.duration for series in channels]
    many = sum(line.frequency < slow[0] for line in looks[0].white.lines)
    if many < 2 or band[0] > slow[0] or channels[0].is_complex:
        return None
    kept = [background_of(series, 0, above=f) for series, f in zip(channels, slow, strict=True)]
    model, evidence = fitted_power_law(versions_of(kept))
    evidence -= sum(_line_price(b) for b in kept)
    odds = evidence - sum(_evidence(look.white) for look in looks)
    if odds < ODDS:
        return None
    words = f"power_law: it explains what looks like {many} slow lines in white noise better, ln odds {odds:.0f}"
    return replace(model, words=words)


@dataclass(frozen=True, eq=False)
class _Look:
    """One channel as lines in white and in autoregressive noise."""

    white: Background
    coloured: Background
    test: Whiteness
    log_odds: float
    """Of the second over the first."""

    @property
    def is_white(self) -> bool:
        """Whether the noise passes as white."""
        return self.test.p_value >= SMALLEST_P and self.log_odds <= ODDS

    @property
    def against_white(self) -> float:
        """A number that grows with the evidence against white noise."""
        return max(-math.log(max(self.test.p_value, 1e-300)), self.log_odds)

    @property
    def words(self) -> str:
        """What speaks against white noise."""
        if self.test.p_value < SMALLEST_P:
            return f"{self.test.words}, {_p_words(self.test.p_value)}"
        return (
            f"AR({self.coloured.order}) noise with {len(self.coloured.lines)} lines explains the data better than "
            f"white noise with {len(self.white.lines)}, ln odds {self.log_odds:.0f}"
        )


def _p_words(p: float) -> str:
    """A p-value in words; how small one is that is next to nothing does not matter."""
    return f"p = {p:.1g}" if p > SMALLEST_SHOWN_P else f"p < {SMALLEST_SHOWN_P:g}"


def _look(series: Series, band: Bounds, tones_left: bool) -> _Look:
    """Both explanations of a channel; all but the first are tested outside the band alone.

    A long series that is obviously coloured has no lines taken off under white noise, which would be many.
    """
    coloured = background_of(series, LOCAL_ORDER)
    long = series.n > MANY_SAMPLES and not tones_left
    obvious = long and _gained([coloured.rest], coloured.order) > OBVIOUS * series.n
    white = Background(series, np.ones(1)) if obvious else background_of(series, 0)
    test = whiteness_of(white.rest, white.lines, band, outside=tones_left)
    odds = 0.0 if tones_left else _evidence(coloured) - _evidence(white)
    return _Look(white, coloured, test, odds)


def _evidence(background: Background) -> float:
    """Rough logarithm of the evidence for lines in autoregressive noise, up to a constant."""
    series = background.rest
    reals = series.n * (2 if series.is_complex else 1)
    errors = 1.0 if series.errors is None else series.errors
    power = float(np.mean(np.abs(series.values / errors) ** 2))
    fit = -0.5 * reals * math.log(max(power, 1e-300))
    partial = partial_autocorrelations(series, background.order)
    gained = float(order_evidence(partial, series.n)[-1])
    return fit + gained - _line_price(background)


def _line_price(background: Background) -> float:
    """What the lines of a background cost of the logarithm of the evidence."""
    return LINE_PRICE * math.log(background.rest.n) * len(background.lines)


def _as_a_whole(backgrounds: Sequence[Background], reason: str) -> NoiseModel | None:
    """Autoregressive noise of a low order, or a power law; None if neither makes the rest white."""
    versions = versions_of(backgrounds)
    channels = versions[0]
    if not all(series.can_be_filtered for series in channels):
        return _red_as_a_whole(backgrounds, reason)
    order = evident_order(channels)
    if order > 0 and all(_is_whitened(b, order) for b in backgrounds):
        odds = _gained(channels, order)
        words = f"ar({order}): {reason}; order {order} has the most evidence (ln odds {odds:.0f} over white)"
        return ar_noise(versions, order, words)
    return _red_as_a_whole(backgrounds, reason)


def _red_as_a_whole(backgrounds: Sequence[Background], reason: str) -> NoiseModel | None:
    """A power law; None if the spectrum has another shape, or the series is too long for it."""
    versions = red_versions_of(backgrounds)
    if sum(series.n for series in versions[0]) > LONGEST_RED:
        return None
    knee, exponent = likely_shape(versions[0])
    tested = "the spectrum's shape passes the tests"
    for b, series in zip(backgrounds, versions[0], strict=True):
        if not series.can_be_filtered:
            tested = "its shape at such times is not tested"  # leakage hides it
        elif shape_test(series, lambda f: 1 + red_power(f, knee, exponent), b.lines) < SMALLEST_P:
            return None
    words = f"power_law: {reason}; {tested} (knee {knee:.3g} Hz, exponent {exponent:.2f})"
    return power_law_noise(versions, words)


def _is_whitened(background: Background, order: int) -> bool:
    """Whether autoregressive noise of some order is all that remains."""
    taps = taps_of_partial(partial_autocorrelations(background.rest, order))
    test = whiteness_of(background.rest.filtered(taps), background.lines)
    return test.p_value >= SMALLEST_P


def _gained(channels: Sequence[Series], order: int) -> float:
    """Logarithm of the odds of an order over white noise."""
    each: list[Array] = [
        order_evidence(partial_autocorrelations(series, order), series.n) for series in channels
    ]
    return float(sum(evidence[-1] for evidence in each))
