r"""Maxima of the likelihood for all numbers of components of each class that matter.

Components are added one at a time. From each of the best maxima of K − 1 components a further one of each class starts
where its matched filters say (`bank`); in each of the best maxima of K every component is tried as one of the other
classes, and neighbours as one component of another class (a chirp is easily taken for several tones), unless the
matched filters exclude it. Each trial is fitted (`fit`), and Laplace's evidence decides which maxima go on. The search
ends where further components have not paid for a while.

Whole sets of components come from outside (`propose`) and, for tones and decays, from the singular vectors of the data
(`pencil`): at the beginning where all classes are of these kinds, else beside the other components that were found,
since several decays in place of a chirp would lead the search astray.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.family.bank import Bank
from slotflow.exact.family.fit import Fit, climb, linear_amplitudes
from slotflow.exact.family.layout import Layout, members_of
from slotflow.exact.family.pencil import poles, series
from slotflow.exact.family.straight import Straight
from slotflow.exact.family.target import Around, FamilyTarget
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Waveform

__all__ = ["Mode", "Search", "Start"]

Start = Sequence[tuple[int, Array]]
"""A set of components to start a fit from: the number of the class and the shape ξ, (D,), of each."""

GOING_ON = 3
"""Maxima of each number of components that further ones are added to."""
PEAKS = 2
"""Starts of a further component of each class."""
PATIENCE = 2
"""Components in a row that did not pay, after which the search ends."""
HOPELESS = 10.0
"""Difference of ln Z from the best of the same number of components, at which a maximum is left alone."""
FILTER_LOSS = 0.2
"""Share of a component's power that the nearest filter of a bank may miss."""
MODES_KEPT = 4
"""Maxima of each layout that are kept."""
NEIGHBOURS = 12.0
"""Bins within which two components may be one of another class."""
LASTING = 1.0
"""Decay over the record, γT, below which a pole is taken for a tone where there are tones."""


@dataclass(frozen=True, eq=False)
class Mode:
    """A maximum of the likelihood with its Gaussian."""

    target: FamilyTarget
    """The density around it."""
    fit: Fit
    """The maximum."""
    around: Around
    """The Gaussian."""
    log_evidence: float
    """Laplace's ln p(x, K_1, …, K_C), p(K) included."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of components of each class."""
        return self.target.layout.counts


