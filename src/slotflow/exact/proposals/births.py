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
from collections.abc import Callable

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
"""Cells of the amplitude between the ends of what the data leave of it."""
REACH = 10.0
"""Scales on which the likelihood of A falls, on both sides of its maximum, that the cells cover."""
PRIOR_SHARE = 0.1
"""Share of the prior in each density, for what the anchored tones' linear response misses."""
TINY = 50.0
"""Nats by which a cell falls short of the largest one when it is not looked at."""
FAR = 12.0
"""Standard deviations of f from its fit at which a tone cannot be an anchored one."""


class Amplitudes:
    """The complex amplitude of a tone whose frequency is given.

    Its size is looked for where I_0(λA|M|) e^{−½λA²ν} is large, in cells of its own for each M and ν: a prior may
    reach a thousand times further than the data do, and cells of the prior would then miss the tone.

    Args:
        prior: Gives the law of A.
        precision: λ = 1/σ².
    """

    def __init__(self, prior: Prior, precision: float) -> None:
        self.low, self.high = prior.amplitude
        self.logarithmic = prior.amplitude_law == "loguniform"
        self.precision = precision
        bounds = np.array(prior.amplitude, dtype=np.float64)
        self._whole = float(np.diff(self._even(bounds))[0])

    def log_gain(self, slope: Array, left: Array) -> Array:
        """What a tone adds to the evidence, ln ∫ p(A) I_0(λA|M|) e^{−½λA²ν} dA, (n,), for |M| and ν, (n,) each."""
        edge = self.edges(slope, left)
        log_mass = self._log_likelihood(slope, left, self._middle(edge), i0e)
        top = log_mass.max(-1)
        share = (
            edge[:, 1] - edge[:, 0]
        ) / self._whole  # of the prior's mass, in each cell of a row
        gain: Array = top + np.log(share * np.exp(log_mass - top[:, None]).sum(-1))
        return gain

    def log_bound(self, slope: Array, left: Array) -> Array:
        """What `log_gain` cannot exceed, (n,): I_0(x) ≤ e^x, and λ(A|M| − ½A²ν) is largest at |M|/ν."""
        best = np.clip(slope / left, self.low, self.high)
        bound: Array = self.precision * best * (slope - 0.5 * left * best)
        return bound

    def sample(self, slope: Complex, left: Array, rng: np.random.Generator) -> Complex:
        """Draws of c for given matched filters and ν, (n,) each."""
        n, size = len(slope), np.abs(slope)
        edge = self.edges(size, left)
        mass = self._cells(size, left, edge).cumsum(-1)
        row = (mass < rng.random(n)[:, None]).sum(-1)
        row = np.minimum(row, AMPLITUDES - 1)
        low, high = (self._size(edge[np.arange(n), row + i]) for i in (0, 1))
        amplitude = low + (high - low) * rng.random(n)
        wide = np.flatnonzero(rng.random(n) < PRIOR_SHARE)
        first, last = self._even(np.array([self.low, self.high], dtype=np.float64))
        amplitude[wide] = self._size(first + (last - first) * rng.random(len(wide)))
        phase = rng.vonmises(np.angle(slope), self.precision * size * amplitude)
        drawn: Complex = amplitude * np.exp(1j * phase)
        return drawn

    def log_prob(self, c: Complex, slope: Complex, left: Array) -> Array:
        """Log density of c for given matched filters and ν, (n,) each."""
        n, size = np.arange(len(c)), np.abs(slope)
        amplitude = np.clip(np.abs(c), max(self.low, 1e-300), self.high)
        edge = self.edges(size, left)
        place = (self._even(amplitude) - edge[:, 0]) / (edge[:, 1] - edge[:, 0])
        row = np.clip(place, 0, AMPLITUDES - 1).astype(np.int64)
        width = self._size(edge[n, row + 1]) - self._size(edge[n, row])
        inside = (place >= 0) & (place <= AMPLITUDES)
        density = np.where(inside, self._cells(size, left, edge)[n, row] / width, 0.0)
        wide = 1 / (self._whole * (amplitude if self.logarithmic else 1.0))
        density = (1 - PRIOR_SHARE) * density + PRIOR_SHARE * wide
        pull = self.precision * size * np.abs(c)
        angle = np.angle(c) - np.angle(slope)
        log_phase = pull * (np.cos(angle) - 1) - np.log(2 * math.pi * i0e(pull))
        log_prob: Array = np.log(density) + log_phase - np.log(np.maximum(np.abs(c), 1e-300))
        return log_prob

    def _even(self, amplitude: Array) -> Array:
        """A, or ln A where the prior is flat in that."""
        return np.log(amplitude) if self.logarithmic else amplitude

    def _size(self, even: Array) -> Array:
        """The inverse of `_even`."""
        return np.exp(even) if self.logarithmic else even

    def edges(self, slope: Array | Complex, left: Array) -> Array:
        """Edges of the cells in A, or in ln A where the prior is flat in that, (n, cells + 1), for M and ν, (n,) each.

        Around the maximum the likelihood falls like a Gaussian of variance 1/λν, and from a bound of the prior before
        it like an exponential.
        """
        slope = np.abs(slope)
        best = np.clip(slope / left, self.low, self.high)
        steep = np.sqrt(self.precision * left) + self.precision * np.abs(left * best - slope)
        ends = best + REACH / steep * np.array([[-1.0], [1.0]])
        # A bound that is so steep that the cells between it and the end are rounded away is left a little room.
        room = 1e-11 * self.high
        first = np.clip(ends[0], self.low, self.high - room)
        last = np.clip(ends[1], first + room, self.high)
        first, last = self._even(first), self._even(last)
        edge: Array = first[:, None] + (last - first)[:, None] * np.linspace(0, 1, AMPLITUDES + 1)
        return edge

    def _middle(self, edge: Array) -> Array:
        """Middles of the cells, (n, cells)."""
        size = self._size(edge)
        middle: Array = 0.5 * (size[:, 1:] + size[:, :-1])
        return middle

    def _log_likelihood(
        self, slope: Array, left: Array, amplitude: Array, scaled: Callable[[Array], Array]
    ) -> Array:
        """Of A (n, cells) given |M| and ν, (n,) each: ln I_0(λA|M|) − ½λA²ν; `scaled` gives e^{−x} I_0(x)."""
        x = (self.precision * slope)[:, None] * amplitude
        log_likelihood: Array = x - (0.5 * self.precision * left)[:, None] * amplitude**2
        log_likelihood += np.log(scaled(x))
        return log_likelihood

    def _cells(self, slope: Array, left: Array, edge: Array) -> Array:
        """Probabilities of the amplitude's cells, (n, cells), for |M| and ν, (n,) each, and their edges.

        What is wrong of a density that draws and weights share costs no exactness, so that a quick I_0 will do.
        """
        log_mass = self._log_likelihood(slope, left, self._middle(edge), _quick_i0e)
        log_mass -= log_mass.max(-1, keepdims=True)
        mass: Array = np.exp(log_mass, out=log_mass)
        mass /= mass.sum(-1, keepdims=True)
        return mass


