"""What the scripts about real and simulated series share: our answer to a series, pairs of frequencies, a file that
grows as answers come in.

A record is a JSON file of one row for each task. Rows are written as soon as they are there, each time the whole file
at once, so that a run that is killed leaves a whole record, and the next run goes on where it ended. A task that fails
is a row with the key "error"; the next run tries it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from multiprocessing import TimeoutError as NoMoreTime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

__all__ = ["Answer", "differences", "infer_series", "paired", "rows_of", "run_all", "write_record"]

DRAWS = 2000
Array = np.ndarray
Row = dict[str, Any]


class Answer(NamedTuple):
    """Tones of a series and what is known about them."""

    tones: Array
    """A, φ at the times' zero, and f, (K, 3)."""
    errors: Array
    """Their standard deviations, (K, 3)."""
    facts: Row
    """The verdict, and the seconds that it took."""


@cache
def pretrained() -> Any:
    """The default model, loaded once in each process."""
    import torch

    from slotflow import SlotFlow

    torch.set_num_threads(1)
    return SlotFlow.from_pretrained()


def infer_series(times: Array, values: Array, seconds: float, noise: str = "auto") -> Answer:
    """Our answer to a series: the most probable number of tones, as `model.infer` gives it without being told anything.

    Args:
        times: (n,), in which the phases refer to 0.
        values: (n,).
        seconds: Time budget.
        noise: What `infer` is told of the noise.
    """
    from slotflow.data.observation import Observation
    from slotflow.posterior.moments import moments
    from slotflow.posterior.summaries import components

    model = pretrained()
    start, busy = time.perf_counter(), time.process_time()
    observation = Observation.from_arrays(values=values, times=times)
    post = model.infer(observation, max_seconds=seconds, noise=noise)
    facts = {"status": post.verdict.status, "verdict": str(post.verdict)}
    tones, errors = np.zeros((2, 0, 3))
    if post.k_map:
        found = moments(components(post, post.k_map, DRAWS, 0)[0])
        tones, errors = (
            np.stack([found[f"{name}_{what}"] for name in ("amplitude", "phase", "frequency")], 1)
            for what in ("median", "sd")
        )
    facts["seconds"] = round(time.perf_counter() - start, 1)
    facts["cpu_seconds"] = round(time.process_time() - busy, 1)
    return Answer(tones, errors, facts)


def paired(found: Array, true: Array, duration: float, bins: float) -> tuple[Array, Array]:
    """Indices of frequencies that belong together, one to one, with the smallest sum of distances.

    Args:
        found: (J,).
        true: (K,).
        duration: T.
        bins: Largest distance, in 1/T.

    Returns:
        Indices into found and into true, one for each pair.
    """
    distance = np.abs(found[:, None] - true[None, :]) * duration
    rows, columns = linear_sum_assignment(np.minimum(distance, 10.0))
    near = distance[rows, columns] <= bins
    return rows[near], columns[near]


def differences(found: Array, true: Array) -> Array:
    """Found minus true A, φ and f, (n, 3), with phases in (−π, π]."""
    difference = found - true
    difference[:, 1] = np.pi - np.mod(np.pi - difference[:, 1], 2 * np.pi)
    return difference


def rows_of(file: Path) -> dict[str, Row | None]:
    """The rows of a record that are there and need not be tried again."""
    rows = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return {name: row for name, row in rows.items() if row is None or "error" not in row}


def write_record(file: Path, rows: Mapping[str, Any]) -> None:
    """Writes a record, sorted by name, whole or not at all."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(dict(sorted(rows.items()))) + "\n", "utf-8")
    part.replace(file)


def run_all(
    work: Callable[..., Row | None],
    tasks: Mapping[str, tuple[Any, ...]],
    file: Path,
    jobs: int,
    limit: float | None = None,
) -> dict[str, Row | None]:
    """Rows of all tasks: those of the record, and the others by several processes.

    Args:
        work: Gives the row of a task's arguments; a function of a module.
        tasks: Arguments of each task, in the order in which they are begun.
        file: The record.
        jobs: Processes.
        limit: Seconds after which tasks that are not done are left for the next run.
    """
    rows, deadline = rows_of(file), time.monotonic() + (limit or 1e9)
    missing = [(work, name, arguments) for name, arguments in tasks.items() if name not in rows]
    if missing:
        with get_context("spawn").Pool(min(jobs, len(missing)), maxtasksperchild=None) as pool:
            for name, row in _until(pool.imap_unordered(_tried, missing), deadline):
                rows[name] = row
                write_record(file, rows)
    return rows


def _until(results: Any, deadline: float) -> Iterator[tuple[str, Row | None]]:
    """Results as they come, until there are no more or the time is over."""
    while True:
        try:
            yield results.next(max(deadline - time.monotonic(), 0.01))
        except (StopIteration, NoMoreTime):
            return


def _tried(task: tuple[Callable[..., Row | None], str, tuple[Any, ...]]) -> tuple[str, Row | None]:
    """The name and the row of a task; one that fails has a row that says why."""
    work, name, arguments = task
    try:
        return name, work(*arguments)
    except Exception as error:
        return name, {"error": f"{type(error).__name__}: {error}"}
