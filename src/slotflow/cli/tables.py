"""The tables of many signals, written row by row from the store of their results.

- catalogue.csv: one row per component,
- signals.csv: one row per signal, also of signals without a component, with reasons and warnings.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from slotflow.core.files import atomic_path
from slotflow.core.store import Record, Store

__all__ = ["write_table", "write_tables"]


def write_tables(store: Store, folder: Path) -> dict[str, str]:
    """Writes catalogue.csv and signals.csv of this run, each whole or not at all, and says where they are."""
    files = {"catalogue": folder / "catalogue.csv", "signals": folder / "signals.csv"}
    write_table(files["catalogue"], _components(store.records()))
    write_table(files["signals"], map(_signal, store.records()))
    return {name: str(path) for name, path in files.items()}


def write_table(path: Path, rows: Iterable[Record]) -> None:
    """Writes rows to a CSV file one by one; the first one names the columns. Without rows the file is empty."""
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row), extrasaction="ignore", restval="")
                writer.writeheader()
            writer.writerow(row)


def _signal(record: Record) -> Record:
    """A result as one row."""
    warnings = [*record["verdict"].get("warnings", []), *record.get("warnings", [])]
    return {
        "file": record["file"],
        "signal": record["signal"],
        "k_map": record["k_map"],
        "p_k_map": record["k_probs"][record["k_map"]],
        "verdict": record["verdict"]["status"],
        "noise_std": record["noise_std"],
        "noise_std_error": record["noise_std_error"],
        "reason": record["verdict"]["reason"],
        "warnings": "; ".join(dict.fromkeys(warnings)),
    }


def _components(records: Iterator[Record]) -> Iterator[Record]:
    """One row per component: facts about the signal, then the columns of `Posterior.to_catalogue` by their names."""
    for record in records:
        row = _signal(record)
        facts = {name: row[name] for name in ("file", "signal", "k_map", "p_k_map", "verdict")}
        for component in record["components"]:
            yield facts | {name: value for name, value in component.items() if name != "slot"}
