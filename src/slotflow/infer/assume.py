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
from typing import NamedTuple

import numpy as np

from slotflow.data.observation import Observation
from slotflow.data.preprocess import Band
from slotflow.data.trend import check_varying
from slotflow.infer.band import beyond_words, checked_band
from slotflow.infer.fill import Fields, fill_band, fill_bounds, fill_counts
from slotflow.infer.free_gains import check_width, known_part, with_amplitudes, with_levels
from slotflow.infer.from_data import Scales, plain_scales, rough_scales, scales_of
from slotflow.infer.noise_choice import first_noise
from slotflow.infer.offsets import plain_data, with_trends
from slotflow.infer.reach import fill_reach
from slotflow.infer.request import DataRequest, offset_words, prepared, with_channels
from slotflow.infer.separation import separated
from slotflow.infer.statement import Statement
from slotflow.infer.trained import untrained
from slotflow.network.model import SlotFlow
from slotflow.posterior.assumed import DATA, MODEL, PARTS, STATED, WEAK, Assumed
from slotflow.signal.likelihood.free_gains import FreeGains
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.observed import FEWEST_CYCLES, likelihood_of
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior
from slotflow.signal.prior_gains import check_tones
from slotflow.signal.waveforms import TONE, suited

__all__ = ["Basis", "assume"]

Bounds = tuple[float, float]

UNKNOWN = Prior()
"""Stands for a prior that is still to be found."""


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
    if observation.free_names:
        observation = with_levels(observation)
    duration = observation.long.duration
    if model.widest_band is None:
        return _under_own_prior(model, observation, stated)
    given = stated.prior_fields
    if isinstance(stated.waveform, str):
        given["waveform"] = suited(stated.waveform, duration)
    sources = {name: STATED for name in PARTS if name in given}
    sources["k"] = STATED if stated.limits_k else WEAK
    sources.setdefault("min_separation", WEAK)
    band: Band | None = None
    notes: tuple[str, ...] = ()
    if stated.whole is not None:
        given, sources = vars(stated.whole).copy(), dict.fromkeys(PARTS, STATED)
        given["frequency"] = checked_band(observation, given["frequency"])
    else:
        band = fill_band(model, observation, stated, given, sources)
        if given.get("waveform", TONE) != TONE:
            band, notes = fill_reach(observation, stated, given, sources, band)
        fill_counts(model, given, stated)
    found = _understood(model, observation, request, given, network_alone)
    if "amplitude" not in given or "sigma" not in given:
        fill_bounds(model, found.scales, given, sources, network_alone)
    prior = Prior(**given)
    check_tones(observation, prior)
    if isinstance(found.likelihood, FreeGains) and sources["amplitude"] == DATA:
        data, prior = with_amplitudes(found.observation, found.likelihood, prior)
        found = found._replace(observation=data)
    lines = stated.resolved or found.likelihood is not None
    if lines and sources["min_separation"] == WEAK and not network_alone:
        prior = separated(prior, duration) or prior
    # Bounds that come from the data need not be known to the network: the exact step knows them.
    derived = sources["amplitude"] == DATA and not network_alone
    quiet = derived or stated.whole is not None or found.likelihood is not None
    doubts = [] if quiet else untrained(model, found.observation, prior)
    words = [offset_words(found.observation, prior.frequency)]
    if sources["frequency"] != STATED:
        words.append(beyond_words(observation.long, prior.frequency[1]))
    doubts = [*notes, *doubts, *filter(None, words)]
    assumed = Assumed(prior, duration, sources, band, warnings=tuple(doubts))
    return found._replace(assumed=assumed)


def _understood(
    model: SlotFlow,
    observation: Observation,
    request: DataRequest,
    given: Fields,
    network_alone: bool,
) -> Basis:
    """The data as they are analysed, with their noise, but without the prior.

    Args:
        model: The network.
        observation: What was measured.
        request: What the user says of the data.
        given: Fields of the prior, the band among them.
        network_alone: Whether no exact step follows.
    """
    band, none = given["frequency"], Assumed.stated(UNKNOWN, observation.long.duration)
    assert model.widest_band is not None
    check_width(observation, band)
    wide = (band[1] - band[0]) * observation.long.duration > model.widest_band
    if wide and not observation.free_names:
        white = NoiseModel.white(len(observation.channels), "decided window by window")
        observation = observation if request.trend is not None else with_trends(observation)
        return Basis(none, observation, white, None, rough_scales(observation))
    noise = _noise(observation, request, band, network_alone)
    bounded = "amplitude" in given and "sigma" in given
    if observation.is_plain and noise.is_white:
        constant = any(np.ptp(channel.values) == 0 for channel in observation.channels)
        # The verdict on constant data says what they are, where a prior for them is stated.
        plain: Observation | None = observation
        if not (bounded and constant):
            plain = plain_data(observation, band[0], network_alone)
        if plain is not None:
            scales = None if bounded else _varying(plain, plain_scales(plain, band))
            return Basis(none, plain, noise, None, scales)
    observation = observation if request.trend is not None else with_trends(observation)
    likelihood = _general_likelihood(observation, noise, band)
    if bounded and float(likelihood.energy[0]) > 0:
        return Basis(none, observation, noise, likelihood, None)
    scales = _varying(observation, scales_of(known_part(likelihood), band))
    return Basis(none, observation, noise, likelihood, scales)


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
            f"the model {model.config.name!r} knows only the even, real series of its training, received other data; "
            "use SlotFlow.from_pretrained()."
        )
    duration, white = observation.long.duration, NoiseModel.white(len(observation.channels))
    lowest = (model.config.prior if stated.whole is None else stated.whole).frequency[0]
    if lowest * duration < FEWEST_CYCLES:  # tones would see an offset, and nobody takes it out
        kept = [dataclasses.replace(channel, trend=-1) for channel in observation.channels]
        observation = with_channels(observation, kept)
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


def _varying(observation: Observation, scales: Scales) -> Scales:
    """The scales of data; refuses data of which nothing is left."""
    if not scales.rms > 0:
        raise ValueError(
            f"expected a series that varies, received {observation.long.n:,} samples of which nothing is left without "
            "offset and trend; there is nothing to infer from them: check the data."
        )
    return scales
