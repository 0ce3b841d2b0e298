r"""What candidates of K tones are drawn from: the parts that suit a signal, and their shares.

Gaussians around the maxima that the prior does not exclude, bent as the posterior is (`collapsed.py`), with a
companion cut off at the prior's edge where the data want tones beyond it (`edges.py`) and a wider and straighter one
where tones come close. Where tones are weak, anchored tones with free ones (`births.py`). Where the prior lets tones
come closer than `CLOSE` bins, the ridges of unresolved tones that nearly cancel (`ridge.py`) and splits of the orders
below (`splits.py`). The shares of the parts come from draws (`rounds.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from slotflow.core import linear
from slotflow.core.arrays import Array, namespace
from slotflow.exact.mode import Mode
from slotflow.exact.modes import CLOSE, Modes
from slotflow.exact.proposals.births import Births, BirthTable
from slotflow.exact.proposals.collapsed import bent
from slotflow.exact.proposals.edges import cut
from slotflow.exact.proposals.gaussian import Proposal, Warped
from slotflow.exact.proposals.ridge import Ridge, ridges
from slotflow.exact.proposals.splits import PairTable, Split, splits
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Proposer", "gain_without_one", "laplace_evidence", "without_weakest"]

WEAK = 50.0
"""Squared SNR below which a tone may be somewhere else altogether."""
LOOSE = 20.0
"""Squared SNR below which a tone is never anchored."""
MANY = 6
FREE = 3
"""Free tones at most for more than `MANY` tones in all."""
NEAR = 1.0
"""Distance in bins below which the Gaussian of two tones has a wider companion."""
WITHIN = 16.0
"""Maxima whose log-likelihood is smaller than the best one's by more take no part."""
ASKED_FOR = 10.0
"""Gain of the log-likelihood from which on the data ask for one more tone; splits of a single one do not reach it."""
AT_BOUND = 4.0
"""Standard deviations of an amplitude within which a bound of the prior is near."""
LINEAR = 0.5
"""Share of what the linearized model says a tone is worth that it is worth at least."""


