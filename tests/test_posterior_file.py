"""Posteriors in files: what is written comes back, of every method and version, and damage is noticed."""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from posterior_helpers import gaussian_posterior
from scipy.signal import lfilter

from slotflow import Channel, Observation, Posterior, Prior, SlotFlow, Stream, simulate
from slotflow.baselines.laplace_posterior import classical_posterior
from slotflow.posterior.draws import Draws
from slotflow.posterior.file import PLAIN_VERSION, SEAL, VERSION
from slotflow.posterior.netcdf import netcdf
from slotflow.posterior.residual import residual
from slotflow.posterior.sampled import SampledPosterior, SamplerRun
from slotflow.posterior.verdict import Check, Verdict
from slotflow.signal.likelihood import likelihood_of
from slotflow.signal.waveforms import TONE

DATA = Path(__file__).parent / "data"
N = 300


def stated(**changes: Any) -> Posterior:
    """A posterior of which everything that a file can hold is known."""
    prior = Prior(k_min=0, k_max=3, k_probs=(1, 2, 3, 4), amplitude_law="loguniform")
    post = gaussian_posterior([0.2, 0.1, 0.3, 0.4], prior=prior, **changes)
    long = replace(
        post.observation.long, t0=-3.0, sigma=0.25, t_ref=1.5e9, unit="mV", filled=((3, 5),)
    )
    long = replace(long, notes=("the step is said to be 0.1 s", "σ, of course"))
    post.observation = Observation(
        long, replace(post.observation.short, t_ref=1.5e9) if post.observation.short else None
    )
    return post


def test_to_dataset(seed: int) -> None:
    post = stated()
    dataset = post.to_dataset(n=200, seed=seed)
    theta, k = post.sample_joint(200, seed)
    units = (("amplitude", "mV"), ("phase", "rad"), ("frequency", "Hz"))
    for i, (name, unit) in enumerate(units):
        assert dataset[name].dims == ("draw", "component") and dataset[name].attrs["units"] == unit
        np.testing.assert_array_equal(dataset[name].values, theta[..., i])
    np.testing.assert_array_equal(dataset["k"].values, k)
    np.testing.assert_array_equal(dataset["k_probs"].values, post.k_probs)
    assert dataset["k_value"].values.tolist() == [0, 1, 2, 3]
    assert float(dataset["noise_std"]) == 0.3
    facts = dataset.attrs
    assert (facts["method"], facts["seed"], facts["unit"]) == ("gaussian", seed, "mV")
    assert (facts["t_ref"], facts["filled_samples"]) == (1.5e9, 3)
    assert (facts["format"], facts["format_version"]) == ("slotflow posterior", PLAIN_VERSION)
    assert facts["verdict"] == "approximate" and '"loguniform"' in facts["prior"]


def test_save_writes_netcdf(tmp_path: Path, seed: int) -> None:
    """Any reader of NetCDF can open it."""
    post, path = stated(), tmp_path / "posterior.nc"
    post.save(path, n=100, seed=seed)
    with xr.open_dataset(path) as read:
        xr.testing.assert_identical(read.load(), post.to_dataset(n=100, seed=seed))
    post.save(path, n=5, seed=seed)  # replaces
    with xr.open_dataset(path, engine="h5netcdf") as read:
        assert read.sizes["draw"] == 5
    assert [p.name for p in tmp_path.iterdir()] == ["posterior.nc"]


def objects(content: bytes) -> dict[str, Any]:
    """What an HDF5 file holds: of each object its layout, type, values and attributes, and which scales it is along."""
    found: dict[str, Any] = {}
    with h5py.File(io.BytesIO(content)) as file:
        for name, one in [("/", file), *file.items()]:
            links = {"REFERENCE_LIST", "DIMENSION_LIST", "_NCProperties"}
            facts = {
                a: (repr(v), np.asarray(v).dtype) for a, v in one.attrs.items() if a not in links
            }
            found[name] = [facts]
            if name != "/":
                scales = [[scale.name for scale in axis.values()] for axis in one.dims]
                packed = (one.chunks, one.compression, one.compression_opts, one.shuffle)
                values = one[()].tobytes() if one.dtype != ">f4" else b""
                found[name] += [scales, one.shape, one.dtype, packed, repr(one.fillvalue), values]
    return found


