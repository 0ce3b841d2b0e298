"""What an answer costs against the samples, the tones, the width of the band and the batch, and where its time goes.

    python benchmarks/cost.py --out docs/data/cost.json                             # one CPU core
    python benchmarks/cost.py --device cuda --out docs/data/cost-gpu.json
    python benchmarks/cost.py --parts tones --size 16 --alone 2                     # a look

Each curve changes one thing of the paper's signals (two series of 8,120 samples together, a band of 150 bins, the prior
of the nominal set) and keeps the rest:

- `samples`: the series are sampled more densely, and σ grows with the root of their number, so that tones are as clear
  as before; five tones in each signal;
- `tones`: signals of K tones, where K = 1 to 10 is allowed;
- `bins`: the width of the band; five tones in it, where K = 0 is allowed too. The network's window has 150 bins; a
  wider band is analysed in several windows, signal by signal, and fewer signals are measured;
- `batch`: how many nominal signals are handed over in one call.

At each point the same signals are timed three ways, in milliseconds a signal: `network` is `model.infer(many,
refine=False)`, `exact` is `model.infer(many)`, both with the library's own sizes of batches, and `alone` is the median
of `model.infer(one)` over a few of them; `left` counts the signals that a batch has not decided. `stages` divides the
time of nominal and stress signals (with verdicts, 100 draws and the table of all components) among the stages of
the work (`stage_clock.py`).

A CPU's times are processor times of one thread, a GPU's are by the clock.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from batch_exact import PRIORS, clock
from stage_clock import ALONE, HANDED, TESTS, StageClock

from slotflow import Observations, Prior, SlotFlow, simulate
from slotflow.core.version import __version__
from slotflow.data.sampling import Grid
from slotflow.posterior.batched import Batched
from slotflow.posterior.many import Posteriors
from slotflow.studies.suites.sets import GRIDS

DENSITIES = (1, 2, 4, 8, 16)
"""Factors on the number of samples."""
TONES = (1, 3, 5, 7, 9)
"""Tones of a signal."""
USUAL_TONES = 5
"""Tones where their number is not what changes."""
WIDTHS = (50, 100, 150, 300, 600)
"""Widths of the band in bins 1/T."""
BATCHES = {"cpu": (1, 8, 32, 64, 256), "cuda": (8, 64, 512, 4096, 16384)}
"""Signals that are handed over together."""
SIZES = {"cpu": 64, "cuda": 2048}
"""Signals of a point."""
STAGED = {"cpu": 256, "cuda": 2048}
"""Signals whose time is divided among the stages."""
IN_WINDOWS = 6
"""Signals of a point whose band is wider than a window."""
WARM_UP = 16
"""Signals that are answered before the clock runs."""
MOST_CALLS = 32
"""Calls of a point whose signals are handed over in parts, unless one call is enough."""
AT_ONCE = 512
"""Signals that are simulated at a time."""
HANDED_DRAWS = 100
"""Draws that are asked for in the end."""

Point = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """How answers are timed."""

    model: SlotFlow
    now: Callable[[], float]
    draws: int
    alone: int
    """Signals that are answered alone at each point."""
    seed: int

    @property
    def device(self) -> str:
        """Kind of the device."""
        return self.model.device.type

    def signals(
        self, prior: Prior, n: int, k: int | None = None, grids: tuple[Grid, Grid] = GRIDS
    ) -> Observations:
        """Signals as arrays on the host."""
        parts = [
            simulate(
                prior,
                min(AT_ONCE, n - first),
                *grids,
                mode="physical",
                seed=self.seed + first,
                k=k,
                device=self.device,
            )
            for first in range(0, n, AT_ONCE)
        ]
        long = torch.cat([part.long.cpu() for part in parts]).double().numpy()
        short = torch.cat([part.short.cpu() for part in parts if part.short is not None])
        return Observations.from_arrays(long, grids[0].dt, short.double().numpy(), grids[1].dt)

    def in_parts(self, given: Observations, size: int, **asked: Any) -> tuple[float, int]:
        """Milliseconds a signal of signals that are handed over in parts, and how many of them no batch answered.

        On a GPU the shorter time of two counts.
        """

        def call() -> int:
            found = [
                self.model.infer(given[first : first + size], **asked)
                for first in range(0, len(given), size)
            ]
            return sum(map(left_alone, found))

        seconds, left = [], 0
        for _ in range(2 if self.device == "cuda" else 1):
            began = self.now()
            left = call()
            seconds.append(self.now() - began)
        return 1e3 * min(seconds) / len(given), left

    def point(self, prior: Prior, given: Observations, batch: int | None = None) -> Point:
        """The same signals through the network, and with the exact step, handed over in batches or all at once."""
        asked: dict[str, Any] = {"prior": prior, "draws": self.draws}
        network, _ = self.in_parts(given, batch or len(given), prior=prior, refine=False)
        exact, left = self.in_parts(given, batch or len(given), **asked)
        return {"signals": len(given), "network": network, "exact": exact, "left": left}

    def with_alone(self, prior: Prior, given: Observations) -> Point:
        """The same, and a few of them alone; a first answer, which does not count, warms up."""
        asked: dict[str, Any] = {"prior": prior, "draws": self.draws}
        each = []
        for i in [0, *range(min(self.alone, len(given)))]:
            began = self.now()
            self.model.infer(given[i], **asked)
            each.append(self.now() - began)
        return self.point(prior, given) | {"alone": 1e3 * statistics.median(each[1:])}

    # ------------------------------------------------------------------ the curves

    def samples(self, size: int) -> Iterator[Point]:
        """Against the number of samples."""
        for factor in DENSITIES:
            long, short = (Grid(factor * grid.n, grid.dt / factor, grid.t0) for grid in GRIDS)
            prior = Prior()
            prior = replace(prior, sigma=tuple(factor**0.5 * x for x in prior.sigma))
            given = self.signals(prior, size, USUAL_TONES, (long, short))
            yield {"value": long.n + short.n} | self.with_alone(prior, given)

    def tones(self, size: int) -> Iterator[Point]:
        """Against the number of tones."""
        for k in TONES:
            yield {"value": k} | self.with_alone(Prior(), self.signals(Prior(), size, k))

    def bins(self, size: int) -> Iterator[Point]:
        """Against the width of the band."""
        for width in WIDTHS:
            low, high = Prior().frequency
            band = (low, low + width / GRIDS[0].duration)
            prior = replace(Prior(), k_min=0, frequency=band)
            one_window = prior.frequency[1] <= high * (1 + 1e-9)
            count = size if one_window else min(size, IN_WINDOWS)
            given = self.signals(prior, count, USUAL_TONES)
            yield {"value": width} | self.with_alone(prior, given)

    def batch(self, size: int) -> Iterator[Point]:
        """Against the number of signals that are handed over together."""
        prior, largest = Prior(), BATCHES[self.device][-1]
        every = self.signals(prior, largest if size >= SIZES[self.device] else size)
        for batch in (b for b in BATCHES[self.device] if b <= len(every)):
            given = every[: max(batch, min(size, MOST_CALLS * batch))]
            yield {"value": batch} | self.point(prior, given, batch)

    # ------------------------------------------------------------------ the stages

    def stages(self, size: int) -> Iterator[Point]:
        """Where the time of nominal and stress signals goes."""
        count = STAGED[self.device] if size >= SIZES[self.device] else size
        for name in ("nominal", "stress"):
            prior, watch = PRIORS[name], StageClock(self.now)
            given = self.signals(prior, count)
            warm_up = count if self.device == "cuda" else WARM_UP
            self.model.infer(given[:warm_up], prior=prior, draws=self.draws)
            with watch.watching():
                posts = self.model.infer(given, prior=prior, draws=self.draws)
                with watch.stage(TESTS):
                    _ = posts.verdicts
                with watch.stage(HANDED):
                    posts.sample(HANDED_DRAWS)
                    if find_spec("pandas"):
                        posts.summary(n=HANDED_DRAWS)
            left = left_alone(posts)
            yield {
                "set": name,
                "signals": count,
                "ms": 1e3 * sum(watch.seconds.values()) / count,
                "shares": watch.shares,
                "left": left,
                "ms of one alone": 1e3 * watch.seconds[ALONE] / left if left else None,
            }


def left_alone(posts: Posteriors) -> int:
    """How many signals no batch has answered."""
    return sum(not isinstance(part, Batched) for part, _, _ in posts.batches())


PARTS = ("samples", "tones", "bins", "batch", "stages")


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=sorted(SIZES))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--size", type=int, help="signals of a point; 64, on a GPU 2,048")
    parser.add_argument("--alone", type=int, default=12, help="of them answered alone too")
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="JSON file; parts it has and that are not measured stay"
    )
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    model = SlotFlow.from_pretrained(device=options.device)
    bench = Bench(model, clock(options.device), options.draws, options.alone, options.seed)
    bench.point(Prior(), bench.signals(Prior(), WARM_UP))
    size = options.size or SIZES[options.device]
    on_gpu = options.device == "cuda"
    words = [f"python benchmarks/{Path(sys.argv[0]).name}", "--device cuda"][: 1 + on_gpu]
    record: dict[str, Any] = {
        "command": " ".join(
            [*words, f"--size {size} --alone {options.alone} --seed {options.seed}"]
        ),
        "version": __version__,
        "machine": torch.cuda.get_device_name() if on_gpu else f"one core, {platform.machine()}",
        "torch": torch.__version__,
        "settings": {"draws": options.draws},
    }
    if options.out is not None and options.out.exists():
        before = json.loads(options.out.read_text("utf-8"))
        record |= {part: before[part] for part in PARTS if part in before}
    for part in options.parts:
        record[part] = []
        for point in getattr(bench, part)(size):
            print(part, json.dumps(point, ensure_ascii=False), flush=True)
            record[part].append(point)
        if options.out is not None:
            options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
