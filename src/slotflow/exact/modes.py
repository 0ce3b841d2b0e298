r"""Maxima of the likelihood for one number of tones after another: births, splits, deaths and merges.

From K tones to K + 1: one more at the strongest peaks of the residual's spectrum inside the band, at frequencies that
the caller suggests, or a tone split into two. From K to K − 1: the tones that the data would miss least are left out,
by c_k Σ_kk⁻¹ c_k of their complex amplitudes, or the closest pair becomes one. Every start is refitted jointly
(`laplace.py`), all starts of one order in one batch; the distinct maxima are kept, the best first.

The tones of an unresolved pair can cancel each other with ever larger amplitudes. A fit that fails, or ends with
amplitudes that the prior excludes, is repeated with a Gaussian prior of c that has the size of the largest amplitude:
its maximum is bounded, and so is its covariance along what the data do not see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.core.budget import time_left
from slotflow.signal.fit import fit, linear_amplitudes
from slotflow.signal.gauss_newton import LARGEST_MOVE, Bound, Climb, State, climb
from slotflow.signal.likelihood import Likelihood, Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Mode", "Modes", "peaks"]

CLOSE = 0.75
"""Distance of two tones in bins 1/T below which they are unresolved."""
RESOLVED = 2.0
"""Distance in bins from which on tones do not share what they explain."""
PEAKS = 3
"""Peaks of the residual that start a tone."""
DEATHS = 3
"""Tones that are tried to be left out."""
KEPT = 4
"""Maxima of one order that are kept."""
PADDING = 8
"""Points of the spectrum per bin."""
OUTSIDE = 5.0
"""Standard deviations of an amplitude by which a maximum may lie outside the prior."""
STEPS = 40
"""Steps of a fit with bounded amplitudes."""
SIDE_LOBE, SIDE_LOBES = 0.5, 4
"""Height of a side lobe of the sampling, in units of the main one, that may be taken for a tone; and how many are."""
EXCLUDED = 20.0
"""Nats by which a side lobe must explain less than the tone, or fewer tones than others, to be left alone."""
PATIENCE = 3
"""The first pursuit may end after so many tones in a row without a better BIC."""
BINS_OF_A_TONE = 8.0
"""Bins of a band for each tone that it may hold from which on the median of its spectrum is the noise's."""
CLEAR = 14.0
"""A peak stands out if its power is so many times the level that the median of the spectrum tells."""


