"""The network's answers to many signals as arrays: what is common to them is decided once, the rest on the device.

Where the band and the bounds of amplitude and noise are stated, what is assumed of a signal does not depend on its
samples, unless something is wrong with them. Signals that are sampled alike then share one `Case`; a screen
(`screen`) finds those that need a look of their own. All others go through the network in chunks and stay arrays
(`Batched`). Whatever cannot be answered so is answered one by one (`run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.devices import as_tensor, in_halves, upload_rows
from slotflow.core.stages import tell
from slotflow.core.threads import threads
from slotflow.data.observation import Observation
from slotflow.data.observations import Observations
from slotflow.infer.call import Call, Case
from slotflow.infer.each import named_case, one_after_another, places_of
from slotflow.infer.exact_arrays import exact_step, is_for_batches
from slotflow.infer.look import unremarkable
from slotflow.infer.rest import Rest
from slotflow.infer.run import asked
from slotflow.infer.running import evaluating
from slotflow.infer.screen import needs_no_look
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.network.zoom.spectrum import SignalBatch
from slotflow.posterior.batched import Batched
from slotflow.posterior.many import Posteriors
from slotflow.signal.waveforms import TONE

__all__ = ["Answered", "in_batches", "posteriors_together"]

TRIED = 8
"""Signals of a batch whose assumptions are looked at until some are found that a batch can be answered under."""
Places = NDArray[np.int64]
"""Places of signals among all that were given, (S,)."""


Answered = tuple[Batched | None, Places, Places]
"""Answers, the places of their signals, and the places of signals that are to be answered alone."""


class Chosen(Sequence[Observation]):
    """Some of many signals, without a copy of their samples.

    Args:
        members: All signals.
        rows: Which of them, (S,).
    """

    def __init__(self, members: Sequence[Observation], rows: Places) -> None:
        self.members, self.rows = members, rows

    @overload
    def __getitem__(self, index: int) -> Observation: ...

    @overload
    def __getitem__(self, index: slice) -> Chosen: ...

    def __getitem__(self, index: int | slice) -> Observation | Chosen:
        if isinstance(index, slice):
            return Chosen(self.members, self.rows[index])
        return self.members[int(self.rows[index])]

    def __len__(self) -> int:
        return len(self.rows)


class Alike(NamedTuple):
    """Signals that are sampled alike."""

    places: Places
    """Where they stand."""
    members: Sequence[Observation]
    """The signals, as a list or as arrays."""

    def chunks(self, size: int) -> Iterator[Alike]:
        """The same in pieces of at most so many signals."""
        for first in range(0, len(self.places), size):
            piece = slice(first, first + size)
            yield Alike(self.places[piece], self.members[piece])

    def take(self, rows: Places) -> Alike:
        """Some of them."""
        if len(rows) == len(self.places):
            return self
        return Alike(self.places[rows], Chosen(self.members, rows))

    def series(self, device: torch.device) -> list[Tensor]:
        """The samples of each channel, (S, N) each, on a GPU where there is room for them."""
        if isinstance(self.members, Observations):
            return [upload_rows(as_tensor(x), device) for x in self.members.series]
        found = []
        for s in range(len(self.members[0].channels)):
            rows = np.stack([one.channels[s].values for one in self.members], dtype=np.float64)
            found.append(upload_rows(torch.from_numpy(rows), device))
        return found


def posteriors_together(
    model: SlotFlow,
    observations: Sequence[Observation],
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Posteriors:
    """The posteriors of many observations, as arrays where they can be.

    Args:
        model: The network.
        observations: What was measured: `Observations`, or any others.
        device: Where to move the network first.
        dtype: Its floating-point type.
        **options: The other keywords of `SlotFlow.infer`.
    """
    call = asked(model, **options)
    if isinstance(observations, Observations):
        observations.check()
    if not call.processes and not _is_common(model, call):
        found = one_after_another(model, observations, call)
        model._move(device, dtype)
        return Posteriors(found)
    model._move(device, dtype)
    parts: list[Batched] = []
    places: list[int] = []
    with Rest(model, observations, call) as rest:
        for answered, done, left in in_batches(model, observations, call, rest=rest):
            parts += [] if answered is None else [answered]
            places += done.tolist()
            rest.take(left.tolist())
        decided, answers = set(places), rest.posteriors()
        single = {place: one for place, one in answers.items() if place not in decided}
    return Posteriors([*parts, *single.values()], [*places, *single])


def in_batches(
    model: SlotFlow,
    observations: Sequence[Observation],
    call: Call,
    company: int | None = None,
    rest: Rest | None = None,
) -> Iterator[Answered]:
    """The answers to many signals, batch by batch, with the places of those that are to be answered alone.

    Args:
        model: The network, on its device.
        observations: The signals.
        call: What is asked.
        company: How many signals are asked about in all, where these are only some of them.
        rest: Gets what batches leave to be done as soon as that is known, if anybody does it beside them.
    """
    nobody = np.zeros(0, dtype=np.int64)
    if not _is_common(model, call):
        yield None, nobody, np.arange(len(observations))
        return
    assert isinstance(model, ZoomSlotFlow)
    company = len(observations) if company is None else company
    alone: list[int] = []
    groups = _groups(observations, alone)
    yield None, nobody, np.array(alone, dtype=np.int64)
    names = places_of(observations)
    cases = [_common_case(model, group, call, company, names) for group in groups]
    for group, case in zip(groups, cases, strict=True):
        if case is None:
            yield None, nobody, group.places
        else:
            yield from _in_chunks(model, group, case, call, rest)


def _in_chunks(
    model: ZoomSlotFlow, group: Alike, case: Case, call: Call, rest: Rest | None
) -> Iterator[Answered]:
    """The answers to signals that are sampled alike, chunk by chunk."""
    chunks = list(group.chunks(call.signals_in_chunk(model.device)))
    for chunk, series in _ahead(chunks, model.device):

        def answer(rows: Places, chunk: Alike = chunk, series: list[Tensor] = series) -> Answered:
            index = torch.from_numpy(rows)
            some = [x if len(rows) == len(x) else x[index.to(x.device)] for x in series]
            return _answered(model, chunk.take(rows), some, case, call, rest)

        for _, found in in_halves(answer, np.arange(len(chunk.places))):
            yield found


def _common_case(
    model: ZoomSlotFlow, group: Alike, call: Call, company: int, names: Sequence[int | None]
) -> Case | None:
    """What is assumed of signals that are sampled alike; None where they are to be answered one by one.

    With the exact step that is what is assumed of the first of a few that is nothing but tones in white noise.
    """
    for i in range(min(len(group.places), TRIED if call.exact else 1)):
        case = named_case(model, group.members[i], call, names[int(group.places[i])])
        if case.start is not None and case.assumed.prior.waveform == TONE:
            together = not call.exact or is_for_batches(model, case, call, company)
            return case if together else None
    return None


def _is_common(model: SlotFlow, call: Call) -> bool:
    """Whether a network answers batches, and nothing is assumed that depends on the samples of a signal."""
    if not isinstance(model, ZoomSlotFlow):
        return False
    stated = call.stated
    band = stated.frequency is not None or stated.lowest_frequency is not None
    bounded = band and stated.amplitude is not None and stated.sigma is not None
    usual = call.noise in ("auto", "white") and call.outliers is None and call.trend is None
    return call.method in ("network", "exact") and usual and (stated.whole is not None or bounded)


def _groups(observations: Sequence[Observation], alone: list[int]) -> list[Alike]:
    """The signals that are sampled alike; places of those that are not plain are added to a list instead."""
    if isinstance(observations, Observations):
        if not all(0 <= channel.trend + 1 <= 1 for channel in observations.like):
            alone += range(len(observations))
            return []
        return [Alike(np.arange(len(observations)), observations)] if len(observations) else []
    found: dict[object, list[int]] = {}
    for i, one in enumerate(observations):
        if not one.is_plain or one.removed or max(c.trend for c in one.channels) > 0:
            alone.append(i)
            continue
        key = tuple(
            (c.n, c.dt, c.t0, c.sigma, c.trend, c.t_ref, c.unit, c.time_unit, c.notes)
            for c in one.channels
        )
        found.setdefault(key, []).append(i)
    return [Alike(np.array(some), [observations[i] for i in some]) for some in found.values()]


def _ahead(chunks: list[Alike], device: torch.device) -> Iterator[tuple[Alike, list[Tensor]]]:
    """Chunks with their samples; while a GPU works on one, the next one is made ready."""
    if device.type != "cuda":
        for chunk in chunks:
            yield chunk, chunk.series(device)
        return
    with ThreadPoolExecutor(1) as helper:
        ready = [helper.submit(chunk.series, device) for chunk in chunks[:1]]
        for i, chunk in enumerate(chunks):
            series = ready.pop().result()
            ready += [helper.submit(later.series, device) for later in chunks[i + 1 : i + 2]]
            yield chunk, series


def _answered(
    model: ZoomSlotFlow,
    chunk: Alike,
    samples: list[Tensor],
    case: Case,
    call: Call,
    rest: Rest | None,
) -> Answered:
    """The answers to the signals of a chunk that need no look of their own, their places, and those of the others."""
    assert case.start is not None
    with threads(call.threads), evaluating(model), torch.inference_mode():
        series = [x.to(model.device, non_blocking=True).double() for x in samples]
        fine = needs_no_look(series, case.start.amplitude[1])
        if call.exact and call.noise == "auto":
            duration, band = case.observation.long.duration, case.assumed.prior.frequency
            fine &= unremarkable(series[0], duration, band)
        passed = fine.cpu().numpy()
        odd = chunk.places[~passed]
        if rest is not None:
            rest.take(odd.tolist())
        if not passed.any():
            return None, chunk.places[:0], odd
        rows = np.flatnonzero(passed)
        if len(odd):
            keep = torch.from_numpy(rows).to(model.device)
            series, chunk = [x[keep] for x in series], chunk.take(rows)
        channels = case.observation.channels
        first = channels[0].sigma
        ratios = [1.0 if c.sigma is None or first is None else c.sigma / first for c in channels]
        size, found = call.signals_at_once(model.device), []
        for begin in range(0, len(rows), size):
            tell("network", begin, len(rows))
            piece = slice(begin, begin + size)
            some = [x[piece] for x in series]
            signals = SignalBatch(some, [channel.grid for channel in channels], ratios)
            members, priors = chunk.members[piece], [case.start] * len(some[0])
            found.append(model.infer_arrays(signals, members, priors, call.k_prior, case.assumed))
        if not call.exact:
            return found[0], chunk.places, odd
        exact, decided = exact_step(model, found, case, call, chunk.places, rest)
    undecided = np.delete(chunk.places, decided)
    return exact, chunk.places[decided], np.concatenate([odd, undecided])
