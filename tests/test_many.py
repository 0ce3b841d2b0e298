"""Many signals: the grid of chunks, shards and their merger, processes that die or hang, runs that are killed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from many_helpers import FILE, LATE, FakeWork, run_fake

from slotflow.data.read.options import ReadOptions
from slotflow.many.answers import Reader
from slotflow.many.ledger import Ledger
from slotflow.many.merge import merge
from slotflow.many.messages import Task, send
from slotflow.many.plan import CHUNK, Answer, Plan, Shard
from slotflow.many.run import MOST_LOST
from slotflow.many.supervise import MOST_TRIES, Supervised
from slotflow.many.tables import component_rows, write_parquet, write_table
from slotflow.many.work import seconds_within

TESTS = Path(__file__).parent
PLAN = Plan([FILE], [10], size=4)


@pytest.fixture(autouse=True)
def helpers_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the helpers of the tests."""
    paths = [str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tables(folder: Path) -> dict[str, bytes]:
    """The tables of a folder, byte by byte."""
    return {name: (folder / name).read_bytes() for name in ("catalogue.csv", "signals.csv")}


# --- the plan ------------------------------------------------------------------------------------


def test_chunks_lie_on_one_grid() -> None:
    """Whatever the files and shards, a place is in the chunk of its number, with the same company."""
    files, counts = [Path("a"), Path("b"), Path("c"), Path("d")], [5, 1, 0, 7]
    whole = Plan(files, counts, size=4)
    assert whole.total == 13 and [list(c.places) for c in whole.chunks()] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [12],
    ]
    named = [(a.file.name, a.signal) for c in whole.chunks() for a in map(c.answer, c.places)]
    assert named == [*(("a", i) for i in range(5)), ("b", 0), *(("d", i) for i in range(7))]
    for of in (1, 2, 3, 4, 7):
        parts = [Plan(files, counts, size=4, shard=Shard(i, of)) for i in range(1, of + 1)]
        assert [c for part in parts for c in part.chunks()] == list(whole.chunks())
        assert [p for part in parts for p in part.places] == list(range(13))
    one = Plan(files[:2], [1, 1], signal=3)
    assert [p.first for p in one.chunk(0).pieces] == [3, 3]
    alone = whole.chunk(1).alone(6)
    assert list(alone.places) == [6] and alone.answer(6) == whole.chunk(1).answer(6)


def test_empty_shards_say_how_to_divide_the_signals() -> None:
    """With the chunk that they name, none is empty and the largest is less than twice the smallest and two more."""
    for total in (7, 10, 100, 12_800):
        plans = [Plan([FILE], [total], shard=Shard(i, 7)) for i in range(1, 8)]
        assert all(bool(plan.idle) == (len(plan.places) == 0) for plan in plans)
        if total <= 7 * CHUNK - CHUNK:
            (chunk,) = {int(p.idle.split("--chunk ")[1].rstrip(").")) for p in plans if p.idle}
            sizes = [len(replace(plan, size=chunk).places) for plan in plans]
            assert 0 < max(sizes) < 2 * min(sizes) + 2 and sum(sizes) == total
    few = Plan([FILE], [3], size=1, shard=Shard(1, 7))
    assert "3 signal(s) are 3 chunk(s) of 1" in few.idle and few.idle.endswith(
        "3 shards are enough."
    )
    assert not Plan([FILE], [3]).idle


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_shards_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match="expected NUMBER/OF such as 3/200"):
        Shard.parsed(text)


# --- the ledger ----------------------------------------------------------------------------------


