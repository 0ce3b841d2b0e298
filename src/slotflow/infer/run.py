"""From observations to posteriors: the network on many of them at once, then the likelihood on each.

The network answers a batch in one pass. Unless only that is wanted, every answer is then refined on its own
(`slotflow.exact.refine`) and handed out as soon as it is ready. The network may answer under another prior than that of
the observation, as a place to start from (`SlotFlow._start`); the exact step answers under the observation's.

A band wider than the network's window is analysed in several windows, and so is one that turns out to hold more tones
than the network can count, unless the user has said how many there may be (`slotflow.bands`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from slotflow.bands.windows import DEFAULT_SECONDS as BAND_SECONDS
from slotflow.bands.windows import infer_band, is_crowded, needs_windows
from slotflow.core.budget import Budget
from slotflow.core.later import later
from slotflow.core.methods import SAMPLERS
from slotflow.core.stages import tell
from slotflow.core.threads import threads
from slotflow.data.observation import Observation
from slotflow.exact.refine import STEP_FAILURES
from slotflow.infer.again import better, other_noise, other_separation
from slotflow.infer.assume import assume
from slotflow.infer.call import LAST_SHARE, Call, Case
from slotflow.infer.family import answer_families, check_family, first_request, unstated
from slotflow.infer.general import general_posterior
from slotflow.infer.levels import MEASURED, levels_refused, own_levels, unexplained
from slotflow.infer.running import evaluating
from slotflow.infer.statement import Statement
from slotflow.network.cardinality import check_k_prior, under_k_prior
from slotflow.network.model import SlotFlow
from slotflow.posterior.assumed import DATA, WEAK
from slotflow.posterior.posterior import Posterior
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["answers", "asked", "case_of", "one_by_one"]

EXACT_THREADS = 1
"""CPU threads of the exact step of an even series in white noise, unless others are asked for: its arrays are small,
and on a machine of many cores the threads would wait for each other most of the time."""
Sampled = Callable[[Prior, float], Posterior]
"""The exact answer under a prior within some seconds."""


def one_by_one(
    model: SlotFlow, observations: list[Observation], call: Call, skip: Collection[int] = ()
) -> Iterator[Posterior]:
    """The posteriors of observations; all of them are checked before the first answer.

    Args:
        model: The network.
        observations: What was measured.
        call: What is asked.
        skip: Positions of observations that have their answers already. They go through the network in the company of
            the others, whose rounding depends on it, and nothing else is done with them.
    """
    return answers(model, [case_of(model, one, call) for one in observations], call, skip)


def answers(
    model: SlotFlow, cases: Sequence[Case], call: Call, skip: Collection[int] = ()
) -> Iterator[Posterior]:
    """The posteriors of observations whose assumptions have been made; the arguments are those of `one_by_one`."""
    size = call.signals_at_once(model.device)
    for first in range(0, len(cases), size):
        skipped = {i - first for i in skip}
        yield from _answers(model, cases[first : first + size], call, skipped)


def asked(
    model: SlotFlow,
    method: str = "exact",
    prior: Prior | Mapping[str, Any] | Statement | None = None,
    **options: Any,
) -> Call:
    """What is asked of every observation, checked.

    Args:
        model: The network.
        method: One of `METHODS`.
        prior: What is stated of the prior.
        **options: The other keywords of `SlotFlow.infer`, but for device and type.
    """
    known = [
        field.name for field in dataclasses.fields(Call) if field.name not in ("method", "stated")
    ]
    if unknown := [name for name in options if name not in known]:
        raise ValueError(
            f"infer expects some of prior, method, refine, device, dtype, {', '.join(known)}, received {unknown[0]!r}; "
            "correct or drop it."
        )
    stated = Statement.of(prior, options.get("k_prior"))
    call = Call(method, stated, **options)
    if stated.k_prior is not None:
        stated.check_counts(check_k_prior(stated.k_prior, model.config.prior))
        call = dataclasses.replace(call, k_prior=stated.k_prior)
    return call


def case_of(model: SlotFlow, observation: Observation, call: Call) -> Case:
    """Decides what is assumed of an observation and who answers; refuses what nobody can answer."""
    budget, stated = Budget(call.seconds), call.stated
    with budget.running():
        wanted = call.request
        request = first_request(stated, wanted)
        basis = assume(model, observation, stated, not call.exact, request)
        if request is not wanted:
            basis = unstated(basis)
    prior, start = basis.assumed.prior, None
    if prior.waveform != TONE:
        case = Case(observation, stated, basis, budget, False, None)
        check_family(model, case, call)
        return case
    in_windows = call.method not in SAMPLERS and needs_windows(model, basis.observation, prior)
    if in_windows:
        basis = basis._replace(assumed=dataclasses.replace(basis.assumed, in_windows=True))
    elif basis.likelihood is not None and not call.exact:
        raise ValueError(
            f"the method {call.method!r} reads even, real series of one or two channels, received other data; leave "
            "the exact step on (method='exact'), which knows any sampling."
        )
    elif basis.likelihood is None and call.method not in SAMPLERS:
        start = model._start(prior, basis.observation.long.grid, call.exact)
        model._check(basis.observation, start)
    return Case(observation, stated, basis, budget, in_windows, start)


def _answers(
    model: SlotFlow, cases: Sequence[Case], call: Call, skip: Collection[int] = ()
) -> Iterator[Posterior]:
    """The posteriors of one batch, in its order; what the network can answer at once, it answers first."""
    started = [case for case in cases if case.start is not None]
    if started:
        tell("network")
    quick = iter(_amortized(model, started, call) if started else [])
    others = [c for i, c in enumerate(cases) if c.assumed.prior.waveform != TONE and i not in skip]
    families = answer_families(model, others, call)
    for i, case in enumerate(cases):
        if i in skip:
            if case.start is not None:
                next(quick)
            continue
        tell("exact step" if call.exact else "answer")
        if case.assumed.prior.waveform != TONE:
            with threads(call.threads):
                post: Posterior = next(families)
            post = _at_own_levels(model, case, call, post)
        elif case.in_windows:
            post = _at_own_levels(model, case, call, _in_windows(model, case, call))
        elif case.basis.likelihood is not None:
            post = _exact(model, case, call, _general(model, case, call))
        elif case.start is None:
            post = _sampled(model, case, call)
        else:
            post = next(quick)
            if call.exact:
                post = _exact(model, case, call, _refined(post, case, call))
        if post.assumed is None:
            post.assumed = case.assumed
        yield post


def _refined(post: Posterior, case: Case, call: Call) -> Sampled:
    """How the exact step answers that begins where the network ends."""
    return lambda prior, seconds: post.refine(
        prior=prior, draws=call.draws, seed=call.seed, max_seconds=seconds, noise=case.basis.noise
    )


def _general(model: SlotFlow, case: Case, call: Call) -> Sampled:
    """How the exact step answers for data that are not plain."""
    return lambda prior, seconds: general_posterior(model, case.basis, prior, call.effort(seconds))


def _exact(
    model: SlotFlow, case: Case, call: Call, sampled: Sampled, any_noise: bool = True
) -> Posterior:
    """The exact posterior of one window.

    Where the noise does not explain the data after all, or its colour is in doubt, the analysis is made again under
    another noise; where the distance of tones may be why they do not, under another distance; a crowded band is
    analysed in windows.

    Args:
        model: The network.
        case: The data and what is assumed of them.
        call: What is asked.
        sampled: The exact step.
        any_noise: Whether another noise may be tried.
    """
    plain = EXACT_THREADS if case.start is not None else None
    with threads(call.threads or plain), evaluating(model):
        with case.budget.running(LAST_SHARE) as seconds:
            prior = under_k_prior(case.assumed.prior, call.k_prior, model.config.prior)
            post = sampled(prior, seconds)
            post.assumed = case.assumed
        if levels_refused(case, post):
            return _at_own_levels(model, case, call, post)
        with case.budget.running(LAST_SHARE):
            noise = other_noise(model, case, post, call) if any_noise else None
        if noise is not None:
            with suppress(*STEP_FAILURES):  # the first answer stays
                return better(_under(model, case, call, noise), post, preferred=True)
        other = other_separation(case, post)
        if other is not None and case.budget.left > LAST_SHARE * case.budget.seconds:
            with suppress(*STEP_FAILURES), case.budget.running() as seconds:
                prior = under_k_prior(other.prior, call.k_prior, model.config.prior)
                again = sampled(prior, seconds)
                again.assumed = other
                post = better(again, post, preferred=other.prior.min_separation > 0)
    return _uncrowded(model, case, post, call)


def _at_own_levels(model: SlotFlow, case: Case, call: Call, post: Posterior) -> Posterior:
    """The answer, or that with a noise level of each channel where the data refuse one for all that nobody has stated.

    Args:
        model: The network.
        case: What was assumed.
        call: What is asked.
        post: The answer at one level.
    """
    if not levels_refused(case, post):
        return post
    with case.budget.running(LAST_SHARE):
        levelled = own_levels(case, post, call)
    if levelled is None:
        return post
    again = case_of(model, levelled, call)
    case.budget.spent += again.budget.spent
    (found,) = _answers(model, [dataclasses.replace(again, budget=case.budget)], call)
    if found.verdict.status != "misfit" and (line := unexplained(found)):
        assumed = case.assumed
        post.assumed = dataclasses.replace(assumed, warnings=(*assumed.warnings, line))
        return post
    if found.noise is not None:
        words = "; ".join(filter(None, (found.noise.words, MEASURED)))
        found.noise = dataclasses.replace(found.noise, words=words)
    return better(found, post, preferred=True)


def _under(model: SlotFlow, case: Case, call: Call, noise: NoiseModel) -> Posterior:
    """The answer under another noise, which is then as good as stated."""
    stated = case.stated.within(case.assumed.prior.frequency)
    request = dataclasses.replace(call.request, noise=noise)
    with case.budget.running(LAST_SHARE):
        basis = assume(model, case.given, stated, request=request)
    again = dataclasses.replace(case, basis=basis, start=None)
    return _exact(model, again, call, _general(model, again, call), any_noise=False)


def _uncrowded(model: SlotFlow, case: Case, post: Posterior, call: Call) -> Posterior:
    """The posterior, or that of windows where there are more tones than the network can count."""
    if not case.limits_k and is_crowded(model, post, case.assumed.prior):
        with suppress(*STEP_FAILURES):  # what windows refuse stays the misfit that it is
            post = _in_windows(model, case, call)
    return post


def _in_windows(model: SlotFlow, case: Case, call: Call) -> Posterior:
    """The posterior of a band in windows, in what is left of the time for it."""
    sources = case.assumed.sources
    own = {"amplitude": DATA, "sigma": DATA, "min_separation": WEAK}
    derived = [name for name, source in own.items() if sources.get(name) == source]
    budget = Budget(BAND_SECONDS if call.max_seconds is None else call.max_seconds)
    budget.spent = case.budget.spent
    with budget.running(LAST_SHARE) as seconds:
        post = infer_band(
            model,
            case.observation,
            case.assumed.prior,
            derived=derived,
            max_seconds=seconds,
            **call.for_windows,
        )
    assert post.prior is not None
    whole = post.prior.amplitude, post.prior.sigma  # each window has bounds of its own
    prior = dataclasses.replace(case.assumed.prior, amplitude=whole[0], sigma=whole[1])
    post.assumed = dataclasses.replace(case.assumed, prior=prior, in_windows=True)
    return post


def _sampled(model: SlotFlow, case: Case, call: Call) -> Posterior:
    """The posterior by a classical method, which lives in a later room; without a stated budget it has all the time."""
    prior = under_k_prior(case.assumed.prior, call.k_prior, model.config.prior)
    budget = Budget(math.inf if call.max_seconds is None else call.max_seconds)
    with threads(call.threads), budget.running():
        post: Posterior = later("baseline")(
            call.method, case.observation, prior, seed=call.seed, **(call.sampler or {})
        )
    return post


def _amortized(model: SlotFlow, cases: list[Case], call: Call) -> list[Posterior]:
    """The network's answers; the model's mode is left as it was."""
    chunk = [case.observation for case in cases]
    starts = [case.start for case in cases if case.start is not None]
    with threads(call.threads), evaluating(model), torch.inference_mode():
        return model._infer_batch(chunk, starts, call.k_prior)
