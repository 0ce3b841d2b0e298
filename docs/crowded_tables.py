"""The tables of docs/exact.md about crowded and weak signals, from docs/data/crowded.json and crowded-fresh.json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from performance_tables import Cells, Table
from time_records import Record, Records

__all__ = ["crowded_tables"]

RECORDS = {"crowded": "", "crowded-fresh": ", fresh"}
"""Records, and what is added to the names of their sets: signals that served development, and others."""
SETS = ("frontier", "weak")
VERSIONS = ("before", "now")
TIMES = ("mean", "median", "worst")


def crowded_tables(folder: Path, table: Table) -> Iterator[tuple[str, str]]:
    """Names of the tables and their Markdown.

    Args:
        folder: Of the records.
        table: Writes a header and rows as Markdown.
    """
    records = {words: Records(folder).get(name) for name, words in RECORDS.items()}
    found = {
        f"{name}{words}": record["results"][name]
        for words, record in records.items()
        for name in (SETS if record is not None else ())
    }
    header = ("set", "version", *TIMES, "K right", "ECE (perfect: mean, 95 % below)", "verdicts")
    yield "crowded", table(header, _versions(found))
    header = (
        "set", "p(K), rms and largest difference", "same most probable K",
        "ln Z over its error: rms, mean, largest", "means of A and f over their errors: rms",
    )  # fmt: skip
    yield "crowded_equal", table(header, _equal(found))


def _versions(found: Record) -> Iterator[Cells]:
    """Times and calibration of both versions."""
    for name, versions in found.items():
        for version in VERSIONS:
            one = versions[version]
            seconds, perfect = one["cpu_seconds"], one["ece_of_perfect"]
            times = (f"{seconds[key]:.2f}" for key in TIMES)
            ece = f"{one['ece']:.3f} ({perfect['mean']:.3f}, {perfect['below_in_95_percent']:.3f})"
            verdicts = ", ".join(f"{count} {status}" for status, count in one["verdicts"].items())
            right = f"{round(one['k_right'] * one['signals'])} of {one['signals']}"
            yield name, version, *times, right, ece, verdicts


def _equal(found: Record) -> Iterator[Cells]:
    """How far the versions differ."""
    for name, versions in found.items():
        one, signals = versions["compared"], versions["now"]["signals"]
        probs = f"{one['rms_difference_of_p_of_k']:.3f}, {one['largest_difference_of_p_of_k']:.3f}"
        pulls = (f"{one[f'{key}_pull_of_ln_z']:.2f}" for key in ("rms", "mean", "largest"))
        same = f"{one['same_count']} of {signals}"
        yield name, probs, same, ", ".join(pulls), f"{one['rms_pull_of_means']:.2f}"