def test_the_file_is_the_one_that_xarray_writes(seed: int) -> None:
    """Each dataset, each attribute and its type, the compression and the order in the file."""
    dataset, names = stated().to_dataset(n=300, seed=seed), ["amplitude", "phase", "k"]
    assert {values.dtype.kind for values in dataset.variables.values()} == {"f", "i"}
    packed = {"zlib": True, "complevel": 1, "shuffle": True}
    slow = bytes(dataset.to_netcdf(engine="h5netcdf", encoding=dict.fromkeys(names, packed)))
    assert objects(netcdf(dataset, names)) == objects(slow)
    assert objects(netcdf(dataset)) != objects(slow)
    none = dataset.isel(draw=slice(0, 0))
    xr.testing.assert_identical(xr.load_dataset(netcdf(none), engine="h5netcdf"), none)


def test_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post, path = stated(), tmp_path / "posterior.nc"
    post.save(path, n=5)
    before = path.read_bytes()

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("slotflow.posterior.file.netcdf", fail)
    with pytest.raises(OSError, match="disk full"):
        post.save(path, n=50)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["posterior.nc"]


FULL_DISK = """
import resource, signal, sys
from test_posterior_file import stated

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # what lies beyond fails as on a full disk
try:
    stated().save(sys.argv[1], n=5000)
except OSError as error:
    print("OSError", error.errno)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="file sizes cannot be limited")
def test_a_full_disk_is_one_error_without_tracebacks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "posterior.nc")]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"OSError {errno.EFBIG}\n" and done.stderr == ""
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- what comes back


def test_everything_comes_back(tmp_path: Path, seed: int) -> None:
    post, path = stated(), tmp_path / "a.nc"
    post.save(path, n=N, seed=seed)
    read = Posterior.load(path)
    theta, counts = post.sample_joint(N, seed)
    for again in (read.sample_joint(N), read.sample_joint(N, 7)):  # the file's draws in its order
        np.testing.assert_array_equal(again[0], theta)
        np.testing.assert_array_equal(again[1], counts)
    np.testing.assert_array_equal(read.k_probs, post.k_probs)
    assert (read.method, read.prior, read.unit) == ("gaussian", post.prior, "mV")
    assert (read.noise_std, read.noise_std_error, read.t_ref) == (0.3, 0.01, 1.5e9)
    assert (read.k_map, read.filled_samples) == (3, 3)
    assert read.resolution == post.resolution and read.verdict == post.verdict
    assert read.log_evidence is None and read.ess is None
    assert read.has_data and read.observation.short is not None
    for name in ("dt", "t0", "sigma", "t_ref", "unit", "filled", "notes"):
        assert getattr(read.observation.long, name) == getattr(post.observation.long, name)
    np.testing.assert_array_equal(read.observation.long.values, post.observation.long.values)
    np.testing.assert_array_equal(read.observation.short.values, post.observation.short.values)  # type: ignore[union-attr]
    limit, before = read.upper_limit(), post.upper_limit()
    assert limit is not None and before is not None
    np.testing.assert_array_equal(limit.amplitude, before.amplitude)
    assert len(read.sample(50, k=2)) == 50 and read.sample(7).shape == (7, 3, 3)
    assert np.isnan(read.sample_sigma(4)).all()
    assert len(read.residual()) == 2


def test_a_file_of_a_file_is_the_same(tmp_path: Path, seed: int) -> None:
    stated().save(tmp_path / "a.nc", n=N, seed=seed)
    Posterior.load(tmp_path / "a.nc").save(tmp_path / "b.nc", n=N, seed=seed)
    with xr.open_dataset(tmp_path / "a.nc") as a, xr.open_dataset(tmp_path / "b.nc") as b:
        xr.testing.assert_identical(a.load(), b.load())


def test_large_data_stay_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without data there are draws, tables and limits; what needs the data says so."""
    monkeypatch.setattr("slotflow.posterior.channels.LARGEST_DATA", 100)
    post = stated()
    post.save(tmp_path / "a.nc", n=N)
    read = Posterior.load(tmp_path / "a.nc")
    assert not read.has_data and read.observation is None
    assert len(read.summary()) == 3 and len(read.to_catalogue(n=100)) == 3
    assert read.resolution == post.resolution and read.filled_samples == 3
    limit, before = read.upper_limit(), post.upper_limit()
    assert limit is not None and before is not None
    np.testing.assert_array_equal(limit.amplitude, before.amplitude)
    for call in (read.residual, lambda: read.upper_limit([2.6]), read.refine):
        with pytest.raises(ValueError, match="expected a posterior that holds its data"):
            call()
    read.save(tmp_path / "b.nc", n=N)
    assert Posterior.load(tmp_path / "b.nc").upper_limit() is not None
    read.observation = post.observation  # the data from elsewhere
    assert len(read.residual()) == 2 and read.has_data


