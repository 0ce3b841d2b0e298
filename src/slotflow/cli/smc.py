"""``slotflow smc``: the same question as ``infer``, answered by tempered sequential Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slotflow.baselines.particles import Options
from slotflow.baselines.smc import smc
from slotflow.cli.data import (
    Column,
    Dataset,
    Detrend,
    Fill,
    MaxGap,
    Short,
    Step,
    StepShort,
    Time,
    TimeUnit,
    TRef,
)
from slotflow.cli.options import (
    Amplitude,
    Band,
    Json,
    KMax,
    KMin,
    MinSeparation,
    ModelName,
    Out,
    PriorFile,
    Quiet,
    Report,
    Samples,
    Seed,
    Sigma,
    SigmaShort,
    Signal,
    help_text,
)
from slotflow.cli.single import ask, give
from slotflow.cli.stated import stated_prior
from slotflow.data.gaps import LONGEST_GAP
from slotflow.data.read.options import ReadOptions

__all__ = ["HELP", "run"]

DEFAULT = Options()
HELP = help_text(
    "Infers the components of one signal by tempered sequential Monte Carlo.\n\n"
    "A baseline to compare with: particles of every K go from the prior to the posterior and give the evidence on the "
    "way. It samples the same posterior under the same prior as infer, without a network, and writes the same files.",
    "slotflow smc data.npz --out result",
    "slotflow smc long.csv --short short.csv --k-max 4 --particles 4000 --islands 16",
    "slotflow smc gaps.csv --fill linear --detrend 0 --t-ref 0 --band 49:51 --amplitude 1e-3:1e-2",
)


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File of the long stream, or -.")],
    short: Short = None,
    dt: Step = None,
    dt_short: StepShort = None,
    column: Column = None,
    dataset: Dataset = None,
    time_column: Time = None,
    time_unit: TimeUnit = None,
    t_ref: TRef = None,
    fill: Fill = None,
    max_gap: MaxGap = LONGEST_GAP,
    detrend: Detrend = None,
    signal: Signal = 0,
    prior: PriorFile = None,
    band: Band = None,
    amplitude: Amplitude = None,
    min_separation: MinSeparation = None,
    k_min: KMin = None,
    k_max: KMax = None,
    sigma: Sigma = None,
    sigma_short: SigmaShort = None,
    model: ModelName = None,
    particles: Annotated[int, typer.Option(min=1, help="Particles of each K.")] = (
        DEFAULT.particles
    ),
    islands: Annotated[
        int, typer.Option(min=2, help="Independent groups of them, for the standard error.")
    ] = DEFAULT.islands,
    sweeps: Annotated[
        int, typer.Option(min=1, help="Rounds of moves at each point of the path.")
    ] = DEFAULT.sweeps,
    patience: Annotated[
        int,
        typer.Option(min=1, help="Negligible K in succession after which no larger one is tried."),
    ] = DEFAULT.patience,
    max_seconds: Annotated[
        float, typer.Option(min=0, help="Time after which the run ends in any case.")
    ] = math.inf,
    samples: Samples = 1000,
    seed: Seed = 0,
    out: Out = None,
    report: Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infers the components of one signal by tempered sequential Monte Carlo."""
    stated = stated_prior(
        prior,
        band=band,
        amplitude=amplitude,
        min_separation=min_separation,
        k_min=k_min,
        k_max=k_max,
        sigma=sigma,
        sigma_short=sigma_short,
    )
    how = ReadOptions(
        dt, short, dt_short, column, dataset, t_ref, time_unit, fill, max_gap, detrend, *stated.levels, time_column,
        varying=True,
    )  # fmt: skip
    question = ask(file, how, signal, stated.fields, model, stated.k_prior, out, report)
    options = Options(
        particles=particles,
        islands=islands,
        sweeps=sweeps,
        patience=patience,
        max_seconds=max_seconds,
    )
    post = smc(question.observation, question.prior, options, seed=seed, progress=not quiet)
    s = post.sampling
    paths = ", ".join(f"K = {k}: {n}" for k, n in s.temperatures.items())
    rates = ", ".join(f"{name} {rate:.3f}" for name, rate in s.acceptance.items())
    give(
        question,
        post,
        samples,
        seed,
        out,
        as_json,
        {"sampling": asdict(s)},
        f"{s.effective:.0f} effective draws ({s.least_effective:.0f} of the worst parameter), R-hat of the islands "
        f"{s.r_hat:.3f}, {s.evaluations:,} likelihoods, {s.seconds:.1f} s",
        f"Points of the path: {paths}",
        f"Accepted: {rates or 'nothing to move'}",
        quiet=quiet,
        report=report,
    )
