"""Runs results, keeps their numbers in files, and goes on from files that are there.

Each result leaves NAME.json (how it was made, the table, all numbers) and NAME.png (`records.py`), and the folder's
index.html shows every result that it holds. A file that was made in the same way is not made again; its table and
picture are, since they cost little.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from slotflow.core.progress import progress as progress_bar
from slotflow.core.store import ANSWERING_ROOMS, identity, package_code
from slotflow.core.version import __version__
from slotflow.show.plots.style import save_figure
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.files import collect, folder_of, read_record, write_record
from slotflow.studies.paper.html import write_html
from slotflow.studies.paper.pictures import draw_result
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.settings import INDEX
from slotflow.studies.suites.timing import device_label

__all__ = ["RECORDS", "made_by", "reproduce"]

RECORDS = "exact-step.sqlite"
"""The signals of a folder that went through the exact step, for runs that are stopped."""
SHARED_CODE = (
    *ANSWERING_ROOMS,
    "studies/answers",
    "studies/measures",
    "studies/slots",
    "studies/suites/analyser",
    "studies/suites/exact/parts",
    "studies/suites/results",
    "studies/suites/sets",
    "studies/suites/signals",
    "studies/paper/bench",
    "studies/paper/cost",
    "studies/paper/exact_step",
    "studies/paper/noise_pathway",
    "studies/paper/pooled",
)
"""Rooms and modules whose code decides the numbers of any result, besides the result's own."""


def reproduce(
    bench: Bench,
    results: Sequence[Result],
    out: str | Path,
    *,
    model: dict[str, Any],
    source: str | None = None,
    training: Mapping[str, Any] | None = None,
    force: bool = False,
    progress: bool = False,
) -> list[Data]:
    """Computes results, or reads them where they were computed before.

    Args:
        bench: The network and the settings.
        results: What to compute.
        out: Folder of the files; made if it is not there.
        model: What tells the network from others, as plain values: ``name``, ``hash``.
        source: What --model was told, for the command beside each result; None: nothing.
        training: What the weights say of their training, for the page; None where it need not be said.
        force: Whether to compute what is there already.
        progress: Whether to show a bar for each result on standard error.

    Returns:
        The content of each result's file, with ``reused`` beside it.
    """
    folder = Path(out)
    records = []
    for result in results:
        place = folder_of(folder, result, model["name"])
        path = place / f"{result.name}.json"
        made = made_by(result, bench, model)
        old = None if force else read_record(path, made)
        data, facts = (None, {}) if old is None else (old["data"], old["facts"])
        if data is None:
            start = time.perf_counter()
            data = json.loads(json.dumps(_run(result, bench, progress), allow_nan=False))
            facts = {
                "slotflow": __version__,
                "torch": torch.__version__,
                "device": device_label(bench.device),
                "seconds": round(time.perf_counter() - start, 1),
            }
            if source is not None and "model" in result.uses:
                facts["source"] = source
            if training and "model" in result.uses:
                facts["training"] = dict(training)
        record = {
            "name": result.name,
            "made": made,
            "facts": facts,
            "rows": [row.to_dict() for row in result.compare(data)],
            "data": data,
        }
        write_record(path, record)
        figure = draw_result(result, data, model["name"])
        save_figure(figure, place / f"{result.name}.png", dpi=110)
        write_html(folder / INDEX, collect(folder, list(RESULTS.values())))
        records.append(record | {"reused": old is not None})
    return records


def made_by(result: Result, bench: Bench, model: dict[str, Any]) -> Data:
    """Everything that a result's numbers depend on, as plain values; the key is a hash of it and of the code."""
    made: Data = {key: value for key, value in asdict(bench.settings).items() if key in result.uses}
    if "model" in result.uses:
        made |= {"model": model, "device": bench.device.type}
    weights = str(model["hash"]) if "model" in result.uses else ""
    code = package_code((*SHARED_CODE, f"studies/paper/{result.name}"))
    return made | {"key": identity(settings=made, weights=weights, code=code)}


def _run(result: Result, bench: Bench, progress: bool) -> Data:
    """The numbers of one result, under a bar of its own."""
    total, done = result.work(bench.settings), 0
    with progress_bar(total, result.name, quiet=not progress) as bar:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(done, signals=done)

        bench.advance = advance
        return result.run(bench)
