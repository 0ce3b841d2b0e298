"""``slotflow rjmcmc``: the same question as ``infer``, answered by reversible-jump MCMC."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from slotflow.baselines.ensemble import Options
from slotflow.baselines.rjmcmc import rjmcmc
from slotflow.cli import output
from slotflow.cli.assumed import (
    assumed_prior,
    assumed_record,
    print_assumed,
    proposed_band,
)
from slotflow.cli.data import (
    Column,
    Dataset,
    Detrend,
    Fill,
    MaxGap,
    Reading,
    Short,
    Step,
    StepShort,
    TimeUnit,
    TRef,
    data_notes,
    data_warnings,
    shown_name,
)
from slotflow.cli.options import (
    Amplitude,
    Band,
    Json,
    KMax,
    KMin,
    MinSeparation,
    ModelName,
    Seed,
    bounds,
    help_text,
)
from slotflow.io import atomic_path
from slotflow.model import SlotFlow
from slotflow.sampling import LONGEST_GAP

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
    time_unit: TimeUnit = None,
    t_ref: TRef = None,
    fill: Fill = None,
    max_gap: MaxGap = LONGEST_GAP,
    detrend: Detrend = None,
    signal: Annotated[
        int, typer.Option(min=0, help="Which signal of a file that holds several.")
    ] = 0,
    band: Band = None,
    amplitude: Amplitude = None,
    min_separation: MinSeparation = None,
    k_min: KMin = None,
    k_max: KMax = None,
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
    samples: Annotated[int, typer.Option(min=1, help="Draws to summarize and to write.")] = 1000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    as_json: Json = False,
) -> None:
    """Infers the components of one signal by reversible-jump MCMC."""
    stated = {
        "frequency": bounds("--band", band),
        "amplitude": bounds("--amplitude", amplitude),
        "min_separation": min_separation,
        "k_min": k_min,
        "k_max": k_max,
    }
    how = Reading(
        dt, short, dt_short, column, dataset, t_ref, time_unit, fill, max_gap, detrend
    )  # fmt: skip
    observations = how.read(file)
    if signal >= len(observations):
        raise ValueError(
            f"{shown_name(file)} holds {len(observations)} signal(s), received --signal {signal}; count from 0."
        )
    observation = observations[signal]
    network = SlotFlow.from_pretrained(model)
    proposed = proposed_band(network, [observation]) if band is None else None
    if proposed is not None:
        stated["frequency"] = proposed.edges
    prior = assumed_prior(network, [observation], stated)
    options = Options(
        walkers, temperatures, hottest, effective=effective, max_seconds=max_seconds
    )  # fmt: skip
    post = rjmcmc(observation, prior, options, file=chain, seed=seed, progress=True)
    summary = post.summary(n=samples, seed=seed)
    record: dict[str, Any] = {"file": str(file), "signal": signal}
    record |= output.posterior_record(post, summary)
    record["notes"] = data_notes(observation)
    record["warnings"] = data_warnings(observation, prior)
    files: dict[str, str] = {}
    if out is not None:
        files = {"summary": str(out / "summary.csv"), "posterior": str(out / "posterior.nc")}
        with atomic_path(files["summary"]) as temporary:
            summary.to_csv(temporary)
        post.save(files["posterior"], n=samples, seed=seed)
    run_facts = asdict(post.sampling)
    assumed = assumed_record(observation, prior, proposed, stated=band is not None)
    if as_json:
        output.print_json(record | {"assumed": assumed, "sampling": run_facts, "files": files})
        return
    print_assumed(assumed)
    for note in record["notes"]:
        output.console.print(f"  note   {escape(note)}")
    output.print_posterior(record)
    for doubt in record["warnings"]:
        output.complain("warning", f"{shown_name(file)}: {doubt}")
    s = post.sampling
    output.console.print(
        f"{s.effective:.0f} effective draws ({s.least_effective:.0f} of the worst parameter), R-hat {s.r_hat:.3f}, "
        f"autocorrelation time {s.autocorrelation:.1f} steps, {s.steps} steps after {s.warm_up} of warm-up, "
        f"{s.seconds:.1f} s"
    )
    rates = ", ".join(f"{name} {rate:.3f}" for name, rate in s.acceptance.items())
    swaps = ", ".join(f"{rate:.2f}" for rate in s.swaps)
    output.console.print(f"Accepted: {rates}; exchanges {swaps or 'none'}")
    for path in files.values():
        output.console.print(f"Written: {escape(path)}")
