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
from slotflow.core.units import HERTZ, FrequencyUnit, frequency_unit
from slotflow.posterior.summaries import frequency_columns
from slotflow.signal.waveforms import waveform_named

__all__ = ["write_table", "write_tables"]

UNLISTED = ("slot", "modes")
"""What is known of some components of a single signal, and has no column in a catalogue of many."""
LABELS = {"combination": "", "combination_chance": ""}
"""Columns that only some signals have: which components are harmonics or combinations of others."""


def write_tables(store: Store, folder: Path) -> dict[str, str]:
    """Writes catalogue.csv and signals.csv of this run, each whole or not at all, and says where they are."""
    files = {"catalogue": folder / "catalogue.csv", "signals": folder / "signals.csv"}
    unit = _common_unit(store.records())
    write_table(files["catalogue"], _components(store.records(), unit))
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


def _components(records: Iterator[Record], unit: FrequencyUnit) -> Iterator[Record]:
    """One row per component: facts about the signal, then the columns of `Posterior.summary` by their names."""
    for record in records:
        row = _signal(record)
        facts = {name: row[name] for name in ("file", "signal", "k_map", "p_k_map", "verdict")}
        powers = frequency_columns(waveform_named(record["waveform"]))
        for component in record["components"]:
            columns = {name: value for name, value in component.items() if name not in UNLISTED}
            for name in [name for name in columns if name in powers and unit.name != HERTZ.name]:
                scaled = columns[name] * unit.factor ** powers[name]
                columns[f"{name} [{unit.name}]"] = scaled
                del columns[name]
            labels = {name: columns.pop(name, empty) for name, empty in LABELS.items()}
            yield facts | columns | labels


def _common_unit(records: Iterator[Record]) -> FrequencyUnit:
    """The unit of all signals' frequencies; Hz where they differ."""
    names = {record["frequency_unit"] for record in records}
    return frequency_unit(names.pop()) if len(names) == 1 else HERTZ
