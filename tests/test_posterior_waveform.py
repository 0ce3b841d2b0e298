"""Tables, files and exports of components that are no tones: every name, unit and order comes from the waveform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotflow import Observation, Posterior, Prior
from slotflow.posterior.birth import BirthProposal
from slotflow.signal.waveforms import Parameter, Waveform

Array = NDArray[np.float64]

PLACES = (3.0, 1.0, 2.0)
"""Where the components are, in the order in which a draw lists them."""


class Decay(Waveform):
    """Four parameters, of which the first orders the components and the last two are angles."""

    name = "decay"
    parameters = (
        Parameter("epoch", "e", "s"),
        Parameter("height", "h", "data"),
        Parameter("angle", "α", "rad", circular=True),
        Parameter("turn", "β", "rad", circular=True),
    )
    shape = ("epoch",)
    place = "epoch"


Decay.__abstractmethods__ = frozenset()  # nothing below asks for its functions of time
DECAY = Decay()  # type: ignore[abstract]


class Slots:
    """Gaussians around three components whose angles lie around zero."""

    k_max = 3

    def sample(self, n: int, k: int, seed: int) -> Array:
        noise = np.random.default_rng(seed).standard_normal((n, k, 4))
        theta = np.array([0.0, 5.0, 0.0, 1.0]) + np.array([1e-3, 0.1, 0.2, 0.1]) * noise
        theta[..., 0] += np.array(PLACES[:k])
        theta[..., 2:] %= 2 * np.pi
        return theta

    def log_prob(self, theta: Array) -> Array:
        return np.zeros((len(theta), theta.shape[1], theta.shape[1]))

    def constrained_fraction(self, k: int) -> float:
        return 0.0


@pytest.fixture
def post() -> Posterior:
    data = Observation.from_arrays(np.random.default_rng(0).standard_normal(200), 0.1)
    found = Posterior([0.0, 0.0, 0.25, 0.75], Slots(), data, 1.0, None, "fixed")
    found.waveform = DECAY
    return found


def test_tables(post: Posterior) -> None:
    n = 4000
    frame = post.summary(n=n)
    stats = [f"{name}_{what}" for name in DECAY.names for what in ("median", "sd", "q05", "q95")]
    assert list(frame.columns) == ["slot", "existence", *stats, "verdict"]
    assert frame["slot"].tolist() == [1, 2, 0]  # in the order of their epochs
    np.testing.assert_allclose(frame["epoch_median"], [1, 2, 3], atol=5 * 1.25e-3 / np.sqrt(n))
    # An angle around zero is summarized on the circle, a height is not.
    np.testing.assert_allclose(frame["angle_sd"], 0.2, rtol=5 / np.sqrt(2 * n))
    assert (frame["angle_q05"] > 5.5).all() and (frame["angle_q95"] < 0.6).all()
    np.testing.assert_allclose(frame["turn_median"], 1.0, atol=5 * 0.125 / np.sqrt(n))
    # K = 2 has the components at 3 and 1 only.
    np.testing.assert_allclose(frame["existence"], [1, 0.75, 1], atol=1e-12)
    assert post.correlation(n=100).shape == (12, 12)
    np.testing.assert_allclose(np.sort(post.centres()[:, 0]), [1, 2, 3], atol=1e-3)


def test_exports(post: Posterior) -> None:
    catalogue = post.to_catalogue(n=500)
    pairs = [name for name in catalogue.columns if name.startswith("cov_")]
    assert len(pairs) == 10 and pairs[1] == "cov_epoch_height"
    assert (catalogue["cov_angle_angle"] < 0.1).all() and len(catalogue) == 3
    frame = post.to_dataframe(50)
    assert set(DECAY.names) <= set(frame.columns)
    assert frame.groupby("draw")["epoch"].apply(lambda x: x.is_monotonic_increasing).all()
    assert post.to_eryn(20)["coords"].shape == (20, 3, 4)
    theta = post.sample(5)
    assert np.asarray(post.log_prob(theta)).shape == (5,)
    with pytest.raises(ValueError, match=r"theta as \(k, 4\) or \(n, k, 4\), received \(3, 3\)"):
        post.log_prob(np.zeros((3, 3)))


def test_files(post: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post.save(tmp_path / "a.nc", n=100)
    with monkeypatch.context() as patch:
        patch.delitem(Waveform.kinds, "decay")
        with pytest.raises(ValueError, match=r"expected a waveform, .* received 'decay'"):
            Posterior.load(tmp_path / "a.nc")  # nobody knows it
    read = Posterior.load(tmp_path / "a.nc")
    assert read.waveform == DECAY
    for again, before in zip(read.sample_joint(100), post.sample_joint(100), strict=True):
        np.testing.assert_array_equal(again, before)
    units = {name: read.to_dataset(100)[name].attrs["units"] for name in DECAY.names}
    assert units == {"epoch": "s", "height": "data units", "angle": "rad", "turn": "rad"}


def test_births_turn_every_angle(seed: int) -> None:
    """The density of a proposal with two angles integrates to one over a box around a component."""
    rng = np.random.default_rng(seed)
    spread = np.array([0.05, 0.3, 0.4, 0.5])
    draws = np.array([1.0, 2.7, 0.1, 6.2]) + spread * rng.standard_normal((2000, 1, 4))
    draws[..., 2:] %= 2 * np.pi

    class Bounded(Decay):
        parameters: Any = (
            Parameter("amplitude", "A", "data"),
            Parameter("frequency", "f", "Hz"),
            *Decay.parameters[2:],
        )
        place = "frequency"

    Bounded.__abstractmethods__ = frozenset()
    prior = Prior(amplitude=(0.5, 1.5), frequency=(1.0, 4.0), min_separation=0.0)
    proposal = BirthProposal(draws, prior, prior_share=0.2, waveform=Bounded())  # type: ignore[abstract]
    n = 200_000
    low, high = np.array([0.5, 1.0, 0.0, 0.0]), np.array([1.5, 4.0, 2 * np.pi, 2 * np.pi])
    theta = low + (high - low) * rng.random((n, 4))
    values = np.exp(proposal.logpdf(theta)) * np.prod(high - low)
    assert abs(values.mean() - 1) < 5 * values.std() / np.sqrt(n)
    drawn = proposal.rvs(1000)
    assert ((drawn >= low) & (drawn <= high)).all() and np.isfinite(proposal.logpdf(drawn)).all()
