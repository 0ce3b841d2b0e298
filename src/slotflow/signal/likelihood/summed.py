r"""Sums over samples with different gains, weights and nuisances, from curves: what the general likelihood is made of.

A tone is Re c b(u), b = g(f) e^{2πifu}, u = t − τ (no real part for complex data); ∂b/∂f = (g′ + 2πiu g) e^{2πifu}.
Both are α_0 e + α_1 u e with e = e^{2πifu}, so that with the moments of the sampling W_p(f) = Σ w u^p e^{2πifu}, known
as curves (`curves.py`), all inner products of functions i and j of tones at f_a and f_b are

.. math:: P_{ij} = \bar α_{0i} α_{0j} W_0 + (\bar α_{0i} α_{1j} + \bar α_{1i} α_{0j}) W_1 + \bar α_{1i} α_{1j} W_2
          - \sum_q \bar v_{iq} v_{jq} \quad \text{at } f_b - f_a ,

and Q_ij the same without bars at f_a + f_b; v are the functions' products with the nuisances' columns (`samples.py`).
Samples with different gains are summed over one after the other. Nothing depends on the number of samples once the
curves are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import Array, Complex
from slotflow.signal.likelihood import curves
from slotflow.signal.likelihood.base import Likelihood
from slotflow.signal.likelihood.curves import Curve, Moments, MomentsOver
from slotflow.signal.likelihood.products import Equations, Products
from slotflow.signal.likelihood.samples import Samples

__all__ = ["TURN", "SummedTones"]

TURN = 2j * math.pi
"""∂/∂f of e^{2πifu} over u e^{2πifu}."""
UNSEEN = 1e-9
"""A nuisance's share of a tone's energy below which the two are orthogonal."""


class SummedTones(Likelihood):
    """Inner products of tones with each other and with the data of one signal."""

    samples: list[Samples]
    """Samples that share a gain, together."""
    columns: Array
    """Columns of the nuisances at all samples, (q, N)."""
    complex: bool
    """Whether the samples are complex."""
    band: tuple[float, float]
    """Lowest and highest frequency in Hz that tones may have."""

    @cached_property
    def _spreads(self) -> list[curves.Spread]:
        """How each group's values spread over even grids."""
        return [curves.spread_of(s.u) for s in self.samples]

    @cached_property
    def _windows(self) -> list[tuple[Moments, Moments | None]]:
        """W_0, W_1 and W_2 of each group, at differences and at sums of frequencies."""
        (low, high), found = self.limits, []
        for spread, s in zip(self._spreads, self.samples, strict=True):
            near = curves.window_moments(spread, s.weights, (0.0, high - low), mirrored=True)
            far = None
            if not self.complex:
                far = curves.window_moments(spread, s.weights, (2 * low, 2 * high))
            found.append((near, far))
        return found

    @cached_property
    def _over_band(self) -> list[MomentsOver]:
        """The way from each group's values to their moments in the band."""
        return [MomentsOver(spread, self.limits) for spread in self._spreads]

    @cached_property
    def _data(self) -> list[Moments]:
        """Conjugates of Σ w x̄ u^p e^{2πifu} of each group, p = 0 and 1."""
        return [
            over(s.weights * s.values.conj(), 2)
            for over, s in zip(self._over_band, self.samples, strict=True)
        ]

    @cached_property
    def _nuisances(self) -> list[Moments] | None:
        """Σ w U u^p e^{2πifu} of each group, p = 0 and 1, (…, q, 2); None where no tone of the band sees them."""
        return self._nuisance_moments(2)

    @cached_property
    def _nuisance_sums(self) -> list[Curve] | None:
        """The same for p = 0 alone, (…, q), at half the price where nothing is fitted."""
        found = (
            vars(self)["_nuisances"] if "_nuisances" in vars(self) else self._nuisance_moments(1)
        )
        return None if found is None else [one.zeroth for one in found]

    def _nuisance_moments(self, count: int) -> list[Moments] | None:
        """Σ w U u^p e^{2πifu} of each group for so many powers; None where no tone of the band sees them."""
        if not len(self.columns):
            return None
        found: list[Moments] = []
        seen: Any = 0.0
        total: Any = 0.0
        first = self._over_band[0]
        grid = first.grid[:-1]
        for over, spread, s in zip(self._over_band, self._spreads, self.samples, strict=True):
            moments = curves.kept_moments(spread, s.weights * s.columns, self.limits, count)
            gain = s.gain(grid)
            column = moments.zeroth.powers[0] if over is first else moments.zeroth(grid)
            seen = seen + np.abs(column * gain[:, None]) ** 2
            total = total + float(s.weights.sum()) * np.abs(gain)[:, None] ** 2
            found.append(moments)
        kept = np.asarray(seen / total).max(0) > UNSEEN  # (q,)
        if not kept.any():
            return None
        return [Moments(m.zeroth.part(kept), m.every.part(kept)) for m in found]

    def products(self, xi: Any) -> Products:
        """Inner products of the tones' functions with each other and with the data, at frequencies (B, K, 1)."""
        f = np.asarray(xi)[..., 0]
        batch, k = f.shape
        gram = np.zeros((2, batch, 2, k, 2, k), dtype=np.complex128)
        data = np.zeros((batch, 2, k), dtype=np.complex128)
        minus, plus = f[:, None] - f[..., None], f[:, None] + f[..., None]  # f_l ∓ f_k
        seen: Any = 0.0
        for i, s in enumerate(self.samples):
            alpha = self._alpha(s, f)  # (2 powers, B, 2, K)
            near, far = self._windows[i]
            gram[0] += _gram(alpha.conj(), alpha, near.every(minus))
            if far is not None:
                gram[1] += _gram(alpha, alpha, far.every(plus))
            moments = self._data[i].every(f).conj()  # (B, K, 2)
            data += np.einsum("pbjk,bkp->bjk", alpha.conj(), moments)
            if self._nuisances is not None:
                part = self._nuisances[i].every(f)  # (B, K, q, 2)
                seen = seen + np.einsum("pbjk,bkqp->bjkq", alpha, part)
        if self._nuisances is not None:
            gram[0] -= np.einsum("bikq,bjlq->bikjl", seen.conj(), seen)
            if not self.complex:
                gram[1] -= np.einsum("bikq,bjlq->bikjl", seen, seen)
        if not self.complex:
            gram *= 0.5
        own = gram[:, None, :, 1:, :, 1:, :]  # (2, S = 1, B, M, K, M, K)
        return Products(gram, data, own, data[None, :, 1:])

    def _alpha(self, s: Samples, f: Array) -> Complex:
        """What ∂b/∂f and b are of e and u e, (2, B, 2, K): the power of u first, then which function."""
        g, slope = s.gain(f), s.gain(f, 1)
        none = np.zeros_like(g)
        found: Complex = np.stack([np.stack([slope, g], -2), np.stack([TURN * g, none], -2)])
        return found

    def equations(self, xi: Any, c: Any) -> Equations:
        """RSS with its first derivatives and the Gauss–Newton matrix; see `Likelihood.equations`."""
        if isinstance(xi, Tensor):
            found = self.products(xi.detach().numpy()).equations(c.detach().numpy())
            return Equations(*(torch.from_numpy(x) for x in found))
        return self.products(xi).equations(c)

    def matched(self, xi: Any) -> Any:
        """Σ b̄(ξ) x over all samples, (B, ..., 1), at frequencies (B, ..., 1)."""
        f = np.asarray(xi)
        total: Any = 0.0
        for s, moments in zip(self.samples, self._data, strict=True):
            total = total + (s.gain(f) * moments.zeroth(f)).conj()
        return torch.from_numpy(total) if isinstance(xi, Tensor) else total

    def kernel(self, distance: Any) -> Any:
        """`overlap` as a function of the distance alone: with the gains' mean squares, and without nuisances."""
        f, total = np.linspace(*self.band, 65), np.zeros(1, dtype=np.complex128)
        for i, s in enumerate(self.samples):
            square = float(np.mean(np.abs(s.gain(f)) ** 2))
            total = total + square * self._windows[i][0].zeroth(distance)
        return 2 * total if self.complex else total

    def overlap(self, xi_a: Any, xi_b: Any) -> Any:
        """P, or 2P of complex data, at frequencies that broadcast, (..., 1) each; (..., 1, 1)."""
        a, b = np.broadcast_arrays(xi_a, xi_b)
        total: Any = 0.0
        left: Any = 0.0
        right: Any = 0.0
        for i, s in enumerate(self.samples):
            g_a, g_b = s.gain(a).conj(), s.gain(b)
            total = total + g_a * g_b * self._windows[i][0].zeroth(b - a)
            if self._nuisances is not None:
                curve = self._nuisances[i].zeroth
                left = left + (g_a.conj()[..., None] * curve(a))
                right = right + g_b[..., None] * curve(b)
        if self._nuisances is not None:
            total = total - (left.conj() * right).sum(-1)
        return (2 * total if self.complex else total)[..., None]

    def own_overlap(self, f: Array) -> Array:
        """`overlap` of tones with themselves, at frequencies of any shape; same shape."""
        total: Any = 0.0
        seen: Any = 0.0
        for i, s in enumerate(self.samples):
            g = s.gain(f)
            total = total + np.abs(g) ** 2 * float(self._windows[i][0].zeroth(np.zeros(1))[0].real)
            if self._nuisances is not None:
                seen = seen + g[..., None] * self._nuisances[i].zeroth(f)
        if self._nuisances is not None:
            total = total - (np.abs(seen) ** 2).sum(-1)
        own: Array = 2 * total if self.complex else total
        return own

    def coupling(self, xi: Array, z: Array) -> Array:
        """Products of a tone's derivatives by Re c and Im c with those of others, without Q; (G, 2, K·3)."""
        others, c = self.waveform.unpack(z)
        one, f = xi[:, 0][:, None], others[:, 0][None]  # (G, 1), (1, K)
        zeroth: Any = 0.0
        first: Any = 0.0
        for i, s in enumerate(self.samples):
            g = s.gain(one).conj()
            w = self._windows[i][0].every(f - one)
            zeroth = zeroth + g * s.gain(f) * w[..., 0]
            first = first + g * (s.gain(f, 1) * w[..., 0] + TURN * s.gain(f) * w[..., 1])
        first = first * c[:, 0]
        found = np.empty((len(xi), 2, *z.shape))
        for column, h in enumerate((first, zeroth, 1j * zeroth)):
            found[:, 0, :, column], found[:, 1, :, column] = h.real, h.imag
        return (found if self.complex else 0.5 * found).reshape(len(xi), 2, -1)

    def amplitude_systems(self, xi: Array) -> tuple[Array, Array]:
        """Normal equations of the amplitudes alone at m sets of frequencies, (m, K, 1); see `EvenTones`."""
        f = xi[..., 0]
        windows = [
            (
                near.zeroth(f[:, None] - f[..., None]),
                None if far is None else far.zeroth(f[:, None] + f[..., None]),
            )
            for near, far in self._windows
        ]
        return self._amplitude_systems(f, windows)

    def even_amplitude_system(self, f: Array, unit: Any = 1.0) -> tuple[Array, Array]:
        """The same for one set of evenly spaced frequencies, (K,), whose differences and sums are few; without m.

        Phases are those in the middle of the first group's samples, after its filter: where these are even and alike,
        cosines and sines are then orthogonal. Amplitudes are in the units 1/`unit`, (K,).
        """
        k, step, first = len(f), float(f[1] - f[0]), self.samples[0]
        turn = np.exp(-TURN * np.remainder(0.5 * (first.u[0] + first.u[-1]) * f, 1.0))
        gain = first.gain(f)
        turn *= ((np.abs(gain) / gain) if np.abs(gain).min() > 0 else 1.0) / unit
        differences = step * np.arange(1 - k, k, dtype=np.float64)
        sums = 2 * float(f[0]) + step * np.arange(2 * k - 1, dtype=np.float64)
        rows = np.lib.stride_tricks.sliding_window_view  # of a Hankel matrix
        windows = [
            (
                rows(near.zeroth(differences), k)[None, ::-1],
                None if far is None else rows(far.zeroth(sums), k)[None],
            )
            for near, far in self._windows
        ]
        gram, data = self._amplitude_systems(f[None], windows, turn)
        return gram[0], data[0]

    def _amplitude_systems(
        self, f: Array, windows: Sequence[tuple[Complex, Complex | None]], turn: Any = 1.0
    ) -> tuple[Array, Array]:
        """The same at frequencies (m, K), given W_0 at their differences and sums, (m, K, K) each, of each group.

        `turn` is a factor of each tone, (K,).
        """
        m, k = f.shape
        minus: Any = 0.0
        plus: Any = np.zeros((1, 1, 1), dtype=np.complex128)
        data = np.zeros((m, k), dtype=np.complex128)
        seen: Any = 0.0
        for i, (s, (near, far)) in enumerate(zip(self.samples, windows, strict=True)):
            g = s.gain(f) * turn
            part = _scaled(near, g.conj(), g)
            minus = part + minus if i else part
            if far is not None:
                part = _scaled(far, g, g)
                plus = part + plus if i else part
            data += (g * self._data[i].zeroth(f)).conj()
            if self._nuisances is not None:
                seen = seen + g[..., None] * self._nuisances[i].zeroth(f)  # (m, K, q)
        if self._nuisances is not None:
            part = np.asarray(seen)
            minus -= part.conj() @ part.mT
            plus -= 0.0 if self.complex else part @ part.mT
        gram = np.empty((m, 2, k, 2, k))
        np.add(minus.real, plus.real, out=gram[:, 0, :, 0])
        np.subtract(minus.real, plus.real, out=gram[:, 1, :, 1])
        np.add(minus.imag, plus.imag, out=gram[:, 0, :, 1])
        np.negative(gram[:, 0, :, 1], out=gram[:, 0, :, 1])
        np.subtract(minus.imag, plus.imag, out=gram[:, 1, :, 0])
        gram *= 1.0 if self.complex else 0.5
        both = np.stack([data.real, data.imag], 1)
        return gram.reshape(m, 2 * k, 2 * k), both.reshape(m, 2 * k)

    def gains(self, xi: Any, c: Any) -> Any:
        """RSS minus the data's energy of n draws, (1, n), at frequencies and amplitudes (1, n, K, 1) each."""
        if isinstance(xi, Tensor):
            return torch.from_numpy(self.gains(xi.detach().numpy(), c.detach().numpy()))
        f, c = (np.ascontiguousarray(np.moveaxis(x[..., 0], 2, 0)) for x in (xi, c))  # (K, B, n)
        total, seen, left = np.zeros(f.shape[1:]), 0.0, 0.0
        upper = np.triu_indices(len(f), 1)
        for i, s in enumerate(self.samples):
            local = c * s.gain(f)
            near, far = self._windows[i]
            own = near.zeroth(np.zeros(1))[0].real * np.abs(local) ** 2
            a, b = local[upper[0]], local[upper[1]]
            pairs = 2 * (a.conj() * b * near.zeroth(f[upper[1]] - f[upper[0]])).real
            energy = own.sum(0) + pairs.sum(0)
            if far is not None:
                energy = energy + (local**2 * far.zeroth(2 * f)).real.sum(0)
                energy = energy + 2 * (a * b * far.zeroth(f[upper[0]] + f[upper[1]])).real.sum(0)
                energy = 0.5 * energy
            total += energy
            left = left + (local * self._data[i].zeroth(f)).real.sum(0)
            if self._nuisance_sums is not None:
                seen = seen + (local[..., None] * self._nuisance_sums[i](f)).sum(0)  # (B, n, q)
        total -= 2 * left
        if self._nuisance_sums is not None:
            part = np.asarray(seen)
            total -= (np.abs(part) ** 2 if self.complex else part.real**2).sum(-1)
        return total


def _gram(left: Complex, right: Complex, w: Complex) -> Complex:
    """Σ over powers of u of α_i α_j W, (B, 2, K, 2, K), with W_0, W_1 and W_2 in (B, K, K, 3)."""
    total: Complex = np.zeros(1, dtype=np.complex128)
    for i in range(2):
        for j in range(2):
            both = left[i][..., None, None] * right[j][:, None, None]
            total = total + both * w[..., i + j][:, None, :, None]
    return total


def _scaled(w: Complex, left: Complex, right: Complex) -> Complex:
    """Matrices (m, K, K) with their rows and columns times factors, (m, K) each."""
    found: Complex = w * right[:, None]
    found *= left[..., None]
    return found
