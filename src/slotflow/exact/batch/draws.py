r"""Weighted draws of B signals with K tones each: as `importance.py` makes them, with one proposal to a signal.

Normal variables are common to all signals, round after round from one seed: a signal's draws depend on the signal and
the seed alone. Candidates outside the prior's support are replaced by those of the next round. With n candidates of N
in the support, Ẑ = (n/N) w̄; here N counts all candidates that were made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.exact.batch.bent import BentBatch
from slotflow.exact.batch.levels import Levels
from slotflow.exact.batch.near import Near
from slotflow.exact.importance import NO_TAIL, pareto_k, share_of, tail_shape, tail_size
from slotflow.exact.target import log_prior
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Drawn", "Numbers", "draw", "numbers_on_gpu"]

ROUNDS = (1, 1, 2, 4, 8, 16, 32, 64)
"""Blocks of candidates in each round, a block being as many as draws are wanted; a signal that needs more rounds is not
decided in a batch."""
HOPELESS = 0.25
"""Part of the draws, expected of all rounds after two of them, below which a signal gets no further ones."""


@lru_cache(maxsize=64)
def numbers_on_gpu(seed: int, k: int, n: int, device: torch.device) -> Numbers:
    """`Numbers` that stay on a GPU from one chunk of signals to the next: making them takes longer than using them."""
    return Numbers(seed, k, n, device)


class Numbers:
    """Standard normal variables that all signals of K tones share.

    Args:
        seed: Of the random numbers.
        k: Number of tones.
        n: Draws in a block.
        device: Where they are used.
    """

    def __init__(self, seed: int, k: int, n: int, device: torch.device) -> None:
        self.seed, self.k, self.n, self.device = seed, k, n, device
        self._rng = np.random.default_rng([seed, k])
        self._rounds: list[Tensor] = []
        self._lock = Lock()
        """Chunks of signals may be drawn side by side."""

    def round(self, i: int) -> Tensor:
        """The numbers of the i-th round, (n times its blocks, K·Z)."""
        with self._lock:
            while len(self._rounds) <= i:
                size = self.n * ROUNDS[len(self._rounds)]
                drawn = self._rng.standard_normal((size, TONE.coordinates * self.k))
                self._rounds.append(upload(torch.from_numpy(drawn), self.device))
            return self._rounds[i]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Weighted draws of B signals."""

    z: Tensor
    """Coordinates, (B, n, K, Z)."""
    sigma: Tensor
    """Noise levels, (B, n)."""
    log_weights: Tensor
    """Logarithms of weights that sum to one, (B, n)."""
    log_evidence: Tensor
    """ln p(x | K), (B,)."""
    log_evidence_error: Tensor
    """Its standard error, (B,)."""
    ess: Tensor
    """Effective share: the smaller one of all draws and of the last half, (B,)."""
    pareto_k: Tensor
    """Shape of the weights' tail, (B,)."""
    share: Tensor
    """Share of the candidates inside the prior's support, (B,)."""
    filled: Tensor
    """Whether there are n draws in the support, (B,), bool."""


