r"""Maxima of the likelihood for one number of tones after another: births, splits, deaths and merges.

From K tones to K + 1: one more at the strongest peaks of the residual's spectrum inside the band, at frequencies that
the caller suggests, or a tone split into two. From K to K − 1: the tones that the data would miss least are left out,
by c_k Σ_kk⁻¹ c_k of their complex amplitudes, or the closest pair becomes one. Every start is refitted jointly
(`signal/fit.py`), all starts of one order in one batch; the distinct maxima are kept, the best first. A fit that fails,
or ends with amplitudes that the prior excludes, is repeated with amplitudes held back (`bounded.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.core.budget import time_left
from slotflow.exact.bounded import bounded_modes
from slotflow.exact.mode import Mode, reordered, same
from slotflow.exact.peaks import peaks, residual_power, side_lobes
from slotflow.signal.fit import fit, linear_amplitudes
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior

__all__ = ["BINS_OF_A_TONE", "CLOSE", "Modes"]

CLOSE = 0.75
"""Distance of two tones in bins 1/T below which they are unresolved."""
PEAKS = 3
"""Peaks of the residual that start a tone."""
DEATHS = 3
"""Tones that are tried to be left out."""
KEPT = 4
"""Maxima of one order that are kept."""
EXCLUDED = 20.0
"""Nats by which a side lobe must explain less than the tone, or fewer tones than others, to be left alone."""
PATIENCE = 3
"""The first pursuit may end after so many tones in a row without a better BIC."""
BINS_OF_A_TONE = 8.0
"""Bins of a band for each tone that it may hold from which on the median of its spectrum is the noise's."""
CLEAR = 14.0
"""A peak stands out if its power is so many times the level that the median of the spectrum tells."""


