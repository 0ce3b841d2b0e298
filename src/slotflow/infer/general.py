"""The answer for data that are not plain: uneven, complex, coloured, many channels.

The network proposes from a series made of the first channel (`slotflow.network.surrogate`) where there is one; peaks of
the residual's spectrum propose as well, because the network was not trained for what it sees there, and so do the
singular vectors of short complex data (`exact/subspace.py`). The exact step decides under the likelihood of the data
themselves.
"""

from __future__ import annotations

from slotflow.core.arrays import Array
from slotflow.exact.judged import unsampled
from slotflow.exact.refine import Effort, RefinedPosterior, exact_posterior
from slotflow.exact.start import CLASSICAL, Start
from slotflow.infer.assume import Basis
from slotflow.infer.free_gains import known_part
from slotflow.infer.from_data import rough_level
from slotflow.infer.proposers import network_places, prominent_sets, subspace_places
from slotflow.network.model import SlotFlow
from slotflow.signal.prior import Prior

__all__ = ["general_posterior", "unsampled_posterior"]


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
    level = _level(basis, prior)
    places, proposed_by = _proposals(model, basis, prior, effort.seed)
    start = Start.from_places(basis.observation, likelihood, prior, level, places, proposed_by)
    return exact_posterior(start, likelihood, prior, effort, basis.noise)


def unsampled_posterior(basis: Basis, prior: Prior, reason: str) -> RefinedPosterior:
    """The answer for data that are not plain where nothing was sampled; its verdict says why.

    Args:
        basis: What is assumed of the data; its likelihood must be there.
        prior: The prior to answer under.
        reason: Why nothing was sampled.
    """
    likelihood = basis.likelihood
    assert likelihood is not None
    start = Start.from_places(basis.observation, likelihood, prior, _level(basis, prior))
    return unsampled(start, prior, likelihood, "approximate", reason)


def _level(basis: Basis, prior: Prior) -> float:
    """A rough noise level."""
    if basis.scales is not None:
        return basis.scales.level
    assert basis.likelihood is not None
    return rough_level(known_part(basis.likelihood), prior.frequency)


def _proposals(model: SlotFlow, basis: Basis, prior: Prior, seed: int) -> tuple[list[Array], str]:
    """Sets of places, those of the spectrum first, and who proposes."""
    network, more = network_places(model, basis, prior, seed), subspace_places(basis, prior)
    if network is None:
        return prominent_sets(basis, prior) + more, CLASSICAL
    searched = [] if basis.scales is None else prominent_sets(basis, prior)
    return searched + network.sets + more, f"{model.config.name} and {CLASSICAL}"
