"""What all studies ask of a network: exact answers with their own type, and the hash of its weights."""

from __future__ import annotations

from typing import Any

from slotflow.data.observation import Observation
from slotflow.exact.refined import RefinedPosterior
from slotflow.network.cards import content_hash
from slotflow.network.model import SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["exact_answer", "exact_of", "proposer_for", "weights_hash"]


def exact_answer(
    model: SlotFlow, observation: Observation, prior: Prior, **options: Any
) -> RefinedPosterior:
    """What `model.infer` says of one observation under a prior.

    Args:
        model: The network that proposes.
        observation: What was measured.
        prior: The prior.
        **options: ``draws``, ``seed`` and ``max_seconds`` of `SlotFlow.infer`.
    """
    return exact_of(model.infer(observation, prior=prior, **options))


def exact_of(post: Posterior) -> RefinedPosterior:
    """The same posterior, which must come from the exact step."""
    if not isinstance(post, RefinedPosterior):
        raise TypeError(f"expected an exact posterior, received a {type(post).__name__}.")
    return post


def proposer_for(network: SlotFlow) -> SlotFlow:
    """The network behind exact posteriors that a network is compared with: itself, or the default one for the paper's.

    The exact posterior belongs to the data and the prior. A proposer that knows one prior only, or has never seen close
    or weak tones, can leave the exact step without draws of the right K, and its answer would be no yardstick.
    """
    if not isinstance(network, PaperSlotFlow):
        return network
    return SlotFlow.from_pretrained(device=network.device)


def weights_hash(network: SlotFlow) -> str:
    """A hash of everything that a network's answers depend on besides the code: weights and config."""
    return content_hash(network.state_dict(), {"config": repr(network.config)})
