"""``slotflow simulate``: signals with their truth in an NPZ file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.configs import load_config
from slotflow.cli.expand import expanded
from slotflow.cli.options import (
    Amplitude,
    Band,
    ClassesText,
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
    WaveformText,
    bounds,
    help_text,
)
from slotflow.cli.stated import level_or_bounds, stated_waveform
from slotflow.core.presets import DEFAULT
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from slotflow.data.observation import Observation
    from slotflow.data.sampling import Grid
    from slotflow.signal.prior import Prior

__all__ = ["HELP", "run"]

HELP = help_text(
    "Draws signals from a prior and writes them with their truth to an NPZ file. The prior is that of preset "
    f"{DEFAULT} unless you name another.",
    "slotflow simulate --n 1000 --out test.npz",
    "slotflow simulate --preset paper --n 100 --k 10 --mode analytic --seed 1 --out ten.npz",
    "slotflow simulate --k-max 2 --sigma 1:2 --amplitude 0.2:0.4 --out faint.npz",
    "slotflow simulate --k 1 --sigma 0.7 --out steady.npz",
    'slotflow simulate --noise "ar(0.9)" --n 10 --out red.npz',
    "slotflow simulate --classes tone,chirp,damped --k 3 --n 1 --out mixed.npz",
    "slotflow simulate --like star.csv --band 1e-4:2e-4 --amplitude 1:5 --noise power_law --out stars.npz",
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
        typer.Option(help="physical (streams share the noise at common instants) or analytic."),
    ] = "physical"
    k: Annotated[int | None, typer.Option("--k", help="A fixed number of components.")] = None
    noise: Annotated[
        str,
        typer.Option(
            metavar="KIND|FILE",
            help="white, ar(0.9), ar(2), power_law, power_law(KNEE,EXPONENT), or a file with a power spectral density. "
            "Numbers that you leave out are drawn at random.",
        ),
    ] = "white"
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sample the signals as this file is: its times, gaps, errors, and real or complex samples.",
        ),
    ] = None
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
    waveform: WaveformText = None
    classes: ClassesText = None

    def applied(self, prior: Prior, duration: float) -> Prior:
        """The prior with these changes: any that can be drawn from, whether a model knows it or not.

        Args:
            prior: What is changed.
            duration: Length of the record in seconds, which suggests settings of a waveform that are left open.
        """
        from slotflow.signal.waveforms import suited

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
        if text := stated_waveform(self.waveform, self.classes):
            chosen["waveform"] = suited(text, duration)
        return replace(prior, **chosen)


def _simulate(
    out: Annotated[Path, typer.Option(help="NPZ file to write.")],
    signals: Signals,
    prior: PriorChanges,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draws signals from a prior and writes them with their truth."""
    config = load_config(
        signals.preset, signals.config, signals.settings or [], default=DEFAULT
    ).model
    start = time.perf_counter()
    chosen = prior.applied(config.prior, config.long.duration)
    if signals.like is not None:
        drawn = _like_a_file(out, signals, prior, config.prior)
    elif chosen.waveform == TONE:
        drawn = _on_grids(out, signals, chosen, config.long, config.short)
    else:
        drawn = _like(out, signals, chosen, _empty(config.long))
    seconds = time.perf_counter() - start
    if as_json:
        output.print_json(
            {
                "file": str(out),
                "n": signals.n,
                "preset": config.name,
                "mode": signals.mode,
                "noise": signals.noise,
                "seed": signals.seed,
                "signals_per_k": drawn.counts,
                **{
                    role: {"n": n, "dt": dt}
                    for role, (n, dt) in zip(("long", "short"), drawn.streams, strict=False)
                },
                "seconds": seconds,
            }
        )
    elif not quiet:
        per_k = ", ".join(f"K = {i}: {c:,}" for i, c in enumerate(drawn.counts) if c)
        streams = [
            f"{role} {n:,} × {dt:.6g} s"
            for role, (n, dt) in zip(("long", "short"), drawn.streams, strict=False)
        ]
        output.console.print(
            f"{signals.n:,} signals ({per_k}) in {1e3 * seconds:.0f} ms\n"
            f"{', '.join(streams)}\n"
            f"File: {escape(str(out))}"
        )


class _Drawn(NamedTuple):
    """What was drawn."""

    counts: list[int]
    """Signals of each number of components."""
    streams: list[tuple[int, float]]
    """Samples and step of each stream."""


def _on_grids(out: Path, signals: Signals, prior: Prior, long: Grid, short: Grid) -> _Drawn:
    """Signals on the preset's grids."""
    from slotflow.signal.simulation import simulate
    from slotflow.signal.simulation_file import write_simulation

    sim = simulate(
        prior,
        signals.n,
        long,
        short,
        mode=signals.mode,
        seed=signals.seed,
        k=signals.k,
        device=signals.device or "cpu",
        noise=signals.noise,
    )
    write_simulation(out, sim)
    counts = sim.k.bincount(minlength=prior.k_max + 1).tolist()
    return _Drawn(counts, [(long.n, long.dt), (short.n, short.dt)])


def _like_a_file(out: Path, signals: Signals, changes: PriorChanges, prior: Prior) -> _Drawn:
    """Signals sampled as those of a file."""
    from slotflow.data.read.files import read_observation

    assert signals.like is not None
    template = read_observation(signals.like)
    chosen = changes.applied(prior, template.long.duration)
    nyquist = max(channel.nyquist for channel in template.channels)
    if template.long.is_even and chosen.frequency[1] > nyquist:
        raise ValueError(
            f"expected a band below the Nyquist frequency of {signals.like}, {nyquist:g} Hz, received "
            f"{chosen.frequency[0]:g} to {chosen.frequency[1]:g} Hz; state --band."
        )
    return _like(out, signals, chosen, template)


def _empty(grid: Grid) -> Observation:
    """A series of zeros on a grid."""
    import numpy as np

    from slotflow.data.observation import Observation

    return Observation.from_arrays(values=np.zeros(grid.n), dt=grid.dt)


def _like(out: Path, signals: Signals, chosen: Prior, template: Observation) -> _Drawn:
    """Signals sampled as a template."""
    from slotflow.signal.simulation_file import write_observations
    from slotflow.signal.simulation_like import simulate_like

    made = simulate_like(
        template, chosen, signals.n, noise=signals.noise, seed=signals.seed, k=signals.k
    )
    write_observations(out, made)
    counts = [sum(len(one.theta) == k for one in made) for k in range(chosen.k_max + 1)]
    return _Drawn(counts, [(channel.n, channel.step) for channel in template.channels])


run = expanded(_simulate)
