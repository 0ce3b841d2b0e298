"""Any finite series gives a result or a ValueError with advice; nothing that a file holds is executed."""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from slotflow import Observation, SlotFlow
from slotflow.cli import app
from slotflow.data.read.files import read_observations
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SLOW = settings(QUICK, max_examples=15)


@pytest.fixture(scope="module")
def model(zoom: SlotFlow) -> SlotFlow:
    """The default model, which all tests share."""
    return zoom


@st.composite
def series(draw: st.DrawFn) -> np.ndarray:
    """Finite numbers of any size: noise, tones, constants, spikes, steps, ramps, hand-picked values."""
    n = draw(st.one_of(st.integers(1, 60), st.integers(60, 600)))
    scale = draw(st.sampled_from([1.0, 1e-3, 1e-30, 1e-160, 1e-308, 1e6, 1e30, 1e154, 1e300]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(
        st.sampled_from(["noise", "tone", "constant", "spike", "step", "ramp", "few", "any"])
    )
    t = np.arange(n)
    if kind == "any":
        numbers = st.floats(allow_nan=False, allow_infinity=False)
        some = draw(st.lists(numbers, min_size=1, max_size=8))
        return np.resize(np.array(some), n)
    x = {
        "noise": rng.standard_normal(n),
        "tone": np.cos(0.9 * t + 1) + 1e-3 * rng.standard_normal(n),
        "constant": np.full(n, rng.standard_normal()),
        "spike": (t == n // 2).astype(float),
        "step": (t > n // 3).astype(float),
        "ramp": t - n / 2,
        "few": rng.integers(0, 2, n).astype(float),
    }[kind]
    return np.asarray(scale * x)


def prior_for(obs: Observation, scaled: bool) -> Prior:
    """A band of up to 40 bins in the middle of the spectrum; amplitudes in the data's units or not."""
    stream = obs.long
    low = 0.1 / stream.dt
    size = float(np.abs(stream.values).max()) if scaled else 1.0
    size = size if 1e-150 < size < 1e150 else 1.0
    return Prior(
        k_min=0,
        k_max=3,
        frequency=(low, low + min(40 / stream.duration, 0.3 / stream.dt)),
        min_separation=0.0,
        amplitude=(0.05 * size, size),
        sigma=(0.0, 2 * size),
    )


def check(post: Posterior) -> None:
    """A result is made of numbers; the words of a verdict are there."""
    assert np.isfinite(post.k_probs).all() and post.k_probs.sum() == pytest.approx(1)
    draws = post.sample(20)
    assert draws.shape == (20, post.k_map, 3)
    assert post.verdict.status in ("exact", "approximate", "misfit") and post.verdict.reason
    assert len(post.summary(n=50)) == post.k_map
    limit = post.upper_limit()
    assert limit is None or np.isfinite(limit.amplitude).all()
    if post.verdict.status == "exact":
        assert np.isfinite(draws).all() and math.isfinite(post.noise_std)
        assert np.isfinite(getattr(post, "log_evidence")[post.k_map]).all()  # noqa: B009


def attempt(model: SlotFlow, x: np.ndarray, dt: float, scaled: bool, refine: bool) -> bool:
    """Whether there is a result; a refusal must say what to do."""
    try:
        obs = Observation.from_arrays(x, dt)
        post = model.infer(
            obs, prior=prior_for(obs, scaled), refine=refine, draws=200, max_seconds=0.2
        )
    except ValueError as error:
        assert ";" in str(error) or "expects" in str(error) or "must" in str(error), error
        return False
    check(post)
    return True


@QUICK
@given(x=series(), dt=st.sampled_from([0.1, 1e-6, 1e5]), scaled=st.booleans())
@pytest.mark.filterwarnings("ignore:the long stream has a mean")
def test_the_network_on_anything(model: SlotFlow, x: np.ndarray, dt: float, scaled: bool) -> None:
    attempt(model, x, dt, scaled, refine=False)


@SLOW
@given(x=series(), dt=st.sampled_from([0.1, 1e5]), scaled=st.booleans())
@pytest.mark.filterwarnings("ignore:the long stream has a mean")
def test_the_exact_step_on_anything(
    model: SlotFlow, x: np.ndarray, dt: float, scaled: bool
) -> None:
    attempt(model, x, dt, scaled, refine=True)


@pytest.mark.filterwarnings("ignore:the long stream has a mean")
def test_the_properties_are_not_empty(model: SlotFlow) -> None:
    """The control: ordinary data give a result, and a result with NaN is noticed."""
    rng = np.random.default_rng(0)
    assert attempt(model, rng.standard_normal(400), 0.1, True, refine=True)
    assert not attempt(model, rng.standard_normal(3), 0.1, True, refine=True)
    obs = Observation.from_arrays(rng.standard_normal(400), 0.1)
    post = model.infer(obs, prior=prior_for(obs, True), refine=False)
    post.k_probs = np.full_like(post.k_probs, np.nan)
    with pytest.raises(AssertionError):
        check(post)


@pytest.mark.parametrize("refine", [False, True])
def test_zeros(model: SlotFlow, refine: bool) -> None:
    """A dead channel has a result like any other; the network finds no noise to derive an upper limit from."""
    obs = Observation.from_arrays(np.zeros(400), 0.1)
    post = model.infer(obs, prior=prior_for(obs, False), refine=refine, draws=200, max_seconds=0.2)
    check(post)
    assert post.k_map == 0 and (refine or post.upper_limit() is None)


# --- nothing that is read is executed ----------------------------------------------------------------


class Bomb:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def crafted(folder: Path, name: str, trace: Path) -> Path:
    """A file that would leave a trace if what it holds were unpickled."""
    path, bomb = folder / name, Bomb(trace)
    array = np.empty(2, dtype=object)
    array[:] = [bomb, 1.0]
    if name == "object.npz":
        np.savez(path, long=array, dt_long=0.1)
    elif name == "object.npy":
        np.save(path, array)
    elif name.startswith("torch"):
        torch.save({"long": bomb}, path)
    elif name.startswith("zip"):
        inner = io.BytesIO()
        np.save(inner, np.ones(5))
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data.pkl", pickle.dumps(bomb))
            archive.writestr("long.npy", inner.getvalue())
    else:
        path.write_bytes(pickle.dumps(bomb))
    return path


NAMES = [
    "object.npz",
    "object.npy",
    "pickle.npy",
    "pickle.npz",
    "pickle.csv",
    "pickle.h5",
    "pickle.nc",
    "pickle.wav",
    "torch.npz",
    "torch.npy",
    "pickle.pkl",
    "torch.pt",
]


@pytest.mark.parametrize("name", NAMES)
def test_crafted_files_are_refused_and_not_executed(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "trace"
    path = crafted(tmp_path, name, trace)
    with pytest.raises(ValueError, match="expected"):
        read_observations(path, 0.1)
    result = CliRunner().invoke(app, ["infer", str(path), "--dt", "0.1"])
    assert result.exit_code == 2 and result.output.startswith("error:")
    assert not trace.exists()


@pytest.mark.parametrize("name", ["pickle.safetensors", "torch.safetensors", "torch.pt"])
def test_crafted_weights_are_refused_and_not_executed(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "trace"
    path = crafted(tmp_path, name, trace)
    with pytest.raises(ValueError, match=r"expected|truncated|of another kind"):
        SlotFlow.from_pretrained(path)
    assert not trace.exists()


def test_a_pickle_beside_numbers_is_left_alone(tmp_path: Path) -> None:
    """An archive with a further member gives its numbers; the member is never opened."""
    trace = tmp_path / "trace"
    path = crafted(tmp_path, "zip.npz", trace)
    (obs,) = read_observations(path, 0.1, dataset="long")
    assert obs.long.n == 5 and not trace.exists()


def test_the_traps_work(tmp_path: Path) -> None:
    """The control: unpickled, each of them leaves its trace."""
    trace = tmp_path / "trace"
    path = crafted(tmp_path, "pickle.pkl", trace)
    pickle.loads(path.read_bytes())
    assert trace.exists()
    trace.unlink()
    np.load(crafted(tmp_path, "object.npy", trace), allow_pickle=True)
    assert trace.exists()
