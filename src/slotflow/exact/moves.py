r"""Moves of the particles of tempered sampling, which leave p_β ∝ q^{1−β} p̃^β as it is (`tempering.py`).

They are made for all particles at once, each on one half with the other half's help:

- differences of two particles of the other half, for one tone, two neighbouring tones, or all tones: the steps have the
  shape of the population, ridges included. The tones of a set are sorted by frequency, and each place has differences
  of its own. A tone that passed another would come back by those of another place, so such steps are refused;
- a step of one tone at the scale of its Fisher information, in sizes from a tenth to three;
- a pair's share-out: c_1 → c_1 + d, c_2 → c_2 − d and δ → δ e^η with total and centroid kept (`splits.py`), along
  which an unresolved pair is hardly seen by the data, and an exchange of the two amplitudes: its several modes;
- one tone anew from a table of births, if there is one: it may be anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.exact.importance import Proposal
from slotflow.exact.proposals.births import BirthTable
from slotflow.exact.target import Target

__all__ = ["Moves", "State"]


@dataclass
class State:
    """Particles: z (N, K, 3), log p̃, log q and RSS (N,) each."""

    z: Array
    log_p: Array
    log_q: Array
    rss: Array

    def take(self, index: Array | slice) -> State:
        """Some of them, in a given order."""
        return State(self.z[index], self.log_p[index], self.log_q[index], self.rss[index])


class Moves:
    """Markov moves that keep q^{1−β} p̃^β."""

    def __init__(
        self, target: Target, start: Proposal, table: BirthTable | None, rng: np.random.Generator
    ) -> None:
        self.target, self.start, self.table, self.rng = target, start, table, rng
        self.waveform, statistics = target.waveform, target.statistics
        self.unit_c = math.sqrt(2 / statistics.weight)
        self.unit_f = math.sqrt(6) / (math.pi * statistics.duration)
        self.scale = {"one": 1.0, "two": 1.0, "all": 1.0}

    def sweep(self, state: State, beta: float) -> None:
        """One round of all moves, in place."""
        n, k = len(state.z), self.target.k
        for half in self._halves(n):
            rest = np.setdiff1d(np.arange(n), half, assume_unique=True)
            for kind in ("one", "two", "all", "fisher", "pair", "anew"):
                if (kind in ("two", "pair", "all") and k < 2) or (
                    kind == "anew" and not self.table
                ):
                    continue
                z, hastings = state.z[half], np.zeros(len(half))
                if kind in self.scale:
                    new, hastings = self._difference(z, state.z[rest], kind)
                elif kind == "fisher":
                    new = self._fisher(z, state.z[rest], state.rss[rest])
                elif kind == "pair":
                    new, hastings = self._pair(z)
                else:
                    new, hastings = self._anew(z)
                rate = self._accept(state, half, new, hastings, beta)
                if kind in self.scale:
                    self.scale[kind] *= math.exp(0.5 * (rate - 0.25))
                    self.scale[kind] = min(max(self.scale[kind], 0.05), 2.0)

    def _halves(self, n: int) -> list[Array]:
        order = self.rng.permutation(n)
        return [np.sort(order[: n // 2]), np.sort(order[n // 2 :])]

    def _accept(self, state: State, rows: Array, new: Array, hastings: Array, beta: float) -> float:
        """Metropolis–Hastings step of some particles, in place; the rate of acceptance.

        p̃^β and q^{1−β} decide one after the other: min(1, r_1) min(1, r_2) keeps detailed balance as min(1, r_1 r_2)
        does (Christen and Fox 2005), and q, which has many parts, is computed for few.
        """
        order = np.argsort(self.waveform.place_in_z(new), -1)
        new = np.take_along_axis(new, order[..., None], 1)
        log_p, rss = self.target.log_prob(new)
        with np.errstate(invalid="ignore"):
            gain = beta * (log_p - state.log_p[rows]) + hastings
        taken = self._passes(gain)
        log_q = np.zeros(len(new))
        if beta < 1:  # q is computed for those only that p̃ lets pass
            some = np.flatnonzero(taken)
            log_q[some] = self.start.log_prob(new[some])
            taken[some] = self._passes((1 - beta) * (log_q[some] - state.log_q[rows[some]]))
        index = rows[taken]
        state.z[index], state.log_p[index] = new[taken], log_p[taken]
        state.log_q[index], state.rss[index] = log_q[taken], rss[taken]
        return float(taken.mean())

    def _passes(self, gain: Array) -> NDArray[np.bool_]:
        """Whether steps pass that change the logarithm of a density by so much, (n,)."""
        gain = np.where(np.isnan(gain), -np.inf, gain)
        passed: NDArray[np.bool_] = np.log(self.rng.random(len(gain))) < gain
        return passed

    def _difference(self, z: Array, others: Array, kind: str) -> tuple[Array, Array]:
        n, k = z.shape[:2]
        a = self.rng.integers(len(others), size=n)
        b = (a + self.rng.integers(1, len(others), size=n)) % len(others)
        moved = np.ones((n, k), dtype=bool)
        if kind != "all":
            width = 1 if kind == "one" else 2
            first = self.rng.integers(k - width + 1, size=n)
            index = np.arange(k)
            moved = (index >= first[:, None]) & (index < first[:, None] + width)
        gamma = self.scale[kind] * 2.38 / np.sqrt(2 * z.shape[2] * moved.sum(-1))
        if kind == "two":
            gamma = np.where(self.rng.random(n) < 0.1, 1.0, gamma)
        step = (others[a] - others[b]) * moved[..., None] * gamma[:, None, None]
        jitter = self.rng.standard_normal(step.shape) * moved[..., None]
        jitter *= 1e-3 * self.unit_c
        self.waveform.place_in_z(jitter)[:] *= self.unit_f
        new = z + step + jitter
        return new, _if_sorted(self.waveform.place_in_z(new), 0.0)

    def _fisher(self, z: Array, others: Array, rss: Array) -> Array:
        n, k = z.shape[:2]
        rows, j = np.arange(n), self.rng.integers(k, size=n)
        noise = self.target.noise  # of data without noise RSS is rounding, of either sign
        sigma = math.sqrt(max(noise.variance(float(np.median(rss))), noise.low**2))
        size = np.exp(self.rng.uniform(math.log(0.1), math.log(3.0), n)) * self.unit_c * sigma
        step = self.rng.standard_normal((n, z.shape[2])) * size[:, None]
        self.waveform.place_in_z(step)[:] *= self.unit_f / float(
            np.median(self.waveform.moduli(others))
        )
        new = z.copy()
        new[rows, j] += step
        return new

    def _pair(self, z: Array) -> tuple[Array, Array]:
        n, k = z.shape[:2]
        rows = np.arange(n)
        j = self.rng.integers(k - 1, size=n)
        xi, c = self.waveform.unpack(z)
        first, second = c[rows, j, 0], c[rows, j + 1, 0]
        f_1, f_2 = xi[rows, j, 0], xi[rows, j + 1, 0]
        total = first + second
        middle = f_1 + (f_2 - f_1) * (second / total).real
        size = np.exp(self.rng.uniform(math.log(self.unit_c), 0.0, n))
        size *= self.target.prior.amplitude[1]
        step = size * (self.rng.standard_normal(n) + 1j * self.rng.standard_normal(n))
        eta = self.rng.standard_normal(n) * np.exp(self.rng.uniform(-3, 0.5, n))
        exchange = self.rng.random(n) < 0.2
        new_first = np.where(exchange, second, first + step)
        eta = np.where(exchange, 0.0, eta)
        only = self.rng.random(n) < 0.3
        eta = np.where(only, 0.0, eta)
        distance = (f_2 - f_1) * np.exp(eta)
        new_second = total - new_first
        xi, c = xi.copy(), c.copy()
        xi[rows, j, 0] = middle - distance * (new_second / total).real
        xi[rows, j + 1, 0] = middle + distance * (new_first / total).real
        c[rows, j, 0], c[rows, j + 1, 0] = new_first, new_second
        new = self.waveform.pack(xi, c)
        return new, _if_sorted(xi[..., 0], eta)

    def _anew(self, z: Array) -> tuple[Array, Array]:
        assert self.table is not None
        n, k = z.shape[:2]
        rows, j = np.arange(n), self.rng.integers(k, size=n)
        drawn = self.table.sample(n, self.rng)
        hastings = self.table.log_prob(z[rows, j]) - self.table.log_prob(drawn)
        new = z.copy()
        new[rows, j] = drawn
        return new, hastings


def _if_sorted(places: Array, hastings: Array | float) -> Array:
    """A Hastings term, (n,), where the frequencies of a set, (n, K), rise, and −inf where two changed places."""
    return np.where((np.diff(places, axis=-1) > 0).all(-1), hastings, -np.inf)
