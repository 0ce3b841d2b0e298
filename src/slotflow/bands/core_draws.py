r"""Draws of a wide band: those of the windows' cores, put together.

With p_w(j), the distribution of the number of tones in the core of window w, that of the total K = Σ_w K_w is

.. math:: p(K \mid x) = (p_1 * p_2 * \dots * p_W)(K), \qquad
    p_w(j) = \sum_k p_w(k \mid x)\, P(j \text{ of } k \text{ tones in the core} \mid x, k) .

Draws of a given K choose (K_1, …, K_W) by the same convolution, backwards: K_W ∝ p_W(K_W) (p_1 * … * p_{W−1})(K − K_W),
and so on; then each core's tones are drawn, and coupled to those of the others (`coupling.py`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.bands.coupling import Coupling, couple
from slotflow.bands.unexamined import SearchedPosterior
from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.model import noise_free
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

__all__ = [
    "MOST_COUPLED",
    "STRIP",
    "CoreDraws",
    "Window",
    "best_tones",
    "inside",
    "seen_in",
    "without",
]

STRIP = 3.0
"""Bins at the outer end of a guard in which no tone is left to fit."""
COUNT_DRAWS = 2000
"""Draws of each probable number of tones behind the distribution of a core's count; a tenth for any other."""
POSSIBLE, PROBABLE = 1e-5, 1e-3
"""p(K | x) above which a number of tones is drawn from at all, and with the full number of draws."""
MOST_COUPLED = 120
"""Tones up to which all of them are fitted together and draws are coupled."""
COUPLED_ODDS = 0.2
"""Odds of the windows' counts against the most probable ones above which their draws are coupled; every set of counts
that is coupled takes a joint fit of all tones."""


@dataclass(frozen=True, eq=False)
class Window:
    """One window of a wide band."""

    core: tuple[float, float]
    """Frequencies in Hz that belong to it."""
    posterior: Posterior
    """The posterior of core and guard, from data without the tones that lie farther away."""
    fit: Array
    """Parameters of its best fit, guard included, (k, P)."""
    guard: float
    """How far on either side of the core it reaches, in Hz."""

    def reach(self, duration: float) -> float:
        """How far from its core tones are free parameters, in Hz, for a long stream of so many seconds."""
        return self.guard - STRIP / duration