def draw(
    proposal: BentBatch,
    tables: Near,
    places: Tensor,
    levels: Levels,
    prior: Prior,
    numbers: Numbers,
) -> Drawn:
    """Draws, weighs and judges.

    Args:
        proposal: Of B signals.
        tables: What their likelihood is there.
        places: f̂ in Hz, (B, K).
        levels: Their noise levels.
        prior: Prior of Θ.
        numbers: Normal variables.
    """
    kept = _inside(proposal, places, prior, numbers)
    z, n = kept.z, numbers.n
    place, c = TONE.simple(z)
    rss = levels.energy[:, None] + tables.gains(place - places[:, None], c)
    log_q = -0.5 * kept.square - proposal.normalizer[:, None]
    log_w = kept.log_prior + levels.log_likelihood(rss, numbers.k) - log_q
    log_w = torch.where(log_w.isnan(), -math.inf, log_w)
    top = log_w.amax(-1, keepdim=True)
    top = torch.where(top.isfinite(), top, 0.0)
    weights = (log_w - top).exp()
    total = weights.sum(-1)
    whole = share_of(weights).nan_to_num(0.0)
    last = share_of(weights[:, n - n // 2 :]).nan_to_num(0.0)
    share = kept.inside / kept.candidates
    variance = (1 - share) / n + (1 / whole.clamp_min(1e-300) - 1) / n
    log_mean = top[:, 0] + (total / n).log()
    return Drawn(
        z=z,
        sigma=levels.sample(rss, (numbers.seed, numbers.k)),
        log_weights=log_w - top - total.log()[:, None],
        log_evidence=log_mean + share.log(),
        log_evidence_error=variance.sqrt(),
        ess=torch.minimum(whole, last),
        pareto_k=_pareto_k(weights),
        share=share,
        filled=kept.inside >= n,
    )


@dataclass(eq=False)
class _Kept:
    """Candidates inside the support of B signals, n of each at most."""

    z: Tensor
    log_prior: Tensor
    square: Tensor
    inside: Tensor
    candidates: Tensor


def _inside(proposal: BentBatch, places: Tensor, prior: Prior, numbers: Numbers) -> _Kept:
    """The first n candidates of each signal inside the support, or fewer: the others have the prior density 0."""
    kept = _candidates(proposal, places, prior, numbers.round(0))
    for i in range(1, len(ROUNDS)):
        few = (kept.inside < numbers.n) & ~_is_hopeless(kept, numbers.n)
        rows = torch.nonzero(few).flatten()
        if not len(rows):
            break
        more = _candidates(proposal.take(rows), places[rows], prior, numbers.round(i))
        joined = [
            torch.cat([old[rows], new], 1)
            for old, new in (
                (kept.z, more.z),
                (kept.log_prior, more.log_prior),
                (kept.square, more.square),
            )
        ]
        order = torch.argsort((joined[1] == -math.inf).int(), dim=-1, stable=True)[:, : numbers.n]
        kept.z[rows] = torch.take_along_dim(joined[0], order[..., None, None], 1)
        kept.log_prior[rows] = joined[1].gather(1, order)
        kept.square[rows] = joined[2].gather(1, order)
        kept.inside[rows] += more.inside
        kept.candidates[rows] += more.candidates
    return kept


def _is_hopeless(kept: _Kept, n: int) -> Tensor:
    """Of which signals all rounds would hardly give a part of n candidates inside the support, (B,)."""
    expected = kept.inside / kept.candidates * (sum(ROUNDS) * n)
    return (kept.candidates > n) & (expected < HOPELESS * n)


def _candidates(proposal: BentBatch, places: Tensor, prior: Prior, u: Tensor) -> _Kept:
    """One block of candidates, those outside the support with the prior density 0."""
    away, c = proposal.from_normal(u)
    z = TONE.from_simple(places[:, None] + away, c)
    density = log_prior(prior, TONE, z)
    square = (u**2).sum(-1).expand(len(z), -1).clone()
    inside = (density > -math.inf).sum(-1)
    return _Kept(z, density, square, inside, torch.full_like(inside, len(u)))


def _pareto_k(weights: Tensor) -> Tensor:
    """Pareto k of weights over the largest one, (B, n) to (B,)."""
    tail = tail_size(weights.shape[1])
    if tail < 5:
        return torch.full_like(weights[:, 0], math.inf)
    top = weights.topk(tail + 1, dim=-1).values.flip(-1)
    excess = top[:, 1:] - top[:, :1]
    found: Tensor = tail_shape(excess)
    odd = (excess[:, 0] <= NO_TAIL * top[:, -1]) | ~found.isfinite()
    for i in torch.nonzero(odd).flatten().tolist():  # equal weights, or none at all
        found[i] = pareto_k(weights[i].log().cpu().numpy())
    return found
