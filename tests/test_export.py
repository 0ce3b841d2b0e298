"""Posteriors for other programs: tables, catalogues, ArviZ, Eryn."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from posterior_helpers import TONES, WIDTHS, gaussian_posterior
from statistics_helpers import assert_within

from slotflow import Posterior

N = 4000


@pytest.fixture
def post() -> Posterior:
    return gaussian_posterior([0.1, 0.2, 0.3, 0.4])


def test_to_dataframe(post: Posterior, seed: int) -> None:
    frame = post.to_dataframe(n=500, seed=seed)
    theta, counts = post.sample_joint(500, seed)
    assert len(frame) == counts.sum() and frame["draw"].nunique() == (counts > 0).sum()
    assert (frame.groupby("draw")["k"].first() == counts[counts > 0]).all()
    assert set(frame["component"]) == {1, 2, 3}
    for j in (1, 2, 3):  # the amplitude tells which it is
        mine = frame[frame["component"] == j]
        assert np.abs(mine["frequency"] - TONES[j - 1, 2]).max() < 5 * WIDTHS[2]
    np.testing.assert_allclose(
        np.sort(frame["amplitude"]), np.sort(theta[..., 0][theta[..., 0] > 0])
    )


def test_to_catalogue(post: Posterior, seed: int) -> None:
    frame = post.to_catalogue(n=N, seed=seed)
    assert frame.index.tolist() == [1, 2, 3] and frame.index.name == "component"
    np.testing.assert_allclose(frame["existence"], [0.9, 0.7, 0.4], atol=0.01)
    m = N * frame["existence"].to_numpy()
    for i, name in enumerate(("amplitude", "phase", "frequency")):
        sd = WIDTHS[i]
        offset = frame[f"{name}_median"].to_numpy() - TONES[:, i]
        if name == "phase":  # the first is near 0
            offset = np.mod(offset + np.pi, 2 * np.pi) - np.pi
        assert_within(offset, 0.0, 1.26 * sd / np.sqrt(m))
        assert_within(frame[f"{name}_sd"], sd, sd / np.sqrt(2 * m))
        np.testing.assert_allclose(frame[f"cov_{name}_{name}"], frame[f"{name}_sd"] ** 2)
    covariance = frame["cov_amplitude_frequency"].to_numpy()
    assert_within(covariance, 0.0, WIDTHS[0] * WIDTHS[2] / np.sqrt(m))
    assert set(frame["verdict"]) == {"approximate"} and "amortized" in frame.attrs["verdict"]


def test_catalogue_of_correlated_draws(seed: int) -> None:
    post = gaussian_posterior([0.0, 1.0, 0.0, 0.0])
    plain = post.slots.sample

    def tilted(n: int, k: int, seed: int) -> Any:
        theta = plain(n, k, seed)
        theta[..., 0] = 1 + 0.5 * (theta[..., 2] - TONES[0, 2])
        return theta

    post.slots.sample = tilted  # type: ignore[method-assign]
    row = post.to_catalogue(n=N, seed=seed).loc[1]
    assert row["cov_amplitude_frequency"] == pytest.approx(0.5 * row["cov_frequency_frequency"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_catalogue_files(post: Posterior, tmp_path: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"tones.{suffix}"
    frame = post.to_catalogue(path, n=200)
    read = pd.read_csv(path, index_col=0) if suffix == "csv" else pd.read_parquet(path)
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_catalogue_of_nothing(tmp_path: Path) -> None:
    post = gaussian_posterior([1.0, 0.0, 0.0, 0.0])
    frame = post.to_catalogue(tmp_path / "none.csv", n=50)
    assert len(frame) == 0 and "cov_phase_frequency" in frame
    full = gaussian_posterior([0.0, 1.0, 0.0, 0.0]).to_catalogue(n=50)
    assert list(frame.columns) == list(full.columns)
    assert len(post.to_dataframe(n=50)) == 0
    assert len(pd.read_csv(tmp_path / "none.csv")) == 0


def test_catalogue_refuses(post: Posterior, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.csv \.parquet, received '\.xlsx'"):
        post.to_catalogue(tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match="n >= 1 draws, received 0"):
        post.to_catalogue(n=0)


def test_a_missing_package_is_named(
    post: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("arviz", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=r"pip install 'slotflow\[parquet\]' or write a \.csv"):
        post.to_catalogue(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"pip install 'slotflow\[arviz\]'"):
        post.to_arviz()
    assert not list(tmp_path.iterdir())


def test_to_eryn(post: Posterior, seed: int) -> None:
    found = post.to_eryn(n=300, seed=seed)
    theta, counts = post.sample_joint(300, seed)
    assert found["coords"].shape == (300, 3, 3) and found["inds"].dtype == np.bool_
    np.testing.assert_array_equal(found["nleaves"], counts)
    np.testing.assert_array_equal(found["inds"].sum(1), counts)
    np.testing.assert_array_equal(np.isfinite(found["coords"][..., 0]), found["inds"])
    np.testing.assert_array_equal(found["coords"], theta)


def check_groups(tree: Any, n: int) -> None:
    """What ArviZ is given, as InferenceData or as DataTree."""
    group = tree["posterior"]
    assert dict(group.sizes) == {"chain": 1, "draw": n, "component": 3}
    assert group["k"].dims == ("chain", "draw")
    absent = np.isnan(group["frequency"].values[0])
    np.testing.assert_array_equal((~absent).sum(1), group["k"].values[0])
    np.testing.assert_array_equal(absent, np.isnan(group["amplitude"].values[0]))
    shares = (~absent).mean(0)
    assert_within(shares, [0.9, 0.7, 0.4], np.sqrt(0.25 / n))
    assert group.attrs["inference_library"] == "slotflow"
    assert tree["observed_data"]["long"].dims == ("time_long",)
    exists = tree["constant_data"]["existence"]
    assert exists.dims == ("component",)
    np.testing.assert_allclose(exists, [0.9, 0.7, 0.4], atol=0.02)
    # ArviZ 1.x joins the variables for a summary: no coordinate may belong to some of them only.
    assert set(group.coords) == {"chain", "draw", "component"}


def test_to_arviz(post: Posterior, seed: int) -> None:
    arviz = pytest.importorskip("arviz")
    found = post.to_arviz(n=400, seed=seed)
    check_groups(found, 400)
    table = arviz.summary(
        found
    )  # ArviZ 1.x gives rounded text, and NaN where draws lack a component
    assert float(table.loc["k", "mean"]) == pytest.approx(2.0, abs=0.3)
    assert {"amplitude[1]", "frequency[3]"} <= set(table.index)


def test_to_arviz_as_a_tree(post: Posterior, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """What ArviZ 1.0 and later work on."""
    xarray = import_module("xarray")
    if not hasattr(xarray, "DataTree"):
        pytest.skip("this xarray has no DataTree")

    class Later:
        __version__ = "1.2.0"

    monkeypatch.setattr("slotflow.core.packages.import_module", lambda name: Later)
    found = post.to_arviz(n=400, seed=seed)
    assert isinstance(found, xarray.DataTree)
    check_groups(found, 400)
