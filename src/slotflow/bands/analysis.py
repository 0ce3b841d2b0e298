r"""Windows of a band, one after the other: what each is asked, in which order, and how long it may take.

**Neighbours.** A tone farther from the core than the guard (less a strip of `STRIP` bins, in which none is left) is
subtracted before the window is analysed. The windows' answers take the place of the search's; all tones are then
fitted together again (`coupling.py`). What a correction of the subtracted tones leaks into a window is

.. math:: \max_f \tfrac12 \Big| \sum_j c_j W(f_j - f) - \sum_j c'_j W(f'_j - f) \Big| \sqrt{2/W(0)}

in standard errors of an amplitude for σ = 1. A window into which more than `HARMLESS_LEAK` σ would leak is analysed
again, and so is one that was called a misfit before its neighbours' last corrections.

**Worse than the search.** A window whose time ends early may leave tones out that are there; in its neighbours' data
they would be a misfit. An answer whose tones raise the sum of squares by more than `WORTH_A_TONE` 2σ² for each tone
less, and once more, is therefore not taken, nor is a misfit with fewer tones than the search has there: the window
keeps the answer of the search.

**Time.** Windows are analysed with the strongest tone first, each with at most `GENEROUS` times its equal share of what
is left, so that what one does not need goes to those after it. Windows for which nothing is left keep the answer of the
search (`unexamined.py`).
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.bands.core_draws import MOST_COUPLED, Window, best_tones, inside, seen_in
from slotflow.bands.coupling import joint_fit
from slotflow.bands.fisher import held, joint_covariance
from slotflow.bands.found import FoundTones
from slotflow.bands.layout import Layout
from slotflow.bands.noise import WindowNoise
from slotflow.bands.unexamined import (
    NO_TIME,
    WORSE,
    SearchedPosterior,
    Unexamined,
    searched_posterior,
)
from slotflow.core.arrays import Array
from slotflow.core.stages import tell
from slotflow.data.observation import Observation
from slotflow.exact.refine import STEP_FAILURES
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from slotflow.network.model import SlotFlow

__all__ = ["Analysis", "Question"]

GENEROUS = 2.5
"""Time that a window may take, in equal shares of what is left."""
SHORTEST_SHARE = 0.15
"""Seconds below which a window is not begun."""
MOST_ROUNDS = 3
"""Most rounds in which windows are analysed."""
WORTH_A_TONE = 20.0
"""Nats that a tone of the search may lose in a window's answer; the evidence leaves out those that are worth less."""
HARMLESS_LEAK = 0.2
"""Largest leakage of a correction that does no harm, in standard errors of an amplitude."""


@dataclass(frozen=True)
class Question:
    """What every window is asked."""

    model: SlotFlow
    derived: tuple[str, ...]
    """Fields of the prior that a window takes from its own data."""
    noise: WindowNoise
    options: dict[str, Any]
    """Further keywords of `SlotFlow.infer`."""

    def ask(self, view: Observation, prior: Prior, max_seconds: float) -> Posterior:
        """The posterior of a window.

        Args:
            view: Its data.
            prior: Its prior.
            max_seconds: Its time budget.
        """
        said: dict[str, Any] = {"prior": prior, "noise": self.noise.of(prior.frequency)}
        if self.derived:
            names = [field.name for field in dataclasses.fields(prior)]
            kept = [name for name in names if name not in (*self.derived, "k_probs")]
            said["prior"] = {name: getattr(prior, name) for name in kept}
            said["prior"]["resolved"] = "min_separation" in self.derived
            if prior.k_probs is not None:
                said["k_prior"] = dict(enumerate(prior.k_probs))
        if self.noise.is_local:  # what was taken out lies outside of what counts
            view = Observation(view.channels, removed=0)
        return self.model.infer(view, max_seconds=max_seconds, **(self.options | said))


@dataclass
class Analysis:
    """The windows of a band, one after the other."""

    question: Question
    layout: Layout
    likelihood: Likelihood
    """Of all data."""
    found: FoundTones
    deadline: float
    """When windows must be done, on the clock of `time.perf_counter`."""
    described: Array | None = None
    """Tones that describe the data best, (K, P), where `found` holds fewer: windows are freed of these."""

    def __post_init__(self) -> None:
        best = self.found.theta if self.described is None else self.described
        self.tones = [inside(best, core) for core in self.layout.cores]
        self._sum_up()
        self.posts: dict[int, Posterior] = {}
        self.far: dict[int, Array] = {}

    @property
    def left(self) -> float:
        """Seconds until windows must be done."""
        return self.deadline - time.perf_counter()

    def windows(self) -> tuple[Window, ...]:
        """Every window with its posterior; those are analysed again whose neighbours' tones have changed."""
        cores, guard = self.layout.cores, self.layout.guard
        todo = self._strongest_first()
        for _ in range(MOST_ROUNDS):
            for done, i in enumerate(todo):
                tell("windows", done, len(todo))
                self._analyse(i, len(todo) - done)
            tell("windows", len(todo), len(todo))
            if self.left < SHORTEST_SHARE:
                break
            self._fit_together()
            todo = self._changed()
            if not todo:
                break
        return tuple(
            Window(core, self.posts[i], best_tones(self.posts[i]), guard)
            for i, core in enumerate(cores)
        )

    def _strongest_first(self) -> list[int]:
        """The windows in the order of the amplitude of their strongest tone."""
        size = [float(TONE.of(t, "amplitude").max(initial=0.0)) for t in self.tones]
        return [int(i) for i in np.argsort(-np.array(size), kind="stable")]

    def _sum_up(self) -> None:
        """Adds all tones up, in each channel."""
        every = np.concatenate(self.tones)
        self.model = [seen_in(channel, every) for channel in self.layout.observation.channels]

    def _view(self, near: Array, removed: int) -> Observation:
        """The data without all tones but those near a window, of which so many are gone."""
        data = self.layout.observation
        channels = [
            dataclasses.replace(c, values=c.values - (total - seen_in(c, near)))
            for c, total in zip(data.channels, self.model, strict=True)
        ]
        return Observation(channels, removed=data.removed + removed)

    def _replace(self, i: int, tones: Array) -> None:
        """Puts other tones into a core."""
        for s, channel in enumerate(self.layout.observation.channels):
            self.model[s] = (
                self.model[s] + seen_in(channel, tones) - seen_in(channel, self.tones[i])
            )
        self.tones[i] = tones

    def _analyse(self, i: int, waiting: int) -> None:
        """The posterior of window i, one of so many that wait for the rest of the time."""
        prior = self.layout.prior_of(i)
        far, near = self.layout.far_and_near(i, self.tones)
        share = min(GENEROUS * self.left / waiting, self.left)
        if share > SHORTEST_SHARE:
            try:
                post = self.question.ask(self._view(near, len(far)), prior, share)
            except STEP_FAILURES as error:  # the others have an answer
                post = self._unexamined(prior, f"it was refused: {error}")
            if self._is_worse(i, post, inside(near, prior.frequency)):
                post = self._unexamined(prior, WORSE)
        elif i in self.posts:
            return
        else:
            post = self._unexamined(prior, NO_TIME)
        self.posts[i], self.far[i] = post, far
        if self.left > 0 and not isinstance(post, SearchedPosterior):
            self._replace(i, inside(best_tones(post), self.layout.cores[i]))

    def _is_worse(self, i: int, post: Posterior, known: Array) -> bool:
        """Whether a window's answer is worse than the tones (k, P) that are known there.

        Either it is a misfit with fewer tones, or the tones in its core explain much less.
        """
        if post.verdict.status == "misfit" and post.k_map < len(known):
            return True
        return self._explains_less(i, inside(best_tones(post), self.layout.cores[i]))

    def _explains_less(self, i: int, tones: Array) -> bool:
        """Whether tones (k, P) in core i explain much less of the data than those that are there."""
        old = np.concatenate(self.tones)
        new = np.concatenate([*self.tones[:i], tones, *self.tones[i + 1 :]])
        fewer = max(len(old) - len(new), 0)
        level = self.found.noise_level(*self.layout.cores[i])
        return self._rss(new) - self._rss(old) > 2 * WORTH_A_TONE * (1 + fewer) * level**2

    def _rss(self, theta: Array) -> float:
        """Sum of squares that tones (K, P) leave of the data."""
        likelihood = self.likelihood.in_numpy
        if not len(theta):
            return float(np.ravel(likelihood.energy)[0])
        return float(likelihood.rss(theta[None])[0])

    def _unexamined(self, prior: Prior, why: str) -> Posterior:
        """The answer of the search for a window that was not sampled, and why it was not."""
        low, high = prior.frequency
        place = TONE.place_of(self.found.theta)
        rows = np.flatnonzero((place >= low) & (place < high))
        size = TONE.coordinates
        every = (size * rows[:, None] + np.arange(size)).ravel()
        case = Unexamined(self.found.noise_level(low, high), why, self.likelihood.reference)
        block = self._covariance[np.ix_(every, every)]
        return searched_posterior(
            self.layout.observation, prior, self.found.theta[rows], block, case
        )

    @cached_property
    def _covariance(self) -> Array:
        """Covariance of all tones that the search found, for σ = 1, (K·Z, K·Z)."""
        theta, found = self.found.theta, self.found
        level = np.interp(TONE.place_of(theta), found.frequencies, found.level)
        return joint_covariance(self.likelihood, theta, held(self.likelihood, theta, level))

    def _fit_together(self) -> None:
        """Carries the tones of all cores to their joint maximum, or leaves them where there is none nearby."""
        every = np.concatenate(self.tones)
        best = joint_fit(self.likelihood, every) if len(every) <= MOST_COUPLED else None
        if best is None:
            return
        moved = [inside(best, core) for core in self.layout.cores]
        if [len(t) for t in moved] == [len(t) for t in self.tones]:
            self.tones = moved
            self._sum_up()

    def _changed(self) -> list[int]:
        """Windows into which the corrections of their neighbours would leak more than is harmless."""
        found = []
        for i, post in sorted(self.posts.items()):
            core, (now, _) = self.layout.cores[i], self.layout.far_and_near(i, self.tones)
            leak = _leak(self.likelihood, now, self.far[i], core)
            if leak > HARMLESS_LEAK * post.noise_std or (
                leak > 0 and post.verdict.status == "misfit"
            ):
                found.append(i)
        return found


def _leak(likelihood: Likelihood, now: Array, then: Array, band: tuple[float, float]) -> float:
    """The largest amplitude in a band that two sets of tones outside differ by, in its standard errors for σ = 1.

    Args:
        likelihood: Of all data.
        now: One set, (k, P).
        then: The other.
        band: Lower and upper edge in Hz.
    """
    if np.array_equal(now, then):
        return 0.0
    f = np.linspace(*band, max(math.ceil(2 * (band[1] - band[0]) / likelihood.bin), 2))
    total = np.zeros(len(f), np.complex128)
    for theta, sign in ((now, 1), (then, -1)):
        place, c = likelihood.waveform.simple(likelihood.to_z(theta))
        total += sign * 0.5 * (likelihood.kernel(place - f[:, None]) * c).sum(-1)
    return float(np.abs(total).max()) * math.sqrt(2 / likelihood.weight)