def test_a_k_without_draws_is_refused(tmp_path: Path) -> None:
    gaussian_posterior([0.0, 0.0, 1e-9, 1 - 1e-9]).save(tmp_path / "a.nc", n=20)
    read = Posterior.load(tmp_path / "a.nc")
    with pytest.raises(ValueError, match="one of 3, received 2"):
        read.sample(5, k=2)
    theta, counts = read.sample_joint(60)  # more than there are
    assert theta.shape == (60, 3, 3) and (counts == 3).all()
    assert np.isnan(read.log_prob(read.sample(2))).all()


# ---------------------------------------------------------------- every method


@pytest.fixture(scope="module")
def answers(debug_model: SlotFlow) -> dict[str, Posterior]:
    """One signal, answered by every method; the samplers' draws are made from the exact ones."""
    config, prior = debug_model.config, debug_model.config.prior
    simulated = simulate(prior, 1, config.long, config.short, seed=4, k=2, mode="physical")
    data = simulated.observation(0)
    network = debug_model.infer(data, refine=False)
    exact = debug_model.infer(data, max_seconds=300)
    draws = Draws(3, {2: exact.sample(500)}, {2: exact.sample_sigma(500)})
    probs, s = np.eye(4)[2], SamplerRun(400.0, 300.0, 0.0, 9, 1.0, 2.0, 10, 50, 1.0)
    evidence = np.array([[-50.0, 0.1], [-math.inf, math.inf], [-10.0, 0.2], [-20.0, 0.1]])
    particles = SamplerRun(400.0, 300.0, 0.0, 9, 1.0, 2.0, 10, 50, 1.0)
    return {
        "network": network,
        "exact": exact,
        "rjmcmc": SampledPosterior(draws, probs, data, prior, "rjmcmc", s),
        "smc": SampledPosterior(draws, probs, data, prior, "smc", particles, evidence),
        "classical": classical_posterior(data, prior),
    }


@pytest.mark.parametrize("name", ["network", "exact", "rjmcmc", "smc", "classical"])
def test_every_method(answers: dict[str, Posterior], name: str, tmp_path: Path) -> None:
    post = answers[name]
    post.save(tmp_path / "a.nc", n=N, seed=2)
    read = Posterior.load(tmp_path / "a.nc")
    assert read.method == post.method and read.prior == post.prior
    assert read.verdict == post.verdict and read.k_map == post.k_map
    np.testing.assert_array_equal(read.sample_joint(N)[0], post.sample_joint(N, 2)[0])
    assert (np.isfinite(read.sample_sigma(5)) == (name != "network")).all()
    assert (read.ess is not None) == (name in ("exact", "rjmcmc", "smc"))
    assert (read.log_evidence is not None) == (name in ("exact", "smc", "classical"))
    assert read.ess == post.ess and read.has_sigma == post.has_sigma
    if post.log_evidence is not None and read.log_evidence is not None:
        np.testing.assert_array_equal(read.log_evidence, post.log_evidence)
    assert read.tables_by_k().keys() == post.tables_by_k().keys()
    before, after = post.summary(n=N, seed=2), read.summary(n=N)
    spread = before["frequency_sd"].to_numpy()
    assert (np.abs(after["frequency_median"] - before["frequency_median"]) < spread).all()
    read.save(tmp_path / "b.nc", n=N, seed=2)
    with xr.open_dataset(tmp_path / "a.nc") as a, xr.open_dataset(tmp_path / "b.nc") as b:
        xr.testing.assert_identical(a.load(), b.load())
    read.plot()


