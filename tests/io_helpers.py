"""What the tests of the readers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from slotflow.data.channel import Channel
from slotflow.data.read.files import read_observation

__all__ = ["T", "Write", "X", "read_stream", "rows"]

Write = Callable[[str, str], Path]
"""The fixture `write`: writes a text file of some name and returns its path."""
X = np.array([0.5, -0.25, 0.125, 0.0, 0.75, -1.0])
"""Samples of a short series."""
T = 0.25 * np.arange(6)
"""Their times in seconds."""


def read_stream(path: Path | str, dt: float | None = None, **options: object) -> Channel:
    """The long stream of a file that holds one signal."""
    return read_observation(path, dt, **options).long


def rows(times: object, delimiter: str = ",") -> str:
    """X with some time stamps as text."""
    return "".join(f"{t}{delimiter}{x}\n" for t, x in zip(times, X, strict=False))  # type: ignore[call-overload]
