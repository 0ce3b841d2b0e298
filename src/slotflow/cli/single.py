"""What commands that analyse one signal by a baseline share: reading it, its prior, and what is printed and written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.assumed import assumed_prior, assumed_record, print_assumed, proposed_band
from slotflow.cli.data import shown_name
from slotflow.cli.results import check_folder
from slotflow.core.files import atomic_path
from slotflow.data.observation import Observation
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import open_signals
from slotflow.network.cardinality import under_k_prior
from slotflow.network.model import SlotFlow
from slotflow.posterior.posterior import Posterior
from slotflow.show.report.report import write_report
from slotflow.show.wording import data_notes, data_warnings
from slotflow.signal.prior import Prior

__all__ = ["Question", "ask", "give"]


@dataclass(frozen=True)
class Question:
    """One signal of a file, and the prior to answer under."""

    file: Path
    """Where it comes from."""
    signal: int
    """Which signal of the file."""
    count: int
    """How many signals the file holds."""
    observation: Observation
    """The data."""
    prior: Prior
    """The prior."""
    assumed: dict[str, Any]
    """Sampling, band and prior as plain values."""


def ask(
    file: Path,
    how: ReadOptions,
    signal: int,
    stated: dict[str, Any],
    model: str | None,
    k_prior: dict[int, float] | None,
    out: Path | None,
    report: Path | None,
) -> Question:
    """Reads a signal and finds the prior, as `infer` does; a place that cannot be written to is refused now.

    Args:
        file: The file, or -.
        how: How to read it.
        signal: Which signal.
        stated: Fields of the prior that flags and prior file state; None where not.
        model: The model whose prior fills the gaps.
        k_prior: p(K), if it is stated.
        out: The folder for the results, if there is one.
        report: The page, if there is one.
    """
    if out is not None:
        check_folder("--out", out)
    if report is not None:
        check_folder("--report", report.parent)
    with open_signals(file, how) as source:
        count = source.count
        if signal >= count:
            raise ValueError(
                f"{shown_name(file)} holds {count} signal(s), received --signal {signal}; count from 0."
            )
        (observation,) = source.read(signal, signal + 1)
    if isinstance(observation, ValueError):
        raise observation
    given, proposed = stated, None
    network = SlotFlow.from_pretrained(model)
    if stated["frequency"] is None:
        proposed = proposed_band(network, [observation])
        given = given if proposed is None else given | {"frequency": proposed.edges}
    prior = assumed_prior(network, [observation], given, k_prior)
    prior = under_k_prior(prior, k_prior, network.config.prior)
    assumed = assumed_record(observation, prior, network.config.prior, stated, proposed)
    return Question(file, signal, count, observation, prior, assumed)


def give(
    question: Question,
    post: Posterior,
    samples: int,
    seed: int,
    out: Path | None,
    as_json: bool,
    facts: dict[str, Any],
    *lines: str,
    quiet: bool = False,
    report: Path | None = None,
) -> None:
    """Writes summary and posterior to a folder, and a page if it is asked for, and prints the answer.

    Args:
        question: What was asked.
        post: The answer.
        samples: Draws to summarize and to write.
        seed: Of these draws.
        out: The folder; None: nothing is written.
        as_json: Whether to print one JSON document.
        facts: Further entries of that document.
        *lines: Printed below the table else.
        quiet: Whether to print complaints alone.
        report: The page; None: none is written.
    """
    summary = post.summary(n=samples, seed=seed)
    record: dict[str, Any] = {"file": str(question.file), "signal": question.signal}
    record["signals_in_file"] = question.count
    record |= output.posterior_record(post, summary)
    record["notes"] = data_notes(question.observation)
    record["warnings"] = data_warnings(question.observation, question.prior)
    files: dict[str, str] = {}
    if out is not None:
        files = {"summary": str(out / "summary.csv"), "posterior": str(out / "posterior.nc")}
        with atomic_path(files["summary"]) as temporary:
            summary.to_csv(temporary)
        post.save(files["posterior"], n=samples, seed=seed)
    if report is not None:
        files["report"] = str(report)
        settings = {"draws": samples, "seed": seed, "run": "; ".join(lines)}
        source = shown_name(question.file)
        write_report(post, report, source=source, settings=settings, seed=seed)
    if as_json:
        output.print_json(record | {"assumed": question.assumed} | facts | {"files": files})
        return
    if not quiet:
        if question.count > 1:
            which = f"signal {question.signal} of {question.count}, counted from 0; --signal names another"
            output.console.print(f"{escape(shown_name(question.file))}: {which}")
        print_assumed(question.assumed)
        for note in record["notes"]:
            output.console.print(f"  note   {escape(note)}")
        output.print_posterior(record)
    for doubt in record["warnings"]:
        output.complain("warning", f"{shown_name(question.file)}: {doubt}")
    if quiet:
        return
    for line in lines:
        output.console.print(escape(line))
    for path in files.values():
        output.console.print(f"Written: {escape(path)}")