class Proposer:
    """Builds the proposals of one signal.

    Args:
        statistics: Of the signal.
        prior: Prior of Θ and σ.
        modes: Maxima of its likelihood; more are looked for where they are needed.
        rng: Source of randomness.
    """

    def __init__(
        self, statistics: Likelihood, prior: Prior, modes: Modes, rng: np.random.Generator
    ) -> None:
        self.statistics, self.prior, self.modes, self.rng = statistics, prior, modes, rng
        self.pair_tables: dict[Mode, tuple[tuple[Array, Array], list[PairTable]]] = {}
        self.tables: dict[Mode, tuple[BirthTable, tuple[Array, Array]]] = {}
        self.close = prior.min_separation < CLOSE * modes.bin
        """Whether tones may be unresolved."""

    def table(self, mode: Mode) -> tuple[BirthTable, tuple[Array, Array]] | None:
        """Births around a maximum, with its Gaussian."""
        if mode not in self.tables:
            target = Target(self.statistics, self.prior, len(mode.z))
            gaussian = target.gaussian(mode.z)
            if gaussian is None:
                return None
            self.tables[mode] = (BirthTable(target, mode.z, gaussian[1]), gaussian)
        return self.tables[mode]

    def pairs(self, mode: Mode) -> tuple[tuple[Array, Array], list[PairTable]] | None:
        """A maximum's Gaussian, and tables of pairs in place of each of its tones."""
        if mode not in self.pair_tables:
            target = Target(self.statistics, self.prior, len(mode.z))
            gaussian = target.gaussian(mode.z)
            if gaussian is None:
                return None
            rest = self.statistics.less(gaussian[0].reshape(mode.z.shape))
            tables = [PairTable(target, gaussian, j, rest) for j in range(len(mode.z))]
            self.pair_tables[mode] = gaussian, tables
        return self.pair_tables[mode]

    def parts(self, target: Target, split: bool = True) -> list[Proposal]:
        """Proposals of an order; with few splits of the orders below if something else divides their tones."""
        k, modes = target.k, self.modes
        parts: list[Proposal] = []
        here = modes.plausible(k)
        floor = self._floor(target)
        for mode in self._near_best(target):
            if mode.strength.min() < 0.5 * LOOSE and not self.close:
                continue
            part = None if mode.bounded else bent(target, mode.z, mode.covariance)
            pairs = mode.gap(modes.bin) < NEAR
            if part is not None:
                parts.append(part)
                if (edge := cut(part, target)) is not None:
                    parts.append(edge)
                if not pairs:
                    continue
            gaussian = None if mode.bounded else target.gaussian(mode.z, 1.0)
            if gaussian is None:
                gaussian = (mode.z.ravel(), mode.covariance)
            if part is None:
                parts.append(Warped(*gaussian))
            if pairs:
                near = np.diff(mode.places) < NEAR * modes.bin
                pair = np.append(near, False) | np.insert(near, 0, False)
                widen = 2.0 if mode.gap(modes.bin) < CLOSE else 1.5
                parts.append(
                    Warped(*gaussian, np.where(np.repeat(pair, mode.z.shape[1]), widen, 1.0))
                )
        close = any(m.bounded or m.gap(modes.bin) < NEAR for m in self._near_best(target))
        if close and self._asks_for_all(target):
            parts += self.ridges(target)
        weakest = here[0].strength.min() if here else 0.0
        if weakest < WEAK or not parts:
            most = FREE if k > MANY else k
            anchors = [modes.sure(k, strength) for strength in (WEAK, LOOSE)]
            for base in {len(a.z): a for a in anchors if k - most <= len(a.z) < k}.values():
                found = self.table(base)
                if found is not None:
                    parts.append(Births(*found, k - len(base.z)))
        if self.close:
            parts += self._splits(target, floor) if split else self._splits_at_bounds(target)
        return parts

    def ridges(self, target: Target) -> list[Ridge]:
        """Ridges of the unresolved tones among the maxima of an order; none if the prior keeps tones apart."""
        maxima = [mode.z for mode in self._near_best(target)] if self.close else []
        return ridges(target, maxima, self.rng)

    def _floor(self, target: Target) -> float:
        """Log-likelihood that a maximum of an order needs to take part; inf if there is no maximum."""
        best = next(iter(self.modes.plausible(target.k)), None)
        return math.inf if best is None else self._level(target, best) - WITHIN

    def _near_best(self, target: Target) -> list[Mode]:
        """Maxima of an order that take part, the best first."""
        floor = self._floor(target)
        return [m for m in self.modes.plausible(target.k) if self._level(target, m) >= floor]

    def _asks_for_all(self, target: Target) -> bool:
        """Whether the data cannot do with one tone less, for all that is known of its maxima."""
        most, fewer = self.modes.best(target.k), self.modes.best(target.k - 1)
        if most is None or fewer is None:
            return most is not None
        return self._level(target, most) > self._level(target, fewer) + ASKED_FOR

    @staticmethod
    def _level(target: Target, mode: Mode) -> float:
        return float(target.noise.log_marginal(np.array([mode.rss]))[0])

    def _splits(self, target: Target, floor: float) -> list[Proposal]:
        """Pairs in place of single tones of the orders below, where those explain the data."""
        parts: list[Proposal] = []
        for count in (1, 2):
            base = self.modes.best(target.k - count) if target.k > count else None
            if base is None:
                continue
            if np.isfinite(floor) and self._level(target, base) < floor - WITHIN:
                continue
            found = self.pairs(base)
            if found is not None:
                parts += splits(*found, count)
        return parts

    def _splits_at_bounds(self, target: Target) -> list[Proposal]:
        """Pairs in place of single tones of the order below whose amplitude is near a bound of the prior.

        Draws of that order end at the bound, while the sum of a pair's amplitudes may lie beyond it.
        """
        base = self.modes.best(target.k - 1)
        found = None if base is None else self.pairs(base)
        if found is None:
            return []
        (mean, covariance), tables = found
        z = mean.reshape(len(tables), -1)
        spread = np.sqrt(covariance.diagonal().reshape(z.shape)[:, len(TONE.shape) :].max(-1))
        amplitude, (low, high) = TONE.moduli(z)[:, 0], target.prior.amplitude
        near = (amplitude - low < AT_BOUND * spread) | (high - amplitude < AT_BOUND * spread)
        return [Split((mean, covariance), {int(j): tables[j]}) for j in np.flatnonzero(near)]


