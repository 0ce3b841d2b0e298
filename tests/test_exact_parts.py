"""Parts of the exact suite: misfits that are made, the independent estimate of evidence, correlations, close pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from statistics_helpers import assert_within

from slotflow import Observation, Prior
from slotflow.signal.simulation import simulate
from slotflow.studies.measures.correlation import correlation
from slotflow.studies.suites.exact.misfits import KINDS, misfit
from slotflow.studies.suites.exact.parts import PARTS, pair_signal
from slotflow.studies.suites.exact.reference import Band, Box
from slotflow.studies.suites.sets import GRIDS


@pytest.mark.parametrize("kind", KINDS)
def test_misfits(kind: str, seed: int) -> None:
    observation, snr, components, sigma = misfit(kind, Prior(), GRIDS, seed)
    again = misfit(kind, Prior(), GRIDS, seed)
    long, short = observation.channels
    np.testing.assert_array_equal(long.values, again.observation.long.values)
    assert 1 <= len(components) <= 10 and 0 < sigma <= 1.5
    assert (long.n, short.n) == (3000, 5120)
    assert snr == pytest.approx(20, rel=1e-6) or (kind in ("gap", "clipped") and snr > 20)
    if kind == "gap":
        zero = np.flatnonzero(long.values == 0)
        assert len(zero) in (149, 150, 151) and np.ptp(zero) == len(zero) - 1
    if kind == "clipped":
        for stream in (long, short):
            top = stream.values == stream.values.max()
            assert top.sum() > 5 and stream.values.min() == -stream.values.max()


def test_misfit_spectra(seed: int) -> None:
    """What is added has the SNR that is promised and lies where it should."""
    sim = simulate(Prior(), 1, *GRIDS, mode="physical", seed=seed)
    share: dict[str, Any] = {}
    for kind in ("chirp", "outside", "red"):
        observation, snr, components, sigma = misfit(kind, Prior(), GRIDS, seed)
        np.testing.assert_array_equal(components, sim.components(0))
        assert sigma == float(sim.sigma)
        added = [
            s.values - x[0].double().numpy()
            for s, x in zip(observation.channels, (sim.long, sim.short), strict=True)
        ]
        assert float(np.linalg.norm(added[0])) / float(sim.sigma) == pytest.approx(snr, rel=1e-4)
        assert np.linalg.norm(added[1]) > 0
        power = np.abs(np.fft.rfft(added[0])) ** 2
        share[kind] = power / power.sum()
    f = np.fft.rfftfreq(3000, 0.1)
    inside = (f > 2.49) & (f < 3.01)
    assert share["chirp"][inside].sum() > 0.95
    assert share["chirp"].max() < 0.38 < share["outside"].max()  # a tone between two bins: 0.405
    assert not inside[share["outside"].argmax()]
    assert share["red"][f < 0.1].sum() > 0.9
    with pytest.raises(ValueError, match="expected a misfit"):
        misfit("comet", Prior(), GRIDS, seed)


# --- the independent estimate --------------------------------------------------------------------


def test_starts_are_normalized(seed: int) -> None:
    """The mean over one density of the ratio of two is the mass that the other has there: 1 inside it."""
    rng = np.random.default_rng(seed)
    prior = Prior(min_separation=0.0)
    band = Band(prior, (2.6, 2.62), 2, 150.0, seed)
    z = band.sample(4000, rng)
    assert (np.diff(z[..., 0], axis=-1) > 0).all() and np.isfinite(band.log_prob(z)).all()
    centre = np.array([[2.605, 0.9, 0.1], [2.615, -0.8, 0.3]])
    box = Box(centre, np.full((2, 3), [0.004, 0.2, 0.2]))
    y = box.sample(20_000, rng)
    # ∫ of the band's density over the box, by draws of the box and by counting the band's own draws.
    mass = np.exp(band.log_prob(y) - box.log_prob(y))
    direct = float(np.isfinite(box.log_prob(band.sample(200_000, rng))).mean())
    error = math.hypot(float(mass.std()) / math.sqrt(len(y)), math.sqrt(direct / 200_000))
    assert_within(float(mass.mean()), direct, error)
    assert direct > 0
    area = integrate.quad(
        lambda f: math.exp(Box(centre[:1], box.half[:1]).log_density), 2.601, 2.609
    )
    assert area[0] * 0.4**2 == pytest.approx(1)


def test_correlation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((3, 3))
    x = (rng.standard_normal((5000, 3)) @ factor.T) * 0.05
    weights = rng.random(5000)
    weights /= weights.sum()
    theta = (x + np.array([1.0, 0.0, 2.7]))[:, None, :]
    theta[..., 1] %= 2 * np.pi
    expected = np.cov(x.T, aweights=weights)
    expected /= np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(correlation(theta, weights), expected, atol=1e-9)


def test_pair_is_close(seed: int) -> None:
    sim = pair_signal(PARTS["correlation"], 3, seed % 1000)
    f = sim.components(0)[:, 2]
    assert np.diff(f)[0] == pytest.approx(1.2 / 300) and f.max() < 3.0
    assert isinstance(sim.observation(0), Observation)
