"""What is printed of a posterior: the answer first, then verdict, p(K | x), components and what was assumed.

Records hold frequencies in Hz; here they are shown in the unit of the record.
"""

from __future__ import annotations

import math

from rich.markup import escape

from slotflow.cli.components import ShownComponents
from slotflow.cli.terminal import console
from slotflow.core.store import Record
from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.facts import EmptyRegion
from slotflow.posterior.noise import NoiseFacts
from slotflow.posterior.verdict import ess_words
from slotflow.show.sampling import empty_words
from slotflow.show.wording import (
    chance,
    evidence_words,
    kind_words,
    limit_words,
    measured,
    number,
    ratio_words,
)

__all__ = ["print_assumed", "print_posterior"]

VERDICT_STYLES = {"exact": "green", "approximate": "yellow", "misfit": "red"}
"""Colours of the verdicts."""
MOST_ROWS = 24
"""Components that are listed, the strongest ones."""
FEW_REGIONS = 3
"""Empty regions that are listed."""
MOST_COUNTS, CLEAR_PROBABILITY = 16, 0.02
"""Numbers of components from which on only those are printed that have some probability, and how much."""
VISIBLE_PROBABILITY = 5e-4
"""p(K | x) that is not printed as zero."""


def print_assumed(record: Record, unit: FrequencyUnit = HERTZ) -> None:
    """Prints what `assumed_record` gives, frequencies in a unit."""
    streams = record["streams"]
    names = ("long", "short", *(f"no. {i}" for i in range(3, len(streams) + 1)))
    for name, stream in zip(names, streams, strict=False):
        words = f"{stream['words']}, in {stream['unit']}" if stream["unit"] else stream["words"]
        console.print(f"  {name:<6s} {escape(words)}")
    levels = [stream["sigma"] for stream in streams]
    for line in Assumed.from_record(record).lines(levels, unit):
        console.print(f"  {escape(line)}")


def print_posterior(record: Record, truth: Record | None = None, verbose: bool = False) -> None:
    """Prints the answer, the verdict, p(K | x) with the evidences, the table of components and the noise level.

    Args:
        record: What `posterior_record` gives.
        truth: True ``k``, ``noise_std`` and ``components``, where they are known.
        verbose: Whether to print every window and every K.
    """
    shown = ShownComponents(record, truth)
    console.print(f"\n[bold]{escape(record['answer'])}[/bold]")
    if shown.places:
        console.print(f"  {escape(shown.places)}")
    _print_verdict(record["verdict"], shown.unit)
    _print_windows(record["windows"], shown.unit, verbose)
    _print_counts(record, truth, verbose)
    if record["components"] or (truth and truth["components"]):
        phase = f", phase at {record['phase_at']}" if record["phase_at"] != "t = 0" else ""
        errors = ", inflated for the misfit" if shown.inflated else ""
        about = f"median ± sd{errors}{phase}"
        console.print(f"\nComponents, given K = {record['k_map']} ({escape(about)})")
        count = len(record["components"])
        many = not verbose and not truth and count > MOST_ROWS
        tables = shown.tables(console.width, MOST_ROWS if many else None)
        for i, table in enumerate(tables):
            if i:
                console.print()
            console.print(table, soft_wrap=False)
        if many:
            console.print(f"and {count - MOST_ROWS} weaker ones (--verbose lists them)")
        for line in shown.other_modes(verbose):
            console.print(escape(line))
    else:
        console.print("\nNo components: noise alone is most probable.")
    if record["empty"]:
        regions = [EmptyRegion(**region) for region in record["empty"]]
        words = empty_words(
            regions, record["unit"], shown.unit, most=None if verbose else FEW_REGIONS
        )
        console.print(escape(words))
    if record["upper_limit"] is not None:
        console.print(escape(limit_words(record["upper_limit"], record["unit"], shown.unit)))
    console.print(f"\n{escape(shown.unit.reword(_noise_words(record, truth, shown.unit)))}")
    if record["components"] and _of_network(record):
        share = record["constrained_fraction"]
        console.print(f"Draws outside the prior's bounds, drawn again: {share:.1%}")
    console.print()


def _print_verdict(verdict: Record, unit: FrequencyUnit) -> None:
    """The verdict, and what to do about one that is not exact."""
    style = VERDICT_STYLES.get(verdict["status"], "")
    console.print(
        f"[bold]Verdict: [{style}]{verdict['status']}[/{style}][/bold]: {escape(unit.reword(verdict['reason']))}"
        + "".join(f"; [red]but[/red] {escape(text)}" for text in verdict["warnings"])
    )
    if verdict["status"] != "exact":
        for text in verdict["advice"]:
            console.print(f"  [bold]→[/bold] {escape(unit.reword(text))}")


