r"""What a waveform knows.

A component is linear in its complex amplitudes given its shape ξ,

.. math:: m(t) = \Re \sum_j c_j\, b_j(t; ξ) , \qquad t \text{ counted from the reference time } τ

(no real part for complex data). Three descriptions of K components are in use, and only a waveform translates:

- **θ**, shape (..., K, P): what a person reads, amplitude and phase at t = 0, then the shape; P = `size`.
- **(ξ, c)**, shapes (..., K, D) and (..., K, M): what the likelihood takes; c refers to τ.
- **z**, shape (..., K, D + 2M): (ξ, Re c, Im c), the real coordinates in which the likelihood is nearly Gaussian; the
  phase at mid-record is hardly correlated with the frequency, the phase at t = 0 is.

All methods take NumPy arrays and torch tensors alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from slotflow.core.arrays import AnyArray, argsort, namespace, take_along

__all__ = ["DATA_UNIT", "Parameter", "Waveform"]

DATA_UNIT = "data"
"""Unit of a parameter that is measured in whatever the samples are."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a component, as a person reads it."""

    name: str
    """In tables and files."""
    symbol: str
    """In formulas and pictures."""
    unit: str
    """Of its values; `DATA_UNIT` for that of the samples."""
    circular: bool = False
    """Whether it is an angle in [0, 2π), whose mean is taken on the circle."""


class Waveform(ABC):
    """The form of a component."""

    name: ClassVar[str]
    """In files and on the command line."""
    parameters: ClassVar[tuple[Parameter, ...]]
    """The columns of θ."""
    shape: ClassVar[tuple[str, ...]]
    """Names of the parameters that are the columns of ξ."""
    amplitudes: ClassVar[int] = 1
    """M, the number of complex amplitudes."""
    place: ClassVar[str] = "frequency"
    """Name of the parameter that orders components and tells them apart."""

    # ------------------------------------------------------------------ layout

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of θ."""
        return tuple(p.name for p in self.parameters)

    @property
    def size(self) -> int:
        """P, the number of columns of θ."""
        return len(self.parameters)

    @property
    def coordinates(self) -> int:
        """D + 2M, the number of columns of z."""
        return len(self.shape) + 2 * self.amplitudes

    def column(self, name: str) -> int:
        """The column of θ that holds a parameter."""
        if name not in self.names:
            raise ValueError(
                f"expected a parameter of a {self.name}, {self.names}, received {name!r}."
            )
        return self.names.index(name)

    def of(self, theta: AnyArray, name: str) -> AnyArray:
        """A parameter of components, (..., K, P) to (..., K)."""
        return theta[..., self.column(name)]

    def place_of(self, theta: AnyArray) -> AnyArray:
        """The parameter that orders components, (..., K, P) to (..., K)."""
        return theta[..., self.column(self.place)]

    def sorted(self, theta: AnyArray) -> AnyArray:
        """Components in the order of their places, same shape."""
        order = argsort(self.place_of(theta))
        return take_along(theta, order[..., None], -2)

    def units(self, data_unit: str) -> tuple[str, ...]:
        """Units of the columns of θ, given that of the samples."""
        return tuple(data_unit if p.unit == DATA_UNIT else p.unit for p in self.parameters)

    # ------------------------------------------------------------------ the three descriptions

    @abstractmethod
    def split(self, theta: AnyArray, reference: float) -> tuple[AnyArray, AnyArray]:
        """Shape ξ, (..., K, D), and complex amplitudes at the reference time, (..., K, M), of θ, (..., K, P)."""

    @abstractmethod
    def join(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """θ, (..., K, P), of ξ, (..., K, D), and c, (..., K, M)."""

    def split_masked(
        self, theta: AnyArray, reference: float, mask: AnyArray | None = None
    ) -> tuple[AnyArray, AnyArray]:
        """`split` with zeros for components outside a mask, (..., K), bool, whatever θ says of them."""
        if mask is None:
            return self.split(theta, reference)
        return self.split(namespace(theta).where(mask[..., None], theta, 0.0), reference)

    @abstractmethod
    def jacobian(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """Derivatives of θ by z, (..., K, P, D + 2M), at ξ, (..., K, D), and c, (..., K, M) without zeros."""

    @abstractmethod
    def inverse_jacobian(self, theta: AnyArray, reference: float) -> AnyArray:
        """Derivatives of z by θ, (..., K, D + 2M, P), at θ, (..., K, P)."""

    def pack(self, xi: AnyArray, c: AnyArray) -> AnyArray:
        """Coordinates z, (..., K, D + 2M)."""
        packed: AnyArray = namespace(xi).concat([xi, c.real, c.imag], -1)
        return packed

    def unpack(self, z: AnyArray) -> tuple[AnyArray, AnyArray]:
        """ξ and c of z."""
        d, m = len(self.shape), self.amplitudes
        return z[..., :d], z[..., d : d + m] + 1j * z[..., d + m :]

    def simple(self, z: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The one shape parameter and the one complex amplitude, (..., K) each, of coordinates z.

        For what is written for components of one shape parameter and one amplitude, tables over a band above all.
        """
        xi, c = self.unpack(z)
        return xi[..., 0], c[..., 0]

    def from_simple(self, place: AnyArray, c: AnyArray) -> AnyArray:
        """Coordinates z, (..., K, D + 2M), of one shape parameter and one complex amplitude, (..., K) each."""
        return self.pack(place[..., None], c[..., None])

    def place_in_z(self, z: AnyArray) -> AnyArray:
        """The parameter that orders components, (..., K, D + 2M) to (..., K)."""
        return z[..., self.shape.index(self.place)]

    def moduli(self, z: AnyArray) -> AnyArray:
        """|c|, (..., K, M), of coordinates z."""
        d, m = len(self.shape), self.amplitudes
        moduli: AnyArray = namespace(z).hypot(z[..., d : d + m], z[..., d + m :])
        return moduli

    @abstractmethod
    def without_phase(self, xi: AnyArray, modulus: AnyArray) -> AnyArray:
        """θ, (..., K, P), of ξ, (..., K, D), and |c|, (..., K, M), with all phases 0: what a prior needs to know."""

    def to_z(self, theta: AnyArray, reference: float) -> AnyArray:
        """Coordinates z of θ, (..., K, P), in the order in which the components are given."""
        return self.pack(*self.split(theta, reference))

    def to_theta(self, z: AnyArray, reference: float) -> AnyArray:
        """θ of coordinates z, (..., K, D + 2M)."""
        return self.join(*self.unpack(z), reference)

    # ------------------------------------------------------------------ functions of time

    @abstractmethod
    def basis(self, t: Any, xi: Any) -> Any:
        """The functions b of time, complex.

        Args:
            t: Time since the reference, in seconds, (N,).
            xi: Shapes of components, (..., K, D).

        Returns:
            (..., K, M, N).
        """

    @abstractmethod
    def scales(self, duration: float) -> tuple[float, ...]:
        """By how much each ξ must change to make a difference over a record of some length: its bin, (D,)."""
