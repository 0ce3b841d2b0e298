"""What is printed of a posterior: assumptions, verdict, bars of p(K | x), evidences and the table of components."""

from __future__ import annotations

import math

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from slotflow.cli.terminal import console
from slotflow.core.store import Record
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.verdict import ess_words
from slotflow.show.wording import evidence_words, limit_words, measured, number, ratio_words
from slotflow.signal.waveforms import waveform_named

__all__ = ["print_assumed", "print_posterior"]

VERDICT_STYLES = {"exact": "green", "approximate": "yellow", "misfit": "red"}
"""Colours of the verdicts."""
FEW_ORDERS = 12
"""Numbers of components that are all printed."""
VISIBLE_PROBABILITY = 5e-4
"""p(K | x) that is not printed as zero."""
SURE_EXISTENCE = 0.995
"""Existence probability that need not be told."""


def print_assumed(record: Record) -> None:
    """Prints what `assumed_record` gives."""
    streams = record["streams"]
    for name, stream in zip(("long", "short"), streams, strict=False):
        start = f", from t = {stream['t0']:.6g} s" if stream["t0"] else ""
        unit = f", in {stream['unit']}" if stream["unit"] else ""
        console.print(
            f"  {name:<6s} {stream['n']:,} samples × {stream['dt']:.6g} s = {stream['duration']:.6g} s, "
            f"{stream['rate']:.6g} per second, Nyquist {0.5 / stream['dt']:.6g} Hz{start}{escape(unit)}"
        )
    for line in Assumed.from_record(record).lines([stream["sigma"] for stream in streams]):
        console.print(f"  {escape(line)}")


def print_posterior(record: Record, truth: Record | None = None) -> None:
    """Prints the verdict, p(K | x) with the evidences, the table of components and the noise level.

    Args:
        record: What `posterior_record` gives.
        truth: True ``k``, ``noise_std`` and ``components``, where they are known.
    """
    verdict = record["verdict"]
    style = VERDICT_STYLES.get(verdict["status"], "")
    console.print(
        f"\n[bold]Verdict: [{style}]{verdict['status']}[/{style}][/bold]: {escape(verdict['reason'])}"
        + "".join(f"; [red]but[/red] {escape(text)}" for text in verdict["warnings"])
    )
    evidence = record["log_evidence"]
    method = record.get("method", "")
    network = method.startswith("slotflow:") and "exact" not in method
    console.print("\nq(K | x)" if network else "\np(K | x)")
    best = -math.inf if evidence is None else evidence[record["k_map"]]["value"]
    shown = _worth_a_line(record["k_probs"], truth["k"] if truth else record["k_map"])
    for k, p in shown.items():
        marks = " ◂ most probable" if k == record["k_map"] else ""
        marks += " (true K)" if truth and k == truth["k"] else ""
        ratio = "" if evidence is None else _evidence(evidence[k], best)
        console.print(f"  K = {k:<2d} {_bar(p):<24s} {p:6.3f}{ratio}{marks}".rstrip())
    if math.isfinite(best) and evidence is not None:
        words = evidence_words(best, evidence[record["k_map"]]["error"])
        ess = "" if record["ess"] is None else f", ESS per draw {ess_words(record['ess'])}"
        console.print(f"Evidence of K = {record['k_map']}: ln Z = {words}{ess}")
    if record["components"] or (truth and truth["components"]):
        console.print(f"\nComponents, given K = {record['k_map']} (median ± sd)")
        console.print(_component_table(record, truth), soft_wrap=False)
    else:
        console.print("\nNo component: noise alone is the most probable.")
    if record["upper_limit"] is not None:
        console.print(escape(limit_words(record["upper_limit"], record["unit"])))
    sigma, error = record["noise_std"], record["noise_std_error"]
    unit = f" {record['unit']}" if record["unit"] else ""
    console.print(
        f"\nNoise level σ = {measured(sigma, error) if error else f'{sigma:.4g}'}{escape(unit)}"
        + (f" (truth {number(truth['noise_std'], error or sigma / 100)})" if truth else "")
    )
    if record["components"] and network:
        share = record["constrained_fraction"]
        console.print(f"Draws outside the prior's bounds, drawn again: {share:.1%}")
    console.print()


def _worth_a_line(k_probs: list[float], named: int) -> dict[int, float]:
    """The numbers of components to print: all of up to `FEW_ORDERS`, of more those around what is possible."""
    if len(k_probs) <= FEW_ORDERS:
        return dict(enumerate(k_probs))
    likely = [k for k, p in enumerate(k_probs) if p >= VISIBLE_PROBABILITY or k == named]
    return {k: k_probs[k] for k in range(max(likely[0] - 1, 0), min(likely[-1] + 2, len(k_probs)))}


def _evidence(found: Record, best: float) -> str:
    """The logarithm of a Bayes factor against the most probable K, in a column of its own; a limit where it is one."""
    words = ratio_words(found["value"], best, found["error"])
    return f"  {f'Δ ln Z {words}' if words else '':<18s}"


def _component_table(record: Record, truth: Record | None) -> Table:
    """One row per component, with its true values beside it where they are known."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("#", justify="right")
    waveform = waveform_named(record["waveform"])
    for name, unit in zip(waveform.names, waveform.units(record["unit"]), strict=True):
        heading = f"{name} [{unit}]" if unit else name
        table.add_column(escape(heading), justify="right", no_wrap=True)
        if truth:
            table.add_column("truth", justify="right", style="cyan")
    doubtful = any(row["existence"] < SURE_EXISTENCE for row in record["components"])
    if doubtful:
        table.add_column("exists", justify="right")
    true = truth["components"] if truth else []
    for row, exact in _pairs(record["components"], true, waveform.place):
        cells = [str(row["component"]) if row else "–"]
        for name in waveform.names:
            sd = row[f"{name}_sd"] if row else math.nan
            cells.append(measured(row[f"{name}_median"], sd) if row else "missed")
            if truth:
                cells.append(number(exact[name], sd) if exact else "none")
        if doubtful:
            cells.append(f"{row['existence']:.2f}" if row else "")
        table.add_row(*cells)
    return table


def _pairs(
    rows: list[Record], truth: list[Record], place: str
) -> list[tuple[Record | None, Record | None]]:
    """Inferred and true components side by side, the nearest of each other; None where there is none.

    Args:
        rows: Rows of a summary.
        truth: True parameters of each component.
        place: Name of the parameter that tells components apart.
    """
    from scipy.optimize import linear_sum_assignment

    inferred, true = [r[f"{place}_median"] for r in rows], [t[place] for t in truth]
    i, j = linear_sum_assignment(np.abs(np.subtract.outer(inferred, true)))
    partner = dict(zip(i.tolist(), j.tolist(), strict=True))
    found = [(row, truth[partner[n]] if n in partner else None) for n, row in enumerate(rows)]
    missed = [(None, t) for n, t in enumerate(truth) if n not in partner.values()]
    return [*found, *missed]


def _bar(p: float, width: int = 24) -> str:
    """A probability as blocks of an eighth."""
    eighths = round(8 * width * p)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