def _quick_i0e(x: Array) -> Array:
    """e^{−x} I_0(x), right at both ends and within 9 % between."""
    quick: Array = 1 / np.sqrt(2 * math.pi * x + (1 + 0.5 * math.pi) / (1 + 3 * x) - 0.5 * math.pi)
    return quick


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
            at = np.flatnonzero(is_open)
            apart = statistics.apart_with_one_more(z, f[at])
            more = 0.0 if apart is None else 0.5 * precision * apart[0] + apart[1]
            at, gain = self._gains(at, np.abs(filtered[at]), left[at], more)
            top = float(gain.max())
            mass[at] = np.exp(gain - top)
            self.log_gain = top + math.log(mass.sum() / cells)
            mass = (1 - PRIOR_SHARE) * mass / mass.sum() + PRIOR_SHARE / cells
        else:  # the anchored tones leave no room
            mass[:] = 1 / cells
        self.cumulative = mass.cumsum()
        self.log_mass = np.log(mass / self.width)
        self.left = left
        self.coupling, self.filtered = coupling, filtered
        self.statistics = statistics

    def _gains(
        self, cell: NDArray[np.int64], slope: Array, left: Array, apart: Array | float = 0.0
    ) -> tuple[NDArray[np.int64], Array]:
        """Cells that matter, and what a tone in each of them adds to the evidence, (m,) each.

        What it gains in channels where its amplitude is integrated out is counted in. Cells whose upper bound is
        `TINY` nats below what one of them has are left out: all of them together add nothing.

        Args:
            cell: Cells that are open, (n,).
            slope: |M| there, (n,).
            left: ν there, (n,).
            apart: ln of what is gained where amplitudes are integrated out, (n,), or 0.
        """
        apart = np.broadcast_to(apart, slope.shape)
        bound = self.amplitudes.log_bound(slope, left) + apart
        best = np.argmax(bound, keepdims=True)
        least = self.amplitudes.log_gain(slope[best], left[best]) + apart[best]
        kept = bound > least - TINY
        return cell[kept], self.amplitudes.log_gain(slope[kept], left[kept]) + apart[kept]

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
