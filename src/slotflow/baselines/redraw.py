r"""One tone of a state drawn anew, given the others, at any temperature.

A tempered likelihood amounts to data of a larger noise level s. The frequency is drawn from the periodogram's peaks at
that level (`births.py`), whatever the other tones are. Given it, the likelihood is a Gaussian of the tone's c but for
σ's tails: with the matched filter M(f) of the data, what the filter sees of the other tones taken out of it, and the
weight n' of all samples, its mean is 2M(f)/n' and its standard deviation s√(2/n') in either part, up to the tone's
overlap with its own mirror image. c is drawn from that Gaussian, a little wider, or with a small probability from the
prior. The others do not change, so that the same density holds for the way back, and the Hastings ratio is exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from slotflow.baselines.births import FLAT, PeriodogramBirths
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Redraw"]

Complex = NDArray[np.complex128]
OCTAVES = 6
"""Births become no broader than those at 2 to this power times the noise level."""
WIDER = 1.2
"""Factor on the standard deviation of c."""


class Redraw:
    """Proposals of one tone in place of another, for every noise level in steps of an octave.

    Args:
        table: Of the likelihood.
        prior: The prior.
        sigma: Rough noise level of the data.
    """

    def __init__(self, table: Tabulated, prior: Prior, sigma: float) -> None:
        self.table, self.prior, self.sigma = table, prior, sigma
        self.made: dict[int, tuple[PeriodogramBirths, Array, Array]] = {}

    def __call__(self, z: Array, level: float, rng: np.random.Generator) -> tuple[Array, Array]:
        """New states and the log of the Hastings ratio.

        Args:
            z: States, (n, K, 3).
            level: s.
            rng: Source of randomness.

        Returns:
            (n, K, 3), not sorted, and (n,).
        """
        births, mass, cumulative = self._at(level)
        n, k = z.shape[:2]
        rows, j = np.arange(n), rng.integers(k, size=n)
        places, c_all = TONE.simple(z)
        old_f, old_c = places[rows, j], c_all[rows, j]
        others = c_all.copy()
        others[rows, j] = 0.0
        cell = np.searchsorted(cumulative, rng.random(n) * cumulative[-1])
        cell = np.minimum(cell, births.cells - 1)
        f = births.low + births.width * (cell + rng.random(n))
        spread = self._spread(level)
        mean = self._mean(f, places, others)
        c = mean + spread * (rng.standard_normal(n) + 1j * rng.standard_normal(n))
        a_low, a_high = self.prior.amplitude
        anywhere = (a_low + (a_high - a_low) * rng.random(n)) * np.exp(2j * math.pi * rng.random(n))
        c = np.where(rng.random(n) < FLAT, anywhere, c)
        old_mean = self._mean(old_f, places, others)
        back = np.log(mass[self._cell(births, old_f)]) + self._log_prob(old_c, old_mean, spread)
        forth = np.log(mass[cell]) + self._log_prob(c, mean, spread)
        places = places.copy()
        places[rows, j], others[rows, j] = f, c
        return TONE.from_simple(places, others), back - forth

    def _at(self, level: float) -> tuple[PeriodogramBirths, Array, Array]:
        """Births of the noise level nearest to a given one, the mass of their cells, and its sums, (cells,) each."""
        octave = min(max(round(math.log2(level / self.sigma)), 0), OCTAVES)
        if octave not in self.made:
            births = PeriodogramBirths(self.table, self.prior, 2.0**octave * self.sigma)
            mass = births.mass.mean(0)
            self.made[octave] = births, mass, mass.cumsum()
        return self.made[octave]

    @staticmethod
    def _cell(births: PeriodogramBirths, f: Array) -> NDArray[np.int64]:
        cell = (f - births.low) / births.width
        return np.clip(cell, 0, births.cells - 1).astype(np.int64)

    def _spread(self, level: float) -> float:
        """Standard deviation of either part of c; beyond the prior's bounds there is nothing to find."""
        most = 0.5 * self.prior.amplitude[1]
        return min(WIDER * level * math.sqrt(2 / self.table.weight), most)

    def _mean(self, f: Array, places: Array, c: Complex) -> Complex:
        """Mean of c at f, (n,), given the places and amplitudes of the tones, (n, K) each, of which one is 0."""
        apart = places - f[:, None]
        near = self.table.near(np.abs(apart))
        near = np.where(apart < 0, near.conj(), near)
        seen = c * near + (c * self.table.far(places + f[:, None])).conj()
        mean: Complex = 2 / self.table.weight * (self.table.filter(f) - 0.5 * seen.sum(-1))
        return mean

    def _log_prob(self, c: Complex, mean: Complex, spread: float) -> Array:
        """Log density of c given its mean, (n,)."""
        off = np.abs(c - mean) ** 2
        (a_low, a_high), amplitude = self.prior.amplitude, np.maximum(np.abs(c), 1e-300)
        inside = (amplitude >= a_low) & (amplitude <= a_high)
        density = FLAT * inside / (2 * math.pi * (a_high - a_low) * amplitude)
        density += (1 - FLAT) * np.exp(-0.5 * off / spread**2) / (2 * math.pi * spread**2)
        with np.errstate(divide="ignore"):
            log_prob: Array = np.log(density)
        return log_prob
