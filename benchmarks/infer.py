"""Inference time on one CPU core: the count and contexts, then 1,000 draws per slot.

    python benchmarks/infer.py --preset paper --k 1 5 10
    python benchmarks/infer.py --preset debug --k 1 3

The network has random weights (the time does not depend on them). Draws are raw: none are drawn again for breaking a
constraint, which untrained weights would do most of the time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from slotflow import SlotFlow, simulate
from slotflow.slots.densities import FlowSlots


def median_ms(call: Callable[[], object], repeats: int) -> float:
    """Median time of a call in milliseconds, after one that does not count."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    """Prints one line per K."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = SlotFlow.from_preset(args.preset).eval()
    config = model.config
    batch = simulate(config.prior, 64, config.long, config.short, mode="physical", seed=0)
    observations = [batch.observation(i) for i in range(64)]
    one = median_ms(lambda: model.infer(observations[0], refine=False), args.repeats)
    many = median_ms(lambda: model.infer(observations, refine=False), 2) / 64
    print(
        f"preset {args.preset}, {model.n_parameters:,} parameters, one thread, torch {torch.__version__}"
    )
    print(f"infer: {one:.1f} ms alone, {many:.1f} ms each in a batch of 64")
    slots = model.infer(observations[0], refine=False).slots
    assert isinstance(slots, FlowSlots)
    for k in args.k:

        def draw(k: int = k) -> None:
            with torch.inference_mode():
                projected = slots._project(k)
                slots.flow.draw(projected, args.draws, torch.Generator().manual_seed(0))

        print(
            f"K = {k:2d}: {args.draws} draws per slot {median_ms(draw, args.repeats):8.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
