"""Where the time of one `model.infer` of many signals goes: stages, copies, Python's part, and kernels of the device.

The same call is made several times, since every way of looking slows it down in its own way: with nothing but a watch,
with a clock around fine stages that waits for the GPU at each change of stage, under Python's profiler (functions by
the time within themselves), and under torch's (operations by time on the device, and how long the device was busy).
"""

from __future__ import annotations

import cProfile
import io
import os
import pstats
import resource
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from stage_clock import ALONE, NETWORK, READING, STAGES, StageClock, Stages
from torch.profiler import ProfilerActivity, profile

from slotflow.exact.batch import answers, bent, changes, draws, fits, group
from slotflow.exact.batch.posteriors import ExactPosteriors
from slotflow.infer import together
from slotflow.infer.rest import Rest
from slotflow.posterior.many import Posteriors
from slotflow.posterior.whiteness import screen

__all__ = ["profiled"]

FINE: Stages = {
    READING: STAGES[READING],
    NETWORK: STAGES[NETWORK],
    "sorting out, rows of the statistics": ((group.Statistics, "take"),),
    "fits: amplitudes": ((fits, "linear_amplitudes"),),
    "fits: climb": ((fits, "fit"),),
    "fits: covariance and criteria": ((group, "fitted"),),
    "levels": ((group, "Levels"),),
    "tables around the maxima": ((group, "near"),),
    "bent: systems at the nodes": ((bent, "conditionals"),),
    "bent: Gaussian": ((group, "bent_batch"),),
    "candidates": ((draws, "_inside"),),
    "weights": ((group, "draw"),),
    "tail of the weights": ((draws, "_pareto_k"),),
    "levels of the draws": ((group.Levels, "sample"), (group, "_alone")),
    "one tone less": ((group, "one_less"),),
    "one tone more": ((group, "one_more"),),
    "residuals": ((screen, "_left"), (screen, "_repeats")),
    "residuals: spectrum": ((screen, "_spectrum"),),
    "residuals: lags": ((screen, "_lags"),),
    "residuals: steadiness": ((screen, "_steadiness"),),
    "residuals: shape": ((screen, "_shape"),),
    "residuals: the rest": ((group, "screen"),),
    "changes: scores": ((changes, "score_tests"),),
    "changes: the rest": ((group, "steady"),),
    "handed out": ((group, "_group"),),
    "joined": ((answers, "ExactPosteriors"),),
    "processes: made": ((together, "Rest"),),
    "processes: given signals": ((Rest, "take"),),
    "processes: given verdicts": ((Rest, "judge"),),
    ALONE: STAGES[ALONE],
}
ROWS = 22
"""Rows of a table."""


def profiled(ask: Callable[[], Posteriors], device: str, now: Callable[[], float]) -> None:
    """Makes a call several times and prints where its time goes.

    Args:
        ask: The call; made before, so that kernels are loaded.
        device: Where it computes.
        now: Gives the time once the device has finished.
    """
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {torch.get_num_threads()} threads")
    posts = _plain(ask, now)
    _left_over(posts)
    del posts
    watch = StageClock(now, FINE)
    with watch.watching():
        ask()
    total = sum(watch.seconds.values())
    print(f"\nstages, waiting for the device at each change: {total:.3f} s")
    _rows((1e3 * value, name) for name, value in watch.seconds.items())
    _python(ask)
    _device(ask, device, now)


def _plain(ask: Callable[[], Posteriors], now: Callable[[], float]) -> Posteriors:
    """The call with nothing but watches: clock, processor, page faults, verdicts."""
    before, wall, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter(), now()
    posts = ask()
    seconds, passed = now() - began, time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_SELF)
    began = now()
    count = len(posts.verdicts)
    judged = now() - began
    print(
        f"call {seconds:.3f} s (clock {passed:.3f}, user {after.ru_utime - before.ru_utime:.3f}, system "
        f"{after.ru_stime - before.ru_stime:.3f}, {after.ru_minflt - before.ru_minflt} page faults), {count} verdicts "
        f"{judged:.3f} s: {count / (seconds + judged):.0f} signals a second"
    )
    return posts


def _left_over(posts: Posteriors) -> None:
    """How much of the work batches have left."""
    exact = [part for part, _, _ in posts.batches() if isinstance(part, ExactPosteriors)]
    decided = sum(len(part.members) for part in exact)
    groups = {id(one): one for part in exact for _, one, _ in part.members}.values()
    sizes = sorted((one.k, len(one.reasons)) for one in groups)
    unsteady = sum(int((~one.steady).sum()) for one in groups)
    print(
        f"decided {decided} of {len(posts)} in {len(exact)} chunks; {unsteady} verdicts left open"
    )
    print("groups (K, signals):", *(f"{k}:{size}" for k, size in sizes))


def _python(ask: Callable[[], Posteriors]) -> None:
    """Python's own profile: functions by the time within themselves."""
    found, stream = cProfile.Profile(), io.StringIO()
    with found:
        ask()
    pstats.Stats(found, stream=stream).sort_stats("tottime").print_stats(ROWS)
    print("\nfunctions by time within themselves (the GPU is not waited for)")
    print("\n".join(line[:150] for line in stream.getvalue().splitlines()[6:] if line.strip()))


def _device(ask: Callable[[], Posteriors], device: str, now: Callable[[], float]) -> None:
    """torch's profile: operations by the device's time, launches, copies and waits, and how busy the device was."""
    on_gpu = device == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    with profile(activities=activities) as found:
        began = now()
        ask()
        seconds = now() - began
    table = found.key_averages()
    if not on_gpu:
        print("\noperations by time within themselves")
        _rows((1e-3 * one.self_cpu_time_total, f"{one.key} x{one.count}") for one in table)
        return
    kernels = [one for one in table if "CUDA" in str(one.device_type)]
    busy = 1e-6 * sum(_device_time(one) for one in kernels)
    print(
        f"\nunder torch's profiler {seconds:.3f} s, device busy {busy:.3f} s ({busy / seconds:.0%})"
    )
    waits = (
        "Synchronize",
        "aten::item",
        "aten::nonzero",
        "cudaLaunchKernel",
        "Memcpy",
        "cudaMalloc",
        "cudaHostAlloc",
    )
    print("waits, launches and copies")
    _rows(
        (1e-3 * (_device_time(one) or one.self_cpu_time_total), f"{one.key} x{one.count}")
        for one in table
        if any(word in one.key for word in waits)
    )
    print("kernels by time")
    _rows((1e-3 * _device_time(one), f"{one.key[:110]} x{one.count}") for one in kernels)
    print("operations by time of their own kernels")
    others = [one for one in table if "CUDA" not in str(one.device_type)]
    _rows((1e-3 * _device_time(one), f"{one.key} x{one.count}") for one in others)
    print("operations by time of the CPU")
    _rows((1e-3 * one.self_cpu_time_total, f"{one.key} x{one.count}") for one in others)


def _device_time(one: Any) -> float:
    """Microseconds of a row of torch's profile on the device."""
    return float(getattr(one, "self_device_time_total", 0.0))


def _rows(rows: Iterable[tuple[float, str]]) -> None:
    """Prints the largest of some rows, milliseconds first."""
    for value, name in sorted(rows, reverse=True)[: ROWS + 10]:
        if value > 0:
            print(f"{value:10.1f} ms  {name}")
