"""The tests of a residual that its data allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.posterior.residual import likeliest
from slotflow.posterior.whiteness import samples
from slotflow.posterior.whiteness.lags import lag_checks
from slotflow.posterior.whiteness.laws import Check
from slotflow.posterior.whiteness.left import (
    Left,
    cut_to_band,
    measured_values,
    what_is_left,
)
from slotflow.posterior.whiteness.spectrum import spectrum_checks
from slotflow.posterior.whiteness.uneven import uneven_checks
from slotflow.signal.likelihood import GeneralTones, Likelihood

__all__ = ["check_residual", "colour_doubts"]

ROUNDING = 3e-6
"""A residual of this size, in units of the data, is no noise but rounding."""
BESIDE = 6.0
"""Bins on either side of a band of local noise that are tested with it."""
Band = tuple[float, float]


def check_residual(
    likelihood: Likelihood,
    theta: Array,
    band: Band,
    sigma: float | None = None,
    spent: Sequence[Array] | None = None,
) -> tuple[Check, ...]:
    """Tests whether the data minus some components are noise of the kind that the likelihood assumes.

    Args:
        likelihood: Of one signal.
        theta: The components, (K, P): the best fit of the largest plausible K.
        band: Frequencies in Hz that may hold components.
        sigma: Noise level, if it is known.
        spent: Degrees of freedom that components, removed from the data before, took from each sample of each channel,
            (N_s,); None where all samples gave the same.

    Returns:
        The checks, the smallest p-value first.
    """
    theta = np.asarray(theta, dtype=np.float64).reshape(-1, likelihood.waveform.size)
    likelihood = likeliest(likelihood, theta)
    left, series = what_is_left(likelihood, theta), measured_values(likelihood)
    if spent is not None:
        given = zip(left, spent, strict=True)
        left = [replace(one, spent=each) if len(each) == one.n else one for one, each in given]
    for one, values in zip(left, series, strict=True):
        if (values == values[0]).all():
            return (Check("constant", 0.0, f"{one.who} is constant"),)
    tested = _tested(likelihood, left, band)
    checks = (
        [] if sigma is None else [c for one in tested for c in samples.stated_level(one, sigma)]
    )
    before = np.concatenate(
        [np.asarray(x) for x in likelihood.residuals(likelihood.to_z(theta[:0]))]
    )
    size = math.sqrt(float(np.mean(np.abs(before) ** 2)))
    if math.sqrt(float(np.mean(left[0].square))) <= ROUNDING * size:
        checks = checks or [Check("rounding", 1.0, "nothing is left of the data but rounding")]
        return tuple(sorted(checks, key=lambda c: c.p_value))
    if left[0].step is not None:
        checks += spectrum_checks(tested[0], band)
    else:
        checks += uneven_checks(likelihood, theta, left[0], band)
    for one in tested:
        checks += lag_checks(one) + samples.steadiness(one) + samples.shape(one)
    checks += [samples.repeats(x, one) for one, x in zip(left, series, strict=True)]
    if sigma is None:
        checks += [samples.streams(tested[0], other) for other in tested[1:]]
    return tuple(sorted(checks, key=lambda c: c.p_value))


def colour_doubts(likelihood: Likelihood, theta: Array, band: Band) -> list[Check]:
    """Tests of colour of what fewer components leave, which are a reason for doubt only: what is left may be a tone.

    Args:
        likelihood: Of one signal.
        theta: The components of the most probable K, (K, P), where a larger one is plausible.
        band: Frequencies in Hz that may hold components.
    """
    theta = np.asarray(theta, dtype=np.float64).reshape(-1, likelihood.waveform.size)
    likelihood = likeliest(likelihood, theta)
    tested = _tested(likelihood, what_is_left(likelihood, theta), band)
    return [check for one in tested for check in lag_checks(one)]


def _tested(likelihood: Likelihood, left: list[Left], band: Band) -> list[Left]:
    """What is tested of each channel: all of it, or the band alone where the noise is local."""
    if not (isinstance(likelihood, GeneralTones) and likelihood.local):
        return left
    edge = BESIDE * likelihood.bin
    wide = (band[0] - edge, band[1] + edge)
    return [cut_to_band(one, wide) for one in left if one.step is not None]
