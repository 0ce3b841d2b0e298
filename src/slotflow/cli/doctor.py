"""``slotflow doctor``: is everything here that is needed, and does it work?"""

from __future__ import annotations

import time
from typing import Any

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.installation import devices, installed, package_version
from slotflow.cli.options import Json, Quiet, Seed, help_text
from slotflow.network.cards import embedded_card
from slotflow.network.model import DEFAULT, SlotFlow, pretrained_names
from slotflow.signal.simulation import simulate

__all__ = ["HELP", "run"]

HELP = help_text(
    "Checks the installation: versions, devices, weights and their hash, optional packages. Then infers one simulated "
    "signal with a known number of tones. The exit code is 1 if anything that is needed is missing or wrong.",
    "slotflow doctor",
    "slotflow doctor --json > doctor.json",
)
NEEDED = ("torch", "numpy", "scipy", "zuko", "safetensors", "pyyaml")
"""Without these nothing works."""
USUAL = ("pandas", "xarray", "h5netcdf", "h5py", "matplotlib", "corner", "typer", "rich")
"""Installed with the package: tables, files, pictures, the command line."""
EXTRAS = {
    "arviz": "Posterior.to_arviz",
    "distributed": "slotflow infer --dask",
    "astropy": "reading FITS light curves",
    "eryn": "slotflow rjmcmc",
    "nmrglue": "reading decays of Bruker spectrometers",
    "scikit-learn": "slotflow reproduce",
    "pyarrow": "catalogues in Parquet",
}
"""Optional packages and what needs them."""
TONES = 4
"""Of the signal that is inferred."""


def run(seed: Seed = 0, as_json: Json = False, quiet: Quiet = False) -> None:
    """Looks at the installation and infers one simulated signal."""
    record: dict[str, Any] = {
        **installed(),
        "packages": {name: package_version(name) for name in NEEDED + USUAL},
        "extras": {name: package_version(name) for name in EXTRAS},
        "devices": devices(),
        "weights": {name: _weights(name) for name in pretrained_names()},
        "test": _test(seed),
    }
    problems = [f"{name} is not installed" for name, v in record["packages"].items() if v is None]
    problems += [
        f"weights {name}: {facts['error']}"
        for name, facts in record["weights"].items()
        if facts["error"]
    ]
    if DEFAULT not in record["weights"]:
        problems.append(f"the default weights {DEFAULT!r} are missing; install the package again")
    if record["test"]["error"]:
        problems.append(f"the test signal: {record['test']['error']}")
    record["problems"] = problems
    if as_json:
        output.print_json(record)
    elif not quiet:
        _print(record)
    for problem in problems:
        output.complain("problem", problem)
    if problems:
        raise typer.Exit(1)


def _weights(name: str) -> dict[str, str]:
    """Hash of embedded weights; they are loaded, which compares them with their card."""
    try:
        SlotFlow.from_pretrained(name)
        return {"hash": embedded_card(name).hash, "error": ""}
    except (ValueError, OSError) as error:
        return {"hash": "", "error": str(error)}


def _test(seed: int) -> dict[str, Any]:
    """Infers a simulated signal of the default model's own prior."""
    facts: dict[str, Any] = {"tones": TONES, "found": None, "verdict": "", "error": ""}
    start = time.perf_counter()
    try:
        model = SlotFlow.from_pretrained()
        config = model.config
        sim = simulate(config.prior, 1, config.long, config.short, seed=seed, k=TONES)
        obs = sim.observation(0)
        model.infer(
            obs, prior=config.prior, refine=False
        )  # the first call takes longer than others
        loaded = time.perf_counter()
        post = model.infer(obs, prior=config.prior)
        facts |= {"found": post.k_map, "verdict": post.verdict.status}
        facts |= {"load_seconds": loaded - start, "infer_seconds": time.perf_counter() - loaded}
        if post.k_map != TONES:
            facts["error"] = f"expected {TONES} tones, found {post.k_map} ({post.verdict})"
    except (ValueError, OSError, RuntimeError) as error:
        facts["error"] = str(error)
    return facts


def _print(record: dict[str, Any]) -> None:
    """Prints the record in a few lines."""
    out = output.console.print
    out(
        f"[bold]slotflow {record['slotflow']}[/bold], Python {record['python']}, {record['platform']}"
    )
    packages = ", ".join(f"{n} {v or '[red]missing[/red]'}" for n, v in record["packages"].items())
    out(f"  packages  {packages}")
    for name, version in record["extras"].items():
        out(f"  extra     {name} {version or 'not installed'}, for {EXTRAS[name]}")
    found = record["devices"]
    gpus = ", ".join(found["gpus"]) or "no GPU that torch can use"
    out(
        f"  devices   CPU cores {found['cpu_cores']}, threads {found['cpu_threads']}; {escape(gpus)}"
    )
    for name, facts in record["weights"].items():
        default = " (default)" if name == DEFAULT else ""
        out(f"  weights   {name}{default} {escape(facts['hash'] or facts['error'])}")
    test = record["test"]
    if not test["error"]:
        out(
            f"  test      {test['found']} of {test['tones']} tones found, verdict {test['verdict']}, in "
            f"{1e3 * test['infer_seconds']:.0f} ms ({test['load_seconds']:.1f} s to load and warm up)"
        )
    out("[green]all is well[/green]" if not record["problems"] else "")
