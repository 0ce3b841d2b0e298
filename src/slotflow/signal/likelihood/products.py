r"""From inner products of basis functions to the normal equations, for any waveform, sampling and noise.

A component k has J complex functions h: the derivatives ∂b_m/∂ξ_d of its basis, then the basis b_m itself. The model is
m = Re Σ c_m b_m over all components (without Re for complex data), and all that the likelihood needs of the samples is

.. math:: P_{ij} = \sum \bar h_i h_j, \qquad Q_{ij} = \sum h_i h_j, \qquad D_i = \sum \bar h_i x ,

sums over samples and channels under the noise's inner product. For real data

.. math:: ⟨\Re a h_i, \Re b h_j⟩ = \tfrac12 \Re(\bar a b P_{ij} + a b Q_{ij}), \qquad
          ⟨\Re a h_i, x⟩ = \Re(\bar a D_i) ;

complex data have ⟨a h_i, b h_j⟩ = Re(ā b P_ij) and no Q. The model's derivative by ξ_d is Re Σ_m c_m ∂b_m/∂ξ_d, those
by Re c_m and Im c_m are Re b_m and Re i b_m: the rest is algebra that knows neither times nor noise.

All functions take NumPy arrays and torch tensors alike. Symbols for shapes: B signals, S channels, K components, D
shape parameters, M amplitudes, J = (D + 1) M functions and Z = D + 2M coordinates of a component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from slotflow.core.arrays import namespace

__all__ = ["Equations", "Products"]


class Equations(NamedTuple):
    """The normal equations of B signals with K components, in z = (ξ, Re c, Im c) of one component after the other."""

    gain: Any
    """RSS minus the data's energy, (B,)."""
    slope: Any
    """Jᵀ(x − m), (B, K·Z)."""
    matrix: Any
    """JᵀJ, (B, K·Z, K·Z)."""


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of K components' functions with each other and with the data; what depends on ξ alone."""

    gram: Any
    """½P and ½Q for real data, P and 0 for complex data, summed over channels, (2, B, J, K, J, K)."""
    data: Any
    """D summed over channels, (B, J, K)."""
    channel_gram: Any
    """The same as `gram` of the b_m alone, of each channel, (2, S, B, M, K, M, K)."""
    channel_data: Any
    """D of the b_m of each channel, (S, B, M, K)."""
    shape_size: int = 1
    """D."""
    factor: complex = 1.0
    """What the functions that stand for derivatives are multiplied with to be the derivatives."""

    def equations(self, c: Any) -> Equations:
        """The normal equations at complex amplitudes (B, K, M)."""
        xp, c = namespace(c), c.mT  # (B, M, K)
        (batch, m, k), d = c.shape, self.shape_size
        inner = d * m
        towards = self.gram[..., inner:, :].reshape(2, *self.data.shape, m * k)
        seen = (towards @ c.reshape(batch, 1, m * k, 1))[..., 0]  # (2, B, J, K)
        rest = self.data - (seen[0] + seen[1].conj())
        own = rest[:, inner:]
        gain = -(c.conj() * (self.data[:, inner:] + own)).real.sum((-2, -1))
        turned = self.factor * xp.concat([c] * d, 1) if d > 1 else self.factor * c  # (B, D·M, K)
        pull = (turned.conj() * rest[:, :inner]).real
        both = self.gram * 1.0  # a copy, whose derivatives get their amplitudes
        both[0, :, :inner] *= turned.conj()[..., None, None]
        both[1, :, :inner] *= turned[..., None, None]
        both[..., :inner, :] *= turned[:, None, None]
        if m > 1:  # the derivative by ξ_d takes all amplitudes together
            pull = pull.reshape(batch, d, m, k).sum(2)
            both = _joined(_joined(both, 2, d, m), 4, d, m)
        plus, minus = both[0] + both[1], both[0, :, d:] - both[1, :, d:]
        top = xp.concat([plus.real, -plus.imag[..., d:, :]], -2)  # (B, D + M, K, Z, K)
        bottom = xp.concat([minus.imag, minus.real[..., d:, :]], -2)  # (B, M, K, Z, K)
        matrix = xp.concat([top, bottom], 1)
        size = matrix.shape[1] * k
        slope = xp.concat([pull, own.real, own.imag], 1).mT  # (B, K, Z)
        matrix = matrix.swapaxes(1, 2).swapaxes(3, 4)  # (B, K, Z, K, Z)
        return Equations(gain, slope.reshape(batch, size), matrix.reshape(batch, size, size))

    def rest(self, c: Any) -> Any:
        """Each channel's residual filtered by each component, Σ b̄ (x − m), (S, B, K, M), at amplitudes (B, K, M)."""
        c = c.mT
        (batch, m, k), channels = c.shape, self.channel_data.shape[0]
        towards = self.channel_gram.reshape(2, channels, batch, m * k, m * k)
        seen = (towards @ c.reshape(batch, m * k, 1)).reshape(2, *self.channel_data.shape)
        return (self.channel_data - (seen[0] + seen[1].conj())).mT


def _joined(both: Any, axis: int, d: int, m: int) -> Any:
    """Sums over the amplitudes of the derivatives' functions on one axis of length (D + 1)·M: D + M are left."""
    xp = namespace(both)
    first = [slice(None)] * both.ndim
    last = list(first)
    first[axis], last[axis] = slice(None, d * m), slice(d * m, None)
    part = both[tuple(first)]
    part = part.reshape(*part.shape[:axis], d, m, *part.shape[axis + 1 :]).sum(axis + 1)
    return xp.concat([part, both[tuple(last)]], axis)
