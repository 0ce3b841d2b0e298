r"""One slowly changing component instead of some tones: fits beside all other tones, and odds.

What may stand in for each cluster is chosen with all tones outside of it kept as they are: Laplace's evidence of close
tones, which are far from Gaussian, would otherwise blur the choice. The odds are those of all components fitted
together, first with a stand-in for every cluster, then with one after the other taken back; the best set counts.

Most close tones are nothing else: no single component comes near their sum. That is seen from the tones alone, in the
few bins around the cluster (`_hopeful`); the data of all tones are looked at only where something is left to try.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.directed.envelopes import Component
from slotflow.exact.directed.groups import envelopes_for, runs, stand_in
from slotflow.exact.directed.slow import Slow
from slotflow.exact.orders import Orders
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.compressed import Compressed, compressed_around
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
        self.likelihood, self.observation = likelihood, observation
        self.places, (_, c) = likelihood.waveform.place_in_z(z), likelihood.waveform.unpack(z)
        pairs = zip(self.places, c[:, 0], strict=True)
        self.tones = [Component(float(f), complex(a)) for f, a in pairs]

    @cached_property
    def slow(self) -> Slow:
        """Changing components on the data around all tones."""
        return Slow(self._data(range(len(self.tones))), self.prior, self.likelihood)

    @cached_property
    def rss(self) -> float:
        """What the tones leave of the data."""
        plain = self.likelihood.in_numpy
        gram, data = (x[0] for x in plain.amplitude_systems(self.places[None, :, None]))
        c = np.array([tone.c for tone in self.tones])
        row = np.concatenate([c.real, c.imag])
        return float(plain.energy[0] - 2 * row @ data + row @ gram @ row)

    def _data(self, tones: Sequence[int]) -> Compressed:
        """What the data say of all that lies around some tones."""
        reach = AROUND * self.bin
        intervals = [(self.places[j] - reach, self.places[j] + reach) for j in tones]
        return compressed_around(self.likelihood, self.observation, intervals, GUARD)

    def best(
        self, groups: Sequence[tuple[int, ...]], orders: Orders, several: bool
    ) -> tuple[list[Replaced], float]:
        """What stands in for some of the tones, and the logarithm of its odds against tones.

        Args:
            groups: Clusters of tones, and single tones.
            orders: Evidences of tones.
            several: Whether they are means over several values of the noise's shape; Laplace's evidence under one value
                is then what that of a changing component is compared with.
        """
        starts = {group: list(self._hopeful(group)) for group in groups}
        if not any(starts.values()):
            return [], 0.0
        log_total = self._log_total(orders, several)
        found = [self._best_of(group, own) for group, own in starts.items()]
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

    def _log_total(self, orders: Orders, several: bool) -> float:
        """Logarithm of Σ p(K) Z_K of tones."""
        k = orders.k_map
        base = self.slow.fit(self.tones) if several else None
        log_z = float(orders.log_evidence[k]) if base is None else base.log_evidence
        return log_z + _log_p(self.prior, k) - math.log(float(orders.k_probs[k]))

    def _hopeful(self, group: tuple[int, ...]) -> Iterator[Replaced]:
        """Components that resemble some tones of a group well enough to be tried instead of them."""
        near = Slow(replace(self._data(group), beside=self.rss), self.prior, self.likelihood)
        precision = near.level.noise.precision(self.rss)
        sets = [group] if len(group) == 1 else list(runs(group, self.places, self.bin))
        for tones in sets[:MOST_RUNS]:
            own = [self.tones[j] for j in tones]
            for envelope in envelopes_for(own, self.bin):
                start, missed = near.resembling(own, stand_in(near, own, envelope))
                if len(tones) == 1 or 0.5 * precision * missed <= HOPELESS:
                    yield Replaced(tones, start)

    def _best_of(self, group: tuple[int, ...], starts: Sequence[Replaced]) -> Replaced | None:
        """The best component instead of tones of a group, beside all tones outside of it; None where none will do."""
        best, log_best = None, -math.inf
        for start in starts:
            one, log_joint = self._tried(group, start)
            if log_joint > log_best:
                best, log_best = one, log_joint
        return best

    def _tried(self, group: tuple[int, ...], start: Replaced) -> tuple[Replaced, float]:
        """One component instead of some tones of a group, and ln p(K) Z with the tones outside of it as they are."""
        rest = [self.tones[j] for j in group if j not in start.tones]
        outside = [tone for j, tone in enumerate(self.tones) if j not in group]
        fitted = self.slow.fit([*rest, start.component], outside)
        if fitted is None:
            return start, -math.inf
        log_p = _log_p(self.prior, len(outside) + len(fitted.components))
        return Replaced(start.tones, fitted.components[-1]), fitted.log_evidence + log_p

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
