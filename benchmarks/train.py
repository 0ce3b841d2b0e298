"""Training throughput of a preset: signals per second, and the profile that says what limits it.

    python benchmarks/train.py --preset paper --batch 1024 --seconds 20 --variants plain,bfloat16,compile
    python benchmarks/train.py --preset zoom --batch 2048 --variants compile --profile
    python benchmarks/train.py --config weights/paper.yaml --variants compile,ordered --profile

Each variant simulates, takes full optimizer steps and is timed after a warm-up, the device synchronized at both ends.
`ordered` is `compile` for the share of training in which slots take tones in the order of frequency.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.train.batches import draw_batch
from slotflow.train.objectives import build_objective
from slotflow.train.state import build_optimizer

VARIANTS = {
    "plain": {"low_precision": False, "compile": False, "ordered": False},
    "bfloat16": {"low_precision": True, "compile": False, "ordered": False},
    "compile": {"low_precision": True, "compile": True, "ordered": False},
    "ordered": {"low_precision": True, "compile": True, "ordered": True},
}


def sync(device: torch.device) -> None:
    """Waits for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Times each variant and profiles the last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--config", type=Path, help="a YAML file instead of a preset")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--variants", default="plain,bfloat16,compile")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    device = torch.device(args.device)
    name = (
        torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"cpu, {torch.get_num_threads()} threads"
    )
    print(f"{args.config or args.preset}, batch {args.batch}, {name}, torch {torch.__version__}")
    config = Config.from_yaml(args.config) if args.config else Config.from_preset(args.preset)
    for variant in args.variants.split(","):
        options = VARIANTS[variant]
        torch.manual_seed(0)
        model = SlotFlow(config.model).to(device)
        objective = build_objective(model, config.loss, options["low_precision"])
        if options["compile"]:
            objective.compile_parts()
        objective.ordered = options["ordered"]
        optimizer = build_optimizer(model, config.train)

        def step(seed: int, objective=objective, optimizer=optimizer) -> None:
            batch = draw_batch(config, args.batch, seed, device)
            optimizer.zero_grad(set_to_none=True)
            objective(batch)["loss"].backward()
            optimizer.step()

        started = time.perf_counter()
        for i in range(12):  # with and without a short stream: both are compiled
            step(i)
        sync(device)
        warm, steps, start = time.perf_counter() - started, 0, time.perf_counter()
        while time.perf_counter() - start < args.seconds:
            step(100 + steps)
            steps += 1
        sync(device)
        rate = steps * args.batch / (time.perf_counter() - start)
        memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
        print(
            f"{variant:10s} {rate:10,.0f} signals/s  (first 12 steps {warm:.1f} s, {memory:.1f} GiB)",
            flush=True,
        )
    if args.profile:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profile:
            for i in range(5):
                step(i)
            sync(device)
        key = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
        print(profile.key_averages().table(sort_by=key, row_limit=16, max_name_column_width=60))


if __name__ == "__main__":
    main()
