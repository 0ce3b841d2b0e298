r"""Proposals of K tones from draws of K − 1: one tone more, wherever the data leave room for it.

A draw z' of K − 1 tones is one of p(Θ | x, K − 1), of known density π = p̃/Z_{K−1}. The new tone's frequency is drawn
from what the others leave of the data (`surface.py`), then its amplitude, to which theirs adapt, a map of Jacobian 1.
Any of the K tones of a set may be the new one,

.. math:: q(z) = \sum_j π(z_{\setminus j} \text{ before it adapted})\; q(z_j \mid z_{\setminus j}) .

What z' was before it adapted may lie outside the prior's bounds even where z does not, and amplitudes near a bound do
not follow the data alone. So in most draws only tones far from the bounds adapt, and in the others none does: every z
that the prior allows is reached. Weak tones, whose frequencies are nearly independent but for what a short stream does
not separate, have nearly constant weights p̃/q, however many they are.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance
from slotflow.exact.proposals.surface import Fit, Surface
from slotflow.exact.target import Target
from slotflow.signal.waveforms import TONE

__all__ = ["Growth", "carried"]

SHARES = (0.75, 0.25)
"""Draws to which the others adapt if they are far from the prior's bounds, and not at all."""
CHUNK = 32
"""Draws whose densities over the band are computed at a time."""
HOPELESS = 40.0
"""A tone is not the new one if the density without that of f is smaller than for another by this many nats."""


class Growth:
    """K tones: draws of K − 1 and one more.

    Args:
        surface: Of the signal.
        target: Of K − 1 tones.
        lower: Their draws and evidence.
    """

    def __init__(self, surface: Surface, target: Target, lower: Importance) -> None:
        self.surface, self.target, self.lower = surface, target, lower
        self.z = target.statistics.to_z(lower.theta)
        self.k = target.k + 1

    def carried(self, result: Importance) -> Importance:
        """A result with the errors of the draws of K − 1 and of their evidence added to its own."""
        return carried(result, self.lower)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3), sorted."""
        surface = self.surface
        base = self.z[rng.choice(len(self.z), n, p=np.exp(self.lower.log_weights))]
        places, c_base = TONE.simple(base)
        f = surface.rounded(places)
        fits = surface.fits(surface.gram(f, f), surface.matched(f), c_base)
        cell = np.zeros(n, dtype=np.int64)
        for i in range(0, n, CHUNK):
            part = slice(i, i + CHUNK)
            mass = surface.mass(surface.others(f[part]), fits[0].take(part))
            mass = mass.cumsum(-1)
            cell[part] = (mass < rng.random(len(mass))[:, None] * mass[:, -1:]).sum(-1)
        cell = np.minimum(cell, surface.cells - 1)
        new: Array = surface.low + surface.width * (cell + rng.random(n))
        filtered = surface.matched(new[:, None])[:, 0]
        kappa = surface.gram(new[:, None], f)[:, 0]
        kind = rng.choice(len(SHARES), n, p=SHARES)
        c = np.zeros(n, dtype=np.complex128)
        for which, fit in enumerate(fits):
            at = np.flatnonzero(kind == which)
            slope, left, moved = surface.slope(kappa[at], filtered[at], fit.take(at))
            c[at] = surface.amplitudes.sample(slope, left, rng)
            c_base[at] += moved * c[at, None]
        z = np.concatenate([TONE.from_simple(places, c_base), TONE.from_simple(new, c)[:, None]], 1)
        order = np.argsort(TONE.place_in_z(z), -1)
        return np.take_along_axis(z, order[..., None], 1)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        surface, n = self.surface, len(z)
        places, c = TONE.simple(z)
        f = surface.rounded(places)
        before, fits = self._without_place(places, f, c)
        with np.errstate(invalid="ignore"):
            wanted = before > before.max(-1, keepdims=True) - HOPELESS
        cell = np.clip((places - surface.low) / surface.width, 0, surface.cells - 1).astype(
            np.int64
        )
        for i in range(0, n, CHUNK):
            others = surface.others(f[i : i + CHUNK])
            for j, fit in enumerate(fits):
                rows = np.flatnonzero(wanted[i : i + CHUNK, j])
                if rows.size == 0:
                    continue
                at = i + rows
                mass = surface.mass(others.take(rows), fit.take(at), but=j)
                before[at, j] += np.log(mass[np.arange(len(at)), cell[at, j]] / surface.width)
        total: Array = log_sum_exp(np.where(wanted, before, -np.inf), axis=-1)
        return total - self.lower.log_evidence

    def _without_place(self, places: Array, f: Array, c: Complex) -> tuple[Array, list[Fit]]:
        """The density with each of the tones as the new one, but for that of its frequency.

        Args:
            places: Frequencies, (n, K).
            f: The same, rounded.
            c: Amplitudes, (n, K).

        Returns:
            Its logarithm, (n, K), and the fit of the others by which each tone's frequency was drawn.
        """
        surface, found = self.surface, []
        filtered, exact = surface.matched(f), surface.matched(places)
        grams, kappas = surface.gram(f, f), surface.gram(places, f)
        before = np.full(places.shape, -np.inf)
        for j in range(self.k):
            rest = np.delete(np.arange(self.k), j)
            fits = surface.fits(grams[:, rest[:, None], rest], filtered[:, rest], c[:, rest])
            for share, fit in zip(SHARES, fits, strict=True):
                slope, left, moved = surface.slope(kappas[:, j, rest], exact[:, j], fit)
                base = TONE.from_simple(places[:, rest], c[:, rest] - moved * c[:, j, None])
                term = self.target.log_prob(base)[0] + math.log(share)
                term += surface.amplitudes.log_prob(c[:, j], slope, left)
                before[:, j] = np.logaddexp(before[:, j], term)
            found.append(fits[0])
        return before, found


def carried(result: Importance, lower: Importance) -> Importance:
    """A result that grew from draws of one tone less, with their errors and that of their evidence added to its own."""
    again = 1 + len(result.log_weights) / max(lower.effective, 1.0)
    error = math.hypot(result.log_evidence_error * math.sqrt(again), lower.log_evidence_error)
    return replace(result, log_evidence_error=error)
