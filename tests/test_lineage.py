"""Errors of draws that come from draws, against the scatter of many repeats of a chain whose evidences are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from statistics_helpers import assert_mean, assert_within

from slotflow.exact.lineage import Lineage, descended, own_roots

ORDERS, DRAWS, REPEATS = 5, 400, 400
TILT = 0.15
"""Order t has the density N(x; 0, 1) e^{t TILT x}, whose evidence is e^{(t TILT)²/2}."""


def chain(share: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """Relative error of the last order's Z, and its variance by the lineage and by each order's weights alone.

    Args:
        share: Of the candidates of each order that come from draws of the one below; the others are fresh.
        rng: Source of randomness.
    """
    x = rng.standard_normal(DRAWS)
    log_w, log_z, lineage, alone = np.full(DRAWS, -math.log(DRAWS)), 0.0, own_roots(DRAWS), 0.0
    for t in range(1, ORDERS + 1):
        old = rng.random(DRAWS) < share
        parents = np.where(old, rng.choice(DRAWS, DRAWS, p=np.exp(log_w)), -1)
        x = np.where(old, x[parents], 1.5 * rng.standard_normal(DRAWS))
        below = norm.logpdf(x) + (t - 1) * TILT * x - log_z
        log_q = np.logaddexp(
            math.log(share) + below, math.log1p(-share) + norm.logpdf(x, scale=1.5)
        )
        ratio = norm.logpdf(x) + t * TILT * x - log_q
        log_z = float(logsumexp(ratio)) - math.log(DRAWS)
        log_w = ratio - logsumexp(ratio)
        lineage = descended(lineage, parents, log_w)
        alone += own_roots(DRAWS).variance(log_w)
    return math.expm1(log_z - 0.5 * (ORDERS * TILT) ** 2), lineage.variance(log_w), alone


@pytest.mark.parametrize("share", [0.999, 0.7])
def test_the_stated_variance_is_that_of_repeats(share: float, seed: int) -> None:
    """Control: what each order's weights say, as if orders had nothing in common, is too little."""
    rng = np.random.default_rng(seed)
    off, stated, alone = np.array([chain(share, rng) for _ in range(REPEATS)]).T
    assert_mean(off, 0.0)
    error = 1.2 * math.sqrt(
        2 / REPEATS
    )  # of the logarithm of a variance; tails of Z are not quite a Gaussian's
    assert_within(math.log(stated.mean() / off.var()), 0.0, error, 4.0)
    if share > 0.9:
        with pytest.raises(AssertionError):
            assert_within(math.log(alone.mean() / off.var()), 0.0, error, 4.0)


def test_independent_draws_have_the_usual_variance(seed: int) -> None:
    log_w = np.random.default_rng(seed).standard_normal(100)
    log_w -= logsumexp(log_w)
    assert own_roots(100).variance(log_w) == pytest.approx((np.exp(log_w) ** 2).sum() - 0.01)
    even = np.full(100, -math.log(100))
    assert own_roots(100).variance(even) == pytest.approx(0.0, abs=1e-15)
    one = Lineage(np.zeros(100, dtype=np.int64), 0.01)
    assert one.shared(even) == pytest.approx(1.0)


def test_roots_are_kept_apart() -> None:
    lower = Lineage(np.array([3, 3, 5]), 0.25)
    even = np.full(4, -math.log(4))
    found = descended(lower, np.array([0, 1, 2, -1]), even)
    assert found.roots[0] == found.roots[1]
    assert len(np.unique(found.roots)) == 3
    assert found.chance == pytest.approx(1 / 4 + 0.75**2 * 0.25)
