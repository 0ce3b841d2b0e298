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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from slotflow.signal.fit import fit, linear_amplitudes
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.target import Array, residuals, to_z

__all__ = ["Mode", "Modes", "peaks"]

CLOSE = 0.75
"""Distance of two tones in bins 1/T below which they are unresolved."""
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
CLEAR = 14.0
"""A peak of this power in units of the noise's mean is followed by the first pursuit."""


@dataclass(frozen=True, eq=False)
class Mode:
    """One maximum of the likelihood of K tones."""

    z: Array
    """(f, Re c, Im c), sorted by frequency, (K, 3)."""
    rss: float
    """Residual sum of squares."""
    covariance: Array
    """Of z, σ² (JᵀJ)⁻¹, (3K, 3K); with the bound's precision added if bounded."""
    bounded: bool = False
    """Whether amplitudes were held back: this is a maximum under a Gaussian prior of c, not of the likelihood."""

    @cached_property
    def strength(self) -> Array:
        """c_k Σ_kk⁻¹ c_k, squared SNR of each tone with all others unknown, (K,)."""
        k = len(self.z)
        blocks = self.covariance.reshape(k, 3, k, 3)[np.arange(k), 1:, np.arange(k), 1:]
        c = self.z[:, 1:]
        return np.einsum("ki,kij,kj->k", c, np.linalg.pinv(blocks), c) if k else np.zeros(0)

    def plausible(self, prior: Prior) -> bool:
        """Whether all amplitudes lie within the prior's bounds or close to them for their errors."""
        k = len(self.z)
        amplitude = np.hypot(self.z[:, 1], self.z[:, 2])
        blocks = self.covariance.reshape(k, 3, k, 3)[np.arange(k), 1:, np.arange(k), 1:]
        unit = self.z[:, 1:] / np.maximum(amplitude, 1e-300)[:, None]
        spread = np.sqrt(np.maximum(np.einsum("ki,kij,kj->k", unit, blocks, unit), 0.0))
        low, high = prior.amplitude
        inside = (amplitude > low - OUTSIDE * spread) & (amplitude < high + OUTSIDE * spread)
        return bool(inside.all())

    def gap(self, bins: float) -> float:
        """Smallest distance of two frequencies in units of `bins` Hz; inf for fewer than two tones."""
        return float(np.diff(self.z[:, 0]).min() / bins) if len(self.z) > 1 else math.inf


class Modes:
    """Maxima of all orders of one signal, found as they are asked for.

    Args:
        statistics: Of one signal.
        prior: Gives the band and the smallest separation.
        extra: Frequencies in Hz where more tones may be; asked for once, and only if more are looked for.
    """

    def __init__(
        self,
        statistics: Statistics,
        prior: Prior,
        extra: Callable[[], Sequence[float]] | None = None,
    ) -> None:
        self.statistics, self.prior, self._extra = statistics, prior, extra
        self.bin = 1 / statistics.grids[0].duration
        none = Mode(np.zeros((0, 3)), float(statistics.energy), np.zeros((0, 0)))
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
            tones = result.theta[i].numpy()
            order = np.argsort(tones[:, 2])
            z = to_z(tones, self.statistics.reference)
            covariance = (
                covariances[i].reshape(k, 3, k, 3)[order][:, :, order].reshape(3 * k, 3 * k)
            )
            rss = float(result.rss[i])
            mode = Mode(z, rss, _to_z_covariance(z, covariance, self.statistics.reference))
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
        modes = self.found.setdefault(len(mode.z), [])
        twin = next((j for j, m in enumerate(modes) if _same(m, mode, self.bin)), None)
        if twin is None:
            modes.append(mode)
        elif mode.rss < modes[twin].rss and mode.bounded == modes[twin].bounded:
            modes[twin] = mode

    def _bounded(self, starts: Tensor) -> list[Mode]:
        """Fits from frequencies, (B, K), with amplitudes held back by a Gaussian of the prior's size."""
        size, k = starts.shape
        several = self.statistics.take(torch.zeros(size, dtype=torch.int64))
        scale, n, known = self.prior.amplitude[1], several.n, self.prior.known_sigma
        pull = torch.tensor([0.0, scale**-2, scale**-2], dtype=torch.float64).repeat(k)
        reach = torch.tensor([(0.5 * self.bin) ** -2, 0.0, 0.0], dtype=torch.float64).repeat(k)
        z = torch.zeros(size, 3 * k, dtype=torch.float64)
        z[:, 0::3] = starts
        damping = torch.ones(size, dtype=torch.float64)
        rss, slope, matrix = several.normal_equations(starts, _c(z))
        for _ in range(STEPS):
            variance = (rss / n if known is None else torch.full_like(rss, known**2))[:, None]
            precision = pull + reach * damping[:, None]
            system = matrix / variance[..., None] + torch.diag_embed(precision)
            unit = system.diagonal(dim1=-2, dim2=-1).rsqrt()
            right = (slope / variance - pull * z) * unit
            step = torch.linalg.solve(system * unit[:, :, None] * unit[:, None, :], right) * unit
            limit = (0.5 * self.bin / step[:, 0::3].abs().amax(-1).clamp_min(1e-300)).clamp(max=1.0)
            trial = z + step * limit[:, None]
            new, new_slope, new_matrix = several.normal_equations(trial[:, 0::3], _c(trial))
            change = (new - rss) / variance[:, 0] + (pull * (trial**2 - z**2)).sum(-1)
            taken = change <= 0
            z = torch.where(taken[:, None], trial, z)
            rss = torch.where(taken, new, rss)
            slope = torch.where(taken[:, None], new_slope, slope)
            matrix = torch.where(taken[:, None, None], new_matrix, matrix)
            damping = torch.where(taken, damping * 0.3, damping * 10).clamp(1e-2, 1e8)
            if bool((~taken | (change > -1e-6)).all()):
                break
        found = []
        for i in range(size):
            order = np.argsort(z[i, 0::3].numpy())
            level = rss[i] / n if known is None else known**2
            curvature = (matrix[i] / level + torch.diag(pull + reach)).numpy()
            covariance = np.linalg.inv(curvature).reshape(k, 3, k, 3)[order][:, :, order]
            tones = z[i].numpy().reshape(k, 3)[order]
            inside = (tones[:, 0] > self.prior.frequency[0]) & (
                tones[:, 0] < self.prior.frequency[1]
            )
            if np.isfinite(covariance).all() and np.isfinite(tones).all() and inside.all():
                found.append(Mode(tones, float(rss[i]), covariance.reshape(3 * k, 3 * k), True))
        return found

    def up(self, k: int) -> None:
        """Looks for maxima of order k from those of k − 1."""
        base = self.best(k - 1)
        if base is None or ("up", k) in self.done:
            return
        self.done.add(("up", k))
        f = base.z[:, 0]
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
        f = base.z[:, 0]
        starts = [np.delete(f, j) for j in np.argsort(base.strength)[:DEATHS]]
        j = int(np.diff(f).argmin())
        starts.append(np.append(np.delete(f, [j, j + 1]), f[j : j + 2].mean()))
        self.add(starts)

    def pursue(self, most: int) -> int:
        """Adds clear peaks one by one, up to `most` tones; the number of tones reached."""
        k = 0
        while k < most:
            base = self.best(k)
            assert base is not None
            f = base.z[:, 0]
            found = peaks(self.statistics, base.z, self.prior, 6, CLEAR)
            # What is left beside a tone is mostly leakage of those that are still to be found.
            lone = [p for p in found if np.all(np.abs(f - p) > CLOSE * self.bin)]
            for some in (lone[:3], lone[3:], found):
                if self.best(k + 1) is None:
                    self.add([np.append(f, p) for p in some])
            if self.best(k + 1) is None:
                break
            k += 1
        return k

    def sure(self, k: int, strength: float) -> Mode:
        """The best maximum of order ≤ k all of whose tones are stronger than `strength`."""
        mode = self.best(k)
        while k > 0 and (mode is None or mode.strength.min() < strength):
            self.down(k - 1)
            k -= 1
            mode = self.best(k)
        assert mode is not None
        return mode


