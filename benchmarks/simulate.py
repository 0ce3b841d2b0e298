"""Throughput of the simulator: the paper's two-stream signals per second.

    python benchmarks/simulate.py --device cpu --seconds 3
    python benchmarks/simulate.py --device cuda

Each line is timed after a warm-up, every batch with a seed of its own, the device synchronized at both ends. On the CPU
one thread is used unless --threads says otherwise.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import torch

from slotflow.network.config import Config
from slotflow.signal.simulation import MODES, simulate

BATCHES = (64, 1024)
WARM_UP = 3


def main() -> None:
    """Prints one line per batch size and mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, default=3.0, help="time given to each line")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: this machine has no CUDA device that torch can use")
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)

    model = Config.from_preset("paper").model
    print(f"{device_name(device)}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(
        f"long stream {model.long.n} samples, short stream {model.short.n}, K <= {model.prior.k_max}"
    )
    print(f"{'mode':10s} {'batch':>6s} {'signals/s':>12s} {'ms/batch':>10s}")
    for mode in MODES:
        for batch in BATCHES:
            per_batch = seconds_per_batch(mode, batch, device, args.seconds)
            print(
                f"{mode:10s} {batch:6d} {batch / per_batch:12,.0f} {1e3 * per_batch:10.2f}",
                flush=True,
            )


def seconds_per_batch(mode: str, batch: int, device: torch.device, seconds: float) -> float:
    """Mean time of one batch of the paper's signals."""
    model = Config.from_preset("paper").model

    def draw(seed: int) -> None:
        simulate(model.prior, batch, model.long, model.short, mode=mode, seed=seed, device=device)

    for seed in range(WARM_UP):
        draw(seed)
    synchronize(device)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        draw(WARM_UP + count)
        count += 1
        synchronize(device)
    return (time.perf_counter() - start) / count


def synchronize(device: torch.device) -> None:
    """Waits until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_name(device: torch.device) -> str:
    """The GPU's name, or the CPU's as far as the system tells it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