class CoreDraws:
    """The windows' draws together, as the densities behind a Posterior.

    Args:
        windows: The windows, in the order of their frequencies.
        k_max: Largest total number of tones.
        prior: That of the band.
        statistics: Of all streams, if the draws of different windows are to be coupled (`coupling.py`).
    """

    def __init__(
        self,
        windows: tuple[Window, ...],
        k_max: int,
        prior: Prior,
        statistics: Likelihood | None = None,
    ) -> None:
        self.windows, self.k_max, self.prior, self.statistics = windows, k_max, prior, statistics
        self.waveform = windows[0].posterior.waveform
        self.couplings: dict[tuple[int, ...], Coupling | None] = {}
        self.counts: list[Array] = []
        """p_w(j), the distribution of each core's count."""
        self.draws: list[dict[int, tuple[Array, Array]]] = []
        """For each core and count j, draws (n, j, P) and their weights (n,)."""
        self.partial: list[Array] = [np.ones(1)]
        """Convolutions of the first 0, 1, … windows' counts."""
        for i, window in enumerate(windows):
            found = _core_draws(window, seed=i)
            largest = max(found)
            probs = np.array([found[j][1].sum() if j in found else 0.0 for j in range(largest + 1)])
            self.draws.append(found)
            self.counts.append(probs / probs.sum())
            self.partial.append(np.convolve(self.partial[-1], self.counts[-1]))

    @property
    def k_probs(self) -> Array:
        """p(K | x), (k_max + 1,)."""
        total = self.partial[-1][: self.k_max + 1]
        padded = np.pad(total, (0, self.k_max + 1 - len(total)))
        return np.asarray(padded / padded.sum())

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws of k tones in all, sorted by frequency, (n, k, P)."""
        if k >= len(self.partial[-1]) or self.partial[-1][k] <= 0:
            raise ValueError(
                f"expected a number of tones that the windows found possible, received {k}; k_probs says which are."
            )
        rng = np.random.default_rng(seed)
        theta = np.empty((n, k, self.waveform.size))
        counts = np.zeros((n, len(self.windows)), dtype=np.int64)
        left = np.full(n, k)  # tones that the windows not yet looked at share
        for i in reversed(range(len(self.windows))):
            before, own = self.partial[i], self.counts[i]
            for total in np.unique(left):
                rows = np.flatnonzero(left == total)
                j = np.arange(max(0, total + 1 - len(before)), min(total, len(own) - 1) + 1)
                p = own[j] * before[total - j]
                chosen = rng.choice(j, size=rows.size, p=p / p.sum())
                for count in np.unique(chosen):
                    mine = rows[chosen == count]
                    draws, weights = self.draws[i][int(count)]
                    which = rng.choice(len(draws), size=mine.size, p=weights / weights.sum())
                    theta[mine, total - count : total] = draws[which]
                    left[mine] = total - count
                    counts[mine, i] = count
        theta = self.waveform.sorted(theta)  # tones of the search may have left their cores
        if self.statistics is None or not (n and k):
            return theta
        shared, place = np.unique(counts, axis=0, return_inverse=True)
        for row in np.flatnonzero(self._odds(shared) > COUPLED_ODDS):
            if coupling := self.coupling(tuple(shared[row].tolist())):
                rows = np.flatnonzero(place.ravel() == row)
                theta[rows] = coupling.apply(theta[rows], self.prior)
        return theta

    def _odds(self, counts: NDArray[np.int64]) -> Array:
        """Odds of numbers of tones in the cores, (m, W), against the most probable ones, (m,)."""
        most = int(counts.max(initial=0)) + 1
        table = np.array([np.pad(p, (0, most))[:most] / p.max() for p in self.counts])
        odds: Array = np.take_along_axis(table.T, counts, axis=0).prod(1)
        return odds

    def coupling(self, counts: tuple[int, ...]) -> Coupling | None:
        """The map to joint draws for given numbers of tones in the cores; None where there is none.

        Numbers that are hardly probable are not worth a joint fit: their draws stay independent.
        """
        if self.statistics is None:
            return None
        if counts not in self.couplings:
            found, known = None, []
            likely = float(self._odds(np.array([counts]))[0]) > COUPLED_ODDS
            if likely and sum(counts) <= MOST_COUPLED:
                fits = [_core_fit(w, j) for w, j in zip(self.windows, counts, strict=True)]
                known = [fit for fit in fits if fit is not None]
            if len(known) == len(counts):
                theta, owner = np.concatenate(known), np.repeat(np.arange(len(counts)), counts)
                cores = np.array([w.core for w in self.windows])
                reach = self.windows[0].reach(self.statistics.duration)
                joint = [isinstance(w.posterior, SearchedPosterior) for w in self.windows]
                found = couple(self.statistics, theta, cores, owner, reach, np.array(joint))
            self.couplings[counts] = found
        return self.couplings[counts]

    def log_prob(self, theta: Array) -> Array:
        """Refused: each window has its own density, and the band has none."""
        raise ValueError(
            "a band of several windows has no joint density; ask for one window's: post.windows[i].posterior.log_prob."
        )

    def constrained_fraction(self, k: int) -> float:
        """The largest share among the windows."""
        return max(w.posterior.constrained_fraction() for w in self.windows)


def best_tones(post: Posterior) -> Array:
    """Parameters of the most probable number of tones, (k, P): their best fit, or else where the draws are."""
    fit = post.known_fit(post.k_map)
    return post.centres() if fit is None else fit


def inside(theta: Array, core: tuple[float, float], waveform: Waveform = TONE) -> Array:
    """The tones of (k, P) in a core, sorted by frequency; its lower edge belongs to a core, its upper edge does not."""
    place = waveform.place_of(theta)
    return waveform.sorted(theta[(place >= core[0]) & (place < core[1])])


def without(obs: Observation, theta: Array, waveform: Waveform = TONE) -> Observation:
    """The observation without the tones (k, P)."""
    if not len(theta):
        return obs

    def rest(channel: Channel) -> Channel:
        values = channel.values - seen_in(channel, theta, waveform)
        return dataclasses.replace(channel, values=values)

    removed = obs.removed + len(theta)
    return Observation([rest(channel) for channel in obs.channels], removed=removed)


def seen_in(channel: Channel, theta: Array, waveform: Waveform = TONE) -> Array:
    """What a channel makes of tones (k, P) without noise, (n,)."""
    if not len(theta):
        return np.zeros(channel.n)
    if channel.gain == 1 and not channel.is_complex:
        real: Array = noise_free(theta, channel.sampling, waveform)
        return real
    xi, c = waveform.split(theta, 0.0)
    seen = (channel.factor * c[..., None] * waveform.basis(channel.times, xi)).sum((-3, -2))
    total: Array = seen if channel.is_complex else seen.real
    return total


def _core_fit(window: Window, count: int) -> Array | None:
    """The most probable fit with a given number of tones in the core, (count, P); None if no fit has as many."""
    post = window.posterior
    for k in np.argsort(-post.k_probs):
        fit = post.known_fit(int(k))
        if fit is not None and len(found := inside(fit, window.core, post.waveform)) == count:
            return found
    return None


def _core_draws(window: Window, seed: int) -> dict[int, tuple[Array, Array]]:
    """For each count j of a core, draws (n, j, P) of its tones and their probabilities (n,)."""
    post, (low, high) = window.posterior, window.core
    if isinstance(post, SearchedPosterior):  # the number of tones is that of the search
        own = post.draws_of(window.core)
        return {own.shape[1]: (own, np.full(len(own), 1 / len(own)))}
    waveform = post.waveform
    groups: dict[int, list[tuple[Array, Array]]] = {}
    for k in np.flatnonzero(post.k_probs > POSSIBLE):
        n = COUNT_DRAWS if post.k_probs[k] > PROBABLE else COUNT_DRAWS // 10
        theta = waveform.sorted(post.sample(n, int(k), seed=seed))
        place = waveform.place_of(theta)
        mine = (place >= low) & (place < high)
        for j in np.unique(count := mine.sum(1)):
            rows = np.flatnonzero(count == j)
            kept = theta[rows][mine[rows]].reshape(rows.size, int(j), waveform.size)
            groups.setdefault(int(j), []).append((kept, np.full(rows.size, post.k_probs[k] / n)))
    return {
        j: (np.concatenate([t for t, _ in parts]), np.concatenate([w for _, w in parts]))
        for j, parts in sorted(groups.items())
    }
