r"""Proposals for unresolved pairs: single tones of a fit split in two.

The fit of D tones has one tone (f̄, C) replaced by a pair c_1 + c_2 = C at the distance δ,

.. math:: f_1 = \bar f - δ\, \Re(c_2/C), \quad f_2 = \bar f + δ\, \Re(c_1/C) ,

which keeps the first two moments of the pair's spectrum; (f̄, C, δ, c_1) → (f_1, c_1, f_2, c_2) has the Jacobian 1. What
the data see of the split is the difference v of the pair and the tone: with the fit's residual r, its covariance Σ and
the products B = ⟨T, v⟩ with its tangents T, the fit moves by −λΣB and

.. math:: Δ \ln L = λ⟨r, v⟩ - \tfrac12 λ⟨v, v⟩ + \tfrac12 λ^2 B^T Σ B .

Where the fit has far to move this is a difference of large numbers, and wrong; so the likelihood itself is computed at
the moved fit wherever this does not exclude a split. That, with the prior of the amplitudes, is a table over cells of
δ, |c_1| and the angle ψ of c_1 to C. Cells of ψ are narrow around 0 and π, where the quadrature part of the pair's
dipole vanishes and δ has the most room.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.chebyshev import nodes_and_transform, polynomials, terms_of_phases
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.proposals.gaussian import Gaussian
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["RESOLVED", "PairTable", "Split", "divided", "merged", "splits"]

Complex = NDArray[np.complex128]
DISTANCES, AMPLITUDES, ANGLES = 24, 10, 20
"""Cells of δ, of |c_1|, and of ψ on either side."""
REACH = 1.2
"""Largest δ in bins."""
PRIOR_SHARE = 0.1
"""Share of the cells' volume in their probabilities."""
RESOLVED = 1.0
"""Distance in bins from which on other tones move with the one that is split."""
UNLIKELY = 12.0
"""Nats by which a split may be worse than the tone, to first order, for its likelihood to be computed."""
WIDEN = 1.1
"""Factor on the fit's standard deviations."""


