r"""One tone of a state drawn anew, given the others, at any temperature.

A tempered likelihood amounts to data with a larger noise level s. The frequency of the new tone is drawn from the peaks
of the periodogram at that level (`births.py`), whatever the other tones are. Given the frequency, the likelihood is a
Gaussian of the tone's complex amplitude c, apart from the tails that come from integrating out σ. Let M(f) be the
matched filter of the data without what it sees of the other tones, and n' the weight of all samples: the mean of c is
2M(f)/n' and its standard deviation s√(2/n') in either part, up to the overlap of the tone with its own mirror image.
c is drawn from a slightly wider Gaussian, or with a small probability from the prior. The other tones do not change, so
the same density holds for the way back, and the Hastings ratio is exact.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.baselines.births import (
    PRIOR_SHARE,
    WIDER_THAN_NOISE,
    AnyAmplitude,
    PeriodogramBirths,
)
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array, Complex
from slotflow.signal.prior import Prior

__all__ = ["Redraw"]

OCTAVES = 6
"""The broadest births are those at 2 to this power times the noise level."""


class Redraw:
    """Proposals of one tone in place of another, for every noise level in steps of an octave.

    Args:
        table: The likelihood.
        prior: The prior.
        sigma: Rough noise level of the data.
    """

    def __init__(self, table: Tabulated, prior: Prior, sigma: float) -> None:
        self.table, self.prior, self.sigma = table, prior, sigma
        self.waveform, self.anywhere = table.waveform, AnyAmplitude(prior)
        self.made: dict[int, tuple[PeriodogramBirths, Array, Array]] = {}

    def __call__(self, z: Array, level: float, rng: np.random.Generator) -> tuple[Array, Array]:
        """New states and the log of the Hastings ratio.

        Args:
            z: States, (n, K, Z).
            level: The noise level s.
            rng: Source of randomness.

        Returns:
            (n, K, Z), not sorted, and (n,).
        """
        births, mass, cumulative = self._at(level)
        n, k = z.shape[:2]
        rows, j = np.arange(n), rng.integers(k, size=n)
        f_others, c_others = self.waveform.simple(z)
        old_f, old_c, new = f_others[rows, j], c_others[rows, j], z.copy()
        c_others[rows, j] = 0.0
        cell = np.searchsorted(cumulative, rng.random(n) * cumulative[-1])
        cell = np.minimum(cell, births.cells - 1)
        f = births.low + births.width * (cell + rng.random(n))
        spread = self._spread(level)
        mean = self._mean(f, f_others, c_others)
        c = mean + spread * (rng.standard_normal(n) + 1j * rng.standard_normal(n))
        anywhere = self.anywhere.sample(n, rng)
        c = np.where(rng.random(n) < PRIOR_SHARE, anywhere, c)
        old_mean = self._mean(old_f, f_others, c_others)
        back = np.log(mass[births.cell_of(old_f)]) + self._log_prob(old_c, old_mean, spread)
        forth = np.log(mass[cell]) + self._log_prob(c, mean, spread)
        new[rows, j] = self.waveform.from_simple(f, c)
        return new, back - forth

    def _at(self, level: float) -> tuple[PeriodogramBirths, Array, Array]:
        """Births of the noise level nearest to a given one, the mass of their cells, and its sums, (cells,) each."""
        octave = min(max(round(math.log2(level / self.sigma)), 0), OCTAVES)
        if octave not in self.made:
            births = PeriodogramBirths(self.table, self.prior, 2.0**octave * self.sigma)
            mass = births.mass.mean(0)
            self.made[octave] = births, mass, mass.cumsum()
        return self.made[octave]

    def _spread(self, level: float) -> float:
        """Standard deviation of either part of c, at most half the prior's largest amplitude."""
        most = 0.5 * self.prior.amplitude[1]
        return min(WIDER_THAN_NOISE * level * math.sqrt(2 / self.table.weight), most)

    def _mean(self, at: Array, f: Array, c: Complex) -> Complex:
        """Mean of a tone's c at some frequencies, (n,), given all tones (f, c), (n, K) each; its own c there is 0."""
        seen = self.table.filtered(f, c, at[:, None])
        mean: Complex = 2 / self.table.weight * (self.table.filter(at) - seen.sum(-1))
        return mean

    def _log_prob(self, c: Complex, mean: Complex, spread: float) -> Array:
        """Log density of c given its mean, (n,)."""
        off = np.abs(c - mean) ** 2
        density = self.anywhere.density(c, PRIOR_SHARE)
        density += (1 - PRIOR_SHARE) * np.exp(-0.5 * off / spread**2) / (2 * math.pi * spread**2)
        with np.errstate(divide="ignore"):
            log_prob: Array = np.log(density)
        return log_prob
