"""Nested sampling: integrals that are known, and the exact step on a small signal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from slotflow import Observation, Prior
from slotflow.exact.search import across_orders
from slotflow.signal.likelihood import Statistics
from slotflow.signal.model import noise_free
from slotflow.studies.proof.nested import (
    NestedSampling,
    from_cube,
    nested_evidence,
    nested_integral,
)

QUICK = NestedSampling(live=600, leaving=100, steps=30)


def test_two_gaussians_on_a_circle(seed: int) -> None:
    """Narrow Gaussians in four dimensions, one of them across the seam of an angle: the integral is known."""
    centres, width = np.array([[0.3, 0.3, 0.02, 0.5], [0.7, 0.8, 0.5, 0.3]]), 0.03

    def log_likelihood(u: np.ndarray) -> np.ndarray:
        difference = u[:, None] - centres
        difference[..., 2] = (difference[..., 2] + 0.5) % 1 - 0.5
        each = -0.5 * (difference**2).sum(-1) / width**2
        return np.logaddexp(each[:, 0], each[:, 1])

    exact = np.log(2) + 2 * np.log(2 * np.pi * width**2)
    circular = np.array([False, False, True, False])
    value, error = nested_integral(log_likelihood, circular, np.random.default_rng(seed), QUICK)
    assert 0.03 < error < 0.3
    assert abs(value - exact) < 5 * error
    # The control: without the circle half of a maximum is missing, ln(3/4) away; the error still bounds what is left.
    cut, error = nested_integral(
        lambda u: np.where(u[:, 2] > 0.9, -1e4, log_likelihood(u)),
        circular,
        np.random.default_rng(seed),
        QUICK,
    )
    lost = np.log(0.5 * (1 + ndtr(0.02 / width)))
    assert abs(cut - exact - lost) < 5 * error


def test_the_cube_is_the_prior(seed: int) -> None:
    """Points of the cube have the moments of draws from the prior, and keep their distance."""
    prior = Prior(k_min=0, k_max=3, frequency=(1.0, 2.0), min_separation=0.1, sigma=(0.2, 0.4))
    n = 4000
    theta, sigma = from_cube(np.random.default_rng(seed).random((n, 10)), prior, 3)
    assert (np.diff(theta[..., 2], axis=-1) >= 0.1 - 1e-12).all()
    # Sorted uniforms on a band of 0.8: means at quarters of it, shifted by the separations.
    spread = theta[..., 2].std(0) / n**0.5
    assert (
        np.abs(theta[..., 2].mean(0) - (1 + 0.2 * np.arange(1, 4) + 0.1 * np.arange(3)))
        < 5 * spread
    ).all()
    assert theta[..., 0].mean() == pytest.approx(1.0, abs=5 * theta[..., 0].std() / (3 * n) ** 0.5)
    assert sigma.min() >= 0.2 and sigma.max() <= 0.4


def test_evidence_of_a_tone(seed: int) -> None:
    """The same Bayes factor as the exact step's, at odds of e^10 and more."""
    rng = np.random.default_rng(seed)
    prior = Prior(
        k_min=0,
        k_max=1,
        amplitude=(0.2, 2.0),
        frequency=(1.5, 3.0),
        min_separation=0.0,
        sigma=(0.2, 1.5),
    )
    observation = Observation.from_arrays(np.zeros(60), 0.1)
    grid = observation.long.grid
    x = noise_free(np.array([[1.0, 1.0, 2.1]]), grid) + 0.6 * rng.standard_normal(60)

    def log_likelihood(theta: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        rss = ((x - noise_free(theta, grid)) ** 2).sum(-1)
        return -0.5 * rss / sigma**2 - 60 * np.log(np.sqrt(2 * np.pi) * sigma)

    ours = across_orders(
        Statistics.from_observation(Observation.from_arrays(x, 0.1)),
        prior,
        draws=2000,
        rng=rng,
    )
    for k in (0, 1):
        value, error = nested_evidence(log_likelihood, prior, k, seed, QUICK)
        both = np.hypot(error, ours.log_evidence_error[k])
        assert abs(value - ours.log_evidence[k]) < 4 * both
    assert ours.log_evidence[1] - ours.log_evidence[0] > 10
