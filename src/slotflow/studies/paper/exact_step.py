"""Test sets behind the exact step, signal by signal over several processes, as the same summaries.

Every signal has a seed of its own (`evaluate/exact_sets.py`), so that any process can draw it. If the exact step gave
the true K no draws, the truth is outside of every region: its level is 1, and widths are the network's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from slotflow.network.model import SlotFlow
from slotflow.signal.bounds import crb_std
from slotflow.studies.answers import exact_answer
from slotflow.studies.measures.parameters import SIZE
from slotflow.studies.measures.tones import ToneSummary, summarise
from slotflow.studies.suites.exact.parts import DRAWS, Part, draw_signal
from slotflow.studies.suites.results import SetResult
from slotflow.studies.suites.sets import SignalSet, suite_seed
from slotflow.studies.tasks import Record, Worker, run_tasks

__all__ = ["ExactSet", "ExactStep"]

FIRST = 96
"""Added to a set's number: the signals are others of the same law than those of the network alone."""


@dataclass(frozen=True, eq=False)
class ExactSet:
    """A set behind the exact step."""

    result: SetResult
    """The same summaries as of the network alone."""
    verdicts: dict[str, int]
    """How many answers were "exact", "approximate" or "misfit"."""
    unsampled: int
    """Signals whose true K had no exact draws."""

    def facts(self) -> dict[str, Any]:
        """What is kept beside the measures, as plain values."""
        return {
            "verdicts": self.verdicts,
            "unsampled": self.unsampled,
            "seconds_per_signal": self.result.seconds / self.result.n,
        }


@dataclass(frozen=True)
class ExactStep:
    """How the exact step is run."""

    source: str | None = None
    """Weights, as `SlotFlow.from_pretrained` takes them."""
    jobs: int = 1
    """Processes, one thread each; 0: this process."""
    draws: int = DRAWS
    """Weighted draws of each K."""
    max_seconds: float = 10.0
    """Time budget of one signal."""

    def run(
        self,
        sets: Mapping[str, SignalSet],
        n: int,
        *,
        draws: int,
        seed: int,
        advance: Callable[[int], None],
    ) -> dict[str, ExactSet]:
        """Analyses the first n signals of each set.

        Args:
            sets: The sets by name.
            n: Signals of each.
            draws: Equally weighted draws that the truth is compared with.
            seed: The user's seed.
            advance: Called with 1 after each signal.
        """
        found: dict[str, dict[int, Record]] = {name: {} for name in sets}

        def done(name: str, record: Record) -> None:
            found[name][record["i"]] = record
            advance(1)

        tasks = [(name, i) for name in sets for i in range(n)]
        run_tasks(tasks, partial(_worker, self, dict(sets), draws, seed), done, self.jobs)
        return {
            name: _assemble([records[i] for i in range(n)], sets[name].prior.k_max)
            for name, records in found.items()
        }


def _worker(step: ExactStep, sets: dict[str, SignalSet], draws: int, seed: int) -> Worker:
    """Loads the network and gives the function that takes (set, index) to a record."""
    model = SlotFlow.from_pretrained(step.source)
    return lambda name, i: {"i": i} | _solve(model, step, sets[name], i, draws, seed)


def _solve(
    model: SlotFlow, step: ExactStep, signals: SignalSet, i: int, draws: int, seed: int
) -> Record:
    """One signal's exact answer at its true K against the truth."""
    number = FIRST + signals.number
    ks = () if signals.k is None else (signals.k,)
    sim = draw_signal(Part(number, signals.prior, i + 1, ks), i, seed)
    began = time.perf_counter()
    post = exact_answer(
        model,
        sim.observation(0),
        signals.prior,
        draws=step.draws,
        seed=i,
        max_seconds=step.max_seconds,
    )
    seconds = time.perf_counter() - began
    k = int(sim.k)
    truth, mask = sim.theta[:, :k], torch.ones(1, k, dtype=torch.bool)
    own = suite_seed(number, i, seed)
    sample = torch.from_numpy(post.sample(draws, k, i))[None]
    found = summarise(sample, truth, mask, own)
    sampled = post.sampled(k)
    return {
        "k": k,
        "k_probs": post.k_probs.tolist(),
        "sigma": float(sim.sigma),
        "theta": truth[0].tolist(),
        "median": found.median[0].tolist(),
        "sd": found.sd[0].tolist(),
        "level": (found.level if sampled else torch.ones_like(found.level))[0].tolist(),
        "bound": crb_std(truth, sim.sigma, sim.grids, mask)[0].tolist(),
        "sampled": sampled,
        "status": post.verdict.status,
        "seconds": seconds,
    }


def _assemble(records: list[Record], k_max: int) -> ExactSet:
    """Records of one set as summaries of (n, k_max, P)."""

    def padded(key: str) -> Tensor:
        values = torch.zeros(len(records), k_max, SIZE, dtype=torch.float64)
        for row, record in zip(values, records, strict=True):
            row[: record["k"]] = torch.tensor(record[key], dtype=torch.float64)
        return values

    def column(key: str) -> Tensor:
        return torch.tensor([record[key] for record in records], dtype=torch.float64)

    statuses = [str(record["status"]) for record in records]
    result = SetResult(
        k=torch.tensor([record["k"] for record in records]),
        k_probs=column("k_probs"),
        sigma=column("sigma"),
        theta=padded("theta"),
        tones=ToneSummary(padded("median"), padded("sd"), padded("level")),
        bound=padded("bound"),
        catalogue=None,
        seconds=float(column("seconds").sum()),
    )
    verdicts = {status: statuses.count(status) for status in sorted(set(statuses))}
    return ExactSet(result, verdicts, sum(not record["sampled"] for record in records))
