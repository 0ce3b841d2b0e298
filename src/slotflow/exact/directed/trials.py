r"""One slowly changing component instead of some tones: fits beside all other tones, and odds.

Clusters are looked at one by one. What stands in for the first stays while the second is looked at, if its odds are
better than even.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.directed.envelopes import Component, Envelope, Slow
from slotflow.exact.directed.groups import envelopes_for, runs, stand_in
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
        replaced: list[Replaced] = []
        best = log_total
        for group in groups:
            sets = [group] if len(group) == 1 else list(runs(group, self.places, self.bin))
            kept = None
            for tones in sets[:MOST_RUNS]:
                for envelope in envelopes_for([self.tones[j] for j in tones], self.bin):
                    one, log_joint = self._tried(replaced, tones, envelope)
                    if log_joint > best:
                        kept, best = one, log_joint
            if kept is not None:
                replaced.append(kept)
        return replaced, float(best - log_total)

    def _tried(
        self, replaced: Sequence[Replaced], tones: tuple[int, ...], envelope: Envelope
    ) -> tuple[Replaced, float]:
        """One component instead of some tones, beside what was replaced before, and the logarithm of p(K) Z."""
        gone = {*tones, *(j for one in replaced for j in one.tones)}
        rest = [tone for j, tone in enumerate(self.tones) if j not in gone]
        own = [self.tones[j] for j in tones]
        start, missed = self.slow.resembling(own, stand_in(self.slow, own, envelope))
        if len(tones) > 1 and 0.5 * self.precision * missed > HOPELESS:
            return Replaced(tones, start), -math.inf
        fitted = self.slow.fit([*rest, *(one.component for one in replaced), start])
        if fitted is None:
            return Replaced(tones, start), -math.inf
        log_joint = fitted.log_evidence + _log_p(self.prior, len(fitted.components))
        return Replaced(tones, fitted.components[-1]), log_joint


def _log_p(prior: Prior, k: int) -> float:
    """Logarithm of p(K); numbers that the prior excludes for tones get as much as the largest one."""
    p = prior.k_probs_full
    return math.log(p[k] if p[k] > 0 else p.max())