class Search:
    """Maxima of one observation.

    Args:
        nodes: The data under each value of the noise's shape.
        prior: Prior of everything.
        waveform: The prior's waveform, settled on the record.
        reference: τ, in seconds.
        duration: Length of the record in seconds.
    """

    def __init__(
        self,
        nodes: Sequence[Compressed],
        prior: Prior,
        waveform: Waveform,
        reference: float,
        duration: float,
    ) -> None:
        self.nodes, self.prior, self.duration = nodes, prior, duration
        self.waveform, self.reference = waveform, reference
        self.members = members_of(waveform)
        self.of_poles = [m.of_pole(prior.frequency[0], 0.0) is not None for m in self.members]
        self.banks = [Bank(m, nodes[0], prior.frequency, duration) for m in self.members]
        self.found: dict[tuple[int, ...], list[Mode]] = {}
        self._settled: dict[Mode, Mode] = {}
        self.complete = True
        none = self.target((0,) * len(self.members))
        empty = Fit(np.zeros(0), nodes[0].energy, nodes[0].data)
        log_z = float(none.log_prob(np.zeros((1, 0)))[0][0]) + self.log_p(0)
        around = Around(Straight(none.layout, empty.z, duration), np.zeros(0), np.zeros((0, 0)))
        self.found[none.layout.counts] = [Mode(none, empty, around, log_z)]

    def target(self, counts: tuple[int, ...]) -> FamilyTarget:
        """The density of some numbers of components."""
        layout = Layout(self.waveform, self.reference, counts)
        return FamilyTarget(self.nodes, self.prior, layout)

    def log_p(self, k: int) -> float:
        """Logarithm of p(K); numbers that the prior excludes get a little of it, since they lead to others."""
        p = self.prior.k_probs_full
        return math.log(max(p[k], 1e-3 * p.max()))

    @property
    def best(self) -> float:
        """The largest ln Z so far, of numbers of components that the prior allows."""
        return self._best_up_to(self.prior.k_max)

    @property
    def largest_amplitude(self) -> float:
        """The largest amplitude that a lone component would have, as matched filters see the data."""
        return max(bank.largest_amplitude(self.nodes[0].data) for bank in self.banks)

    def _best_up_to(self, k: int) -> float:
        """The same of at most K components."""
        allowed = [
            mode.log_evidence
            for modes in self.found.values()
            for mode in modes[:1]
            if mode.target.k <= k and self.prior.k_probs_full[mode.target.k] > 0
        ]
        return max(allowed, default=-math.inf)

    def of_order(self, k: int) -> list[Mode]:
        """All maxima of K components, the best first."""
        modes = [m for counts, every in self.found.items() if sum(counts) == k for m in every]
        return sorted(modes, key=lambda mode: -mode.log_evidence)

    def settled(self, counts: tuple[int, ...]) -> list[Mode]:
        """Maxima of a layout, the best first, their Gaussians those under all values of the noise's shape."""
        modes = self.found.get(counts, [])
        for mode in [] if len(self.nodes) == 1 else modes:
            if mode not in self._settled:
                around = mode.target.around(mode.fit.z, self.duration, every_node=True)
                self._settled[mode] = replace(mode, around=around) if around else mode
        return [self._settled.get(mode, mode) for mode in modes]

    def _leading(self, k: int) -> list[Mode]:
        """The few best maxima of K components."""
        modes = self.of_order(k)[:GOING_ON]
        return [mode for mode in modes if mode.log_evidence > modes[0].log_evidence - HOPELESS]

    def run(self, max_seconds: float = math.inf) -> None:
        """Looks for maxima until further components do not pay, or time is over."""
        deadline = time.perf_counter() + max_seconds
        only_poles = all(self.of_poles)
        if only_poles:
            self._try_poles(self.of_order(0)[0], range(1, self.prior.k_max + 1))
        idle, k = 0, 0
        while k < self.prior.k_max and (idle < PATIENCE or k < self.prior.k_min):
            before, k = self._best_up_to(k), k + 1
            for start in self._leading(k - 1):
                if not self._within(deadline):
                    return
                for counts, z in self._births(start):
                    self._try(counts, z, start.fit.rss)
            for start in self._leading(k):
                for counts, z in self._changes(start):
                    if not self._within(deadline):
                        return
                    self._try(counts, z, start.fit.rss)
            pays = self._best_up_to(k) > before + 1e-6 or not math.isfinite(before)
            idle = 0 if pays else idle + 1
        if any(self.of_poles) and not only_poles and self._within(deadline):
            best = max((modes[0] for modes in self.found.values()), key=lambda m: m.log_evidence)
            n = sum(k for k, is_pole in zip(best.counts, self.of_poles, strict=True) if is_pole)
            self._try_poles(best, range(max(n - 1, 1), n + 2))

    def _within(self, deadline: float) -> bool:
        """Whether there is time left; remembers where there was none."""
        self.complete &= time.perf_counter() < deadline
        return self.complete

    # ------------------------------------------------------------------ starts

    def propose(self, starts: Iterable[Start]) -> None:
        """Fits sets of components and keeps the maxima that they lead to.

        Args:
            starts: Each set with at most K_max components; amplitudes are those that fit best.
        """
        none = self.found[(0,) * len(self.members)][0]
        for start in starts:
            if not 0 < len(start) <= self.prior.k_max:
                continue
            parts = [np.zeros((0, member.coordinates)) for member in self.members]
            counts = none.counts
            for i, xi in start:
                counts, parts = self._with(parts, i, xi)
            self._try(counts, parts, none.fit.rss)

    def _try_poles(self, mode: Mode, orders: Iterable[int]) -> None:
        """Fits sets of tones and decaying tones, from singular vectors, beside the other components of a maximum.

        Args:
            mode: The maximum; of its components those stay that are neither tones nor decays.
            orders: Numbers of tones and decays.
        """
        data, (low, high) = self.nodes[0], self.prior.frequency
        parts = mode.target.layout.parts(mode.fit.z)
        kept = [p[:0] if is_pole else p for p, is_pole in zip(parts, self.of_poles, strict=True)]
        stay = sum(map(len, kept))
        orders = [n for n in orders if n + stay <= self.prior.k_max]
        if not orders:
            return
        left = self._without(kept)
        for found in poles(series(data, left), data.times, 0.5 * (low + high), max(orders)):
            if len(found) not in orders:
                continue
            counts, grown = tuple(len(part) for part in kept), kept
            for pole in found[(found[:, 0] >= low) & (found[:, 0] <= high)]:
                counts, grown = self._with(grown, *self._of_pole(*pole))
            if sum(counts):
                self._try(counts, grown, mode.fit.rss)

    def _of_pole(self, frequency: float, rate: float) -> tuple[int, Array]:
        """The component that a pole is taken for: one without a rate where it hardly decays, one with it otherwise."""
        shapes = [(i, member.of_pole(frequency, rate)) for i, member in enumerate(self.members)]
        known = [(i, xi) for i, xi in shapes if xi is not None]
        known.sort(key=lambda pair: len(pair[1]), reverse=bool(rate * self.duration > LASTING))
        return known[0]

    def _without(self, parts: list[Array]) -> Array:
        """What components of each class, (K_c, Z_c), leave of the compressed data, (r,)."""
        layout, data = self.target(tuple(len(part) for part in parts)).layout, self.nodes[0]
        left: Array = data.data - data.shown(layout.model(layout.row(parts)[None], data.times)[0])
        return left

    def _births(self, mode: Mode) -> Iterator[tuple[tuple[int, ...], list[Array]]]:
        """A further component of each class, where its filters say."""
        parts = mode.target.layout.parts(mode.fit.z)
        for i, bank in enumerate(self.banks):
            for peak in bank.peaks(mode.fit.left, PEAKS):
                yield self._with(parts, i, peak.xi)

    def _changes(self, mode: Mode) -> Iterator[tuple[tuple[int, ...], list[Array]]]:
        """Each component as one of another class, and neighbours as one component."""
        layout = mode.target.layout
        parts = layout.parts(mode.fit.z)
        places = [
            (float(place), i, k)
            for i, (part, member) in enumerate(zip(parts, self.members, strict=True))
            for k, place in enumerate(member.place_in_z(part))
        ]
        places.sort()
        if len(self.members) > 1:
            for place, i, k in places:
                yield from self._replaced(mode, parts, [(i, k)], place, skip=i)
        for (a, i, k), (b, j, m) in pairwise(places):
            if b - a < NEIGHBOURS / self.duration:
                yield from self._replaced(mode, parts, [(i, k), (j, m)], 0.5 * (a + b))

    def _replaced(
        self,
        mode: Mode,
        parts: list[Array],
        gone: list[tuple[int, int]],
        place: float,
        skip: int | None = None,
    ) -> Iterator[tuple[tuple[int, ...], list[Array]]]:
        """Some components replaced by one, of each class but one that is skipped."""
        kept = [
            np.delete(part, [k for i, k in gone if i == c], axis=0) for c, part in enumerate(parts)
        ]
        left = self._without(kept)
        lost = self.nodes[0].beside + float(left @ left) - mode.fit.rss
        needed = (1 - FILTER_LOSS) * lost - 2 * HOPELESS * self.variance(mode.fit.rss)
        near = place, (2.0 if len(gone) == 1 else NEIGHBOURS) / self.duration
        was_one = all(self.members[i].amplitudes == 1 for i, _ in gone)
        for i, bank in enumerate(self.banks):
            if i != skip:
                # Of several tones any may be what was meant: the place says little.
                one_place = was_one and self.members[i].amplitudes == 1
                for peak in bank.peaks(left, 1, near if one_place else None):
                    if peak.gain > needed:
                        yield self._with(kept, i, peak.xi)

    def _with(self, parts: list[Array], i: int, xi: Array) -> tuple[tuple[int, ...], list[Array]]:
        """Components and a further one of class i at a shape, its amplitudes to be found."""
        new = np.zeros((1, self.members[i].coordinates))
        new[0, : len(xi)] = xi
        grown = [np.concatenate([p, new]) if c == i else p for c, p in enumerate(parts)]
        return tuple(len(p) for p in grown), grown

    # ------------------------------------------------------------------ fits

    def variance(self, rss: float) -> float:
        """Of the noise: the known one, or what RSS says."""
        known = self.prior.known_sigma
        return max(rss, 1e-300) / self.nodes[0].n if known is None else known**2

    def _try(self, counts: tuple[int, ...], parts: list[Array], rss: float) -> None:
        """Fits from a start and keeps the maximum, if it is a new one."""
        target, variance = self.target(counts), self.variance(rss)
        try:
            start = linear_amplitudes(target, target.layout.row(parts), variance)
            fit = climb(target, start, variance, self.duration)
            around = target.around(fit.z, self.duration)
        except np.linalg.LinAlgError:
            return
        log_z = -math.inf if around is None else target.log_laplace(around)
        if around is None or not math.isfinite(log_z):
            return
        mode = Mode(target, fit, around, log_z + self.log_p(target.k))
        modes = self.found.setdefault(counts, [])
        if any(self._same(mode, other) for other in modes):
            return
        modes.append(mode)
        modes.sort(key=lambda m: -m.log_evidence)
        del modes[MODES_KEPT:]

    def improve(self, counts: tuple[int, ...], rows: Iterable[Array]) -> bool:
        """Fits from rows of a layout, (d,), such as its best draws; whether one leads to a maximum that was not known.

        Args:
            counts: Numbers of components of each class.
            rows: Where to start.
        """
        before = list(self.found.get(counts, []))
        target = self.target(counts)
        for row in rows:
            self._try(counts, target.layout.parts(row), float(target.rss(row[None])[0]))
        return any(mode not in before for mode in self.found.get(counts, []))

    def _same(self, a: Mode, b: Mode) -> bool:
        """Whether two maxima of one layout are one: all shapes within a few hundredths of their scales."""
        return all(
            abs(a.fit.z[column] - b.fit.z[column]) < 0.05 * member.scales(self.duration)[d]
            for column, member, d in a.target.layout.shape_columns()
        )
