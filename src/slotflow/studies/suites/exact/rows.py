"""From the records of the exact suite to rows of a report; fixed targets stand in `TARGETS` (`exact_coverage.py`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from slotflow.studies.measures.calibration import deviation_of_perfect
from slotflow.studies.measures.cardinality import ece, ece_of_perfect, top_label
from slotflow.studies.measures.correlation import between_components
from slotflow.studies.measures.parameters import PLACE, SYMBOLS, TABLE_ORDER
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.exact.coverage_rows import (
    TARGETS,
    Records,
    coverage_rows,
    curves,
)
from slotflow.studies.suites.exact.misfits import ANSWERABLE, KINDS
from slotflow.studies.suites.exact.time_rows import eryn_rows, time_rows

__all__ = ["exact_details", "exact_rows"]

RESIDUAL_LEVEL = 0.01
"""Level of all tests of the residual together at which their p-values are compared with chance."""
COMMON_LEVEL = 0.9
"""Level of the intervals that a note counts."""
ONE_SIDED_LEVEL = 0.05
"""Level of one-sided tests."""
PROMISED_SIGNALS = 2000
"""Signals that the targets of exact-K are stated for."""


def exact_rows(parts: Mapping[str, Records]) -> list[Row]:
    """The rows that follow from the records, by part; parts that were not run leave none."""
    parts = {name: records for name, records in parts.items() if records}
    rows: list[Row] = []
    for name in ("nominal", "stress"):
        if name in parts:
            rows += _ess_rows(name, parts[name])
    if "evidence" in parts:
        rows += _evidence_rows(parts["evidence"])
    if "nominal" in parts:
        rows += coverage_rows("nominal", parts["nominal"])
    rows += [_count_row(name, parts[name]) for name in ("nominal", "stress") if name in parts]
    if "frontier" in parts:
        rows += _frontier_rows(parts["frontier"])
    if "weak" in parts:
        rows += _weak_rows(parts["weak"])
    if "correlation" in parts:
        rows.append(_correlation_row(parts["correlation"]))
    rows += _misfit_rows(parts)
    rows += time_rows(parts)
    if "eryn" in parts:
        rows += eryn_rows(parts["eryn"])
    return rows


# ---------------------------------------------------------------------- draws and evidence


def _ess_rows(name: str, records: Records) -> list[Row]:
    """Effective share of the draws at the true K."""
    ess = np.array([record["ess"] for record in records])
    worst = float(np.quantile(ess, 0.01, method="lower"))
    methods = Counter(record["method"] for record in records)
    how = ", ".join(f"{count:,} {method}" for method, count in methods.most_common())
    label = f"{name}: ESS per draw"
    return [
        TARGETS.row(
            f"{label}, mean", float(ess.mean()), note=f"{len(ess):,} signals at the true K: {how}"
        ),
        TARGETS.row(f"{label}, worst 1 %", worst, note=f"smallest {ess.min():.3f}"),
    ]


def _evidence_rows(records: Records) -> list[Row]:
    """Evidence against the independent estimate: the signal that strays furthest, and our largest error."""
    ours, theirs, error, other = (
        np.array([record[key] for record in records])
        for key in ("ours", "theirs", "error", "their_error")
    )
    z = (ours - theirs) / np.hypot(error, other)
    worst = int(np.abs(z).argmax())
    note = f"{len(z)} signals, K = {records[worst]['k']}: {ours[worst] - theirs[worst]:+.3f} nat; "
    note += (
        f"all: mean {(ours - theirs).mean():+.3f}, their errors {other.min():.2f}–{other.max():.2f}"
    )
    return [
        TARGETS.row("ln Z − independent, standard errors", float(z[worst]), note=note, form="+.2f"),
        TARGETS.row("standard error of ln Z", float(error.max()), note="the largest", form=".4f"),
    ]


# ---------------------------------------------------------------------- counts


def _counts(records: Records, key: str = "k_probs") -> tuple[Tensor, Tensor]:
    """p(K | x), (n, K_max + 1), and whether its top label is right, (n,)."""
    probs = torch.tensor([record[key] for record in records], dtype=torch.float64)
    right = top_label(probs)[0] == torch.tensor([record["k"] for record in records])
    return probs, right


def _count_row(name: str, records: Records) -> Row:
    """Wrong counts; a few signals cannot miss the target where their own probabilities expect as many."""
    probs, right = _counts(records)
    wrong, n = int((~right).sum()), len(records)
    expected = float((1 - top_label(probs)[1]).sum())
    likely = wrong == 0 or float(stats.poisson.sf(wrong - 1, expected)) > ONE_SIDED_LEVEL
    note = f"{wrong:,} of {n:,} signals; their probabilities expect {expected:.2g}"
    measure = f"{name}: exact-K errors in {PROMISED_SIGNALS:,}"
    value = PROMISED_SIGNALS * wrong / n
    return TARGETS.row(
        measure, value, undecided=n < PROMISED_SIGNALS and likely, note=note, form=".4g"
    )


def _ece_row(name: str, records: Records) -> Row:
    """ECE against what the same probabilities show if they are right."""
    probs, right = _counts(records)
    mean, high = ece_of_perfect(probs, repeats=1000)
    note = f"perfect: {mean:.4f} on average, 95 % below {high:.4f}; {len(records):,} signals"
    value = float(ece(top_label(probs)[1], right))
    target = Target(high=round(high, 4))
    return Row.judged(f"{name}: ECE of p(K | x)", value, target, slack=5e-5, note=note)


def _paired_row(ours: Tensor, theirs: Tensor, rival: str) -> Row:
    """Right counts above a rival's on the same signals, (n,) each; a sign test says how far below 0 is nothing."""
    n = len(ours)
    ahead, behind = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    total = ahead + behind
    fewest = float(stats.binom.ppf(ONE_SIDED_LEVEL, total, 0.5)) if total else 0.0
    p = float(stats.binom.cdf(ahead, total, 0.5)) if total else 1.0
    rates = " against ".join(f"{float(x.double().mean()):.4f}" for x in (ours, theirs))
    note = f"{rates}; right alone {ahead} and {behind} times, sign test p = {p:.2g}"
    value, slack = (ahead - behind) / n, (total - 2 * fewest) / n
    measure = f"frontier: exact-K ahead of {rival}"
    return TARGETS.row(measure, value, "ahead in exact-K", slack=slack, note=note, form="+.4f")