def test_the_ledger_counts_what_never_ended(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    for before in range(3):
        killed = Ledger(path)
        assert killed.begin("a", "1") == before
        killed.database.close()  # as kill -9 would
    with Ledger(path) as ledger:
        assert ledger.begin("a", "2") == 0  # another question
        ledger.end("a")
        assert ledger.begin("a", "2") == 0
        bad = Answer(FILE, 3, error="crashed", final=True)
        ledger.fail(bad, "1")
        ledger.fail(Answer(FILE, 4, error="disk full"), "1")
        assert ledger.given_up(bad.name, "1") == "crashed" and not ledger.given_up(bad.name, "2")
        assert ledger.given_up(f"{FILE}#4", "1") is None
        assert [entry["signal"] for _, entry in ledger.failures()] == [3, 4]
    with Ledger(path, fresh=True) as ledger:
        assert ledger.given_up(bad.name, "1") is None


# --- one process ---------------------------------------------------------------------------------


def test_signals_that_end_their_process_are_listed(tmp_path: Path) -> None:
    """Each after as many tries as it may have; one that dies once is answered, and nobody loses company."""
    work = FakeWork(tmp_path / "log", {1: "exit", 2: "crash", 5: "die once"})
    run = run_fake(work, tmp_path / "out", PLAN, supervised=True)
    failed = {entry["signal"]: entry["error"] for entry in run.failures()}
    assert failed.keys() == {1, 2} and run.computed == 8
    assert failed[1] == f"stars.npz: its process ended with code 3, {MOST_TRIES} times"
    assert "was ended by SIGSEGV" in failed[2]
    assert sorted(work.logged()) == [0, 3, 4, 5, 6, 7, 8, 9]  # nobody twice
    company = [row["reason"] for row in rows(tmp_path / "out" / "signals.csv")]
    assert company == 6 * ["in a chunk of 4"] + 2 * ["in a chunk of 2"]
    assert [row["signal"] for row in rows(tmp_path / "out" / "failed.csv")] == ["1", "2"]
    again = run_fake(work, tmp_path / "out", PLAN)  # here: it would end this process
    assert again.computed == 0 and again.failures() == run.failures()


def test_a_limit_is_that_of_one_signal_and_not_of_a_chunk(tmp_path: Path) -> None:
    """A batch may take longer than the limit of each of its signals; a signal's own turn may not."""
    work = FakeWork(tmp_path / "log", {0: "late", 2: "hang"})
    run = run_fake(work, tmp_path / "out", Plan([FILE], [4]), timeout=0.7 * LATE, supervised=True)
    assert [entry["signal"] for entry in run.failures()] == [2] and run.computed == 3
    reasons = [row["reason"] for row in rows(tmp_path / "out" / "signals.csv")]
    assert reasons == 3 * ["in a chunk of 4"]  # and nobody had to be asked alone


def test_a_signal_that_hangs_is_stopped_and_a_longer_limit_is_another_try(tmp_path: Path) -> None:
    work = FakeWork(tmp_path / "log", {2: "hang"})
    plan = Plan([FILE], [4], size=4)
    run = run_fake(work, tmp_path / "out", plan, supervised=True, timeout=1.0)
    (entry,) = run.failures()
    assert entry["signal"] == 2 and "killed after 1 s, the most that it may take" in entry["error"]
    assert run.computed == 3
    better = FakeWork(tmp_path / "log")
    assert run_fake(better, tmp_path / "out", plan, supervised=True, timeout=1.0).computed == 0
    assert run_fake(better, tmp_path / "out", plan, supervised=True, timeout=9.0).computed == 1
    assert len(rows(tmp_path / "out" / "signals.csv")) == 4


def test_a_chunk_that_dies_as_a_whole_is_tried_signal_by_signal(tmp_path: Path) -> None:
    work = FakeWork(tmp_path / "log", {6: "together"})
    run = run_fake(work, tmp_path / "out", PLAN, supervised=True)
    assert [entry["signal"] for entry in run.failures()] == [6]
    assert sorted(work.logged()) == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    alone = [
        row["signal"] for row in rows(tmp_path / "out" / "signals.csv") if "of 1" in row["reason"]
    ]
    assert alone == ["4", "5", "7"]


def test_faults_of_the_program_are_no_fault_of_a_signal() -> None:
    process = Supervised(b"no pickle")
    with pytest.raises(RuntimeError, match="UnpicklingError"):
        list(process.answers(Task(PLAN.chunk(0))))
    assert process.pid is None
    with pytest.raises(ValueError, match="a timeout above 0"):
        Supervised(b"", 0.0)


def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """However that one ends: nothing is left to compute for nobody."""
    process = Supervised(FakeWork(tmp_path / "log", {0: "hang"}).pickled())
    child = process._started()
    assert child.stdin is not None
    send(child.stdin, Task(PLAN.chunk(0)))
    child.stdin.close()
    assert child.wait(60) == 0
    process.close()


def test_a_message_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends nothing: the process is given up, although it lives, and the signal is listed."""
    monkeypatch.setattr("slotflow.many.supervise.STOP_SECONDS", 1.0)
    work = FakeWork(tmp_path / "log", {2: "garbled"})
    run = run_fake(work, tmp_path / "out", Plan([FILE], [4], size=4), supervised=True)
    (entry,) = run.failures()
    assert entry["signal"] == 2 and run.computed == 3
    assert "its process sent what cannot be read, 2 times" in entry["error"]


def test_signals_that_are_sent_are_those_that_are_read(tmp_path: Path) -> None:
    """To machines that do not see the file; what cannot be read is sent as the reason why."""
    x = np.random.default_rng(0).normal(size=(5, 40))
    x[3] = np.nan
    np.save(tmp_path / "x.npy", x)
    files = [tmp_path / "x.npy", tmp_path / "none.npy"]
    reader = Reader(ReadOptions(dt=0.1))
    for chunk in Plan(files, [5, 1], size=4).chunks():
        sent = reader.with_signals(chunk)
        assert sent.observations is not None and len(sent.observations) == len(chunk.places)
        pairs = zip(reader.read(chunk), Reader(ReadOptions()).read(sent), strict=True)
        for (here, one), (there, other) in pairs:
            assert (here.place, here.error) == (there.place, there.error)
            if one is None or other is None:
                assert one is other and here.error
            else:
                np.testing.assert_array_equal(one.long.values, other.long.values)
    reader.close()


def test_a_signal_without_an_answer_is_listed(tmp_path: Path) -> None:
    work = FakeWork(tmp_path / "log", {2: "silent"})
    run = run_fake(work, tmp_path / "out", Plan([FILE], [4], size=4), supervised=True)
    assert [e["error"] for e in run.failures()] == ["stars.npz: there was no answer"]


# --- runs that are lost --------------------------------------------------------------------------


def start(tmp_path: Path, out: str, *flags: object) -> subprocess.Popen[bytes]:
    """A run in a process of its own."""
    words = [sys.executable, TESTS / "many_helpers.py", tmp_path / f"{out}.log", tmp_path / out]
    return subprocess.Popen(list(map(str, [*words, *flags])))


def wait_for(condition: Any) -> None:
    """Waits for something that must come."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_shards_that_are_killed_and_run_again_give_the_same_catalogue(tmp_path: Path) -> None:
    """Nothing is lost, nothing comes twice, and until all is done the merger says which shards are missing."""
    one = run_fake(FakeWork(tmp_path / "one.log"), tmp_path / "one", PLAN)
    assert one.computed == 10
    out, log = tmp_path / "shards", FakeWork(tmp_path / "shards.log")
    run_fake(log, out, PLAN, "3/3")
    with pytest.raises(ValueError, match=r"received 2; those of the shards 1/3, 2/3 are missing"):
        merge([out], out)
    assert [path.name for path in out.iterdir()] == ["shard-3-of-3"]  # nothing was written
    job = start(tmp_path, "shards", "--n", 10, "--shard", "1/3", "--seconds", "0.3")
    wait_for(lambda: len(log.logged()) >= 4)
    os.kill(job.pid, signal.SIGKILL)  # in the middle of its chunk
    job.wait()
    with pytest.raises(ValueError, match=r"those of the shards 1/3, 2/3 are missing"):
        merge([out], out)
    for shard in ("1/3", "2/3"):
        run_fake(log, out, PLAN, shard)
    merged = merge([out], out, parquet=True)
    assert (merged.done, merged.repeated, merged.missing, merged.failed) == (10, 0, [], [])
    assert tables(out) == tables(tmp_path / "one")
    import pandas as pd

    frame = pd.read_parquet(out / "catalogue.parquet")
    assert frame["signal"].tolist() == list(range(10)) and set(frame["verdict"]) == {"exact"}
    assert run_fake(log, out, PLAN).computed == 0  # the merged folder is that of a run


def test_overlapping_and_foreign_shards(tmp_path: Path) -> None:
    log = FakeWork(tmp_path / "log")
    for out, shard in (("a", "1/2"), ("a", "2/2"), ("b", "2/3"), ("b", "3/3")):
        run_fake(log, tmp_path / out, PLAN, shard)
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert merged.done == 10 and merged.repeated == 6 and not merged.missing
    run_fake(log, tmp_path / "c", Plan([FILE], [11], size=4), "2/2")
    with pytest.raises(ValueError, match="expected results of the same signals as in"):
        merge([tmp_path / "a", tmp_path / "c"], tmp_path / "out")
    with Ledger(tmp_path / "b" / "shard-2-of-3" / "ledger.sqlite") as ledger:
        ledger.database.execute("UPDATE records SET identity = 'other' WHERE place = 5")
    with pytest.raises(ValueError, match=r"expected one answer to stars.npz#5"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    with pytest.raises(ValueError, match="received neither"):
        merge([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_part_of_the_shards_on_request(tmp_path: Path) -> None:
    work = FakeWork(tmp_path / "log", {5: "exit"})
    run_fake(work, tmp_path / "out", PLAN, "2/3", supervised=True)
    merged = merge([tmp_path / "out"], tmp_path / "out", partial=True)
    assert merged.done == 3 and merged.missing == [range(4), range(8, 10)]
    assert merged.shards == ["1/3", "3/3"] and [e["signal"] for e in merged.failed] == [5]
    assert [row["signal"] for row in rows(tmp_path / "out" / "failed.csv")] == ["5"]


def test_a_signal_that_takes_the_whole_run_with_it_is_given_up(tmp_path: Path) -> None:
    """The system may end all processes of a job at once: the ledger counts, and the signal is found out."""
    out, work = tmp_path / "out", FakeWork(tmp_path / "out.log", {2: "exit"})
    plan = Plan([FILE], [4], size=4)
    for lost in range(MOST_LOST):  # as kill -9 leaves it
        killed = Ledger(out / "ledger.sqlite")
        assert killed.begin("signals 0 to 3", "question") == lost
        killed.database.close()
    killed = Ledger(out / "ledger.sqlite")
    for _ in range(MOST_TRIES - 1):
        killed.begin(f"{FILE}#2", "question")
    killed.database.close()
    assert start(tmp_path, "out", "--n", 4, "--lost", 2).wait(120) == -signal.SIGKILL
    run = run_fake(work, out, plan, supervised=True)
    (failed,) = run.failures()
    assert failed["signal"] == 2 and f"the run was lost {MOST_TRIES} times" in failed["error"]
    assert sorted(work.logged()) == [0, 1, 3] and len(rows(out / "signals.csv")) == 3
    assert run_fake(work, out, plan).failures() == [failed]  # nobody tries it again


def test_ctrl_c_is_no_lost_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it comes while signals are analysed one by one, they are tried again."""
    work, plan = FakeWork(tmp_path / "log"), Plan([FILE], [4], size=4)

    def run_after_losses() -> Any:
        with Ledger(tmp_path / "out" / "ledger.sqlite") as ledger:
            for _ in range(MOST_LOST):
                ledger.begin("signals 0 to 3", "question")
        return run_fake(work, tmp_path / "out", plan)

    for _ in range(MOST_TRIES):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Supervised, "answers", Mock(side_effect=KeyboardInterrupt))
            run_after_losses()
    run = run_after_losses()
    assert run.computed == 4 and not run.failures()


def test_the_exact_step_ends_before_the_limit() -> None:
    """By itself, with an answer, where its own budget is longer than the limit."""
    assert seconds_within(None) is None and seconds_within(60.0) is None
    assert seconds_within(5.0) == pytest.approx(4.0)


def test_parquet_files_have_types_and_may_be_empty(tmp_path: Path) -> None:
    import pandas as pd

    rows = [{"n": 1, "x": None, "s": "", "e": None}, {"n": 2, "x": 1, "s": "a", "e": None}]
    write_parquet(tmp_path / "x.parquet", lambda: [*rows, {"n": 3, "x": 0.5, "s": "b"}])
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert [str(kind) for kind in frame.dtypes][:2] == ["int64", "float64"]
    assert frame["x"].tolist()[1:] == [1.0, 0.5] and frame["s"].tolist() == ["", "a", "b"]
    assert frame["e"].isna().all()
    write_parquet(tmp_path / "none.parquet", lambda: [])
    assert len(pd.read_parquet(tmp_path / "none.parquet")) == 0


class _Records:
    """A store with the records of two signals, of which only the second has a component with a label."""

    def records(self) -> list[dict[str, Any]]:
        one = {"amplitude_median": 1.0, "frequency_median": 2.7}
        labelled = one | {"combination": "2f2-f3", "combination_chance": 0.008}
        facts = {
            "file": "a.npz", "k_map": 1, "k_probs": [0.0, 1.0], "noise_std": 1.0, "noise_std_error": 0.1,
            "verdict": {"status": "exact", "reason": ""}, "waveform": "tone", "frequency_unit": "Hz",
        }  # fmt: skip
        return [
            facts | {"signal": 0, "components": [one]},
            facts | {"signal": 1, "components": [one, labelled]},
        ]


def test_labels_of_some_components_fit_into_a_parquet_file(tmp_path: Path) -> None:
    import pandas as pd

    store: Any = _Records()
    write_parquet(tmp_path / "x.parquet", lambda: component_rows(store))
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["combination"].tolist() == ["", "", "2f2-f3"]
    assert frame["combination_chance"].isna().tolist() == [True, True, False]
    write_table(tmp_path / "x.csv", component_rows(store))
    assert (tmp_path / "x.csv").read_text("utf-8").splitlines()[1].endswith(",2.7,,")
