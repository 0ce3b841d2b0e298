"""Results of many signals in one file, so that a stopped run can go on: what is done, by input and settings.

The ledger is an SQLite database, which stays whole however a run ends. Each result is known by its signal (file and
number) and by an identity, the hash of the samples and of everything that shapes the answer. At the end of a run the
tables are written from it, one row after another:

- catalogue.csv: one row per component,
- signals.csv: one row per signal, those without a component included, with reasons and warnings.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slotflow.core.files import atomic_path
from slotflow.data.observation import Observation

__all__ = ["Ledger", "identity", "write_table"]

VERSION = 1
"""Of the database's layout."""
SECONDS = 2.0
"""Longest time between two commits."""
PATIENCE = 1.0
"""Seconds to wait for another run in the same folder, which keeps the database to itself until it ends."""
TABLE = """CREATE TABLE IF NOT EXISTS results (
    file TEXT NOT NULL, signal INTEGER NOT NULL, identity TEXT NOT NULL, record TEXT NOT NULL,
    run INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (file, signal)) WITHOUT ROWID"""

Record = dict[str, Any]


def identity(observation: Observation, settings: Mapping[str, Any]) -> str:
    """Hash of a signal's samples and grid and of the settings, 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for s in observation.channels:
        facts = (s.n, s.dt, s.t0, s.sigma, s.t_ref, s.unit, s.filled, s.notes)
        digest.update(repr(facts).encode())
        digest.update(s.values.tobytes())
    return digest.hexdigest()


class Ledger:
    """The results of this run and of earlier ones with the same folder.

    Args:
        path: The database; made if it is not there.
        fresh: Whether to forget earlier results.
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        with self._said():
            self.database = sqlite3.connect(path, timeout=PATIENCE)
        try:
            with self._said():
                self.database.execute("PRAGMA locking_mode = EXCLUSIVE")
                (version,) = self.database.execute("PRAGMA user_version").fetchone()
                if version not in (0, VERSION):
                    raise ValueError(
                        f"{path}: expected a ledger of version {VERSION}, received {version}; it was written by "
                        "another version of slotflow: choose another folder."
                    )
                self.database.execute(f"PRAGMA user_version = {VERSION}")
                self.database.execute(TABLE)
                if fresh:
                    self.database.execute("DELETE FROM results")
                query = "SELECT coalesce(max(run), 0) FROM results"
                (last,) = self.database.execute(query).fetchone()
                self.database.commit()
        except ValueError:
            self.database.close()
            raise
        self.run, self.place = int(last) + 1, 0
        self.committed = time.monotonic()

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Says what is wrong with the database in words."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise ValueError(
                    f"{self.path.parent}: another run is writing its results there; wait until it is done, or choose "
                    "another folder."
                ) from error
            raise ValueError(
                f"{self.path}: the ledger of results cannot be read or written ({error}); make room for it or choose "
                "another folder."
            ) from error
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path}: expected a ledger of an earlier run, received another or a damaged file ({error}); "
                "remove it or choose another folder."
            ) from error

    def finished(self, file: str, signal: int, key: str) -> Record | None:
        """The result of a signal, if it is there with this identity; it then counts as one of this run."""
        with self._said():
            found = self.database.execute(
                "SELECT record FROM results WHERE file = ? AND signal = ? AND identity = ?",
                (file, signal, key),
            ).fetchone()
            if found is None:
                return None
            self.place += 1
            self.database.execute(
                "UPDATE results SET run = ?, place = ? WHERE file = ? AND signal = ?",
                (self.run, self.place, file, signal),
            )
        record: Record = json.loads(found[0])
        return record

    def add(self, file: str, signal: int, key: str, record: Record) -> None:
        """Keeps a result, in place of an older one of the same signal."""
        self.place += 1
        with self._said():
            self.database.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)",
                (file, signal, key, json.dumps(record), self.run, self.place),
            )
        if time.monotonic() - self.committed > SECONDS:
            self.commit()

    def commit(self) -> None:
        """Makes sure that what was added stays."""
        with self._said():
            self.database.commit()
        self.committed = time.monotonic()

    def records(self) -> Iterator[Record]:
        """The results of this run, in its order."""
        query = "SELECT record FROM results WHERE run = ? ORDER BY place"
        for (text,) in self.database.execute(query, (self.run,)):
            yield json.loads(text)

    def write_tables(self, folder: Path) -> dict[str, str]:
        """Writes catalogue.csv and signals.csv, each whole or not at all."""
        files = {"catalogue": folder / "catalogue.csv", "signals": folder / "signals.csv"}
        write_table(files["catalogue"], _components(self.records()))
        write_table(files["signals"], map(_signal, self.records()))
        return {name: str(path) for name, path in files.items()}

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *reason: object) -> None:
        """Commits and closes the database, however the run ended."""
        self.commit()
        self.database.close()


def write_table(path: Path, rows: Iterable[Record]) -> None:
    """Writes rows to a CSV file one by one; the first one names the columns. No rows: an empty file."""
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
    """One row per component: the signal's facts, and what `Posterior.to_catalogue` calls by the same names."""
    for record in records:
        row = _signal(record)
        facts = {name: row[name] for name in ("file", "signal", "k_map", "p_k_map", "verdict")}
        for component in record["components"]:
            yield facts | {name: value for name, value in component.items() if name != "slot"}