def _print_windows(windows: list[Record], unit: FrequencyUnit, verbose: bool) -> None:
    """How many windows have which verdict; a line for each of them where that is asked for."""
    if not windows:
        return
    if len(windows) == 1 and not verbose:  # the verdict above is its own
        return
    counts = {name: sum(w["status"] == name for w in windows) for name in VERDICT_STYLES}
    found = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    more = "" if verbose else " (--verbose lists them)"
    console.print(f"{len(windows)} window{'s' * (len(windows) > 1)}: {found}{more}")
    for window in windows if verbose else []:
        low, high = window["core"]
        p = "" if window["k_prob"] is None else f" (p = {chance(window['k_prob'])})"
        style = VERDICT_STYLES.get(window["status"], "")
        console.print(
            f"  {unit.span(low, high)}  K = {window['k_map']}{p}  "
            f"[{style}]{window['status']}[/{style}]: {escape(unit.reword(window['reason']))}"
        )


def _print_counts(record: Record, truth: Record | None, verbose: bool) -> None:
    """The bars of p(K | x), and the evidences."""
    evidence = record["log_evidence"]
    console.print("\nq(K | x)" if _of_network(record) else "\np(K | x)")
    best = -math.inf if evidence is None else evidence[record["k_map"]]["value"]
    named = truth["k"] if truth else record["k_map"]
    counts = _worth_a_line(record["k_probs"], named, verbose)
    width = max(2, len(str(max(counts))))
    for k, p in counts.items():
        marks = " ◂ most probable" if k == record["k_map"] else ""
        marks += " (true K)" if truth and k == truth["k"] else ""
        ratio = "" if evidence is None else _evidence(evidence[k], best)
        seen = k not in record["verdict"]["unexamined"]
        bar, words = (_bar(p), chance(p)) if seen else ("", "not looked at")
        console.print(f"  K = {k:<{width}d} {bar:<24s} {words:>8s}{ratio}{marks}".rstrip())
    if math.isfinite(best) and evidence is not None:
        words = evidence_words(best, evidence[record["k_map"]]["error"])
        ess = "" if record["ess"] is None else f", ESS per draw {ess_words(record['ess'])}"
        proposed = f", proposed by {record['proposed_by']}" if record["proposed_by"] else ""
        console.print(f"Evidence of K = {record['k_map']}: ln Z = {words}{ess}{proposed}")
    if kinds := record.get("kinds"):
        words = kind_words([(one["kinds"], one["probability"]) for one in kinds])
        console.print(f"Kinds: {words}")


def _noise_words(record: Record, truth: Record | None, unit: FrequencyUnit) -> str:
    """The noise level, and which noise was assumed and why."""
    sigma, error = record["noise_std"], record["noise_std_error"]
    text = f"Noise level σ = {measured(sigma, error) if error else f'{sigma:.4g}'}"
    if record.get("assumed") and record["assumed"]["streams"][0]["errors"]:
        text += " times the errors in the file"
    elif record["unit"]:
        text += f" {record['unit']}"
    text += f" (truth {number(truth['noise_std'], error or sigma / 100)})" if truth else ""
    if record["noise"] is None:
        return text
    noise = NoiseFacts.from_record(record["noise"])
    text += f", {noise.name.replace('_', '-')} noise"
    if noise.name != "white" and math.isfinite(noise.in_band.mean):
        text += f", {noise.in_band} in the band"
    text += "".join(f", {name} {value}" for name, value in noise.shape_in(unit).items())
    return text + (f": {noise.words.removeprefix(f'{noise.name}: ')}" if noise.words else "")


def _of_network(record: Record) -> bool:
    """Whether the network answered alone."""
    method = record.get("method", "")
    return bool(method.startswith("slotflow:") and "exact" not in method)


def _worth_a_line(k_probs: list[float], named: int, verbose: bool) -> dict[int, float]:
    """The numbers of components to print: those that are possible and their neighbours, or all of them."""
    if verbose:
        return dict(enumerate(k_probs))
    likely = [k for k, p in enumerate(k_probs) if p >= VISIBLE_PROBABILITY or k == named]
    if len(likely) > MOST_COUNTS:
        likely = [k for k in likely if k_probs[k] >= CLEAR_PROBABILITY or k == named]
    return {k: k_probs[k] for k in range(max(likely[0] - 1, 0), min(likely[-1] + 2, len(k_probs)))}


def _evidence(found: Record, best: float) -> str:
    """The logarithm of a Bayes factor against the most probable K, in a column of its own; a limit where it is one."""
    words = ratio_words(found["value"], best, found["error"])
    return f"  {f'Δ ln Z {words}' if words else '':<18s}"


def _bar(p: float, width: int = 24) -> str:
    """A probability as blocks of an eighth."""
    eighths = round(8 * width * p)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
