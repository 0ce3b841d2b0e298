"""What a search across K is about: one signal, its prior, the maxima of its likelihood, and how much work it may be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from slotflow.exact.modes import Modes
from slotflow.exact.proposals.assembly import Proposer
from slotflow.exact.target import Target
from slotflow.exact.tempering import Tempering
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior

__all__ = ["Problem"]

FEW_NODES = 8
"""Values of the noise's shape that are never dropped."""
EXCLUDED_NODE = 1e-4
"""Likelihood of a value of the noise's shape, over the largest, below which it is dropped."""


class Problem:
    """One signal and what is asked of it; what is found of its maxima is kept here.

    Args:
        statistics: Of the signal.
        prior: Prior of K, Θ and σ.
        extra: Gives frequencies in Hz where more tones may be; asked only if more are looked for.
        draws: Draws of each order.
        rng: Source of randomness; seeded with 0 if None.
        tempering: Sizes and budget of tempered sampling.
        max_seconds: Time budget, which begins now.
    """

    def __init__(
        self,
        statistics: Likelihood,
        prior: Prior,
        extra: Callable[[], Sequence[float]] | None = None,
        draws: int = 2000,
        rng: np.random.Generator | None = None,
        tempering: Tempering | None = None,
        max_seconds: float = 60.0,
    ) -> None:
        self.began, self.max_seconds = time.perf_counter(), max_seconds
        self.statistics, self.prior, self.draws = statistics, prior, draws
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.tempering = Tempering() if tempering is None else tempering
        self.modes = Modes(statistics, prior, extra)
        self.proposer = Proposer(statistics, prior, self.modes, self.rng)
        self.close = self.proposer.close
        """Whether tones may be unresolved."""
        self._targets: dict[int, Target] = {}

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.max_seconds - self.seconds

    def target(self, k: int) -> Target:
        """The density of order k."""
        if k not in self._targets:
            self._targets[k] = Target(self.statistics, self.prior, k)
        return self._targets[k]

    def minus_half_bic(self, k: int, rss: float) -> float:
        """What stands in for ln Z_K where nothing better is known: −½ BIC of k components that leave some RSS."""
        log_likelihood = float(self.target(k).log_likelihood(np.array([rss]))[0])
        spent = 0.5 * self.statistics.waveform.size * k * math.log(self.statistics.n)
        return log_likelihood - math.lgamma(k + 1) - spent

    def drop_nodes(self, k: int) -> None:
        """Drops values of the noise's shape that the data exclude, judged by the maxima of orders around k.

        Each of the others costs as much as the first in every draw.
        """
        nodes = (self.statistics, *self.statistics.nodes)
        if len(nodes) <= FEW_NODES:
            return
        kept = np.arange(len(nodes)) == 0
        for order in {0, k} if k < 3 else {k - 1, k}:
            mode = self.modes.best(order)
            if mode is not None:
                target = self.target(order)
                logs = np.array([node.log_likelihood(mode.z) for node in target.nodes])
                kept |= logs > logs.max() + math.log(EXCLUDED_NODE)
        left = [node for node, keep in zip(nodes, kept, strict=True) if keep]
        self.statistics.nodes = tuple(left[1:])
        self._targets.clear()
