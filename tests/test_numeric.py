"""Elementary functions of the exact step's inner loops against SciPy's and NumPy's."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from slotflow.core.chebyshev import nodes_and_transform, polynomials, terms_of_phases
from slotflow.core.numeric import log_sum_exp, phasor, sine, solve_lower


def test_log_sum_exp(seed: int) -> None:
    x = 400 * np.random.default_rng(seed).standard_normal((7, 5))
    x[2], x[:, 3] = -np.inf, 900.0
    x[2, 3] = -np.inf
    for axis in (None, 0, 1, -1):
        np.testing.assert_allclose(log_sum_exp(x, axis), logsumexp(x, axis=axis), rtol=1e-13)
    assert log_sum_exp(x, 1)[2] == -np.inf


def test_phasor_and_sine(seed: int) -> None:
    turns = np.random.default_rng(seed).uniform(-5, 5, (3, 40))
    np.testing.assert_allclose(phasor(turns), np.exp(2j * np.pi * turns), atol=1e-14)
    np.testing.assert_allclose(sine(turns), np.sin(turns), atol=1e-15)
    far = turns + 2.0**30  # whole turns cost no more than the turns' own rounding
    np.testing.assert_allclose(phasor(far), np.exp(2j * np.pi * (far - 2.0**30)), atol=1e-13)


def test_solve_lower(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = np.tril(rng.standard_normal((6, 6))) + 3 * np.eye(6)
    right = rng.standard_normal((40, 6)).T
    kept = right.copy()
    for transposed in (False, True):
        expected = solve_triangular(factor, right, lower=True, trans=int(transposed))
        np.testing.assert_allclose(solve_lower(factor, right, transposed), expected, rtol=1e-12)
    assert (right == kept).all()


def test_phases_from_few_values(seed: int) -> None:
    """A sum of phases over an interval is what its values at the nodes say; with a third of the terms it is not."""
    rng = np.random.default_rng(seed)
    span, half, times = 300.0, 0.02, 150 * rng.uniform(-1, 1, 50)
    x = rng.uniform(-1, 1, 200)
    enough = terms_of_phases(half, span)
    for terms, right in ((enough, True), (enough // 3, False)):
        points, transform = nodes_and_transform(terms)
        values, expected = (
            np.exp(2j * np.pi * half * y[:, None] * times).sum(-1) for y in (points, x)
        )
        found = polynomials(x, terms).T @ (transform @ values)
        assert bool(np.abs(found - expected).max() < 1e-10 * len(times)) is right
