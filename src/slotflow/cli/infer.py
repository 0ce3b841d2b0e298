"""``slotflow infer``: the components of the signals in files.

Its options are declared in groups; the work is done by `session`, which is imported when the command runs, so that the
help does not wait for torch.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from slotflow.cli.data import DataFlags
from slotflow.cli.expand import expanded
from slotflow.cli.folders import check_folders
from slotflow.cli.machines import Machines
from slotflow.cli.options import FILE, help_text
from slotflow.cli.request import MOST_SAVED, Computation, Request, Results, Sampler
from slotflow.cli.stated import PriorFlags
from slotflow.cli.watch import Watch
from slotflow.data.read.files import check_readable, find_files

__all__ = ["ALIASES", "HELP", "alias", "run"]

HELP = help_text(
    "Infers the components of the signals in files.\n\n"
    "Reads text tables, NPY, NPZ, HDF5, NetCDF, WAV, MATLAB, FITS light curves and the folders of Bruker experiments. "
    "Give files, folders, patterns in quotes, or - for a text table on standard input. With --out, it writes "
    "summary.csv (one row per component) and posterior.nc (draws over K and all parameters).\n\n"
    "Several signals give catalogue.csv (one row per component), signals.csv (one row per signal) and a folder for "
    f"each signal (--save; by default only for up to {MOST_SAVED} signals). If a run was stopped, the same command "
    "continues it (--force: from the beginning). A signal that cannot be analysed is listed at the end and in "
    "failed.csv; the exit code is then 1, or 2 if no signal could be analysed.\n\n"
    "The network's answer is checked and corrected against the likelihood. The verdict says how far to trust the "
    "result, and why: exact, approximate or misfit (the tones do not explain the data). --method chooses another way: "
    "network (no check), classical (matching pursuit and Laplace's approximation), rjmcmc (reversible-jump MCMC by "
    "Eryn, which needs the extra 'baselines') or smc (tempered sequential Monte Carlo).\n\n"
    "Samples may be missing, uneven or complex, and may have their own errors (--errors) and segments with their own "
    "offsets (--segments). Say where tones may lie (--band, or --f-lo), and what they may be (--amplitude, "
    "--min-separation, --k-min, --k-max, --sigma, or a file: --prior). A band of more than 150 bins of 1/T is searched "
    "as a whole and analysed in windows around what is found. What you leave out is assumed and shown: bounds of "
    "amplitude and noise that contain what the data show, no minimum separation, any number of tones or none. "
    "Offsets are integrated out, and trends on request (--trend).\n\n"
    "Components are tones unless you ask for chirps, decays or harmonic series (--waveform), or for a mixture of kinds "
    "(--classes); the answer then says how many there are of each.\n\n"
    "The noise (--noise) is white, local (with its own level in and around the band, whatever the rest of the spectrum "
    "does), coloured or given by a file; auto tests the data and says what it chose. A known level (--sigma 0.7; "
    "--sigma-short 0.2 if the short stream has another) is held fixed in the exact step and tested: the verdict says "
    "if the residual scatters more or less.",
    "slotflow infer voltage.csv",
    "slotflow infer long.csv --short short.csv --out result",
    "slotflow infer voltage.csv --dt 0.001 --band 49:51 --amplitude 1e-3:1e-2 --out result --plot",
    "slotflow infer voltage.csv --prior prior.yaml --f-lo 48 --report voltage.html",
    "slotflow infer long.npy --dt 0.05 --min-separation 0.01 --k-max 5 --max-seconds 60",
    "slotflow infer long.csv --short short.csv --sigma 0.7 --sigma-short 0.2",
    "slotflow infer test.npz --method network --k-prior 1:0.5,2:0.5 --json > answers.json",
    "slotflow infer long.csv --method smc --particles 4000 --islands 16",
    "slotflow infer long.csv --method rjmcmc --effective 5000 --chain chain.h5",
    "slotflow infer many.npz --out results --quiet",
    "slotflow infer many.npz --out results --shard 3/200 --timeout 120",
    "slotflow infer many.npz --out results --dask local:4 --parquet",
    "slotflow infer 'runs/*.csv' more/ --detrend 1 --out results --save none",
    "slotflow infer gaps.csv --fill linear --max-gap 5 --time-unit ms",
    "slotflow infer log.csv --time none --dt 0.01 --column voltage",
    "slotflow infer spectrum/1 --waveform damped --band 580:640 --report lines.html",
    "slotflow infer mixed.csv --classes 'tone,chirp(drift=-1e-4:1e-4),damped' --band 2.5:3",
    "slotflow infer chord.wav --column 2 --band 435:445 --amplitude 0.01:0.5",
    "slotflow infer star.nc --dataset flux --t-ref 2024-03-01T12:00:00 --detrend 0",
    "slotflow infer lightcurve.fits --frequency-unit uHz --max-seconds 60 --out star --plot",
    "slotflow infer tide.csv --band 0.03:0.09/h --noise local --trend 1 --phase-at mid --verbose",
    "slotflow infer velocities.csv --errors e_rv --outliers clip --noise 'ar(1)'",
    "tail -n 5000 log.csv | slotflow infer - --dt 0.01 --column 3",
)
ALIASES = {
    "classical": "matching pursuit and Laplace's approximation",
    "rjmcmc": "parallel-tempered reversible-jump MCMC (Eryn)",
    "smc": "tempered sequential Monte Carlo",
}
"""Commands that are `infer` with a method of their own, and what they infer by."""


def _infer(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Files, folders, patterns, or - for standard input."),
    ],
    data: DataFlags,
    prior: PriorFlags,
    computation: Computation,
    sampler: Sampler,
    machines: Machines,
    results: Results,
    signal: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Analyse one signal of a file that holds several, counted from 0.",
            rich_help_panel=FILE,
        ),
    ] = None,
) -> None:
    """Infers the components of the signals in files."""
    started = time.perf_counter()
    check_folders(results)
    with Watch(results.quiet or results.as_json) as watch:
        found = find_files(files)
        if len(found) == 1:  # a refusal need not wait for torch
            check_readable(found[0], data.options((None, None)))
        from slotflow.cli.session import Session

        request = Request(files, signal, data, prior, computation, sampler, machines, results)
        Session(request, watch, started).run()


run = expanded(_infer)


def alias(method: str) -> tuple[str, object]:
    """Help and command of an alias: `infer` of one signal, the first unless another is named, by a method."""
    text = (
        f"Infers the components of one signal by {ALIASES[method]}.\n\nThe same as slotflow infer --method {method} "
        "--signal 0, whose help says more. It answers the same question under the same prior, without a network, and "
        "writes the same files."
    )
    return help_text(text, f"slotflow {method} data.npz --out result"), expanded(
        _infer, method=method, signal=0
    )
