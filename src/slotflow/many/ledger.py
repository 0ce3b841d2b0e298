"""The ledger of a folder of results: what is done, what failed, and how often each part was begun.

Beside the records of `core/store.py` it holds

- **failures** with their reasons. Most are tried again by the next run; a signal that ended its process or hung is not,
  unless the input or the settings change (`given_up`);
- **tries**: how often work on a chunk was begun and never finished, because the process was killed or lost. Each is
  written down before the work begins;
- **facts**: which signals and which question the results belong to, for `merge`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slotflow.core.store import Record, Store
from slotflow.many.plan import Answer

__all__ = ["FILE", "Ledger"]

FILE = "ledger.sqlite"
"""File in the folder of results from which a stopped run goes on."""
TABLES = (
    """CREATE TABLE IF NOT EXISTS failures (
    name TEXT NOT NULL PRIMARY KEY, identity TEXT NOT NULL, final INTEGER NOT NULL, entry TEXT NOT NULL,
    run INTEGER NOT NULL, place INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS tries (
    name TEXT NOT NULL PRIMARY KEY, identity TEXT NOT NULL, count INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)


class Ledger(Store):
    """Results, failures and tries of one folder.

    Args:
        path: The database, which is made if it is not there; None keeps everything in memory.
        fresh: Whether to forget earlier runs.
    """

    def __init__(self, path: Path | None = None, fresh: bool = False) -> None:
        super().__init__(path, fresh)
        with self._explained():
            for table in TABLES:
                self.database.execute(table)
            if fresh:
                for name in ("failures", "tries", "facts"):
                    self.database.execute(f"DELETE FROM {name}")
            query = "SELECT coalesce(max(run), 0) FROM failures"
            (last,) = self.database.execute(query).fetchone()
            self.run = max(self.run, int(last) + 1)
            self.database.commit()

    # ------------------------------------------------------------------ results

    def known(self, names: Iterable[str]) -> dict[str, str]:
        """The identities of the records of some names."""
        found = {}
        with self._explained():
            for name in names:
                row = self.database.execute(
                    "SELECT identity FROM records WHERE name = ?", (name,)
                ).fetchone()
                if row is not None:
                    found[name] = str(row[0])
        return found

    def places(self) -> Iterator[tuple[str, str, int]]:
        """Name, identity and place of every signal of the last run that has a record."""
        query = "SELECT name, identity, place FROM records WHERE run = ?"
        yield from self.database.execute(query, (self.last_run,))

    def entries(self) -> Iterator[tuple[str, str, int, Record]]:
        """Name, identity, place and record of every signal of the last run, in the order of their places."""
        query = (
            "SELECT name, identity, place, record FROM records WHERE run = ? ORDER BY place, name"
        )
        for name, key, place, text in self.database.execute(query, (self.last_run,)):
            yield name, key, place, json.loads(text)

    @property
    def last_run(self) -> int:
        """The number of the last run that has results or failures: this one, or the one before it."""
        query = "SELECT max(run) FROM (SELECT run FROM records UNION ALL SELECT run FROM failures)"
        (run,) = self.database.execute(query).fetchone()
        return int(run or 0)

    # ------------------------------------------------------------------ failures

    def fail(self, answer: Answer, identity: str) -> None:
        """Lists a failure, in place of an earlier one of the same signal.

        Args:
            answer: With the reason.
            identity: What must be the same for a final failure to count again.
        """
        entry = json.dumps(answer.failure)
        values = (answer.name, identity, int(answer.final), entry, self.run, answer.place)
        with self._explained():
            self.database.execute(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)", values
            )

    def forgive(self, name: str) -> None:
        """Forgets the failure of a signal that has its answer now."""
        with self._explained():
            self.database.execute("DELETE FROM failures WHERE name = ?", (name,))

    def given_up(self, name: str, identity: str) -> str | None:
        """Why a signal is not tried again; None if it may be."""
        with self._explained():
            row = self.database.execute(
                "SELECT entry FROM failures WHERE name = ? AND identity = ? AND final",
                (name, identity),
            ).fetchone()
        return None if row is None else str(json.loads(row[0])["error"])

    def failures(self, run: int | None = None) -> Iterator[tuple[int, Record]]:
        """Place and entry of every failure of a run, this one if None, in the order of their places."""
        query = "SELECT place, entry FROM failures WHERE run = ? ORDER BY place, name"
        rows = self.database.execute(query, (self.run if run is None else run,))
        for place, entry in rows:
            yield place, json.loads(entry)

    # ------------------------------------------------------------------ tries and facts

    def begin(self, name: str, identity: str) -> int:
        """Counts a try, written down at once, and says how many there were before that never ended.

        Args:
            name: What is tried.
            identity: Of the question; tries of another one do not count.
        """
        with self._explained():
            row = self.database.execute(
                "SELECT count FROM tries WHERE name = ? AND identity = ?", (name, identity)
            ).fetchone()
            before = 0 if row is None else int(row[0])
            self.database.execute(
                "INSERT OR REPLACE INTO tries VALUES (?, ?, ?)", (name, identity, before + 1)
            )
        self.commit()
        return before

    def end(self, name: str) -> None:
        """Forgets the tries of what came to an end, good or bad."""
        with self._explained():
            self.database.execute("DELETE FROM tries WHERE name = ?", (name,))

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Keeps facts about the run, as plain values."""
        with self._explained():
            for name, value in facts.items():
                self.database.execute(
                    "INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value))
                )
        self.commit()

    def facts(self) -> dict[str, Any]:
        """What `describe` was told."""
        rows = self.database.execute("SELECT name, value FROM facts")
        return {name: json.loads(value) for name, value in rows}
