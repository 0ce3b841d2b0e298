r"""Proposals for weak tones, which may be anywhere in the band: anchored tones and free ones.

D tones are anchored at a fit, with the Gaussian of covariance Σ around it; m more are free. A tone at f with the
amplitude c changes ln L by λ(Re c̄M − ½|c|²ν), M(f) being the residual's matched filter over all streams, λ = 1/σ² and
ν(f) what is left of the tone's energy per unit of |c|² once the anchored tones have adapted to it. Integrated over the
phase,

.. math:: q(f, A) \propto p(A)\, I_0(λA|M|)\, e^{-λA^2 ν/2} ,

which is summed over cells of A for the density of f. Given f, A is drawn from its cells, and the phase is a von Mises
variable around arg M. The anchored tones are then drawn around their fit moved by −λΣ B(f) c, B their Jacobian's
products with the free tone's. Of several free tones, whose frequencies are drawn independently, each one's amplitude is
drawn with those below it in frequency subtracted from M: they share what a short stream sees. A set of tones has this
density summed over the choices of which m of them were the free ones.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import i0e

from slotflow.core.arrays import Array
from slotflow.exact.proposals.gaussian import Gaussian
from slotflow.exact.target import Target
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Amplitudes", "BirthTable", "Births"]

Complex = NDArray[np.complex128]
CELLS_PER_BIN = 16
LARGEST_TABLE = 16_384
AMPLITUDES = 48
"""Cells of the amplitude, of equal prior mass."""
PRIOR_SHARE = 0.1
"""Share of the prior in each density, for what the anchored tones' linear response misses."""
TINY = 50.0
"""Nats by which a cell falls short of the largest one when it is not looked at."""
FAR = 12.0
"""Standard deviations of f from its fit at which a tone cannot be an anchored one."""


