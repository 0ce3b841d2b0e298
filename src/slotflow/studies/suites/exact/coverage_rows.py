"""Targets of the exact suite, and the rows about coverage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slotflow.studies.measures.calibration import Coverage, coverage
from slotflow.studies.measures.parameters import SIZE, SYMBOLS, TABLE_ORDER
from slotflow.studies.row import Row, Target, Targets
from slotflow.studies.tasks import Record

__all__ = ["TARGETS", "Records", "coverage_rows", "curves"]

TARGETS = Targets(
    {
        "nominal: ESS per draw, mean": Target(low=0.98),
        "nominal: ESS per draw, worst 1 %": Target(low=0.9),
        "stress: ESS per draw, mean": Target(low=0.94),
        "stress: ESS per draw, worst 1 %": Target(low=0.8),
        "nominal: exact-K errors in 2,000": Target(high=0),
        "stress: exact-K errors in 2,000": Target(high=1),
        "ln Z − independent, standard errors": Target(low=-3, high=3),
        "standard error of ln Z": Target(high=0.05),
        "coverage − α, standard errors": Target(low=-4, high=4),
        "coverage − α": Target(low=-0.03, high=0.03),
        "ahead in exact-K": Target(low=0.0),
        "correlation − long SMC": Target(low=-0.05, high=0.05),
        "false alarms": Target(high=0.01),
        "caught": Target(low=0.95),
        "time, K = 9, ms": Target(high=250),
        "times faster than Eryn": Target(low=100),
    }
)


Records = Sequence[Record]


def _levels(records: Records) -> tuple[Tensor, Tensor]:
    """Levels of the tones, (n, K, P), and which of them exist, (n, K)."""
    columns = max((record["k"] for record in records), default=0)
    level = torch.zeros(len(records), max(columns, 1), SIZE, dtype=torch.float64)
    mask = torch.zeros(level.shape[:2], dtype=torch.bool)
    for row, record in enumerate(records):
        if record["k"]:
            level[row, : record["k"]] = torch.tensor(record["levels"], dtype=torch.float64)
            mask[row, : record["k"]] = True
    return level, mask


def _single(values: Sequence[float]) -> Coverage:
    """Coverage of one number per signal, as central intervals."""
    level = torch.tensor(values, dtype=torch.float64)[:, None, None]
    return coverage(level, torch.ones(len(level), 1, dtype=torch.bool))


def curves(records: Records) -> dict[str, tuple[Coverage, int]]:
    """Coverage of the joint posterior and of each parameter, with its column."""
    found: dict[str, tuple[Coverage, int]] = {}
    # The region of the highest density is central to nothing: its level h goes where the width 2|u − ½| is h.
    joint = [0.5 + 0.5 * record["joint"] for record in records if record["joint"] is not None]
    if joint:
        found["joint"] = _single(joint), 0
        curve = coverage(*_levels(records))
        found |= {SYMBOLS[i]: (curve, i) for i in TABLE_ORDER}
    if records:
        found["σ"] = _single([record["sigma_level"] for record in records]), 0
    return found


def coverage_rows(name: str, records: Records, only: Sequence[str] = ()) -> list[Row]:
    """The largest deviation of each coverage in standard errors."""
    rows = []
    for symbol, (curve, column) in curves(records).items():
        if only and symbol not in only:
            continue
        alpha, deviation = curve.levels, curve.deviation[:, column]
        # Tones of a signal are not independent; but a few signals' scatter must not be taken for too small an error.
        least = np.sqrt(alpha * (1 - alpha) / curve.n_tones)
        z = deviation / np.maximum(curve.standard_error[:, column], least)
        at = int(np.abs(z).argmax())
        note = f"{deviation[at]:+.4f} at α = {alpha[at]:g}; {len(records):,} signals"
        measure = f"{name}: coverage − α, standard errors, {symbol}"
        rows.append(
            TARGETS.row(
                measure, float(z[at]), "coverage − α, standard errors", note=note, form="+.2f"
            )
        )
    return rows
