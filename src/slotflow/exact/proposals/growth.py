r"""Proposals of K tones from draws of K − 1: one tone more, wherever the data leave room for it.

A draw z' of K − 1 tones is one of p(Θ | x, K − 1), of known density π = p̃/Z_{K−1}. The new tone's frequency is drawn
from what the others leave of the data (`surface.py`), then its amplitude, to which theirs adapt, a map of Jacobian 1.
Any of the K tones of a set may be the new one,

.. math:: q(z) = \sum_j π(z_{\setminus j} \text{ before it adapted})\; q(z_j \mid z_{\setminus j}) .

What z' was before it adapted may lie outside the prior's bounds even where z does not, and amplitudes near a bound do
not follow the data alone. So in most draws only tones far from the bounds adapt, and in the others none does: every z
that the prior allows is reached. Weak tones, whose frequencies are nearly independent but for what a short stream does
not separate, have nearly constant weights p̃/q, however many they are. Draws that come from one draw of K − 1 share its
tones: the evidence's error is that of their lineage (`lineage.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance
from slotflow.exact.lineage import descended, own_roots
from slotflow.exact.proposals.surface import Fit, Surface
from slotflow.exact.target import Target
from slotflow.signal.waveforms import TONE

__all__ = ["Growth"]

SHARES = (0.75, 0.25)
"""Draws to which the others adapt if they are far from the prior's bounds, and not at all."""
CHUNK = 64
"""Densities over the band that are computed at a time."""
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
        """A result with the errors of the draws of K − 1 that it comes from, and of their evidence, taken over.

        What the evidence of K − 1 is uncertain by beyond what its draws say is added.
        """
        log_w, lower = result.log_weights, self.lower
        below = lower.lineage or own_roots(len(lower.log_weights))
        lineage = descended(below, self.parents(result.theta), log_w)
        apart = max(lower.log_evidence_error**2 - below.variance(lower.log_weights), 0.0)
        variance = max(lineage.variance(log_w), result.log_evidence_error**2) + apart
        return replace(result, log_evidence_error=math.sqrt(variance), lineage=lineage)

    def parents(self, theta: Array) -> NDArray[np.int64]:
        """Which draw of K − 1 each draw, (n, K, 3), comes from, (n,); −1 for none.

        One has all frequencies of the other but one, to the last bit, so that the sum of their bits tells.
        """
        found = np.full(len(theta), -1, dtype=np.int64)
        if self.target.k == 0:
            return found
        bits = _bits(self.target.statistics.to_z(theta))
        before = _bits(self.z).sum(-1, dtype=np.uint64)
        order = np.argsort(before)
        fewer = bits.sum(-1, dtype=np.uint64)[:, None] - bits  # (n, K)
        at = order[np.minimum(np.searchsorted(before, fewer, sorter=order), len(order) - 1)]
        row, which = np.nonzero(before[at] == fewer)
        found[row] = at[row, which]
        return found

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3), sorted."""
        surface = self.surface
        base = self.z[rng.choice(len(self.z), n, p=np.exp(self.lower.log_weights))]
        places, c_base = TONE.simple(base)
        f, everyone = surface.rounded(places), np.ones((1, self.target.k), dtype=np.bool_)
        fits = surface.fits(surface.gram(f, f), surface.matched(f), c_base, everyone)
        cell = np.zeros(n, dtype=np.int64)
        for i in range(0, n, CHUNK):
            part = slice(i, i + CHUNK)
            mass = surface.shares(surface.mass(f[part], fits[0].take(part), everyone)[:, 0])
            mass = mass.cumsum(-1, out=mass)
            cell[part] = (mass < rng.random(len(mass))[:, None] * mass[:, -1:]).sum(-1)
        cell = np.minimum(cell, surface.cells - 1)
        new: Array = surface.low + surface.width * (cell + rng.random(n))
        filtered, kappa = surface.matched(new[:, None]), surface.gram(new[:, None], f)
        kind = rng.choice(len(SHARES), n, p=SHARES)
        c = np.zeros(n, dtype=np.complex128)
        for which, fit in enumerate(fits):
            at = np.flatnonzero(kind == which)
            slope, left, moved = surface.slope(kappa[at], filtered[at], fit.take(at))
            c[at] = surface.amplitudes.sample(slope[:, 0], left[:, 0], rng)
            c_base[at] += moved[:, 0] * c[at, None]
        z = np.concatenate([TONE.from_simple(places, c_base), TONE.from_simple(new, c)[:, None]], 1)
        order = np.argsort(TONE.place_in_z(z), -1)
        return np.take_along_axis(z, order[..., None], 1)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        surface = self.surface
        places, c = TONE.simple(z)
        f, there = surface.rounded(places), ~np.eye(self.k, dtype=np.bool_)
        before, fit = self._without_place(places, f, c, there)
        with np.errstate(invalid="ignore"):
            wanted = before > before.max(-1, keepdims=True) - HOPELESS
        new = np.flatnonzero(wanted.any(0))  # tones beyond doubt are never the new one
        cell = surface.cell(places)[:, new]
        size = max(CHUNK // max(len(new), 1), 1)
        for i in range(0, len(z), size):
            part = slice(i, i + size)
            mass = surface.mass(f[part], fit.take((part, new)), there[new])
            before[part, new] += surface.log_density(mass, cell[part])
        total: Array = log_sum_exp(np.where(wanted, before, -np.inf), axis=-1)
        return total - self.lower.log_evidence

    def _without_place(
        self, places: Array, f: Array, c: Complex, there: NDArray[np.bool_]
    ) -> tuple[Array, Fit]:
        """The density with each of the tones as the new one, but for that of its frequency.

        Args:
            places: Frequencies, (n, K).
            f: The same, rounded.
            c: Amplitudes, (n, K).
            there: Who is left with each tone taken away, (K, K).

        Returns:
            Its logarithm, (n, K), and the fit of the others by which each tone's frequency was drawn.
        """
        surface, filtered = self.surface, self.surface.matched(places)
        fits = surface.fits(surface.gram(f, f), surface.matched(f), c, there)
        kappa = surface.gram(places, f)
        fewer = FewerTones(self.target, places)
        before = np.full(places.shape, -np.inf)
        for share, fit in zip(SHARES, fits, strict=True):
            slope, left, moved = surface.slope(kappa, filtered, fit)
            term = fewer.log_prob(np.where(there, c[:, None] - moved * c[..., None], 0.0))
            term += math.log(share)
            drawn = surface.amplitudes.log_prob(c.ravel(), slope.ravel(), left.ravel())
            before = np.logaddexp(before, term + drawn.reshape(places.shape))
        return before, fits[0]


class FewerTones:
    """The density of n sets of K tones with each of them taken away in turn, for any amplitudes of the others.

    RSS is a quadratic form of the amplitudes that the frequencies alone decide, so that it is built once for a set and
    serves all K choices of who is away.

    Args:
        target: Of K − 1 tones.
        places: Frequencies, (n, K).
    """

    def __init__(self, target: Target, places: Array) -> None:
        self.target, self.places, k = target, places, places.shape[1]
        self.rest = np.array([np.delete(np.arange(k), j) for j in range(k)])  # (K, K − 1)
        statistics = target.statistics
        self.gram, self.data = statistics.amplitude_systems(
            places[..., None]
        )  # (n, 2K, 2K), (n, 2K)
        self.energy = float(statistics.energy)

    def log_prob(self, c: Complex) -> Array:
        """Log density, (n, K), at amplitudes (n, K, K): the set with the j-th tone away, whose amplitude is zero."""
        (n, k), target = self.places.shape, self.target
        amplitudes = np.concatenate([c.real, c.imag], -1)  # (n, K, 2K)
        seen = amplitudes @ self.gram
        seen -= 2 * self.data[:, None]
        rss = self.energy + np.einsum("njd,njd->nj", seen, amplitudes)
        others = np.take_along_axis(c, np.broadcast_to(self.rest, (n, k, k - 1)), -1)
        z = TONE.from_simple(self.places[:, self.rest], others).reshape(
            n * k, k - 1, TONE.coordinates
        )
        apart = target.statistics.apart(z[..., : len(TONE.shape)])
        if apart is not None:
            rss = rss - np.asarray(apart[0]).reshape(n, k)
        return target.log_prob(z, rss.ravel())[0].reshape(n, k)


def _bits(z: Array) -> NDArray[np.uint64]:
    """Bits of the frequencies of sets, (n, K, 3), as whole numbers, (n, K)."""
    places: Array = np.ascontiguousarray(TONE.place_in_z(z), dtype=np.float64)
    return places.view(np.uint64)
