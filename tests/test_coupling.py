"""Windows of a wide band, coupled: a joint maximum, joint covariances, and nothing changed where nothing overlaps."""

from __future__ import annotations

import numpy as np
import pytest
from statistics_helpers import assert_within
from tone_helpers import LONG, SHORT, to_theta, to_z

from slotflow.bands.coupling import couple, joint_fit
from slotflow.data.observation import Observation
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior

T = LONG.duration
SIGMA = 0.5
REACH = 5 / T
BORDER = 2.0
CORES = np.array([[1.5, BORDER], [BORDER, 2.5]])
OWNER = np.array([0, 1])
PRIOR = Prior(frequency=(1.5, 2.5), k_min=0, min_separation=0.0, sigma=(0, 2))


def observe(theta: np.ndarray, seed: int, short: bool = True) -> Observation:
    """Tones (A, φ, f) in noise, on the paper's grids."""
    rng = np.random.default_rng(seed)
    series = []
    for grid in (LONG, SHORT):
        clean = (
            theta[:, 0] * np.cos(2 * np.pi * np.outer(grid.times, theta[:, 2]) + theta[:, 1])
        ).sum(1)
        series.append(clean + SIGMA * rng.standard_normal(grid.n))
    if not short:
        return Observation.from_arrays(series[0], LONG.dt)
    return Observation.from_arrays(series[0], LONG.dt, series[1], SHORT.dt)


def pair(bins: float) -> np.ndarray:
    """Two tones on either side of the border, so many bins of the long stream apart."""
    half = 0.5 * bins / T
    return np.array([[1.0, 0.3, BORDER - half], [0.8, 1.1, BORDER + half]])


def jacobian(z: np.ndarray, reference: float, short: bool = True) -> np.ndarray:
    """∂m/∂z over all samples by central differences, (N, 3K)."""

    def mean(flat: np.ndarray) -> np.ndarray:
        theta = to_theta(flat.reshape(-1, 3), reference)
        parts = [
            (theta[:, 0] * np.cos(2 * np.pi * np.outer(g.times, theta[:, 2]) + theta[:, 1])).sum(1)
            for g in ((LONG, SHORT) if short else (LONG,))
        ]
        return np.concatenate(parts)

    flat, columns = z.ravel(), []
    for i in range(flat.size):
        step = np.zeros_like(flat)
        step[i] = 1e-6 / T if i % 3 == 0 else 1e-5
        columns.append((mean(flat + step) - mean(flat - step)) / (2 * step[i]))
    return np.stack(columns, -1)


def conditional_draws(z: np.ndarray, j: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Gaussian draws of each tone with the other one held, (n, 2, 3)."""
    rng = np.random.default_rng(seed)
    parts = []
    for i in range(2):
        own = j[:, 3 * i : 3 * i + 3]
        covariance = SIGMA**2 * np.linalg.inv(own.T @ own)
        parts.append(z[i] + rng.standard_normal((n, 3)) @ np.linalg.cholesky(covariance).T)
    return np.stack(parts, 1)


def standardized(z: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Draws (n, 2, 3) in units in which the joint covariance is the identity, (n, 6)."""
    joint = SIGMA**2 * np.linalg.inv(j.T @ j)
    flat = z.reshape(len(z), -1)
    return np.linalg.solve(np.linalg.cholesky(joint), (flat - flat.mean(0)).T).T


def is_identity(white: np.ndarray) -> bool:
    """Whether the covariance of draws (n, d) is the identity within 5 standard errors of each entry."""
    n, d = white.shape
    error = np.sqrt((1 + np.eye(d)) / n)
    return bool((np.abs(np.cov(white.T) - np.eye(d)) < 5 * error).all())


def test_draws_get_the_joint_covariance(seed: int) -> None:
    obs = observe(pair(12.0), seed)  # 0.4 bins of the short stream: not resolved there
    statistics = Statistics.from_observation(obs)
    coupling = couple(statistics, pair(12.0), CORES, OWNER, REACH)
    assert coupling is not None and coupling.growth > 1.02
    j = jacobian(coupling.centre, statistics.reference)
    alone = conditional_draws(coupling.centre, j, 20_000, seed)
    moved = to_z(coupling.apply(to_theta(alone, statistics.reference), PRIOR), statistics.reference)
    assert is_identity(standardized(moved, j))
    assert not is_identity(standardized(alone, j))  # the control: as the windows drew them
    assert_within(moved.mean(0), coupling.centre, moved.std(0) / np.sqrt(len(moved)))


def test_the_fit_is_the_joint_maximum(seed: int) -> None:
    theta = pair(12.0)
    statistics = Statistics.from_observation(observe(theta, seed))
    start = theta + np.array([[0.02, -0.03, 0.1 / T], [-0.02, 0.02, -0.1 / T]])
    best = joint_fit(statistics, start[::-1])
    assert best is not None and best[0, 2] < best[1, 2]
    z = to_z(best, statistics.reference)
    j = jacobian(z, statistics.reference)
    rest = np.concatenate([s.values for s in observe(theta, seed).channels])
    tones = [
        (best[:, 0] * np.cos(2 * np.pi * np.outer(g.times, best[:, 2]) + best[:, 1])).sum(1)
        for g in (LONG, SHORT)
    ]
    step = np.linalg.solve(j.T @ j, j.T @ (rest - np.concatenate(tones)))
    error = SIGMA * np.sqrt(np.diag(np.linalg.inv(j.T @ j)))
    assert (np.abs(step) < 1e-3 * error).all()  # a Gauss–Newton step would move it no more
    assert joint_fit(statistics, theta[:0]).shape == (0, 3)  # type: ignore[union-attr]


def test_far_tones_are_left_alone(seed: int) -> None:
    theta = pair(120.0)
    statistics = Statistics.from_observation(observe(theta, seed, short=False))
    coupling = couple(statistics, theta, CORES, OWNER, REACH)
    assert coupling is not None and coupling.growth == pytest.approx(1, abs=1e-4)
    draws = theta + 1e-3 * np.random.default_rng(seed).standard_normal((50, 2, 3)) * [1, 1, 0.01]
    change = coupling.apply(draws, PRIOR) - draws
    assert np.abs(change[..., 0]).max() < 1e-4 and np.abs(change[..., 2]).max() < 1e-6


def test_free_neighbours_are_part_of_a_window(seed: int) -> None:
    """A pair 2 bins apart across the border is fitted in both windows: its widths are right already."""
    theta = pair(2.0)
    statistics = Statistics.from_observation(observe(theta, seed))
    coupling = couple(statistics, theta, CORES, OWNER, REACH)
    held = couple(statistics, theta, CORES, OWNER, 0.0)  # the control: the neighbour held
    assert coupling is not None and held is not None
    assert coupling.growth == pytest.approx(1, abs=1e-9) and held.growth > 1.05


def test_no_maximum_and_no_support(seed: int) -> None:
    theta = pair(12.0)
    statistics = Statistics.from_observation(observe(theta, seed))
    same = np.repeat(theta[:1], 2, 0)
    assert joint_fit(statistics, same) is None
    assert couple(statistics, same, CORES, OWNER, REACH) is None
    coupling = couple(statistics, theta, CORES, OWNER, REACH)
    assert coupling is not None
    low = coupling.apply(theta[None], PRIOR)
    assert np.isfinite(PRIOR.log_prob_theta(low).numpy()).all()
    narrow = Prior(frequency=(1.5, 2.5), k_min=0, min_separation=0.0, amplitude=(1.2, 1.5))
    assert np.array_equal(coupling.apply(theta[None], narrow), theta[None])
