"""``slotflow rjmcmc``: the same question as ``infer``, answered by reversible-jump MCMC."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slotflow.baselines.ensemble import Options
from slotflow.baselines.rjmcmc import rjmcmc
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
    "Infers the components of one signal by parallel-tempered reversible-jump MCMC (Eryn).\n\n"
    "A baseline to compare with: it samples the same posterior under the same prior as infer, without a "
    "network, and writes the same files. Needs the extra: pip install 'slotflow[baselines]'. With --chain, the chain "
    "is kept in an HDF file, and the same command goes on from it.",
    "slotflow rjmcmc data.npz --out result",
    "slotflow rjmcmc long.csv --short short.csv --k-max 4 --effective 5000 --chain chain.h5",
    "slotflow rjmcmc gaps.csv --fill linear --detrend 0 --t-ref 0 --band 49:51 --amplitude 1e-3:1e-2",
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
    effective: Annotated[
        float, typer.Option(min=1, help="Effective draws of the most probable K to reach.")
    ] = DEFAULT.effective,
    max_seconds: Annotated[
        float, typer.Option(min=0, help="Time after which the run ends in any case.")
    ] = math.inf,
    walkers: Annotated[int, typer.Option(min=2, help="Walkers at each temperature.")] = (
        DEFAULT.walkers
    ),
    temperatures: Annotated[int, typer.Option(min=1, help="Number of temperatures.")] = (
        DEFAULT.temperatures
    ),
    hottest: Annotated[float, typer.Option(min=1, help="The highest temperature.")] = (
        DEFAULT.hottest
    ),
    chain: Annotated[
        Path | None, typer.Option(help="HDF file of the chain, to go on from later.")
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
    out: Out = None,
    report: Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infers the components of one signal by reversible-jump MCMC."""
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
        walkers, temperatures, hottest, effective=effective, max_seconds=max_seconds
    )  # fmt: skip
    post = rjmcmc(
        question.observation, question.prior, options, file=chain, seed=seed, progress=not quiet
    )
    s = post.sampling
    rates = ", ".join(f"{name} {r:.3f}" for name, r in s.acceptance.items() if math.isfinite(r))
    swaps = ", ".join(f"{rate:.2f}" for rate in s.swaps)
    give(
        question,
        post,
        samples,
        seed,
        out,
        as_json,
        {"sampling": asdict(s)},
        f"{s.effective:.0f} effective draws ({s.least_effective:.0f} of the worst parameter), R-hat {s.r_hat:.3f}, "
        f"autocorrelation time {s.autocorrelation:.1f} steps, {s.steps} steps after {s.warm_up} of warm-up, "
        f"{s.seconds:.1f} s",
        f"Accepted: {rates}; exchanges {swaps or 'none'}",
        quiet=quiet,
        report=report,
    )
