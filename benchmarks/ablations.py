"""What each part of `zoom` is worth: the same short training with one part changed at a time.

    python benchmarks/ablations.py --steps 800 --jobs 5 --out docs/data/ablations.json
    python docs/render.py --tables    # the table in docs/model.md

Every variant sees the same number of signals, from the same seed, with a cosine schedule over them, and is then
evaluated on the same fresh signals (`quick_report` of `studies/suites/model.py`). Each runs in a process of its own,
several at once if asked; variants that the output file already holds are not run again. Widths and errors are over the
joint bound of both streams, also where a variant does not see the short one.

Two variants need code that the product does not: heads in bfloat16, and the paper's 4-D target on the slot's density.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import slotflow.network.zoom.model
from slotflow.network.config import Config, FlowConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.analysis import Analysis
from slotflow.network.zoom.bound import FlowContext
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.network.zoom.rounds import Round
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.studies.suites.model import quick_report
from slotflow.train.loop import train

VARIANTS: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "without zoom windows": {"model.zoom.zoom": False},
    "without subtraction": {"model.zoom.subtract": False},
    "without the slot's own frame": {"model.zoom.canonical": False},
    "without joint steps": {"model.zoom.joint": False},
    "without the second count": {"model.zoom.recount": False},
    "1 round": {"model.zoom.rounds": 1},
    "3 rounds": {"model.zoom.rounds": 3},
    "without the short stream": {"train.short_dropped": 1.0, "train.short_varied": 0.0},
    "heads in bfloat16": {},
    "4-D target": {},
}
RADIUS = 30.0
"""Amplitude in units of its bound that the 4-D target assumes for every slot."""


class CircleFlow(nn.Module):
    """The paper's target (A, w cos φ, w sin φ, f) in place of the slot's (f, Re c, Im c), in units of the bound.

    Points lie on a surface of R⁴, so the density has no upper bound: what is reported as the loss is not a likelihood.
    """

    def __init__(self, d: int, config: FlowConfig) -> None:
        super().__init__()
        kinds = ("spline", "affine")
        flow = FlowConfig(
            layers=config.layers,
            kinds=kinds,
            hidden=config.hidden,
            hidden_layers=1,
            bins=config.bins,
            bound=config.bound,
        )
        self.couplings = ConditionalFlow(4, d, flow, context_gain=1.0, output_gain=0.01)

    def project(self, y: Tensor) -> FlowContext:
        """Contexts of slots; the affine part has nothing to do."""
        zero = torch.zeros(*y.shape[:-1], 3, device=y.device, dtype=y.dtype)
        return FlowContext(zero, zero, zero, self.couplings.project(y))

    def log_prob(self, context: FlowContext, z: Tensor) -> Tensor:
        """The 4-D density at the point of the surface that belongs to z (..., S, 3)."""
        c = torch.complex(RADIUS + z[..., 1], z[..., 2])
        angle = c.angle()
        y = torch.stack(
            [c.abs() - RADIUS, RADIUS * (angle.cos() - 1), RADIUS * angle.sin(), z[..., 0]], -1
        )
        return self.couplings.log_prob(context.terms, y)

    def draw(self, context: FlowContext, n: int, generator: torch.Generator) -> Tensor:
        """Draws of z: the angle of a draw, whatever its radius."""
        a, x, y, f = self.couplings.draw(context.terms, n, generator).unbind(-1)
        c = torch.polar(RADIUS + a, torch.atan2(y, RADIUS + x))
        return torch.stack([f, c.real - RADIUS, c.imag], -1)


class LongOnly:
    """A model that does not get to see the short stream."""

    def __init__(self, model: ZoomSlotFlow) -> None:
        self.model, self.device = model, model.device

    def analyse(self, simulation: Simulation, prior: Prior, k_prior: None = None) -> Analysis:
        """Analyses the long streams."""
        import dataclasses

        alone = dataclasses.replace(simulation, short=None)
        return self.model.analyse(alone, prior, k_prior)


def low_precision_heads() -> None:
    """Lets the slots' rounds compute in bfloat16."""
    full = Round.forward

    def forward(self: Round, *args: Any) -> tuple[Tensor, Tensor]:
        with torch.autocast(args[0].z.device.type, torch.bfloat16):
            h, out = full(self, *args)
        return h.float(), out.float()

    Round.forward = forward  # type: ignore[method-assign]


def run(name: str, steps: int, n: int, device: str, settings: list[str]) -> dict[str, Any]:
    """Trains and evaluates one variant."""
    changes = dict(VARIANTS[name])
    if name == "heads in bfloat16":
        low_precision_heads()
    if name == "4-D target":
        slotflow.network.zoom.model.BoundFlow = CircleFlow  # type: ignore[misc, assignment]
    changes |= {"train.steps_per_epoch": steps, "train.max_epochs": 1}
    changes |= {key: json.loads(value) for key, _, value in (s.partition("=") for s in settings)}
    data = Config.from_preset("zoom").to_dict()
    for key, value in changes.items():
        node = data
        *parents, last = key.split(".")
        for parent in parents:
            node = node[parent]
        node[last] = value
    config = Config.from_dict(data)
    with tempfile.TemporaryDirectory() as folder:
        path = train(config, folder, device=device, quiet=True)
        model = SlotFlow.from_pretrained(path, device=device)
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    assert isinstance(model, ZoomSlotFlow)
    analyser = LongOnly(model) if "short stream" in name else model
    measured = quick_report(analyser, n=n, device=device)
    return {
        "variant": name,
        "steps": steps,
        "signals": steps * config.train.batch_size,
        "seconds": json.loads(lines[-1])["seconds"],
        "parameters": model.n_parameters,
        **measured,
    }


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=800, help="training steps of each variant")
    parser.add_argument("--n", type=int, default=4000, help="signals of each evaluation set")
    parser.add_argument("--jobs", type=int, default=1, help="variants at once")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("ablations.json"))
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--set", nargs="*", default=[], help="further settings, KEY=JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(args.one, args.steps, args.n, args.device, args.set)))
        return
    rows = json.loads(args.out.read_text()) if args.out.exists() else []
    missing = [name for name in args.only if name not in {row["variant"] for row in rows}]

    def one(name: str) -> None:
        command = [sys.executable, __file__, "--one", name, "--device", args.device]
        command += ["--steps", str(args.steps), "--n", str(args.n), "--set", *args.set]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"{name}: failed with exit code {done.returncode}", flush=True)
            return
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        rows.sort(key=lambda one: list(VARIANTS).index(one["variant"]))
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
        print(json.dumps(row), flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, missing))


if __name__ == "__main__":
    main()
