"""Checks whose tolerance is the Monte-Carlo error of what they check."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

__all__ = ["assert_mean", "assert_same_law", "assert_within"]


def assert_within(
    value: ArrayLike, expected: ArrayLike, standard_error: ArrayLike, sigmas: float = 5.0
) -> None:
    """Asserts |value − expected| <= sigmas × standard_error, elementwise; all broadcast together.

    Args:
        value: The estimates.
        expected: What they estimate.
        standard_error: Their Monte-Carlo standard error; must be finite and not negative.
        sigmas: Tolerance in standard errors.
    """
    error = np.asarray(standard_error, dtype=np.float64)
    assert np.all(np.isfinite(error) & (error >= 0)), f"not a standard error: {error}"
    value, expected, error = np.broadcast_arrays(
        np.asarray(value, dtype=np.float64), np.asarray(expected, dtype=np.float64), error
    )
    bad = ~(np.abs(value - expected) <= sigmas * error)  # so that NaN is bad
    assert not bad.any(), (
        f"{int(bad.sum())} of {bad.size} outside {sigmas:g} standard errors: "
        f"values {value[bad][:5]}, expected {expected[bad][:5]}, standard errors {error[bad][:5]}"
    )


def assert_mean(draws: ArrayLike, expected: ArrayLike, sigmas: float = 5.0) -> None:
    """Asserts that independent draws, shape (n, ...), have the expected mean over the first axis."""
    x = np.asarray(draws, dtype=np.float64)
    assert_within(x.mean(0), expected, x.std(0, ddof=1) / math.sqrt(len(x)), sigmas)


def assert_same_law(a: ArrayLike, b: ArrayLike, sigmas: float = 5.0) -> None:
    """Asserts that two samples of independent numbers, each of shape (n,), follow one law.

    A two-sample Kolmogorov–Smirnov test that fails as rarely as a Gaussian strays by `sigmas` standard errors.
    """
    p = stats.ks_2samp(np.asarray(a), np.asarray(b), method="asymp").pvalue
    assert p > 2 * stats.norm.sf(sigmas), f"different laws: p = {p:.2g}"
