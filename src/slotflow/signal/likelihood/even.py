r"""Tones on even grids in white noise: the likelihood from closed-form sums, batched over signals and draws.

**Frame.** Each tone is Re c e^{2πifw}, w = t − τ, with τ the mid-time of the first channel. Its derivative by f is 2πi
times c w e^{2πifw}, so that with the functions (w e^{2πifw}, e^{2πifw}) of every tone all inner products between tones
are moments of the sampling, W_0, W_1 and W_2 at f_l ∓ f_k, and those with the data are their Fourier moments of w⁰ and
w¹ (`kernels.py`, `folded.py`): O(K²) and O(N K) operations, and no N × K matrix of sines at any time. For many draws
the moments are interpolated from one FFT (`table.py`): a draw costs O(K²) however long the data.

**Two libraries.** Formulas are written once, for NumPy arrays and torch tensors. Batches, graphs and GPUs take torch. A
single signal on the CPU takes NumPy, which starts a small operation several times sooner: matrices of a few dozen
numbers cost what it takes to start their operations, not what it takes to do them.

Samples that the two streams share (20 of the paper's 8,120) are counted in both: the information is overstated by
their share, 0.25 %, and posterior widths are understated by half of that.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import Array, Complex, namespace
from slotflow.core.numeric import phasor
from slotflow.signal.likelihood.even_data import EvenData
from slotflow.signal.likelihood.folded import fold, moment_data, moments
from slotflow.signal.likelihood.kernels import energy_of_tones, rotation, window
from slotflow.signal.likelihood.products import Equations, Products
from slotflow.signal.likelihood.table import Interpolant
from slotflow.signal.model import component_sum

__all__ = ["EvenTones"]

MANY_FREQUENCIES = 128
"""Frequencies per signal from which on an FFT and interpolation are faster than matrix products."""
ARRAYS = ("gram", "data", "channel_gram", "channel_data")
"""The arrays of `Products`."""
DERIVATIVE = 2j * math.pi
"""∂b/∂f over w b."""


class EvenTones(EvenData):
    """Sums over the samples of B signals that consist of tones, on even grids, in white noise."""

    @property
    @abstractmethod
    def in_numpy(self) -> EvenTones:
        """The same in NumPy arrays."""

    # ------------------------------------------------------------------ sums over samples

    def products(self, xi: Any) -> Products:
        """Inner products of the tones' functions with each other and with the data, at frequencies (B, K, 1).

        The latest answer for a single signal is kept: a fit starts where amplitudes have just been found.
        """
        key = None if isinstance(xi, Tensor) else xi.tobytes()
        if key is not None and key in self._kept:
            return self._kept[key]
        xp, f = namespace(xi), xi[..., 0]
        minus_plus = self.placed.signs(f)  # (2, 1, 1)
        turn = rotation(minus_plus * f, self.placed)  # (S, 2, B, K): backward and forward
        rho = 0.5 * turn[..., None] * turn[:, 1:, :, None]  # (S, 2, B, K, K)
        pairs = minus_plus[..., None] * f[..., None] + f[:, None]  # f_l ∓ f_k
        w = window(pairs, self.placed, turn=rho)  # (3, S, 2, B, K, K)
        gram = (w.sum(1) if len(self.grids) > 1 else w[:, 0])[self.placed.constants(f).order]
        gram = xp.einsum("ijqbkl->qbikjl", gram.reshape(2, 2, *pairs.shape))
        data = turn.swapaxes(1, 2) * 0.0  # (S, B, 2, K)
        if self.folded:
            data = self._moments(f) * turn[:, 0, :, None]
        if len(self.grids) > 1:
            data[:, :, 0] += self.placed.constants(f).offset * data[:, :, 1]  # from u to w
        channel_gram = w[0].swapaxes(0, 1)[:, :, :, None, :, None]
        found = Products(gram, data.sum(0), channel_gram, data[:, :, 1:], factor=DERIVATIVE)
        if key is not None:
            self._kept.clear()
            self._kept[key] = found
        return found

    @cached_property
    def _kept(self) -> dict[bytes, Products]:
        return {}

    @cached_property
    def _moment_data(self) -> list[Any]:
        return [moment_data(x, g, 2) for x, g in zip(self.folded, self.grids, strict=True)]

    def _moments(self, f: Any) -> Any:
        """Σ x u^p e^{−2πifu}/r_s of each channel for p = 1 and 0, (S, B, 2, K), at frequencies (B, K)."""
        if self.single is None:
            return moments(self._moment_data, f, self.placed)
        one = self.single if isinstance(f, Tensor) else self.single.in_numpy
        xp, flat = namespace(f), f.reshape(-1)
        found = xp.stack([table.together(flat) for table in one.moment_interpolants])  # (S, 2, B·K)
        return found.reshape(len(self.grids), 2, *f.shape).swapaxes(1, 2)

    @cached_property
    def moment_interpolants(self) -> list[Interpolant]:
        """Σ x u e^{−2πifu}/r_s and Σ x e^{−2πifu}/r_s of each channel of one signal at many frequencies."""
        tables = []
        for s, grid in enumerate(self.grids):
            xp, series = namespace(self.folded[s]), self.series(s)
            times = xp.asarray(grid.times - grid.mid_time)
            tables.append(Interpolant(xp.concat([series * times, series]), grid))
        return tables

    def products_of(self, xi: Tensor, c: Tensor) -> Products:
        """`products` in torch, though NumPy computes them where it may."""
        if not self.is_single(xi, c):
            return self.products(xi)
        found = self.in_numpy.products(xi.detach().numpy())
        arrays: dict[str, Any] = {name: torch.from_numpy(getattr(found, name)) for name in ARRAYS}
        return replace(found, **arrays)

    def equations(self, xi: Any, c: Any) -> Equations:
        """RSS with its first derivatives and the Gauss–Newton matrix; see `Likelihood.equations`."""
        if isinstance(xi, Tensor) and self.is_single(xi, c):
            found = self.in_numpy.products(xi.detach().numpy()).equations(c.detach().numpy())
            return Equations(*(torch.from_numpy(x) for x in found))
        one = self if isinstance(xi, Tensor) else self.in_numpy
        return one.products(xi).equations(c)

    def in_own_frame(self, s: int, xi: Tensor, rest: Tensor) -> Tensor:
        """A channel's filtered residual, (B, K, 1), about its mid-time and over r_s, instead of about τ and r_s²."""
        turned: Tensor = rest * rotation(xi, self.placed)[s] * self.ratios[s] ** 2
        return turned

    @cached_property
    def interpolants(self) -> list[Interpolant]:
        """Σ x e^{−2πifu}/r_s of each channel at many frequencies."""
        return [Interpolant(self.series(s), grid) for s, grid in enumerate(self.grids)]

    def _zeroth(self, s: int, f: Any) -> Any:
        """Σ x e^{−2πifu}/r_s of a channel, (B, M), at frequencies (B, M)."""
        if self.single is not None:
            one = self.single if isinstance(f, Tensor) else self.single.in_numpy
            return one._zeroth(s, f.reshape(1, -1)).reshape(f.shape)
        if f.shape[1] >= MANY_FREQUENCIES or not isinstance(f, Tensor):
            return self.interpolants[s](f)
        data = moment_data(self.folded[s], self.grids[s], 1)
        return moments([data], f, self._alone[s])[0, :, 0]

    def matched(self, xi: Any) -> Any:
        """Σ x e^{−2πifw}/r_s² over all channels, (B, ..., 1), at frequencies (B, ..., 1)."""
        one = self if isinstance(xi, Tensor) else self.in_numpy
        f = xi.reshape(len(xi), -1)
        turn = rotation(f, self.placed).conj()
        total: Any = 0.0
        for s in range(len(self.grids)):
            total = total + turn[s] * one._zeroth(s, f)
        return total.reshape(xi.shape)

    def matched_alike(self, f: Tensor) -> Tensor:
        """`matched` of all B signals at the same frequencies, (G,) to (B, G)."""
        turn = rotation(f, self.placed).conj()
        sums = [own * table.together(f) for own, table in zip(turn, self.interpolants, strict=True)]
        return torch.stack(sums).sum(0)

    def matched_slope(self, xi: Array) -> tuple[Complex, Complex]:
        """The matched filter and its derivative by f of one signal, (G, 1) each, at frequencies (G, 1)."""
        one, f = self.in_numpy, xi.reshape(1, -1)
        turn, slope = rotation(f, self.placed).conj(), np.zeros(f.shape, np.complex128)
        for s, grid in enumerate(self.grids):
            late = Interpolant(one.series(s) * (grid.times - self.reference), grid)
            slope -= DERIVATIVE * turn[s] * late(f)
        return self.matched(xi[None])[0], slope.reshape(xi.shape)

    def window(self, f: Any, powers: int = 1) -> Any:
        """W_p(f) = Σ w^p e^{2πifw}/r_s² over all samples for p = 0.., (powers, *shape of f), complex."""
        return window(f, self.placed, powers).sum(1)

    def kernel(self, distance: Any) -> Any:
        """W_0 at differences of frequencies; same shape."""
        return self.window(distance)[0]

    def overlap(self, xi_a: Any, xi_b: Any) -> Any:
        """P at frequencies that broadcast, (..., 1) each; (..., 1, 1); see `Likelihood.overlap`."""
        return self.window(xi_b - xi_a)[0][..., None]

    def coupling(self, xi: Any, z: Any) -> Any:
        """How the data see tones z together with one of unit amplitude at ξ; see `Likelihood.coupling`.

        For several signals at once both have their axis first: (B, G, 1) and (B, K, 3) to (B, G, 2, 3K).
        """
        xp, (others, c) = namespace(z), self.waveform.unpack(z)
        zeroth, first = self.window(others[..., None, :, 0] - xi, powers=2)  # (..., G, K) each
        first *= DERIVATIVE * c[..., None, :, 0]
        shape = (*xi.shape[:-1], 2, *z.shape[-2:])
        products = xp.empty(shape, dtype=z.dtype, device=z.device)
        real, imag = products[..., 0, :, :], products[..., 1, :, :]  # times the conjugates of 1, i
        real[..., 0], imag[..., 0] = first.real, first.imag
        real[..., 1], imag[..., 1] = zeroth.real, zeroth.imag
        real[..., 2], imag[..., 2] = -zeroth.imag, zeroth.real
        products *= 0.5
        return products.reshape(*xi.shape[:-1], 2, -1)

    def amplitude_systems(self, xi: Any) -> tuple[Any, Any]:
        """Normal equations of the amplitudes alone at m sets of frequencies, (m, K, 1), of one signal or of m signals.

        Returns:
            G, (m, 2K, 2K), and d, (m, 2K), in the order Re c_1..Re c_K, Im c_1..Im c_K; RSS = Σ x² − 2 d·c + c·G c.
        """
        (m, k), f, xp = xi.shape[:2], xi[..., 0], namespace(xi)
        several = len(self.energy) > 1
        matched = (self.matched(xi) if several else self.matched(xi[None])[0])[..., 0]  # (m, K)
        data = xp.stack([matched.real, matched.imag], 1)
        pairs = xp.stack([f[:, :, None] - f[:, None], f[:, :, None] + f[:, None]])
        turn = rotation(f, self.placed)
        own, column = turn[..., None], turn[:, :, None]
        rho = 0.5 * xp.stack([own * column.conj(), own * column], 1)
        minus, plus = window(pairs, self.placed, 1, rho)[0].sum(0)
        gram = xp.empty((m, 2, k, 2, k), dtype=f.dtype, device=f.device)
        gram[:, 0, :, 0] = minus.real + plus.real
        gram[:, 1, :, 1] = minus.real - plus.real
        gram[:, 0, :, 1] = minus.imag - plus.imag
        gram[:, 1, :, 0] = -minus.imag - plus.imag
        return gram.reshape(m, 2 * k, 2 * k), data.reshape(m, 2 * k)

    def gains(self, xi: Any, c: Any) -> Any:
        """RSS minus the data's energy of n draws, (B, n), at frequencies and amplitudes (B, n, K, 1) each."""
        if isinstance(xi, Tensor) and self.is_single(xi, c):
            return torch.from_numpy(self.gains(xi.detach().numpy(), c.detach().numpy()))
        xp, one = namespace(xi), self if isinstance(xi, Tensor) else self.in_numpy
        batch, n, k = xi.shape[:3]
        f, c = (_contiguous(xp.moveaxis(x[..., 0], 2, 0)) for x in (xi, c))  # (K, B, n)
        flat, total = f.swapaxes(0, 1).reshape(batch, k * n), 0.0
        for s, alone in enumerate(self._alone):
            offset, ratio = self.placed.offsets[s], self.ratios[s]
            local = c if offset == 0 else c * phasor(f * offset)
            local = local if ratio == 1 else local / ratio
            data = one._zeroth(s, flat).reshape(batch, k, n).swapaxes(0, 1)
            total = total + energy_of_tones(f, local, alone)
            total = total - 2 * (local.real * data.real + local.imag * data.imag).sum(0)
        return total

    def residuals(self, z: Any) -> list[Any]:
        """Each channel's data minus the tones z, (K, 3), over its noise ratio, (N_s,) each, of the first signal."""
        one = self if isinstance(z, Tensor) else self.in_numpy
        xi, c = self.waveform.unpack(z)
        return [
            one.series(s)[0] - component_sum(xi, c / ratio, grid, self.reference, self.waveform)
            for s, (grid, ratio) in enumerate(zip(self.grids, self.ratios, strict=True))
        ]

    def second_order(self, z: Array) -> Array:
        """Σ (x − m) ∂²m/∂z∂z of each tone, (K, 3, 3), for tones z, (K, 3), of the first signal."""
        (xi, c), bends = self.waveform.unpack(z), np.zeros((*z.shape, z.shape[-1]))
        f, turn = xi[None, :, 0], rotation(xi[:, 0], self.placed).conj()
        first, second = np.zeros(len(z), np.complex128), np.zeros(len(z), np.complex128)
        for s, (rest, grid) in enumerate(zip(self.residuals(z), self.grids, strict=True)):
            offset, data = self.placed.offsets[s], moment_data(fold(rest[None]), grid, 3)
            m_2, m_1, m_0 = moments([data], f, self._alone[s])[0, 0]
            first += turn[s] * (m_1 + offset * m_0)  # Σ r w e^{−2πifw}
            second += turn[s] * (m_2 + 2 * offset * m_1 + offset**2 * m_0)
        pull = DERIVATIVE * first.conj()
        bends[:, 0, 0] = (DERIVATIVE**2 * c[:, 0] * second.conj()).real
        bends[:, 0, 1] = bends[:, 1, 0] = pull.real
        bends[:, 0, 2] = bends[:, 2, 0] = -pull.imag
        return bends


def _contiguous(x: Any) -> Any:
    return x.contiguous() if isinstance(x, Tensor) else np.ascontiguousarray(x)