def laplace_evidence(target: Target, mode: Mode) -> float:
    """Laplace's estimate of ln Z around a maximum, as if the prior had no edges."""
    gaussian = target.gaussian(mode.z)
    if gaussian is None:
        return math.inf
    waveform = target.waveform
    amplitude = np.clip(waveform.moduli(mode.z), *target.prior.amplitude)  # (K, 1)
    places = np.linspace(*target.prior.frequency, target.k)[:, None]
    inside = waveform.without_phase(places, amplitude)
    log_prior = float(target.prior.log_prob_theta(inside)) - float(np.log(amplitude).sum())
    scale = np.sqrt(np.diag(gaussian[1]))
    _, log_det = np.linalg.slogdet(gaussian[1] / (scale[:, None] * scale))
    volume = 0.5 * len(scale) * math.log(2 * math.pi) + 0.5 * log_det + float(np.log(scale).sum())
    height = float(target.log_likelihood(np.array([mode.rss]))[0])
    return height + float(np.sum(target.log_volume(mode.z[None]))) + log_prior + float(volume)


def without_weakest(target: Target, mode: Mode, log_evidence: float) -> float:
    r"""A generous estimate of ln Z_{K−1} from a maximum of order K and ln Z_K, without a fit of K − 1 tones.

    In the linearized model RSS grows by σ² c_k Σ_kk⁻¹ c_k without the k-th tone, once the others have adapted; half
    of that is counted. Laplace's ln Z_K loses the prior's density and the posterior's volume of that tone,

    .. math:: \ln \frac{Z_{K-1}}{Z_K} = \ln \frac{L_{K-1}}{L_K}
              - \ln\big(K\, p(z_k)\, (2π)^{3/2}\, |Σ_{kk}|^{1/2}\big) .

    Args:
        target: Of K tones.
        mode: Of order K > 0, not bounded.
        log_evidence: ln Z_K.
    """
    k, prior = target.k, target.prior
    rise = LINEAR * mode.strength * target.noise.variance(mode.rss)
    log_l = target.log_likelihood(mode.rss + np.append(rise, 0.0))
    amplitude = np.clip(target.waveform.moduli(mode.z), *prior.amplitude)  # (K, 1)
    places = np.full((k, 1), prior.frequency[0])
    alone = target.waveform.without_phase(places, amplitude)[:, None]
    density = prior.log_prob_theta(alone).numpy() - np.log(amplitude[:, 0])
    size = mode.z.shape[1]
    blocks = mode.covariance.reshape(k, size, k, size)[np.arange(k), :, np.arange(k), :]
    return log_evidence + float(gain_without_one(log_l[:-1] - log_l[-1], density, blocks))


def gain_without_one(log_likelihood: Any, density: Any, blocks: Any) -> Any:
    """The largest ln Z_{K−1}/Z_K of `without_weakest` over the tones that may be left out, (...).

    Args:
        log_likelihood: Change of ln L without each of K tones, (..., K).
        density: Logarithm of the prior's density of each, p(z_k), (..., K).
        blocks: Covariance of each, (..., K, Z, Z).
    """
    xp, (k, size) = namespace(blocks), blocks.shape[-3:-1]
    scale = xp.sqrt(xp.linalg.diagonal(blocks))  # (..., K, Z)
    unit = blocks / (scale[..., :, None] * scale[..., None, :])
    log_det = (linear.slogdet if isinstance(unit, Tensor) else np.linalg.slogdet)(unit)[1]
    volume = 0.5 * size * math.log(2 * math.pi) + 0.5 * log_det + xp.log(scale).sum(-1)
    return xp.amax(log_likelihood - math.log(k) - density - volume, -1)
