"""Inference time on one CPU core: a full answer (network, then exact step) with its parts, or a preset's network alone.

    python benchmarks/infer.py                    # the embedded weights, K = 3 and 9, 2,000 draws, and a batch
    python benchmarks/infer.py --k 1 10 --signals 30
    python benchmarks/infer.py --preset paper --k 1 5 10
    python benchmarks/infer.py --preset debug --k 1 3

Times are CPU times of the one thread, so that other work on the machine counts little; of a full answer the wall clock
is shown beside. Signals are nominal, physical, and drawn with given K. A preset's network has random weights (the time
does not depend on them), and its draws are raw: none are drawn again for breaking a constraint, which untrained weights
would do most of the time.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from slotflow import Observation, Prior, SlotFlow, simulate
from slotflow.exact import judged
from slotflow.exact.modes import Modes
from slotflow.exact.proposals.assembly import Proposer
from slotflow.exact.rounds import Rounds
from slotflow.network.paper.densities import PaperSlotDensities

DRAWS = 2000
PARTS: dict[str, tuple[object, str]] = {
    "maxima": (Modes, "add"),
    "proposals": (Proposer, "parts"),
    "sampling": (Rounds, "draw"),
    "one tone more": (Proposer, "table"),
    "residual": (judged, "check_residual"),
}
"""Parts of the exact step and the function that does each."""


def median_ms(call: Callable[[], object], repeats: int) -> float:
    """Median CPU time of a call in milliseconds, after one that does not count."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """Adds up the CPU seconds that each part of the exact step takes, those within another part included."""
    spent = dict.fromkeys(PARTS, 0.0)
    plain = {name: getattr(owner, attribute) for name, (owner, attribute) in PARTS.items()}

    def timed(name: str) -> Callable[..., object]:
        @functools.wraps(plain[name])
        def call(*args: object, **options: object) -> object:
            start = time.process_time()
            try:
                return plain[name](*args, **options)
            finally:
                spent[name] += time.process_time() - start

        return call

    try:
        for name, (owner, attribute) in PARTS.items():
            setattr(owner, attribute, timed(name))
        yield spent
    finally:
        for name, (owner, attribute) in PARTS.items():
            setattr(owner, attribute, plain[name])


def signals(model: SlotFlow, n: int, k: int | None = None) -> list[Observation]:
    """Nominal signals of k tones, or of any number."""
    prior = Prior()
    batch = simulate(prior, n, model.config.long, model.config.short, mode="physical", seed=0, k=k)
    return [batch.observation(i) for i in range(n)]


def full_answers(ks: list[int], count: int) -> None:
    """One line per K: the answer, the network's share, the exact step's and its parts; then a batch."""
    model, prior = SlotFlow.from_pretrained(), Prior()
    print(
        f"{model.config.name}, one thread, torch {torch.__version__}; {DRAWS:,} draws, nominal; ms"
    )
    for k in ks:
        observations = signals(model, count, k)
        model.infer(observations[0], prior=prior, draws=DRAWS)
        total, network, wall = [], [], []
        with clocked() as spent:
            for one in observations:
                began, start = time.perf_counter(), time.process_time()
                model.infer(one, prior=prior, draws=DRAWS)
                total.append(time.process_time() - start)
                wall.append(time.perf_counter() - began)
        for one in observations:
            start = time.process_time()
            model.infer(one, prior=prior, refine=False)
            network.append(time.process_time() - start)
        both = [1e3 * statistics.median(times) for times in (total, network)]
        parts = ", ".join(f"{name} {1e3 * value / count:.1f}" for name, value in spent.items())
        print(
            f"K = {k:2d}: {both[0]:6.1f} (wall clock {1e3 * statistics.median(wall):.1f}), median of {count}: "
            f"network {both[1]:.1f}, exact step {both[0] - both[1]:.1f} (means: {parts})",
            flush=True,
        )
    several = signals(model, 4 * count)
    each = [
        median_ms(lambda refine=refined: model.infer(several, prior=prior, refine=refine), 1)  # type: ignore[misc]
        for refined in (True, False)
    ]
    each = [value / len(several) for value in each]
    print(f"batch of {len(several)}, any K: {each[0]:.1f} each, network {each[1]:.1f}")


def networks_alone(preset: str, ks: list[int], draws: int, repeats: int) -> None:
    """The network's answer, and one line per K: raw draws of its slots."""
    model = SlotFlow.from_preset(preset).eval()
    config = model.config
    batch = simulate(config.prior, 64, config.long, config.short, mode="physical", seed=0)
    observations = [batch.observation(i) for i in range(64)]
    one = median_ms(
        lambda: model.infer(observations[0], prior=model.config.prior, refine=False), repeats
    )
    many = (
        median_ms(lambda: model.infer(observations, prior=model.config.prior, refine=False), 2) / 64
    )
    print(
        f"preset {preset}, {model.n_parameters:,} parameters, one thread, torch {torch.__version__}"
    )
    print(f"infer: {one:.1f} ms alone, {many:.1f} ms each in a batch of 64")
    slots = model.infer(observations[0], prior=model.config.prior, refine=False).slots
    if not isinstance(slots, PaperSlotDensities):
        return
    for k in ks:

        def draw(k: int = k) -> None:
            with torch.inference_mode():
                projected = slots._project(k)
                slots.flow.draw(projected, draws, torch.Generator().manual_seed(0))

        print(f"K = {k:2d}: {draws} draws per slot {median_ms(draw, repeats):8.1f} ms", flush=True)


def main() -> None:
    """Prints one line per K."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", help="time this preset's network alone, untrained")
    parser.add_argument("--k", type=int, nargs="+", help="3 9, or 1 5 10 for a preset")
    parser.add_argument("--signals", type=int, default=16, help="of each K for full answers")
    parser.add_argument("--draws", type=int, default=1000, help="per slot of a preset's network")
    parser.add_argument("--repeats", type=int, default=7, help="of a preset's network")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.preset is None:
        full_answers(args.k or [3, 9], args.signals)
    else:
        networks_alone(args.preset, args.k or [1, 5, 10], args.draws, args.repeats)


if __name__ == "__main__":
    main()
