"""What `slotflow infer` prints: tables of a few signals, a line for each of many, or one JSON document as it grows."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.data import shown_name
from slotflow.cli.output import finite
from slotflow.cli.printing import print_assumed, print_posterior
from slotflow.cli.request import Results
from slotflow.core.units import frequency_unit
from slotflow.many.work import FEW_SIGNALS
from slotflow.show.wording import chance

__all__ = ["Display"]

NAMED_FAILURES = 10
"""Failures that are named on the terminal."""
EXPLAINED_FILES = 3
"""Files whose assumptions are shown where there are more signals than a few."""

Record = dict[str, Any]


class Display:
    """Shows results as they come.

    Args:
        total: How many signals there are.
        results: What is to be printed and written.
    """

    def __init__(self, total: int, results: Results) -> None:
        self.total, self.as_json = total, results.as_json
        self.quiet, self.verbose = results.quiet, results.verbose
        self.lines = results.out is None  # each of many signals gets one
        self.records: list[Record] = []
        self.assumed: dict[str, Record] = {}
        self.units: dict[str, str] = {}
        self.counts: Counter[int] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.done = self.files = self.warned = 0
        self.last = ""

    def add(self, record: Record) -> None:
        """Shows or keeps the result of one signal."""
        if record["file"] != self.last:
            self.last, self.files = record["file"], self.files + 1
        if self.as_json or self.files <= EXPLAINED_FILES:
            self.assumed.setdefault(record["file"], record["assumed"])
            self.units.setdefault(record["file"], record["frequency_unit"])
        self.warned += bool(record["warnings"] or record["verdict"]["warnings"])
        self.counts[record["k_map"]] += 1
        self.verdicts[record["verdict"]["status"]] += 1
        if self.as_json:
            typer.echo('{\n  "signals": [' if self.done == 0 else ",")
            text = json.dumps(finite(record), indent=2, allow_nan=False)
            typer.echo(textwrap.indent(text, "    "), nl=False)
        elif self.total <= FEW_SIGNALS:
            self.records.append(record)
        elif self.lines and not self.quiet:
            probability = record["k_probs"][record["k_map"]]
            output.console.print(
                f"{escape(shown_name(record['file']))} [{record['signal']}]  K = {record['k_map']} "
                f"(p = {chance(probability)})  {record['verdict']['status']}",
                markup=False,
            )
        self.done += 1

    def close(self, facts: Record, failed: list[Record], place: str) -> None:
        """Shows what is left to show.

        Args:
            facts: Further entries of the JSON document: seconds, files and the like.
            failed: File, signal and error of each signal that failed.
            place: The device, in words.
        """
        if self.as_json:
            shown = [{"file": file} | entry for file, entry in self.assumed.items()]
            rest = finite(facts | {"assumed": shown, "failed": failed})
            text = json.dumps(rest, indent=2, allow_nan=False)
            typer.echo("\n  ]," if self.done else '{\n  "signals": [],')
            typer.echo(text.removeprefix("{\n"))
            return
        if not self.quiet:
            self._tables()
            if self.total > FEW_SIGNALS:
                self._totals()
            for path in facts["files"].values():
                output.console.print(f"Written: {escape(path)}")
            seconds, fresh = facts["seconds"], facts["computed"]
            rate = f", {fresh / seconds:.3g} per second" if fresh > 1 else ""
            earlier = f" and {self.done - fresh} of an earlier run" if self.done > fresh else ""
            took = f"{1e3 * seconds:.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
            signals = "1 signal" if fresh == 1 else f"{fresh} signals"
            output.console.print(f"{signals} in {took} on {place}{rate}{earlier}")
        for entry in failed[:NAMED_FAILURES]:
            output.complain("failed", entry["error"])
        if len(failed) > NAMED_FAILURES:
            output.complain("failed", f"and {len(failed) - NAMED_FAILURES} more")

    def _totals(self) -> None:
        """What was assumed of the first signals, how many signals have K components, and the verdicts."""
        for file, assumed in self.assumed.items():
            output.console.print(f"[bold]{escape(shown_name(file))}[/bold], its first signal")
            _print_assumed(file, assumed, self.units[file])
        output.console.print("and the same for every other signal, from its own data")
        if self.files > len(self.assumed):
            output.console.print(f"and so on, for {self.files:,} files in all")
        counts = ", ".join(f"K = {k}: {n:,}" for k, n in sorted(self.counts.items()))
        verdicts = ", ".join(f"{name} {n:,}" for name, n in self.verdicts.most_common())
        output.console.print(f"Most probable {counts}\nVerdicts: {verdicts}")
        if self.warned:
            text = "signals.csv and --json tell which" if not self.lines else "--json tells which"
            output.complain("warning", f"{self.warned:,} signal(s) with warnings; {text}")

    def _tables(self) -> None:
        """What was assumed and found, signal by signal."""
        told: Record = {}
        known: list[str] = []
        for record in self.records:
            title = shown_name(record["file"])
            number = record["signal"]
            title += f" [{number}]" if record["signals_in_file"] > 1 else ""
            output.console.print(f"[bold]{escape(title)}[/bold]")
            if record["signals_in_file"] > self.total == 1:
                which = f"signal {number} of {record['signals_in_file']}, counted from 0"
                output.console.print(f"  {which}; --signal selects another")
            print_posterior(record, verbose=self.verbose)
            for line in record.get("run", []):
                output.console.print(escape(line))
            if record["assumed"] != told:  # once for signals under the same prior
                told, known = record["assumed"], []
                output.console.print("Assumed")
                _print_assumed(record["file"], told, record["frequency_unit"])
            for note in record["notes"]:
                if note not in known:
                    output.console.print(f"  note   {escape(note)}")
            known = record["notes"]
            for doubt in record["warnings"]:
                output.complain("warning", f"{title}: {doubt}")
            for path in record.get("files", {}).values():
                output.console.print(f"Written: {escape(str(Path(path)))}")


def _print_assumed(file: str, assumed: Record, unit: str) -> None:
    """Prints what was assumed of a signal of a file, and what speaks against it; frequencies in a unit."""
    print_assumed(assumed, frequency_unit(unit))
    for doubt in assumed["warnings"]:
        output.complain("warning", f"{shown_name(file)}: {doubt}")
