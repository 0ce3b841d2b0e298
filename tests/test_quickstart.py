"""The walk of docs/quickstart.md, word for word: every command block in order, in one shell, in a fresh folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import blocks
from training_helpers import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/quickstart.md"
MARK = "=== block "


def walk(code: list[str], folder: Path) -> list[str]:
    """Runs command blocks one after another in one shell that stops at the first failure.

    The installation alone is not repeated: `make install` does nothing here, and the environment that is activated is
    the one of the tests (`tests/test_packaging.py` installs into a clean one).

    Args:
        code: The blocks.
        folder: An empty folder.

    Returns:
        What each block printed, standard error included.
    """
    (folder / "Makefile").write_text(".PHONY: install\ninstall:\n\t@true\n")
    (folder / ".venv/bin").mkdir(parents=True)
    activate = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
    (folder / ".venv/bin/activate").write_text(activate)
    script = "set -euo pipefail\n" + "\n".join(
        f"echo '{MARK}{i}'\n{block}" for i, block in enumerate(code)
    )
    done = subprocess.run(
        ["bash", "-s"],
        input=script,
        cwd=folder,
        env=ENVIRONMENT | {"COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return re.split(rf"^{MARK}\d+\n", done.stdout, flags=re.MULTILINE)[1:]


@pytest.mark.slow
def test_the_walk_word_for_word(tmp_path: Path) -> None:
    """What the page says of each step is what the step prints."""
    code = blocks(PAGE.read_text(encoding="utf-8"), "bash")
    printed = walk(code, tmp_path)
    assert len(printed) == len(code) == 8
    _, made, look, found, written, loaded, again, drift = printed
    assert made.splitlines()[0] == "time [ms],voltage [mV]"
    shown = (
        "6,000 samples × 0.001 s",
        "proposed: --band",
        "from the data",
        "no minimum separation",
    )
    for words in (*shown, "offset 250.002 subtracted", "Verdict: exact", "given K = 3"):
        assert words in look, words
    assert "Verdict: exact" in found and "given K = 3" in found
    assert {"summary.csv", "posterior.nc", "posterior.png", "report.html"} <= set(written.split())
    assert "frequency_median" in written and len(written.strip().splitlines()) >= 6
    assert loaded.startswith("exact") and "the beat: 0.2" in loaded
    assert again.startswith("exact") and "frequency_sd" in again
    assert "band   40–60 Hz" in again and "from the data" in again  # what was assumed
    assert "misfit" in drift


def test_a_broken_step_is_noticed(tmp_path: Path) -> None:
    """The control: a command that fails ends the walk."""
    with pytest.raises(AssertionError, match="no such file"):
        walk(["echo fine", "ls nothing 2>/dev/null || { echo no such file; exit 2; }"], tmp_path)
