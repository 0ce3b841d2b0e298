r"""Proposals for tones that no Gaussian describes: weak ones, which may be anywhere, and unresolved pairs.

**Births.** D tones are anchored at a fit, with the Gaussian of covariance Σ around it; m more are free. A tone at f with
the amplitude c changes ln L by λ(Re c̄M − ½|c|²ν), M(f) being the residual's matched filter over all streams, λ = 1/σ²
and ν(f) what is left of the tone's energy per unit of |c|² once the anchored tones have adapted to it. Integrated over
the phase,

.. math:: q(f, A) \propto p(A)\, I_0(λA|M|)\, e^{-λA^2 ν/2} ,

summed over cells of A for the density of f; A and phase follow given f: the phase is a von Mises variable around arg M. The anchored tones are then drawn
around their fit moved by −λΣ B(f) c, B their Jacobian's products with the free tone's. Of several free tones, whose
frequencies are drawn independently, each one's amplitude is drawn with those below it in frequency subtracted from M:
they share what a short stream sees. A set of tones has this density summed over the choices of which m of them were
the free ones.

**Splits.** The fit of K − 1 tones has one tone (f̄, C) replaced by a pair c_1 + c_2 = C at the distance δ,

.. math:: f_1 = \bar f - δ\, \Re(c_2/C), \quad f_2 = \bar f + δ\, \Re(c_1/C) ,

which keeps the first two moments of the pair's spectrum; (f̄, C, δ, c_1) → (f_1, c_1, f_2, c_2) has the Jacobian 1. A
single tone fitted to the pair has the smaller amplitude C_b = C − e c_1 c_2/C, e = (2πδT)²/24, which is what is drawn
from the fit; |dC_b/dC|² = |1 − e c_1²/C²|². The data see the next ones: with the tone's SNR ρ, the quadrature part of the dipole in units of the noise is
1.81 ρ δT |Im c_1/C| and the quadrupole 1.47 ρ (δT)² |c_1 c_2/C²|. |c_1| is drawn from the prior, its angle ψ to C from 1/√(ψ² + ψ_0²), which is how the room
for δ goes, and δ from a half-normal that both moments limit.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import i0e, logsumexp

from slotflow.config import Grid
from slotflow.exact.importance import Gaussian
from slotflow.exact.kernels import dirichlet, mid_time
from slotflow.exact.nonuniform import interpolated_moment
from slotflow.exact.target import Array, Target, residuals, to_theta

__all__ = ["Births", "BirthTable", "Split"]

Complex = NDArray[np.complex128]
CELLS_PER_BIN = 16
LARGEST_TABLE = 16_384
AMPLITUDES = 48
PRIOR_SHARE = 0.1
"""Share of the prior in the table, for what the anchored tones' linear response misses."""
REACH = 1.3
"""Width of the distances of a pair in units of what its moments allow."""
OPPOSITE = 0.2
"""Share of pairs whose first tone points away from their sum."""
FAR = 12.0
"""Standard deviations of f from its fit at which a tone cannot be an anchored one."""


