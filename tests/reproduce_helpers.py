"""Small benches for the tests of the reproduction, and what to read off their results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from slotflow import Simulation, SlotFlow
from slotflow.network.config import Config
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.settings import Settings
from slotflow.studies.row import Row
from slotflow.studies.suites.sets import SignalSet, batches

__all__ = ["bench", "row", "simulated", "small_paper_network"]


def bench(model: Any, seed: int, n: int, draws: int = 100, repeats: int = 20) -> Bench:
    """A bench that asks the network alone."""
    return Bench(model, Settings(n, draws, repeats, seed % 2**20, "network"))


def row(name: str, data: dict[str, Any], measure: str) -> Row:
    """The one row of a result that is about a measure."""
    (found,) = [r for r in RESULTS[name].compare(data) if r.measure == measure]
    return found


def simulated(signals: SignalSet, n: int, seed: int) -> list[Simulation]:
    """One batch of n signals of a set, in a list of one."""
    return list(batches(signals, n, n, seed % 2**20, torch.device("cpu")))


def small_paper_network(noise: bool = False) -> SlotFlow:
    """The paper's preset in small, untrained, the same each time; with a noise pathway if asked for."""
    config = Config.from_preset("paper").model
    small = replace(
        config,
        encoder=replace(config.encoder, channels=(4, 4, 8), heads=2, context=8, noise=noise),
        flow=replace(config.flow, layers=2, hidden=16, bins=4),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SlotFlow(small).eval()
