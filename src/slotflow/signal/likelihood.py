r"""Gaussian log-likelihood of tones in white noise from closed-form statistics, batched over signals and draws.

A signal has one or two streams s with the samples x_s(t), and

.. math:: x_s(t) = \sum_k A_k \cos(2π f_k t + φ_k) + ε, \quad ε \sim N(0, (σ r_s)^2) ,

r_s being 1 unless the streams carry noise levels of their own. With n samples in all and RSS = Σ_s Σ_t (x_s −
m_s)²/r_s²,

.. math:: \log L = -\frac{\mathrm{RSS}}{2σ^2} - n \log σ - \sum_s n_s \log r_s - \frac n2 \log 2π .

**Frame.** Each tone is m = Re c e^{2πif(t − τ)}, c = A e^{i(φ + 2πfτ)}, with τ the mid-time of the long stream. In a
stream of mid-time t_s, u = t − t_s and δ = t_s − τ, it reads Re(c_s e^{2πifu}) with c_s = c ρ, ρ = e^{2πifδ}, or

.. math:: m = \Re c_s \cos 2πfu - \Im c_s \sin 2πfu .

**RSS.** = Σ x² − 2 m·d + m·G m: d are the data's Fourier moments at the K frequencies, O(N K) by a matrix product, G
the Gram matrices of cos and sin, O(K²) in closed form (`kernels.py`). No N × K matrix of sines exists at any time, and
for many draws the moments are interpolated from one FFT (`nonuniform.py`): a draw costs O(K²) however long the data.

**Derivatives.** In z = (f, Re c, Im c) each is Re((α + β u) e^{2πifu}):

========  ==================  ==============
∂/∂f      α = 2πi c_s δ       β = 2πi c_s
∂/∂Re c   α = ρ               β = 0
∂/∂Im c   α = i ρ             β = 0
========  ==================  ==============

so their inner products with each other (JᵀJ, the Fisher matrix times σ²) and with the residual (Jᵀ(x − m), minus half
the gradient of RSS) are small products of the α, β with the same Gram matrices and with the moments of u⁰ and u¹.

Samples that the two streams share (20 of the paper's 8,120) are counted in both: the information is overstated by
their share, 0.25 %, and posterior widths are understated by half of that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from slotflow.data.channel import Channel
from slotflow.data.observation import Observation, as_list
from slotflow.data.sampling import Grid
from slotflow.signal.kernels import energy, fold, gram, mid_time, moments
from slotflow.signal.nonuniform import interpolated_moment
from slotflow.signal.simulation import Simulation
from slotflow.signal.single import Single

__all__ = ["Statistics", "StreamEquations", "design", "from_complex", "to_complex"]

MANY = 128
"""Frequencies per signal from which on an FFT and interpolation are faster than matrix products."""


class StreamEquations(NamedTuple):
    """One stream's share of the normal equations of B signals with K tones."""

    gain: Tensor
    """Its RSS minus its data's energy, (B,)."""
    slope: Tensor
    """Jᵀ(x − m), (B, 3K)."""
    matrix: Tensor
    """JᵀJ, (B, 3K, 3K)."""
    rest: Tensor
    """The residual's matched filter at each tone, Σ (x − m) e^{−2πifu} over r_s, (B, K), complex."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the likelihood needs to know of B signals on the same grids."""

    grids: tuple[Grid, ...]
    """Sampling of each stream, the long one first."""
    ratios: tuple[float, ...]
    """r_s: each stream's noise level in units of σ."""
    folded: tuple[Tensor, ...]
    """Each stream's data over r_s, (B, I, J), float64."""
    energy: Tensor
    """Σ x² over all streams, each over r_s², (B,), float64."""
    removed: int = 0
    """Tones that were fitted to the data and taken out of them before: each took three degrees of freedom."""

    @classmethod
    def from_arrays(
        cls,
        series: Sequence[Tensor],
        grids: Sequence[Grid],
        ratios: Sequence[float] | None = None,
    ) -> Statistics:
        """Builds the statistics of B signals.

        Args:
            series: Data of each stream, shape (B, N_s) each, the long stream first.
            grids: Sampling of each stream.
            ratios: Noise level of each stream in units of σ; all 1 if None.
        """
        ratios = [1.0] * len(grids) if ratios is None else list(ratios)
        if not len(series) == len(grids) == len(ratios) >= 1:
            raise ValueError(
                f"expected as many series as grids and ratios, at least one, received {len(series)}, "
                f"{len(grids)} and {len(ratios)}."
            )
        for values, grid in zip(series, grids, strict=True):
            if values.ndim != 2 or values.shape[1] != grid.n or len(values) != len(series[0]):
                raise ValueError(
                    f"expected series of shape ({len(series[0])}, {grid.n}), received "
                    f"{tuple(values.shape)}; give one row per signal and its own grid."
                )
        if not all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
            raise ValueError(f"expected positive noise ratios, received {ratios}.")
        scaled = [x.double() / ratio for x, ratio in zip(series, ratios, strict=True)]
        energy = torch.stack([(x * x).sum(-1) for x in scaled]).sum(0)
        return cls(tuple(grids), tuple(ratios), tuple(fold(x) for x in scaled), energy)

    @classmethod
    def from_simulation(cls, simulation: Simulation, short: bool = True) -> Statistics:
        """Statistics of a simulated batch, on its device; short = False leaves the short streams out."""
        long_grid, short_grid = simulation.grids
        if not short or short_grid is None or simulation.short is None:
            return cls.from_arrays([simulation.long], [long_grid])
        return cls.from_arrays([simulation.long, simulation.short], [long_grid, short_grid])

    @classmethod
    def from_observation(
        cls,
        observation: Observation | Sequence[Observation],
        device: str | torch.device = "cpu",
    ) -> Statistics:
        """Statistics of one observation (B = 1) or of several on the same grids.

        Args:
            observation: If both of its streams know their noise level, σ stands for that of the long one.
            device: Where to compute.
        """
        several = as_list(observation)
        if not several:
            raise ValueError("expected at least one observation, received none.")
        layouts = {(_layout(one), one.removed) for one in several}
        if len(layouts) != 1:
            raise ValueError(
                f"expected observations on the same grids, received {len(layouts)} different "
                "layouts; build one Statistics for each."
            )
        (grids, ratios), removed = layouts.pop()
        series = [
            torch.stack([torch.as_tensor(_streams(one)[s].values) for one in several]).to(device)
            for s in range(len(grids))
        ]
        return replace(cls.from_arrays(series, grids, ratios), removed=removed)

    def to(self, device: str | torch.device) -> Statistics:
        """The same on another device."""
        folded = tuple(x.to(device) for x in self.folded)
        return Statistics(self.grids, self.ratios, folded, self.energy.to(device), self.removed)

    def take(self, index: Tensor) -> Statistics:
        """The signals of an index, shape (B',), int64, or of a mask, shape (B,), bool."""
        if len(self.energy) == len(index) == 1 and (index.dtype != torch.bool or bool(index)):
            return self  # what NumPy keeps of a single signal stays
        folded = tuple(x[index] for x in self.folded)
        return Statistics(self.grids, self.ratios, folded, self.energy[index], self.removed)

    @property
    def n(self) -> int:
        """Number of samples of all streams of one signal."""
        return sum(grid.n for grid in self.grids)

    @property
    def reference(self) -> float:
        """τ, mid-time of the long stream, in seconds."""
        return mid_time(self.grids[0])

    @cached_property
    def single(self) -> Single:
        """The signal in NumPy, where there is one on the CPU."""
        folded = [x[0].numpy() for x in self.folded]
        return Single(self.grids, self.ratios, folded, self.reference)

    def is_single(self, *arguments: Tensor) -> bool:
        """Whether NumPy may answer: one signal and K > 0 tones on the CPU, no graph to build, no compiler at work.

        Args:
            arguments: Frequencies, complex amplitudes or theta, shape (B, K, …).
        """
        first, graph = arguments[0], torch.is_grad_enabled()
        return (
            len(self.energy) == first.shape[0] == 1
            and first.shape[1] > 0
            and not torch.compiler.is_compiling()
            and self.energy.device.type == "cpu"
            and all(
                x.dtype in (torch.float64, torch.complex128) and not (graph and x.requires_grad)
                for x in arguments
            )
        )

    def rss(self, theta: Tensor, mask: Tensor | None = None) -> Tensor:
        """Residual sum of squares, differentiable.

        Args:
            theta: (A, φ, f), shape (B, n, K, 3) or (B, K, 3), float64.
            mask: Which tones exist, shape (B, K) or that of theta without its last axis, bool; None: all.

        Returns:
            Shape (B, n) or (B,).
        """
        if theta.ndim == 3:
            per_signal = None if mask is None else mask[:, None]
            return self.rss(theta[:, None], per_signal).squeeze(1)
        frequency, c = to_complex(theta, self.reference, _expand(mask, theta))
        total = self.energy[:, None].expand(theta.shape[:2])
        for grid, ratio, folded in zip(self.grids, self.ratios, self.folded, strict=True):
            local = c * _rotation(frequency, mid_time(grid) - self.reference) / ratio
            flat = frequency.flatten(1)
            if flat.shape[1] < MANY:
                (data,) = moments(folded, flat, grid, powers=1)
            else:
                data = interpolated_moment(folded.flatten(1)[:, : grid.n], flat, grid)
            match = (local.conj() * data.reshape(frequency.shape)).real.sum(-1)
            total = total - 2 * match + energy(frequency, local, grid)
        return total

    def log_likelihood(self, theta: Tensor, sigma: Tensor, mask: Tensor | None = None) -> Tensor:
        """Log L of B signals under n draws of Θ each, differentiable.

        Args:
            theta: (A, φ, f), shape (B, n, K, 3) or (B, K, 3), float64.
            sigma: Noise level, shape (B,), or (B, n) for one per draw.
            mask: Which tones exist, shape (B, K) or that of theta without its last axis, bool; None: all.

        Returns:
            Shape (B, n) or (B,).
        """
        rss = self.rss(theta, mask)
        if sigma.ndim < rss.ndim:
            sigma = sigma[:, None]
        return self.log_likelihood_of_rss(rss, sigma)

    def log_likelihood_of_rss(self, rss: Tensor, sigma: Tensor) -> Tensor:
        """Log L given RSS and σ, which broadcast against each other."""
        ratios = sum(g.n * math.log(r) for g, r in zip(self.grids, self.ratios, strict=True))
        constant = 0.5 * self.n * math.log(2 * math.pi) + ratios
        return -0.5 * rss / sigma**2 - self.n * sigma.log() - constant

    def normal_equations(self, frequency: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """RSS with its first derivatives and the Gauss–Newton matrix, in z = (f, Re c, Im c) of every tone.

        Args:
            frequency: In Hz, shape (B, K), float64.
            c: Complex amplitudes referred to τ, shape (B, K); 0 for a tone that does not exist.

        Returns:
            RSS, shape (B,); Jᵀ(x − m) over r_s², shape (B, 3K), f, Re c, Im c of the first tone first; JᵀJ over r_s²,
            shape (B, 3K, 3K).
        """
        if self.is_single(frequency, c):
            one = self.single.equations(frequency[0].detach().numpy(), c[0].detach().numpy())
            slope, matrix = torch.from_numpy(one.slope)[None], torch.from_numpy(one.matrix)[None]
            return self.energy + one.gain, slope, matrix
        parts = [self.stream_equations(s, frequency, c) for s in range(len(self.grids))]
        rss, slope, matrix = self.energy, parts[0].slope, parts[0].matrix
        for part in parts:
            rss = rss + part.gain
        for part in parts[1:]:
            slope, matrix = slope + part.slope, matrix + part.matrix
        return rss, slope, matrix

    def stream_equations(self, s: int, frequency: Tensor, c: Tensor) -> StreamEquations:
        """What one stream contributes to the normal equations; arguments as there."""
        if self.is_single(frequency, c):
            one = self.single.equations(frequency[0].detach().numpy(), c[0].detach().numpy(), s)
            arrays = (one.slope, one.matrix, one.rest[0])
            gain = self.energy.new_tensor([one.gain])
            return StreamEquations(gain, *(torch.from_numpy(array)[None] for array in arrays))
        grid, ratio, folded = self.grids[s], self.ratios[s], self.folded[s]
        k = frequency.shape[1]
        offset = mid_time(grid) - self.reference
        rotation = _rotation(frequency, offset) / ratio
        local = c * rotation
        zero = torch.zeros_like(local)
        beta = torch.stack([2j * math.pi * local, zero, zero], -1)  # (B, K, 3)
        alpha = torch.stack([2j * math.pi * offset * local, rotation, 1j * rotation], -1)
        even, odd = gram(frequency, grid)  # (B, 2K, 2K) each
        d_0, d_1 = moments(folded, frequency, grid)  # (B, K) each
        data_even = torch.cat([d_0.real, -d_1.imag], -1)[..., None]  # (B, 2K, 1)
        data_odd = torch.cat([-d_0.imag, d_1.real], -1)[..., None]
        a, b = local.real[..., None], -local.imag[..., None]  # on cos and on sin, (B, K, 1)
        model_even, model_odd = even[..., :k] @ a, odd[..., :k] @ b
        gain = (a * (model_even - 2 * data_even)[:, :k]).sum((-2, -1))
        gain = gain + (b * (model_odd - 2 * data_odd)[:, :k]).sum((-2, -1))
        j_even, j_odd = design(alpha, beta)  # (B, 3K, 2K) each
        rest_even, rest_odd = data_even - model_even, data_odd - model_odd
        slope = (j_even @ rest_even + j_odd @ rest_odd).squeeze(-1)
        matrix = j_even @ even @ j_even.mT + j_odd @ odd @ j_odd.mT
        rest_even, rest_odd = rest_even.squeeze(-1), rest_odd.squeeze(-1)
        rest = torch.complex(rest_even[:, :k], -rest_odd[:, :k])
        return StreamEquations(gain, slope, matrix, rest)


def design(alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Functions Re((α + β u) e^{2πifu}), P of them per tone, in terms of what the Gram matrices are made of.

    Args:
        alpha: Shape (..., K, P), complex.
        beta: Shape (..., K, P), complex.

    Returns:
        Coefficients on (cos, u sin) and on (sin, u cos), shape (..., K·P, 2K) each.
    """
    k = alpha.shape[-2]
    eye = torch.eye(k, device=alpha.device, dtype=torch.float64)[:, None]  # (K, 1, K)

    def rows(first: Tensor, second: Tensor) -> Tensor:
        pair = torch.cat([first[..., None] * eye, second[..., None] * eye], -1)
        return pair.flatten(-3, -2)

    return rows(alpha.real, -beta.imag), rows(-alpha.imag, beta.real)


def to_complex(
    theta: Tensor, reference: float, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Turns (A, φ, f), shape (..., K, 3), into f and c referred to a time, shape (..., K) each.

    Tones outside the mask, shape (..., K), get f = 0 and c = 0.
    """
    amplitude, phase, frequency = theta.double().unbind(-1)
    if mask is not None:
        amplitude, frequency = torch.where(mask, amplitude, 0.0), torch.where(mask, frequency, 0.0)
        phase = torch.where(mask, phase, 0.0)
    angle = phase + 2 * math.pi * torch.remainder(frequency * reference, 1.0)
    return frequency, torch.complex(amplitude * angle.cos(), amplitude * angle.sin())


def from_complex(frequency: Tensor, c: Tensor, reference: float) -> Tensor:
    """Turns f and c, shape (..., K) each, back into (A, φ in [0, 2π), f), shape (..., K, 3)."""
    turns = torch.remainder(c.angle() / (2 * math.pi) - frequency * reference, 1.0)
    return torch.stack([c.abs(), 2 * math.pi * turns, frequency], -1)


def _rotation(frequency: Tensor, offset: float) -> Tensor:
    """e^{2πif·offset}, complex, same shape."""
    angle = 2 * math.pi * torch.remainder(frequency * offset, 1.0)
    return torch.complex(angle.cos(), angle.sin())


def _expand(mask: Tensor | None, theta: Tensor) -> Tensor | None:
    """Mask of shape (B, K) or (B, n, K) for theta of shape (B, n, K, 3)."""
    return mask[:, None] if mask is not None and mask.ndim < theta.ndim - 1 else mask


def _streams(observation: Observation) -> list[Channel]:
    return [s for s in (observation.long, observation.short) if s is not None]


def _layout(observation: Observation) -> tuple[tuple[Grid, ...], tuple[float, ...]]:
    """Grids and noise ratios of an observation's streams."""
    streams = _streams(observation)
    levels = [s.sigma for s in streams]
    first = levels[0]
    ratios = [1.0 if level is None or first is None else level / first for level in levels]
    return tuple(s.grid for s in streams), tuple(ratios)