class Modes:
    """Maxima of all orders of one signal, found as they are asked for.

    Args:
        statistics: Of one signal.
        prior: Gives the band and the smallest separation.
        extra: Frequencies in Hz where more tones may be; asked for once, and only if more are looked for.
    """

    def __init__(
        self,
        statistics: Likelihood,
        prior: Prior,
        extra: Callable[[], Sequence[float]] | None = None,
    ) -> None:
        self.statistics, self.prior, self._extra = statistics, prior, extra
        self.bin, self.waveform = statistics.bin, statistics.waveform
        nothing = np.zeros((0, self.waveform.coordinates))
        none = Mode(nothing, float(statistics.energy), np.zeros((0, 0)), waveform=self.waveform)
        self.found: dict[int, list[Mode]] = {0: [none]}
        self.done: set[tuple[str, int]] = set()

    @cached_property
    def extra(self) -> list[float]:
        """Frequencies in Hz where more tones may be."""
        return [] if self._extra is None else list(self._extra())

    def best(self, k: int) -> Mode | None:
        """The maximum of order k with the smallest RSS so far."""
        modes = self.found.get(k)
        return modes[0] if modes else None

    def add(self, frequencies: Sequence[Array], fold: bool = True) -> None:
        """Fits from given sets of frequencies, all of the same number of tones.

        Args:
            frequencies: In Hz, (K,) each.
            fold: Whether a maximum beyond the band is looked for again at its alias in the band.
        """
        if not frequencies:
            return
        k = len(frequencies[0])
        if k == 0:
            return
        starts = torch.from_numpy(np.stack(frequencies))
        rows = torch.zeros(len(starts), dtype=torch.int64)
        several = self.statistics.take(rows)
        theta = linear_amplitudes(several, starts)
        known = self.prior.known_sigma
        sigma = None if known is None else torch.full((len(starts),), known, dtype=torch.float64)
        result = fit(several, theta, sigma=sigma, max_iterations=40, max_shift=2.0)
        modes = self.found.setdefault(k, [])
        covariances = result.covariance.numpy()
        good, again = np.zeros(len(starts), dtype=bool), list[Array]()
        for i in torch.nonzero(result.converged).flatten().tolist():
            tones, rss = result.theta[i].numpy(), float(result.rss[i])
            folded = self._folded(self.waveform.place_of(tones)) if fold else None
            if folded is not None:
                good[i] = True
                again.append(folded)
                continue
            order = np.argsort(self.waveform.place_of(tones))
            covariance = reordered(self._in_z(tones, covariances[i]), order)
            mode = Mode(self.statistics.to_z(tones), rss, covariance, waveform=self.waveform)
            self._keep(mode)
            good[i] = mode.plausible(self.prior)
        if not good.all() and (self.prior.min_separation < CLOSE * self.bin or not good.any()):
            for mode in bounded_modes(self.statistics, self.prior, starts[torch.from_numpy(~good)]):
                self._keep(mode)
        modes.sort(key=lambda m: m.rss)
        inside = [m for m in modes if m.plausible(self.prior)]
        self.found[k] = modes[:1] + [m for m in inside if m is not modes[0]][:KEPT]
        self.add(again, fold=False)

    def _folded(self, places: Array) -> Array | None:
        """Places, (K,), with those beyond the band at their aliases in it; None if all are in it or an alias is not."""
        low, high = self.prior.frequency
        if not math.isfinite(self.statistics.period) or ((places > low) & (places < high)).all():
            return None
        folded = low + np.remainder(places - low, self.statistics.period)
        return np.sort(folded) if ((folded > low) & (folded < high)).all() else None

    def plausible(self, k: int) -> list[Mode]:
        """Maxima of order k that the prior does not exclude, the best first."""
        return [m for m in self.found.get(k, []) if m.plausible(self.prior)]

    def _keep(self, mode: Mode) -> None:
        """Adds a maximum unless it is there already."""
        apart = self.statistics.strength_apart(mode.z)
        if apart is not None:
            known = self.prior.known_sigma
            variance = max(mode.rss, 1e-300) / self.statistics.n if known is None else known**2
            mode = replace(mode, strength_apart=apart / variance)
        modes = self.found.setdefault(len(mode.z), [])
        twin = next((j for j, m in enumerate(modes) if same(m, mode, self.bin)), None)
        if twin is None:
            modes.append(mode)
        elif mode.rss < modes[twin].rss and mode.bounded == modes[twin].bounded:
            modes[twin] = mode

    def _in_z(self, tones: Array, covariance: Array) -> Array:
        """Carries a covariance of the parameters of tones (K, P) to their coordinates z."""
        change = self.waveform.inverse_jacobian(tones, self.statistics.reference)  # (K, Z, P)
        k, size, columns = change.shape
        half = change @ covariance.reshape(k, columns, k * columns)  # (K, Z, K·P)
        half = half.reshape(k * size, k, columns)
        carried: Array = np.einsum("mkj,kij->mki", half, change)
        return carried.reshape(k * size, k * size)

    def up(self, k: int) -> None:
        """Looks for maxima of order k from those of k − 1."""
        base = self.best(k - 1)
        if base is None or ("up", k) in self.done:
            return
        self.done.add(("up", k))
        f = base.places
        starts = [np.append(f, p) for p in peaks(self.statistics, base.z, self.prior, PEAKS)]
        starts += [np.append(f, e) for e in self.extra if np.all(np.abs(f - e) > 0.2 * self.bin)]
        if self.prior.min_separation < CLOSE * self.bin:
            half = 0.35 * self.bin
            for j in range(k - 1):
                starts.append(np.append(np.delete(f, j), [f[j] - half, f[j] + half]))
        self.add(starts)

    def down(self, k: int) -> None:
        """Looks for maxima of order k from those of k + 1."""
        base = self.best(k + 1)
        if base is None or k < 1 or ("down", k) in self.done:
            return
        self.done.add(("down", k))
        f, deaths = base.places, np.argsort(base.strength)[:DEATHS]
        resolved = base.resolved(self.bin)
        if resolved:  # RSS/2σ² rises by half the strength of what is left out, more or less
            missed = base.strength[deaths] - base.strength.min()
            deaths = deaths[missed < 4 * EXCLUDED]
        starts = [np.delete(f, j) for j in deaths]
        if not resolved:
            j = int(np.diff(f).argmin())
            starts.append(np.append(np.delete(f, [j, j + 1]), f[j : j + 2].mean()))
        self.add(starts)

    def aliases(self, k: int) -> None:
        """Looks for maxima of order k in which a tone of the best one stands at a side lobe of the sampling.

        A side lobe of the height r in units of the main one explains all but 1 − r² of a tone's power, so that tones
        of which this is much cannot be elsewhere.
        """
        base = self.best(k)
        if base is None or not k or not self._side_lobes or ("aliases", k) in self.done:
            return
        self.done.add(("aliases", k))
        (low, high), f, starts = self.prior.frequency, base.places, []
        for j, strength in enumerate(base.strength):
            others = np.delete(f, j)
            for distance, height in self._side_lobes:
                if 0.5 * strength * (1 - height**2) > EXCLUDED:
                    continue
                for place in (f[j] - distance, f[j] + distance):
                    if low < place < high and np.all(np.abs(others - place) > CLOSE * self.bin):
                        starts.append(np.append(others, place))
        self.add(starts)

    @cached_property
    def _side_lobes(self) -> list[tuple[float, float]]:
        """Distances in Hz, and heights, of the strongest side lobes of an uneven sampling."""
        return side_lobes(self.statistics, self.prior.frequency)

    def pursue(self, most: int) -> int:
        """Adds peaks one by one, up to `most` tones; the number of tones of the smallest BIC.

        It ends where no peak of the residual stands out of what lies between the peaks. Where tones may fill the band,
        each of them is weak beside the sum of the others, nothing need stand out, and the first of them do not pay
        for their parameters: there it ends after `PATIENCE` tones in a row that did not. It also ends with the time of
        the call, after one tone at least.
        """
        k, paid, least = 0, 0, self._bic(0)
        while k < most and not (self.explained(k) and (self.roomy or k - paid >= PATIENCE)):
            if k and time_left() < 0:
                break
            base = self.best(k)
            assert base is not None
            f = base.places
            found = peaks(self.statistics, base.z, self.prior, 6)
            # What is left beside a tone is mostly leakage of those that are still to be found.
            lone = [p for p in found if np.all(np.abs(f - p) > CLOSE * self.bin)]
            self.add([np.append(f, p) for p in lone[:3]])
            for some in (lone[3:], found):
                if self.best(k + 1) is None:
                    self.add([np.append(f, p) for p in some])
            if self.best(k + 1) is None:
                break
            k += 1
            if (bic := self._bic(k)) < least:
                paid, least = k, bic
        return paid

    @property
    def roomy(self) -> bool:
        """Whether most of the band is empty however many tones there are."""
        low, high = self.prior.frequency
        return (high - low) / self.bin >= BINS_OF_A_TONE * self.prior.k_max

    def explained(self, k: int) -> bool:
        """Whether no peak stands out of the residual of the best maximum of order k, if there is one."""
        base = self.best(k)
        if base is None:
            return False
        power = residual_power(self.statistics, base.z, self.prior.frequency)[1]
        return bool(power.max() <= CLEAR * np.median(power) / math.log(2))  # of an exponential law

    def _bic(self, k: int) -> float:
        """BIC of the best maximum of order k."""
        mode, n, known = self.best(k), self.statistics.n, self.prior.known_sigma
        assert mode is not None
        misfit = n * math.log(max(mode.rss / n, 1e-300)) if known is None else mode.rss / known**2
        return misfit + k * self.waveform.coordinates * math.log(n)

    def sure(self, k: int, strength: float) -> Mode:
        """The best maximum of order ≤ k all of whose tones are stronger than `strength`."""
        mode = self.best(k)
        while k > 0 and (mode is None or mode.strength.min() < strength):
            self.down(k - 1)
            k -= 1
            mode = self.best(k)
        assert mode is not None
        return mode
