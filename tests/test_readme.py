"""The README keeps its word: its Python runs, and its commands exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from training_helpers import python
from typer.testing import CliRunner

from slotflow.cli import COMMANDS, app, load_command

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```[ \t]*(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = ("bash", "sh", "shell")
BUILT_IN = ("cd", "export", "source", "set", ".", "echo")


def blocks(text: str, *languages: str) -> list[str]:
    """Code blocks in one of the languages, in order."""
    return [code for language, code in FENCE.findall(text) if language in languages]


def commands(text: str) -> list[list[str]]:
    """Commands in the shell blocks, and those of make and slotflow in the running text, as words."""
    lines = []
    for block in blocks(text, *SHELL):
        lines += block.replace("\\\n", " ").splitlines()
    for block in blocks(text, "console"):  # what follows a prompt; the rest is output
        lines += [line for line in block.splitlines() if line.startswith("$ ")]
    prose = FENCE.sub("", text)
    lines += re.findall(r"`((?:make|slotflow|torchrun) [^`\n]+)`", prose)
    parts = [part for line in lines for part in re.split(r"&&|\|\||;|\|", line.lstrip("$ "))]
    words = [shlex.split(part, comments=True) for part in parts]
    return [found for found in words if found]


def problem(words: list[str]) -> str | None:
    """What is wrong with a command, if anything."""
    while words and re.match(r"^[A-Z_]+=", words[0]):
        words = words[1:]
    if not words:
        return None
    name, *rest = words
    if "-m" in rest and rest[rest.index("-m") + 1] == "slotflow":
        name, rest = "slotflow", rest[rest.index("-m") + 2 :]
    if name == "slotflow" or name.endswith("/slotflow"):
        return problem_of_ours(rest)
    if name == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        unknown = [word for word in rest if not re.search(r"^-|=", word) and word not in targets]
        return f"no target {unknown[0]}" if unknown else None
    if name in BUILT_IN or "/" in name or shutil.which(name):
        return None
    return None if (Path(sys.executable).parent / name).exists() else "no such program"


def problem_of_ours(words: list[str]) -> str | None:
    """What is wrong with the arguments of `slotflow`: unknown commands and options."""
    command: Any = typer.main.get_command(app)
    if words and not words[0].startswith("-") and not re.search(r"[|…]", words[0]):
        if words[0] not in COMMANDS:
            return f"no command {words[0]}"
        command = load_command(words[0])
    names = {name for option in command.params for name in option.opts + option.secondary_opts}
    names |= {"--help", "-h", "--install-completion", "--show-completion"}
    for word in words:
        if re.match(r"--?[a-z]", word) and word.split("=")[0] not in names:
            return f"no option {word}"
    return None


@pytest.fixture(scope="module")
def readme() -> str:
    """The text of README.md."""
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_python_block_runs(readme: str, tmp_path: Path) -> None:
    """One after another, as a reader pastes them; warnings are errors in our code and welcome elsewhere."""
    code = blocks(readme, "python", "py")
    assert code, "README.md has no Python example"
    for i, block in enumerate(code):
        compile(block, f"README.md, Python block {i + 1}", "exec")
    script = tmp_path / "readme.py"
    script.write_text("\n\n".join(code), encoding="utf-8")
    result = python(script, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_every_command_exists(readme: str) -> None:
    found = commands(readme)
    names = {os.path.basename(words[0]) for words in found}
    assert {"make", "slotflow"} <= names, f"README.md shows no use of make or slotflow: {names}"
    wrong = {" ".join(words): why for words in found if (why := problem(words))}
    assert not wrong


def test_every_file_exists(readme: str) -> None:
    """Links and pictures that lead into the repository."""
    targets = re.findall(r"\]\(([^)#\s]+)", readme) + re.findall(r'src="([^"]+)"', readme)
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert not [target for target in local if not (ROOT / target).exists()]


def test_the_checks_can_fail() -> None:
    """The control: a wrong program, target, command and option are all found."""
    text = """
```bash
make demo TORCH_INDEX=https://example.org && make nonsense
$ slotflow demo --sparkle
slotflow fly --json | slotflow info   # a comment
python -m slotflow train --preset debug --out runs/x
OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 -m slotflow train --out x --wings
no-such-program --help
```
Then run `make lint` or `slotflow sing`.
```python
print("not a command")
```
"""
    wrong = {" ".join(words): why for words in commands(text) if (why := problem(words))}
    assert list(wrong.values()) == [
        "no target nonsense",
        "no option --sparkle",
        "no command fly",
        "no option --wings",
        "no such program",
        "no command sing",
    ]
    assert blocks(text, "python") == ['print("not a command")\n']
    assert not blocks("```text\nx\n```\n", "python")


def components(text: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Medians and sds of the rows of a table of components, (rows, 6)."""
    rows = [re.findall(r"([\d.]+) ± ([\d.]+)", line) for line in text.splitlines()]
    return np.array([[float(x) for pair in row for x in pair] for row in rows if len(row) == 3])


def test_the_run_prints_what_is_shown(
    readme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The console block, on the data of the Python block: every line that it shows comes out, to rounding."""
    (shown,) = blocks(readme, "console")
    command, *lines = shown.splitlines()
    data: dict[str, Any] = {}
    exec(blocks(readme, "python")[0].split("model =")[0], data)
    monkeypatch.chdir(tmp_path)
    table = np.column_stack([data["t"], data["x"]])
    np.savetxt("data.csv", table, "%.6g", delimiter=",", header="time,voltage", comments="")
    done = CliRunner().invoke(app, command.lstrip("$ ").split()[1:], env={"COLUMNS": "140"})
    assert done.exit_code == 0, (done.output, done.exception)
    printed = [" ".join(line.split()) for line in done.output.splitlines()]
    plain = [" ".join(line.split()) for line in lines if line.strip() and "±" not in line]
    bar = re.compile(r"[█▏▎▍▌▋▊▉]+ ")
    missing = {bar.sub("", line) for line in plain} - {bar.sub("", line) for line in printed}
    assert not missing, done.output
    here, there = components(shown), components(done.output)
    assert here.shape == there.shape == (2, 6)
    assert (np.abs(here - there)[:, ::2] < 0.1 * there[:, 1::2]).all()  # medians, in sds
    assert (np.abs(here / there - 1)[:, 1::2] < 0.1).all()
