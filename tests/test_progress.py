"""Progress on the terminal: rare lines, a bar, and silence where it is asked for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from slotflow.core.progress import format_fields, progress


def test_plain_progress_is_rare(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with progress(100, "train", clock=lambda: now) as bar:
        for step in range(101):
            now = 0.3 * step
            bar.update(step, loss=1 / (step + 1), signals_per_second=1234.5)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == 3  # after 10 s, after 20 s and at the end
    assert lines[0] == "train 34 %, 20 s left, loss 0.02857  signals/s 1,234"
    assert lines[-1].startswith("train 100 %")


def test_short_and_quiet_jobs_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(None, "train") as bar:
        bar.update(1, loss=2.0)
    with progress(10, "train", quiet=True, clock=lambda: 1e9) as bar:
        bar.update(5)
    assert capsys.readouterr() == ("", "")


def test_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with progress(10, "train") as bar:
        bar.update(5, loss=1.5)
        bar.update(10, loss=0.5)
    captured = capsys.readouterr()
    assert "100%" in captured.err
    assert "loss 0.5" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"loss": 1.25, "n_seen": 3}, "loss 1.25  n seen 3"),
        ({"signals_per_second": 12345.6}, "signals/s 12,346"),
        ({"eta": "3 min", "bad": float("nan")}, "eta 3 min  bad nan"),
    ],
)
def test_format_fields(fields: dict[str, Any], text: str) -> None:
    assert format_fields(fields) == text
