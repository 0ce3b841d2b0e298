"""What the tests of the readers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slotflow.data.channel import Channel
from slotflow.data.read.files import read_observation

__all__ = ["Write", "read_stream"]

Write = Callable[[str, str], Path]
"""The fixture `write`: writes a text file of some name and returns its path."""


def read_stream(path: Path | str, dt: float | None = None, **options: object) -> Channel:
    """The long stream of a file that holds one signal."""
    return read_observation(path, dt, **options).long
