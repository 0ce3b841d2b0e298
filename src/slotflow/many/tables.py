"""The tables of many signals, written row by row from the store of their results.

- catalogue.csv: one row per component, with the verdict on its signal; on request catalogue.parquet with the same rows,
- signals.csv: one row per signal, also of signals without a component, with reasons and warnings.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from slotflow.core.files import atomic_path
from slotflow.core.packages import needed
from slotflow.core.store import Record, Store
from slotflow.core.units import HERTZ, FrequencyUnit, frequency_unit
from slotflow.posterior.summaries import frequency_columns
from slotflow.signal.waveforms import waveform_named

__all__ = [
    "check_parquet",
    "component_rows",
    "signal_rows",
    "write_parquet",
    "write_table",
    "write_tables",
]

ROWS_AT_ONCE = 10_000
"""Rows of a group in a Parquet file."""

UNLISTED = ("slot", "modes")
"""What is known of some components of a single signal, and has no column in a catalogue of many."""
LABELS = {"combination": "", "combination_chance": None}
"""Columns that only some signals have: which components are harmonics or combinations of others."""


def write_tables(store: Store, folder: Path, parquet: bool = False) -> dict[str, str]:
    """Writes the tables of this run, each whole or not at all, and says where they are.

    Args:
        store: With the results.
        folder: Where to write.
        parquet: Whether to write the catalogue as a Parquet file too.
    """
    files = {"catalogue": folder / "catalogue.csv", "signals": folder / "signals.csv"}
    write_table(files["catalogue"], component_rows(store))
    write_table(files["signals"], signal_rows(store))
    if parquet:
        files["parquet"] = folder / "catalogue.parquet"
        write_parquet(files["parquet"], lambda: component_rows(store))
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


def check_parquet() -> None:
    """Refuses to write Parquet files where the package for them is not installed."""
    needed("pyarrow", "parquet", "or leave the Parquet file out")


def write_parquet(path: Path, rows: Callable[[], Iterable[Record]]) -> None:
    """Writes rows to a Parquet file, some thousands at a time; the first one names the columns.

    Args:
        path: The file.
        rows: Gives the rows; asked twice, as the types of the columns must be known before the first row is written.
    """
    check_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, type] = {}
    for row in rows():
        names = kinds or row
        kinds = {name: _wider(kinds.get(name, bool), row.get(name)) for name in names}
    types = {bool: pa.float64(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema) as file:
        for some in _in_lists(rows(), ROWS_AT_ONCE):
            file.write_table(pa.Table.from_pylist(list(some), schema))


def _in_lists(rows: Iterable[Record], size: int) -> Iterator[list[Record]]:
    """Rows in lists of some size, the last one shorter."""
    source = iter(rows)
    while some := list(islice(source, size)):
        yield some


def _wider(kind: type, value: object) -> type:
    """The type of a column of one type that also holds a value; bool stands for a column that holds nothing yet."""
    if value is None:
        return kind
    order = (bool, int, float, str)
    return max(kind, next(one for one in order[1:] if isinstance(value, one)), key=order.index)


def component_rows(store: Store) -> Iterator[Record]:
    """The rows of the catalogue of this run."""
    return _components(store.records(), _common_unit(store.records()))


def signal_rows(store: Store) -> Iterator[Record]:
    """A row for each signal of this run."""
    return map(_signal, store.records())


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