@dataclass(frozen=True, eq=False)
class Mode:
    """One maximum of the likelihood of K tones."""

    z: Array
    """Coordinates, sorted by place, (K, Z)."""
    rss: float
    """Residual sum of squares."""
    covariance: Array
    """Of z, σ² (JᵀJ)⁻¹, (K·Z, K·Z); with the bound's precision added if bounded."""
    bounded: bool = False
    """Whether amplitudes were held back: this is a maximum under a Gaussian prior of c, not of the likelihood."""
    waveform: Waveform = TONE
    """The form of a component."""
    strength_apart: Array | None = None
    """Squared SNR of each component in channels where its amplitude is integrated out, (K,), if there are any."""

    @property
    def places(self) -> Array:
        """What the components are sorted by (frequencies of tones), (K,)."""
        return self.waveform.place_in_z(self.z)

    @cached_property
    def _amplitude_blocks(self) -> Array:
        """Covariance of each component's Re c and Im c, (K, 2M, 2M)."""
        k, first = len(self.z), len(self.waveform.shape)
        blocks = self.covariance.reshape(k, self.z.shape[1], k, self.z.shape[1])
        every = np.arange(k)
        own: Array = blocks[every, first:, every, first:]
        return own

    @cached_property
    def strength(self) -> Array:
        """c_k Σ_kk⁻¹ c_k, squared SNR of each component with all others unknown, (K,)."""
        c = self.z[:, len(self.waveform.shape) :]
        if not len(c):
            return np.zeros(0)
        strength: Array = np.einsum("ki,kij,kj->k", c, np.linalg.pinv(self._amplitude_blocks), c)
        return strength if self.strength_apart is None else strength + self.strength_apart

    def plausible(self, prior: Prior) -> bool:
        """Whether all amplitudes lie within the prior's bounds or close to them for their errors."""
        c = self.z[:, len(self.waveform.shape) :]
        amplitude = self.waveform.moduli(self.z)[:, 0]
        unit = c / np.maximum(amplitude, 1e-300)[:, None]
        variance = np.einsum("ki,kij,kj->k", unit, self._amplitude_blocks, unit)
        spread = np.sqrt(np.maximum(variance, 0.0))
        low, high = prior.amplitude
        inside = (amplitude > low - OUTSIDE * spread) & (amplitude < high + OUTSIDE * spread)
        return bool(inside.all())

    def gap(self, bins: float) -> float:
        """Smallest distance of two places in units of `bins` Hz; inf for fewer than two components."""
        return float(np.diff(self.places).min() / bins) if len(self.z) > 1 else math.inf


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

    def add(self, frequencies: Sequence[Array]) -> None:
        """Fits from given sets of frequencies, all of the same number of tones."""
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
        good = np.zeros(len(starts), dtype=bool)
        for i in torch.nonzero(result.converged).flatten().tolist():
            tones, rss = result.theta[i].numpy(), float(result.rss[i])
            order = np.argsort(self.waveform.place_of(tones))
            covariance = _reordered(self._in_z(tones, covariances[i]), order)
            mode = Mode(self.statistics.to_z(tones), rss, covariance, waveform=self.waveform)
            self._keep(mode)
            good[i] = mode.plausible(self.prior)
        if not good.all() and (self.prior.min_separation < CLOSE * self.bin or not good.any()):
            for mode in self._bounded(starts[torch.from_numpy(~good)]):
                self._keep(mode)
        modes.sort(key=lambda m: m.rss)
        inside = [m for m in modes if m.plausible(self.prior)]
        self.found[k] = modes[:1] + [m for m in inside if m is not modes[0]][:KEPT]

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
        twin = next((j for j, m in enumerate(modes) if _same(m, mode, self.bin)), None)
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

    def _bounded(self, starts: Tensor) -> list[Mode]:
        """Fits from frequencies, (B, K), with amplitudes held back by a Gaussian of the prior's size."""
        waveform, prior, (size, k) = self.waveform, self.prior, starts.shape
        several = self.statistics.take(torch.zeros(size, dtype=torch.int64))
        shapes, parts = len(waveform.shape), waveform.coordinates - len(waveform.shape)
        wide = [LARGEST_MOVE * scale for scale in waveform.scales(1 / self.bin)]
        pull = np.tile([0.0] * shapes + [prior.amplitude[1] ** -2] * parts, k)
        reach = np.tile([step**-2 for step in wide] + [0.0] * parts, k)
        bound = Bound(torch.from_numpy(pull), torch.from_numpy(reach))
        none = torch.zeros(size, dtype=torch.float64)
        known = None if prior.known_sigma is None else none + prior.known_sigma**2
        z = torch.zeros(size, k, waveform.coordinates, dtype=torch.float64)
        waveform.place_in_z(z)[:] = starts
        mask = torch.ones_like(starts, dtype=torch.bool)
        start = State.at(several, z, mask, over=none.bool())
        start.damping = none + 1.0
        end = climb(several, start, Climb(STEPS, 0.0, known, none, bound))
        found = []
        for i in range(size):
            tones, rss = end.z[i].numpy(), float(end.rss[i])
            place = waveform.place_in_z(tones)
            level = rss / several.n if known is None else float(known[i])
            with np.errstate(
                divide="ignore", invalid="ignore"
            ):  # nothing is left of noiseless data
                curvature = end.matrix[i].numpy() / level + np.diag(pull + reach)
            order = np.argsort(place)
            covariance = _reordered(np.linalg.inv(curvature), order)
            inside = (place > prior.frequency[0]) & (place < prior.frequency[1])
            if np.isfinite(covariance).all() and np.isfinite(tones).all() and inside.all():
                found.append(Mode(tones[order], rss, covariance, True, waveform))
        return found

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
        resolved = not base.bounded and base.gap(self.bin) > RESOLVED
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
        """Distances in Hz, and heights, of the strongest side lobes of an uneven sampling, the highest first."""
        if isinstance(self.statistics, Statistics):
            return []
        (low, high), step = self.prior.frequency, self.bin / PADDING
        distance = np.arange(1.5 * self.bin, high - low, step)
        if len(distance) < 3:
            return []
        height = np.abs(self.statistics.kernel(distance))
        height /= abs(complex(self.statistics.kernel(np.zeros(1))[0]))
        middle = height[1:-1]
        top = np.flatnonzero((middle >= height[:-2]) & (middle > height[2:]) & (middle > SIDE_LOBE))
        best = top[np.argsort(-middle[top])][:SIDE_LOBES]
        return [(float(distance[1 + i]), float(middle[i])) for i in best]

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
        power = _residual_power(self.statistics, base.z, self.prior.frequency)[1]
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