class PairTable:
    """Density of (δ, |c_1|, ψ) for one tone of a fit.

    Args:
        target: Of any K.
        gaussian: Mean and covariance of the D tones, (3D,) and (3D, 3D).
        j: Which tone is split.
        rest: The data without the tones, where they are known already.
    """

    def __init__(
        self,
        target: Target,
        gaussian: tuple[Array, Array],
        j: int,
        rest: Likelihood | None = None,
    ) -> None:
        prior, statistics = target.prior, target.statistics
        z = gaussian[0].reshape(-1, TONE.coordinates)
        rest = statistics.less(z) if rest is None else rest
        rss = float(rest.energy)
        self.precision = target.noise.precision(rss)
        place, amplitude = (part[j] for part in TONE.simple(z))
        total = complex(amplitude)
        snr = abs(total) * math.sqrt(self.precision * statistics.weight / 2)
        width = min(math.sqrt(0.37 * snr + 1) / (0.9 * snr), 1.0)
        half = width * np.sinh(np.linspace(-1, 1, ANGLES + 1) * math.asinh(0.5 * math.pi / width))
        self.angle: Array = np.concatenate([half[:-1], half + math.pi])  # −π/2 to 3π/2
        self.distance: Array = (
            prior.min_separation + REACH * target.bin * np.linspace(0, 1, DISTANCES + 1) ** 1.5
        )
        spaced = np.geomspace if prior.amplitude_law == "loguniform" else np.linspace
        self.amplitude: Array = spaced(*prior.amplitude, AMPLITUDES + 1)
        edges = self.distance, self.amplitude, self.angle
        shape = tuple(len(e) - 1 for e in edges)
        centre = np.meshgrid(*(0.5 * (e[1:] + e[:-1]) for e in edges), indexing="ij")
        volume = np.einsum("i,j,k->ijk", *(np.diff(e) for e in edges)).ravel()
        delta, size, psi = (c.ravel() for c in centre)
        first = size * np.exp(1j * psi) * total / abs(total)
        # Cells whose second amplitude or places the prior excludes, for all that C and F may be, are left out.
        own = gaussian[1].diagonal().reshape(z.shape)[j, len(TONE.shape) :]  # of Re c and Im c
        spread = 3 * math.sqrt(max(own))
        spread += 0.5 * float(np.diff(self.amplitude).max())
        other = np.abs(total - first)
        low, high = prior.amplitude
        kept = (other > low - spread) & (other < high + spread)
        for f in _places(float(place), total, delta, first):
            kept &= (f > prior.frequency[0] - target.bin) & (f < prior.frequency[1] + target.bin)
        kept = np.flatnonzero(kept)
        self.shift: Array = np.zeros((len(volume), len(gaussian[0])))
        self.log_gain = -math.inf
        """Logarithm of the evidence's gain from a pair in place of this tone, but for the number of tones."""
        mass = np.zeros(len(volume))
        if kept.size:
            gain, b = self._gain(rest, z, j, delta[kept], first[kept])
            self.shift[kept] = -b @ _response(gaussian, j, RESOLVED * target.bin)
            gain -= 0.5 * (b * self.shift[kept]).sum(-1)
            likely = np.flatnonzero(gain > -UNLIKELY)
            at = kept[likely]
            tones = z + self.moved(at)
            pair = divided(tones[:, j], delta[at], size[at], psi[at])
            tones = np.concatenate([tones[:, :j], pair, tones[:, j + 1 :]], 1)
            more = Target(statistics, prior, len(z) + 1)
            log_l = target.noise.log_marginal(np.append(more.rss(tones), rss))
            gain[likely] = log_l[:-1] - log_l[-1]
            power = 2 if prior.amplitude_law == "loguniform" else 1
            gain -= power * np.log(np.maximum(other[kept], low)) + (power - 1) * np.log(size[kept])
            gain += np.log(volume[kept])
            whole = float(log_sum_exp(gain))
            self.log_gain = whole + _log_prior_ratio(prior, abs(total))
            mass[kept] = (1 - PRIOR_SHARE) * np.exp(gain - whole)
            mass[kept] += PRIOR_SHARE * volume[kept] / volume[kept].sum()
        else:
            mass = volume
        self.cumulative = mass.cumsum()
        with np.errstate(divide="ignore"):
            self.log_density = np.log(mass / volume / mass.sum())
        self.shape = shape

    def _gain(
        self, rest: Likelihood, z: Array, j: int, delta: Array, first: Complex
    ) -> tuple[Array, Array]:
        """λ⟨r, v⟩ − ½λ⟨v, v⟩ and λB of splits of the j-th of D tones z: (n,) and (n, 3D).

        Args:
            rest: The data without the tones.
            z: The tones, (D, 3).
            j: Which one is split.
            delta: δ, (n,).
            first: c_1, (n,).
        """
        middle, total = (part[j] for part in TONE.simple(z))
        second = total - first
        f_1, f_2 = _places(middle, total, delta, first)
        # What a tone at f has in common with residual, tone and tangents is smooth in f, and enters as Re c̄h(f).
        low, high = min(f_1.min(), f_2.min()), max(f_1.max(), f_2.max())
        terms = terms_of_phases(0.5 * (high - low), rest.span)
        points, transform = nodes_and_transform(terms)
        f = np.append(0.5 * (low + high) + 0.5 * (high - low) * points, middle)  # (P + 1,)
        filtered = rest.matched(f[None, :, None])[0, :, 0]
        alone = -total * rest.overlap(f[:, None], np.full((len(f), 1), middle))[:, 0, 0]
        products = rest.coupling(f[:, None], z)  # (P + 1, 2, 3D)
        real = np.column_stack([products[:, 0], filtered.real, alone.real])
        imag = np.column_stack([products[:, 1], filtered.imag, alone.imag])
        x, y = np.zeros((terms, len(delta))), np.zeros((terms, len(delta)))
        for f_a, c_a in ((f_1, first), (f_2, second)):
            waves = polynomials((2 * f_a - low - high) / (high - low), terms)
            x += waves * c_a.real
            y += waves * c_a.imag
        b = x.T @ (transform @ real[:-1]) + y.T @ (transform @ imag[:-1])  # (n, 3D + 2)
        b[:, :-1] -= total.real * real[-1, :-1] + total.imag * imag[-1, :-1]
        seen = rest.overlap(f_1[:, None], f_2[:, None])[:, 0, 0]
        square = b[:, -1] + (first.conj() * second * seen).real
        for f_a, c_a in ((f_1, first), (f_2, second), (middle, total)):
            square += 0.5 * rest.weight_at(np.atleast_1d(f_a)) * np.abs(c_a) ** 2
        gain = b[:, -2] - 0.5 * square
        return self.precision * gain, self.precision * b[:, :-2]

    def sample(
        self, n: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], Array, Array, Array]:
        """Cells, δ, |c_1| and ψ, (n,) each."""
        cell = np.searchsorted(self.cumulative, rng.random(n) * self.cumulative[-1])
        cell = np.minimum(cell, len(self.cumulative) - 1)
        drawn = []
        for edge, i in zip(self._edges(), np.unravel_index(cell, self.shape), strict=True):
            drawn.append(edge[i] + (edge[i + 1] - edge[i]) * rng.random(n))
        return cell, drawn[0], drawn[1], drawn[2]

    def locate(self, delta: Array, size: Array, psi: Array) -> tuple[NDArray[np.int64], Array]:
        """Cells, and the log density of (δ, |c_1|, ψ), (n,) each; −inf outside the table."""
        psi = np.remainder(psi + 0.5 * math.pi, 2 * math.pi) - 0.5 * math.pi
        index, inside = [], np.ones(len(delta), dtype=bool)
        for edge, value in zip(self._edges(), (delta, size, psi), strict=True):
            i = np.searchsorted(edge, value, side="right") - 1
            inside &= (i >= 0) & (i < len(edge) - 1)
            index.append(np.clip(i, 0, len(edge) - 2))
        cell = np.ravel_multi_index(index, self.shape)
        return cell, np.where(inside, self.log_density[cell], -np.inf)

    def moved(self, cell: NDArray[np.int64]) -> Array:
        """How the tones of the fit move for splits in given cells, (n,) to (n, D, 3)."""
        size = TONE.coordinates
        return self.shift[cell].reshape(len(cell), self.shift.shape[1] // size, size)

    def _edges(self) -> tuple[Array, Array, Array]:
        return self.distance, self.amplitude, self.angle


class Split:
    """Pairs in place of single tones of a fit.

    Args:
        gaussian: Mean and covariance of the D tones, (3D,) and (3D, 3D).
        tables: Of the tones that are split, by their index.
    """

    def __init__(self, gaussian: tuple[Array, Array], tables: dict[int, PairTable]) -> None:
        self.gaussian, self.tables = Gaussian(*gaussian, WIDEN), tables
        self.d = len(gaussian[0]) // TONE.coordinates

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        base = self.gaussian.sample(n, rng)
        drawn = {j: table.sample(n, rng) for j, table in self.tables.items()}
        for j, (cell, *_) in drawn.items():
            base = base + self.tables[j].moved(cell)
        columns: list[Array] = []
        for j in range(self.d):
            if j not in drawn:
                columns.append(base[:, j])
                continue
            pair = divided(base[:, j], *drawn[j][1:])
            columns += [pair[:, 0], pair[:, 1]]
        return np.stack(columns, 1)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        columns: list[Array] = []
        n = len(z)
        log_prob, shift = np.zeros(n), np.zeros((n, TONE.coordinates * self.d))
        i = 0
        for j in range(self.d):
            if j not in self.tables:
                columns.append(z[:, i])
                i += 1
                continue
            tone, *inner = merged(z[:, i : i + 2])
            i += 2
            columns.append(tone)
            cell, density = self.tables[j].locate(*inner)
            log_prob += density - np.log(inner[1])
            shift += self.tables[j].shift[cell]
        near = np.flatnonzero(log_prob > -np.inf)
        flat = np.stack(columns, 1).reshape(n, TONE.coordinates * self.d)
        log_prob[near] += self.gaussian.log_prob_flat(flat[near], shift[near])
        return log_prob


def _log_prior_ratio(prior: Prior, size: float) -> float:
    """What the table's density leaves out of the prior of a pair over that of one tone with the amplitude |C|.

    With p(c) = p(A)/2πA the ratio p(f_1) p(c_1) p(c_2) / p(C) is |C|/(2π |c_1| |c_2|) p(A_1) p(A_2)/p(|C|), over the
    width of the band.
    """
    low, high = prior.amplitude
    alike = prior.amplitude_law == "loguniform"
    room = math.log(high / low) if alike else high - low
    width = prior.frequency[1] - prior.frequency[0]
    return (2 if alike else 1) * math.log(size) - math.log(2 * math.pi * room * width)


def _response(gaussian: tuple[Array, Array], j: int, apart: float) -> Array:
    """Covariance of the tones that may move, given the others, (3D, 3D), zero for those.

    The j-th tone moves, and all that are further apart than given: of an unresolved pair's two tones the data know
    little, and to first order they would move far.
    """
    mean, covariance = gaussian
    gap = np.diff(TONE.place_in_z(mean.reshape(-1, TONE.coordinates)))
    moves = np.minimum(np.append(gap, np.inf), np.insert(gap, 0, np.inf)) > apart
    moves[j] = True
    free = np.flatnonzero(np.repeat(moves, TONE.coordinates))
    response: Array = np.zeros_like(covariance)
    response[np.ix_(free, free)] = np.linalg.inv(np.linalg.inv(covariance)[np.ix_(free, free)])
    return response


def divided(tone: Array, delta: Array, size: Array, psi: Array) -> Array:
    """The pair, (n, 2, 3), that a tone (n, 3) is split into, for δ, |c_1| and ψ, (n,) each."""
    f, total = TONE.simple(tone)
    first = size * np.exp(1j * psi) * total / np.abs(total)
    pair = np.stack(_places(f, total, delta, first), 1)
    return TONE.from_simple(pair, np.stack([first, total - first], 1))


def _places(
    f: float | Array, total: complex | Complex, delta: Array, first: Complex
) -> tuple[Array, Array]:
    """f_1 and f_2, (n,) each, of a tone of amplitude C at F, for δ and c_1, (n,) each."""
    share: Array = (first / total).real
    return f - delta * (1 - share), f + delta * share


def merged(pair: Array) -> tuple[Array, Array, Array, Array]:
    """The tone, (n, 3), that a pair (n, 2, 3) was, and its δ, |c_1| and ψ, (n,) each."""
    (f_1, f_2), (first, second) = (part.T for part in TONE.simple(pair))
    delta, total = f_2 - f_1, first + second
    tone = TONE.from_simple(f_1 + delta * (second / total).real, total)
    return tone, delta, np.abs(first), np.angle(first / total)


def splits(gaussian: tuple[Array, Array], tables: Sequence[PairTable], count: int) -> list[Split]:
    """All ways to split `count` of the tones of a fit, given the tables of all of them."""
    chosen = itertools.combinations(range(len(tables)), count)
    return [Split(gaussian, {j: tables[j] for j in some}) for some in chosen]