def peaks(
    statistics: Statistics, z: Array, prior: Prior, count: int, clear: float = 0.0
) -> list[float]:
    """Frequencies of the strongest peaks of the residual in the band, on the long stream, the strongest first.

    Args:
        statistics: Of one signal.
        z: Tones that are subtracted first, (K, 3).
        prior: Gives the band.
        count: Peaks at most.
        clear: Peaks of less power, in units of the noise's mean, are left out.
    """
    grid, rest = statistics.grids[0], residuals(statistics, z)
    size = 2 ** math.ceil(math.log2(PADDING * grid.n))
    spectrum = np.abs(np.fft.rfft(rest[0], size)) ** 2
    f = np.arange(len(spectrum)) / (size * grid.dt)
    low, high = (int(np.searchsorted(f, edge)) for edge in prior.frequency)
    low, high = max(low, 1), min(high, len(f) - 1)
    inside = spectrum[low:high]
    top = (inside >= spectrum[low - 1 : high - 1]) & (inside > spectrum[low + 1 : high + 1])
    level = float((rest[0] ** 2).sum())  # N σ² if nothing but noise is left
    index = np.flatnonzero(top & (inside > clear * level))
    return [float(f[low + i]) for i in index[np.argsort(-inside[index])][:count]]


def _c(z: Tensor) -> Tensor:
    """Complex amplitudes of (B, 3K), (B, K)."""
    return torch.complex(z[:, 1::3], z[:, 2::3])


def _same(a: Mode, b: Mode, bins: float) -> bool:
    """Whether two maxima of the same order are one."""
    near = np.abs(a.z[:, 0] - b.z[:, 0]).max() < 0.02 * bins
    return bool(near and np.abs(a.z[:, 1:] - b.z[:, 1:]).max() < 0.05 * np.abs(a.z[:, 1:]).max())


def _to_z_covariance(z: Array, covariance: Array, reference: float) -> Array:
    """Carries a covariance of (A, φ, f) to z = (f, Re c, Im c), both (3K, 3K)."""
    k = len(z)
    amplitude = np.hypot(z[:, 1], z[:, 2])
    a, b = z[:, 1] / amplitude, z[:, 2] / amplitude
    block = np.zeros((k, 3, 3))  # d(f, Re c, Im c)/d(A, φ, f)
    block[:, 0, 2] = 1.0
    block[:, 1, 0], block[:, 2, 0] = a, b
    block[:, 1, 1], block[:, 2, 1] = -z[:, 2], z[:, 1]
    turn = 2 * math.pi * reference
    block[:, 1, 2], block[:, 2, 2] = -turn * z[:, 2], turn * z[:, 1]
    middle = np.einsum("kij,kjm->kim", block, covariance.reshape(k, 3, 3 * k)).reshape(3 * k, k, 3)
    carried: Array = np.einsum("mkj,kij->mki", middle, block)
    return carried.reshape(3 * k, 3 * k)
