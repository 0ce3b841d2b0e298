r"""One slowly changing component instead of some tones: fits beside all other tones, and odds.

What may stand in for each cluster is chosen with all tones outside of it kept as they are: Laplace's evidence of close
tones, which are far from Gaussian, would otherwise blur the choice. The odds are those of all components fitted
together, first with a stand-in for every cluster, then with one after the other taken back; the best set counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.directed.envelopes import Component, Envelope
from slotflow.exact.directed.groups import envelopes_for, runs, stand_in
from slotflow.exact.directed.slow import Slow
from slotflow.exact.orders import Orders
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.compressed import compressed_around
from slotflow.signal.prior import Prior

__all__ = ["Replaced", "Trials"]

AROUND, GUARD = 2.0, 5.0
"""Bins around a tone that a changing one occupies, and bins beside these that are looked at with them."""
HOPELESS = 25.0
"""Logarithm of the likelihood that a single component may lose against the tones of a cluster and still have odds."""
MOST_RUNS = 10
"""Sets of neighbours of a cluster that are tried."""


@dataclass(frozen=True, eq=False)
class Replaced:
    """Tones that one component stands in for."""

    tones: tuple[int, ...]
    """Their numbers, in the order of frequencies."""
    component: Component
    """What stands in for them."""

    @property
    def kind(self) -> str:
        """What the component is called."""
        grows = self.component.envelope.name == "damped" and self.component.x[0] > 0
        return "growing" if grows else self.component.envelope.name


class Trials:
    """Slowly changing components on the data of one signal.

    Args:
        z: The tones that were fitted, sorted by place, (K, Z).
        likelihood: Of the data, under the value of the noise's shape that is most plausible beside the tones.
        prior: Of tones.
        observation: The data.
    """

    def __init__(
        self, z: Array, likelihood: Likelihood, prior: Prior, observation: Observation
    ) -> None:
        self.prior, self.bin = prior, likelihood.bin
        self.places, (_, c) = likelihood.waveform.place_in_z(z), likelihood.waveform.unpack(z)
        intervals = [(f - AROUND * self.bin, f + AROUND * self.bin) for f in self.places]
        data = compressed_around(likelihood, observation, intervals, GUARD)
        self.slow = Slow(data, prior, likelihood)
        pairs = zip(self.places, c[:, 0], strict=True)
        self.tones = [Component(float(f), complex(a)) for f, a in pairs]
        rss = float(data.rss(self.slow.total(self.tones)))
        self.precision = self.slow.level.noise.precision(rss)

    def log_total(self, orders: Orders, several: bool) -> float:
        """Logarithm of Σ p(K) Z_K of tones.

        Args:
            orders: Evidences of tones.
            several: Whether they are means over several values of the noise's shape; Laplace's evidence under one value
                is then what that of a changing component is compared with.
        """
        k = orders.k_map
        base = self.slow.fit(self.tones) if several else None
        log_z = float(orders.log_evidence[k]) if base is None else base.log_evidence
        return log_z + _log_p(self.prior, k) - math.log(float(orders.k_probs[k]))

    def best(
        self, groups: Sequence[tuple[int, ...]], log_total: float
    ) -> tuple[list[Replaced], float]:
        """What stands in for some of the tones, and the logarithm of its odds against tones.

        Args:
            groups: Clusters of tones, and single tones.
            log_total: Of tones.
        """
        found = [self._best_of(group) for group in groups]
        replaced = [one for one in found if one is not None]
        best, log_best = list[Replaced](), log_total
        while replaced:
            log_joint = self._log_joint(replaced)
            if log_joint > log_best:
                best, log_best = replaced, log_joint
            if len(replaced) == 1:
                break
            fewer = [replaced[:j] + replaced[j + 1 :] for j in range(len(replaced))]
            replaced = max(fewer, key=self._log_joint)
        return best, float(log_best - log_total)

    def _best_of(self, group: tuple[int, ...]) -> Replaced | None:
        """The best component instead of tones of a group, beside all tones outside of it; None where none will do."""
        sets = [group] if len(group) == 1 else list(runs(group, self.places, self.bin))
        best, log_best = None, -math.inf
        for tones in sets[:MOST_RUNS]:
            for envelope in envelopes_for([self.tones[j] for j in tones], self.bin):
                one, log_joint = self._tried(group, tones, envelope)
                if log_joint > log_best:
                    best, log_best = one, log_joint
        return best

    def _tried(
        self, group: tuple[int, ...], tones: tuple[int, ...], envelope: Envelope
    ) -> tuple[Replaced, float]:
        """One component instead of some tones of a group, and ln p(K) Z with the tones outside of it as they are."""
        own = [self.tones[j] for j in tones]
        start, missed = self.slow.resembling(own, stand_in(self.slow, own, envelope))
        if len(tones) > 1 and 0.5 * self.precision * missed > HOPELESS:
            return Replaced(tones, start), -math.inf
        rest = [self.tones[j] for j in group if j not in tones]
        outside = [tone for j, tone in enumerate(self.tones) if j not in group]
        fitted = self.slow.fit([*rest, start], outside)
        if fitted is None:
            return Replaced(tones, start), -math.inf
        log_p = _log_p(self.prior, len(outside) + len(fitted.components))
        return Replaced(tones, fitted.components[-1]), fitted.log_evidence + log_p

    def _log_joint(self, replaced: Sequence[Replaced]) -> float:
        """The logarithm of p(K) Z of all components, with some tones replaced; −inf where there is no fit."""
        gone = {j for one in replaced for j in one.tones}
        rest = [tone for j, tone in enumerate(self.tones) if j not in gone]
        fitted = self.slow.fit([*rest, *(one.component for one in replaced)])
        if fitted is None:
            return -math.inf
        return fitted.log_evidence + _log_p(self.prior, len(fitted.components))


def _log_p(prior: Prior, k: int) -> float:
    """Logarithm of p(K); numbers that the prior excludes for tones get as much as the largest one."""
    p = prior.k_probs_full
    return math.log(p[k] if p[k] > 0 else p.max())
