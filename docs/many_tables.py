"""The tables of docs/many-signals.md, from the records that benchmarks/ wrote to docs/data/."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from performance_tables import Cells, Table

__all__ = ["many_tables"]

WAYS = {
    "model.infer(list)": "`model.infer(list)`, verdicts and the table of components",
    "slotflow infer --save none": "`slotflow infer FILE --out DIR --save none`",
    "slotflow.catalogue(list)": "`slotflow.catalogue(list)`",
    "slotflow infer --save all": "`slotflow infer FILE --out DIR --save all`, a folder for each signal",
}
"""How signals are asked about: in a record, and in words."""


def many_tables(folder: Path, table: Table) -> Iterator[tuple[str, str]]:
    """Names of the tables and their Markdown.

    Args:
        folder: Of the records.
        table: Writes a header and rows as Markdown.
    """
    many = _read(folder, "many")
    header = ("asked by", "ms a signal", "over `model.infer(list)`", "before batches, ms")
    yield "many", table(header, _ways(many))
    header = ("signals", "method", "per second of processor time, start included", "peak memory")
    yield "many_memory", table(header, _memory(many))
    header = ("run", "signals", "killed (−9)", "missing", "twice", "tables", "memory of a process")
    yield "cluster", table(header, _cluster(_read(folder, "cluster")))


def _read(folder: Path, name: str) -> Any:
    """A record."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def _ways(record: Mapping[str, Any]) -> Iterator[Cells]:
    """What a signal costs by the way it is asked about."""
    now, before = record["ms"], record.get("ms_before", {})
    for key, words in WAYS.items():
        earlier = f"{before[key]:.1f}" if key in before else ""
        yield words, f"{now[key]:.1f}", f"{now[key] / now['model.infer(list)']:.2f}", earlier


def _memory(record: Mapping[str, Any]) -> Iterator[Cells]:
    """Peak memory of the command for several numbers of signals."""
    for one in record["memory"]:
        rate, peak = f"{one['per_cpu_second']:.1f}", f"{one['peak_mb']:.0f} MB"
        yield f"{one['signals']:,}", one["method"], rate, peak


def _cluster(record: Mapping[str, Any]) -> Iterator[Cells]:
    """Many signals on machines that fail: one row for each way to analyse them."""
    dask, shards = record["dask"], record["shards"]
    killed = {
        "alone": "nothing",
        "dask": f"{dask['workers_killed']} workers, {dask['scheduler_restarts']} scheduler, "
        f"{dask['command_restarts']} command",
        "shards": f"{shards['killed']} of {shards['shards']} shards",
    }
    titles = {
        "alone": "one process",
        "dask": "Dask, two workers",
        "shards": "shards, two at a time, merged",
    }
    for name, title in titles.items():
        found = record[name]
        same = {None: "", True: "identical", False: "differ"}[found.get("identical")]
        settled = found["memory"]["first_and_last_third_mb"]
        grown = f", first to last third {_settled(settled)}" if settled else ""
        memory = f"at most {found['memory']['peak_mb']:.0f} MB{grown}"
        counts = (f"{found[key]:,}" for key in ("missing", "twice"))
        yield title, f"{found['signals']:,}", killed[name], *counts, same, memory


def _settled(pairs: Sequence[Sequence[float]]) -> str:
    """The largest change of a process's memory between two parts of its life."""
    return f"{max((last - first for first, last in pairs), key=abs):+.1f} MB at most"
