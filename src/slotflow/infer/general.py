"""The answer for data that are not plain: uneven, complex, coloured, many channels.

The network proposes from a series made of the first channel (`slotflow.network.surrogate`) where there is one; peaks of
the residual's spectrum propose as well, because the network was not trained for what it sees there. The exact step
decides under the likelihood of the data themselves.
"""

from __future__ import annotations

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.exact.refine import Effort, RefinedPosterior, exact_posterior
from slotflow.exact.start import CLASSICAL, Start, likely_counts
from slotflow.infer.assume import Basis
from slotflow.infer.free_gains import known_part
from slotflow.infer.from_data import plain_scales, prominent_places, rough_level
from slotflow.infer.trained import smallest_ratio
from slotflow.network.model import SlotFlow
from slotflow.network.surrogate import Surrogate, surrogate
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.prior import Prior

__all__ = ["general_posterior"]


def general_posterior(
    model: SlotFlow, basis: Basis, prior: Prior, effort: Effort
) -> RefinedPosterior:
    """The exact posterior of data that are not plain.

    Args:
        model: The network, one that takes any band.
        basis: What is assumed of the data; its likelihood must be there.
        prior: The prior to answer under.
        effort: Draws, seed and time.
    """
    likelihood = basis.likelihood
    assert likelihood is not None
    scales = basis.scales
    level = rough_level(known_part(likelihood), prior.frequency) if scales is None else scales.level
    places, proposed_by = _proposals(model, basis, likelihood, prior, effort.seed)
    start = Start.from_places(basis.observation, likelihood, prior, level, places, proposed_by)
    return exact_posterior(start, likelihood, prior, effort, basis.noise)


def _proposals(
    model: SlotFlow, basis: Basis, likelihood: GeneralTones, prior: Prior, seed: int
) -> tuple[list[Array], str]:
    """Sets of places that the network proposes, the most probable first, and who proposes."""
    part, first = likelihood.parts[0], basis.observation.long
    none = np.zeros((0, likelihood.waveform.coordinates))
    series = surrogate(part.times, likelihood.residuals(none)[0], first.step, prior.frequency)
    answer = None if series is None else _network_answer(model, series, prior)
    if series is None or answer is None:
        return _prominent(basis, likelihood, prior), CLASSICAL
    found = [] if basis.scales is None else _prominent(basis, likelihood, prior)
    for k in likely_counts(answer.k_probs, prior):
        places = np.sort(series.places(answer.waveform.place_of(answer.centres(k, seed))))
        inside = (places > prior.frequency[0]) & (places < prior.frequency[1])
        if inside.any():
            found.append(places[inside])
    return found, f"{model.config.name} and {CLASSICAL}"


def _prominent(basis: Basis, likelihood: GeneralTones, prior: Prior) -> list[Array]:
    """The set of places that stand out of the spectrum, where there may be so many."""
    scales, (low, high) = basis.scales, prior.frequency
    places = (
        prominent_places(known_part(likelihood), (low, high)) if scales is None else scales.places
    )
    inside = places[(places > low) & (places < high)]
    return [inside] if 0 < len(inside) <= prior.k_max else []


def _network_answer(model: SlotFlow, series: Surrogate, prior: Prior) -> Posterior | None:
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
