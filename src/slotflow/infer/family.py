"""The answer where components are no tones, or of several classes: a search and the exact step (`exact/family`).

For several classes the network `family` proposes where it can read the data, beside the search, and can be asked alone;
the exact step decides. What the prior leaves open is assumed as for tones, but for three things.
Amplitudes may exceed the peaks of the spectrum by as much as the waveform spreads its power. Components may be as close
as they like. And noise is white at first unless it is stated, since a chirp or a decay is easily taken for coloured
noise; if white noise does not explain the data, the noise is chosen by what the components leave of them.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

from slotflow.exact.family.posterior import FamilyPosterior, family_posterior
from slotflow.exact.start import CLASSICAL
from slotflow.infer.assume import assume
from slotflow.infer.call import LAST_SHARE, Call, Case
from slotflow.infer.noise_choice import first_noise
from slotflow.infer.request import DataRequest
from slotflow.infer.statement import Statement
from slotflow.network.cardinality import under_k_prior
from slotflow.network.family.model import FamilySlotFlow
from slotflow.network.model import SlotFlow, pretrained_names
from slotflow.posterior.assumed import DATA, WEAK, Assumed
from slotflow.posterior.posterior import Posterior
from slotflow.signal.model import without_components
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Classes

__all__ = ["answer_family", "check_family", "first_request"]

FAMILY = "family"
"""Name of the package's weights for several classes."""


def check_family(model: SlotFlow, case: Case, call: Call) -> None:
    """Refuses what cannot be asked of components that are no tones."""
    text, network = case.assumed.prior.waveform.text, _network(model, case.assumed.prior)
    if call.method == "network" and network is not None:
        if why := network.reads(case.observation, case.assumed.prior):
            raise ValueError(
                f"the network {network.config.name!r} cannot answer alone here: {why}; leave the exact step on "
                "(method='exact')."
            )
    elif not call.exact:
        raise ValueError(
            f"the method {call.method!r} knows tones alone, received a prior of {text!r}; leave the exact step on "
            "(method='exact')."
        )
    if case.observation.free_names:
        raise ValueError(
            f"channels of a free gain hold tones alone, received a prior of {text!r}; state the gain of each channel."
        )


def first_request(stated: Statement, request: DataRequest) -> DataRequest:
    """What is assumed of the data at first: white noise for other waveforms than tones, unless it is stated."""
    waveform = stated.waveform if stated.whole is None else stated.whole.waveform
    if waveform in (None, TONE, TONE.name) or request.noise != "auto":
        return request
    return dataclasses.replace(request, noise="white")


def answer_family(model: SlotFlow, case: Case, call: Call) -> Posterior:
    """The posterior under a prior of other waveforms than tones: the exact one, or that of the network alone.

    Args:
        model: The network, whose prior over K stands in where none is stated.
        case: The data and what is assumed of them.
        call: What is asked.
    """
    network = _network(model, case.assumed.prior)
    if not call.exact and network is not None:
        return network.answer(case.observation, case.assumed.prior, call.k_prior)
    post = _answered(model, case, call)
    is_open = call.noise == "auto" or case.basis.noise.parameters  # else nothing could be chosen
    if not is_open or post.verdict.status != "misfit" or post.prior is None:
        return post
    band, k = post.prior.frequency, post.k_map
    with case.budget.running(LAST_SHARE):
        rest = without_components(case.observation, post.best_fit(k), post.waveform)
        noise = first_noise(rest, call.request, band)
        if noise.is_white:
            return post
        request = dataclasses.replace(call.request, noise=noise)
        basis = assume(model, case.given, case.stated.within(band), request=request)
    try:
        again = _answered(model, dataclasses.replace(case, basis=basis), call)
    except ValueError:  # nothing that the prior allows has any weight under that noise
        return post
    return post if again.verdict.status == "misfit" else again


def _answered(model: SlotFlow, case: Case, call: Call) -> FamilyPosterior:
    """The answer under what is assumed."""
    assumed = dataclasses.replace(case.assumed, prior=_own_bounds(case.assumed))
    network = _network(model, assumed.prior)
    with case.budget.running(LAST_SHARE) as seconds:
        starts = network.starts(case.observation, assumed.prior) if network is not None else []
        post = family_posterior(
            case.observation,
            under_k_prior(assumed.prior, call.k_prior, model.config.prior),
            case.basis.noise,
            draws=call.draws,
            seed=call.seed,
            max_seconds=seconds,
            starts=starts,
        )
    post.assumed = assumed
    if starts and network is not None:
        post.proposed_by = f"{network.config.name} and {CLASSICAL}"
    return post


def _network(model: SlotFlow, prior: Prior) -> FamilySlotFlow | None:
    """The network for a prior of several classes: the model itself, or the package's; None where there is none."""
    if not isinstance(prior.waveform, Classes):
        return None
    return model if isinstance(model, FamilySlotFlow) else _embedded()


@lru_cache
def _embedded() -> FamilySlotFlow | None:
    """The network of the package's weights, if they are there."""
    if FAMILY not in pretrained_names():
        return None
    model = SlotFlow.from_pretrained(FAMILY)
    assert isinstance(model, FamilySlotFlow)
    return model


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
