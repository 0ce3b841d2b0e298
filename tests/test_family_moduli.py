"""Amplitudes under their prior and a Gaussian likelihood: draws against density, and the integral over both."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slotflow.exact.family.moduli import Moduli, log_factors
from slotflow.exact.importance import effective_share
from slotflow.signal.waveforms.ranges import Range

N = 20_000
LAWS = ["uniform", "loguniform"]
CASES = {
    "hidden": (0.1 + 0.05j, 0.4),
    "clear": (1.2 - 0.9j, 0.1),
    "at the lower bound": (0.0 + 0.21j, 0.06),
    "at the upper bound": (-2.95 + 0.0j, 0.2),
    "nothing": (0.0 + 0.0j, 0.3),
    "unknown": (0.5 + 0.5j, 5.0),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("case", CASES)
def test_draws_and_density_give_the_integral(law: str, case: str, seed: int) -> None:
    """Prior times likelihood over the density, averaged over draws, is B, and hardly differs between draws."""
    prior, (centre, spread) = Range(0.2, 3.0, law), CASES[case]
    moduli = Moduli(prior, np.full(N, centre), np.full(N, spread))
    c = moduli.sample(np.random.default_rng(seed))
    size = np.abs(c)
    assert (size >= 0.2 - 1e-12).all() and (size <= 3.0 + 1e-12).all()
    log_p = prior.log_prob(size.clip(0.2, 3.0)) - np.log(2 * math.pi * size)
    log_p += (abs(centre) ** 2 - np.abs(c - centre) ** 2) / (2 * spread**2)
    log_w = log_p - moduli.log_prob(c)
    assert effective_share(log_w) > 0.95
    weight = np.exp(log_w - log_w.max())
    error = float(weight.std() / weight.mean()) / math.sqrt(N)
    found = float(log_w.max()) + math.log(float(weight.mean()))
    factor = float(log_factors(prior, np.array([abs(centre) / spread]), np.array([spread]))[0])
    assert abs(found - factor) < 5 * error + 5e-3  # the sum over cells
    flat = np.exp(log_p - log_p.max())  # the control: draws of the prior's own law would not do
    assert effective_share(np.log(np.maximum(flat, 1e-300))) < 0.95 or case == "unknown"


@pytest.mark.parametrize("law", LAWS)
def test_density_is_normalized(law: str) -> None:
    """A sum over the plane is one."""
    prior = Range(0.2, 3.0, law)
    a = np.linspace(0.2, 3.0, 1201)
    middle, angle = 0.5 * (a[1:] + a[:-1])[:, None], np.linspace(-np.pi, np.pi, 64, False)
    c = middle * np.exp(1j * angle)
    for centre, spread in CASES.values():
        moduli = Moduli(prior, np.full(c.shape, centre), np.full(c.shape, spread))
        cell = np.diff(a)[:, None] * 2 * np.pi / len(angle)
        assert float((np.exp(moduli.log_prob(c)) * middle * cell).sum()) == pytest.approx(
            1, abs=0.02
        )


@pytest.mark.parametrize("law", LAWS)
def test_a_table_of_factors(law: str) -> None:
    """Between its entries, and where all are alike, as each for itself."""
    prior, rng = Range(0.2, 3.0, law), np.random.default_rng(0)
    g, spread = 7 * rng.random(500), np.exp(rng.uniform(-3, 1, 500))
    each = [float(log_factors(prior, g[i : i + 1], spread[i : i + 1])[0]) for i in range(500)]
    away = np.abs(log_factors(prior, g, spread) - each)
    assert np.median(away) < 0.02 and away.max() < 0.3  # of a proposal, which need not be exact
    same = log_factors(prior, np.full(3, 2.0), np.full(3, 0.5))
    assert np.ptp(same) < 1e-12


@pytest.mark.parametrize("law", LAWS)
def test_ranges_know_what_lies_below(law: str) -> None:
    one, u = Range(0.2, 3.0, law), np.linspace(0, 1, 11)
    np.testing.assert_allclose(one.cumulative(one.draw(u)), u, atol=1e-12)
    assert one.cumulative(np.array([0.0, 9.0])).tolist() == [0.0, 1.0]
    assert one.mass(one.draw(u)) == pytest.approx(np.full(10, 0.1))
