r"""Upper limits: how large a lone tone at each frequency may be, where there may be none.

With one tone A cos(2πft + φ) of known f in white noise, the data enter through the matched filter

.. math:: \hat c = \frac{2}{N} \sum_s r_s^{-2} \sum_t x_s(t) e^{-2πif(t - τ)} , \quad N = \sum_s n_s / r_s^2 ,

alone (`signal/likelihood/` has the symbols), because Σ cos² = Σ sin² = N/2 up to terms of the relative size
1/(2πfT). It is the tone's complex amplitude plus complex Gaussian noise of the variance s² = 2σ²/N in each part, so
that R = |ĉ| follows Rice's law and, φ being uniform, the likelihood of A is e^{−A²/2s²} I₀(AR/s²). With a = A/s, r =
R/s and a prior of A that is uniform on [0, A_max], b = A_max/s,

.. math:: p(a \mid r) \propto e^{-(a - r)^2/2} \, \tilde I_0(a r) , \quad 0 \le a \le b , \quad
    \tilde I_0(y) = e^{-y} I_0(y) ,

and the limit u(r) is where its integral from 0 reaches the credibility. One table of u(r), by the trapezoidal rule,
serves all frequencies.

In coloured noise, N is what a tone of that frequency keeps of its energy after whitening, and s depends on f.

What is assumed: A_max is the prior's upper bound (none if the prior is not known); its lower bound is not used, since
the limit shall say what the data exclude and not what the prior does; under a log-uniform prior the limit is still that
of a uniform one, because a log-uniform law that reaches to 0 has no limit. σ is plugged in: the level that the prior
states, or its posterior mean, whose relative error, 1/√(2n), passes to the limit. The limit holds at each frequency on
its own; with 150 bins some of the limits will be exceeded by tones at their frequencies, if there were one at each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from slotflow.signal.likelihood import Likelihood, Statistics, likelihood_of

if TYPE_CHECKING:
    from slotflow.data.observation import Observation
    from slotflow.signal.prior import Prior

__all__ = ["LIKELY", "UpperLimit", "amplitude_limit", "matched_filter", "upper_limit"]

Array = NDArray[np.float64]

LIKELY = 0.1
"""p(K = 0 | x) above which a result has an upper limit."""
CREDIBILITY = 0.95
PER_BIN, MOST = 4, 8192
"""Frequencies per bin 1/T at which limits are given, and how many at most."""
SMALLEST_WEIGHT = 1e-6
"""Of a tone, over the largest one."""
KNOTS, POINTS, REACH = 400, 1001, 9.0
"""Size of the table of u(r), points of each integral, and how far it reaches to either side in units of s."""


@dataclass(frozen=True)
class UpperLimit:
    """The largest credible amplitude of a lone tone at each frequency."""

    frequency: Array
    """In Hz, (m,)."""
    amplitude: Array
    """Limits, (m,)."""
    credibility: float
    """Probability of a smaller amplitude at one frequency."""
    k0_prob: float
    """p(K = 0 | x)."""

    def record(self) -> dict[str, Any]:
        """The best, median and worst limit over the band as plain values."""
        worst, best = int(self.amplitude.argmax()), int(self.amplitude.argmin())
        return {
            "credibility": self.credibility,
            "k0_prob": self.k0_prob,
            "best": float(self.amplitude[best]),
            "best_frequency": float(self.frequency[best]),
            "median": float(np.median(self.amplitude)),
            "worst": float(self.amplitude[worst]),
            "worst_frequency": float(self.frequency[worst]),
        }


def upper_limit(
    observation: Observation,
    prior: Prior | None,
    noise_std: float,
    k0_prob: float,
    frequency: ArrayLike | None = None,
    credibility: float = CREDIBILITY,
    likelihood: Likelihood | None = None,
) -> UpperLimit | None:
    """The limits of a posterior; None unless p(K = 0 | x) > 0.1 and the data are not all zero.

    Args:
        observation: The data.
        prior: Of the posterior, where it is known.
        noise_std: Estimate of σ; a level that the prior knows goes before it.
        k0_prob: p(K = 0 | x).
        frequency: In Hz, (m,), among those that the likelihood covers; by default four per bin over the prior's band,
            or over all frequencies, in real data from 1/T on.
        credibility: Above 0, below 1.
        likelihood: Of the data, with the noise and the nuisances that the posterior assumes; white noise if None.
    """
    if not 0 < credibility < 1:
        raise ValueError(f"expected a credibility between 0 and 1, received {credibility}.")
    if not k0_prob > LIKELY:
        return None
    stream, is_complex = observation.long, observation.is_complex
    first_bin = 1 / stream.duration
    whole = (-stream.nyquist if is_complex else 2 * first_bin, stream.nyquist)
    band = whole if prior is None else prior.frequency
    if likelihood is None:
        likelihood = likelihood_of(observation, None, band)
    if frequency is None:
        f = _grid_of(band if is_complex else (max(band[0], first_bin), band[1]), first_bin)
    else:
        f = _stated(frequency, likelihood.limits, is_complex)
    known = None if prior is None else prior.known_sigma
    sigma = noise_std if known is None else known
    if not (math.isfinite(sigma) and sigma > 0):  # of noise alone
        sigma = float(np.sqrt(np.mean(np.abs(stream.values) ** 2)))
    if sigma == 0:  # zeros alone: there is no noise to hide a tone in
        return None
    height, scale = matched_filter(observation, f, sigma, likelihood)
    highest = math.inf if prior is None else prior.amplitude[1]
    if (scale == scale[0]).all():
        limits = amplitude_limit(height, float(scale[0]), highest, credibility)
    else:  # one table serves all frequencies; the bound is met where the data say nothing
        free = scale * amplitude_limit(height / scale, 1.0, math.inf, credibility)
        limits = np.minimum(free, highest)
    return UpperLimit(f, limits, credibility, k0_prob)


def _grid_of(band: tuple[float, float], one_bin: float) -> Array:
    """Frequencies of a band at which limits are given, (m,); its upper end alone where it ends below its beginning."""
    low, high = min(band), band[1]
    count = int(np.clip(math.ceil(PER_BIN * (high - low) / one_bin) + 1, 1, MOST))
    return np.linspace(low, high, count)


def _stated(frequency: ArrayLike, limits: tuple[float, float], is_complex: bool) -> Array:
    """Frequencies that a caller states, (m,), which must be among those that the likelihood knows."""
    f = np.atleast_1d(np.asarray(frequency, dtype=np.float64))
    inside = (f >= limits[0]) & (f <= limits[1]) & ((f > 0) | is_complex)
    if f.ndim != 1 or not f.size or not inside.all():
        lowest = "above 0" if limits[0] <= 0 and not is_complex else f"from {limits[0]:g}"
        raise ValueError(
            f"expected frequencies in Hz {lowest} up to {limits[1]:g}, which this analysis looked at, shape (m,), "
            f"received shape {f.shape} from {np.min(f, initial=math.inf):g} to {np.max(f, initial=-math.inf):g}; "
            "analyse a band that holds them."
        )
    return f


def matched_filter(
    observation: Observation,
    frequency: Array,
    sigma: float,
    likelihood: Likelihood | None = None,
) -> tuple[Array, Array]:
    """R = |ĉ| at each frequency, (m,), and s, the noise of its parts, (m,).

    Args:
        observation: The data.
        frequency: In Hz, (m,).
        sigma: Noise level.
        likelihood: Of the data; white noise without nuisances if None.
    """
    if likelihood is None and observation.is_plain:
        likelihood = Statistics.from_observation(observation)
    elif likelihood is None:
        band = float(frequency.min()), float(frequency.max())
        likelihood = likelihood_of(observation, None, band)
    filtered = np.asarray(likelihood.matched(frequency[None, :, None])[0, :, 0])
    weight = np.asarray(likelihood.weight_at(frequency))
    weight = np.maximum(weight, SMALLEST_WEIGHT * weight.max())  # nuisances may take all of a tone
    return np.abs(2 / weight * filtered), sigma * np.sqrt(2 / weight)


def amplitude_limit(
    height: ArrayLike, scale: float, highest: float = math.inf, credibility: float = CREDIBILITY
) -> Array:
    """The amplitude below which a tone's lies with the credibility, given the height of its peak.

    Args:
        height: R, any shape.
        scale: s, above 0.
        highest: A_max.
        credibility: Above 0, below 1.

    Returns:
        Same shape as the height.
    """
    r = np.asarray(height, dtype=np.float64) / scale
    top = highest / scale
    largest = float(r.max(initial=0.0))
    knots = np.unique(r)
    if knots.size <= KNOTS:
        limits = _limits_at(knots, top, credibility)
    else:  # u(r) is smooth on the scale 1
        reach = math.ceil(largest)
        knots, limits = _table(reach, math.inf if top > reach + REACH else top, credibility)
    found: Array = scale * np.interp(r, knots, limits)
    return found


@lru_cache(maxsize=64)
def _table(largest: int, top: float, credibility: float) -> tuple[Array, Array]:
    """Peaks r from zero to the largest and their limits u(r); where the bound is far, the same for all signals."""
    knots = np.linspace(0, largest, KNOTS + min(10 * largest, 10 * KNOTS))
    return knots, _limits_at(knots, top, credibility)


def _limits_at(knots: Array, top: float, credibility: float) -> Array:
    """Limits u(r) of peaks r, (m,), where amplitudes end at the top; all in units of s."""
    first, last = np.maximum(knots - REACH, 0.0), np.minimum(knots + REACH, top)
    first = np.minimum(first, np.maximum(last - REACH, 0.0))  # a peak beyond the bound
    a = first[:, None] + (last - first)[:, None] * np.linspace(0, 1, POINTS)  # (knots, points)
    density = np.log(special.i0e(a * knots[:, None])) - 0.5 * (a - knots[:, None]) ** 2
    density = np.exp(density - density.max(1, keepdims=True))
    area = np.zeros_like(density)
    area[:, 1:] = np.cumsum(0.5 * (density[:, 1:] + density[:, :-1]), axis=1)
    area /= area[:, -1:]
    return np.array([np.interp(credibility, x, y) for x, y in zip(area, a, strict=True)])
