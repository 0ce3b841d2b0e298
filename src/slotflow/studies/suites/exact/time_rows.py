"""Rows of the exact suite about time: our own, and against Eryn's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slotflow.studies.row import Row
from slotflow.studies.suites.exact.coverage_rows import TARGETS, Records

__all__ = ["eryn_rows", "time_rows"]


def time_rows(parts: Mapping[str, Records]) -> list[Row]:
    """Time of one answer, and per signal of a batch."""
    rows = []
    if "time" in parts:
        seconds = np.array([record["seconds"] for record in parts["time"]])
        note = f"median of {len(seconds)}, one core, 2,000 draws; {1e3 * seconds.min():.0f}–{1e3 * seconds.max():.0f}"
        rows.append(
            TARGETS.row("time, K = 9, ms", 1e3 * float(np.median(seconds)), note=note, form=".0f")
        )
    for record in parts.get("batch", ()):
        each, network = (
            1e3 * record[key] / record["signals"] for key in ("seconds", "network_seconds")
        )
        note = f"{record['signals']} nominal signals, one core; the network {network:.1f}"
        rows.append(TARGETS.row("time per signal of a batch, ms", each, note=note, form=".0f"))
    return rows


def eryn_rows(records: Records) -> list[Row]:
    """How much sooner we have as many effective draws as Eryn, from both of its starts: medians over the signals.

    Eryn's effective draws are those of its parameters' median; in the note also those of the parameter with the fewest.
    """
    ours = np.array([record["seconds"] for record in records])
    draws = np.median([record["effective"] for record in records])
    rows = []
    names = {"cold": "times faster than Eryn", "truth": "times faster than Eryn from the truth"}
    for start, measure in names.items():
        chains = [record[start] for record in records]
        theirs, least, warm, r_hat = (
            np.array([chain[key] for chain in chains])
            for key in ("seconds", "least_seconds", "warm_up_seconds", "r_hat")
        )
        factor = theirs / ours
        note = f"{len(ours)} signals of K = {records[0]['k']}, {draws:,.0f} effective draws on one core: "
        note += f"{np.median(theirs):.2f} s, {np.median(warm):.2f} s of it warm-up, against "
        note += f"{1e3 * np.median(ours):.0f} ms; {factor.min():.0f} to {factor.max():.0f}; for every parameter "
        note += f"{np.median(least / ours):.0f}; R-hat at most {r_hat.max():.2f}"
        rows.append(TARGETS.row(measure, float(np.median(factor)), note=note, form=".0f"))
    return rows
