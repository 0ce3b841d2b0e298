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

from slotflow.core.devices import in_halves
from slotflow.core.stages import tell
from slotflow.exact.batch.draws import Numbers, numbers_on_gpu
from slotflow.exact.batch.group import DECIDED, POOR_DRAWS, Group, decide, decide_empty, undecided
from slotflow.exact.batch.near import TERMS
from slotflow.exact.batch.posteriors import ExactPosteriors, Question
from slotflow.exact.judged import noise_fits
from slotflow.exact.modes import CLOSE
from slotflow.exact.refine import SINGULAR
from slotflow.posterior.batched import Batched, Rows
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Starts", "exact_answers", "suits_batches"]

Starts = Callable[[Rows, int], Tensor]
"""Gives frequencies in Hz, (S, K), on the device of the signals, where K tones of some signals are looked for."""
CHUNK_BYTES = 2**27
"""Bytes that the draws of a chunk may take on a CPU: more would leave its caches."""
CHUNK_SHARE = 0.2
"""Share of a GPU's free memory that they may take there."""
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

    Where p(K) has holes, orders beyond them are looked for in a way that is not for batches.

    Args:
        prior: The prior to answer under.
        resolution: 1/T of the long stream in Hz.
    """
    apart = prior.min_separation >= CLOSE * resolution
    whole = bool((prior.k_probs_full[prior.k_min :] > 0).all())
    return prior.waveform == TONE and apart and whole and prior.known_sigma is None


def exact_answers(
    amortized: Batched, statistics: Statistics, starts: Starts, question: Question
) -> tuple[ExactPosteriors | None, Rows]:
    """The exact posteriors of the signals that a batch can decide.

    Args:
        amortized: The network's posteriors of B signals.
        statistics: Of the same signals, even series in white noise, on the device that computes.
        starts: Where tones are looked for.
        question: What is asked; `suits_batches` is true of its prior.

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
    for k in range(prior.k_min, prior.k_max + 1):
        rows = np.flatnonzero(fits & (counts == k))
        if not rows.size:
            continue
        for part, group in _groups(rows, k, statistics, starts, question):
            for i, reason in enumerate(group.reasons):
                if reason == DECIDED:
                    members.append((int(part[i]), group, i))
                elif reason != LATER:
                    reasons[reason] += 1
    members.sort(key=lambda member: member[0])
    decided = np.array([row for row, _, _ in members], dtype=np.int64)
    if not members:
        return None, decided
    return ExactPosteriors(amortized, members, question, +reasons), decided


def _groups(
    rows: Rows, k: int, statistics: Statistics, starts: Starts, question: Question
) -> Iterator[tuple[Rows, Group]]:
    """Chunks of signals of k tones, with their rows; signals that more draws may decide come a second time."""
    device, effort = statistics.energy.device, question.effort

    def decided(part: Rows, numbers: Numbers) -> Group:
        with torch.inference_mode():
            some = statistics.take(torch.from_numpy(part).to(device))
            if k == 0:
                return decide_empty(some, question.prior, numbers)
            places = starts(part, k).double().sort(dim=-1).values
            try:
                return decide(some, places, question.prior, numbers)
            except SINGULAR:
                return undecided(k, [NO_SOLUTION] * len(part), question.prior)

    for draws in (effort.draws, MORE * effort.draws):
        make = numbers_on_gpu if device.type == "cuda" else Numbers
        numbers = make(effort.seed, k, draws, device)
        each = COPIES * 8 * draws * 2 * max(k, 1) * TERMS
        size = max(_bytes_of_a_chunk(device) // each, 1)
        again: list[int] = []
        for first in range(0, len(rows), size):
            chunk = rows[first : first + size]
            tell("exact batch", k)
            for part, group in in_halves(partial(decided, numbers=numbers), chunk):
                poor = [reason in POOR_DRAWS for reason in group.reasons]
                if draws == effort.draws:
                    again += part[poor].tolist()
                    group.reasons[:] = [
                        LATER if later else reason
                        for reason, later in zip(group.reasons, poor, strict=True)
                    ]
                yield part, group
        rows = np.array(again, dtype=np.int64)


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
