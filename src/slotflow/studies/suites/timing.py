"""Signals per second of inference and draws: of batches on the device, and of `model.infer` as a user calls it."""

from __future__ import annotations

import statistics
import time

import torch

from slotflow.network.model import SlotFlow
from slotflow.studies.suites.analyser import Analyser
from slotflow.studies.suites.sets import SETS, batches

__all__ = ["THROUGHPUT_DRAWS", "device_label", "infer_throughput", "throughput"]

THROUGHPUT_DRAWS = 100
"""Draws per slot."""


@torch.no_grad()
def throughput(
    model: Analyser,
    device: torch.device,
    *,
    batch: int | None = None,
    repeats: int = 5,
    seed: int = 0,
) -> tuple[float, int]:
    """Signals per second of inference with 100 draws per slot at the most probable K.

    Args:
        model: What to time.
        device: Its device, where the signals of the nominal mixture lie already.
        batch: Signals that are analysed together; 8,000 on a GPU and 100 on a CPU if None.
        repeats: Timed calls, after two that are not; the median counts.
        seed: Seed of the signals.

    Returns:
        Signals per second and the batch.
    """
    batch = batch or (8000 if device.type == "cuda" else 100)
    nominal = SETS["nominal"]
    simulation = next(batches(nominal, batch, batch, seed, device))
    seconds = []
    for i in range(repeats + 2):
        _wait(device)
        start = time.perf_counter()
        analysis = model.analyse(simulation, nominal.prior)
        analysis.slots().sample(THROUGHPUT_DRAWS, i)
        _wait(device)
        seconds.append(time.perf_counter() - start)
    return batch / statistics.median(seconds[2:]), batch


def infer_throughput(
    model: SlotFlow, *, n: int | None = None, seed: int = 0
) -> tuple[float, float, int]:
    """Signals per second of `model.infer` without the exact step, on observations of the nominal mixture.

    Args:
        model: What to time.
        n: Observations; 20,000 on a GPU and 100 on a CPU if None.
        seed: Seed of the signals.

    Returns:
        Signals per second of the call alone, the same with 100 draws of each answer, and n.
    """
    n = n or (20_000 if model.device.type == "cuda" else 100)
    nominal = SETS["nominal"]
    simulation = next(batches(nominal, n, n, seed, torch.device("cpu")))
    observations = [simulation.observation(i) for i in range(n)]
    model.infer(observations[: min(n, 256)], prior=nominal.prior, refine=False)  # does not count
    start = time.perf_counter()
    posteriors = model.infer(observations, prior=nominal.prior, refine=False)
    answered = time.perf_counter()
    posteriors.sample(THROUGHPUT_DRAWS, seed=seed)
    return n / (answered - start), n / (time.perf_counter() - start), n


def device_label(device: torch.device) -> str:
    """Name of a device for a report."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' if threads > 1 else ''}"


def _wait(device: torch.device) -> None:
    """Lets the device finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
