"""The blocks of docs/studies.md: of each study its claim, our value beside the paper's, what held, and what it cost.

A study without a record has its claim and the measurement that is still to be made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slotflow.studies.frame.registry import STUDIES
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Study
from slotflow.studies.row import met_of
from slotflow.studies.zoom_scaling.words import learned_part

__all__ = ["STUDY_FOLDER", "quoted_sentences", "study_records", "study_tables"]

STUDY_FOLDER = "studies"
"""Folder of the studies' records in docs/data/."""
FOR_A_GPU = ("sample_complexity", "zoom_scaling")
"""Studies whose full size asks for a GPU; the others train small networks, one on each core."""
HELD = {True: "held", False: "**not held**", None: "open"}

Record = Mapping[str, Any]


def study_records(data: Path) -> dict[str, Record]:
    """Records of the studies that docs/data/ holds, by name, in the order of the page."""
    paths = {name: data / STUDY_FOLDER / f"{name}.json" for name in STUDIES}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.exists()
    }


def study_tables(data: Path, table: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """Names of the blocks and their Markdown.

    Args:
        data: docs/data/.
        table: Makes a Markdown table of a header and rows.
    """
    records = study_records(data)
    for name, study in STUDIES.items():
        claim = f"**Claim** ({study.source}, {study.section}). {study.claim}"
        if name not in records:
            yield f"study_{name}", f"{claim}\n\n{_planned(study)}"
            continue
        record = records[name]
        rows = (
            (row["measure"], row["text"], row["paper"], _held(row), row["note"])
            for row in record["rows"]
        )
        yield (
            f"study_{name}",
            "\n\n".join(
                (
                    claim,
                    f"![{study.title}](images/study-{name}.png)",
                    f"*{study.caption}*",
                    table(("", "ours", "paper", "", ""), rows),
                    f"**{_tally(record)}** {_budget(name, record)}",
                )
            ),
        )


def quoted_sentences(data: Path) -> Iterator[tuple[str, str]]:
    """Blocks of other pages that quote a study: names and Markdown."""
    scaling = study_records(data).get("zoom_scaling")
    yield "learned_part", learned_part(None if scaling is None else scaling["data"])


def _planned(study: Study) -> str:
    """What is still to be measured."""
    settings = Settings()
    where = "--device cuda" if study.name in FOR_A_GPU else "--jobs 8"
    return (
        f"**Not yet measured.** In full size: {study.rounds(settings)} rounds of {study.signals(settings):,} signals, "
        f"`slotflow study {study.name} {where}`{'' if study.name in FOR_A_GPU else ', a core for each job'}."
    )


def _held(row: Mapping[str, Any]) -> str:
    """Whether a claim held; empty where the row asks nothing."""
    return HELD[met_of(row)] if row["target"] else ""


def _tally(record: Record) -> str:
    """How many claims held."""
    found = [met_of(row) for row in record["rows"] if row["target"]]
    return f"{found.count(True)} of {len(found)} held."


def _budget(name: str, record: Record) -> str:
    """Time, signals and the command."""
    facts, made = record["facts"], record["made"]
    jobs = facts.get("jobs", 1)
    on_gpu = made["device"] == "cuda"
    gpu = facts["seconds"] / 60 / jobs if on_gpu else 0
    shared = f" ({jobs} processes at a time)" if jobs > 1 else ""
    rounds = f"{facts['rounds']} of {facts['rounds_planned']} rounds"
    options = " --device cuda" * on_gpu + f" --jobs {jobs}" * (jobs > 1)
    options += f" --seed {made['seed']}" if made["seed"] else ""
    minutes = f"{facts['seconds'] / 60:.1f} minutes on {facts['device']}{shared}"
    return (
        f"Budget: {facts['signals']:,} signals in {rounds}, {minutes}, "
        f"{gpu:.0f} GPU minutes: `slotflow study {name}{options}`."
    )
