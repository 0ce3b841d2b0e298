"""The store of results: what is found again, what is not, old files, damage, two runs at once."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from slotflow.core import store
from slotflow.core.store import Store, identity, package_code, signal_name


def test_a_record_is_found_by_name_and_identity(tmp_path: Path) -> None:
    path = tmp_path / "below" / "x.sqlite"
    with Store(path) as first:
        first.put("a", "1", {"value": 1.5})
        first.put("b", "1", {"value": 2})
        assert [r["value"] for r in first.records()] == [1.5, 2]
    with Store(path) as second:
        assert second.get("a", "2") is None and second.get("c", "1") is None
        assert list(second.records()) == []  # those of an earlier run are not asked for yet
        assert second.get("b", "1") == {"value": 2}
        second.put("a", "2", {"value": 3})  # takes the place of the old one
        assert [r["value"] for r in second.records()] == [2, 3]
    with Store(path) as third:
        assert third.get("a", "1") is None and third.get("a", "2") == {"value": 3}
    with Store(path, fresh=True) as empty:
        assert empty.get("a", "2") is None


def test_in_memory() -> None:
    with Store() as memory:
        memory.put("a", "1", {"i": 0})
        assert memory.get("a", "1") == {"i": 0}


def test_a_killed_run_keeps_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    killed = Store(path)
    killed.put("a", "1", {})
    killed.commit()
    killed.put("b", "1", {})
    killed.database.close()  # without a commit, as kill -9 would
    with Store(path) as later:
        assert later.get("a", "1") == {} and later.get("b", "1") is None


def test_records_are_committed_as_time_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "COMMIT_SECONDS", -1.0)
    killed = Store(tmp_path / "x.sqlite")
    killed.put("a", "1", {})
    killed.database.close()
    with Store(tmp_path / "x.sqlite") as later:
        assert later.get("a", "1") == {}


def test_version_1_is_converted(tmp_path: Path) -> None:
    """A ledger that version 0.1 wrote: file and number instead of a name."""
    path = tmp_path / "ledger.sqlite"
    old = sqlite3.connect(path)
    old.execute(
        "CREATE TABLE results (file TEXT NOT NULL, signal INTEGER NOT NULL, identity TEXT NOT NULL, record TEXT NOT "
        "NULL, run INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (file, signal)) WITHOUT ROWID"
    )
    rows = [("a.npz", i, f"key {i}", json.dumps({"signal": i}), 3, i) for i in range(2)]
    old.executemany("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)", rows)
    old.execute("PRAGMA user_version = 1")
    old.commit()
    old.close()
    for _ in range(2):  # converted once, then as it is
        with Store(path) as found:
            assert found.get(signal_name("a.npz", 1), "key 1") == {"signal": 1}
            assert found.get(signal_name("a.npz", 0), "key 1") is None
            assert found.run > 3


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "foreign.sqlite").write_bytes(b"something else " * 100)
    with pytest.raises(ValueError, match="expected the results of an earlier run"):
        Store(tmp_path / "foreign.sqlite")
    other = Store(tmp_path / "later.sqlite")
    other.database.execute("PRAGMA user_version = 99")
    other.database.commit()
    other.database.close()
    with pytest.raises(ValueError, match="version 2 or older, received version 99"):
        Store(tmp_path / "later.sqlite")
    (tmp_path / "folder.sqlite").mkdir()
    with pytest.raises(ValueError, match="cannot be read or written"):
        Store(tmp_path / "folder.sqlite")


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    """The second one is told so at once, whether or not the first is just writing."""
    with Store(tmp_path / "x.sqlite"), pytest.raises(ValueError, match="another run is writing"):
        Store(tmp_path / "x.sqlite")
    Store(tmp_path / "x.sqlite").database.close()


def test_a_commit_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is closed all the same, and an error that came before is not lost behind this one."""
    for error, seen in ((None, "disk full"), (ArithmeticError("first"), "first")):
        with (
            monkeypatch.context() as patch,
            pytest.raises((ValueError, ArithmeticError), match=seen),
            Store(tmp_path / "x.sqlite") as full,
        ):
            patch.setattr(full, "commit", Mock(side_effect=ValueError("disk full")))
            if error is not None:
                raise error
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            full.database.execute("SELECT 1")


def test_identity_sees_everything() -> None:
    asked: dict[str, Any] = {"settings": {"seed": 0}, "weights": "w", "inputs": "x", "code": "c"}
    changed = [{"settings": {"seed": 1}}, {"weights": "v"}, {"inputs": "y"}, {"code": "d"}]
    keys = {identity(**asked), *(identity(**asked | change) for change in changed)}
    assert len(keys) == 5
    assert identity(**asked) == identity(**asked | {"settings": {"seed": 0}})
    assert identity(settings={}) == identity(settings={}, code=package_code())


def test_package_code_depends_on_the_rooms() -> None:
    assert package_code() == package_code(store.ANSWERING_ROOMS)
    assert len({package_code(), package_code(("exact",)), package_code(("exact", "studies"))}) == 3


def test_package_code_sees_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another line, another name or another place of a module is another code."""
    (tmp_path / "exact" / "below").mkdir(parents=True)
    module = tmp_path / "exact" / "below" / "a.py"
    module.write_text("x = 1\n")
    (tmp_path / "infer.py").write_text("")
    (tmp_path / "exact" / "notes.txt").write_text("no code")
    monkeypatch.setattr(store.resources, "files", lambda name: tmp_path)

    def code() -> str:
        return package_code.__wrapped__(("exact", "infer"))

    seen = [code()]
    module.write_text("x = 2\n")
    seen.append(code())
    module.rename(tmp_path / "exact" / "a.py")
    seen.append(code())
    (tmp_path / "infer.py").write_text("y = 1\n")
    seen.append(code())
    assert len(set(seen)) == 4
    (tmp_path / "exact" / "notes.txt").write_text("still no code")
    assert code() == seen[-1]
