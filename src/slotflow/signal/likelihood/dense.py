r"""The likelihood written out: any instants, any noise covariance, any waveform, real or complex data.

Nothing here is fast, and nothing is derived: basis functions are evaluated at every sample, their derivatives are those
of automatic differentiation, and inner products are sums over samples under the inverse of the noise's covariance. What
another instance of `Likelihood` says in closed form must agree with this one.

With the covariance σ² C of all samples of a signal and the Cholesky factor C = L Lᵀ, x, b and ∂b/∂ξ are whitened by
L⁻¹, after which ⟨a, b⟩ = Σ ā b. White noise of level σ r_s has L = r_s on the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from slotflow.data.sampling import Sampling
from slotflow.signal.likelihood.base import Likelihood
from slotflow.signal.likelihood.products import Products
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Dense"]


class Dense(Likelihood):
    """The likelihood of B signals by brute force, in torch.

    Args:
        series: Data of each channel, (B, N_s) each, real or complex.
        samplings: When each channel was sampled.
        covariances: Covariance of each channel's noise over σ², (N_s, N_s) each; the identity if None.
        waveform: The form of a component.
        reference: τ, in seconds; the first channel's mid-time if None.
    """

    def __init__(
        self,
        series: Sequence[Tensor],
        samplings: Sequence[Sampling],
        covariances: Sequence[Tensor] | None = None,
        waveform: Waveform = TONE,
        reference: float | None = None,
    ) -> None:
        self.samplings, self.waveform = tuple(samplings), waveform
        self.complex = series[0].is_complex()
        kind = torch.complex128 if self.complex else torch.float64
        shapes = covariances or [torch.eye(s.n, dtype=torch.float64) for s in samplings]
        self.factors = [torch.linalg.cholesky(c.double()) for c in shapes]
        self.reference = samplings[0].mid_time if reference is None else reference
        self.data = [
            _whitened(factor, x.to(kind)) for factor, x in zip(self.factors, series, strict=True)
        ]
        self.energy = torch.stack([(x.abs() ** 2).sum(-1) for x in self.data]).sum(0)

    @property
    def n(self) -> int:
        """Number of samples of all channels of one signal."""
        return sum(sampling.n for sampling in self.samplings)

    @property
    def log_scale(self) -> float:
        """Half the logarithm of the determinant of the noise's covariance over σ²."""
        return float(sum(factor.diagonal().log().sum() for factor in self.factors))

    def basis(self, s: int, xi: Tensor) -> Tensor:
        """The whitened b of components in a channel, (..., M, N), at shapes (..., D)."""
        t = torch.as_tensor(self.samplings[s].times - self.reference)
        return _whitened(self.factors[s], self.waveform.basis(t, xi))

    def functions(self, s: int, xi: Tensor) -> Tensor:
        """The whitened (∂b/∂ξ, b) of components in a channel, (..., J, N), at shapes (..., D)."""

        def parts(flat: Tensor) -> Tensor:
            return torch.view_as_real(self.basis(s, flat))

        flat = xi.reshape(-1, xi.shape[-1])
        rows = []
        for d in range(xi.shape[-1]):
            along = torch.zeros_like(flat)
            along[:, d] = 1.0
            slope: Tensor = torch.func.jvp(parts, (flat,), (along,))[1]
            rows.append(torch.view_as_complex(slope.contiguous()))
        every = torch.cat([*rows, self.basis(s, flat)], -2)  # (shapes, J, N)
        return every.reshape(*xi.shape[:-1], *every.shape[1:])

    def products(self, xi: Tensor) -> Products:
        """Inner products of the functions with each other and with the data, at shapes (B, K, D)."""
        batch, k, d = xi.shape
        m = self.waveform.amplitudes
        grams, data = [], []
        for s, x in enumerate(self.data):
            h = self.functions(s, xi).transpose(1, 2).flatten(1, 2)  # (B, J·K, N)
            p, q = h.conj() @ h.mT, h @ h.mT
            both = torch.stack([p, 0 * q]) if self.complex else 0.5 * torch.stack([p, q])
            size = ((d + 1) * m, k)
            grams.append(both.reshape(2, batch, *size, *size))
            data.append((h.conj() @ x.to(h.dtype)[..., None]).reshape(batch, *size))
        gram, seen, own = torch.stack(grams, 1), torch.stack(data), d * m
        return Products(gram.sum(1), seen.sum(0), gram[:, :, :, own:, :, own:], seen[:, :, own:], d)

    def matched(self, xi: Tensor) -> Tensor:
        """Σ b̄(ξ) x over all channels, (B, ..., M), at shapes (B, ..., D)."""
        total = torch.zeros((), dtype=torch.complex128)
        for s, x in enumerate(self.data):
            b = self.basis(s, xi)
            x = x.to(b.dtype).reshape(len(x), *(1,) * (b.ndim - 2), -1)
            total = total + (b.conj() * x).sum(-1)
        return total

    def overlap(self, xi_a: Tensor, xi_b: Tensor) -> Tensor:
        """Σ b̄(ξ_a) b(ξ_b) over all channels, (..., M, M), at shapes that broadcast, (..., D) each."""
        total = torch.zeros((), dtype=torch.complex128)
        for s in range(len(self.data)):
            a, b = self.basis(s, xi_a), self.basis(s, xi_b)
            total = total + a.conj() @ b.mT
        return 2 * total if self.complex else total

    def coupling(self, xi: Tensor, z: Tensor) -> Tensor:
        """Products of one component's derivatives with those of others, without Q; see `Likelihood.coupling`."""
        (others, c), (d, m) = (
            self.waveform.unpack(z),
            (len(self.waveform.shape), self.waveform.amplitudes),
        )
        total = torch.zeros((), dtype=torch.float64)
        for s in range(len(self.data)):
            b = self.basis(s, xi)  # (G, M, N)
            h = self.functions(s, others)  # (K, J, N)
            by_shape = (c[:, None, :, None] * h[:, : d * m].reshape(len(h), d, m, -1)).sum(2)
            by_z = torch.cat([by_shape, h[:, d * m :], 1j * h[:, d * m :]], 1).flatten(0, 1)
            both = torch.cat([b, 1j * b], 1)  # (G, 2M, N)
            total = total + (both.conj() @ by_z.mT).real
        return total if self.complex else 0.5 * total

    def model(self, s: int, z: Tensor) -> Tensor:
        """The whitened sum of components z, (K, Z), in a channel, (N_s,)."""
        xi, c = self.waveform.unpack(z)
        t = torch.as_tensor(self.samplings[s].times - self.reference)
        total = (c[..., None] * self.waveform.basis(t, xi)).sum((0, 1))
        return _whitened(self.factors[s], (total if self.complex else total.real)[None])[0]

    def residuals(self, z: Any) -> list[Any]:
        """Each channel's whitened data minus components z, (K, Z), (N_s,) each, of the first signal."""
        return [x[0] - self.model(s, torch.as_tensor(z)) for s, x in enumerate(self.data)]

    def second_order(self, z: Tensor) -> Tensor:
        """Σ (x − m) ∂²m/∂z∂z of each component, (K, Z, Z), for components z, (K, Z), of the first signal."""
        rests = self.residuals(z)

        def projected(one: Tensor) -> Tensor:
            parts = [
                (rest.conj() * self.model(s, one[None])).real.sum() for s, rest in enumerate(rests)
            ]
            return torch.stack(parts).sum()

        blocks = [torch.func.hessian(projected)(one) for one in z]
        size = self.waveform.coordinates
        return torch.stack(blocks) if blocks else torch.zeros(0, size, size, dtype=torch.float64)


def _whitened(factor: Tensor, rows: Tensor) -> Tensor:
    """L⁻¹ x of each row, same shape."""
    if not rows.numel():
        return rows
    flat = rows.reshape(-1, rows.shape[-1]).mT
    white: Tensor = torch.linalg.solve_triangular(factor.to(flat.dtype), flat, upper=False)
    return white.mT.reshape(rows.shape)
