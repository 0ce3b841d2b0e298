"""Which noise to assume first, and which one if that does not explain the data.

Even, real series are taken as white at first unless a quick look (`look`) speaks against it: their tones are then known
before the noise is judged, by the tests of the residual, and nothing is spent on a question that is none. What is
obviously coloured, has lines outside the band, or is short enough to be taken for a few slow tones is tested at once
(`slotflow.signal.noise.choice`), and so is all that is not even and real. Where white noise turns out not to explain
the data, the test is made on what the tones leave of them; if it finds nothing wrong with the noise, the misfit stays.
Where its colour is in doubt but not refused, autoregressive noise of a low order answers: it integrates over how
coloured the noise is, white among it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.refine import SINGULAR, STEP_FAILURES
from slotflow.infer.look import look_at
from slotflow.infer.request import DataRequest
from slotflow.posterior.whiteness import Check
from slotflow.signal.noise.choice import choose_noise
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.noise.versions import white_noise

__all__ = ["doubted_noise", "first_noise", "second_noise"]

Bounds = tuple[float, float]

FEWEST_SAMPLES = 1000
"""Samples from which on a few slow tones cannot be taken for coloured noise, or coloured noise for them."""
SMALL_PART = 0.4
"""Share of the spectrum below which a band in coloured noise is looked at for itself."""
COLOURED = "local: the spectrum outside the band is not flat"
"""Why noise is local where a quick look is enough."""
ELSEWHERE = "local: there are lines outside the band"
"""Why noise is local that would be white without the lines outside the band."""
LARGEST_SIZE = 1e100
"""Size of samples whose squares, and the squares' products, still are numbers."""
DEGENERATE = "white: the data do not allow a fit of any other"
WHITE = "no sign of coloured noise"
"""Why noise is white that was not tested before the analysis; the verdict says if something does."""


def first_noise(observation: Observation, request: DataRequest, band: Bounds) -> NoiseModel:
    """The noise to assume at first.

    Args:
        observation: The data.
        request: What the user says of the noise.
        band: Frequencies in Hz that may hold tones.
    """
    if isinstance(request.noise, NoiseModel):
        return request.noise
    size = max(float(np.abs(channel.values).max()) for channel in observation.channels)
    if request.noise == "auto" and not 1 / LARGEST_SIZE < size < LARGEST_SIZE:
        return NoiseModel.white(len(observation.channels), DEGENERATE)
    try:
        return _first_noise(observation, request, band)
    except SINGULAR:  # nothing can be fitted to data that hardly vary
        return NoiseModel.white(len(observation.channels), DEGENERATE)


def _first_noise(observation: Observation, request: DataRequest, band: Bounds) -> NoiseModel:
    """The same, where the data allow a noise to be fitted."""
    if request.noise != "auto" or not observation.is_plain or observation.long.n < FEWEST_SAMPLES:
        return choose_noise(observation, request.noise, band)
    look = look_at(observation.long)
    narrow = band[1] - band[0] < SMALL_PART * observation.long.nyquist
    if narrow and look.is_coloured_outside(band):
        return replace(choose_noise(observation, "local", band), words=COLOURED)
    if look.is_coloured_outside(band) or len(look.peaks_outside(band)):
        noise = choose_noise(observation, "auto", band)
        if noise.is_white and len(look.peaks_outside(band)):  # they are no business of the band
            noise = replace(choose_noise(observation, "local", band), words=ELSEWHERE)
        return noise
    return white_noise(observation, WHITE)


def second_noise(observation: Observation, band: Bounds, tones: Array) -> NoiseModel | None:
    """The noise to assume where white noise does not explain the data; None if it is not the noise that is wrong.

    What is white but for more tones than may be would pass for noise of its own if the band alone counted.

    Args:
        observation: The data.
        band: Frequencies in Hz that may hold tones.
        tones: The best fit under white noise, (K, P).
    """
    try:
        noise = choose_noise(observation, "auto", band, tones=tones)
    except SINGULAR:  # no other noise can be fitted
        return None
    return None if noise.is_white else noise


def doubted_noise(
    observation: Observation, band: Bounds, tones: Array, doubt: Check
) -> NoiseModel | None:
    """Autoregressive noise, where the colour of what was assumed is in doubt; None where no filter can be fitted.

    Args:
        observation: The data.
        band: Frequencies in Hz that may hold tones.
        tones: The best fit so far, (K, P).
        doubt: The test that doubts it.
    """
    try:
        noise = choose_noise(observation, "ar", band, tones=tones)
    except STEP_FAILURES:  # uneven times, or an error for each sample
        return None
    return replace(noise, words=f"{noise.name}: perhaps {doubt.words}, p = {doubt.p_value:.1g}")
