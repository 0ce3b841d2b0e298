"""``slotflow demo``: one simulated mixture, its exact posterior with verdict and evidence, and the truth beside it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.options import Device, Json, ModelName, Quiet, Seed, help_text
from slotflow.cli.printing import print_assumed, print_posterior
from slotflow.many.records import assumed_record, posterior_record
from slotflow.network.model import SlotFlow
from slotflow.show.plots import plot_posterior, save_figure
from slotflow.signal.simulation import simulate

__all__ = ["HELP", "run"]

HELP = help_text(
    "Simulates one mixture, infers its components, shows verdict and evidence, and draws a picture.",
    "slotflow demo",
    "slotflow demo --seed 7 --out chord.pdf",
    "slotflow demo --json | python -m json.tool",
)
REPEATS = 5
"""Calls whose median is the time."""
SEED = 2
"""A draw of the default model's prior with six tones, one at the edge of the amplitudes."""


def run(
    seed: Seed = SEED,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf.")] = Path(
        "demo.png"
    ),
    model: ModelName = None,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulates one mixture from the model's prior, infers it and compares with the truth."""
    network = SlotFlow.from_pretrained(model, device=device)
    config = network.config
    sim = simulate(config.prior, 1, config.long, config.short, mode="physical", seed=seed)
    observation, truth = sim.observation(0), sim.components(0)
    prior = config.prior
    post = network.infer(observation, prior=prior)
    summary = post.summary(n=1000, seed=seed, phase_at="zero")
    network_ms = _median_ms(lambda: network.infer(observation, prior=prior, refine=False))
    infer_ms = _median_ms(lambda: network.infer(observation, prior=prior))
    sample_ms = _median_ms(lambda: post.sample(1000, seed=seed))
    save_figure(plot_posterior(post, truth, band=config.prior.frequency), out)

    record = posterior_record(post, summary) | {
        "model": config.name,
        "seed": seed,
        "truth": {
            "k": len(truth),
            "noise_std": float(sim.sigma[0]),
            "components": [dict(zip(post.waveform.names, c, strict=True)) for c in truth.tolist()],
        },
        "milliseconds": {"network": network_ms, "infer": infer_ms, "sample_1000": sample_ms},
        "assumed": assumed_record(post),
        "figure": str(out),
    }
    if as_json:
        output.print_json(record)
        return
    if quiet:
        return
    output.console.print(
        f"One mixture from the prior of [bold]{config.name}[/bold], seed {seed}, SNR {float(sim.snr_db()[0]):.1f} dB"
    )
    print_assumed(record["assumed"])
    print_posterior(record, record["truth"])
    output.console.print(
        f"The network alone {network_ms:.1f} ms, the exact posterior {infer_ms:.1f} ms, 1,000 joint draws of it "
        f"{sample_ms:.1f} ms (medians of {REPEATS} on {output.device_name(network.device)})\n"
        f"Picture: {escape(str(out))}"
    )


def _median_ms(call: Callable[[], object]) -> float:
    """Median wall time of a few calls in milliseconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)
