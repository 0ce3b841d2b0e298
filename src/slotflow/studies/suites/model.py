"""The model suite: every measure of a model beside its target, from fresh signals in one call.

`run_suite` analyses the sets of `sets.py` and turns them into rows; `quick_report` gives a few of the figures from
few signals, for ablations and for a look during training. All targets stand in `TARGETS` (`rows.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from slotflow.core.progress import progress as progress_bar
from slotflow.network.model import SlotFlow
from slotflow.studies.report import Report
from slotflow.studies.row import Row
from slotflow.studies.suites.analyser import Analyser
from slotflow.studies.suites.model_rows import (
    TARGETS,
    all_rows,
    ece_of_set,
    infer_row,
    precision_by_k,
    precision_of_sets,
    set_details,
    speed_row,
    table_by_k,
    weights_row,
)
from slotflow.studies.suites.results import SetResult, run_set
from slotflow.studies.suites.rivals import classical_exact
from slotflow.studies.suites.sets import SETS
from slotflow.studies.suites.sizes import MODEL_PARTS, SPEED, Sizes
from slotflow.studies.suites.timing import (
    THROUGHPUT_DRAWS,
    device_label,
    infer_throughput,
    throughput,
)

__all__ = ["PARTS", "TARGETS", "check_analyser", "quick_report", "run_suite"]

PARTS = MODEL_PARTS
"""What `only` can name."""


def run_suite(
    model: Analyser,
    sizes: Sizes | None = None,
    *,
    device: str | torch.device | None = None,
    seed: int = 0,
    only: Sequence[str] | None = None,
    progress: bool = False,
    weights_bytes: int | None = None,
) -> Report:
    """Evaluates a model against the targets.

    Args:
        model: What to evaluate.
        sizes: Signals and draws; those of the targets if None.
        device: Where the model is; its own `device` if None, or the CPU.
        seed: The same seed gives the same signals on the same kind of device.
        only: Some of `PARTS`; all if None.
        progress: Whether to show a bar on standard error.
        weights_bytes: Size of the model's file, for the row about it.
    """
    sizes = Sizes() if sizes is None else sizes
    chosen = _choose(only)
    device = _device(model, device)
    start = time.perf_counter()
    names = [name for name in SETS if name in chosen]
    results, theirs = _run_sets(model, names, sizes, seed, device, progress)
    by_k = precision_by_k(results)
    rows = all_rows(results, by_k, theirs)
    if weights_bytes is not None:
        rows.append(weights_row(weights_bytes))
    if SPEED in chosen:
        rows += _speed_rows(model, device, seed)
    seconds = sum(result.seconds for result in results.values())
    facts = {
        "suite": "model",
        "signals_per_set": sizes.n,
        "draws": sizes.draws,
        "seed": seed,
        "device": device_label(device),
        "torch": torch.__version__,
        "seconds": round(time.perf_counter() - start, 2),
        "signals_per_second": round(sizes.n * len(names) / seconds, 1) if names else None,
    }
    return Report(rows, table_by_k(by_k), set_details(results), facts)


def _run_sets(
    model: Analyser,
    names: Sequence[str],
    sizes: Sizes,
    seed: int,
    device: torch.device,
    progress: bool,
) -> tuple[dict[str, SetResult], Tensor | None]:
    """The sets by name, and whether the classical estimator counts the first signals of the frontier right.

    Args:
        model: What to evaluate.
        names: Keys of `SETS`.
        sizes: Signals and draws.
        seed: The user's seed.
        device: Where the model is.
        progress: Whether to show a bar on standard error.
    """
    rival = min(sizes.n, sizes.n_classical) if "frontier" in names else 0
    results: dict[str, SetResult] = {}
    theirs: Tensor | None = None
    with progress_bar(sizes.n * len(names) + rival, "evaluate", quiet=not progress) as bar:
        done = 0

        def step(name: str) -> Callable[[int], None]:
            def advance(count: int) -> None:
                nonlocal done
                done += count
                bar.update(done, set=name)

            return advance

        for name in names:
            one = SETS[name]
            results[name] = run_set(model, one, sizes, seed=seed, device=device, advance=step(name))
        if rival:
            theirs = classical_exact(
                SETS["frontier"], sizes, seed=seed, device=device, advance=step("classical")
            )
    return results, theirs


def _speed_rows(model: Analyser, device: torch.device, seed: int) -> list[Row]:
    """Signals per second of batches that lie on the device, and of the call that a user writes."""
    gpu = device.type == "cuda"
    per_second, together = throughput(model, device, seed=seed)
    note = f"{device_label(device)}; {THROUGHPUT_DRAWS} draws per slot, batches of {together:,} on the device"
    rows = [speed_row(per_second, gpu, note)]
    if isinstance(model, SlotFlow):
        answered, drawn, n = infer_throughput(model, seed=seed)
        note = f"{n:,} at once, no exact step; with {THROUGHPUT_DRAWS} draws of each {drawn:,.0f}"
        rows.append(infer_row(answered, gpu, note))
    return rows


def quick_report(
    model: Analyser,
    n: int = 1000,
    device: str | torch.device | None = None,
    seed: int = 0,
    draws: int = 200,
) -> dict[str, float]:
    """Exact-K and ECE of the three mixtures, and width and error over the bound on the nominal one, all K together.

    Args:
        model: What to evaluate.
        n: Signals per mixture.
        device: Where the model is; its own `device` if None, or the CPU.
        seed: The same seed gives the same signals on the same kind of device.
        draws: Draws per slot.

    Returns:
        ``{mixture}_exact``, ``{mixture}_ece``, ``sd_{f,A,phi}`` and ``error_{f,A,phi}``.
    """
    device = _device(model, device)
    values: dict[str, float] = {}
    for name in ("nominal", "stress", "frontier"):
        result = run_set(model, SETS[name], Sizes(n, draws), seed=seed, device=device)
        values[f"{name}_exact"] = float(result.exact.double().mean())
        values[f"{name}_ece"] = ece_of_set(result)
        if name == "nominal":
            found = precision_of_sets([result], None)
            for i, parameter in enumerate(("A", "phi", "f")):
                values[f"sd_{parameter}"] = found.width[i] if found else math.nan
                values[f"error_{parameter}"] = found.error[i] if found else math.nan
    return values


def check_analyser(model: object) -> Analyser:
    """The model, if it can be evaluated; a ValueError that says why not otherwise."""
    if not isinstance(model, Analyser):
        name = getattr(getattr(model, "config", None), "name", type(model).__name__)
        raise ValueError(
            f"expected a model that analyses batches under a given prior, received {name!r}, which does not; "
            "evaluate one of preset zoom."
        )
    return model


def _choose(only: Sequence[str] | None) -> set[str]:
    """The parts to run."""
    unknown = set(only or ()) - set(PARTS)
    if unknown or (only is not None and not only):
        raise ValueError(
            f"expected some of {', '.join(PARTS)}, received {', '.join(sorted(unknown)) or 'none'}."
        )
    return set(PARTS if only is None else only)


def _device(model: Analyser, device: str | torch.device | None) -> torch.device:
    """The device that is named, or the model's own, or the CPU."""
    chosen = getattr(model, "device", "cpu") if device is None else device
    return torch.device(chosen)
