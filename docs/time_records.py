"""What the records of docs/data/ say of time: rates, shares that batches leave, and Eryn's seconds.

What a batch costs includes the words of its verdicts, which are made when they are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

__all__ = [
    "Record",
    "Records",
    "batch_factor",
    "batch_ms",
    "batch_rate",
    "eryn_seconds",
    "left_share",
]

Record = Mapping[str, Any]


class Records:
    """The records of a folder.

    Args:
        folder: docs/data/.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str) -> Any:
        """A record; None if it is not there."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def batch(self, name: str, signals: str) -> Record | None:
        """What a record of batches says of a set; None if it says nothing."""
        record = self.get(name)
        found = [] if record is None else [r for r in record["results"] if r["set"] == signals]
        return found[0] if found else None


def batch_ms(one: Record) -> float:
    """Milliseconds a signal of a batch: network, exact step and verdicts."""
    times = one["ms a signal"]
    return float(times["network and exact"] + times.get("verdicts", 0.0))


def batch_rate(records: Records, signals: str) -> float | None:
    """Signals per second of exact answers in batches on the GPU; None if they were not measured."""
    one = records.batch("batch-exact-gpu", signals)
    return None if one is None else 1e3 / batch_ms(one)


def left_share(records: Records, signals: str) -> float | None:
    """Share of the signals of a set that batches leave, of as many signals as were ever looked at in one record."""
    found = [
        records.batch(name, signals) for name in ("batch-exact-gpu", "batch-equal", "batch-exact")
    ]
    known = [one for one in found if one is not None]
    if not known:
        return None
    most = max(known, key=lambda one: one["signals"])
    return 1.0 - float(most["decided in batches"])


def eryn_seconds(records: Records) -> list[tuple[float, float]]:
    """Seconds of Eryn from a cold start, and the effective draws they give, for each signal; none without a record."""
    record = records.get("against-eryn")
    signals = [] if record is None else record["results"]["signals"]
    return [(one["cold"]["seconds"], one["effective"]) for one in signals]


def batch_factor(records: Records) -> tuple[float | None, str]:
    """How many times sooner a batch on the GPU gives as many effective draws as Eryn: the median over Eryn's signals.

    A batch takes seconds a signal / (draws × ESS) for one effective draw, network, verdicts and all. Signals with as
    many tones as Eryn's count, or nominal ones of any K where those were not measured.

    Returns:
        The factor, None if it is not known, and the record of the batch.
    """
    eryn = eryn_seconds(records)
    for name in ("batch-tones-gpu", "batch-exact-gpu"):
        one = records.batch(name, "nominal")
        if one is None or not eryn:
            continue
        draws = float(records.get(name)["options"]["draws"])
        share = one.get("mean ESS per draw") or _usual_ess(records)
        each = 1e-3 * batch_ms(one) / (draws * share)
        return median(seconds / (effective * each) for seconds, effective in eryn), name
    return None, ""


def _usual_ess(records: Records) -> float:
    """Effective share of the draws of nominal signals, one by one."""
    rows = {row["measure"]: row for row in records.get("exact")["rows"]}
    return float(rows["nominal: ESS per draw, mean"]["value"])