class BirthTable:
    """Density of one more tone given the residual of a fit.

    Args:
        target: Of any K.
        z: The fit, (D, 3).
        covariance: Of z, (3D, 3D).
    """

    def __init__(self, target: Target, z: Array, covariance: Array) -> None:
        prior, statistics = target.prior, target.statistics
        low, high = prior.frequency
        cells = int(np.clip((high - low) / target.bin * CELLS_PER_BIN, 64, LARGEST_TABLE))
        self.low, self.width, self.cells = low, (high - low) / cells, cells
        f = low + self.width * (np.arange(cells) + 0.5)
        filtered = np.zeros(cells, dtype=np.complex128)
        coupling = np.zeros((cells, len(z), 3, 2))
        energy, rss = 0.0, 0.0
        seen = zip(statistics.grids, statistics.ratios, residuals(statistics, z), strict=True)
        for grid, ratio, rest in seen:
            rss += float((rest**2).sum())
            offset = mid_time(grid) - statistics.reference
            frequency = torch.from_numpy(f)[None]
            moment = interpolated_moment(torch.from_numpy(rest)[None], frequency, grid)[0].numpy()
            filtered += moment * np.exp(-2j * math.pi * np.remainder(f * offset, 1.0)) / ratio
            coupling += _coupling(f, z, grid, offset) / ratio**2
            energy += grid.n / ratio**2
        precision = target.noise.precision(rss)
        coupling = coupling.reshape(cells, 3 * len(z), 2)
        self.response = -precision * np.einsum(
            "de,gep->gdp", covariance, coupling
        )  # (cells, 3D, 2)
        left = 0.5 * energy + 0.5 * np.einsum("gdp,gdp->g", coupling, self.response)
        left = np.clip(left, 1e-3 * energy, None)  # ν
        a_low, a_high = prior.amplitude
        law = prior.amplitude_law
        a_edge = (
            np.geomspace(a_low, a_high, AMPLITUDES + 1)
            if law == "loguniform"
            else np.linspace(a_low, a_high, AMPLITUDES + 1)
        )
        middle, self.a_edge, self.a_width = (
            0.5 * (a_edge[1:] + a_edge[:-1]),
            a_edge,
            np.diff(a_edge),
        )
        x = precision * np.abs(filtered)[:, None] * middle  # (cells, amplitudes)
        gain = np.log(i0e(x)) + x - 0.5 * precision * left[:, None] * middle**2
        if len(z) and prior.min_separation > 0:
            # Cells that are certainly too close to an anchored tone are shut.
            spread = 4 * np.sqrt(np.diag(covariance)[::3]) + self.width
            room = np.maximum(prior.min_separation - spread, 0.0)
            gain[(np.abs(f[:, None] - z[:, 0]) < room).any(-1)] = -np.inf
        mass = np.exp(gain - gain.max()).sum(-1)  # the prior's mass is the same in every cell
        mass = (1 - PRIOR_SHARE) * mass / mass.sum() + PRIOR_SHARE / cells
        self.cumulative = mass.cumsum()
        self.log_mass = np.log(mass / self.width)
        self.middle, self.left, self.precision = middle, left, precision
        self.coupling, self.filtered = coupling, filtered
        self.grids = [
            (grid, mid_time(grid) - statistics.reference, ratio)
            for grid, ratio in zip(statistics.grids, statistics.ratios, strict=True)
        ]
        self.log_gain = float(logsumexp(gain) - math.log(gain.size))
        """Logarithm of the evidence's gain from one free tone."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of (f, Re c, Im c), (n, 3)."""
        f = self.sample_frequency(n, rng)
        c = self.sample_amplitude(self.filtered[self.cell(f)], self.left[self.cell(f)], rng)
        return np.stack([f, c.real, c.imag], -1)

    def log_prob(self, z: Array) -> Array:
        """Log density of (n, 3) per unit of f and of the plane of c, (n,); finite inside the prior's box only."""
        cell, c = self.cell(z[:, 0]), z[:, 1] + 1j * z[:, 2]
        return self.log_mass[cell] + self.log_prob_amplitude(
            c, self.filtered[cell], self.left[cell]
        )

    def sample_frequency(self, n: int, rng: np.random.Generator) -> Array:
        """Frequencies, (n,)."""
        cell = np.searchsorted(self.cumulative, rng.random(n) * self.cumulative[-1])
        return self.low + self.width * (np.minimum(cell, self.cells - 1) + rng.random(n))

    def sample_amplitude(self, slope: Complex, left: Array, rng: np.random.Generator) -> Complex:
        """Draws of c for given matched filters and ν, (n,) each."""
        mass = self._amplitudes(np.abs(slope), left).cumsum(-1)
        row = (mass < rng.random(len(slope))[:, None] * mass[:, -1:]).sum(-1)
        row = np.minimum(row, AMPLITUDES - 1)
        amplitude = self.a_edge[row] + self.a_width[row] * rng.random(len(slope))
        phase = rng.vonmises(np.angle(slope), self.precision * np.abs(slope) * amplitude)
        drawn: Complex = amplitude * np.exp(1j * phase)
        return drawn

    def log_prob_amplitude(self, c: Complex, slope: Complex, left: Array) -> Array:
        """Log density of c for given matched filters and ν, (n,) each."""
        amplitude = np.maximum(np.abs(c), 1e-300)
        row = np.clip(np.searchsorted(self.a_edge, amplitude) - 1, 0, AMPLITUDES - 1)
        mass = self._amplitudes(np.abs(slope), left)[np.arange(len(c)), row] / self.a_width[row]
        pull = self.precision * np.abs(slope) * amplitude
        angle = np.angle(c) - np.angle(slope)
        log_phase = pull * (np.cos(angle) - 1) - np.log(2 * math.pi * i0e(pull))
        log_prob: Array = np.log(mass) + log_phase - np.log(amplitude)
        return log_prob

    def _amplitudes(self, slope: Array, left: Array) -> Array:
        """Probabilities of the amplitude's cells, (n, amplitudes), for |slope| and ν, (n,) each."""
        x = self.precision * slope[:, None] * self.middle
        gain = np.log(i0e(x)) + x - 0.5 * self.precision * left[:, None] * self.middle**2
        mass = np.exp(gain - gain.max(-1, keepdims=True))
        mass = (1 - PRIOR_SHARE) * mass / mass.sum(-1, keepdims=True) + PRIOR_SHARE / AMPLITUDES
        return mass

    def overlap(self, f: Array, other: Array, c: Complex) -> Complex:
        """What a free tone (other, c) adds to the matched filter at f once the anchored ones adapted; (n,) each."""
        total = np.zeros(len(f), dtype=np.complex128)
        for grid, offset, ratio in self.grids:
            (s_0,) = dirichlet(torch.from_numpy(other - f), grid, powers=1)
            turn = np.exp(2j * math.pi * np.remainder((other - f) * offset, 1.0))
            total += 0.5 * c * turn * s_0.numpy() / ratio**2
        pair = np.stack([c.real, c.imag], -1)
        moved = np.einsum("ndp,np->nd", self.response[self.cell(other)], pair)
        back = np.einsum("ndp,nd->np", self.coupling[self.cell(f)], moved)
        return total + back[:, 0] + 1j * back[:, 1]

    def cell(self, f: Array) -> NDArray[np.int64]:
        """Cell of each frequency, same shape."""
        return np.clip((f - self.low) / self.width, 0, self.cells - 1).astype(np.int64)


