"""From the network's answers to many signals to their exact posteriors, in chunks that fit into memory.

Signals are sorted by the number of tones that the network sees, and those with the same number are decided together
(`group.py`). A chunk that does not fit into memory is halved. Signals that a batch cannot decide are handed back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.devices import in_halves, upload
from slotflow.core.stages import tell
from slotflow.core.threads import side_by_side
from slotflow.exact.batch.draws import Numbers, numbers_on_gpu
from slotflow.exact.batch.group import DECIDED, POOR_DRAWS, Group, decide, decide_empty, undecided
from slotflow.exact.batch.near import TERMS
from slotflow.exact.batch.posteriors import ExactPosteriors, Question
from slotflow.exact.judged import noise_fits
from slotflow.exact.modes import CLOSE
from slotflow.exact.refine import SINGULAR
from slotflow.exact.slow_noise import SLOW
from slotflow.posterior.batched import Batched, Rows
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["LATER", "Starts", "Told", "exact_answers", "suits_batches"]

Starts = Callable[[Rows, int], Tensor]
"""Gives frequencies in Hz, (S, K), on the device of the signals, where K tones of some signals are looked for; their
rows ascend."""
Told = Callable[[Rows, Group], None]
"""Hears of a group of signals, with their rows."""
CHUNK_BYTES = 2**27
"""Bytes that the draws of a chunk may take on a CPU: more would leave its caches."""
CHUNK_SHARE = 0.15
"""Share of a GPU's free memory that they may take there."""
CHUNKS_AT_A_TIME = {"cuda": 3}
"""Chunks that are worked on side by side; on a CPU one after the other."""
MORE = 4
"""Factor on the number of draws for signals of which the first ones were too poor."""
NO_SOLUTION = "no solution"
"""Reason of signals among which are some whose equations have no solution."""
LATER = "later"
"""Reason of a signal that comes a second time."""
COPIES = 4
"""Arrays of the size of the largest one that are alive at a time."""


def suits_batches(prior: Prior, resolution: float) -> bool:
    """Whether a batch can decide anything under a prior: tones that it keeps apart, in noise of an unknown level.

    Where p(K) has holes, orders beyond them are looked for in a way that is not for batches. In bands that begin below
    `SLOW` cycles, a tone may be in doubt for a reason that batches do not look for (`slow_noise.py`).

    Args:
        prior: The prior to answer under.
        resolution: 1/T of the long stream in Hz.
    """
    apart = prior.min_separation >= CLOSE * resolution
    fast = prior.frequency[0] >= SLOW * resolution
    whole = bool((prior.k_probs_full[prior.k_min :] > 0).all())
    return prior.waveform == TONE and apart and fast and whole and prior.known_sigma is None


def exact_answers(
    amortized: Batched,
    statistics: Statistics,
    starts: Starts,
    question: Question,
    told: Told | None = None,
) -> tuple[ExactPosteriors | None, Rows]:
    """The exact posteriors of the signals that a batch can decide.

    Args:
        amortized: The network's posteriors of B signals.
        statistics: Of the same signals, even series in white noise, on the device that computes.
        starts: Where tones are looked for.
        question: What is asked; `suits_batches` is true of its prior.
        told: Called with every group of signals as soon as nothing about it will change.

    Returns:
        The posteriors, None if there are none, and rows of the signals that were decided, in the same order.
    """
    prior, reasons = question.prior, Counter[str]()
    counts = amortized.k_probs[:, prior.k_min : prior.k_max + 1].argmax(1) + prior.k_min
    rms = _rms(statistics)
    assert amortized.noise_std_error is not None
    fits = noise_fits(amortized.noise_std, amortized.noise_std_error, rms, prior)
    reasons["noise level outside the prior"] += int((~fits).sum())
    members: list[tuple[int, Group, int]] = []
    # Many tones first: more of their signals are left to be answered alone, which takes its time.
    orders = range(prior.k_max, prior.k_min - 1, -1)
    rows = {k: np.flatnonzero(fits & (counts == k)) for k in orders}
    for part, group in _groups(rows, statistics, starts, question):
        for i, (row, reason) in enumerate(zip(part.tolist(), group.reasons, strict=True)):
            if reason == DECIDED:
                members.append((row, group, i))
            elif reason != LATER:
                reasons[reason] += 1
        if told is not None:
            told(part, group)
    members.sort(key=lambda member: member[0])
    decided = np.array([row for row, _, _ in members], dtype=np.int64)
    if not members:
        return None, decided
    return ExactPosteriors(amortized, members, question, +reasons), decided


def _groups(
    rows: dict[int, Rows], statistics: Statistics, starts: Starts, question: Question
) -> Iterator[tuple[Rows, Group]]:
    """Chunks of signals of k tones, with their rows; signals that more draws may decide come a second time.

    Beside a GPU several are worked on at a time: while one waits for the device, or its p-values are computed on the
    CPU, the others go on.
    """
    device, effort = statistics.energy.device, question.effort

    def decided(part: Rows, numbers: Numbers) -> Group:
        k = numbers.k
        with torch.inference_mode():
            some = statistics.take(upload(torch.from_numpy(part), device))
            if k == 0:
                return decide_empty(some, question.prior, numbers)
            places = starts(part, k).double().sort(dim=-1).values
            try:
                return decide(some, places, question.prior, numbers)
            except SINGULAR:
                return undecided(k, [NO_SOLUTION] * len(part), question.prior)

    def worked(chunk: tuple[int, Rows, int]) -> list[tuple[Rows, Group]]:
        k, part, draws = chunk
        tell("exact batch", k)
        make = numbers_on_gpu if device.type == "cuda" else Numbers
        numbers = make(effort.seed, k, draws, device)
        return list(in_halves(partial(decided, numbers=numbers), part))

    for draws in (effort.draws, MORE * effort.draws):
        chunks, again = _chunks(rows, draws, device), dict[int, Rows]()
        at_a_time = CHUNKS_AT_A_TIME.get(device.type, 1)
        for found in side_by_side(worked, chunks, at_a_time):
            for part, group in found:
                if draws == effort.draws:
                    poor = np.array([reason in POOR_DRAWS for reason in group.reasons])
                    again[group.k] = np.append(again.get(group.k, part[:0]), part[poor])
                    for i in np.flatnonzero(poor).tolist():
                        group.reasons[i] = LATER
                yield part, group
        rows = {k: np.sort(some) for k, some in again.items()}


def _chunks(
    rows: dict[int, Rows], draws: int, device: torch.device
) -> Iterator[tuple[int, Rows, int]]:
    """Signals of each number of tones in pieces that fit into memory: the number, their rows, and the draws of each."""
    room = _bytes_of_a_chunk(device)
    for k, some in rows.items():
        each = COPIES * 8 * draws * 2 * max(k, 1) * TERMS
        size = max(room // each, 1)
        for first in range(0, len(some), size):
            yield k, some[first : first + size], draws


def _bytes_of_a_chunk(device: torch.device) -> int:
    """Bytes that the draws of a chunk may take."""
    if device.type != "cuda":
        return CHUNK_BYTES
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(CHUNK_SHARE * (torch.cuda.mem_get_info(device)[0] + kept))


def _rms(statistics: Statistics) -> NDArray[np.float64]:
    """Root mean square of the long stream, (B,)."""
    square = (statistics.series(0) ** 2).mean(-1) * statistics.ratios[0] ** 2
    found: NDArray[np.float64] = square.sqrt().cpu().numpy()
    return found
