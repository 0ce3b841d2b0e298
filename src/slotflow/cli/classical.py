"""``slotflow classical``: the same question as ``infer``, answered by matching pursuit and Laplace's approximation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotflow.baselines.laplace_posterior import classical_posterior
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

HELP = help_text(
    "Infers the components of one signal by matching pursuit, joint least squares and Laplace's approximation.\n\n"
    "A baseline to compare with: p(K | x) and the draws are those of Gaussians around the best fits, under the same "
    "prior as infer and without a network. It writes the same files.",
    "slotflow classical data.npz --out result",
    "slotflow classical long.csv --short short.csv --k-max 4 --json",
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
    samples: Samples = 1000,
    seed: Seed = 0,
    out: Out = None,
    report: Report = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infers the components of one signal by matching pursuit and Laplace's approximation."""
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
    post = classical_posterior(question.observation, question.prior)
    facts = {"bic": post.bic.tolist(), "laplace_log_evidence": post.log_z.tolist()}
    order = int(post.bic.argmin())
    give(
        question,
        post,
        samples,
        seed,
        out,
        as_json,
        {"classical": facts},
        f"Smallest BIC: K = {order}",
        quiet=quiet,
        report=report,
    )
