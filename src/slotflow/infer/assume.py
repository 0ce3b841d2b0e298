"""The prior and the noise to answer under: what the user states, and for the rest as little as can be assumed.

The default network takes any band and any prior. Of what is not stated, the **band** is everything that the data can
show, or the one stretch that holds all peaks (`band`); **amplitudes** and **noise** have bounds that contain what the
data show (`from_data`); there is no **minimum separation**; and there may be any **number** of tones from 0 on that the
network can count, and more of them in windows. Which **noise** is assumed is decided by a test of the data
(`slotflow.signal.noise.choice`) unless the user says it.

Even, real data in white noise are **plain**: the network reads them as they are, and offsets that stand out are
subtracted (`offsets`). For all others there is a likelihood of its own, in which offsets and trends are marginalized.

A network that knows the prior of its training alone (`paper`, `debug`) is asked under that one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from slotflow.data.observation import Observation
from slotflow.data.preprocess import Band
from slotflow.data.trend import check_varying
from slotflow.infer.band import checked_band, proposed_band
from slotflow.infer.from_data import Scales, plain_scales, scales_of
from slotflow.infer.noise_choice import first_noise
from slotflow.infer.offsets import plain_data, with_trends
from slotflow.infer.request import DataRequest, prepared
from slotflow.infer.statement import Statement
from slotflow.infer.trained import smallest_ratio, untrained
from slotflow.network.cardinality import check_k_prior
from slotflow.network.model import SlotFlow
from slotflow.posterior.assumed import DATA, MODEL, PARTS, STATED, WEAK, Assumed
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior

__all__ = ["Basis", "assume"]

Fields = dict[str, Any]
Bounds = tuple[float, float]


class Basis(NamedTuple):
    """What an answer stands on."""

    assumed: Assumed
    """The prior and where its parts come from."""
    observation: Observation
    """The data as they are analysed."""
    noise: NoiseModel
    """Which noise is assumed, and why."""
    likelihood: GeneralTones | None
    """The likelihood of data that are not plain; None for plain ones."""
    scales: Scales | None
    """What the band shows, where that was looked at."""


def assume(
    model: SlotFlow,
    observation: Observation,
    stated: Statement,
    network_alone: bool = False,
    request: DataRequest | None = None,
) -> Basis:
    """What to assume of an observation.

    Args:
        model: The network.
        observation: What was measured.
        stated: What the user says of the prior.
        network_alone: Whether no exact step follows; bounds from the data then stay within the network's training.
        request: What the user says of noise, trend and outliers.
    """
    request = DataRequest() if request is None else request
    observation = prepared(observation, request)
    duration = observation.long.duration
    if model.widest_band is None:
        return _under_own_prior(model, observation, stated)
    given = stated.prior_fields
    sources = {name: STATED for name in PARTS if name in given}
    sources["k"] = STATED if stated.limits_k else WEAK
    sources.setdefault("min_separation", WEAK)
    band = None
    if stated.whole is not None:
        given, sources = vars(stated.whole).copy(), dict.fromkeys(PARTS, STATED)
        given["frequency"] = checked_band(observation, given["frequency"])
    else:
        band = _fill_band(model, observation, stated, given, sources)
        _fill_counts(model, given, stated)
    noise = _noise(observation, request, given["frequency"], network_alone)
    whole, lowest = stated.whole is not None, given["frequency"][0]
    plain = None
    if observation.is_plain and noise.is_white:
        constant = any(np.ptp(channel.values) == 0 for channel in observation.channels)
        # The verdict on constant data says what they are, where a prior for them is stated.
        plain = (
            observation if whole and constant else plain_data(observation, lowest, network_alone)
        )
    scales, likelihood = None, None
    if plain is not None:
        observation = plain
    else:
        observation = observation if request.trend is not None else with_trends(observation)
        likelihood = _general_likelihood(observation, noise, given["frequency"])
    if "amplitude" not in given or "sigma" not in given:
        scales = _scales(observation, likelihood, given["frequency"])
        _fill_bounds(model, scales, given, sources, network_alone)
    prior = Prior(**given)
    weak = (
        sources["amplitude"] == DATA
    )  # bounds that the network need not know: the exact step does
    quiet = (weak and not network_alone) or whole or plain is None
    doubts = [] if quiet else untrained(model, observation, prior)
    assumed = Assumed(prior, duration, sources, band, warnings=tuple(doubts))
    return Basis(assumed, observation, noise, likelihood, scales)


def _noise(
    observation: Observation, request: DataRequest, band: Bounds, network_alone: bool
) -> NoiseModel:
    """The noise to assume; the network alone knows white noise only."""
    if network_alone and request.noise in ("auto", "white"):
        return NoiseModel.white(len(observation.channels))
    if network_alone:
        raise ValueError(
            f"expected white noise for a method other than the exact step, received noise = {request.noise!r}; leave "
            "the exact step on (method='exact')."
        )
    return first_noise(observation, request, band)


def _general_likelihood(observation: Observation, noise: NoiseModel, band: Bounds) -> GeneralTones:
    """The likelihood of data that are not plain, or of plain ones near zero frequency."""
    for channel in observation.channels:
        check_varying(channel)
    coloured = None if noise.is_white else noise  # white channels know their ratios themselves
    found = likelihood_of(observation, coloured, band)
    return (
        found
        if isinstance(found, GeneralTones)
        else GeneralTones(observation, noise.nodes[0], band)
    )


def _under_own_prior(model: SlotFlow, observation: Observation, stated: Statement) -> Basis:
    """The prior of the training, changed where the user asks for it; the network refuses what it does not know."""
    if not observation.is_plain:
        raise ValueError(
            f"the model {model.config.name!r} knows even, real series of its training alone, received other data; use "
            "SlotFlow.from_pretrained()."
        )
    duration, white = observation.long.duration, NoiseModel.white(len(observation.channels))
    if stated.whole is not None:
        assumed = Assumed.stated(stated.whole, duration)
        return Basis(assumed, observation, white, None, None)
    given = stated.prior_fields
    if "k_min" in given or "k_max" in given:
        given["k_probs"] = None
    changed = {name: STATED for name in PARTS if name in given}
    if stated.limits_k:
        changed["k"] = STATED
    found = dict.fromkeys(PARTS, MODEL) | changed
    assumed = Assumed(dataclasses.replace(model.config.prior, **given), duration, found)
    return Basis(assumed, observation, white, None, None)


def _fill_band(
    model: SlotFlow,
    observation: Observation,
    stated: Statement,
    given: Fields,
    sources: dict[str, str],
) -> Band | None:
    """The band, as stated or as the data show it, and the proposal behind it if there is one.

    Args:
        model: The network.
        observation: The data.
        stated: What the user says.
        given: Fields of the prior; frequency is added.
        sources: Where the parts of the prior come from; that of the band is added.
    """
    if stated.lowest_frequency is not None:
        if "frequency" in given:
            raise ValueError(
                "expected the band or its lower edge, received both; state one of them."
            )
        assert model.widest_band is not None
        width = math.floor(model.widest_band) / observation.long.duration
        given["frequency"] = (stated.lowest_frequency, stated.lowest_frequency + width)
        sources["frequency"] = STATED
    if "frequency" in given:
        given["frequency"] = checked_band(observation, given["frequency"])
        return None
    try:
        given["frequency"], band = proposed_band(model, observation)
    except ValueError as error:
        advice = (
            "or say where to look (the prior's frequency, on the command line --band F_LO:F_HI)"
        )
        raise ValueError(f"{str(error).rstrip('.')}, {advice}.") from error
    own = given["frequency"] == model.config.prior.frequency
    sources["frequency"] = MODEL if own else DATA
    return band


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


def _scales(observation: Observation, likelihood: GeneralTones | None, band: Bounds) -> Scales:
    """What the band shows of noise and tones; refuses data of which nothing is left."""
    scales = plain_scales(observation, band) if likelihood is None else scales_of(likelihood, band)
    if not scales.rms > 0:
        raise ValueError(
            f"expected a series that varies, received {observation.long.n:,} samples of which nothing is left without "
            "offset and trend; there is nothing to infer from them: check the data."
        )
    return scales


def _fill_bounds(
    model: SlotFlow, scales: Scales, given: Fields, sources: dict[str, str], network_alone: bool
) -> None:
    """Bounds of amplitude and noise level from the data, where they are not stated."""
    if "amplitude" not in given:
        ratio = {"smallest_ratio": smallest_ratio(model)} if network_alone else {}
        given["amplitude"] = scales.amplitude(**ratio)
        sources["amplitude"] = DATA
    if "sigma" not in given:
        given["sigma"] = scales.sigma
        sources["sigma"] = DATA
