"""A posterior for other programs: pandas tables, catalogues, ArviZ and Eryn.

Components have the labels of `alignment.py` everywhere but in Eryn's layout, which knows none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.files import atomic_path
from slotflow.core.packages import needed
from slotflow.core.version import __version__
from slotflow.posterior.alignment import Alignment, align
from slotflow.posterior.channels import channel_name
from slotflow.posterior.contract import Result
from slotflow.posterior.display import Epoch
from slotflow.posterior.facts import UNKNOWN_UNIT
from slotflow.posterior.moments import STATISTICS, moments, of_likeliest_class, unwrapped
from slotflow.posterior.summaries import covariance_names
from slotflow.signal.waveforms import Classes, Waveform

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = [
    "aligned_table",
    "check_catalogue",
    "to_arviz",
    "to_catalogue",
    "to_dataframe",
    "to_eryn",
    "write_catalogue",
]

CATALOGUE_ENDINGS = (".csv", ".parquet")


def to_dataframe(post: Result, n: int, seed: int) -> pd.DataFrame:
    """One row per draw and component: draw, k, component (0: none of the named ones), existence, parameters.

    Draws without components have no row.
    """
    import pandas as pd

    theta, counts = post.sample_joint(n, seed)
    found = align(theta, counts, post.k_probs, post.resolution, waveform=post.waveform)
    draw, tone = np.nonzero(np.isfinite(post.waveform.place_of(theta)))
    label = found.labels[draw, tone]
    columns: dict[str, Any] = {"draw": draw, "k": counts[draw], "component": label + 1}
    columns["existence"] = np.append(found.existence, np.nan)[label]
    columns |= {name: theta[draw, tone, i] for i, name in enumerate(post.waveform.names)}
    frame = pd.DataFrame(columns)
    return frame.sort_values(["draw", "component", post.waveform.place], ignore_index=True)


def to_catalogue(post: Result, n: int, seed: int, epoch: Epoch) -> pd.DataFrame:
    """One row per component over all K, in the order of their frequencies.

    The columns are existence; median, sd, 5 % and 95 % of each parameter; variances and covariances of the parameters,
    angles taken around their circular mean; and the verdict's word. They are computed from the joint draws that have
    the component, whatever their K.

    Args:
        post: The posterior.
        n: Joint draws.
        seed: Their seed.
        epoch: The instant that phases refer to.
    """
    if n < 1:
        raise ValueError(f"to_catalogue expects n >= 1 draws, received {n}.")
    frame = aligned_table(post.aligned(n, seed), post.waveform, epoch)
    frame["verdict"] = post.verdict.status
    frame.attrs["verdict"] = str(post.verdict)
    frame.attrs["phase_at"] = epoch.words
    return frame


def aligned_table(found: Alignment, waveform: Waveform, epoch: Epoch) -> pd.DataFrame:
    """One row per component of aligned draws: existence, moments and covariances, without the verdict.

    Args:
        found: Joint draws whose columns are components.
        waveform: Names the parameters.
        epoch: The instant that phases refer to.
    """
    import pandas as pd

    present = np.isfinite(waveform.place_of(found.theta))  # (n, J)
    measured = [waveform.column(p.name) for p in waveform.measured]
    rows: list[dict[str, Any]] = []
    for j, exists in enumerate(found.existence):
        draws = epoch.shift(found.theta[present[:, j], j : j + 1], waveform)  # (m, 1, P)
        row: dict[str, Any] = {"component": j + 1, "existence": float(exists)}
        row |= {name: value.tolist()[0] for name, value in moments(draws, waveform).items()}
        kept = unwrapped(of_likeliest_class(draws, waveform), waveform)[0][:, 0]  # (m, P)
        covariance = np.cov(kept[:, measured].T, bias=True)
        upper = covariance[np.triu_indices(len(measured))].tolist()
        rows.append(row | dict(zip(covariance_names(waveform), upper, strict=True)))
    columns = None if rows else _columns(waveform)[:-1]
    return pd.DataFrame(rows, columns=columns).set_index("component")


def write_catalogue(frame: pd.DataFrame, path: str | Path) -> None:
    """Writes a catalogue to a .csv or .parquet file, whole or not at all."""
    with atomic_path(path) as temporary:
        if Path(path).suffix.lower() == ".csv":
            frame.to_csv(temporary)
        else:
            frame.to_parquet(temporary, engine="pyarrow")


def check_catalogue(path: str | Path) -> None:
    """Refuses another kind of file, or one whose package is missing, before anything is computed."""
    suffix = Path(path).suffix.lower()
    if suffix not in CATALOGUE_ENDINGS:
        raise ValueError(
            f"{path}: expected a catalogue's name to end in one of {' '.join(CATALOGUE_ENDINGS)}, received "
            f"{suffix or 'no ending'!r}; rename it."
        )
    if suffix == ".parquet":
        needed("pyarrow", "parquet", "or write a .csv file")


def to_arviz(post: Result, n: int, seed: int) -> Any:
    """ArviZ's InferenceData, or the DataTree that ArviZ 1.0 and later work on.

    Group `posterior`: the waveform's parameters, (chain 1, draw n, component J), NaN where a draw lacks a
    component; k, (chain, draw); sigma where it is known. Group `constant_data`: existence of the components, (J,).
    Group `observed_data`: the streams, unless the posterior came from a file without them.
    Draws are equally weighted and independent of their order: diagnostics of chains mean nothing.
    """
    arviz = needed("arviz", "arviz", "or use to_dataframe")
    groups = _groups(post, n, seed)
    if int(str(arviz.__version__).partition(".")[0]) >= 1:
        import xarray as xr

        return xr.DataTree.from_dict(groups)
    return arviz.InferenceData(**groups)


def to_eryn(post: Result, n: int, seed: int) -> dict[str, NDArray[Any]]:
    """Joint draws in Eryn's layout: coords (n, K_max, P), NaN for leaves that are off; inds; nleaves (n,)."""
    theta, counts = post.sample_joint(n, seed)
    return {
        "coords": theta,
        "inds": np.arange(theta.shape[1]) < counts[:, None],
        "nleaves": counts,
    }


