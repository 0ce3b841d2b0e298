"""Test sets behind the exact step, signal by signal over several processes, as the same summaries.

Every signal has a seed of its own (`evaluate/exact_sets.py`), so that any process can draw it. If the exact step gave
the true K no draws, the truth is outside of every region: its level is 1, and widths are the network's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slotflow.core.store import ANSWERING_ROOMS, Store, identity, package_code
from slotflow.network.model import SlotFlow
from slotflow.signal.bounds import crb_std
from slotflow.studies.answers import exact_answer
from slotflow.studies.measures.parameters import SIZE
from slotflow.studies.measures.tones import ToneSummary, summarise
from slotflow.studies.suites.exact.parts import Part, draw_signal
from slotflow.studies.suites.results import SetResult
from slotflow.studies.suites.sets import SignalSet, suite_seed
from slotflow.studies.suites.sizes import EXACT_DRAWS
from slotflow.studies.tasks import Record, Task, Worker, run_recorded

__all__ = ["ExactSet", "ExactStep"]

RECORDING_CODE = (
    *ANSWERING_ROOMS,
    "studies/answers",
    "studies/measures",
    "studies/suites/exact/parts",
    "studies/suites/sets",
    "studies/paper/exact_step",
)
"""Rooms and modules whose code decides what a record says."""
FIRST_SET = 96
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
    draws: int = EXACT_DRAWS
    """Weighted draws of each K."""
    max_seconds: float = 10.0
    """Time budget of one signal."""
    weights: str = ""
    """Hash of the weights, by which records are known."""
    records: Path | None = None
    """Store of the signals that were analysed, which a later run goes on from; None: they are forgotten."""

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
        code = package_code(RECORDING_CODE)
        keys = {
            name: identity(
                settings={"set": asdict(one), "draws": draws, "seed": seed, **self._budget},
                weights=self.weights,
                code=code,
            )
            for name, one in sets.items()
        }

        def identify(task: Task) -> tuple[str, str]:
            name, i = task
            return f"set {sets[name].number}, seed {seed}#{i}", keys[name]

        tasks = [(name, i) for name in sets for i in range(n)]
        make = partial(_worker, self, dict(sets), draws, seed)
        with Store(self.records) as store:
            found = run_recorded(tasks, make, store, identify, lambda *_: advance(1), self.jobs)
        return {
            name: _assemble([found[name, i] for i in range(n)], one.prior.k_max)
            for name, one in sets.items()
        }

    @property
    def _budget(self) -> dict[str, float]:
        """What an answer depends on besides the signal."""
        return {"weighted_draws": self.draws, "max_seconds": self.max_seconds}


def _worker(step: ExactStep, sets: dict[str, SignalSet], draws: int, seed: int) -> Worker:
    """Loads the network and gives the function that takes (set, index) to a record."""
    model = SlotFlow.from_pretrained(step.source)
    return lambda name, i: {"i": i} | _solve(model, step, sets[name], i, draws, seed)


def _solve(
    model: SlotFlow, step: ExactStep, signals: SignalSet, i: int, draws: int, seed: int
) -> Record:
    """One signal's exact answer at its true K against the truth."""
    number = FIRST_SET + signals.number
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
