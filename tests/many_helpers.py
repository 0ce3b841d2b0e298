"""Work on many signals without a network, some of which misbehave: for tests of processes, shards and clusters."""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slotflow.core.stages import tell
from slotflow.exact.batch import answers as batch_answers
from slotflow.many.plan import Answer, Chunk, Plan, Shard
from slotflow.many.work import Work

FILE = Path("stars.npz")
LATE = 1.5
"""Seconds that a chunk with a late signal takes as a whole."""


@dataclass(frozen=True)
class FakeWork:
    """Work whose answers follow from the number of the signal.

    Args:
        log: A line is appended to it for each signal that is answered.
        trouble: What signals do, by place: "exit", "crash", "hang", "die once", "silent", "garbled" (its answer
            cannot be read), "together" (dies with its chunk), or "late" (its chunk takes `LATE` seconds as a whole).
        seconds: That each signal takes.
    """

    log: Path
    trouble: Mapping[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    folder: Path | None = None

    def pickled(self) -> bytes:
        return pickle.dumps(replace(self, folder=Path.cwd()))

    def desk(self) -> FakeDesk:
        return FakeDesk(self)

    @property
    def writer(self) -> FakeWork:
        return self

    def written(self, file: Path, number: int) -> bool:
        return True

    def logged(self) -> list[int]:
        """The places that were answered, as they came."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []


class Unreadable:
    """What can be pickled, but not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


class FakeDesk:
    """Does the work of `FakeWork`."""

    def __init__(self, work: FakeWork) -> None:
        self.work = work
        self.job = self

    def identity(self) -> str:
        return "question"

    def answers(
        self,
        chunk: Chunk,
        known: Mapping[int, str],
        skip: Collection[int] = (),
        begin: Callable[[int], None] = lambda place: None,
    ) -> Iterator[Answer]:
        tell("network")
        together = [place for place in chunk.places if self.work.trouble.get(place) == "together"]
        if together:
            os._exit(9)
        if "late" in map(self.work.trouble.get, chunk.places):
            time.sleep(LATE)
        for place in chunk.places:
            answer = replace(chunk.answer(place), key=f"key {place}")
            if place in skip:
                continue
            if known.get(place) == answer.key:
                yield replace(answer, same=True)
                continue
            if self.work.trouble.get(place) == "silent":
                continue
            tell("exact step")
            self._misbehave(place)
            time.sleep(self.work.seconds)
            with self.work.log.open("a") as file:
                file.write(f"{place}\n")
            record = fake_record(answer, len(chunk.places))
            if self.work.trouble.get(place) == "garbled":
                record["verdict"] = Unreadable()
            yield replace(answer, record=record)

    def _misbehave(self, place: int) -> None:
        """Does what the signal at a place does."""
        trouble = self.work.trouble.get(place)
        if trouble == "exit":
            os._exit(3)
        if trouble == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if trouble == "hang":
            time.sleep(1000)
        if trouble == "parent":  # the whole run is lost, as if by the system
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)
        once = self.work.log.with_suffix(f".{place}")
        if trouble == "die once" and not once.exists():
            once.touch()
            os._exit(4)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class MortalWork(Work):
    """Real work in a process that dies while a batch of the exact step is decided.

    Args:
        once: A file: the process is killed once, in its second batch, and leaves the file behind.
        deadly: Mean square of the long series of a signal that ends the process whenever a batch holds it.
    """

    once: Path | None = None
    deadly: float | None = None

    def desk(self, network: Any = None, budget: Any = None) -> Any:
        if network is None:  # in the process that works
            decide, count = batch_answers.decide, 0

            def dies(statistics: Any, *args: Any) -> Any:
                nonlocal count
                count += 1
                if self.once is not None and count == 2 and not self.once.exists():
                    self.once.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                power = (statistics.series(0) ** 2).mean(-1)
                if self.deadly is not None and bool(((power / self.deadly - 1).abs() < 1e-9).any()):
                    os._exit(9)
                return decide(statistics, *args)

            batch_answers.decide = dies
        return super().desk(network, budget)


def fake_record(answer: Answer, company: int) -> dict[str, Any]:
    """A record with what tables need; the company that the signal had is part of it."""
    return {
        "file": str(answer.file),
        "signal": answer.signal,
        "k_map": 1,
        "k_probs": [0.1, 0.9],
        "verdict": {"status": "exact", "reason": f"in a chunk of {company}", "warnings": []},
        "warnings": [],
        "noise_std": 1.0 + answer.signal,
        "noise_std_error": None,
        "waveform": "tone",
        "frequency_unit": "Hz",
        "components": [{"component": 1, "frequency_median": 0.5 * answer.signal}],
    }


def run_fake(
    work: FakeWork, out: Path, plan: Plan, shard: str | None = None, **options: Any
) -> Any:
    """A run over fake work to its end, tables written."""
    from slotflow.many.ledger import FILE as LEDGER
    from slotflow.many.ledger import Ledger
    from slotflow.many.run import Run

    if shard is not None:
        plan = replace(plan, shard=Shard.parsed(shard))
        out = out / Shard.parsed(shard).folder
    with Ledger(out / LEDGER) as ledger:
        run = Run(work, plan, work.desk(), ledger, out, **options)  # type: ignore[arg-type]
        with closing(run.answers()) as answers:
            for _ in answers:
                pass
        run.tables()
    return run


def main() -> None:
    """A run in a process of its own, which a test may kill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--shard")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--lost", type=int, help="place of a signal that takes the run with it")
    args = parser.parse_args()
    trouble = {} if args.lost is None else {args.lost: "parent"}
    work = FakeWork(args.log, trouble, args.seconds)
    run_fake(work, args.out, Plan([FILE], [args.n], size=4), args.shard, supervised=True)


if __name__ == "__main__":
    import many_helpers

    many_helpers.main()  # so that other processes find its classes
