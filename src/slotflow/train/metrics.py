"""The metrics file of a training: JSON lines that a resumed run continues."""

from __future__ import annotations

import json
import math
from pathlib import Path

from slotflow.core.files import atomic_path
from slotflow.network.config import Config

__all__ = ["MetricsLog"]


class MetricsLog:
    """metrics.jsonl: one JSON object a line; lines beyond the resumed step are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() and step else []
        kept = [line for line in lines if _step(line) <= step]
        with atomic_path(path) as temporary:
            temporary.write_text("".join(line + "\n" for line in kept))

    def write(
        self, config: Config, split: str, step: int, seconds: float, values: dict[str, float]
    ) -> None:
        """Appends one line."""
        epoch, signals = step / config.train.steps_per_epoch, step * config.train.batch_size
        head = {"step": step, "epoch": epoch, "signals": signals, "split": split}
        head["seconds"] = round(seconds, 3)
        with self.path.open("a") as file:
            file.write(json.dumps({**head, **values}) + "\n")


def _step(line: str) -> float:
    """Step of a line of metrics; infinite for a line that a crash cut short."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf
