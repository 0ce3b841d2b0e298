r"""The posterior of a band that was analysed in windows: their cores' tones put together.

Each window w has a core, and its posterior is that of core and guard (`windows.py`). Only tones in the core are kept,
so that every tone belongs to one window. Given the neighbours' best fits, the windows' posteriors are taken as
independent; the total K = Σ_w K_w of the cores' counts is then distributed as their convolution,

.. math:: p(K \mid x) = (p_1 * p_2 * \dots * p_W)(K), \qquad
    p_w(j) = \sum_k p_w(k \mid x)\, P(j \text{ of } k \text{ tones in the core} \mid x, k) .

Draws of a given K choose (K_1, …, K_W) by the same convolution, backwards: K_W ∝ p_W(K_W) (p_1 * … * p_{W−1})(K − K_W),
and so on. Independence fails where one tone may lie on either side of a border, or where two windows disagree about the
tones around it: the verdict then says so and is "approximate".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.coupling import Coupling, couple
from slotflow.exact.likelihood import Statistics
from slotflow.posterior import Posterior
from slotflow.priors import Prior
from slotflow.streams import Observation, Stream

if TYPE_CHECKING:
    from slotflow.exact.verdict import Verdict

__all__ = ["STRIP", "BandPosterior", "CoreDraws", "Window", "inside", "without"]

STRIP = 3.0
"""Outermost bins of a guard, in which no tone is left to fit."""
DRAWS = 2000
"""Draws of each number of tones behind the distribution of a core's count."""
STRADDLES = 0.01
"""Share of draws with a tone on the other side of a border from which on the verdict mentions it."""
NOTHING = 1e-12
"""p(K | x) of numbers of tones above the largest one that is kept."""
COUPLED = 1e-3
"""Probability of the windows' counts from which on their draws are coupled."""
NAMED = 3
"""Windows that a verdict names."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Window:
    """One window of a wide band."""

    core: tuple[float, float]
    """Frequencies in Hz that belong to it."""
    posterior: Posterior
    """The posterior of core and guard, the tones farther away subtracted."""
    fit: Array
    """(A, φ, f) of its best fit, guard included, (k, 3)."""
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
        statistics: Statistics | None = None,
    ) -> None:
        self.windows, self.k_max, self.prior, self.statistics = windows, k_max, prior, statistics
        self.couplings: dict[tuple[int, ...], Coupling | None] = {}
        self.counts: list[Array] = []
        """p_w(j), the distribution of each core's count."""
        self.draws: list[dict[int, tuple[Array, Array]]] = []
        """For each core and count j, draws (n, j, 3) and their weights (n,)."""
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
        """Draws of k tones in all, sorted by frequency, (n, k, 3)."""
        if k >= len(self.partial[-1]) or self.partial[-1][k] <= 0:
            raise ValueError(
                f"expected a number of tones that the windows found possible, received {k}; k_probs says which are."
            )
        rng = np.random.default_rng(seed)
        theta = np.empty((n, k, 3))
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
        for chosen in np.unique(counts, axis=0) if n and k else ():
            if coupling := self.coupling(tuple(chosen.tolist())):
                rows = np.flatnonzero((counts == chosen).all(1))
                theta[rows] = coupling.apply(theta[rows], self.prior)
        return theta

    def coupling(self, counts: tuple[int, ...]) -> Coupling | None:
        """The map to joint draws for given numbers of tones in the cores; None where there is none.

        Numbers that are hardly probable are not worth a joint fit: their draws stay independent.
        """
        if self.statistics is None:
            return None
        if counts not in self.couplings:
            found = None
            fits = [_core_fit(w, j) for w, j in zip(self.windows, counts, strict=True)]
            shares = [p[j] for p, j in zip(self.counts, counts, strict=True)]
            known = [fit for fit in fits if fit is not None]
            if math.prod(shares) > COUPLED and len(known) == len(fits):
                theta, owner = np.concatenate(known), np.repeat(np.arange(len(counts)), counts)
                cores = np.array([w.core for w in self.windows])
                reach = self.windows[0].reach(self.statistics.grids[0].duration)
                found = couple(self.statistics, theta, cores, owner, reach)
            self.couplings[counts] = found
        return self.couplings[counts]

    def log_prob(self, theta: Array) -> Array:
        """Not defined: each window has a density of its own."""
        raise NotImplementedError(
            "a band of several windows has no joint density; ask the windows' posteriors for theirs."
        )

    def constrained_fraction(self, k: int) -> float:
        """The largest share among the windows."""
        return max(w.posterior.constrained_fraction() for w in self.windows)


class BandPosterior(Posterior):
    """Posterior of a band that was analysed in windows; it answers what any Posterior does, except `log_prob`.

    Args:
        observation: The data.
        prior: The stated prior.
        windows: The windows, in the order of their frequencies.
        coupled: Whether draws of different windows are coupled, as those of the exact step ask for.
    """

    slots: CoreDraws

    def __init__(
        self,
        observation: Observation,
        prior: Prior,
        windows: tuple[Window, ...],
        coupled: bool = True,
    ) -> None:
        width, gap = prior.frequency[1] - prior.frequency[0], prior.min_separation
        k_max = len(windows) * prior.k_max
        if gap > 0:
            k_max = min(k_max, math.ceil(width / gap))
        statistics = Statistics.from_observation(observation) if coupled else None
        slots = CoreDraws(windows, k_max, prior, statistics)
        slots.k_max = k_max = max(1, int(np.flatnonzero(slots.k_probs > NOTHING).max()))
        levels = [w.posterior.noise_std for w in windows]
        errors = [w.posterior.noise_std_error or 0.0 for w in windows]
        super().__init__(
            slots.k_probs,
            slots,
            observation,
            float(np.median(levels)),
            max(errors) or None,
            method=f"{windows[0].posterior.method}, {len(windows)} windows",
            prior=dataclasses.replace(prior, k_max=k_max, k_probs=None),
        )
        self.windows = windows
        self._verdict = _verdict(windows, observation.long.duration)

    def __repr__(self) -> str:
        text = f"k_map={self.k_map}, p={self.k_probs[self.k_map]:.3f}, {self.verdict.status}"
        return f"BandPosterior({len(self.windows)} windows, {text})"

    @property
    def verdict(self) -> Verdict:
        """The worst of the windows' verdicts, or a doubt about a border, and why."""
        return self._verdict

    def best_fit(self, k: int | None = None) -> Array:
        """(A, φ, f) of the windows' best fits in their cores, (k, 3).

        Args:
            k: k_map, as None is: each window fits its own most probable number of tones.
        """
        if k is not None and k != self.k_map:
            raise ValueError(
                f"expected k_map = {self.k_map} or None, received k = {k}: a wide band is fitted window by window; ask "
                "a window for other numbers of tones: post.windows[i].posterior.best_fit(k)."
            )
        return np.concatenate([inside(w.fit, w.core) for w in self.windows])

    def residual(self, k: int | None = None) -> list[Array]:
        """Each stream's data minus the best fit, (N_s,).

        Args:
            k: As of `best_fit`.
        """
        return [s.values for s in without(self.observation, self.best_fit(k)).streams]

    def extra_variables(self, n: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The windows' cores, counts and verdicts, for `to_dataset`."""
        edges = np.array([w.core for w in self.windows])
        words = [w.posterior.verdict.status for w in self.windows]
        variables = {
            "core_low": (("window",), edges[:, 0], {"units": "Hz"}),
            "core_high": (("window",), edges[:, 1], {"units": "Hz"}),
            "core_k_map": (("window",), np.array([p.argmax() for p in self.slots.counts])),
        }
        return variables, {"window_verdicts": ", ".join(words)}

    def log_prob(self, theta: Any) -> Array | float:
        """Refused: each window has a density of its own."""
        raise ValueError(
            "a band of several windows has no joint density; ask for one window's: post.windows[i].posterior.log_prob."
        )

    def refine(self, **options: Any) -> Any:
        """Refused: the exact step belongs to the windows."""
        raise ValueError(
            "the exact step of a wide band runs window by window; call infer_band with refine=True."
        )


def inside(theta: Array, core: tuple[float, float]) -> Array:
    """The tones of (k, 3) in a core, sorted by frequency; a lower edge belongs to it."""
    kept = theta[(theta[:, 2] >= core[0]) & (theta[:, 2] < core[1])]
    return kept[np.argsort(kept[:, 2])]


def without(obs: Observation, theta: Array) -> Observation:
    """The observation less the tones (k, 3)."""
    if not len(theta):
        return obs

    def rest(stream: Stream) -> Stream:
        t, total = stream.times, np.zeros(stream.n)
        for amplitude, phase, frequency in theta:
            total += amplitude * np.cos(2 * np.pi * np.mod(frequency * t, 1.0) + phase)
        return dataclasses.replace(stream, values=stream.values - total)

    removed = obs.removed + len(theta)
    return Observation(*(rest(stream) for stream in obs.streams), removed=removed)


def _core_fit(window: Window, count: int) -> Array | None:
    """(A, φ, f) of the most probable fit with so many tones in the core, (count, 3), or None."""
    orders = getattr(window.posterior, "orders", None)
    fits = {} if orders is None else orders.fits
    for k in np.argsort(-window.posterior.k_probs):
        found = inside(np.asarray(fits.get(int(k), np.zeros((0, 3)))).reshape(-1, 3), window.core)
        if int(k) in fits and len(found) == count:
            return found
    return None


def _core_draws(window: Window, seed: int) -> dict[int, tuple[Array, Array]]:
    """For each count j of a core, draws (n, j, 3) of its tones and their probabilities (n,)."""
    post, (low, high) = window.posterior, window.core
    groups: dict[int, list[tuple[Array, Array]]] = {}
    for k in np.flatnonzero(post.k_probs > 1e-9):
        n = DRAWS if post.k_probs[k] > 1e-3 else DRAWS // 10
        theta = post.sample(n, int(k), seed=seed)
        theta = np.take_along_axis(theta, np.argsort(theta[..., 2], axis=1)[..., None], 1)
        mine = (theta[..., 2] >= low) & (theta[..., 2] < high)
        for j in np.unique(count := mine.sum(1)):
            rows = np.flatnonzero(count == j)
            kept = theta[rows][mine[rows]].reshape(rows.size, int(j), 3)
            groups.setdefault(int(j), []).append((kept, np.full(rows.size, post.k_probs[k] / n)))
    return {
        j: (np.concatenate([t for t, _ in parts]), np.concatenate([w for _, w in parts]))
        for j, parts in sorted(groups.items())
    }


def _verdict(windows: tuple[Window, ...], duration: float) -> Verdict:
    """The worst verdict of the windows; a doubt about a border makes an exact one approximate."""
    from slotflow.exact.verdict import Verdict

    verdicts = [_one_of(window.posterior, len(windows)) for window in windows]
    for status in ("misfit", "approximate"):
        found = [(w, v) for w, v in zip(windows, verdicts, strict=True) if v.status == status]
        if not found:
            continue
        checks = tuple(check for _, verdict in found for check in verdict.checks)
        if len(found) == len(windows) and len({verdict.reason for _, verdict in found}) == 1:
            return Verdict(status, found[0][1].reason, checks)
        parts = [
            f"{w.core[0]:.6g}–{w.core[1]:.6g} Hz: {verdict.reason}" for w, verdict in found[:NAMED]
        ]
        if len(found) > NAMED:
            parts.append(f"and {len(found) - NAMED} windows more")
        return Verdict(status, "; ".join(parts), checks)
    if doubt := _doubt(windows, duration):
        return Verdict("approximate", doubt)
    return Verdict("exact", f"each of {len(windows)} windows is exact")


def _one_of(post: Posterior, number: int) -> Verdict:
    """A window's verdict; a misfit that is none at the false-alarm rate of a whole band of so many is judged again."""
    from slotflow.exact.verdict import FALSE_ALARM, judge

    verdict, orders = post.verdict, getattr(post, "orders", None)
    if verdict.status != "misfit" or orders is None:
        return verdict
    best = orders.results.get(post.k_map)
    if best is None or len(best.log_weights) == 0:
        return verdict
    return judge(
        verdict.checks,
        refined=True,
        ess=best.ess,
        pareto_k=best.pareto_k,
        k_error=orders.k_error,
        at_k_max=float(post.k_probs[post.k_max]),
        false_alarm=FALSE_ALARM / number,
    )


def _doubt(windows: tuple[Window, ...], duration: float) -> str:
    """Why the windows' counts are not independent; empty if nothing speaks against it."""
    for left, right in itertools.pairwise(windows):
        border, reach = left.core[1], left.reach(duration) - 1 / duration
        around = (border - reach, border + reach)
        seen = [len(inside(w.fit, around)) for w in (left, right)]
        if seen[0] != seen[1]:
            return (
                f"the windows on either side of {border:.6g} Hz disagree about the tones around it ({seen[0]} and "
                f"{seen[1]}), so their numbers of tones are not independent"
            )
        for window in (left, right):
            post = window.posterior
            if post.k_map == 0:
                continue
            below = (post.sample(500)[..., 2] < border).sum(1)
            usual = np.bincount(below).max() / below.size
            if usual < 1 - STRADDLES:
                return (
                    f"a tone may lie on either side of the border between two windows at {border:.6g} Hz, so their "
                    "numbers of tones are not independent"
                )
    return ""
