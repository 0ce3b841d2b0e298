"""benchmarks/on_gpu.py: a command that hangs or fails does not take the others with it, and leaves no children."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    return importlib.import_module("on_gpu")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code, "--out", "nowhere.json"]


WRITES = "import sys; open(sys.argv[2], 'w').write('{}')"


def test_each_command_has_its_own_end(on_gpu: ModuleType, tmp_path: Path) -> None:
    child = tmp_path / "child"
    hangs = (
        "import subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(child)!r}, 'w').write(str(p.pid)); time.sleep(600)"
    )
    commands = {
        "fails": python("import sys; print('why'); sys.exit(3)"),
        "hangs": python(hangs),
        "long": python(WRITES),
        "good": python(WRITES),
    }
    limits = {"fails": 20, "hangs": 3, "long": 900, "good": 20}
    outcomes = on_gpu.run_all(commands, tmp_path / "out", limits, 120.0)
    assert [outcome.ended for outcome in outcomes.values()] == [
        "failed (3)", "too long", "not begun", "done",
    ]  # fmt: skip
    assert (tmp_path / "out" / "fails.log").read_text() == "why\n"
    assert (tmp_path / "out" / "good.json").read_text() == "{}"
    assert not (tmp_path / "out" / "long.json").exists()
    summary = json.loads((tmp_path / "out" / "on-gpu.json").read_text())
    assert summary["hangs"]["ended"] == "too long" and list(summary) == list(commands)
    assert _is_gone(int(child.read_text()))


def _is_gone(pid: int) -> bool:
    """Whether a process ends within seconds; one that nobody has waited for counts as ended."""
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


def test_every_record_of_a_gpu_has_a_limit(on_gpu: ModuleType) -> None:
    asked = {name for name, command in on_gpu.COMMANDS.items() if "--device cuda" in command}
    assert asked == set(on_gpu.LIMITS) == set(on_gpu.jobs())
    for command in on_gpu.jobs().values():
        assert (ROOT / command[1]).is_file() and "--out" in command
