r"""Draws of one target in rounds from mixtures of the same parts: nothing that was drawn is thrown away.

How large a share of the candidates each part of a proposal should have is known only once some were drawn. Let round t
draw N_t candidates from Σ_m α_tm q_m, its shares chosen by the rounds before. All draws are weighted by the mixture
that they come from together,

.. math:: w(z) = \frac{\tilde p(z)}{\bar q(z)}, \qquad \bar q(z) = \sum_m \bar α_m q_m(z), \qquad
          \bar α_m = \frac{\sum_t N_t α_{tm}}{\sum_t N_t} ,

and \hat Z is Σw over the number of candidates, as for a single round (`importance.py`): given the shares, its
expectation is Z. A round with poor shares costs draws of little weight, never large weights, since w is at most
p̃/ᾱ_m q_m for each of the parts. Only q_m(z) is kept of each draw and part, so that new shares, and new parts, cost no
likelihood. That draws before influence the shares of those after leaves a bias of the order of 1/n, below the error.

**Shares.** The mixture nearest to p̃ in the sense of Kullback and Leibler is where the steps of expectation and
maximization α_m ← Σ_i w_i α_m q_m(z_i)/Σ_l α_l q_l(z_i) end; a few of them, from equal shares, are taken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import (
    MOST_CANDIDATES,
    Importance,
    effective_share,
    inside_support,
    summarised,
)
from slotflow.exact.proposals.gaussian import Mixture, Proposal
from slotflow.exact.target import Target

__all__ = ["FEW_CANDIDATES", "Rounds"]

PILOT_OF_PART, PILOT = 50, 500
"""First draws of each part of a proposal, and of all of them at most."""
FEW_CANDIDATES = 50
"""Candidates at most for each draw of a first look."""
STEPS = 3
"""Steps of expectation and maximization."""
FLOOR = 0.05
"""Share of a proposal that is spread evenly over its parts, whatever the draws say."""
TRUSTED = 0.05
"""Effective share of the draws from which on they are believed."""


class Rounds:
    """Draws of a target, all weighted by the mixture that they come from together.

    Args:
        target: What to draw from.
        parts: Where candidates come from, with equal shares at first.
        rng: Source of randomness.
    """

    def __init__(self, target: Target, parts: Sequence[Proposal], rng: np.random.Generator) -> None:
        self.target, self.parts, self.rng = target, list(parts), rng
        self.shares: Array = np.full(len(self.parts), 1 / len(self.parts))
        """α of the next round, (M,)."""
        self._from: Array = np.zeros(len(self.parts))  # Σ_t N_t α_tm
        self._z, self._rss, self._log_p = list[Array](), list[Array](), list[Array]()
        self._log_q: Array = np.zeros((len(self.parts), 0))  # (M, n)
        self._began = time.perf_counter()

    @classmethod
    def begun(cls, target: Target, parts: Sequence[Proposal], rng: np.random.Generator) -> Rounds:
        """Rounds after a first one with equal shares of all parts, where there are several."""
        rounds = cls(target, parts, rng)
        if len(rounds.parts) > 1:
            rounds.draw(min(PILOT_OF_PART * len(rounds.parts), PILOT), most=FEW_CANDIDATES)
            rounds.adapt()
        return rounds

    def __len__(self) -> int:
        """Number of draws inside the support."""
        return int(self._log_q.shape[1])

    def draw(self, n: int, max_seconds: float = math.inf, most: int = MOST_CANDIDATES) -> None:
        """One more round.

        Args:
            n: Draws inside the support.
            max_seconds: No further candidates are drawn after this time.
            most: Candidates at most for each draw; there are fewer draws where they do not suffice.
        """
        z, tried = inside_support(self.target, self.proposal, n, self.rng, max_seconds, most)
        self._from += tried * self.shares
        if len(z):
            log_p, rss = self.target.log_prob(z)
            self._z.append(z)
            self._rss.append(rss)
            self._log_p.append(log_p)
            log_q = np.stack([part.log_prob(z) for part in self.parts])
            self._log_q = np.concatenate([self._log_q, log_q], 1)

    def add(self, parts: Sequence[Proposal]) -> None:
        """Takes in more parts, if there are any, from which nothing was drawn so far."""
        if not parts:
            return
        self.parts += parts
        self._from = np.append(self._from, np.zeros(len(parts)))
        self.shares = np.full(len(self.parts), 1 / len(self.parts))
        if self._z:
            z = np.concatenate(self._z)
            log_q = np.stack([part.log_prob(z) for part in parts])
            self._log_q = np.concatenate([self._log_q, log_q])

    @property
    def _log_weights(self) -> Array:
        """Logarithm of p̃/q̄ of all draws, (n,)."""
        if not self._log_p:
            return np.zeros(0)
        with np.errstate(divide="ignore"):
            share = np.log(self._from / self._from.sum())
        log_w = np.concatenate(self._log_p) - log_sum_exp(self._log_q + share[:, None], axis=0)
        return np.where(np.isnan(log_w), -np.inf, log_w)

    def adapt(self) -> None:
        """Sets the shares of the next round by what the draws so far find in each part."""
        log_w = self._log_weights
        if len(self.parts) == 1 or not len(log_w) or not np.isfinite(log_w.max()):
            return
        trusted = effective_share(log_w) > TRUSTED
        # Of weights that vary wildly the square root is taken: one draw must not decide.
        weight = np.exp((1.0 if trusted else 0.5) * (log_w - log_w.max()))
        weight /= weight.sum()
        top = self._log_q.max(0)
        q = np.exp(self._log_q - np.where(np.isfinite(top), top, 0.0))  # (M, n)
        shares = np.full(len(self.parts), 1 / len(self.parts))
        for _ in range(STEPS if trusted else 1):
            shares *= q @ (weight / np.maximum(shares @ q, 1e-300))
        shares = shares / shares.sum() + (FLOOR if trusted else 1.0) / len(shares)
        self.shares = shares / shares.sum()

    @property
    def proposal(self) -> Mixture:
        """What the next round draws from."""
        return Mixture(self.parts, self.shares.tolist())

    def share(self, part: Proposal) -> float:
        """Share of all candidates that came from one of the parts."""
        return float(self._from[self.parts.index(part)] / max(self._from.sum(), 1.0))

    def result(self) -> Importance:
        """What all draws say; the effective share is the smaller one of all and of the last round."""
        log_w = self._log_weights
        last = len(self._log_p[-1]) if self._log_p else 0
        ess = min(effective_share(log_w[len(log_w) - last :]), effective_share(log_w))
        drawn = [] if not last else [(np.concatenate(self._z), np.concatenate(self._rss), log_w)]
        seconds, tried = time.perf_counter() - self._began, round(float(self._from.sum()))
        return summarised(self.target, drawn, tried, ess, seconds, self.rng)
