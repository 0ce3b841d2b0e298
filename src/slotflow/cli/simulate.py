"""``slotflow simulate``: signals with their truth in an NPZ file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.expand import expanded
from slotflow.cli.options import (
    Amplitude,
    Band,
    ConfigFile,
    Device,
    Json,
    KMax,
    KMin,
    MinSeparation,
    Preset,
    Quiet,
    Seed,
    Settings,
    bounds,
    help_text,
    load_config,
)
from slotflow.cli.stated import level_or_bounds
from slotflow.core.presets import DEFAULT

if TYPE_CHECKING:
    from slotflow.signal.prior import Prior

__all__ = ["HELP", "run"]

HELP = help_text(
    f"Draws signals from a prior, that of preset {DEFAULT} if none is named, and writes them with their truth to an "
    "NPZ file.",
    "slotflow simulate --n 1000 --out test.npz",
    "slotflow simulate --preset paper --n 100 --k 10 --mode analytic --seed 1 --out ten.npz",
    "slotflow simulate --k-max 2 --sigma 1:2 --amplitude 0.2:0.4 --out faint.npz",
    "slotflow simulate --k 1 --sigma 0.7 --out steady.npz",
)


@dataclass(frozen=True)
class Signals:
    """Which signals are drawn."""

    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Number of signals.")] = 100
    preset: Preset = None
    config: ConfigFile = None
    settings: Settings = None
    mode: Annotated[
        str,
        typer.Option(help="physical: streams share noise at common instants; or analytic."),
    ] = "physical"
    k: Annotated[int | None, typer.Option("--k", help="A fixed number of components.")] = None
    seed: Seed = 0
    device: Device = None


@dataclass(frozen=True)
class PriorChanges:
    """How the prior differs from that of the preset."""

    k_min: KMin = None
    k_max: KMax = None
    amplitude: Amplitude = None
    band: Band = None
    min_separation: MinSeparation = None
    sigma: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL|LOW:HIGH", help="The noise level of all signals, or its bounds."
        ),
    ] = None

    def applied(self, prior: Prior) -> Prior:
        """The prior with these changes: any that can be drawn from, whether a model knows it or not."""
        flags = {
            "k_min": self.k_min,
            "k_max": self.k_max,
            "amplitude": bounds("--amplitude", self.amplitude),
            "frequency": bounds("--band", self.band),
            "min_separation": self.min_separation,
            "sigma": level_or_bounds("--sigma", self.sigma),
        }
        chosen: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
        if "k_min" in chosen or "k_max" in chosen:
            chosen["k_probs"] = None
        return replace(prior, **chosen)


def _simulate(
    out: Annotated[Path, typer.Option(help="NPZ file to write.")],
    signals: Signals,
    prior: PriorChanges,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draws signals from a prior and writes them with their truth."""
    from slotflow.signal.simulation import simulate
    from slotflow.signal.simulation_file import write_simulation

    model = load_config(
        signals.preset, signals.config, signals.settings or [], default=DEFAULT
    ).model
    chosen, (long, short) = prior.applied(model.prior), (model.long, model.short)
    start = time.perf_counter()
    sim = simulate(
        chosen,
        signals.n,
        long,
        short,
        mode=signals.mode,
        seed=signals.seed,
        k=signals.k,
        device=signals.device or "cpu",
    )
    write_simulation(out, sim)
    seconds = time.perf_counter() - start
    counts = sim.k.bincount(minlength=chosen.k_max + 1).tolist()
    if as_json:
        output.print_json(
            {
                "file": str(out),
                "n": signals.n,
                "preset": model.name,
                "mode": signals.mode,
                "seed": signals.seed,
                "signals_per_k": counts,
                "long": {"n": long.n, "dt": long.dt},
                "short": {"n": short.n, "dt": short.dt},
                "seconds": seconds,
            }
        )
    elif not quiet:
        per_k = ", ".join(f"K = {i}: {c:,}" for i, c in enumerate(counts) if c)
        output.console.print(
            f"{signals.n:,} signals ({per_k}) in {1e3 * seconds:.0f} ms\n"
            f"long {long.n:,} × {long.dt:.6g} s, short {short.n:,} × {short.dt:.6g} s\n"
            f"File: {escape(str(out))}"
        )


run = expanded(_simulate)
