"""Many signals one after another: what is refused names its signal, and a failing exact step does not end the others.

A signal whose exact step fails gets the network's answer, or of data that no network reads one that was not sampled;
its verdict says so, and a warning names it. A signal alone has nothing to lose: there the error is raised.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from slotflow.data.observation import Observation
from slotflow.exact.refine import STEP_FAILURES
from slotflow.infer.call import Call, Case
from slotflow.infer.general import unsampled_posterior
from slotflow.infer.run import answers, asked, case_of
from slotflow.network.cardinality import under_k_prior
from slotflow.network.model import SlotFlow
from slotflow.posterior.posterior import Posterior
from slotflow.signal.waveforms import TONE

__all__ = ["each_answered", "named", "named_case", "one_after_another", "places_of", "posteriors"]


def posteriors(
    model: SlotFlow,
    observations: list[Observation],
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Iterator[Posterior]:
    """Checks everything that was asked at once, and gives the posteriors one by one.

    Args:
        model: The network.
        observations: What was measured.
        device: Where to move the network first.
        dtype: Its floating-point type.
        **options: The other keywords of `SlotFlow.infer`.
    """
    found = one_after_another(model, observations, asked(model, **options))
    model._move(device, dtype)  # outside inference mode: the weights must stay trainable
    return found


def one_after_another(
    model: SlotFlow, observations: Sequence[Observation], call: Call
) -> Iterator[Posterior]:
    """The posteriors of observations, whatever fails; all of them are checked before the first answer."""
    places = places_of(observations)
    pairs = zip(observations, places, strict=True)
    cases = [named_case(model, one, call, place) for one, place in pairs]
    return each_answered(model, cases, call, places)


def places_of(observations: Sequence[Observation]) -> list[int | None]:
    """The places by which messages name signals; None for a signal alone, which needs no name."""
    return list(range(len(observations))) if len(observations) > 1 else [None] * len(observations)


@contextmanager
def named(place: int | None) -> Iterator[None]:
    """What fails here names the signal; an index of None leaves errors as they are."""
    try:
        yield
    except STEP_FAILURES as error:
        if place is None:
            raise
        said = error if isinstance(error, ValueError) else repr(error)
        raise ValueError(f"signal {place}: {said}") from error


def named_case(model: SlotFlow, observation: Observation, call: Call, place: int | None) -> Case:
    """What is assumed of an observation; what is refused names it by its place."""
    with named(place):
        return case_of(model, observation, call)


def each_answered(
    model: SlotFlow, cases: Sequence[Case], call: Call, places: Sequence[int | None]
) -> Iterator[Posterior]:
    """The posteriors of signals in their order, whatever fails.

    Args:
        model: The network.
        cases: The signals and what is assumed of them.
        call: What is asked.
        places: By which messages name them; None for a signal alone, whose failure is raised.
    """
    done = 0
    while done < len(cases):
        try:
            for post in answers(model, cases[done:], call):
                yield post
                done += 1
        except STEP_FAILURES as error:
            yield _instead(model, cases[done], call, places[done], error)
            done += 1


def _instead(
    model: SlotFlow, case: Case, call: Call, place: int | None, error: Exception
) -> Posterior:
    """The answer to a signal whose exact step has failed, with a warning; raises the error where nothing stands in."""
    with named(place):
        if place is None or not call.exact:
            raise error
        try:
            post, who = _stand_in(model, case, call, f"the exact step failed ({error!r})")
        except STEP_FAILURES:
            raise error from None
    warnings.warn(f"signal {place}: the exact step failed ({error!r}); {who}", stacklevel=3)
    return post


def _stand_in(model: SlotFlow, case: Case, call: Call, reason: str) -> tuple[Posterior, str]:
    """An answer without the exact step, and whose it is: the network's, or where it reads no such data nobody's."""
    if case.basis.likelihood is None or case.assumed.prior.waveform != TONE:
        alone = replace(call, method="network", sampler=None)
        post = next(answers(model, [case_of(model, case.given, alone)], alone))
        return post, "the network's answer stands in for it"
    prior = under_k_prior(case.assumed.prior, call.k_prior, model.config.prior)
    unsampled = unsampled_posterior(case.basis, prior, reason)
    unsampled.assumed = case.assumed
    return unsampled, "an answer that was not sampled stands in for it"
