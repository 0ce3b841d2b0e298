r"""Births of single tones for trans-dimensional samplers, in the coordinates z of the waveform, (…, Z).

From the periodogram: the strongest tones are taken out of it one after the other (a matching pursuit). For each of them
there is a matched filter M_j(f) of the data without the others, and there is one more filter of what all of them leave.
A birth picks one of these filters. Its frequency is drawn with a density proportional to exp |M_j(f)|²/n'σ², the
likelihood at the best complex amplitude c, mixed with a wider density and with the prior. Its c either lies near the
value that the filter gives at that frequency, 2M_j(f)/n', within the noise or within what other tones leak into the
filter, or is drawn from the prior.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array, Complex
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["PRIOR_SHARE", "AnyAmplitude", "Births", "BirthsOfTheta", "PeriodogramBirths"]

GAIN_OF_A_TONE = 12.0
"""Gain in log-likelihood from which on a peak of the periodogram counts as a tone."""
DEPTH_OF_WIDER_DENSITY = 30.0
"""Depth in nats of the wider one of the two densities of a birth's frequency."""
PRIOR_SHARE = 0.2
"""Share of the prior in the densities of the frequencies and of the amplitudes of births."""
LEAKAGE = 0.1
"""How far leakage from other tones moves an amplitude, in units of the prior's largest amplitude."""
WIDER_THAN_NOISE = 1.2
"""Standard deviation of a birth's c in units of the one that noise alone causes."""
FEWEST_CELLS = 64
"""Cells that the band is divided into, at least."""
TINY = 1e-300
"""Stands for an amplitude of zero in divisions and logarithms."""


class Births(Protocol):
    """A density of one tone."""

    def sample(self, n: int, rng: Any) -> Array:
        """Draws of z, (n, Z)."""

    def log_prob(self, z: Array) -> Array:
        """Log density of z, (n, Z) to (n,)."""


class AnyAmplitude:
    """Complex amplitudes with any phase and a modulus that is uniform between the prior's bounds.

    Args:
        prior: Gives the bounds.
    """

    def __init__(self, prior: Prior) -> None:
        self.low, self.high = prior.amplitude

    def sample(self, n: int, rng: Any) -> Complex:
        """Draws of c, (n,)."""
        modulus = self.low + (self.high - self.low) * rng.random(n)
        c: Complex = modulus * np.exp(2j * math.pi * rng.random(n))
        return c

    def density(self, c: Complex, share: float) -> Array:
        """A share of the density of c in the complex plane, same shape."""
        modulus = np.maximum(np.abs(c), TINY)
        inside = (modulus >= self.low) & (modulus <= self.high)
        density: Array = share * inside / (2 * math.pi * (self.high - self.low) * modulus)
        return density