class Births:
    """D anchored tones and m free ones.

    Args:
        table: Of the free tones, built on the same fit.
        gaussian: Mean and covariance of the anchored ones, (3D,) and (3D, 3D).
        free: m ≥ 1.
        widen: Factor on the anchored tones' standard deviations.
    """

    def __init__(
        self, table: BirthTable, gaussian: tuple[Array, Array], free: int, widen: float = 1.05
    ) -> None:
        self.table, self.free = table, free
        self.gaussian = Gaussian(*gaussian, widen)
        self.anchored = len(gaussian[0]) // 3
        self.k = self.anchored + free
        self.subsets = list(itertools.combinations(range(self.k), free))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3), sorted, except where anchored tones changed places: those are left unsorted."""
        f = np.sort(self.table.sample_frequency(n * self.free, rng).reshape(n, self.free), -1)
        free = np.zeros((n, self.free, 3))
        free[..., 0] = f
        for i in range(self.free):
            slope, left = self._slope(free, i)
            c = self.table.sample_amplitude(slope, left, rng)
            free[:, i, 1], free[:, i, 2] = c.real, c.imag
        anchored = self.gaussian.sample(n, rng) + self._response(free).sum(1)
        z = np.concatenate([anchored, free], 1)
        sound = (np.diff(anchored[..., 0], axis=-1) > 0).all(-1)
        order = np.argsort(z[..., 0], -1)
        order[~sound] = np.arange(self.k)
        return np.take_along_axis(z, order[..., None], 1)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        n = len(z)
        birth = self.table.log_mass[self.table.cell(z[..., 0])]  # (n, K)
        response = self._response(z)  # (n, K, D, 3)
        total = np.full(n, -np.inf)
        reach = FAR * self.gaussian.scale[::3]
        for subset in self.subsets:
            rest = [i for i in range(self.k) if i not in subset]
            anchored = z[:, rest]
            shift = response[:, list(subset)].sum(1)  # (n, D, 3)
            off = np.abs(anchored[..., 0] - self.gaussian.mean[::3] - shift[..., 0]) - reach
            near = np.flatnonzero((off < 0).all(-1))
            if near.size == 0:
                continue
            flat = anchored[near].reshape(near.size, -1)
            term = self.gaussian.log_prob_flat(flat, shift[near].reshape(near.size, -1))
            term = term + birth[near][:, list(subset)].sum(-1)
            free = z[near][:, list(subset)]
            for i in range(self.free):
                c = free[:, i, 1] + 1j * free[:, i, 2]
                term = term + self.table.log_prob_amplitude(c, *self._slope(free, i))
            total[near] = np.logaddexp(total[near], term)
        return total + math.lgamma(self.free + 1)

    def _slope(self, free: Array, i: int) -> tuple[Complex, Array]:
        """Matched filter at the i-th free tone of (n, m, 3) with those below it subtracted, and ν; (n,) each."""
        cell = self.table.cell(free[:, i, 0])
        slope = self.table.filtered[cell]
        for j in range(i):
            c = free[:, j, 1] + 1j * free[:, j, 2]
            slope = slope - self.table.overlap(free[:, i, 0], free[:, j, 0], c)
        return slope, self.table.left[cell]

    def _response(self, free: Array) -> Array:
        """How the anchored tones move for each free one of (n, m, 3): (n, m, D, 3)."""
        response = self.table.response[self.table.cell(free[..., 0])]  # (n, m, 3D, 2)
        moved = np.einsum("nmdp,nmp->nmd", response, free[..., 1:])
        return moved.reshape(*free.shape[:2], self.anchored, 3)


class Split:
    """Pairs in place of single tones of a fit.

    Args:
        target: Of K = D + number of splits.
        gaussian: Mean and covariance of the D tones, (3D,) and (3D, 3D).
        tones: Which of them are split, increasing.
        widen: Factor on the standard deviations of those.
    """

    def __init__(
        self,
        target: Target,
        gaussian: tuple[Array, Array],
        tones: tuple[int, ...],
        widen: float = 1.4,
    ) -> None:
        stretch = np.ones((len(gaussian[0]) // 3, 3))
        stretch[list(tones)] = widen
        self.gaussian, self.tones = Gaussian(*gaussian, stretch.ravel()), tones
        self.prior, self.bin = target.prior, target.bin
        count = sum(g.n for g in target.statistics.grids[:1])
        centre = gaussian[0].reshape(-1, 3)
        theta = torch.from_numpy(to_theta(centre[None], target.statistics.reference))
        rss = float(target.statistics.rss(theta))
        sigma = target.noise.precision(rss) ** -0.5
        self.snr = np.hypot(centre[:, 1], centre[:, 2]) * math.sqrt(count / 2) / sigma  # ρ, (D,)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        base = self.gaussian.sample(n, rng)
        columns: list[Array] = []
        for j in range(base.shape[1]):
            if j not in self.tones:
                columns.append(base[:, j])
                continue
            total = base[:, j, 1] + 1j * base[:, j, 2]
            a_low, a_high = self.prior.amplitude
            u = rng.random(n)
            amplitude = (
                a_low * (a_high / a_low) ** u
                if self.prior.amplitude_law == "loguniform"
                else a_low + u * (a_high - a_low)
            )
            width = self._width(j)
            angle = width * np.sinh(rng.uniform(-1, 1, n) * math.asinh(math.pi / width))
            angle += np.where(rng.random(n) < OPPOSITE, math.pi, 0.0)
            first = amplitude * np.exp(1j * angle) * total / np.abs(total)
            scale = self._scale(first, total - first, self.snr[j])
            distance = self.prior.min_separation + scale * np.abs(rng.standard_normal(n))
            part = self._part(distance) * first
            half = 0.5 * (total + part)
            root = np.sqrt(half**2 - part * first)
            root = np.where(np.abs(half + root - total) < np.abs(half - root - total), root, -root)
            total = half + root
            second = total - first
            f_1 = base[:, j, 0] - distance * (second / total).real
            f_2 = base[:, j, 0] + distance * (first / total).real
            columns.append(np.stack([f_1, first.real, first.imag], -1))
            columns.append(np.stack([f_2, second.real, second.imag], -1))
        return np.stack(columns, 1)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        columns: list[Array] = []
        log_prob = np.zeros(len(z))
        a_low, a_high = self.prior.amplitude
        i = 0
        for j in range(len(self.gaussian.mean) // 3):
            if j not in self.tones:
                columns.append(z[:, i])
                i += 1
                continue
            first, second = (z[:, i + m, 1] + 1j * z[:, i + m, 2] for m in (0, 1))
            f_1, f_2 = z[:, i, 0], z[:, i + 1, 0]
            i += 2
            middle = f_1 + (f_2 - f_1) * (second / (first + second)).real
            true = first + second
            part = self._part(f_2 - f_1) * first
            total = true - part + part * first / true  # C of the single tone
            log_prob += 2 * np.log(np.abs(1 - part * first / true**2))
            log_prob[np.abs(part * first / true - total) < np.abs(true - total)] = -np.inf
            amplitude = np.abs(first)
            scale = self._scale(first, total - first, self.snr[j])
            distance = (f_2 - f_1 - self.prior.min_separation) / scale
            columns.append(np.stack([middle, total.real, total.imag], -1))
            log_prob += 0.5 * math.log(2 / math.pi) - 0.5 * distance**2 - np.log(scale)
            power, size = (
                (2, math.log(a_high / a_low))
                if self.prior.amplitude_law == "loguniform"
                else (1, a_high - a_low)
            )
            log_prob -= power * np.log(amplitude) + math.log(size)
            angle, width = np.angle(first / total), self._width(j)
            log_prob += np.log(
                (1 - OPPOSITE) / np.hypot(angle, width)
                + OPPOSITE / np.hypot(math.pi - np.abs(angle), width)
            )
            log_prob -= math.log(2 * math.asinh(math.pi / width))
        return log_prob + self.gaussian.log_prob(np.stack(columns, 1))

    def _part(self, distance: Array) -> Array:
        """(2πδT)²/24, (n,): how much of a pair's quadrupole looks like a smaller sum."""
        return (2 * math.pi * distance / self.bin) ** 2 / 24

    def _width(self, j: int) -> float:
        """Angle of c_1 to C of tone j from which on the dipole limits δ."""
        snr = float(self.snr[j])
        return math.sqrt(0.37 * snr + 1) / (0.9 * snr)

    def _scale(
        self, first: NDArray[np.complex128], second: NDArray[np.complex128], snr: float
    ) -> Array:
        """Standard deviation of δ before it is folded, in Hz, (n,)."""
        total = first + second
        dipole = 1.81 * snr * np.abs((first / total).imag)
        quadrupole = 1.47 * snr * np.abs(first * second / total**2)
        scale: Array = REACH * self.bin / np.sqrt(dipole**2 + quadrupole + 1.0)
        return scale


def _coupling(f: Array, z: Array, grid: Grid, offset: float) -> Array:
    """Products of a tone's derivatives by (Re c, Im c) at f, (G,), with those of z, (D, 3): (G, D, 3, 2)."""
    difference = z[None, :, 0] - f[:, None]  # (G, D)
    s_0, s_1, _ = (s.numpy() for s in dirichlet(torch.from_numpy(difference), grid))
    turn = np.exp(2j * math.pi * np.remainder(difference * offset, 1.0))
    zeroth, first = turn * s_0, turn * (1j * s_1 + offset * s_0)
    c = z[:, 1] + 1j * z[:, 2]
    rows = np.stack([2j * math.pi * c * first, zeroth, 1j * zeroth], -1)  # (G, D, 3)
    return 0.5 * np.stack([rows.real, rows.imag], -1)  # times the conjugates of 1 and i