def _frontier_rows(records: Records) -> list[Row]:
    """Pairs below the resolution: counts, calibration, coverage."""
    right = _counts(records)[1]
    rate = float(right.double().mean())
    error = math.sqrt(rate * (1 - rate) / len(records))
    note = f"± {error:.4f}; {_statuses(records)}; {_seconds(records)}"
    rows = [
        Row("frontier: exact-K", rate, note=note, form=".4f"),
        _paired_row(right, _counts(records, "network")[1], "the network"),
    ]
    if all("classical" in record for record in records):
        theirs = torch.tensor([record["classical"] == record["k"] for record in records])
        rows.append(_paired_row(right, theirs, "the classical estimator"))
    rows.append(_ece_row("frontier", records))
    found = curves(records)
    perfect = deviation_of_perfect(found[SYMBOLS[PLACE]][0].n_tones)
    for symbol in (SYMBOLS[i] for i in TABLE_ORDER):
        curve, column = found[symbol]
        alpha, value = curve.worst(column)
        note = f"at α = {alpha:g}; perfect: 95 % within ±{perfect:.4f}"
        options: dict[str, Any] = {"undecided": abs(value) <= perfect, "note": note, "form": "+.4f"}
        rows.append(
            TARGETS.row(f"frontier: coverage − α, {symbol}", value, "coverage − α", **options)
        )
    return rows + coverage_rows("frontier", records, only=("joint", "σ"))


def _weak_rows(records: Records) -> list[Row]:
    """Tones near the noise: calibration of the count, and coverage of results that call themselves exact."""
    sure = [record for record in records if record["status"] == "exact"]
    share = len(sure) / len(records)
    note = f"{_statuses(records)}; {_seconds(records)}"
    rows = [
        _ece_row("weak", records),
        Row("weak: share called exact", share, note=note, form=".4f"),
    ]
    return rows + coverage_rows("weak, exact", sure)


# ---------------------------------------------------------------------- correlations, misfits


def _correlation_row(records: Records) -> Row:
    """The entry of the correlation matrices that strays furthest."""
    off = [np.array(record["ours"]) - np.array(record["theirs"]) for record in records]
    entries = np.concatenate([matrix[np.triu_indices(len(matrix), 1)] for matrix in off])
    worst = float(entries[np.abs(entries).argmax()])
    largest = max(
        float(np.abs(between_components(np.array(record["ours"]))).max()) for record in records
    )
    note = f"{len(records)} pairs at 1.2/T, rms {np.sqrt((entries**2).mean()):.4f}; "
    note += f"largest between the tones {largest:.2f}"
    return TARGETS.row(
        "pair: correlation − long SMC", worst, "correlation − long SMC", note=note, form="+.4f"
    )


