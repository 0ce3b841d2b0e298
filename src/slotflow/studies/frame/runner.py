"""Runs the rounds of a study, goes on from those that were done before, and writes record and picture.

A study leaves NAME.json (how it was made, what it cost, the table, all numbers), NAME.png, and NAME.sqlite, the rounds
that were measured. A round is taken from there only if settings, weights and code are the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
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
from slotflow.studies.tasks import run_tasks

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
    try:
        setup.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{setup.folder}: expected a folder that can be made, received {error.strerror!r}; choose another "
            "with --out."
        ) from None
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
    total = study.rounds(settings)
    found: dict[int, dict[str, Any]] = {}
    with Store(path) as store, progress_bar(total, study.name, quiet=not progress) as bar:

        def name_of(number: int) -> str:
            return f"{study.name}#{number}"

        def keep(_: str, record: dict[str, Any]) -> None:
            number = record.pop("i")
            if record:
                store.put(name_of(number), key, record)
                found[number] = record
                bar.update(len(found), signals=len(found) * study.signals(settings))

        for number in range(total):
            record = store.get(name_of(number), key)
            if record is not None:
                found[number] = record
        left = [(study.name, number) for number in range(total) if number not in found]
        jobs = min(settings.jobs, len(left))
        if jobs > 1:  # every process reads networks of its own
            setup = Setup(settings, setup.folder, setup.device)
        try:
            run_tasks(left, partial(_Rounds, study, setup), keep, jobs if jobs > 1 else 0)
        except KeyboardInterrupt:
            words = f"{len(found)} of {total} rounds are kept; go on with --resume"
            raise KeyboardInterrupt(words) from None
    return [found[number] for number in sorted(found)]


class _Rounds:
    """Measures rounds in one process until the time is over; the first one is measured in any case.

    Args:
        study: What to measure, named where it goes to another process.
        setup: Settings, folder and device.
    """

    def __init__(self, study: Study, setup: Setup) -> None:
        self.study, self.setup, self.fresh = study, setup, 0
        minutes = setup.settings.minutes
        self.end = float("inf") if minutes is None else time.monotonic() + 60 * minutes

    def __call__(self, _: str, number: int) -> dict[str, Any]:
        """One round with its number under "i"; nothing but the number if it was not begun."""
        if self.fresh and time.monotonic() >= self.end:
            return {"i": number}
        self.fresh += 1
        return {"i": number, **_timed(self.study, self.setup, number)}


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
        "jobs": settings.jobs,
        "rounds": len(rounds),
        "rounds_planned": study.rounds(settings),
        "signals": len(rounds) * study.signals(settings),
    }
