"""From observations to posteriors: the network on many of them at once, then the likelihood on each.

The network answers a batch in one pass. Unless only that is wanted, every answer is then refined on its own
(`slotflow.exact.refine`) and handed out as soon as it is ready. The network may answer under another prior than that of
the observation, as a place to start from (`SlotFlow._start`); the exact step answers under the observation's.

A band wider than the network's window is analysed in several windows, and so is one that turns out to hold more tones
than the network can count, unless the user has said how many there may be (`slotflow.bands`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slotflow.bands.windows import infer_band, is_crowded, needs_windows
from slotflow.core.later import later
from slotflow.core.methods import METHODS, SAMPLERS
from slotflow.data.observation import Observation
from slotflow.exact.refine import Effort, check_budget
from slotflow.infer.assume import Basis, assume
from slotflow.infer.general import general_posterior
from slotflow.infer.noise_choice import second_noise
from slotflow.infer.request import DataRequest
from slotflow.infer.separation import UNRESOLVED, separated, unseparated
from slotflow.infer.statement import Statement
from slotflow.network.cardinality import check_k_prior, under_k_prior
from slotflow.network.model import SlotFlow
from slotflow.network.options import KPrior
from slotflow.posterior.assumed import DATA, WEAK, Assumed
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["posteriors"]

DEFAULT_SECONDS = 10.0
"""Time budget of the exact step of one window, where none is stated; a band in windows has one of its own."""
LAST_SHARE = 0.3
"""Share of the time budget that the exact step gets at least, whatever was spent before."""


@dataclass(frozen=True)
class _Call:
    """What is asked of every observation, checked."""

    method: str
    k_prior: KPrior | None = None
    draws: int = 2000
    max_seconds: float | None = None
    seed: int = 0
    threads: int | None = None
    batch_size: int = 256
    sampler: Mapping[str, Any] | None = None
    noise: Any = "auto"
    outliers: str | None = None
    trend: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(
                f"expected method to be one of {', '.join(METHODS)}, received {self.method!r}."
            )
        if self.sampler is not None and self.method not in SAMPLERS:
            raise ValueError(
                f"sampler= holds arguments of the methods {', '.join(SAMPLERS)}, received method = {self.method!r}; "
                "drop it or choose one of these methods."
            )
        if self.batch_size < 1:
            raise ValueError(f"infer expects batch_size >= 1, received {self.batch_size}.")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"expected threads >= 1, received {self.threads}.")
        if self.exact:
            check_budget(self.draws, self.seconds)
        _ = self.request  # refuses what cannot be asked of the data

    @property
    def exact(self) -> bool:
        """Whether the exact step follows the network."""
        return self.method == "exact"

    @property
    def request(self) -> DataRequest:
        """What is said of the data."""
        return DataRequest(self.noise, self.outliers, self.trend)

    @property
    def seconds(self) -> float:
        """Time budget of the exact step of one window."""
        return DEFAULT_SECONDS if self.max_seconds is None else self.max_seconds

    def effort_after(self, spent: float) -> Effort:
        """How much work the exact step may be after some seconds were spent on the noise or on another attempt."""
        left = max(self.seconds - spent, LAST_SHARE * self.seconds)
        return Effort(self.draws, self.seed, left)

    @property
    def for_windows(self) -> dict[str, Any]:
        """What is asked of each window of a band."""
        names = ("k_prior", "draws", "seed", "threads", "noise", "outliers", "trend")
        time = {} if self.max_seconds is None else {"max_seconds": self.max_seconds}
        return {"refine": self.exact} | {name: getattr(self, name) for name in names} | time


@dataclass(frozen=True)
class _Case:
    """An observation and what is assumed of it."""

    given: Observation
    """The data as they came."""
    stated: Statement
    """What the user says of the prior."""
    basis: Basis
    """What is assumed, and the data as they are analysed."""
    seconds: float
    """Time that was spent on it."""
    in_windows: bool
    start: Prior | None
    """The prior that the network answers under; None if windows, another method or the general way answer."""

    @property
    def limits_k(self) -> bool:
        """Whether the user has said how many components there may be."""
        return self.stated.limits_k

    @property
    def observation(self) -> Observation:
        """The data as they are analysed."""
        return self.basis.observation

    @property
    def assumed(self) -> Assumed:
        """What is assumed of them."""
        return self.basis.assumed


def posteriors(
    model: SlotFlow,
    observations: list[Observation],
    *,
    method: str = "exact",
    prior: Prior | Mapping[str, Any] | Statement | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Iterator[Posterior]:
    """Checks everything that was asked at once, and gives the posteriors one by one.

    Args:
        model: The network.
        observations: What was measured.
        method: One of `METHODS`.
        prior: What is stated of the prior.
        device: Where to move the network first.
        dtype: Its floating-point type.
        **options: The other keywords of `SlotFlow.infer`.
    """
    call = _Call(method, **options)
    stated = Statement.of(prior, call.k_prior)
    if stated.k_prior is not None:
        check_k_prior(stated.k_prior, model.config.prior)
        call = dataclasses.replace(call, k_prior=stated.k_prior)
    cases = [_case(model, one, stated, call) for one in observations]
    model._move(device, dtype)  # outside inference mode: the weights must stay trainable

    def answers() -> Iterator[Posterior]:
        for first in range(0, len(cases), call.batch_size):
            yield from _answers(model, cases[first : first + call.batch_size], call)

    return answers()


def _case(model: SlotFlow, observation: Observation, stated: Statement, call: _Call) -> _Case:
    """Decides what is assumed of an observation and who answers; refuses what nobody can answer."""
    began = time.perf_counter()
    basis = assume(model, observation, stated, not call.exact, call.request)
    prior, start = basis.assumed.prior, None
    if prior.waveform != TONE:
        raise ValueError(
            f"expected a prior of tones, received one of {prior.waveform.text!r}: other waveforms are simulated, but "
            "not inferred yet."
        )
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
    return _Case(observation, stated, basis, time.perf_counter() - began, in_windows, start)


def _answers(model: SlotFlow, cases: list[_Case], call: _Call) -> Iterator[Posterior]:
    """The posteriors of one batch, in its order; what the network can answer at once, it answers first."""
    started = [case for case in cases if case.start is not None]
    quick = iter(_amortized(model, started, call) if started else [])
    for case in cases:
        if case.in_windows:
            post = _in_windows(model, case, call)
        elif case.basis.likelihood is not None:
            post = _general(model, case, call)
        elif case.start is None:
            post = _sampled(model, case, call)
        else:
            post = _refined(model, case, next(quick), call)
        if post.assumed is None:
            post.assumed = case.assumed
        yield post


def _refined(model: SlotFlow, case: _Case, post: Posterior, call: _Call) -> Posterior:
    """The exact posterior behind the network's answer, if it is asked for.

    Where it turns out that the noise is not white after all, the analysis is made again under another one; a crowded
    band is analysed in windows.
    """
    if not call.exact:
        return post
    began = time.perf_counter()
    prior = under_k_prior(case.assumed.prior, call.k_prior, model.config.prior)
    with _threads(call.threads):
        post = post.refine(
            prior=prior,
            draws=call.draws,
            seed=call.seed,
            max_seconds=call.seconds,
            noise=case.basis.noise,
        )
    noise = None
    if _another_noise(model, case, post, call):
        noise = second_noise(case.observation, prior.frequency, post.best_fit())
    if noise is None:
        left = call.seconds - (time.perf_counter() - began)
        other = _other_separation(case, post)
        if other is not None and left > LAST_SHARE * call.seconds:
            with _threads(call.threads):
                again = post.refine(
                    prior=under_k_prior(other.prior, call.k_prior, model.config.prior),
                    draws=call.draws,
                    seed=call.seed,
                    max_seconds=left,
                    noise=case.basis.noise,
                )
            again.assumed = other
            post = _better(again, post)
        return _uncrowded(model, case, post, call)
    request = dataclasses.replace(call.request, noise=noise)
    stated = case.stated.within(prior.frequency)
    basis = assume(model, case.given, stated, request=request)
    spent = time.perf_counter() - began
    return _general(model, dataclasses.replace(case, basis=basis, seconds=spent), call)


def _another_noise(model: SlotFlow, case: _Case, post: Posterior, call: _Call) -> bool:
    """Whether to try another noise: white noise was assumed, sampled, and does not explain the data."""
    misfit = post.verdict.status == "misfit" and post.sampled(post.k_map)
    full = post.k_map == case.assumed.prior.k_max  # what is left may be further tones
    varies = all(np.ptp(channel.values) > 0 for channel in case.observation.channels)
    known = call.noise != "auto" or model.widest_band is None
    known = known or case.assumed.prior.known_sigma is not None  # a wrong level is no colour
    return misfit and varies and not (full or known)


def _general(model: SlotFlow, case: _Case, call: _Call) -> Posterior:
    """The exact posterior of data that are not plain; in windows if the band is crowded."""
    began = time.perf_counter()
    prior = under_k_prior(case.assumed.prior, call.k_prior, model.config.prior)
    with _threads(call.threads), _evaluating(model):
        post: Posterior = general_posterior(
            model, case.basis, prior, call.effort_after(case.seconds)
        )
    post.assumed = case.assumed
    left = call.seconds - (time.perf_counter() - began) - case.seconds
    other = _other_separation(case, post)
    if other is not None and left > LAST_SHARE * call.seconds:
        rest = dataclasses.replace(call, max_seconds=left)
        prior = under_k_prior(other.prior, call.k_prior, model.config.prior)
        with _threads(call.threads), _evaluating(model):
            again: Posterior = general_posterior(model, case.basis, prior, rest.effort_after(0.0))
        again.assumed = other
        post = _better(again, post)
    return _uncrowded(model, case, post, call)


def _other_separation(case: _Case, post: Posterior) -> Assumed | None:
    """What else to assume of the distance of tones, where nobody has said it and the first answer is none.

    A line that drifts, decays or is modulated is broader than a tone, and a few tones closer than a bin, of large
    amplitudes that cancel, come near it. Such tones that do not explain the data are none: one at each place says as
    much as the data do. On the other hand, where lines that the record resolves do not explain the data, tones that it
    does not resolve may.
    """
    assumed, prior = case.assumed, case.assumed.prior
    if assumed.sources.get("min_separation") != WEAK:
        return None
    if prior.min_separation > 0:
        missed = post.verdict.status == "misfit" and post.k_map > 0
        return dataclasses.replace(assumed, prior=unseparated(prior)) if missed else None
    place = np.sort(post.waveform.place_of(post.best_fit()))
    close = len(place) > 1 and np.diff(place).min() * assumed.duration < UNRESOLVED
    apart = separated(prior, assumed.duration)
    if post.verdict.status == "exact" or not close or apart is None:
        return None
    return dataclasses.replace(assumed, prior=apart)


def _better(again: Posterior, post: Posterior) -> Posterior:
    """The second answer if it is better founded than the first, or as well and without unresolved tones."""
    rank = {"exact": 2, "approximate": 1, "misfit": 0}
    gained = rank[again.verdict.status] - rank[post.verdict.status]
    assert again.assumed is not None
    simpler = again.assumed.prior.min_separation > 0
    return again if gained > 0 or (gained == 0 and simpler) else post


def _uncrowded(model: SlotFlow, case: _Case, post: Posterior, call: _Call) -> Posterior:
    """The posterior, or that of windows where there are more tones than the network can count."""
    if not case.limits_k and is_crowded(model, post, case.assumed.prior):
        with suppress(ValueError):  # what windows refuse stays the misfit that it is
            post = _in_windows(model, case, call)
    return post


def _in_windows(model: SlotFlow, case: _Case, call: _Call) -> Posterior:
    """The posterior of a band in windows."""
    sources = case.assumed.sources
    own = {"amplitude": DATA, "sigma": DATA, "min_separation": WEAK}
    derived = [name for name, source in own.items() if sources.get(name) == source]
    post = infer_band(
        model, case.observation, case.assumed.prior, derived=derived, **call.for_windows
    )
    post.assumed = dataclasses.replace(case.assumed, in_windows=True)
    return post


def _sampled(model: SlotFlow, case: _Case, call: _Call) -> Posterior:
    """The posterior by a classical method, which lives in a later room."""
    prior = under_k_prior(case.assumed.prior, call.k_prior, model.config.prior)
    with _threads(call.threads):
        post: Posterior = later("baseline")(
            call.method, case.observation, prior, seed=call.seed, **(call.sampler or {})
        )
    return post


def _amortized(model: SlotFlow, cases: list[_Case], call: _Call) -> list[Posterior]:
    """The network's answers; the model's mode is left as it was."""
    chunk = [case.observation for case in cases]
    starts = [case.start for case in cases if case.start is not None]
    with _threads(call.threads), _evaluating(model), torch.inference_mode():
        return model._infer_batch(chunk, starts, call.k_prior)


@contextmanager
def _evaluating(model: SlotFlow) -> Iterator[None]:
    """Runs a block with the model ready for inference, and leaves its mode as it was."""
    was_training = model.training
    if was_training:  # a walk through all modules, which takes its time
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()


@contextmanager
def _threads(n: int | None) -> Iterator[None]:
    """Runs a block with n CPU threads."""
    before = torch.get_num_threads()
    if n is not None:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
