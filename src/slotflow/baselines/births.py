r"""Births of single tones z = (f, Re c, Im c) for trans-dimensional samplers.

From the periodogram: the strongest tones are taken out of it one after the other (a matching pursuit). For each of them
there is a matched filter M_j(f) of the data without the others, and one more of what all of them leave. A birth picks
one of these; f is drawn with a density proportional to exp |M_j(f)|²/n'σ², the likelihood at the best c, mixed
with a wider one and with the prior's; and c is near what the filter says at that f, 2M_j(f)/n', within the noise or
within what other tones leak into it, or is drawn from the prior.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Births", "BirthsOfTheta", "PeriodogramBirths"]

Complex = NDArray[np.complex128]
CLEAR = 12.0
"""Gain in log-likelihood from which on a peak is taken for a tone."""
MILD = 30.0
"""Depth in nats of the wider one of two densities of a birth's frequency."""
FLAT = 0.2
"""Share of the prior in the births' frequencies and amplitudes."""
LEAK = 0.1
"""How far leakage moves an amplitude, in units of the prior's largest."""


class Births(Protocol):
    """A density of one tone."""

    def sample(self, n: int, rng: Any) -> Array:
        """Draws of z, (n, 3)."""

    def log_prob(self, z: Array) -> Array:
        """Log density of z, (n, 3) to (n,)."""


class PeriodogramBirths:
    """Births at the peaks of the data's periodogram, the strongest tones of which are taken out one after the other.

    Args:
        table: Of the likelihood.
        prior: Its band, its bounds of A and its k_max.
        sigma: Rough noise level.
    """

    def __init__(self, table: Tabulated, prior: Prior, sigma: float) -> None:
        self.table, self.prior = table, prior
        low, high = prior.frequency
        self.cells = max(64, math.ceil((high - low) / table.step))
        self.low, self.width = low, (high - low) / self.cells
        f: Array = low + self.width * (np.arange(self.cells, dtype=np.float64) + 0.5)
        data = table.filter(f)
        self.tones = self._pursue(f, data, sigma)
        """(f, Re c, Im c) of the tones that were taken out, (J, 3)."""
        models = self._models(f, self.tones)
        rest = data - models.sum(0)
        self.filters = np.concatenate([rest + models, rest[None]])  # (J + 1, cells)
        gain = np.abs(self.filters) ** 2 / (table.weight * sigma**2)
        gain -= gain.max(-1, keepdims=True)
        mass = np.exp(gain) / np.exp(gain).sum(-1, keepdims=True)
        mild = gain * np.minimum(MILD / np.maximum(-gain.min(-1, keepdims=True), MILD), 1.0)
        mass = 0.5 * mass + 0.5 * np.exp(mild) / np.exp(mild).sum(-1, keepdims=True)
        self.mass = (1 - FLAT) * mass + FLAT / self.cells  # (J + 1, cells)
        self.cumulative = self.mass.cumsum(-1)
        tight = sigma * math.sqrt(2 / table.weight)
        self.spreads = np.array([1.2 * tight, math.hypot(1.2 * tight, LEAK * prior.amplitude[1])])

    def _models(self, f: Array, z: Array) -> Complex:
        """What the matched filter sees of each tone z, (J, 3), at f, (G,): (J, G)."""
        place, c = (part[:, None] for part in TONE.simple(z))
        apart = place - f
        near = self.table.near(np.abs(apart))
        near = np.where(apart < 0, near.conj(), near)
        model: Complex = 0.5 * (c * near + c.conj() * self.table.far(place + f).conj())
        return model

    def _pursue(self, f: Array, data: Complex, sigma: float) -> Array:
        """Tones at the highest peaks of what the ones before leave, each looked for again after every new one."""
        tones = np.zeros((0, TONE.coordinates))
        models = np.zeros((0, len(f)), dtype=np.complex128)
        clear = CLEAR * self.table.weight * sigma**2
        faint = 0.25 * self.table.weight * self.prior.amplitude[0]  # half the smallest amplitude
        while len(tones) < self.prior.k_max:
            rest = data - models.sum(0)
            at = int(np.abs(rest).argmax())
            if np.abs(rest[at]) ** 2 < clear or np.abs(rest[at]) < faint:
                break
            tones = np.append(tones, np.zeros((1, TONE.coordinates)), 0)
            models = np.append(models, np.zeros_like(data)[None], 0)
            for j in [len(tones) - 1, *range(len(tones))]:
                rest = data - models.sum(0) + models[j]
                at = int(np.abs(rest).argmax())
                c = 2 / self.table.weight * rest[at]
                tones[j] = TONE.from_simple(f[at : at + 1], c[None])[0]
                models[j] = self._models(f, tones[j : j + 1])[0]
        return tones

    def sample(self, n: int, rng: Any) -> Array:
        """Draws of z, (n, 3)."""
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
        a_low, a_high = self.prior.amplitude
        anywhere = (a_low + (a_high - a_low) * rng.random(n)) * np.exp(2j * math.pi * rng.random(n))
        c = np.where(kind < 1 - FLAT, near, anywhere)
        return TONE.from_simple(self.low + self.width * (cell + rng.random(n)), c)

    def log_prob(self, z: Array) -> Array:
        """Log density of z, (n, 3) to (n,)."""
        f, c = TONE.simple(z)
        cell = np.clip((f - self.low) / self.width, 0, self.cells - 1).astype(np.int64)
        off = np.abs(c - 2 / self.table.weight * self.filters[:, cell]) ** 2  # (J + 1, n)
        (a_low, a_high), amplitude = self.prior.amplitude, np.maximum(np.abs(c), 1e-300)
        inside = (amplitude >= a_low) & (amplitude <= a_high)
        density = FLAT * inside / (2 * math.pi * (a_high - a_low) * amplitude)
        for share, spread in zip((0.5, 0.5 - FLAT), self.spreads, strict=True):
            density = density + share * np.exp(-0.5 * off / spread**2) / (2 * math.pi * spread**2)
        with np.errstate(divide="ignore"):
            log_prob: Array = np.log((self.mass[:, cell] * density).mean(0) / self.width)
        return log_prob


class BirthsOfTheta:
    """Births of an object with `rvs` and `logpdf` of (A, φ, f), as `Posterior.as_eryn_proposal` gives it.

    Args:
        proposal: The object; its own random numbers are used.
        reference: τ.
    """

    def __init__(self, proposal: Any, reference: float) -> None:
        self.proposal, self.reference = proposal, reference

    def sample(self, n: int, rng: Any) -> Array:
        """Draws of z, (n, 3)."""
        return TONE.to_z(self.proposal.rvs(n), self.reference)

    def log_prob(self, z: Array) -> Array:
        """Log density of z, (n, 3) to (n,)."""
        theta = TONE.to_theta(z, self.reference)
        result: Array = self.proposal.logpdf(theta) - np.log(
            np.maximum(TONE.of(theta, "amplitude"), 1e-300)
        )
        return result
