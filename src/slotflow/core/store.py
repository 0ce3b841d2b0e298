"""Results that a later run goes on from: JSON records in one file, each known by its name and by how it was made.

A store is an SQLite database, which stays whole however a run ends. A record has a **name**, which says what it is
about (a signal of a file, a task of a study), and an **identity**, the hash of everything that shapes it: the weights
of the network, the code of the package, the settings and the input (`identity`). A record is found again only under the
same name and identity; a newer record takes the place of an older one of the same name.

Databases of version 1, which had a file and a number instead of a name, are converted when they are opened.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Self

__all__ = ["ANSWERING_ROOMS", "Record", "Store", "identity", "package_code", "signal_name"]

Record = dict[str, Any]

ANSWERING_ROOMS = (
    "core",
    "data",
    "signal",
    "posterior",
    "network",
    "exact",
    "bands",
    "infer",
    "baselines",
)
"""Rooms of the package whose code decides what an answer is; the others train, show and measure."""
LAYOUT_VERSION = 2
"""Version of the database's tables."""
COMMIT_SECONDS = 2.0
"""Longest time between two commits: what a killed process may lose."""
LOCK_SECONDS = 1.0
"""How long to wait for another process, which keeps the database to itself until it ends."""
DIGEST_BYTES = 16
TABLE = """CREATE TABLE IF NOT EXISTS records (
    name TEXT NOT NULL PRIMARY KEY, identity TEXT NOT NULL, record TEXT NOT NULL,
    run INTEGER NOT NULL, place INTEGER NOT NULL) WITHOUT ROWID"""


def identity(
    *,
    settings: Mapping[str, Any],
    weights: str = "",
    inputs: str = "",
    code: str | None = None,
) -> str:
    """The hash that a result is known by, 32 hexadecimal digits.

    Args:
        settings: Everything else that shapes the result, as plain values.
        weights: Hash of the network's weights; empty if there is no network.
        inputs: Hash of the data; empty if they follow from the settings.
        code: Hash of the code, that of the rooms that decide an answer if None (`package_code`).
    """
    code = package_code() if code is None else code
    text = json.dumps([code, weights, inputs, settings], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


@cache
def package_code(rooms: Sequence[str] = ANSWERING_ROOMS) -> str:
    """Hash of the source of some rooms of the package, 32 hexadecimal digits.

    Args:
        rooms: Names of folders or modules directly under the package, as a tuple.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    package = resources.files("slotflow")
    for room in sorted(rooms):
        folder, module = package / room, package / f"{room}.py"
        for place, file in _sources(folder, room) if folder.is_dir() else [(room, module)]:
            digest.update(place.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(folder: Any, place: str) -> list[tuple[str, Any]]:
    """Place and file of every Python module in a folder and below it, in the order of their places."""
    found: list[tuple[str, Any]] = []
    for entry in sorted(folder.iterdir(), key=lambda e: str(e.name)):
        inside = f"{place}/{entry.name}"
        if entry.is_dir():
            found += _sources(entry, inside)
        elif entry.name.endswith(".py"):
            found.append((inside, entry))
    return found


def signal_name(file: str, signal: int) -> str:
    """The name of a record about one signal of a file."""
    return f"{file}#{signal}"


class Store:
    """Records of this run and of earlier ones in the same file.

    Args:
        path: The database, which is made if it is not there; None keeps the records in memory.
        fresh: Whether to forget the records of earlier runs.
    """

    def __init__(self, path: Path | None = None, fresh: bool = False) -> None:
        self.path = path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._explained():
            self.database = sqlite3.connect(path or ":memory:", timeout=LOCK_SECONDS)
        try:
            with self._explained():
                self.database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._prepare()
                if fresh:
                    self.database.execute("DELETE FROM records")
                query = "SELECT coalesce(max(run), 0) FROM records"
                (last,) = self.database.execute(query).fetchone()
                self.database.commit()
        except ValueError:
            self.database.close()
            raise
        self.run, self.place = int(last) + 1, 0
        self.committed = time.monotonic()

    def _prepare(self) -> None:
        """Makes the table, or converts that of an earlier version."""
        (version,) = self.database.execute("PRAGMA user_version").fetchone()
        if version not in (0, 1, LAYOUT_VERSION):
            raise ValueError(
                f"{self.path}: expected a store of version {LAYOUT_VERSION} or older, received version {version}; a "
                "later version of slotflow wrote it: update slotflow, or choose another folder."
            )
        self.database.execute(TABLE)
        if version == 1:
            self.database.execute(
                "INSERT OR REPLACE INTO records SELECT file || '#' || signal, identity, record, run, place FROM results"
            )
            self.database.execute("DROP TABLE results")
        self.database.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns an error of the database into one that says what to do."""
        folder = None if self.path is None else self.path.parent
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise ValueError(
                    f"{folder}: another run is writing its results there; wait until it is done, or choose another "
                    "folder."
                ) from error
            raise ValueError(
                f"{self.path}: the results cannot be read or written ({error}); make room for them or choose another "
                "folder."
            ) from error
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path}: expected the results of an earlier run, received another or a damaged file ({error}); "
                "remove it or choose another folder."
            ) from error

    def get(self, name: str, key: str, place: int | None = None) -> Record | None:
        """The record of a name, if there is one of this identity; it then counts as a record of this run.

        Args:
            name: What the record is about.
            key: Its identity.
            place: Its place among the records of this run; None: after those that came before.
        """
        with self._explained():
            found = self.database.execute(
                "SELECT record FROM records WHERE name = ? AND identity = ?", (name, key)
            ).fetchone()
            if found is None:
                return None
            self.database.execute(
                "UPDATE records SET run = ?, place = ? WHERE name = ?",
                (self.run, self._place(place), name),
            )
        record: Record = json.loads(found[0])
        return record

    def put(self, name: str, key: str, record: Record, place: int | None = None) -> None:
        """Keeps a record, in place of an older one of the same name.

        Args:
            name: What the record is about.
            key: Its identity.
            record: Plain values.
            place: As in `get`.
        """
        with self._explained():
            self.database.execute(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)",
                (name, key, json.dumps(record), self.run, self._place(place)),
            )
        if time.monotonic() - self.committed > COMMIT_SECONDS:
            self.commit()

    def _place(self, stated: int | None) -> int:
        """The place of the next record: the stated one, or one more than the last."""
        self.place = self.place + 1 if stated is None else stated
        return self.place

    def commit(self) -> None:
        """Makes sure that what was kept stays."""
        with self._explained():
            self.database.commit()
        self.committed = time.monotonic()

    def records(self) -> Iterator[Record]:
        """The records of this run, in the order of their places."""
        query = "SELECT record FROM records WHERE run = ? ORDER BY place"
        for (text,) in self.database.execute(query, (self.run,)):
            yield json.loads(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        """Commits and closes the database, however the run ended; an error that ended it is the one that is raised."""
        try:
            self.commit()
        except ValueError:
            if reason[0] is None:
                raise
        finally:
            self.database.close()
