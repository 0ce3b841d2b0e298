"""The prior to answer under: what the user states, and for the rest as little as can be assumed.

The default network takes any band and any prior. Of what is not stated, the **band** is the network's own where the
series can show it and has no stronger peak elsewhere, and the strongest part of the spectrum if not; **amplitudes** and
**noise** have bounds that contain what the data show (`from_data`); there is no **minimum separation**; and there may
be any **number** of tones from 0 on that the network can count, and more of them in windows.

A network that knows the prior of its training alone (`paper`, `debug`) is asked under that one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from slotflow.data.observation import Observation
from slotflow.data.preprocess import FALSE_ALARM, Band, strongest_band
from slotflow.infer.from_data import amplitude_bounds, noise_scale, sigma_bounds
from slotflow.infer.offsets import without_offsets
from slotflow.infer.statement import Statement
from slotflow.infer.trained import smallest_ratio, untrained
from slotflow.network.cardinality import check_k_prior
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import FEWEST_BINS
from slotflow.posterior.assumed import DATA, MODEL, PARTS, STATED, WEAK, Assumed
from slotflow.signal.prior import Prior

__all__ = ["assume"]

Fields = dict[str, Any]


def assume(
    model: SlotFlow, observation: Observation, stated: Statement, network_alone: bool = False
) -> tuple[Assumed, Observation]:
    """The prior of an observation and where its parts come from, and the observation as it is to be analysed.

    Args:
        model: The network.
        observation: What was measured.
        stated: What the user says.
        network_alone: Whether no exact step follows; bounds from the data then stay within the network's training.

    Returns:
        What is assumed, and the observation without the offsets and trends that stand out (`offsets`); it stays as it
        is where all of the prior is stated or the network knows one prior alone.
    """
    duration = observation.long.duration
    if stated.whole is not None:
        return Assumed.stated(stated.whole, duration), observation
    given = stated.prior_fields
    sources = {name: STATED for name in PARTS if name in given}
    sources["k"] = STATED if stated.limits_k else WEAK
    sources.setdefault("min_separation", WEAK)
    if model.widest_band is None:
        return _under_own_prior(model, duration, given, sources), observation
    band = None
    if stated.lowest_frequency is not None:
        if "frequency" in given:
            raise ValueError(
                "expected the band or its lower edge, received both; state one of them."
            )
        width = math.floor(model.widest_band) / duration
        given["frequency"] = (stated.lowest_frequency, stated.lowest_frequency + width)
        sources["frequency"] = STATED
    elif "frequency" not in given:
        band = _proposed_band(model, observation)
        given["frequency"] = model.config.prior.frequency if band is None else band.edges
        sources["frequency"] = MODEL if band is None else DATA
    _fill_counts(model, given, stated)
    observation = without_offsets(observation, given["frequency"][0])
    _fill_bounds(model, observation, given, sources, network_alone)
    prior = Prior(**given)
    weak = (
        sources["amplitude"] == DATA
    )  # bounds that the network need not know: the exact step does
    doubts = [] if weak and not network_alone else untrained(model, observation, prior)
    return Assumed(prior, duration, sources, band, warnings=tuple(doubts)), observation


def _under_own_prior(
    model: SlotFlow, duration: float, given: Fields, sources: dict[str, str]
) -> Assumed:
    """The prior of the training, changed where the user asks for it; the network refuses what it does not know."""
    if "k_min" in given or "k_max" in given:
        given["k_probs"] = None
    changed = {name: source for name, source in sources.items() if source == STATED}
    found = dict.fromkeys(PARTS, MODEL) | changed
    return Assumed(dataclasses.replace(model.config.prior, **given), duration, found)


def _fill_counts(model: SlotFlow, given: Fields, stated: Statement) -> None:
    """Separation and number of components: none and any, as far as they fit into the band.

    Args:
        model: The network.
        given: Fields of the prior, the band among them; min_separation, k_min and k_max are added.
        stated: What the user says of p(K).
    """
    largest = model.k_max
    if stated.k_prior is not None:
        probs = check_k_prior(stated.k_prior, model.config.prior)
        largest = max(int(np.flatnonzero(probs)[-1]), 1)
        given["k_max"] = largest
    separation = given.setdefault("min_separation", 0.0)
    given.setdefault("k_min", 0)
    low, high = given["frequency"]
    if not (separation > 0 and low < high):
        given.setdefault("k_max", max(largest, given["k_min"]))
        return
    fits = math.ceil(min((high - low) / separation, 1e6))
    most = max(given.get("k_max", 0), given["k_min"])
    if most > fits:
        raise ValueError(
            f"{most} components at a separation of {separation:.4g} Hz do not fit into the band {low:.9g}–{high:.9g} "
            f"Hz, where there is room for {fits}; widen --band, or lower --min-separation or the number of components "
            "(--k-max, --k-min, --k-prior)."
        )
    given.setdefault("k_max", min(largest, fits))


def _fill_bounds(
    model: SlotFlow,
    observation: Observation,
    given: Fields,
    sources: dict[str, str],
    network_alone: bool,
) -> None:
    """Bounds of amplitude and noise level from the data, where they are not stated."""
    if "amplitude" in given and "sigma" in given:
        return
    band = given["frequency"]
    level, rms = noise_scale(observation, band)
    if not rms > 0:
        raise ValueError(
            f"expected a series that varies, received {observation.long.n:,} samples of which nothing is left without "
            "offset and trend; there is nothing to infer from them: check the data."
        )
    if "amplitude" not in given:
        ratio = {"smallest_ratio": smallest_ratio(model)} if network_alone else {}
        given["amplitude"] = amplitude_bounds(observation, band, level, **ratio)
        sources["amplitude"] = DATA
    if "sigma" not in given:
        given["sigma"] = sigma_bounds(level, rms)
        sources["sigma"] = DATA


def _proposed_band(model: SlotFlow, observation: Observation) -> Band | None:
    """The band to analyse if none is stated: the strongest one, or None for the network's own.

    The network's own band is taken where the series shows it, if the strongest peak lies there or none stands out.
    """
    assert model.widest_band is not None
    channel, (low, high) = observation.long, model.config.prior.frequency
    try:
        band = strongest_band(channel, math.floor(model.widest_band))
    except ValueError as error:
        advice = (
            "or say where to look (the prior's frequency, on the command line --band F_LO:F_HI)"
        )
        raise ValueError(f"{str(error).rstrip('.')}, {advice}.") from error
    width = (high - low) * channel.duration
    shown = high <= channel.nyquist and FEWEST_BINS <= width <= model.widest_band
    margin = 1 / channel.duration  # the peak is known to about a bin
    within = low - margin <= band.peak <= high + margin
    faint = band.snr < math.log(channel.n / FALSE_ALARM)
    return None if shown and (within or faint) else band