class PeriodogramBirths:
    """Births at the peaks of the periodogram, from which the strongest tones are taken out one after the other.

    Args:
        table: The likelihood.
        prior: Gives the band, the bounds of A and the largest number of tones.
        sigma: Rough noise level.
    """

    def __init__(self, table: Tabulated, prior: Prior, sigma: float) -> None:
        self.table, self.prior, self.anywhere = table, prior, AnyAmplitude(prior)
        self.waveform = table.waveform
        low, high = prior.frequency
        self.cells = max(FEWEST_CELLS, math.ceil((high - low) / table.step))
        self.low, self.width = low, (high - low) / self.cells
        f: Array = low + self.width * (np.arange(self.cells, dtype=np.float64) + 0.5)
        data = table.filter(f)
        self.tones = self._pursue(f, data, sigma)
        """Coordinates of the tones that were taken out, (J, Z)."""
        models = self._models(f, self.tones)
        rest = data - models.sum(0)
        self.filters = np.concatenate([rest + models, rest[None]])  # (J + 1, cells)
        gain = np.abs(self.filters) ** 2 / (table.weight * sigma**2)
        gain -= gain.max(-1, keepdims=True)
        mass = np.exp(gain) / np.exp(gain).sum(-1, keepdims=True)
        depth = np.maximum(-gain.min(-1, keepdims=True), DEPTH_OF_WIDER_DENSITY)
        wider = gain * np.minimum(DEPTH_OF_WIDER_DENSITY / depth, 1.0)
        mass = 0.5 * mass + 0.5 * np.exp(wider) / np.exp(wider).sum(-1, keepdims=True)
        self.mass = (1 - PRIOR_SHARE) * mass + PRIOR_SHARE / self.cells  # (J + 1, cells)
        self.cumulative = self.mass.cumsum(-1)
        tight = WIDER_THAN_NOISE * (sigma * math.sqrt(2 / table.weight))
        self.spreads = np.array([tight, math.hypot(tight, LEAKAGE * prior.amplitude[1])])

    def cell_of(self, f: Array) -> NDArray[np.int64]:
        """The cell of the band that each frequency lies in, the nearest one for frequencies outside; same shape."""
        return np.clip((f - self.low) / self.width, 0, self.cells - 1).astype(np.int64)

    def _models(self, at: Array, z: Array) -> Complex:
        """What the matched filter sees at some frequencies, (G,), of each tone z, (J, Z): (J, G)."""
        f, c = self.waveform.simple(z)
        return self.table.filtered(f[:, None], c[:, None], at)

    def _pursue(self, f: Array, data: Complex, sigma: float) -> Array:
        """Tones at the highest peaks of what earlier tones leave; every new tone is followed by a new look at all."""
        tones = np.zeros((0, self.waveform.coordinates))
        models = np.zeros((0, len(f)), dtype=np.complex128)
        clear = GAIN_OF_A_TONE * self.table.weight * sigma**2
        faint = 0.25 * self.table.weight * self.prior.amplitude[0]  # half the smallest amplitude
        while len(tones) < self.prior.k_max:
            rest = data - models.sum(0)
            at = int(np.abs(rest).argmax())
            if np.abs(rest[at]) ** 2 < clear or np.abs(rest[at]) < faint:
                break
            tones = np.append(tones, np.zeros((1, tones.shape[1])), 0)
            models = np.append(models, np.zeros_like(data)[None], 0)
            for j in [len(tones) - 1, *range(len(tones))]:
                rest = data - models.sum(0) + models[j]
                at = int(np.abs(rest).argmax())
                tones[j] = self.waveform.from_simple(f[at], 2 / self.table.weight * rest[at])
                models[j] = self._models(f, tones[j : j + 1])[0]
        return tones

    def sample(self, n: int, rng: Any) -> Array:
        """Draws of z, (n, Z)."""
        row = (rng.random(n) * len(self.mass)).astype(np.int64)
        u, cell = rng.random(n), np.zeros(n, dtype=np.int64)
        for j in range(len(self.mass)):
            here = row == j
            cell[here] = np.searchsorted(self.cumulative[j], u[here] * self.cumulative[j, -1])
        cell = np.minimum(cell, self.cells - 1)
        kind = rng.random(n)
        spread = np.where(kind < 0.5, *self.spreads)
        near = 2 / self.table.weight * self.filters[row, cell]
        near = near + spread * (rng.standard_normal(n) + 1j * rng.standard_normal(n))
        c = np.where(kind < 1 - PRIOR_SHARE, near, self.anywhere.sample(n, rng))
        return self.waveform.from_simple(self.low + self.width * (cell + rng.random(n)), c)

    def log_prob(self, z: Array) -> Array:
        """Log density of z, (n, Z) to (n,)."""
        f, c = self.waveform.simple(z)
        cell = self.cell_of(f)
        off = np.abs(c - 2 / self.table.weight * self.filters[:, cell]) ** 2  # (J + 1, n)
        density = self.anywhere.density(c, PRIOR_SHARE)
        for share, spread in zip((0.5, 0.5 - PRIOR_SHARE), self.spreads, strict=True):
            density = density + share * np.exp(-0.5 * off / spread**2) / (2 * math.pi * spread**2)
        with np.errstate(divide="ignore"):
            log_prob: Array = np.log((self.mass[:, cell] * density).mean(0) / self.width)
        return log_prob


class BirthsOfTheta:
    """Births from an object with `rvs` and `logpdf` of tones θ, such as `Posterior.as_eryn_proposal` returns.

    Args:
        proposal: The object; it uses random numbers of its own.
        reference: The reference time τ of the coordinates z.
    """

    def __init__(self, proposal: Any, reference: float) -> None:
        self.proposal, self.reference = proposal, reference

    def sample(self, n: int, rng: Any) -> Array:
        """Draws of z, (n, Z)."""
        return TONE.to_z(self.proposal.rvs(n), self.reference)

    def log_prob(self, z: Array) -> Array:
        """Log density of z, (n, Z) to (n,): the one of θ over the Jacobian |∂z/∂θ| = A."""
        theta = TONE.to_theta(z, self.reference)
        amplitude = np.maximum(TONE.of(theta, "amplitude"), TINY)
        result: Array = self.proposal.logpdf(theta) - np.log(amplitude)
        return result
