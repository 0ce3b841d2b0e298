"""Runs the rounds of a study, goes on from those that were done before, and writes record and picture.

A study leaves NAME.json (how it was made, what it cost, the table, all numbers), NAME.png, and NAME.sqlite, the rounds
that were measured. A round is taken from there only if settings, weights and code are the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from slotflow.core.progress import progress as progress_bar
from slotflow.core.store import ANSWERING_ROOMS, Store, identity, package_code
from slotflow.core.version import __version__
from slotflow.show.plots.style import save_figure
from slotflow.studies.answers import weights_hash
from slotflow.studies.frame.study import Data, Setup, Study
from slotflow.studies.paper.files import write_record
from slotflow.studies.suites.timing import device_label
from slotflow.train.processes import stop_signals

__all__ = ["SHARED_CODE", "run_study"]

SHARED_CODE = (*ANSWERING_ROOMS, "studies/answers", "studies/measures", "studies/suites/sets")
"""Rooms and modules whose code decides the numbers of any study, besides the study's own."""
PICTURE_DPI = 110


def run_study(study: Study, setup: Setup, *, resume: bool = False, progress: bool = False) -> Data:
    """Measures a study, or what its time allows, and writes its files.

    Args:
        study: What to measure.
        setup: Settings, folder and device.
        resume: Whether to go on from the rounds that the folder holds; refused if there are none, and a folder that
            holds some is refused otherwise.
        progress: Whether to show a bar on standard error.

    Returns:
        The content of NAME.json.
    """
    path = setup.folder / f"{study.name}.sqlite"
    if path.exists() != resume:
        state = "already holds rounds" if path.exists() else "holds no rounds"
        advice = "add --resume to go on from them" if path.exists() else "leave --resume out"
        raise ValueError(
            f"{setup.folder} {state} of the study {study.name!r}; {advice}, or choose another folder."
        )
    made = _made_by(study, setup)
    rounds = _measured(study, setup, path, made["key"], progress)
    data = json.loads(json.dumps(study.gather([r["data"] for r in rounds]), allow_nan=False))
    record = {
        "name": study.name,
        "made": made,
        "facts": _facts(study, setup, rounds),
        "rows": [row.to_dict() for row in study.compare(data)],
        "data": data,
    }
    write_record(setup.folder / f"{study.name}.json", record)
    save_figure(study.plot(data), setup.folder / f"{study.name}.png", dpi=PICTURE_DPI)
    return record


def _made_by(study: Study, setup: Setup) -> Data:
    """Everything that a round's numbers depend on, as plain values; the key is a hash of it and of the code."""
    made: Data = {
        "quick": setup.settings.quick,
        "seed": setup.settings.seed,
        "device": torch.device(setup.device or "cpu").type,
        "networks": {name: weights_hash(setup.network(name)) for name in study.networks},
    }
    code = package_code((*SHARED_CODE, *study.code))
    return made | {"key": identity(settings={"study": study.name} | made, code=code)}


def _measured(
    study: Study, setup: Setup, path: Path, key: str, progress: bool
) -> list[dict[str, Any]]:
    """The rounds in their order, from the store where it has them; at least one is measured, however short the time."""
    settings = setup.settings
    found: list[dict[str, Any]] = []
    fresh = 0  # rounds of this run
    total, began = study.rounds(settings), time.monotonic()
    limit = float("inf") if settings.minutes is None else 60 * settings.minutes
    with (
        Store(path) as store,
        stop_signals() as stop,
        progress_bar(total, study.name, quiet=not progress) as bar,
    ):
        for number in range(total):
            name = f"{study.name}#{number}"
            record = store.get(name, key)
            if record is None:
                if stop.is_set():
                    raise KeyboardInterrupt(
                        f"{len(found)} of {total} rounds are kept; go on with --resume"
                    )
                if fresh and time.monotonic() - began >= limit:
                    break
                record, fresh = _timed(study, setup, number), fresh + 1
                store.put(name, key, record)
            found.append(record)
            bar.update(number + 1, signals=(number + 1) * study.signals(settings))
    return found


def _timed(study: Study, setup: Setup, number: int) -> dict[str, Any]:
    """One round, with the seconds that it took."""
    began = time.perf_counter()
    data = study.measure(setup, number)
    return {"seconds": time.perf_counter() - began, "data": data}


def _facts(study: Study, setup: Setup, rounds: Sequence[dict[str, Any]]) -> Data:
    """What the study cost: seconds of all its rounds, whenever they were measured, and signals."""
    settings = setup.settings
    return {
        "slotflow": __version__,
        "torch": torch.__version__,
        "device": device_label(torch.device(setup.device or "cpu")),
        "seconds": round(sum(r["seconds"] for r in rounds), 1),
        "rounds": len(rounds),
        "rounds_planned": study.rounds(settings),
        "signals": len(rounds) * study.signals(settings),
    }
