"""The posteriors of many signals in one NetCDF file.

The file holds what that of one posterior holds (`file`), with the dimension `signal` in front: equally weighted joint
draws, p(K | x), noise levels, evidences where there are any, verdicts and priors. It holds no data. A signal of it,
`dataset.isel(signal=i)`, has the variables of a posterior's file, and reading makes a `LoadedPosterior` of it when it
is asked for. The seal behind the content is that of `file`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.fields import plain
from slotflow.core.files import PathLike
from slotflow.core.version import __version__
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.facts import UNKNOWN_UNIT
from slotflow.posterior.file import sealed
from slotflow.posterior.loaded import LoadedPosterior, stored_evidence
from slotflow.posterior.many import Posteriors
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.stored import check_dataset, parse_file, stored_waveform
from slotflow.posterior.verdict import Verdict

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MANY_FORMAT", "StoredPosteriors", "dataset_of_many", "load_many", "write_many"]

MANY_FORMAT = "slotflow posteriors"
MANY_VERSION = 1
TEXTS = ("verdict", "verdict_reason", "method", "prior", "unit")
"""Facts of each signal that are texts."""
NUMBERS = ("resolution", "t_ref", "ess")
"""Facts of each signal that are numbers, NaN where they are not known."""


def dataset_of_many(posts: Posteriors, n: int, seed: int) -> xr.Dataset:
    """Everything that a file of many posteriors holds.

    Args:
        posts: At least one posterior; all of the same waveform.
        n: Joint draws of each.
        seed: Their seed.
    """
    import xarray as xr

    if not len(posts):
        raise ValueError("expected at least one posterior to write, received none.")
    waveforms = {part.waveform.text: part.waveform for part, _, _ in posts.batches()}
    if len(waveforms) > 1:
        raise ValueError(
            f"expected posteriors of one kind of component, received {', '.join(waveforms)}; write a file for each."
        )
    ((text, waveform),) = waveforms.items()
    theta, counts = posts.sample(n, seed)
    facts = _facts(posts)
    units = set(facts["unit"].tolist())
    unit = (units.pop() if len(units) == 1 else "") or UNKNOWN_UNIT
    names = zip(waveform.names, waveform.units(unit), strict=True)
    variables: dict[str, Any] = {
        name: (("signal", "draw", "component"), theta[..., i], {"units": units})
        for i, (name, units) in enumerate(names)
    }
    variables["k"] = (("signal", "draw"), counts, {"long_name": "number of components of the draw"})
    variables["k_probs"] = (("signal", "k_value"), posts.k_probs, {"long_name": "p(K | x)"})
    for name in ("noise_std", "noise_std_error"):
        variables[name] = (("signal",), facts.pop(name), {"units": unit})
    variables |= {name: (("signal",), values) for name, values in facts.items()}
    variables |= _evidences(posts)
    attributes = {
        "format": MANY_FORMAT,
        "format_version": MANY_VERSION,
        "slotflow_version": __version__,
        "waveform": text,
        "seed": seed,
        "description": "draws of p(K, Theta | x), equally weighted; NaN where a draw has no such component",
    }
    coordinates = {"signal": np.arange(len(posts)), "k_value": np.arange(posts.k_max + 1)}
    return xr.Dataset(variables, coordinates, attributes)


def write_many(posts: Posteriors, path: PathLike, n: int, seed: int) -> None:
    """Writes `dataset_of_many` to a NetCDF file with its checksum, whole or not at all."""
    found = dataset_of_many(posts, n, seed)
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    names = [name for name, values in found.data_vars.items() if "draw" in values.dims and n]
    encoding = {name: packed for name in names}
    sealed(bytes(found.to_netcdf(engine="h5netcdf", encoding=encoding)), path)


def load_many(path: PathLike) -> Posteriors:
    """Reads what `write_many` wrote; a damaged file is refused, nothing is executed."""
    found = parse_file(Path(path))
    if found.attrs.get("format") != MANY_FORMAT or "signal" not in found.dims:
        raise ValueError(
            f"{path}: expected the posteriors of many signals, received the file of one; read it with Posterior.load."
        )
    if int(found.attrs.get("format_version", 0)) > MANY_VERSION:
        raise ValueError(
            f"{path}: expected a file of version {MANY_VERSION} or older, received a later one; update slotflow."
        )
    return Posteriors([StoredPosteriors(found)])


class StoredPosteriors(Batched):
    """The posteriors of a file.

    Args:
        found: Its content.
    """

    def __init__(self, found: xr.Dataset) -> None:
        self.found = found
        self.waveform = stored_waveform(found.attrs)
        columns = [found[name].values for name in self.waveform.names]
        self._theta: Array = np.stack(columns, -1).astype(float)  # (B, n, K_max, P)
        self._counts = np.asarray(found["k"].values).astype(np.int64)
        sigma, error = (np.asarray(found[f"noise_std{end}"].values) for end in ("", "_error"))
        resolutions = np.asarray(found["resolution"].values)
        super().__init__(
            np.asarray(found["k_probs"].values, dtype=np.float64),
            sigma.astype(float),
            error.astype(float),
            float(resolutions[0]),
        )
        self.log_evidence = stored_evidence(found)
        ess = np.asarray(found["ess"].values, dtype=np.float64)
        self.ess = ess if np.isfinite(ess).any() else None

    def one(self, row: int) -> Posterior:
        """The posterior of one signal, as if from a file of its own."""
        single = self.found.isel(signal=row)
        facts = {name: single[name].item() for name in (*TEXTS, *NUMBERS) if name in single}
        facts = {name: v for name, v in facts.items() if isinstance(v, str) or math.isfinite(v)}
        single = single.drop_vars([*TEXTS, *NUMBERS, "signal"], errors="ignore")
        single["noise_std"].attrs["standard_error"] = single["noise_std_error"].item()
        single = single.drop_vars("noise_std_error").assign_attrs(facts)
        check_dataset(single)
        return LoadedPosterior(single)

    def verdicts(self, rows: Rows) -> list[Verdict]:
        """How far each result can be trusted, as it was judged when it was written."""
        words = [self.found[name].values[rows].tolist() for name in ("verdict", "verdict_reason")]
        return [Verdict(status, reason) for status, reason in zip(*words, strict=True)]

    def sample_joint(
        self, rows: Rows, n: int, seed: int, out: Array | None = None
    ) -> tuple[Array, NDArray[np.int64]]:
        """Draws (K, Θ) of the file, the same ones of each signal."""
        which = LoadedPosterior.rows_of(self._counts.shape[1], n, seed)
        theta = self._theta[rows][:, which]
        if out is not None:
            out[:] = theta
        return theta if out is None else out, self._counts[rows][:, which]


def _facts(posts: Posteriors) -> dict[str, NDArray[Any]]:
    """What is known of each signal without a draw, (n,) each; signals of a batch share unit, clock and method."""
    found: dict[str, NDArray[Any]] = {name: np.full(len(posts), "", dtype=object) for name in TEXTS}
    found |= {name: np.full(len(posts), math.nan) for name in (*NUMBERS, "noise_std_error")}
    found["noise_std"] = posts.noise_std
    priors: dict[int, str] = {}

    def written(prior: Any) -> str:
        if prior is not None and id(prior) not in priors:
            priors[id(prior)] = json.dumps(plain(asdict(prior)))
        return "" if prior is None else priors[id(prior)]

    for part, rows, places in posts.batches():
        if isinstance(part, StoredPosteriors):  # those of a file may differ in everything
            for name in found.keys() & part.found.data_vars.keys():
                found[name][places] = part.found[name].values[rows]
            continue
        one = part if isinstance(part, Posterior) else part.one(int(rows[0]))
        found["method"][places], found["unit"][places] = one.method, one.unit
        found["resolution"][places], found["t_ref"][places] = one.resolution, one.t_ref
        if part.noise_std_error is not None:
            found["noise_std_error"][places] = np.atleast_1d(part.noise_std_error)[rows]
        if part.ess is not None:
            found["ess"][places] = np.atleast_1d(part.ess)[rows]
        known = [part.prior] if isinstance(part, Posterior) else map(part.prior_of, rows.tolist())
        found["prior"][places] = [written(prior) for prior in known]
    for name, values in (("verdict", "status"), ("verdict_reason", "reason")):
        found[name][:] = [getattr(verdict, values) for verdict in posts.verdicts]
    return {name: x.astype(str) if x.dtype == object else x for name, x in found.items()}


def _evidences(posts: Posteriors) -> dict[str, Any]:
    """Ln Z_K of each signal with its error, (n, K_max + 1) each; NaN where a signal has none, nothing if none has."""
    table = np.full((len(posts), posts.k_max + 1, 2), np.nan)
    for part, rows, places in posts.batches():
        if part.log_evidence is not None:
            own = part.log_evidence if isinstance(part, Batched) else part.log_evidence[None]
            table[places, : part.k_max + 1] = own[rows]
    if np.isnan(table).all():
        return {}
    dims = ("signal", "k_value")
    return {
        "log_evidence": (dims, table[..., 0], {"long_name": "ln Z_K"}),
        "log_evidence_error": (dims, table[..., 1], {"long_name": "standard error of ln Z_K"}),
    }
