"""Signals per second of `model.infer(many, refine=False)` and `posteriors.sample(100)`, as a user calls them.

    python benchmarks/rate.py                                      # one CPU core, 256 signals
    python benchmarks/rate.py --device cuda --size 20000 --profile
    python benchmarks/rate.py --size 256 --tables                  # the table of all components too

Nominal signals of the paper's size, both streams, drawn beforehand. They are handed over as arrays on the host
(`Observations`), as arrays on the device, and as a list of single observations; and, for a part of them, one by one, as
they were answered before there were batches: `infer` of a list, then `sample` of each posterior. Rates are by the
clock on a GPU, and by processor time on a CPU, where other work on the machine then counts little. The median of the
repetitions counts; the first call, which does not, warms the device up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from slotflow import Observation, Observations, Prior, SlotFlow, simulate

ONE_BY_ONE = 256
"""Signals that are answered one by one at most."""


class Clock:
    """Seconds of the processor, or by the clock where the work is a GPU's.

    Args:
        device: Where the work is done.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self) -> float:
        """Now, when all work is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return time.perf_counter()
        return time.process_time()


class Bench:
    """The calls that are timed.

    Args:
        model: The network.
        draws: Draws of each signal.
        repeats: How often each call is timed.
    """

    def __init__(self, model: SlotFlow, draws: int, repeats: int) -> None:
        self.model, self.draws, self.repeats = model, draws, repeats
        self.clock, self.prior = Clock(model.device), Prior()

    def rate(self, given: Observations | list[Observation]) -> dict[str, float]:
        """Signals per second of the answers, of the draws, and of both together."""
        infer, sample = [], []
        for _ in range(self.repeats):
            start = self.clock()
            posts = self.model.infer(given, prior=self.prior, refine=False)
            between = self.clock()
            posts.sample(self.draws)
            infer.append(between - start)
            sample.append(self.clock() - between)
        return _rates(len(given), statistics.median(infer), statistics.median(sample))

    def one_by_one(self, given: list[Observation]) -> dict[str, float]:
        """The same with every posterior asked on its own, as earlier versions did."""
        start = self.clock()
        posts = list(self.model.infer_each(given, prior=self.prior, refine=False))
        between = self.clock()
        for post in posts:
            post.sample_joint(self.draws)
        return _rates(len(given), between - start, self.clock() - between)

    def table(self, given: Observations) -> dict[str, float]:
        """Signals per second of the table of all components, in a batch and one by one."""
        posts = self.model.infer(given, prior=self.prior, refine=False)
        posts[:8].summary(n=self.draws)
        start = self.clock()
        posts.summary(n=self.draws)
        between = self.clock()
        few = list(posts[:ONE_BY_ONE])
        for post in few:
            post.summary(n=self.draws)
        end = self.clock()
        return {
            "batch_per_s": round(len(posts) / (between - start), 1),
            "one_by_one_per_s": round(len(few) / (end - between), 1),
        }

    def profile(self, given: Observations, rows: int = 25) -> str:
        """Where the time goes: the operations of one call that took the longest."""
        from torch.profiler import ProfilerActivity, profile

        kinds, order = [ProfilerActivity.CPU], "self_cpu_time_total"
        if self.clock.device.type == "cuda":
            kinds, order = [*kinds, ProfilerActivity.CUDA], "self_device_time_total"
        texts = []
        with profile(activities=kinds) as first:
            posts = self.model.infer(given, prior=self.prior, refine=False)
            self.clock()
        with profile(activities=kinds) as second:
            posts.sample(self.draws)
            self.clock()
        for name, found in (("infer", first), ("sample", second)):
            table = found.key_averages().table(
                sort_by=order, row_limit=rows, max_name_column_width=60
            )
            texts.append(f"{name}, {len(given)} signals\n{table}")
        return "\n".join(texts)


def _rates(n: int, infer: float, sample: float) -> dict[str, float]:
    """Signals per second of two calls and of both together."""
    return {
        "signals": n,
        "infer_per_s": round(n / infer, 1),
        "sample_per_s": round(n / sample, 1),
        "both_per_s": round(n / (infer + sample), 1),
    }


def measured(bench: Bench, size: int, seed: int, tables: bool) -> Iterator[tuple[str, Any]]:
    """All rates for one number of signals, each as soon as it is known."""
    config, device = bench.model.config, bench.model.device
    batch = simulate(
        bench.prior, size, config.long, config.short, mode="physical", seed=seed, device=device
    )

    def arrays(move: Callable[[torch.Tensor], Any]) -> Observations:
        assert batch.short is not None
        return Observations.from_arrays(
            move(batch.long), config.long.dt, move(batch.short), config.short.dt
        )

    host = arrays(lambda x: x.cpu().numpy())
    bench.rate(host[: min(size, 4096)])
    fast = bench.rate(host)
    yield "arrays on the host", fast
    if device.type == "cuda":
        yield "arrays on the device", bench.rate(arrays(lambda x: x))
    slow = bench.one_by_one(list(host[:ONE_BY_ONE]))
    yield "one by one", slow
    yield "times faster", round(fast["both_per_s"] / slow["both_per_s"], 1)
    yield "list of observations", bench.rate(list(host))
    if tables:
        yield "table of components", bench.table(host)


def main() -> None:
    """Prints one JSON document per measure and, where it is asked for, where the time goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", type=int, default=256, help="signals")
    parser.add_argument("--draws", type=int, default=100, help="of each signal")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--threads", type=int, default=1, help="of a CPU; beside a GPU all of them work"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tables", action="store_true", help="time the tables too (needs pandas)")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    if args.device == "cpu":
        torch.set_num_threads(args.threads)
    model = SlotFlow.from_pretrained(device=args.device)
    bench = Bench(model, args.draws, args.repeats)
    name = torch.cuda.get_device_name() if model.device.type == "cuda" else f"{args.threads} core"
    found: dict[str, Any] = {"device": name, "torch": torch.__version__, "draws": args.draws}
    for key, value in measured(bench, args.size, args.seed, args.tables):
        print(json.dumps({key: value}), flush=True)
        found[key] = value
        if args.out is not None:
            args.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if args.profile:
        batch = simulate(
            bench.prior,
            min(args.size, 4096),
            model.config.long,
            model.config.short,
            mode="physical",
            seed=args.seed + 1,
            device=model.device,
        )
        assert batch.short is not None
        given = Observations.from_arrays(
            batch.long, model.config.long.dt, batch.short, model.config.short.dt
        )
        print(bench.profile(given))


if __name__ == "__main__":
    main()
