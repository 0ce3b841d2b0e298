"""The tests of a residual that its data allow."""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.posterior.whiteness import samples
from slotflow.posterior.whiteness.lags import lag_checks
from slotflow.posterior.whiteness.laws import Check
from slotflow.posterior.whiteness.left import Left
from slotflow.posterior.whiteness.spectrum import spectrum_checks
from slotflow.signal.likelihood import Statistics

__all__ = ["check_residual"]

ROUNDING = 3e-6
"""A residual of this size, in units of the data, is no noise but rounding."""


def check_residual(
    statistics: Statistics,
    theta: Array,
    band: tuple[float, float],
    sigma: float | None = None,
) -> tuple[Check, ...]:
    """Tests whether the data minus some components are white noise.

    Args:
        statistics: Of one signal.
        theta: The components, (K, P): the best fit of the largest plausible K.
        band: Frequencies in Hz that may hold components.
        sigma: Noise level, if it is known.

    Returns:
        The checks, the smallest p-value first.
    """
    theta = np.asarray(theta, dtype=np.float64).reshape(-1, statistics.waveform.size)
    series = [
        folded[0].numpy().reshape(-1)[: grid.n]
        for folded, grid in zip(statistics.folded, statistics.grids, strict=True)
    ]
    names = ("long", "short")
    for name, values in zip(names, series, strict=False):
        if np.ptp(values) == 0:
            return (Check("constant", 0.0, f"the {name} stream is constant"),)
    left = what_is_left(statistics, theta)
    data = math.sqrt(float(statistics.energy) / statistics.n)
    checks = [] if sigma is None else [c for one in left for c in samples.stated_level(one, sigma)]
    if float(np.sqrt(np.mean(left[0].square))) <= ROUNDING * data:
        checks = checks or [Check("rounding", 1.0, "nothing is left of the data but rounding")]
        return tuple(sorted(checks, key=lambda c: c.p_value))
    checks += spectrum_checks(left[0], band)
    for one, values in zip(left, series, strict=True):
        checks += lag_checks(one)
        checks += samples.steadiness(one) + samples.shape(one)
        checks.append(samples.repeats(values, one.label))
    if sigma is None:
        checks += [samples.streams(left[0], other) for other in left[1:]]
    return tuple(sorted(checks, key=lambda c: c.p_value))


def what_is_left(statistics: Statistics, theta: Array) -> list[Left]:
    """What some components, (K, P), leave of each channel."""
    z, waveform = statistics.to_z(theta), statistics.waveform
    places = np.asarray(waveform.place_in_z(z), dtype=np.float64)
    rests, found = statistics.residuals(z), []
    names = ("long", "short") if len(rests) > 1 else ("",)
    for name, rest, grid in zip(names, rests, statistics.grids, strict=True):
        # All channels fix the components, and each gives up its share of their degrees of freedom.
        each = waveform.coordinates * grid.n / statistics.n
        taken, unseen = np.full(len(places), each), each * statistics.removed
        found.append(Left(name, np.asarray(rest), grid.times, grid.dt, places, taken, unseen))
    return found
