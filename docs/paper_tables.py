"""What the pages say of preset `paper` and of the paper's tables and figures.

It follows from the card of the weights and from records: new weights, results or studies change the sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from study_tables import study_records

from slotflow.network.cards import Card, card_path
from slotflow.studies.frame.settings import NAMES
from slotflow.studies.measures.learning_curve import read_metrics
from slotflow.studies.paper.contents import contents_table
from slotflow.studies.paper.files import Record, collect
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.training_curve import curve_rows
from slotflow.studies.paper.verdicts import NOT_YET, NOTHING, PAPER
from slotflow.studies.paper.words import introduction

__all__ = ["PAPER_BATCH", "paper_tables"]

PAPER_BATCH = 1024
"""Signals of a step in docs/data/paper-metrics.jsonl, where its lines do not say how many were seen."""
WEIGHTS = Path("weights") / "paper.safetensors"
"""Where the weights of preset `paper` are in the repository."""
REACHED = (
    ("cardinality", "accuracy of K"),
    ("cardinality", "noise pathway: root mean square error of σ"),
    ("calibration", "largest |coverage − α|, all sets and parameters"),
    ("scaling", "sd of A at K = 10 [%]"),
    ("scaling", "sd of φ at K = 10 [rad]"),
    ("scaling", "sd of f at K = 1 [mHz]"),
    ("scaling", "sd of f at K = 10 [mHz]"),
    ("comparison", "sd of f, network over RJMCMC"),
    ("slots", "variance of f that the slot's number explains"),
    ("slots", "insertion: untouched components that a slot still finds"),
)
"""Rows that docs/model.md shows of preset `paper`: result and measure."""
BY_SLOT = ", slot by slot"
NOT_BY_SLOT = "The last column is empty: these records are older than the comparison slot by slot."

Table = Callable[..., str]


def paper_tables(root: Path, table: Table) -> Iterator[tuple[str, str]]:
    """Names of the blocks and their Markdown.

    Args:
        root: The repository.
        table: Makes a Markdown table of a header and rows.
    """
    data, folder = root / "docs" / "data", root / "docs" / "results"
    groups, studies = collect(folder, list(RESULTS.values())), study_records(data)
    lines = contents_table(groups, studies)
    yield "paper_weights", _weights(root, table)
    reached = list(_reached(groups))
    older = "" if any(own != "–" for *_, own in reached) else f"\n\n{NOT_BY_SLOT}"
    yield "paper_reached", table(("", "paper", "ours", "ours, slot by slot"), reached) + older
    if (metrics := data / "paper-metrics.jsonl").exists():
        rows = curve_rows(read_metrics(metrics), PAPER_BATCH)
        cells = ((row.measure, row.text, row.paper, row.note) for row in rows)
        yield "paper_curve", table(("", "ours", "paper", ""), cells)
    yield "paper_tally", _tally(lines)
    yield "paper_missing", introduction(groups, [name for name in NAMES if name not in studies])[-1]


def _weights(root: Path, table: Table) -> str:
    """The card of the published weights in a table; what is said where there are none."""
    card_file = card_path(root / WEIGHTS)
    if not card_file.is_file():
        earlier = "the records are of an earlier training with benchmarks/paper.yaml, in 22 minutes of one H200"
        return f"Its weights are not published yet; {earlier}. To train and publish them:\n\n{_commands(60)}"
    card = Card.load(card_file)
    training = card.training
    facts = table(
        ("", ""),
        [
            ("file", f"`{WEIGHTS.as_posix()}`, {training.get('precision', 'float32')}"),
            ("parameters", f"{card.parameters:,}, those of the noise pathway among them"),
            ("training", f"{training['seconds'] / 60:,.0f} minutes of one {training['device']}"),
            ("signals, each seen once", f"{card.signals:,}"),
            ("right counts, validation", f"{training['validation']['k_accuracy']:.4f}"),
            ("content hash", f"`{card.hash[:23]}…`"),
            ("date of the card", card.date),
        ],
    )
    return f"{facts}\n\n{_commands(round(training['seconds'] / 60))}"


def _commands(minutes: int) -> str:
    """How such weights are trained, published and measured."""
    return (
        "```bash\n"
        f"slotflow train --config weights/paper.yaml --minutes {minutes} --out runs/paper\n"
        f"python -m slotflow.network.publish runs/paper {WEIGHTS.as_posix()}\n"
        f"slotflow reproduce --model {WEIGHTS.as_posix()}\n"
        "```"
    )


def _reached(groups: Sequence[Sequence[Record]]) -> Iterator[tuple[str, ...]]:
    """What the paper prints, and what the network reached, with draws in the order of f and slot by slot."""
    rows = {
        (record.result.name, row["measure"]): row
        for record in (record for group in groups for record in group)
        if record.model == PAPER
        for row in record.content["rows"]
    }
    for name, measure in REACHED:
        if (name, measure) in rows:
            found = rows[name, measure]
            own = rows.get((name, measure + BY_SLOT))
            yield measure, found["paper"] or "–", found["text"], "–" if own is None else own["text"]


def _tally(lines: Sequence[Sequence[str]]) -> str:
    """How many tables and figures have a measured counterpart, and what held in them."""
    measurable = [line for line in lines if line[3] != NOTHING]
    missing = [line[0] for line in measurable if line[3] == NOT_YET]
    words = f"Of the paper's {len(measurable)} tables and figures that show measurements, "
    words += f"{len(measurable) - len(missing)} have a counterpart here"
    if missing:
        words += f", {', '.join(missing)} not yet"
    networks = []
    for column, name in ((4, "`zoom` alone"), (5, "the paper's network as we trained it")):
        counts = Counter(line[column] for line in lines)
        judged = sum(counts[word] for word in ("held", "in part", "not held", "open"))
        networks.append(
            f"with {name} in {counts['held']} of {judged}, and in part in {counts['in part']}"
        )
    return f"{words}. What they say held {'; '.join(networks)}."
