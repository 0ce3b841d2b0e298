"""The tables of docs/performance.md about its targets, from the records that benchmarks/ wrote to docs/data/.

A line without its record says that it has not been measured. Targets are those that were set before anything was
measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from time_records import Records, batch_factor, batch_ms, batch_rate

from slotflow.studies.row import Target

__all__ = ["NOT_MEASURED", "Cells", "Table", "performance_tables"]

Cells = Sequence[object]
Table = Callable[[Sequence[str], Iterator[Cells]], str]
NOT_MEASURED = "not measured yet"
FULL_CLUSTER = 100_000
"""Signals of the run on machines that fail, as it was asked for."""
ALIKE = 0.995
"""Share of verdicts that must be the same in a batch and alone."""
FULL_EQUALITY = 2000
"""Signals of each set for which batches and answers one by one were to be compared."""
STANDARD_ERRORS = 4.0
"""By how many standard errors the scatter of pulls may exceed one."""
EQUAL = ("nominal", "stress", "frontier", "weak")
"""The sets on which batches are compared with answers one by one."""
LEVELS = ("0.05", "0.5", "0.95")
"""Of the quantiles that are compared."""
HEADER = ("measure", "target", "measured", "met", "how", "record")
RATES = {
    "arrays on the host": "arrays on the host",
    "arrays on the device": "arrays on the device",
    "list of observations": "a list of observations",
    "one by one": "one by one",
}
"""How signals are handed over: in a record, and in words."""
BATCH = "python benchmarks/batch_exact.py"
COMMANDS = {
    "rate": "python benchmarks/rate.py --device cuda --size 20000 --out docs/data/rate.json",
    "batch-exact-gpu": f"{BATCH} --device cuda --size 20000 --compare 20 --draws 1000 "
    "--out docs/data/batch-exact-gpu.json",
    "batch-exact": f"{BATCH} --size 256 --compare 100 --sets nominal stress --draws 1000 "
    "--out docs/data/batch-exact.json",
    "batch-tones-gpu": f"{BATCH} --device cuda --size 20000 --compare 20 --tones 3 --draws 2000 "
    "--out docs/data/batch-tones-gpu.json",
    "batch-equal": f"{BATCH} --sets {' '.join(EQUAL)} --size 2000 --compare 2000 --equality --left "
    "--jobs 2 --out docs/data/batch-equal.json",
    "against-eryn": "python benchmarks/against_eryn.py --size 20 --out docs/data/against-eryn.json",
    "cost": "python benchmarks/cost.py --out docs/data/cost.json",
    "cost-gpu": "python benchmarks/cost.py --device cuda --out docs/data/cost-gpu.json",
    "crowded-now": "python benchmarks/crowded.py --size 60 --out docs/data/crowded-now.json",
    "cluster": "python benchmarks/cluster.py --kill-every 50 --out docs/data/cluster.json",
}
"""The command that makes each record."""


@dataclass(frozen=True)
class Line:
    """One line of the table of targets."""

    measure: str
    target: Target
    record: str
    """Name of the record."""
    value: float | None = None
    """None where there is none."""
    text: str = ""
    """The value as it is written."""
    note: str = ""
    """Device, number of signals, and what the value must be read with."""
    partial: str = ""
    """What was smaller than asked for; a target is then neither met nor missed."""

    @property
    def cells(self) -> Cells:
        """As the table shows them."""
        if self.value is None:
            return self.measure, self.target, "–", NOT_MEASURED, self.note, self.record
        met = {True: "yes", False: "**no**"}[self.target.met(self.value)]
        met = f"open: {self.partial}" if self.partial else met
        return self.measure, self.target, self.text, met, self.note, self.record


def performance_tables(folder: Path, table: Table) -> Iterator[tuple[str, str]]:
    """Names of the tables and their Markdown.

    Args:
        folder: Of the records.
        table: Writes a header and rows as Markdown.
    """
    records = Records(folder)
    yield "performance", table(HEADER, (line.cells for line in _lines(records)))
    commands = (
        (name, f"`{command}`" + ("" if records.get(name) else f" ({NOT_MEASURED})"))
        for name, command in COMMANDS.items()
    )
    yield "performance_commands", table(("record", "command that makes it"), commands)
    header = ("set", "signals", "decided in batches", "first reason of the others, signals")
    yield "left", table(header, _left(records))
    header = ("handed over as", "H200: infer", "with draws", "one core: infer", "with draws")
    yield "rates", table(header, _rates(records))


# ---------------------------------------------------------------------- the lines


def _lines(records: Records) -> Iterator[Line]:
    """The targets in the order in which they were set."""
    yield _network_rate(records)
    yield _gpu_rate(records)
    yield _core_batch(records)
    yield from _eryn(records)
    yield _one_signal(records)
    for name in ("frontier", "weak"):
        yield from _crowded(records, name)
    for name in EQUAL:
        yield _equal(records, name)
    for name, words in (("dask", "on Dask, two workers"), ("shards", "in shards, merged")):
        yield _cluster(records, name, words)


def _network_rate(records: Records) -> Line:
    line = ("network and 100 draws, H200, nominal signals", Target(low=10_000, words="≥ 10,000/s"))
    record = records.get("rate")
    if record is None:
        return Line(*line, "rate")
    one = record["arrays on the host"]
    note = f"{one['signals']:,} signals as arrays, {record['device']}; without draws {one['infer_per_s']:,.0f}/s"
    return Line(*line, "rate", one["both_per_s"], f"{one['both_per_s']:,.0f}/s", note)


def _gpu_rate(records: Records) -> Line:
    target = Target(low=3000, words="≥ 3,000/s, aim 5,000")
    line = ("exact, H200, nominal signals with 1,000 draws", target, "batch-exact-gpu")
    one, rate = records.batch("batch-exact-gpu", "nominal"), batch_rate(records, "nominal")
    if one is None or rate is None:
        return Line(*line)
    draws = int(records.get("batch-exact-gpu")["options"]["draws"])
    note = f"{one['signals']:,} signals, {draws:,} draws, verdicts included; without them "
    note += f"{one['signals per second']:,.0f}/s; {one['decided in batches']:.2%} decided in batches".replace(
        "%", " %"
    )
    return Line(*line, rate, f"{rate:,.0f}/s", note)


def _core_batch(records: Records) -> Line:
    line = (
        "exact, one core, batch of 256 nominal signals",
        Target(high=20, words="≤ 20 ms"),
        "batch-exact",
    )
    one = records.batch("batch-exact", "nominal")
    if one is None:
        return Line(*line)
    times = one["ms a signal"]
    note = f"{one['signals']} signals; the network alone {times['network alone']:.1f} ms, "
    note += f"one by one {times['alone']:.0f} ms"
    return Line(*line, batch_ms(one), f"{batch_ms(one):.1f} ms", note)


def _eryn(records: Records) -> Iterator[Line]:
    alone = (
        "times faster than tuned Eryn, K = 3, one core, one signal alone",
        Target(low=40, words="≥ 40"),
        "against-eryn",
    )
    batch = (
        "times faster than tuned Eryn (one core), batch on the H200",
        Target(low=5000, words="≥ 5,000"),
        "against-eryn",
    )
    record, (factor, source) = records.get("against-eryn"), batch_factor(records)
    if record is None:
        yield Line(*alone)
    else:
        cold, truth = record["results"]["rows"]
        note = f"{cold['note']}. Eryn started at the truth: {truth['value']:.0f} times"
        yield Line(*alone, cold["value"], f"{cold['value']:.0f}", note)
    if factor is None:
        yield Line(*batch, note="needs the record of the H200 too")
    else:
        words = {
            "batch-tones-gpu": "signals of K = 3",
            "batch-exact-gpu": "nominal signals of any K",
        }
        one, draws = records.get(source), int(records.get(source)["options"]["draws"])
        note = f"as many effective draws; {one['results'][0]['signals']:,} {words[source]} in the batch, "
        note += f"{draws:,} draws of each, by {source}"
        yield Line(*batch, factor, f"{factor:,.0f}", note)


def _one_signal(records: Records) -> Line:
    line = ("exact, one signal alone, one core, K = 9", Target(high=66, words="≤ 66 ms"), "cost")
    record = records.get("cost")
    points = [] if record is None else [p for p in record.get("tones", ()) if p["value"] == 9]
    if not points:
        return Line(*line)
    value, draws = points[0]["alone"], record["settings"]["draws"]
    return Line(*line, value, f"{value:.0f} ms", f"median, {draws:,} draws, processor time")


def _crowded(records: Records, name: str) -> Iterator[Line]:
    record = records.get("crowded-now")
    targets = {"mean": Target(high=0.6, words="≤ 0.6 s"), "worst": Target(high=5, words="≤ 5 s")}
    for key, target in targets.items():
        line = (f"exact, {name} set, one core: {key}", target, "crowded-now")
        if record is None:
            yield Line(*line)
            continue
        one = record["results"][name]["now"]
        chance, value = one["ece_of_perfect"]["below_in_95_percent"], one["cpu_seconds"][key]
        note = f"{one['signals']} signals, one by one; ECE {one['ece']:.3f} (95 % of perfect ones below {chance:.3f})"
        yield Line(*line, value, f"{value:.2f} s", note)


def _equal(records: Records, name: str) -> Line:
    """The share of verdicts alike; missed, too, where ln Z or quantiles scatter by more than their errors say."""
    target = Target(low=ALIKE, words="≥ 99.5 % of verdicts alike, the rest within its error")
    line = (f"batch against one by one, {name} set", target, "batch-equal")
    one = records.batch("batch-equal", name)
    if one is None:
        return Line(*line)
    compared, decided = one.get("compared", 0), round(one["decided in batches"] * one["signals"])
    note = f"{one['signals']:,} signals, of which batches decide {decided:,}"
    if compared > decided:
        note += "; the others are answered by the same code, from the network's answer in a batch and alone"
    if not compared:
        return Line(
            *line, math.nan, "–", f"{note}: nothing to compare", "no signal is decided in batches"
        )
    pulls, count = one["rms pull of ln Z"], one["pulls of ln Z"]
    quantiles = [one[f"rms pull of quantile {level}"] for level in LEVELS]
    limit = (
        1 + STANDARD_ERRORS / math.sqrt(2 * count) if count else math.inf
    )  # a signal counts once
    agrees = max(pulls, *quantiles) <= limit
    note += f"; rms difference over its error: ln Z {pulls:.2f}, quantiles {', '.join(LEVELS)} "
    note += ", ".join(f"{value:.2f}" for value in quantiles)
    far = sum(one.get(f"pulls of quantile {level} beyond 5", 0) for level in LEVELS)
    if far:
        total = sum(one[f"pulls of quantile {level}"] for level in LEVELS)
        note += f" ({far} of {total:,} by more than 5)"
    note += "; "
    note += f"largest Δp(K) {one['largest difference of p(K)']:.1g}"
    alike = one["verdicts alike"] if agrees else 0.0
    small = f"{one['signals']:,} signals" if one["signals"] < FULL_EQUALITY else ""
    return Line(*line, alike, f"{100 * one['verdicts alike']:.2f} % alike", note, small)


def _cluster(records: Records, name: str, words: str) -> Line:
    target = Target(low=1, words="identical to one uninterrupted run, nothing lost or twice")
    line = (f"100,000 signals {words}, killed and resumed", target, "cluster")
    record = records.get("cluster")
    if record is None:
        return Line(*line)
    one, memory = record[name], record[name]["memory"]["peak_mb"]
    good = one["identical"] and not one["missing"] and not one["twice"]
    text = "identical" if good else f"{one['missing']} missing, {one['twice']} twice"
    killed = "killed {workers_killed} workers, {scheduler_restarts} scheduler, {command_restarts} command"
    if name == "shards":
        killed = "killed {killed} of {shards} shards"
    note = f"{one['signals']:,} tiny signals, the small network; {killed.format_map(one)}; "
    note += f"at most {memory:.0f} MB a process"
    small = f"{one['signals']:,} signals" if good and one["signals"] < FULL_CLUSTER else ""
    return Line(*line, float(good), text, note, small)


# ---------------------------------------------------------------------- the other tables


def _left(records: Records) -> Iterator[Cells]:
    """What batches leave, and why."""
    for name in EQUAL:
        one = records.batch("batch-equal", name) or records.batch("batch-exact", name)
        if one is None:
            yield name, "–", NOT_MEASURED, ""
            continue
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in one["why not"].items())
        share = f"{100 * one['decided in batches']:.1f} %"
        yield name, f"{one['signals']:,}", share, reasons or "–"


def _rates(records: Records) -> Iterator[Cells]:
    """Signals per second of the network by how they are handed over."""
    found = [records.get(name) or {} for name in ("rate", "rate-cpu")]
    for key, words in RATES.items():
        cells = []
        for record in found:
            one = record.get(key, {})
            for rate in ("infer_per_s", "both_per_s"):
                cells.append(f"{one[rate]:,.0f}" if rate in one else "")
        yield words, *cells
