"""What is not stated of a prior: the band that the data show, any count that fits, bounds that contain the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slotflow.data.observation import Observation
from slotflow.data.preprocess import Band
from slotflow.data.trend import check_varying
from slotflow.infer.band import checked_band, proposed_band
from slotflow.infer.from_data import Scales
from slotflow.infer.statement import Statement
from slotflow.infer.trained import smallest_ratio
from slotflow.network.cardinality import check_k_prior
from slotflow.network.model import SlotFlow
from slotflow.posterior.assumed import DATA, MODEL, STATED

__all__ = ["Fields", "fill_band", "fill_bounds", "fill_counts"]

Fields = dict[str, Any]
"""Fields of a prior by their names."""


def fill_band(
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
    check_varying(observation.long)
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


def fill_counts(model: SlotFlow, given: Fields, stated: Statement) -> None:
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


def fill_bounds(
    model: SlotFlow,
    scales: Scales | None,
    given: Fields,
    sources: dict[str, str],
    network_alone: bool,
) -> None:
    """Bounds of amplitude and noise level from the data, where they are not stated."""
    assert scales is not None
    if "amplitude" not in given:
        ratio = {"smallest_ratio": smallest_ratio(model)} if network_alone else {}
        given["amplitude"] = scales.amplitude(**ratio)
        sources["amplitude"] = DATA
    if "sigma" not in given:
        given["sigma"] = scales.sigma
        sources["sigma"] = DATA
