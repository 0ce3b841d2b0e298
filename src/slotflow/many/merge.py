"""The results of several folders as one: shards of a run, or what is left of them.

Each folder's ledger says which question was asked, how many signals there are in all, and at which place each of its
results stands, so that the merged tables are those of a single run. A result that several folders hold is taken once if
its identity is the same everywhere; different answers to the same signal are refused, as nobody could say which of them
counts. A signal that failed in one folder and has its answer in another is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.store import Record
from slotflow.many.ledger import FILE, Ledger
from slotflow.many.plan import Plan, Shard
from slotflow.many.run import write_run

__all__ = ["Merged", "merge"]

NAMED = 10
"""Shards and signals that a complaint names."""


@dataclass
class Merged:
    """What came of a merger."""

    folders: list[Path]
    """Where results were found."""
    total: int = 0
    """How many signals there are in all."""
    done: int = 0
    """How many of them have a result."""
    failed: list[Record] = field(default_factory=list)
    """File, signal and error of each that has none."""
    repeated: int = 0
    """Results that several folders hold, each of which was taken once."""
    missing: list[range] = field(default_factory=list)
    """Places of signals without a result and without a failure."""
    shards: list[str] = field(default_factory=list)
    """Shards of which something is missing, as "3/200"."""
    files: dict[str, str] = field(default_factory=dict)
    """The tables that were written."""

    @property
    def lost(self) -> int:
        """How many signals are missing."""
        return sum(map(len, self.missing))


def merge(
    folders: Sequence[Path], out: Path, *, partial: bool = False, parquet: bool = False
) -> Merged:
    """Joins the results of several folders.

    Args:
        folders: Folders of results, or folders that hold those of shards.
        out: Where to write the tables and a ledger of all results, from which a later run goes on.
        partial: Whether signals may be missing.
        parquet: Whether to write the catalogue as a Parquet file too.
    """
    merged = Merged(_with_results(folders, out))
    facts = _survey(merged)  # of all folders, before anything is written
    if merged.missing and not partial:
        raise ValueError(_complaint(merged))
    taken = np.zeros(merged.total, dtype=bool)
    with Ledger(out / FILE) as target:
        for folder in merged.folders:
            with Ledger(folder / FILE) as source:
                for name, key, place, record in source.entries():
                    if not taken[place]:
                        target.put(name, key, record, place)
                        taken[place] = True
        target.describe(facts | {"shard": None, "places": [0, merged.total]})
        merged.files = write_run(target, out, merged.failed, parquet)
    return merged


def _survey(merged: Merged) -> dict[str, Any]:
    """Finds what the folders hold and what is missing, and returns the facts of the run; contradictions are refused."""
    facts: dict[str, Any] | None = None
    answered: dict[int, tuple[str, str]] = {}
    failures: dict[int, Record] = {}
    given: list[tuple[int, int]] = []
    for folder in merged.folders:
        with Ledger(folder / FILE) as source:
            facts = _same_question(folder, source.facts(), facts, merged.folders[0])
            if (shard := source.facts().get("shard")) is not None:
                given.append(tuple(shard))
            for name, key, place in source.places():
                merged.repeated += place in answered
                if answered.setdefault(place, (name, key)) != (name, key):
                    raise ValueError(
                        f"{folder}: expected one answer to {name}, received another one than in an earlier folder; "
                        "they were made with other data or by another version: leave one of them out, or run both "
                        "again."
                    )
            for place, entry in source.failures(source.last_run):
                failures.setdefault(place, entry)
    assert facts is not None
    merged.total, merged.done = facts["total"], len(answered)
    merged.failed = [entry for place, entry in sorted(failures.items()) if place not in answered]
    found = np.zeros(merged.total, dtype=bool)
    found[list(answered)] = True
    for place, entry in failures.items():
        found[place : place + entry["signals"]] = True
    merged.missing = _gaps(found)
    merged.shards = _unfinished(given, merged.missing, merged.total, facts["chunk"])
    return facts


def _with_results(folders: Sequence[Path], out: Path) -> list[Path]:
    """The folders that hold results: the shards in those that are named, or these themselves."""
    found: list[Path] = []
    for folder in folders:
        inside = sorted(path.parent for path in folder.glob(f"shard-*/{FILE}"))
        own = [folder] if (folder / FILE).is_file() and folder.resolve() != out.resolve() else []
        if not inside and (folder / FILE).is_file() and not own:
            raise ValueError(
                f"{folder}: expected folders of shards, or another folder to write to, received results that are one "
                "already; there is nothing to merge."
            )
        if not inside and not own:
            raise ValueError(
                f"{folder}: expected results of slotflow infer (a file {FILE}) or folders of shards, received neither; "
                "run slotflow infer --out first."
            )
        found += [one for one in inside or own if one not in found]
    return found


def _same_question(
    folder: Path, facts: dict[str, Any], before: dict[str, Any] | None, first: Path
) -> dict[str, Any]:
    """The facts of a folder, which must be about the same question and signals as those of the others."""
    if "question" not in facts:
        raise ValueError(
            f"{folder}: expected results that say to which signals they belong, received those of an earlier version; "
            "run slotflow infer again."
        )
    for name, what in (
        ("question", "answers to one question"),
        ("files", "results of the same files"),
        ("total", "results of the same signals"),
    ):
        if before is not None and facts[name] != before[name]:
            raise ValueError(
                f"{folder}: expected {what} as in {first}, received others; settings, network, code and files must be "
                "the same: run the shards again that differ, or merge them apart."
            )
    return facts


def _gaps(found: NDArray[np.bool_]) -> list[range]:
    """Stretches of places that are not found.

    Args:
        found: Whether each place is found, shape (N,).
    """
    edges = np.flatnonzero(np.diff(~found, prepend=False, append=False))
    return [range(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _unfinished(
    given: list[tuple[int, int]], missing: list[range], total: int, size: int
) -> list[str]:
    """The shards that missing signals belong to, where all folders are shards of one division."""
    if len({of for _, of in given}) != 1:
        return []
    of = given[0][1]
    names = []
    for number in range(1, of + 1):
        own = Plan([Path()], [total], size=size, shard=Shard(number, of)).places
        if any(max(own.start, gap.start) < min(own.stop, gap.stop) for gap in missing):
            names.append(f"{number}/{of}")
    return names


def _complaint(merged: Merged) -> str:
    """Why nothing was written."""
    places = [f"{gap.start} to {gap.stop - 1}" for gap in merged.missing[:NAMED]]
    where = f"at the places {', '.join(places)}"
    if merged.shards:
        named = ", ".join(merged.shards[:NAMED])
        where = f"of the shards {named}"
        places = merged.shards
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    return (
        f"expected results of all {merged.total:,} signals, received {merged.done + len(merged.failed):,}; those "
        f"{where}{more} are missing: run them (again), or merge what there is with --partial."
    )