def _misfit_rows(parts: Mapping[str, Records]) -> list[Row]:
    """How often the verdict is "misfit": among data that tones explain, and for each kind that they do not.

    Both are counted by the verdict as the user sees it, at its own threshold.
    """
    rows = []
    for name in ("nominal", "stress", "frontier", "weak"):
        if name not in parts:
            continue
        records = parts[name]
        rate, n = _called(records), len(records)
        high = float(stats.binom.ppf(0.95, n, TARGETS["false alarms"].high or 0.0)) / n
        rows.append(
            TARGETS.row(
                f"misfit: false alarms, {name}",
                rate,
                "false alarms",
                undecided=rate <= high,
                note=f"{round(rate * n)} of {n:,} called misfit; {_below_level(records)}",
            )
        )
    for kind in KINDS:
        if kind not in parts:
            continue
        records = parts[kind]
        value, n, measured = _called(records), len(records), "caught"
        low = float(stats.binom.ppf(0.05, n, TARGETS["caught"].low or 0.0)) / n
        tests = Counter(r["check"] for r in records if r["status"] == "misfit").most_common(2)
        refused = sum(record["status"] == "refused" for record in records)
        below = sum(record["p"] < RESIDUAL_LEVEL for record in records) / n
        note = f"{n} signals, median SNR {np.median([r['snr'] for r in records]):.1f}; "
        note += f"below the 1 % level {below:.3f}; "
        note += ", ".join(f"{name} {count}" for name, count in tests)
        note += f"; {refused} refused" if refused else ""
        if kind in ANSWERABLE:
            value, words = _handled(records)
            note, measured = f"{note}; {words}", "caught or answered rightly"
        rows.append(
            TARGETS.row(
                f"misfit: {kind} {measured}", value, "caught", undecided=low <= value, note=note
            )
        )
    return rows


def _handled(records: Records) -> tuple[float, str]:
    """Share that is called a misfit or refused, or has the right K; and how good the others' answers are."""
    answered = [record for record in records if record["status"] not in ("misfit", "refused")]
    right = [record for record in answered if record["k_right"]]
    levels = np.concatenate([np.ravel(record["levels"]) for record in right] or [np.zeros(0)])
    words = f"{len(right)} of {len(answered)} others have the right K"
    if len(levels):
        words += f", and their 90 % intervals hold {(levels < COMMON_LEVEL).mean():.3f}"
    return 1 - (len(answered) - len(right)) / len(records), words


def _called(records: Records) -> float:
    """Share whose verdict is "misfit"."""
    return float(np.mean([record["status"] == "misfit" for record in records]))


def _below_level(records: Records) -> str:
    """Whether the tests of the residual keep their level: how many signals fall below 1 % of all tests together."""
    n, below = len(records), sum(record["p"] < RESIDUAL_LEVEL for record in records)
    chance = float(stats.binom.sf(below - 1, n, RESIDUAL_LEVEL))
    words = f"{below} below the 1 % level of all tests together, {RESIDUAL_LEVEL * n:.3g} expected"
    return words if chance > ONE_SIDED_LEVEL else f"{words}: more than chance, p = {chance:.2g}"


# ---------------------------------------------------------------------- words and details


def _statuses(records: Records) -> str:
    """How many results have which verdict."""
    found = Counter(record["status"] for record in records).most_common()
    return ", ".join(f"{count} {status}" for status, count in found)


def _seconds(records: Records) -> str:
    """Time per signal."""
    seconds = np.array([record["total_seconds"] for record in records])
    return f"{seconds.mean():.2f} s per signal, at most {seconds.max():.1f}"


def exact_details(parts: Mapping[str, Records]) -> dict[str, Any]:
    """Verdicts, methods, times and coverage of each part, as plain values."""
    details: dict[str, Any] = {}
    for name, records in parts.items():
        entry: dict[str, Any] = {"signals": len(records)}
        if records and "method" in records[0]:
            seconds = [record["total_seconds"] for record in records]
            entry |= {
                "verdicts": dict(Counter(record["status"] for record in records)),
                "methods": dict(Counter(record["method"] for record in records)),
                "seconds": {"mean": float(np.mean(seconds)), "largest": max(seconds)},
                "coverage": {
                    symbol: {"alpha": c.levels.tolist(), "coverage": c.coverage[:, i].tolist()}
                    for symbol, (c, i) in curves(records).items()
                },
            }
        else:
            entry["records"] = list(records)
        details[name] = entry
    return details
