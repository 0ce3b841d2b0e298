"""Who proposes components of data that are not plain: the network, the spectrum, and singular vectors.

The network reads a series made of the data; the singular vectors are those of short complex data. All of them give sets
of places alone. Amplitudes, counts and weights come from the likelihood of the data themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.exact.modes import BINS_OF_A_TONE
from slotflow.exact.start import likely_counts
from slotflow.exact.subspace import subspace_sets
from slotflow.infer.assume import Basis
from slotflow.infer.free_gains import known_part
from slotflow.infer.from_data import plain_scales, prominent_places
from slotflow.infer.trained import smallest_ratio
from slotflow.network.model import SlotFlow
from slotflow.network.surrogate import Surrogate, surrogate
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["NetworkPlaces", "network_places", "prominent_sets", "subspace_places"]

LONGEST = 200
"""Complex samples of which singular vectors are looked at, at most."""


class NetworkPlaces(NamedTuple):
    """What the network makes of the series that stands in for the data."""

    sets: list[Array]
    """Sets of places in Hz inside the band, (K,) each, those of the most probable count first."""
    k_probs: Array
    """Its p(K), (K_max + 1,)."""


def network_places(
    model: SlotFlow, basis: Basis, prior: Prior, seed: int = 0
) -> NetworkPlaces | None:
    """The places that the network proposes; None where it cannot read the data.

    Args:
        model: The network, one that takes any band.
        basis: What is assumed of the data; its likelihood must be there.
        prior: The prior to answer under.
        seed: Of draws that tell where components are.
    """
    likelihood, first = basis.likelihood, basis.observation.long
    assert likelihood is not None
    none = np.zeros((0, likelihood.waveform.coordinates))
    times, values = likelihood.parts[0].times, likelihood.residuals(none)[0]
    series = surrogate(times, values, first.step, prior.frequency)
    answer = None if series is None else _answer(model, series, prior)
    if series is None or answer is None:
        return None
    found = []
    for k in likely_counts(answer.k_probs, prior):
        places = np.sort(series.places(answer.waveform.place_of(answer.centres(k, seed))))
        inside = (places > prior.frequency[0]) & (places < prior.frequency[1])
        if inside.any():
            found.append(places[inside])
    return NetworkPlaces(found, answer.k_probs)


def prominent_sets(basis: Basis, prior: Prior) -> list[Array]:
    """The set of places that stand out of the spectrum, (K,) in Hz; none where there may not be so many.

    Args:
        basis: What is assumed of the data; its likelihood must be there.
        prior: The prior to answer under.
    """
    scales, (low, high) = basis.scales, prior.frequency
    assert basis.likelihood is not None
    places = (
        prominent_places(known_part(basis.likelihood), (low, high))
        if scales is None
        else scales.places
    )
    inside = places[(places > low) & (places < high)]
    return [inside] if 0 < len(inside) <= prior.k_max else []


def subspace_places(basis: Basis, prior: Prior) -> list[Array]:
    """Sets of places that the singular vectors of complex data tell, (K,) each in Hz, where tones may fill the band.

    Args:
        basis: What is assumed of the data; its likelihood must be there.
        prior: The prior to answer under.
    """
    likelihood, (low, high) = basis.likelihood, prior.frequency
    assert likelihood is not None
    channels, times = basis.observation.channels, likelihood.parts[0].times
    step = channels[0].step
    if len(channels) > 1 or not channels[0].is_complex or not 1 < len(times) <= LONGEST:
        return []
    roomy = (high - low) / likelihood.bin >= BINS_OF_A_TONE * prior.k_max
    if roomy or not np.allclose(np.diff(times), step):
        return []
    none = np.zeros((0, likelihood.waveform.coordinates))
    found = []
    for f in subspace_sets(likelihood.residuals(none)[0], prior.k_max):
        places = np.sort(low + np.remainder(f / step - low, 1 / step))
        inside = places[(places > low) & (places < high)]
        if len(inside):
            found.append(inside)
    return found


def _answer(model: SlotFlow, series: Surrogate, prior: Prior) -> Posterior | None:
    """What the network makes of a series; None where it cannot read it."""
    band, observation = series.band(prior.frequency), series.observation
    scales = plain_scales(observation, band)
    if not scales.rms > 0 or prior.k_max > model.k_max:
        return None
    try:
        own = Prior(
            k_min=prior.k_min,
            k_max=prior.k_max,
            k_probs=prior.k_probs,
            amplitude=scales.amplitude(smallest_ratio(model)),
            frequency=band,
            min_separation=prior.min_separation,
            sigma=scales.sigma,
        )
        start = model._start(own, observation.long.grid, True)
        model._check(observation, start)
    except ValueError:  # a band too wide, too narrow or too close to the Nyquist frequency
        return None
    with torch.inference_mode():
        return model._infer_batch([observation], [start], None)[0]
