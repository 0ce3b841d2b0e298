r"""Which components there are, K_c of each class, and their coordinates in one row.

A row z holds the coordinates (ξ, Re c, Im c) of all components, class by class, each class sorted by place. Of a
waveform that stands alone there is one class. The functions of time that a model is made of are linear in c and
log-linear in ξ (`signal/waveforms/base.py`): with the exponents g,

.. math:: m = \sum_k \sum_j c_{kj} b_j, \quad ∂m/∂ξ_d = \sum_j c_j g_{dj} b_j, \quad
          ∂^2 m/∂ξ_d ∂ξ_e = \sum_j c_j g_{dj} g_{ej} b_j, \quad ∂^2 m/∂ξ_d ∂c_j = g_{dj} b_j .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.exact.family.evenly import basis_evenly
from slotflow.signal.waveforms import Classes, Waveform

__all__ = ["Layout", "members_of"]


def members_of(waveform: Waveform) -> tuple[Waveform, ...]:
    """The waveforms of all classes; the waveform itself where there are none."""
    return tuple(waveform.members.values()) if isinstance(waveform, Classes) else (waveform,)


@dataclass(frozen=True)
class Layout:
    """Numbers of components of each class."""

    waveform: Waveform
    """What a component is, settled on the record."""
    reference: float
    """τ, in seconds."""
    counts: tuple[int, ...]
    """K_c, (C,)."""

    @cached_property
    def members(self) -> tuple[Waveform, ...]:
        """The waveform of each class."""
        return members_of(self.waveform)

    @property
    def k(self) -> int:
        """Number of components."""
        return sum(self.counts)

    @cached_property
    def size(self) -> int:
        """Length of a row."""
        pairs = zip(self.counts, self.members, strict=True)
        return sum(count * member.coordinates for count, member in pairs)

    def log_mass(self) -> float:
        """Logarithm of the prior's probability of these numbers among K components, K!/(C^K Π K_c!)."""
        labels = math.lgamma(self.k + 1) - sum(math.lgamma(count + 1) for count in self.counts)
        return labels - self.k * math.log(len(self.counts))

    def parts(self, z: Array) -> list[Array]:
        """Coordinates of each class, (..., K_c, Z_c), of rows, (..., d)."""
        found, first = [], 0
        for count, member in zip(self.counts, self.members, strict=True):
            last = first + count * member.coordinates
            found.append(z[..., first:last].reshape(*z.shape[:-1], count, member.coordinates))
            first = last
        return found

    def row(self, parts: Sequence[Array]) -> Array:
        """One row, (d,), of the coordinates of each class, (K_c, Z_c), each sorted by place."""
        ordered = [
            part[np.argsort(member.place_in_z(part), kind="stable")].ravel()
            for part, member in zip(parts, self.members, strict=True)
        ]
        return np.concatenate(ordered)

    def shape_columns(self) -> list[tuple[int, Waveform, int]]:
        """Columns of a row that hold shape parameters, with the member and the number of the parameter."""
        found, first = [], 0
        for count, member in zip(self.counts, self.members, strict=True):
            for _ in range(count):
                found += [(first + d, member, d) for d in range(len(member.shape))]
                first += member.coordinates
        return found

    def amplitude_pairs(self) -> list[tuple[tuple[int, int], float]]:
        """Columns of the real and the imaginary part of each amplitude, and how many shapes each stands for, D/M."""
        found, first = [], 0
        for count, member in zip(self.counts, self.members, strict=True):
            d, m = len(member.shape), member.amplitudes
            for _ in range(count):
                found += [((first + d + j, first + d + m + j), d / m) for j in range(m)]
                first += member.coordinates
        return found

    def theta(self, z: Array) -> Array:
        """θ of rows, (..., d), components in the order of their places, (..., K, P)."""
        found = []
        for i, (part, member) in enumerate(zip(self.parts(z), self.members, strict=True)):
            own = member.to_theta(part, self.reference)
            found.append(
                self.waveform.own_theta(i, own) if isinstance(self.waveform, Classes) else own
            )
        return self.waveform.sorted(np.concatenate(found, -2))

    def of_theta(self, theta: Array) -> Array:
        """Rows, (n, d), of θ in the order of places, (n, K, P), each with the numbers of components of this layout."""
        if not isinstance(self.waveform, Classes):
            return self.waveform.to_z(theta, self.reference).reshape(len(theta), self.size)
        parts, kind = [], self.waveform.class_of(theta)
        for i, (count, member) in enumerate(zip(self.counts, self.members, strict=True)):
            own = theta[kind == i].reshape(len(theta), count, theta.shape[-1])
            own = self.waveform.members_theta(i, own)
            parts.append(member.to_z(own, self.reference).reshape(len(theta), -1 if count else 0))
        return np.concatenate(parts, -1)

    def unphased(self, z: Array) -> Array:
        """The same with all phases 0: what a prior needs to know, (..., K, P)."""
        found = []
        for i, (part, member) in enumerate(zip(self.parts(z), self.members, strict=True)):
            own = member.without_phase(part[..., : len(member.shape)], member.moduli(part))
            found.append(
                self.waveform.own_theta(i, own) if isinstance(self.waveform, Classes) else own
            )
        return np.concatenate(found, -2)

    def is_sorted(self, z: Array) -> NDArray[np.bool_]:
        """Whether each class of a row is sorted by place, (...), bool, of (..., d)."""
        good = np.ones(z.shape[:-1], dtype=bool)
        for part, member in zip(self.parts(z), self.members, strict=True):
            good &= (np.diff(member.place_in_z(part), axis=-1) > 0).all(-1)
        return good

    # ------------------------------------------------------------------ functions of time

    def model(self, z: Array, t: Array) -> Complex:
        """Σ c b at instants since the reference, (n, M), of rows, (n, d)."""
        total = np.zeros((len(z), len(t)), dtype=np.complex128)
        for part, member in zip(self.parts(z), self.members, strict=True):
            xi, c = member.unpack(part)
            for k in range(part.shape[-2]):
                b = basis_evenly(member, t, xi[:, k])  # (n, J, M)
                total += np.einsum("nj,njt->nt", c[:, k], b)
        return total

    def basis(self, z: Array, t: Array) -> Complex:
        """The functions that amplitudes multiply, in the order of `amplitude_pairs`, (ΣK_c J_c, M), of one row."""
        found = [np.zeros((0, len(t)), dtype=np.complex128)]
        for part, member in zip(self.parts(z), self.members, strict=True):
            xi, _ = member.unpack(part)
            found.append(member.basis(t, xi).reshape(-1, len(t)))
        return np.concatenate(found)

    def slopes(self, z: Array, t: Array) -> Complex:
        """Derivatives of Σ c b by each coordinate, (d, M), of one row, (d,)."""
        found = [np.zeros((0, len(t)), dtype=np.complex128)]
        for part, member in zip(self.parts(z), self.members, strict=True):
            (xi, c), g = member.unpack(part), member.exponents(t)
            b = member.basis(t, xi)  # (K, J, M)
            by_shape = np.einsum("kj,djt,kjt->kdt", c, g, b)
            found.append(np.concatenate([by_shape, b, 1j * b], 1).reshape(-1, len(t)))
        return np.concatenate(found)

    def bends(self, z: Array, t: Array, weights: Complex) -> Array:
        """Σ_t Re(w ∂²(Σ c b)), (d, d), of one row; coordinates of different components do not meet."""
        found, first = np.zeros((self.size, self.size)), 0
        for part, member in zip(self.parts(z), self.members, strict=True):
            (xi, c), g = member.unpack(part), member.exponents(t)
            weighted = member.basis(t, xi) * weights  # (K, J, M)
            by_shapes = np.einsum("kj,djt,ejt,kjt->kde", c, g, g, weighted, optimize=True).real
            mixed = np.einsum("djt,kjt->kdj", g, weighted)
            d, m = len(member.shape), member.amplitudes
            for k in range(part.shape[-2]):
                own = found[first : first + part.shape[-1], first : first + part.shape[-1]]
                own[:d, :d] = by_shapes[k]
                own[:d, d : d + m], own[:d, d + m :] = mixed[k].real, -mixed[k].imag
                own[d:, :d] = own[:d, d:].T
                first += part.shape[-1]
        return found