def peaks(statistics: Likelihood, z: Array, prior: Prior, count: int) -> list[float]:
    """Frequencies of the strongest peaks of the residual in the band, on the long stream, the strongest first.

    Args:
        statistics: Of one signal.
        z: Tones that are subtracted first, (K, 3).
        prior: Gives the band.
        count: Peaks at most.
    """
    f, power = _residual_power(statistics, z, prior.frequency)
    inside = power[1:-1]
    top = (inside >= power[:-2]) & (inside > power[2:])
    top &= (f[1:-1] >= prior.frequency[0]) & (f[1:-1] <= prior.frequency[1])
    index = np.flatnonzero(top)
    return [float(f[1 + i]) for i in index[np.argsort(-inside[index])][:count]]


def _residual_power(
    statistics: Likelihood, z: Array, band: tuple[float, float]
) -> tuple[Array, Array]:
    """Power of the residual of tones z, (K, Z), in units of the noise's mean, and its frequencies in Hz, (G,) each.

    Even channels have an FFT for it, the first of them alone; any other likelihood knows its matched filter.
    """
    low, high = band
    if isinstance(statistics, Statistics):
        grid, rest = statistics.grids[0], statistics.residuals(z)[0]
        size = 2 ** math.ceil(math.log2(PADDING * grid.n))
        step = 1 / (size * grid.dt)
        first, last = max(math.ceil(low / step) - 1, 0), min(math.ceil(high / step), size // 2)
        spectrum = np.abs(np.fft.rfft(rest, size)[first : last + 1]) ** 2
        level = max(float((rest**2).sum()), 1e-300)  # N σ² if nothing but noise is left
        return step * np.arange(first, first + len(spectrum)), spectrum / level
    step = statistics.bin / PADDING
    f = np.arange(low - step, high + 1.5 * step, step)
    left = statistics.less(z)
    variance = max(float(left.energy), 1e-300) / statistics.n
    power = np.abs(left.matched(f[None, :, None])[0, :, 0]) ** 2
    power /= np.maximum(statistics.weight_at(f), 1e-300)
    apart = statistics.apart_with_one_more(z, f)
    if apart is not None:  # half the fall of RSS is a power
        power = power + 0.5 * apart[0]
    return f, power / variance


def _reordered(covariance: Array, order: NDArray[np.int64]) -> Array:
    """A covariance of the coordinates of K components, (K·Z, K·Z), with the components in another order."""
    k = len(order)
    blocks = covariance.reshape(k, len(covariance) // k, k, -1)[order][:, :, order]
    return blocks.reshape(covariance.shape)


def _same(a: Mode, b: Mode, bins: float) -> bool:
    """Whether two maxima of the same order are one."""
    first = len(a.waveform.shape)
    near = np.abs(a.places - b.places).max() < 0.02 * bins
    c_a, c_b = a.z[:, first:], b.z[:, first:]
    return bool(near and np.abs(c_a - c_b).max() < 0.05 * np.abs(c_a).max())
