"""The page of a folder of results: for each, the table, the picture and the command. Never written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from slotflow.io import atomic_path
from slotflow.reproduce.bench import Settings
from slotflow.reproduce.entry import Data, Result

__all__ = ["command", "write_page"]

DEFAULT_MODEL = "zoom"


def write_page(path: str | Path, entries: Sequence[tuple[Result, Data]]) -> None:
    """Writes the page.

    Args:
        path: File to write; pictures are looked for beside it.
        entries: Results with the content of their files.
    """
    lines = [
        "# The paper's results, reproduced",
        "",
        "Our value beside that of Houba, Giarda and Speri, *SlotFlow* (arXiv 2511.23228). Sections and figures are",
        "the paper's. ± is the Monte-Carlo standard error. Written by `slotflow reproduce`; the numbers are in the",
        "JSON file beside each picture.",
        "",
        *(f"- [{result.title}](#{_anchor(result.title)})" for result, _ in entries),
    ]
    for result, record in entries:
        lines += ["", *_entry(result, record)]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", "utf-8")


def _entry(result: Result, record: Data) -> list[str]:
    """Lines of one result."""
    made, facts = record["made"], record["facts"]
    model = made.get("model", {}).get("name")
    about = f"Section {result.section}. "
    about += f"Network `{model}` alone, without the exact step. " if model else "No network. "
    about += f"{facts['seconds']:g} s on {facts['device']}."
    if made.get("n", Settings.n) < Settings.n:
        about += f" **A quick look: n = {made['n']:,}, where the paper has {Settings.n:,}.**"
    return [
        f"## {result.title}",
        "",
        about,
        "",
        f"![{result.title}]({result.name}.png)",
        "",
        result.caption,
        "",
        "| | ours | paper | |",
        "|---|---|---|---|",
        *(
            "| " + " | ".join(_cell(row[key]) for key in ("measure", "text", "paper", "note")) + " |"
            for row in record["rows"]
        ),
        "",
        "```bash",
        command(result, made),
        "```",
    ]  # fmt: skip


def command(result: Result, made: Data) -> str:
    """The command that makes a result again."""
    words = ["slotflow reproduce", f"--only {result.name}"]
    for name, default in asdict(Settings()).items():
        if made.get(name, default) != default:
            words.append(f"--{name} {made[name]}")
    model = made.get("model", {}).get("name", DEFAULT_MODEL)
    if model != DEFAULT_MODEL:
        words.append(f"--model {model}")
    if made.get("device", "cpu") != "cpu":
        words.append(f"--device {made['device']}")
    return " ".join(words)


def _cell(text: str) -> str:
    """Text that does not end a cell of a table."""
    return text.replace("|", "\\|")


def _anchor(title: str) -> str:
    """The name that a heading gets on a rendered page."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