@pytest.mark.parametrize("name", ["network", "exact", "rjmcmc", "smc", "classical"])
def test_one_contract(answers: dict[str, Posterior], name: str) -> None:
    """Every method answers every question, or says with a ValueError where to get the answer."""
    post = answers[name]
    k, size = post.k_map, post.waveform.size
    assert post.sampled(k) and post.has_sigma == (name != "network")
    assert (post.ess is not None) == (name in ("exact", "rjmcmc", "smc"))
    assert (post.log_evidence is not None) == (name in ("exact", "smc", "classical"))
    if post.log_evidence is not None:
        assert post.log_evidence.shape == (post.k_max + 1, 2)
    assert post.best_fit().shape == post.best_fit(k).shape == post.centres().shape == (k, size)
    assert [len(rest) for rest in post.residual(k)] == [s.n for s in post.observation.channels]
    assert (post.known_fit(k) is not None) == (name in ("exact", "classical"))
    assert post.verdict_at(1e-3).status == post.verdict.status and post.window_rows == ()
    sigma = post.joint_sigma(50, seed=1)
    assert np.isfinite(sigma).all() == post.has_sigma and len(sigma) == 50
    if name == "network":
        assert post.amortized is post
        with pytest.raises(ValueError, match=r"no draws of it; the exact step"):
            post.sample_sigma(3)
    elif name == "exact":
        assert post.amortized.method + "+exact" == post.method
        assert len(post.weighted().weights) > 0
    else:
        with pytest.raises(ValueError, match=r"does not hold a network's answer; ask the model"):
            _ = post.amortized
    if name != "exact":
        with pytest.raises(ValueError, match=r"has no weighted draws; sample"):
            post.weighted()


def test_verdicts_keep_their_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post = stated()
    verdict = Verdict("misfit", "because; of ‘this’", (Check("peak", 1e-9, "a peak"),))
    monkeypatch.setattr(Posterior, "verdict", verdict)
    post.save(tmp_path / "a.nc", n=5)
    monkeypatch.undo()
    assert Posterior.load(tmp_path / "a.nc").verdict == verdict


# ---------------------------------------------------------------- older files


@pytest.mark.parametrize(("name", "status"), [("exact", "exact"), ("network", "approximate")])
def test_files_of_version_1(name: str, status: str, tmp_path: Path) -> None:
    """Written by slotflow 0.1.0 before files had a version: no data, no prior."""
    read = Posterior.load(DATA / f"posterior-0.1.0-{name}.nc")
    assert read.verdict.status == status and read.k_map == 3 and read.k_max == 10
    assert not read.has_data and read.prior is None and read.upper_limit() is None
    assert read.resolution == 0 and read.noise_std_error is None
    assert read.sample(60).shape == (60, 3, 3)
    frame = read.summary()
    assert len(frame) == 3 and (frame["existence"] > 0.99).all()
    np.testing.assert_allclose(frame["frequency_median"], [2.6041, 2.6909, 2.8526], atol=2e-4)
    assert (read.log_evidence is not None) == (name == "exact")
    read.plot(path=tmp_path / "a.png")
    read.save(tmp_path / "b.nc")
    assert Posterior.load(tmp_path / "b.nc").k_map == 3


def test_a_file_of_version_2_before_waveforms() -> None:
    """Written by slotflow 0.1.0, whose files did not say what a component is: everything in them comes back."""
    read = Posterior.load(DATA / "posterior-0.1.0-version-2.nc")
    assert "waveform" not in read.attributes and read.waveform is TONE
    assert (read.k_map, read.k_max, read.unit, read.t_ref) == (1, 10, "mV", 1.5e9)
    np.testing.assert_allclose(read.k_probs[:3], [0.10245, 0.81739, 0.07461], atol=1e-5)
    assert read.verdict.status == "exact" and len(read.verdict.checks) > 3
    assert read.prior == Prior(
        k_min=0,
        k_max=3,
        frequency=(1.0, 1.2),
        amplitude=(0.02, 2.0),
        sigma=(0.1, 2.0),
        min_separation=0.0,
    )
    assert read.ess == pytest.approx(0.88285, abs=1e-5) and read.noise_std_error is not None
    assert read.log_evidence is not None
    np.testing.assert_allclose(read.log_evidence[1], [-377.25419, 0.00772], atol=1e-5)
    assert read.has_data and read.observation.long.notes == ("from a table",)
    limit = read.upper_limit()
    assert limit is not None and limit.k0_prob == pytest.approx(0.10245, abs=1e-5)
    frame = read.summary()
    found = frame[["existence", "amplitude_median", "phase_median", "frequency_median"]]
    np.testing.assert_allclose(found, [[0.897551, 0.148261, 1.190667, 1.109562]], atol=1e-6)
    assert np.isfinite(read.joint_sigma(80)).all() and len(read.residual()[0]) == 500


