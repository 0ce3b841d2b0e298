"""The answer where components are no tones, or of several classes: a search and the exact step (`exact/family`).

No network of the package reads such data yet. What the prior leaves open is assumed as for tones, but for two things:
amplitudes may exceed the peaks of the spectrum by as much as the waveform spreads its power, and components may be as
close as they like.
"""

from __future__ import annotations

import dataclasses

from slotflow.exact.family.posterior import FamilyPosterior, family_posterior
from slotflow.infer.call import LAST_SHARE, Call, Case
from slotflow.network.cardinality import under_k_prior
from slotflow.network.model import SlotFlow
from slotflow.posterior.assumed import DATA, WEAK, Assumed
from slotflow.signal.prior import Prior

__all__ = ["answer_family", "check_family"]


def check_family(case: Case, call: Call) -> None:
    """Refuses what cannot be asked of components that are no tones."""
    text = case.assumed.prior.waveform.text
    if not call.exact:
        raise ValueError(
            f"the method {call.method!r} knows tones alone, received a prior of {text!r}; leave the exact step on "
            "(method='exact')."
        )
    if case.observation.free_names:
        raise ValueError(
            f"channels of a free gain hold tones alone, received a prior of {text!r}; state the gain of each channel."
        )


def answer_family(model: SlotFlow, case: Case, call: Call) -> FamilyPosterior:
    """The exact posterior under a prior of other waveforms than tones.

    Args:
        model: The network, whose prior over K stands in where none is stated.
        case: The data and what is assumed of them.
        call: What is asked.
    """
    assumed = dataclasses.replace(case.assumed, prior=_own_bounds(case.assumed))
    with case.budget.running(LAST_SHARE) as seconds:
        post = family_posterior(
            case.observation,
            under_k_prior(assumed.prior, call.k_prior, model.config.prior),
            case.basis.noise,
            draws=call.draws,
            seed=call.seed,
            max_seconds=seconds,
        )
    post.assumed = assumed
    return post


def _own_bounds(assumed: Assumed) -> Prior:
    """The prior with bounds that suit its waveform, where the user has not stated them."""
    prior = assumed.prior
    changes: dict[str, object] = {}
    if assumed.sources.get("amplitude") == DATA:
        low, high = prior.amplitude
        changes["amplitude"] = (low, high * prior.waveform.dilution(assumed.duration))
    if assumed.sources.get("min_separation") == WEAK:
        changes["min_separation"] = 0.0
    return dataclasses.replace(prior, **changes)  # type: ignore[arg-type]
