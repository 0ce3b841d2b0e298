r"""What a waveform knows.

A component is linear in its complex amplitudes given its shape ξ,

.. math:: m(t) = \Re \sum_j c_j\, b_j(t; ξ) , \qquad t \text{ counted from the reference time } τ

(no real part for complex data). Three descriptions of K components are in use, and only a waveform translates:

- **θ**, shape (..., K, P): what a person reads, amplitude and phase at t = 0, then the shape; P = `size`.
- **(ξ, c)**, shapes (..., K, D) and (..., K, M): what the likelihood takes; c refers to τ.
- **z**, shape (..., K, D + 2M): (ξ, Re c, Im c), the real coordinates in which the likelihood is nearly Gaussian; the
  phase at mid-record is hardly correlated with the frequency, the phase at t = 0 is.

All methods take NumPy arrays and torch tensors alike.

**Log-linear.** The functions of time of every waveform here are exponentials of sums that are linear in ξ,

.. math:: b_m(u; ξ) = \exp \sum_d ξ_d\, g_{dm}(u) , \qquad
          ∂_d b_m = g_{dm} b_m, \qquad ∂_d ∂_e b_m = g_{dm} g_{em} b_m ,

so that a waveform states its exponents g alone, and derivatives of any order follow.

**Settings.** A waveform knows the prior of its own shape parameters (`Range`); amplitudes, phases and places are the
prior's. `text` is a waveform with its settings in one line, as files and the command line have it.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

from slotflow.core.arrays import AnyArray, argsort, namespace, take_along
from slotflow.signal.waveforms.parameters import DATA_UNIT, Parameter
from slotflow.signal.waveforms.ranges import Range
from slotflow.signal.waveforms.recorded import Recorded
from slotflow.signal.waveforms.text import parsed

__all__ = ["DATA_UNIT", "Parameter", "Waveform", "zero_matrices"]


class Waveform(Recorded):
    """The form of a component."""

    name: ClassVar[str]
    """In files and on the command line."""
    internal: ClassVar[bool] = False
    """Whether it is made of other statements (classes, channels of a free gain) rather than named by a user."""
    parameters: tuple[Parameter, ...]
    """The columns of θ."""
    shape: tuple[str, ...]
    """Names of the parameters that are the columns of ξ."""
    amplitudes: int = 1
    """M, the number of complex amplitudes."""
    place: ClassVar[str] = "frequency"
    """Name of the parameter that orders components and tells them apart."""
    positive: tuple[str, ...] = ()
    """Shape parameters that are positive, and known to a factor rather than to a difference."""
    tau: float | None = None
    """τ in seconds, where the waveform was settled on a record (`on`) and its functions of time depend on it."""
    ranges: Mapping[str, Range] = {}
    """Prior of each shape parameter but the place, by its name."""

    # ------------------------------------------------------------------ settings

    kinds: ClassVar[dict[str, type[Waveform]]] = {}
    """Every waveform by its name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            Waveform.kinds[cls.name] = cls

    @staticmethod
    def of_text(text: str) -> Waveform:
        """The waveform that `text` wrote, or that a user wrote in the same form."""
        name, settings = parsed(text)
        if name not in Waveform.kinds:
            known = sorted(key for key, kind in Waveform.kinds.items() if not kind.internal)
            raise ValueError(f"expected a waveform, one of {', '.join(known)}, received {name!r}.")
        try:
            return Waveform.kinds[name].of_settings(**settings)
        except TypeError as error:
            wanted = list(inspect.signature(Waveform.kinds[name].__init__).parameters)[1:]
            unknown = [setting for setting in settings if setting not in wanted]
            received = f"the setting {', '.join(unknown)}" if unknown else repr(text)
            raise ValueError(
                f"{name}: expected settings ({', '.join(wanted) or 'none'}) as in 'chirp(drift=-1e-4:1e-4)', received "
                f"{received}."
            ) from error

    @classmethod
    def of_settings(cls, **settings: Any) -> Waveform:
        """The waveform of settings as a user writes them, by the names of the constructor's arguments."""
        return cls(**settings)

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings by the names of the constructor's arguments, as text."""
        return {name: law.text for name, law in self.ranges.items()}

    @property
    def text(self) -> str:
        """The waveform in one line: `tone`, `chirp(drift=-0.0001:0.0001)`."""
        inner = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.name}({inner})" if inner else self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Waveform) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text

    def on(self, start: float, reference: float) -> Self:
        """The same waveform, settled on a record.

        Args:
            start: When the record begins, in seconds.
            reference: τ, in seconds.
        """
        return self

    def drawn(self, column: Mapping[str, Any]) -> Mapping[str, Any]:
        """Shape parameters but the place, drawn from their prior.

        Args:
            column: Uniform numbers in [0, 1), any shape, by the name of the parameter.
        """
        return {name: law.draw(column[name]) for name, law in self.ranges.items()}

    def present(self, theta: AnyArray) -> AnyArray | None:
        """Which amplitudes components θ, (..., K, P), have, bool, (..., K, M); None: all of them."""
        return None

    def log_prior(self, theta: AnyArray) -> AnyArray:
        """Log prior of all shape parameters but the place, summed over components, (..., K, P) to (...)."""
        total: AnyArray = 0.0 * self.place_of(theta).sum(-1)
        for name, law in self.ranges.items():
            total = total + law.log_prob(self.of(theta, name)).sum(-1)
        return total

    # ------------------------------------------------------------------ layout

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of θ."""
        return tuple(p.name for p in self.parameters)

    @property
    def measured(self) -> tuple[Parameter, ...]:
        """The parameters that are quantities, which have a value and an error."""
        return tuple(p for p in self.parameters if not p.categorical)

    @property
    def size(self) -> int:
        """P, the number of columns of θ."""
        return len(self.parameters)

    @property
    def coordinates(self) -> int:
        """D + 2M, the number of columns of z."""
        return len(self.shape) + 2 * self.amplitudes

    @cached_property
    def amplitude_columns(self) -> tuple[int, ...]:
        """Columns of θ that hold amplitudes, (M,)."""
        return tuple(i for i, p in enumerate(self.parameters) if p.unit == DATA_UNIT)

    @cached_property
    def phase_columns(self) -> tuple[int, ...]:
        """Columns of θ that hold phases, (M,)."""
        return tuple(i for i, p in enumerate(self.parameters) if p.circular)

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

    def in_channel(self, theta: AnyArray, channel: str) -> tuple[Waveform, AnyArray]:
        """What components θ, (..., K, P), are in a channel of some name, before its gain: a waveform and its θ."""
        return self, theta

    # ------------------------------------------------------------------ functions of time

    def exponents(self, t: Any) -> Any:
        """The functions g of time in the exponents of b, complex, (D, M, N), at times (N,) since the reference."""
        raise NotImplementedError(f"the waveform {self.name!r} does not state its exponents.")

    def basis(self, t: Any, xi: Any) -> Any:
        """The functions b of time, complex.

        Args:
            t: Time since the reference, in seconds, (N,).
            xi: Shapes of components, (..., K, D).

        Returns:
            (..., K, M, N).
        """
        xp, g = namespace(xi), self.exponents(t)
        total = sum(xi[..., d, None, None] * g[d] for d in range(len(g)))
        return xp.exp(total)


def zero_matrices(like: AnyArray, rows: int, columns: int) -> AnyArray:
    """Zeros, (..., rows, columns), in the library, of the type and on the device of an array, (...)."""
    xp = namespace(like)
    row = xp.stack([xp.zeros_like(like)] * columns, -1)
    zeros: AnyArray = xp.stack([row] * rows, -2)
    return zeros