class Amplitudes:
    """The complex amplitude of a tone whose frequency is given.

    Args:
        prior: Gives the law of A.
        precision: λ = 1/σ².
    """

    def __init__(self, prior: Prior, precision: float) -> None:
        low, high = prior.amplitude
        spaced = np.geomspace if prior.amplitude_law == "loguniform" else np.linspace
        self.edge: Array = spaced(low, high, AMPLITUDES + 1)
        self.width = np.diff(self.edge)
        self.middle: Array = 0.5 * (self.edge[1:] + self.edge[:-1])
        self.precision = precision

    def sample(self, slope: Complex, left: Array, rng: np.random.Generator) -> Complex:
        """Draws of c for given matched filters and ν, (n,) each."""
        mass = self._cells(np.abs(slope), left).cumsum(-1)
        row = (mass < rng.random(len(slope))[:, None] * mass[:, -1:]).sum(-1)
        row = np.minimum(row, AMPLITUDES - 1)
        amplitude = self.edge[row] + self.width[row] * rng.random(len(slope))
        phase = rng.vonmises(np.angle(slope), self.precision * np.abs(slope) * amplitude)
        drawn: Complex = amplitude * np.exp(1j * phase)
        return drawn

    def log_prob(self, c: Complex, slope: Complex, left: Array) -> Array:
        """Log density of c for given matched filters and ν, (n,) each."""
        amplitude = np.maximum(np.abs(c), 1e-300)
        row = np.clip(np.searchsorted(self.edge, amplitude) - 1, 0, AMPLITUDES - 1)
        mass = self._cells(np.abs(slope), left)[np.arange(len(c)), row] / self.width[row]
        pull = self.precision * np.abs(slope) * amplitude
        angle = np.angle(c) - np.angle(slope)
        log_phase = pull * (np.cos(angle) - 1) - np.log(2 * math.pi * i0e(pull))
        log_prob: Array = np.log(mass) + log_phase - np.log(amplitude)
        return log_prob

    def _cells(self, slope: Array, left: Array) -> Array:
        """Probabilities of the amplitude's cells, (n, amplitudes), for |slope| and ν, (n,) each.

        Here e^{−x} I_0(x) is 1/√(2πx − π/2 + (1 + π/2)/(1 + 3x)), right at both ends and within 9 % between: what
        is wrong of a density that draws and weights share costs no exactness.
        """
        x = (self.precision * slope)[:, None] * self.middle
        bent = (-0.5 * self.precision * left)[:, None] * self.middle**2
        bent += x
        bent -= bent.max(-1, keepdims=True)
        mass: Array = np.exp(bent, out=bent)
        mass /= np.sqrt(2 * math.pi * x + (1 + 0.5 * math.pi) / (1 + 3 * x) - 0.5 * math.pi)
        mass *= (1 - PRIOR_SHARE) / mass.sum(-1, keepdims=True)
        mass += PRIOR_SHARE / AMPLITUDES
        return mass


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
        f: Array = low + self.width * (np.arange(cells, dtype=np.float64) + 0.5)
        rest, energy = statistics.less(z), statistics.weight_at(f)
        filtered: Complex = rest.matched(f[None, :, None])[0, :, 0]
        coupling = statistics.coupling(f[:, None], z)  # (cells, 2, 3D)
        precision = target.noise.precision(float(rest.energy))
        response = coupling.reshape(2 * cells, -1) @ (-precision * covariance)
        self.response: Array = response.reshape(coupling.shape)  # (cells, 2, 3D)
        left = 0.5 * energy + 0.5 * np.einsum("gpd,gpd->g", coupling, self.response)
        left = np.clip(left, 1e-3 * energy, None)  # ν
        self.amplitudes = Amplitudes(prior, precision)
        is_open: NDArray[np.bool_] = np.ones(cells, dtype=np.bool_)
        if len(z) and prior.min_separation > 0:
            # Cells that are certainly too close to an anchored tone are shut.
            spread = 4 * np.sqrt(np.diag(covariance)[:: z.shape[1]]) + self.width
            room = np.maximum(prior.min_separation - spread, 0.0)
            is_open &= ~(np.abs(f[:, None] - TONE.place_in_z(z)) < room).any(-1)
        mass = np.zeros(cells)
        self.log_gain = -math.inf
        """Logarithm of the evidence's gain from one free tone."""
        if is_open.any():
            # The prior's mass is the same in every cell of f and of A.
            at = np.flatnonzero(is_open)
            pull, weight = precision * np.abs(filtered[at]), precision * left[at]
            apart = statistics.apart_with_one_more(z, f[at])
            more = 0.0 if apart is None else 0.5 * precision * apart[0] + apart[1]
            at, shares, top = self._gains(at, pull, weight, more)
            mass[at] = shares
            self.log_gain = top + math.log(mass.sum() / (cells * AMPLITUDES))
            mass = (1 - PRIOR_SHARE) * mass / mass.sum() + PRIOR_SHARE / cells
        else:  # the anchored tones leave no room
            mass[:] = 1 / cells
        self.cumulative = mass.cumsum()
        self.log_mass = np.log(mass / self.width)
        self.left = left
        self.coupling, self.filtered = coupling, filtered
        self.statistics = statistics

    def _gains(
        self, cell: NDArray[np.int64], pull: Array, weight: Array, apart: Array | float = 0.0
    ) -> tuple[NDArray[np.int64], Array, float]:
        """Cells that matter, and Σ I_0(pull A) e^{−½ weight A²} over their amplitudes over a common factor.

        What a tone gains in channels where its amplitude is integrated out is counted in.

        I_0(x) lies between e^x/√(1 + 2πx) and e^x, and pull A − ½ weight A² is largest at pull/weight. Cells whose
        upper bound is `TINY` nats below the largest lower bound are left out: all of them together add nothing.

        Args:
            cell: Cells that are open, (n,).
            pull: λ|M| there, (n,).
            weight: λν there, (n,).
            apart: ln of what is gained where amplitudes are integrated out, (n,), or 0.

        Returns:
            (m,) each, and the logarithm of the factor.
        """
        middle = self.amplitudes.middle
        best = np.clip(pull / weight, middle[0], middle[-1])
        high = best * (pull - 0.5 * weight * best) + apart
        near = middle[np.minimum(np.searchsorted(middle, best), AMPLITUDES - 1)]
        low = near * (pull - 0.5 * weight * near) - 0.5 * np.log1p(2 * math.pi * pull * near)
        low = low + apart
        kept = high > low.max() - TINY
        x = pull[kept, None] * middle
        bent = x - 0.5 * weight[kept, None] * middle**2
        bent += np.broadcast_to(apart, len(cell))[kept, None]
        top = float(bent.max())
        bent -= top
        shares: Array = i0e(x)
        shares *= np.exp(bent, out=bent)
        return cell[kept], shares.sum(-1), top

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of (f, Re c, Im c), (n, 3)."""
        f = self.sample_frequency(n, rng)
        c = self.amplitudes.sample(self.filtered[self.cell(f)], self.left[self.cell(f)], rng)
        return TONE.from_simple(f, c)

    def log_prob(self, z: Array) -> Array:
        """Log density of (n, 3) per unit of f and of the plane of c, (n,); finite inside the prior's box only."""
        f, c = TONE.simple(z)
        cell = self.cell(f)
        log_prob: Array = self.log_mass[cell]
        return log_prob + self.amplitudes.log_prob(c, self.filtered[cell], self.left[cell])

    def sample_frequency(self, n: int, rng: np.random.Generator) -> Array:
        """Frequencies, (n,)."""
        cell = np.searchsorted(self.cumulative, rng.random(n) * self.cumulative[-1])
        f: Array = self.low + self.width * (np.minimum(cell, self.cells - 1) + rng.random(n))
        return f

    def overlap(self, f: Array, other: Array, c: Complex) -> Complex:
        """What a free tone (other, c) adds to the matched filter at f once the anchored ones adapted; (n,) each."""
        seen = self.statistics.overlap(f[:, None], other[:, None])[:, 0, 0]
        total: Complex = 0.5 * c * seen
        pair = np.stack([c.real, c.imag], -1)
        moved = np.einsum("npd,np->nd", self.response[self.cell(other)], pair)
        back = np.einsum("npd,nd->np", self.coupling[self.cell(f)], moved)
        total += back[:, 0] + 1j * back[:, 1]
        return total

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
        self.size = TONE.coordinates
        self.anchored = len(gaussian[0]) // self.size
        self.k = self.anchored + free
        self.subsets = list(itertools.combinations(range(self.k), free))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3), sorted, except where anchored tones changed places: those are left unsorted."""
        f = np.sort(self.table.sample_frequency(n * self.free, rng).reshape(n, self.free), -1)
        c = np.zeros(f.shape, dtype=np.complex128)
        for i in range(self.free):
            slope, left = self._slope(f, c, i)
            c[:, i] = self.table.amplitudes.sample(slope, left, rng)
        free = TONE.from_simple(f, c)
        anchored = self.gaussian.sample(n, rng) + self._response(free).sum(1)
        z = np.concatenate([anchored, free], 1)
        sound = (np.diff(TONE.place_in_z(anchored), axis=-1) > 0).all(-1)
        order = np.argsort(TONE.place_in_z(z), -1)
        order[~sound] = np.arange(self.k)
        return np.take_along_axis(z, order[..., None], 1)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        n, (f, c) = len(z), TONE.simple(z)
        birth = self.table.log_mass[self.table.cell(f)]  # (n, K)
        response = self._response(z)  # (n, K, D, Z)
        total = np.full(n, -np.inf)
        reach = FAR * self.gaussian.scale[:: self.size]
        for subset in self.subsets:
            rest = [i for i in range(self.k) if i not in subset]
            anchored = z[:, rest]
            shift = response[:, list(subset)].sum(1)  # (n, D, Z)
            off = TONE.place_in_z(anchored - shift) - self.gaussian.mean[:: self.size]
            near = np.flatnonzero((np.abs(off) < reach).all(-1))
            if near.size == 0:
                continue
            flat = anchored[near].reshape(near.size, -1)
            term = self.gaussian.log_prob_flat(flat, shift[near].reshape(near.size, -1))
            term = term + birth[near][:, list(subset)].sum(-1)
            free_f, free_c = f[near][:, list(subset)], c[near][:, list(subset)]
            for i in range(self.free):
                slope = self._slope(free_f, free_c, i)
                term = term + self.table.amplitudes.log_prob(free_c[:, i], *slope)
            total[near] = np.logaddexp(total[near], term)
        return total + math.lgamma(self.free + 1)

    def _slope(self, f: Array, c: Complex, i: int) -> tuple[Complex, Array]:
        """Matched filter at the i-th of free tones (n, m) with those below it subtracted, and ν; (n,) each."""
        cell = self.table.cell(f[:, i])
        slope = self.table.filtered[cell]
        for j in range(i):
            slope = slope - self.table.overlap(f[:, i], f[:, j], c[:, j])
        return slope, self.table.left[cell]

    def _response(self, free: Array) -> Array:
        """How the anchored tones move for each free one of (n, m, 3): (n, m, D, 3)."""
        response = self.table.response[self.table.cell(TONE.place_in_z(free))]  # (n, m, 2, D·Z)
        moved: Array = np.einsum("nmpd,nmp->nmd", response, free[..., len(TONE.shape) :])
        return moved.reshape(*free.shape[:2], self.anchored, self.size)