def _groups(post: Result, n: int, seed: int) -> dict[str, xr.Dataset]:
    """The groups of `to_arviz`."""
    import xarray as xr

    theta, counts = post.sample_joint(n, seed)
    found = align(theta, counts, post.k_probs, post.resolution, waveform=post.waveform)
    dims = ("chain", "draw", "component")
    unit = post.unit or UNKNOWN_UNIT
    units = post.waveform.units(unit)
    variables: dict[str, Any] = {
        name: (dims, found.theta[None, ..., i], {"units": units[i]})
        for i, name in enumerate(post.waveform.names)
    }
    variables["k"] = (dims[:2], counts[None])
    if post.has_sigma:
        variables["sigma"] = (dims[:2], post.joint_sigma(n, seed)[None], {"units": unit})
    coordinates: dict[str, Any] = {
        "chain": [0],
        "draw": np.arange(n),
        "component": np.arange(1, len(found.existence) + 1),
    }
    facts = {
        "inference_library": "slotflow",
        "inference_library_version": __version__,
        "method": post.method,
        "verdict": str(post.verdict),
        "t_ref": post.t_ref,
    }
    groups = {
        "posterior": xr.Dataset(variables, coordinates, facts),
        "constant_data": xr.Dataset(
            {"existence": ("component", found.existence, {"long_name": "p(component | x)"})},
            {"component": coordinates["component"]},
        ),
    }
    if post.has_data:
        data = {
            name: xr.DataArray(c.values, {f"time_{name}": c.times}, attrs={"units": unit})
            for name, c in ((channel_name(s), c) for s, c in enumerate(post.observation.channels))
        }
        groups["observed_data"] = xr.Dataset(data)
    return groups


def _columns(waveform: Waveform) -> list[str]:
    """Columns of a catalogue without rows."""
    stats = [f"{p.name}_{what}" for p in waveform.measured for what in STATISTICS]
    kinds = ["class", "class_probability"] if isinstance(waveform, Classes) else []
    return ["component", "existence", *kinds, *stats, *covariance_names(waveform), "verdict"]
