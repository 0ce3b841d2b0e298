"""Posteriors in NetCDF files: the format, and writing it.

A file holds equally weighted joint draws, p(K | x), the facts behind them as attributes, and the data unless they are
large, so that summaries and plots need neither the weights of a network nor the data's own file. `docs/posterior.md`
describes the format, `stored.py` reads it.

**Seal.** A line behind the end of the HDF5 content, where other programs do not look, holds the SHA-256 of everything
before it, so that a damaged file is recognized before a parser sees it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.core.fields import plain
from slotflow.core.files import PathLike, atomic_path
from slotflow.core.version import __version__
from slotflow.posterior.channels import channel_variables
from slotflow.posterior.contract import Result
from slotflow.posterior.facts import UNKNOWN_UNIT
from slotflow.posterior.netcdf import netcdf
from slotflow.posterior.noise_file import noise_variables

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["FORMAT", "SEAL", "VERSION", "dataset", "sealed", "write"]

FORMAT = "slotflow posterior"
VERSION, PLAIN_VERSION = 3, 2
"""Version of the format, and that of files whose data are real and even, which older versions read as well; 1 had
neither a version nor data, prior, standard error of σ and upper limit."""
SEAL = b"\nslotflow sha256 "
"""What the line with the checksum begins with."""


def dataset(post: Result, n: int, seed: int) -> xr.Dataset:
    """Everything that a file holds: n equally weighted joint draws, p(K | x), facts, data and upper limits."""
    import xarray as xr

    theta, counts = post.sample_joint(n, seed)
    unit = post.unit or UNKNOWN_UNIT
    variables: dict[str, Any] = {
        name: (("draw", "component"), theta[..., i], {"units": units})
        for i, (name, units) in enumerate(
            zip(post.waveform.names, post.waveform.units(unit), strict=True)
        )
    }
    for parameter in post.waveform.parameters:
        if parameter.circular:
            variables[parameter.name][2]["long_name"] = f"{parameter.name} at t_ref"
    variables["k"] = (("draw",), counts, {"long_name": "number of components of the draw"})
    variables["k_probs"] = (("k_value",), post.k_probs, {"long_name": "p(K | x)"})
    error = math.nan if post.noise_std_error is None else post.noise_std_error
    variables["noise_std"] = ((), post.noise_std, {"units": unit, "standard_error": error})
    coordinates: dict[str, Any] = {"k_value": np.arange(post.k_probs.size)}
    limit = post.upper_limit()
    if limit is not None:
        facts = {"units": unit, "credibility": limit.credibility, "k0_prob": limit.k0_prob}
        facts["long_name"] = "largest credible amplitude of a lone tone"
        variables["upper_limit"] = (("limit_frequency",), limit.amplitude, facts)
        coordinates["limit_frequency"] = ("limit_frequency", limit.frequency, {"units": "Hz"})
    if post.has_data:
        variables |= channel_variables(post.observation) | noise_variables(post.noise_model)
    if post.has_sigma:
        words = {"units": unit, "long_name": "noise level"}
        variables["sigma"] = (("draw",), post.joint_sigma(n, seed), words)
    variables |= _tables(post)
    return xr.Dataset(variables, coords=coordinates, attrs=_attributes(post, seed))


def _attributes(post: Result, seed: int) -> dict[str, Any]:
    """The facts of a posterior as attributes of its file."""
    verdict, is_plain = post.verdict, not post.has_data or post.observation.is_plain
    attributes = {
        "format": FORMAT,
        "format_version": PLAIN_VERSION if is_plain else VERSION,
        "slotflow_version": __version__,
        "method": post.method,
        "waveform": post.waveform.text,
        "seed": seed,
        "verdict": verdict.status,
        "verdict_reason": verdict.reason,
        "verdict_checks": json.dumps([check._asdict() for check in verdict.checks]),
        "verdict_standing": json.dumps(verdict.standing and astuple(verdict.standing)),
        "verdict_unexamined": json.dumps(verdict.unexamined),
        "verdict_alternatives": json.dumps([asdict(one) for one in verdict.alternatives]),
        "prior": "" if post.prior is None else json.dumps(plain(asdict(post.prior))),
        "assumed": "" if post.assumed is None else json.dumps(post.assumed.record()),
        "noise": "" if post.noise is None else json.dumps(post.noise.record()),
        "proposed_by": post.proposed_by,
        "unit": post.unit,
        "t_ref": post.t_ref,
        "resolution": post.resolution,
        "filled_samples": post.filled_samples,
        "description": "draws of p(K, Theta | x), equally weighted; NaN where a draw has no such component",
    }
    if post.ess is not None:
        attributes["ess"] = post.ess
    if kinds := post.kinds():
        attributes["kinds"] = json.dumps(kinds)
    if post.window_rows:
        words = [row.verdict.status for row in post.window_rows]
        attributes["window_verdicts"] = ", ".join(words)
    if post.empty_regions:
        attributes["empty_regions"] = json.dumps(post.empty_regions)
    return attributes


def _tables(post: Result) -> dict[str, Any]:
    """What is known of each K and of each window, where there is any."""
    variables: dict[str, Any] = {}
    if post.log_evidence is not None:
        value, error = post.log_evidence.T
        variables["log_evidence"] = (("k_value",), value, {"long_name": "ln Z_K"})
        words = {"long_name": "standard error of ln Z_K"}
        variables["log_evidence_error"] = (("k_value",), error, words)
    for name, (values, meaning) in post.tables_by_k().items():
        variables[name] = (("k_value",), values, {"long_name": meaning})
    if post.window_rows:
        low, high = np.array([row.core for row in post.window_rows]).T
        variables["core_low"] = (("window",), low, {"units": "Hz"})
        variables["core_high"] = (("window",), high, {"units": "Hz"})
        variables["core_k_map"] = (("window",), np.array([row.k_map for row in post.window_rows]))
    return variables


def write(post: Result, path: PathLike, n: int, seed: int) -> None:
    """Writes `dataset` to a NetCDF file with its checksum, whole or not at all."""
    found = dataset(post, n, seed)
    names = (*post.waveform.names, "k", "sigma")
    sealed(netcdf(found, [name for name in names if name in found and n > 0]), path)


def sealed(content: bytes, path: PathLike) -> None:
    """Writes the content of a NetCDF file with its checksum, whole or not at all.

    It is in memory beforehand: where a disk is full, HDF5 prints a traceback for everything that it cannot close.
    """
    seal = SEAL + hashlib.sha256(content).hexdigest().encode() + b"\n"
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        file.write(seal)
