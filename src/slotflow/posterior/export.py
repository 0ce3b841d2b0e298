"""A posterior for other programs: pandas tables, catalogues, ArviZ and Eryn.

Components have the labels of `alignment.py` everywhere but in Eryn's layout, which knows none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.packages import needed
from slotflow.posterior.summaries import PARAMETERS, moments, unwrapped

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from slotflow.posterior.posterior import Posterior

__all__ = ["to_arviz", "to_catalogue", "to_dataframe", "to_eryn"]

Array = NDArray[np.float64]

CATALOGUES = (".csv", ".parquet")


def to_dataframe(post: Posterior, n: int, seed: int) -> pd.DataFrame:
    """One row per draw and tone: draw, k, component (0: none of the named ones), existence, A, φ, f.

    Draws without tones have no row.
    """
    import pandas as pd

    from slotflow.posterior.alignment import align

    theta, counts = post.sample_joint(n, seed)
    found = align(theta, counts, post.k_probs, post.resolution)
    draw, tone = np.nonzero(np.isfinite(theta[..., 2]))
    label = found.labels[draw, tone]
    columns: dict[str, Any] = {"draw": draw, "k": counts[draw], "component": label + 1}
    columns["existence"] = np.append(found.existence, np.nan)[label]
    columns |= {name: theta[draw, tone, i] for i, name in enumerate(PARAMETERS)}
    frame = pd.DataFrame(columns)
    return frame.sort_values(["draw", "component", "frequency"], ignore_index=True)


def to_catalogue(post: Posterior, path: str | Path | None, n: int, seed: int) -> pd.DataFrame:
    """One row per component over all K, in the order of their frequencies.

    Existence; median, sd, 5 % and 95 % of each parameter; variances and covariances of the three, phases taken around
    their circular mean; the verdict's word. Each is of the joint draws that have the component, whatever their K.

    Args:
        post: The posterior.
        path: File to write, whole or not at all: .csv or .parquet; None: none.
        n: Joint draws.
        seed: Their seed.
    """
    import pandas as pd

    suffix = None if path is None else Path(path).suffix.lower()
    if suffix is not None and suffix not in CATALOGUES:
        raise ValueError(
            f"{path}: expected a catalogue's name to end in one of {' '.join(CATALOGUES)}, received "
            f"{suffix or 'no ending'!r}; rename it."
        )
    if n < 1:
        raise ValueError(f"to_catalogue expects n >= 1 draws, received {n}.")
    if suffix == ".parquet":
        needed("pyarrow", "parquet", "or write a .csv file")
    found = post.aligned(n, seed)
    rows: list[dict[str, Any]] = []
    for j, exists in enumerate(found.existence):
        draws = found.theta[np.isfinite(found.theta[:, j, 2]), j : j + 1]  # (m, 1, 3)
        row: dict[str, Any] = {"component": j + 1, "existence": float(exists)}
        row |= {name: float(value[0]) for name, value in moments(draws).items()}
        covariance = np.cov(unwrapped(draws)[0][:, 0].T, bias=True)  # (3, 3)
        for a in range(3):
            for b in range(a, 3):
                row[f"cov_{PARAMETERS[a]}_{PARAMETERS[b]}"] = float(covariance[a, b])
        rows.append(row | {"verdict": post.verdict.status})
    frame = pd.DataFrame(rows, columns=None if rows else _columns()).set_index("component")
    frame.attrs["verdict"] = str(post.verdict)
    if path is not None:
        from slotflow.core.files import atomic_path

        with atomic_path(path) as temporary:
            if suffix == ".csv":
                frame.to_csv(temporary)
            else:
                frame.to_parquet(temporary, engine="pyarrow")
    return frame


def to_arviz(post: Posterior, n: int, seed: int) -> Any:
    """ArviZ's InferenceData, or the DataTree that ArviZ 1.0 and later work on.

    Group `posterior`: amplitude, phase and frequency, (chain 1, draw n, component J), NaN where a draw lacks a
    component; k, (chain, draw); sigma where it is known. Group `constant_data`: existence of the components, (J,).
    Group `observed_data`: the streams, where they are there.
    Draws are equally weighted and independent of their order: diagnostics of chains mean nothing.
    """
    arviz = needed("arviz", "arviz", "or use to_dataframe")
    groups = _groups(post, n, seed)
    if int(str(arviz.__version__).partition(".")[0]) >= 1:
        import xarray as xr

        return xr.DataTree.from_dict(groups)
    return arviz.InferenceData(**groups)


def to_eryn(post: Posterior, n: int, seed: int) -> dict[str, NDArray[Any]]:
    """Joint draws in Eryn's layout: coords (n, K_max, 3), NaN for leaves that are off; inds; nleaves (n,)."""
    theta, counts = post.sample_joint(n, seed)
    return {
        "coords": theta,
        "inds": np.arange(theta.shape[1]) < counts[:, None],
        "nleaves": counts,
    }


def _groups(post: Posterior, n: int, seed: int) -> dict[str, xr.Dataset]:
    """The groups of `to_arviz`."""
    import xarray as xr

    from slotflow.core.version import __version__
    from slotflow.posterior.alignment import align

    theta, counts = post.sample_joint(n, seed)
    found = align(theta, counts, post.k_probs, post.resolution)
    dims = ("chain", "draw", "component")
    units = (post.unit or "data units", "rad", "Hz")
    variables: dict[str, Any] = {
        name: (dims, found.theta[None, ..., i], {"units": units[i]})
        for i, name in enumerate(PARAMETERS)
    }
    variables["k"] = (dims[:2], counts[None])
    extra, _ = post.extra_variables(n, seed)
    if "sigma" in extra:
        variables["sigma"] = (dims[:2], np.asarray(extra["sigma"][1])[None], {"units": units[0]})
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
        named = zip(("long", "short"), post.observation.channels, strict=False)
        data = {
            name: xr.DataArray(s.values, {f"time_{name}": s.times}, attrs={"units": units[0]})
            for name, s in named
        }
        groups["observed_data"] = xr.Dataset(data)
    return groups


def _columns() -> list[str]:
    """Columns of a catalogue without rows."""
    stats = [f"{name}_{what}" for name in PARAMETERS for what in ("median", "sd", "q05", "q95")]
    pairs = [f"cov_{PARAMETERS[a]}_{PARAMETERS[b]}" for a in range(3) for b in range(a, 3)]
    return ["component", "existence", *stats, *pairs, "verdict"]