def test_an_unknown_waveform_is_refused(tmp_path: Path) -> None:
    rewritten(tmp_path, attrs={"waveform": "warble"})
    with pytest.raises(ValueError, match=r"expected a waveform, .*'warble'.* update slotflow"):
        Posterior.load(tmp_path / "a.nc")


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    rewritten(tmp_path, attrs={"format_version": VERSION + 1})
    with pytest.raises(ValueError, match=rf"version {VERSION} or older, received .* update"):
        Posterior.load(tmp_path / "a.nc")


# ---------------------------------------------------------------- damage


def rewritten(folder: Path, attrs: dict[str, Any] | None = None, **variables: Any) -> Path:
    """A file that another program has changed: variables and attributes replaced, no checksum."""
    found = stated().to_dataset(n=30).assign(variables).assign_attrs(attrs or {})
    found.to_netcdf(folder / "a.nc", engine="h5netcdf")
    return folder / "a.nc"


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    path = rewritten(tmp_path)
    assert SEAL not in path.read_bytes()
    assert Posterior.load(path).k_map == 3
    stated().save(path, n=30)
    with h5py.File(path, "a") as file:  # an attribute added by hand drops or spoils the checksum
        file.attrs["comment"] = "mine"
    assert SEAL not in path.read_bytes()
    assert Posterior.load(path).attributes["comment"] == "mine"


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.99])
def test_truncated_files(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.nc"
    stated().save(path, n=30)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"a\.nc: expected .*(write|give)"):
        Posterior.load(path)


def test_any_changed_byte_is_noticed(tmp_path: Path, seed: int) -> None:
    """Before a parser sees the file; in the control nothing is changed."""
    path = tmp_path / "a.nc"
    stated().save(path, n=30)
    content = path.read_bytes()
    inner = content[: content.rfind(SEAL)]
    assert hashlib.sha256(inner).hexdigest().encode() in content[len(inner) :]
    for place in np.random.default_rng(seed).integers(8, len(inner), 60).tolist():
        changed = bytearray(content)
        changed[place] ^= 0x41
        path.write_bytes(bytes(changed))
        with pytest.raises(ValueError, match="another checksum: the file is damaged"):
            Posterior.load(path)
    path.write_bytes(content)
    assert Posterior.load(path).k_map == 3


def test_damage_that_the_library_would_loop_on_is_met_first(tmp_path: Path) -> None:
    """In a file without our checksum: the free rest of a block of objects is said to have no size."""
    path = rewritten(tmp_path)
    content = bytearray(path.read_bytes())
    place = content.find(b"GCOL\x01")
    assert place > 0
    content[place + 16 : place + 32] = bytes(16)
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"a\.nc: .*an entry of an impossible size"):
        Posterior.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b"CDF\x01 an older NetCDF", "a file that begins with b'CDF"),
        (b"time,x\n0,1\n", "a file that begins with b'time,x"),
        (b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.", "a file that begins with"),
        (b"\x89HDF\r\n\x1a\n" + bytes(200), "damaged or foreign"),
    ],
)
def test_foreign_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Posterior.load(path)
    with pytest.raises(ValueError, match="no such file"):
        Posterior.load(tmp_path / "none.nc")
    with pytest.raises(ValueError, match="no such file"):
        Posterior.load(tmp_path)


def test_netcdf_of_something_else(tmp_path: Path) -> None:
    xr.Dataset({"flux": ("time", np.zeros(3))}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"without amplitude, .* Observation\.read"):
        Posterior.load(tmp_path / "a.nc")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k_probs": ("k_value", [0.5, math.nan, 0.2, 0.3])}, "no probability"),
        ({"k_probs": ("k_value", [5.0, 1.0, 1.0, 1.0])}, "no probability"),
        ({"k": ("draw", np.full(30, 7))}, "outside its range"),
        ({"k": ("draw", np.full(30, 1))}, "as many components as they say"),
        ({"k": ("draw", ["two"] * 30)}, "no numbers"),
        ({"phase": (("draw", "other"), np.zeros((30, 2)))}, "different shapes"),
        ({"attrs": {"prior": "{'k_max': 3}"}}, "contradict each other"),
        ({"attrs": {"prior": '{"surprise": 1}'}}, "contradict each other"),
        ({"attrs": {"prior": '{"k_max": -1}'}}, "contradict each other"),
    ],
)
def test_contradictions(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"a\.nc: .*{message}.* write it again"):
        Posterior.load(rewritten(tmp_path, **changes))


