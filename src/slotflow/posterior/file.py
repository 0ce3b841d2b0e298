"""Posteriors in NetCDF files: what is written, and reading it back with every check before anything is believed.

A file holds equally weighted joint draws, p(K | x), the facts behind them as attributes, and the data unless they are
large, so that summaries and plots need neither the weights of a network nor the data's own file. `docs/posterior.md`
describes the format.

**Damage.** Parsers of HDF5 may take for ever over a damaged file. A line behind the end of the HDF5 content, where
other programs do not look, therefore holds the SHA-256 of everything before it, which is compared before a parser sees
the file. Files without that line (older ones, or ones that another program has written again) are read with what HDF5
itself checks.

Reading executes nothing: numbers and text are taken, links to other files and objects are refused.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.files import PathLike, atomic_path
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.posterior.summaries import PARAMETERS

if TYPE_CHECKING:
    import xarray as xr

    from slotflow.posterior.posterior import Posterior

__all__ = ["FORMAT", "VERSION", "dataset", "read_dataset", "read_observation", "write"]

Array = NDArray[np.float64]

FORMAT = "slotflow posterior"
VERSION = 2
"""Version of the format; 1 had neither a version nor data, prior, standard error of σ and upper limit."""
LARGEST_DATA = 5_000_000
"""Bytes up to which the data are stored."""
SIGNATURE = b"\x89HDF\r\n\x1a\n"
SEAL = b"\nslotflow sha256 "
UNKNOWN = "data units"
"""Unit of data whose unit is not known."""
NEEDED = (*PARAMETERS, "k", "k_probs", "noise_std")


# --- Writing -------------------------------------------------------------------------------------


def dataset(post: Posterior, n: int, seed: int) -> xr.Dataset:
    """Everything that a file holds: n equally weighted joint draws, p(K | x), facts, data and upper limits."""
    import xarray as xr

    from slotflow.core.version import __version__

    theta, counts = post.sample_joint(n, seed)
    unit = post.unit or UNKNOWN
    variables: dict[str, Any] = {
        name: (("draw", "component"), theta[..., i], {"units": units})
        for i, (name, units) in enumerate(zip(PARAMETERS, (unit, "rad", "Hz"), strict=True))
    }
    variables["phase"][2]["long_name"] = "phase at t_ref"
    variables["k"] = (("draw",), counts, {"long_name": "number of components of the draw"})
    variables["k_probs"] = (("k_value",), post.k_probs, {"long_name": "p(K | x)"})
    error = math.nan if post.noise_std_error is None else post.noise_std_error
    variables["noise_std"] = ((), post.noise_std, {"units": unit, "standard_error": error})
    verdict = post.verdict
    attributes = {
        "format": FORMAT,
        "format_version": VERSION,
        "slotflow_version": __version__,
        "method": post.method,
        "seed": seed,
        "verdict": verdict.status,
        "verdict_reason": verdict.reason,
        "verdict_checks": json.dumps([asdict(check) for check in verdict.checks]),
        "prior": "" if post.prior is None else json.dumps(asdict(post.prior)),
        "unit": post.unit,
        "t_ref": post.t_ref,
        "resolution": post.resolution,
        "filled_samples": post.filled_samples,
        "description": "draws of p(K, Theta | x), equally weighted; NaN where a draw has no such component",
    }
    coordinates: dict[str, Any] = {"k_value": np.arange(post.k_probs.size)}
    limit = post.upper_limit()
    if limit is not None:
        facts = {"units": unit, "credibility": limit.credibility, "k0_prob": limit.k0_prob}
        words = "largest credible amplitude of a lone tone"
        variables["upper_limit"] = (("limit_frequency",), limit.amplitude, facts)
        variables["upper_limit"][2]["long_name"] = words
        coordinates["limit_frequency"] = ("limit_frequency", limit.frequency, {"units": "Hz"})
    variables |= _data(post)
    extra, facts = post.extra_variables(n, seed)
    return xr.Dataset(variables | extra, coords=coordinates, attrs=attributes | facts)


def write(post: Posterior, path: PathLike, n: int, seed: int) -> None:
    """Writes `dataset` to a NetCDF file with its checksum, whole or not at all."""
    found = dataset(post, n, seed)
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    encoding = {name: packed for name in (*PARAMETERS, "k", "sigma") if name in found}
    if n == 0:
        encoding = {}
    with atomic_path(path) as temporary:
        found.to_netcdf(temporary, engine="h5netcdf", encoding=encoding)
        digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
        with temporary.open("ab") as file:
            file.write(SEAL + digest.encode() + b"\n")


def _data(post: Posterior) -> dict[str, Any]:
    """The streams as variables, unless they are large or not there."""
    if not post.has_data:
        return {}
    named = list(zip(("long", "short"), post.observation.channels, strict=False))
    if sum(stream.values.nbytes for _, stream in named) > LARGEST_DATA:
        return {}
    variables = {}
    for name, stream in named:
        facts = {
            "units": stream.unit or UNKNOWN,
            "dt": stream.dt,
            "t0": stream.t0,
            "sigma": math.nan if stream.sigma is None else stream.sigma,
            "filled": json.dumps(stream.filled),
            "notes": json.dumps(stream.notes),
            "long_name": f"{name} stream, sample i at t0 + i dt seconds from t_ref",
        }
        variables[f"data_{name}"] = ((f"sample_{name}",), stream.values, facts)
    return variables


# --- Reading -------------------------------------------------------------------------------------


def read_dataset(path: PathLike) -> xr.Dataset:
    """Reads and checks a file of any version; every refusal is a ValueError that opens with its name."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; check the path.")
    try:
        found = _parse(_verified(path.read_bytes()))
        _check(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return found


def _verified(content: bytes) -> bytes:
    """The HDF5 content of a file, after the checks that need no parser."""
    advice = "write the posterior again with Posterior.save."
    if not content.startswith(SIGNATURE):
        what = "an empty file" if not content else f"a file that begins with {content[:8]!r}"
        raise ValueError(
            f"expected a posterior's NetCDF 4 file, received {what}; give one that Posterior.save wrote."
        )
    start = content.rfind(SEAL)
    if start < 0 or len(content) - start > 200:
        return content  # an older file, or one written again by another program
    digest = content[start + len(SEAL) :].strip().decode("ascii", "replace")
    if digest != hashlib.sha256(content[:start]).hexdigest():
        raise ValueError(
            f"expected the content that was written, received one with another checksum: the file is damaged; {advice}"
        )
    return content[:start]


def _parse(content: bytes) -> xr.Dataset:
    """The arrays and attributes in memory."""
    import h5py
    import xarray as xr

    from slotflow.data.read.formats.arrays import elsewhere, is_elsewhere
    from slotflow.data.read.formats.hdf5 import check_blocks
    from slotflow.data.read.tables import check_size, foreign

    check_blocks(content)
    outside: list[str] = []
    with foreign("NetCDF"), h5py.File(BytesIO(content), "r") as file:
        names = [str(name) for name in file]
        absent = [name for name in NEEDED if name not in names]
        if not absent:
            for name in names:
                link = file.get(name, getlink=True)
                node = file.get(name) if isinstance(link, h5py.HardLink) else None
                if node is None or (isinstance(node, h5py.Dataset) and is_elsewhere(node)):
                    outside.append(name)
                elif isinstance(node, h5py.Dataset):
                    check_size(node.shape or ())
    if absent:
        raise ValueError(
            f"expected a file that Posterior.save wrote, received one without {', '.join(absent)}; "
            "series are read with Observation.read."
        )
    for name in outside:
        raise ValueError(elsewhere(name))
    with (
        foreign("NetCDF"),
        xr.open_dataset(
            BytesIO(content), engine="h5netcdf", decode_times=False, decode_timedelta=False
        ) as opened,
    ):
        return opened.load()


def _check(found: xr.Dataset) -> None:
    """Refuses what contradicts itself or comes from a later version."""
    version = int(_number(found.attrs.get("format_version", 1)))
    if version > VERSION:
        raise ValueError(
            f"expected a posterior's file of version {VERSION} or older, received version {version}; update slotflow."
        )
    shape = found["amplitude"].shape
    probs = np.asarray(found["k_probs"].values)
    counts = np.asarray(found["k"].values)
    kinds = [np.asarray(found[name].values).dtype.kind for name in NEEDED]
    reasons = []
    if any(kind not in "fiu" for kind in kinds):
        reasons.append("values that are no numbers")
    elif (
        len(shape) != 2
        or any(found[name].shape != shape for name in PARAMETERS)
        or counts.shape != shape[:1]
        or probs.shape != (shape[1] + 1,)
    ):
        reasons.append("arrays of different shapes")
    elif not (np.isfinite(probs).all() and (probs >= 0).all() and 0.9 < probs.sum() < 1.1):
        reasons.append("p(K | x) that is no probability")
    elif counts.size and not (counts.min() >= 0 and counts.max() <= shape[1]):
        reasons.append("a number of components outside its range")
    else:
        present = np.arange(shape[1]) < counts[:, None]
        if any((np.isfinite(found[name].values) != present).any() for name in PARAMETERS):
            reasons.append("draws that do not have as many components as they say")
    if reasons:
        raise ValueError(
            f"expected the draws of a posterior, received {reasons[0]}; write it again."
        )


def read_observation(found: xr.Dataset) -> Observation | None:
    """The data of a file; None where it does not hold them."""
    streams = []
    for name in ("data_long", "data_short"):
        if name in found:
            facts = found[name].attrs
            sigma = _number(facts.get("sigma", math.nan))
            streams.append(
                Channel(
                    np.asarray(found[name].values, dtype=np.float64),
                    _number(facts["dt"]),
                    _number(facts["t0"]),
                    sigma if math.isfinite(sigma) else None,
                    _number(found.attrs.get("t_ref", 0.0)),
                    str(facts.get("units", UNKNOWN)).replace(UNKNOWN, ""),
                    tuple((int(a), int(b)) for a, b in json.loads(facts.get("filled", "[]"))),
                    tuple(str(note) for note in json.loads(facts.get("notes", "[]"))),
                )
            )
    return Observation(*streams) if streams else None


def _number(value: Any) -> float:
    """An attribute as a number."""
    return float(np.asarray(value).item())
