"""Results as files: where each one lies, how one is read, and what a folder holds.

Results of the default network lie in the folder itself, those of another network in a folder of its name inside it, and
those that need no network always in the folder itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slotflow.core.files import atomic_path
from slotflow.network.model import DEFAULT
from slotflow.studies.paper.result import Data, Result

__all__ = ["Record", "collect", "folder_of", "read_record", "write_record"]

PARTS = {"name", "made", "facts", "rows", "data"}
"""What the file of a result holds."""


@dataclass(frozen=True)
class Record:
    """A result and the content of its file."""

    result: Result
    content: Data
    """As it was read: ``made``, ``facts``, ``rows``, ``data``."""
    picture: Path
    """Its PNG."""

    @property
    def model(self) -> str:
        """Name of the network; empty where there is none."""
        return str(self.content["made"].get("model", {}).get("name", ""))

    @property
    def rows(self) -> list[Data]:
        """The rows as a page shows them: targets are asked of the default network and of no other."""
        rows: list[Data] = self.content["rows"]
        if self.model in ("", DEFAULT):
            return rows
        return [row | {"target": None, "met": None} for row in rows]

    @property
    def caption(self) -> str:
        """What the picture shows, with the exact step and with single slots only where they are there."""
        methods = self.content["data"].get("methods", {})
        besides = [said for name, said in self.result.method_captions.items() if name in methods]
        return " ".join((self.result.caption, *besides))


def folder_of(folder: Path, result: Result, model: str) -> Path:
    """Where a result of a network lies."""
    own = "model" in result.uses and model != DEFAULT
    return folder / model if own else folder


def read_record(path: Path, made: Data | None = None) -> Data | None:
    """The file of a result, if it is whole and was made in this way (in any way if None)."""
    try:
        record = json.loads(path.read_text("utf-8"))
        whole = isinstance(record, dict) and set(record) >= PARTS
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    return record if whole and (made is None or record["made"] == made) else None


def write_record(path: Path, record: Data) -> None:
    """Writes the file of a result, whole or not at all: a line for each of its parts, rows and groups of numbers."""
    with atomic_path(path) as temporary:
        temporary.write_text(_lines(record, ("rows", "data")) + "\n", "utf-8")


def _lines(value: Data | list[Data], open_parts: Sequence[str] = ()) -> str:
    """JSON with a line for each entry; the parts that are named have lines of their own for each of theirs."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(_line, value)) + "\n]"
    entries = (
        f"{_line(name)}: {_lines(entry) if name in open_parts else _line(entry)}"
        for name, entry in value.items()
    )
    return "{\n" + ",\n".join(entries) + "\n}"


def _line(value: object) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def collect(folder: Path, results: Sequence[Result]) -> list[list[Record]]:
    """What a folder holds, for each result that it holds: the default network first, then the others by name."""
    places = [folder, *sorted(path for path in folder.glob("*/") if path.is_dir())]
    groups = []
    for result in results:
        group = []
        for place in places:
            content = read_record(place / f"{result.name}.json")
            picture = place / f"{result.name}.png"
            if content is not None and picture.is_file():
                group.append(Record(result, content, picture))
        if group:
            groups.append(group)
    return groups