def test_links_to_other_files_are_refused(tmp_path: Path) -> None:
    path = rewritten(tmp_path)
    with h5py.File(path, "a") as file:
        file["secret"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(ValueError, match="'secret' that refers to other files"):
        Posterior.load(path)


def test_data_of_one_stream_without_sigma(tmp_path: Path) -> None:
    post = gaussian_posterior([0.0, 1.0, 0.0, 0.0], short=False, prior=None)
    post.observation = Observation(Stream(post.observation.long.values, 0.1))
    post.save(tmp_path / "a.nc", n=10)
    read = Posterior.load(tmp_path / "a.nc")
    assert read.observation.short is None and read.observation.long.sigma is None
    assert read.prior is None


def test_any_channels_come_back(tmp_path: Path) -> None:
    """Uneven times, errors, segments, complex samples, gains and a third channel survive a file; plain data do not
    need its newer version."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 9.0, 40))
    x = rng.standard_normal(40) + 1j * rng.standard_normal(40)
    uneven = Channel(x, times=t, errors=1 + t, segments=np.arange(40) // 20, name="A", trend=2)
    even = Channel(x[:30], 0.3, gain=0.5 - 2j, time_unit="d")
    gap = Channel(np.where(np.arange(40) == 7, np.nan, x), 0.1)
    post = gaussian_posterior([0.0, 1.0, 0.0, 0.0], short=False, prior=None)
    post.save(tmp_path / "plain.nc", n=10)
    post.observation = Observation([uneven, even, gap])
    post.save(tmp_path / "a.nc", n=10)
    read = Posterior.load(tmp_path / "a.nc").observation
    for old, new in zip(post.observation.channels, read.channels, strict=True):
        for name in ("values", "times", "errors", "segments"):
            np.testing.assert_array_equal(getattr(old, name), getattr(new, name))
        for name in ("name", "trend", "gain", "missing", "time_unit", "is_even"):
            assert getattr(old, name) == getattr(new, name)
    versions = [
        int(xr.load_dataset(tmp_path / f"{name}.nc").attrs["format_version"])
        for name in ("plain", "a")
    ]
    assert versions == [PLAIN_VERSION, VERSION]


@pytest.mark.parametrize("noise", ["ar(1)", "local", "power_law"])
def test_a_file_knows_how_to_whiten_its_data(noise: str, tmp_path: Path) -> None:
    """Red noise: the residual of a loaded posterior is as white as before, and red where the filter is forgotten."""
    rng, t = np.random.default_rng(4), 0.1 * np.arange(600)
    red = lfilter([1.0], [1.0, -0.8], rng.normal(size=700))[100:]
    even = noise != "power_law"  # red modes are for uneven times
    kept = np.ones(600, bool) if even else rng.random(600) < 0.7
    channel = Channel((red + 2 * np.cos(2 * np.pi * 1.7 * t))[kept], times=t[kept])
    prior = Prior(k_min=1, k_max=1, frequency=(0.9, 2.5), amplitude=(0.5, 4), sigma=(0, 5))
    options = {"noise": noise, "max_seconds": 60, "draws": 500}
    post = SlotFlow.from_pretrained().infer(Observation(channel), prior=prior, **options)
    post.save(tmp_path / "post.nc", n=N)
    back = Posterior.load(tmp_path / "post.nc")
    assert back.noise_model is not None and back.noise_model.local == (noise == "local")

    def correlation(rest: Any) -> float:
        return float(np.corrcoef(rest[1:], rest[:-1])[0, 1])

    theta = post.best_fit()
    fresh, stored = (residual(one.statistics(), theta)[0] for one in (post, back))
    np.testing.assert_allclose(stored, fresh, rtol=1e-6, atol=1e-8 * np.abs(fresh).max())
    assert abs(correlation(stored)) < 4 / np.sqrt(len(stored))
    forgotten = likelihood_of(post.observation, None, prior.frequency)
    assert correlation(residual(forgotten, theta)[0]) > 0.4
    back.save(tmp_path / "again.nc", n=N)
    assert Posterior.load(tmp_path / "again.nc").noise_model is not None
