"""From what a user asks for to results: which of them can be made, with which network, sizes and method."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slotflow.network.build import MODEL_FILE
from slotflow.network.checkpoint import read_model
from slotflow.network.model import DEFAULT, SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.studies.answers import weights_hash
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.exact_step import ExactStep
from slotflow.studies.paper.pooled import PooledAnalyser
from slotflow.studies.paper.registry import choose, missing
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.runner import RECORDS, reproduce
from slotflow.studies.paper.settings import Settings
from slotflow.studies.suites.analyser import Analyser

__all__ = ["Request", "reproduce_request"]

TRAINING_FACTS = ("signals", "seconds", "device")
"""What is kept of the facts that stand in a file of weights."""


@dataclass(frozen=True)
class Request:
    """What a user asks for."""

    only: Sequence[str] | None = None
    """Names or numbers of results; all that can be made if None."""
    settings: Settings = field(default_factory=Settings)
    """Sizes, seed and method."""
    method_stated: bool = False
    """Whether the user chose the method; otherwise the paper's network is asked without the exact step."""
    model: str | None = None
    """Weights, as `SlotFlow.from_pretrained` takes them."""
    device: str | None = None
    """Where to compute."""
    jobs: int = 1
    """Processes of the exact step."""
    force: bool = False
    """Whether to compute what is there already."""


def reproduce_request(request: Request, out: Path, progress: bool = False) -> list[Data]:
    """Makes the results of a request, or reads them where they were made before (`runner.reproduce`).

    Args:
        request: What is asked for.
        out: Folder of the files.
        progress: Whether to show a bar for each result on standard error.
    """
    try:
        chosen = choose(request.only)
    except ValueError as error:
        raise ValueError(f"--only: {error}") from error
    network = SlotFlow.from_pretrained(request.model, device=request.device)
    analyser = _analyser(network)
    results = _possible(chosen, named=request.only is not None)
    model = {"name": _name(request.model, network), "hash": weights_hash(network)}
    records = None if request.force else out / RECORDS
    step = ExactStep(request.model, request.jobs, weights=model["hash"], records=records)
    bench = Bench(analyser, _settings(request, network), network.device, step)
    return reproduce(
        bench,
        results,
        out,
        model=model,
        source=request.model,
        training=_training(request.model),
        force=request.force,
        progress=progress,
    )


def _settings(request: Request, network: SlotFlow) -> Settings:
    """The settings, with the method that suits the network where none was chosen."""
    settings = request.settings
    if request.method_stated or not isinstance(network, PaperSlotFlow):
        return settings
    return Settings(settings.n, settings.draws, settings.repeats, settings.seed, "network")


def _possible(chosen: Sequence[Result], named: bool) -> list[Result]:
    """The results that can be made here. One that cannot is refused if it was named; otherwise a line says so."""
    kept, problems = [], []
    for result in chosen:
        if problem := missing(result):
            problems.append(problem)
        else:
            kept.append(result)
    if problems and named:
        raise ValueError(f"--only: {'; '.join(problems)}.")
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    return kept


def _analyser(network: SlotFlow) -> Analyser:
    """What the results measure; refuses a network that cannot analyse the test sets."""
    if isinstance(network, PaperSlotFlow):
        return PooledAnalyser(network)
    assert isinstance(network, ZoomSlotFlow)  # there is no other kind
    return network


def _training(model: str | None) -> dict[str, object]:
    """Signals, time and device of the training of weights that are not embedded, as far as their file says."""
    if model is None or not Path(model).exists():
        return {}
    path = Path(model) / MODEL_FILE if Path(model).is_dir() else Path(model)
    facts = read_model(path)[1].get("facts", {})
    return {key: facts[key] for key in TRAINING_FACTS if key in facts}


def _name(model: str | None, network: SlotFlow) -> str:
    """What the files and the page call a network: its preset, or its file where it is another one of preset zoom."""
    if model is None or model == DEFAULT:
        return DEFAULT
    if network.config.name != DEFAULT:
        return network.config.name
    path = Path(model)
    return path.parent.name if path.stem == "model" else path.stem
