"""Several processes that train together, and the signals that stop them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

__all__ = ["agree", "process_group", "stop_signals"]


@contextmanager
def process_group(
    device: str | torch.device | None,
) -> Iterator[tuple[torch.device, int, int]]:
    """Joins the group that torchrun describes in the environment, if any: (device, rank, world)."""
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    use_cuda = device.type == "cuda"
    if use_cuda:
        if str(device) == "cuda":  # no index: one device per process
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group("nccl" if use_cuda else "gloo")
    try:
        yield device, rank, world
    finally:
        if world > 1:
            # gloo's thread needs the interpreter's lock to let go of the last tensor. Without this pause a destructor
            # can hold that lock and wait for the thread for ever.
            time.sleep(0.1)
            dist.destroy_process_group()


def agree(done: float, stopping: bool, device: torch.device, world: int) -> tuple[float, bool]:
    """All processes take the largest progress and stop together."""
    if world == 1:
        return done, stopping
    values = torch.tensor([done, float(stopping)], dtype=torch.float64, device=device)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return float(values[0]), bool(values[1])


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Turns the first Ctrl-C or SIGTERM into a flag; the second one interrupts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handler(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)
