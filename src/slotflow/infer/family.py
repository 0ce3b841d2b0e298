"""The answer where components are no tones, or of several classes: a search and the exact step (`exact/family`).

For several classes the network `family` proposes where it can read the data, beside the search, and can be asked alone;
the exact step decides. What the prior leaves open is assumed as for tones, but for three things.
Amplitudes may exceed the peaks of the spectrum by as much as the waveform spreads its power, and by what its matched
filters see; a bound from the data that cuts the posterior is raised. Components may be as close as they like. And noise
is white at first unless it is stated, since a chirp or a decay is easily taken for coloured noise; if white noise does
not explain the data, the noise is chosen by what the components leave of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from slotflow.exact.family.analysed import largest_amplitude
from slotflow.exact.family.posterior import FamilyPosterior, family_posterior
from slotflow.exact.family.sample import NothingFits
from slotflow.exact.start import CLASSICAL
from slotflow.infer.assume import Basis, assume
from slotflow.infer.call import LAST_SHARE, Call, Case
from slotflow.infer.from_data import ABOVE_PEAK, two_digits
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

__all__ = ["answer_families", "check_family", "first_request", "unstated"]

UNSTATED = "white, as is assumed where nothing is stated"
"""Why noise is white at first that nobody stated."""
FAMILY = "family"
"""Name of the package's weights for several classes."""
RAISE, MOST_RAISES = 4.0, 3
"""Factor by which an upper bound of amplitudes that presses is raised, and how often at most."""
PRESSING, PRESSED = 0.8, 0.9
"""Share of the upper bound above which it presses on the largest amplitude, and the quantile that is looked at."""


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
            f"the method {call.method!r} knows only tones, received a prior of {text!r}; leave the exact step on "
            "(method='exact')."
        )
    if case.observation.free_names:
        raise ValueError(
            f"channels with a free gain hold only tones, received a prior of {text!r}; state the gain of each channel."
        )


def first_request(stated: Statement, request: DataRequest) -> DataRequest:
    """What is assumed of the data at first: white noise for other waveforms than tones, unless it is stated."""
    waveform = stated.waveform if stated.whole is None else stated.whole.waveform
    if waveform in (None, TONE, TONE.name) or request.noise != "auto":
        return request
    return dataclasses.replace(request, noise="white")


def unstated(basis: Basis) -> Basis:
    """The same where `first_request` took the noise as white: the words must not claim that somebody stated it."""
    return basis._replace(noise=dataclasses.replace(basis.noise, words=UNSTATED))


def answer_families(model: SlotFlow, cases: Sequence[Case], call: Call) -> Iterator[Posterior]:
    """The posteriors under priors of other waveforms than tones, in order.

    The network alone answers all of them together, the exact step one after another.

    Args:
        model: The network, whose prior over K stands in where none is stated.
        cases: Data and what is assumed of them.
        call: What is asked.
    """
    network = _network(model, cases[0].assumed.prior) if cases else None
    if not call.exact and network is not None:
        priors = [case.assumed.prior for case in cases]
        yield from network.answers([case.observation for case in cases], priors, call.k_prior)
        return
    for case in cases:
        yield _exact(model, case, call)


def _exact(model: SlotFlow, case: Case, call: Call) -> Posterior:
    """The exact posterior; under another noise where white noise does not explain the data."""
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
    except NothingFits:  # nothing that the prior allows has any weight under that noise
        return post
    return post if again.verdict.status == "misfit" else again


def _answered(model: SlotFlow, case: Case, call: Call) -> FamilyPosterior:
    """The answer under what is assumed; an upper bound of amplitudes that is the data's is raised where it presses."""
    assumed = dataclasses.replace(case.assumed, prior=_own_bounds(case))
    is_own = assumed.sources.get("amplitude") == DATA
    for _ in range(MOST_RAISES if is_own else 0):
        try:
            post = _answered_under(model, case, call, assumed)
        except NothingFits:
            post = None
        if post is not None and not _presses(post):
            return post
        low, high = assumed.prior.amplitude
        raised = dataclasses.replace(assumed.prior, amplitude=(low, RAISE * high))
        assumed = dataclasses.replace(assumed, prior=raised)
    return _answered_under(model, case, call, assumed)


def _presses(post: FamilyPosterior) -> bool:
    """Whether the upper bound of the amplitudes cuts the posterior of the most probable K."""
    assert post.prior is not None
    theta = post.slots.theta[post.k_map]
    largest = theta[..., list(post.waveform.amplitude_columns)].max((-2, -1), initial=0.0)
    return bool(np.quantile(largest, PRESSED) > PRESSING * post.prior.amplitude[1])


def _answered_under(model: SlotFlow, case: Case, call: Call, assumed: Assumed) -> FamilyPosterior:
    """The answer under a prior."""
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


def _own_bounds(case: Case) -> Prior:
    """The prior with bounds that suit its waveform, where the user has not stated them.

    The peak of a spectrum says little of a component that is short or spread out, least of all under a window that
    begins with zeros: matched filters of its own form say how strong it is.
    """
    assumed, prior = case.assumed, case.assumed.prior
    changes: dict[str, object] = {}
    if assumed.sources.get("amplitude") == DATA:
        low, high = prior.amplitude
        seen = largest_amplitude(case.observation, prior, case.basis.noise)
        upper = max(high * prior.waveform.dilution(assumed.duration), ABOVE_PEAK * seen)
        changes["amplitude"] = (low, two_digits(upper))
    if assumed.sources.get("min_separation") == WEAK:
        changes["min_separation"] = 0.0
    return dataclasses.replace(prior, **changes)  # type: ignore[arg-type]
