r"""What every part of the package asks of data and a waveform: one object per batch of observations.

Data are channels s with the samples x_s(t) and noise of the level σ r_s,

.. math:: x_s(t) = \Re \sum_k \sum_m c_{km}\, b_m(t - τ; ξ_k) + ε, \quad ε \sim N(0, (σ r_s)^2)

(no real part for complex data; noise of other shapes enters through the inner product). With n samples in all and RSS =
Σ_s Σ_t |x_s − m_s|²/r_s²,

.. math:: \log L = -\frac{\mathrm{RSS}}{2σ^2} - n \log σ - \sum_s n_s \log r_s - \frac n2 \log 2π .

RSS, its derivatives and the Gauss–Newton matrix follow from inner products of the functions (b, ∂b/∂ξ) with each other
and with the data (`products.py`). An instance knows how to sum over its samples: `even.py` has closed forms for tones
on even grids, `dense.py` writes everything out and is what the others are tested against.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from slotflow.core.arrays import namespace
from slotflow.signal.likelihood.products import Equations, Products
from slotflow.signal.waveforms import Waveform

__all__ = ["Likelihood"]


class Likelihood(ABC):
    """The likelihood of B signals that were sampled alike."""

    waveform: Waveform
    """The form of each component."""
    reference: float
    """τ, the instant that complex amplitudes refer to, in seconds."""
    energy: Any
    """Σ |x|²/r² over all channels, (B,)."""
    removed: int = 0
    """Components that were fitted to the data and taken out of them before: each took its degrees of freedom."""
    nodes: tuple[Likelihood, ...] = ()
    """The likelihood under other values of what is unknown of the noise's shape (`signal/noise/model.py`)."""
    log_weight: float = 0.0
    """Logarithm of the prior's mass of this value among `nodes`."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of real degrees of freedom of the data of one signal: that of its samples, if they are real."""

    @property
    def duration(self) -> float:
        """Length T of the first channel in seconds; 1/T is the bin."""
        raise NotImplementedError

    @property
    def bin(self) -> float:
        """1/T of the first channel, in Hz."""
        return 1 / self.duration

    @property
    def limits(self) -> tuple[float, float]:
        """Frequencies in Hz between which components are told apart."""
        raise NotImplementedError

    @property
    def period(self) -> float:
        """Distance in Hz of frequencies that are one and the same to the data; inf where there are none."""
        return math.inf

    @property
    def weight(self) -> float:
        """Twice the energy of a component of unit amplitude, `overlap` with itself; the mean over the band."""
        raise NotImplementedError

    def weight_at(self, place: Any) -> Any:
        """The same at given places (frequencies of tones); same shape."""
        return namespace(place).full_like(place, self.weight)

    def kernel(self, distance: Any) -> Any:
        """`overlap` as a function of the distance of two places alone, as far as it is one; same shape.

        Proposals, which need not be exact, ask for this.
        """
        raise NotImplementedError

    @property
    def in_numpy(self) -> Any:
        """The same in NumPy arrays."""
        raise NotImplementedError

    @property
    def span(self) -> float:
        """Twice the time from the reference to the furthest sample, in seconds."""
        raise NotImplementedError

    @property
    def repeats(self) -> bool:
        """Whether all signals are one and the same, whose tables serve a batch of NumPy arrays."""
        return False

    def take(self, index: Any) -> Any:
        """The signals of an index, shape (B',), int64, or of a mask, shape (B,), bool."""
        raise NotImplementedError

    def less(self, z: Any) -> Any:
        """One signal with components z, (K, Z), taken out of its data."""
        raise NotImplementedError

    def amplitude_systems(self, xi: Any) -> tuple[Any, Any]:
        """Normal equations of the amplitudes alone at m sets of shapes, (m, K, D), of one signal.

        Returns:
            G, (m, 2KM, 2KM), and d, (m, 2KM), in the order of all Re c, then all Im c; RSS = Σ x² − 2 d·c + c·G c.
        """
        raise NotImplementedError

    def apart(self, xi: Any) -> tuple[Any, Any] | None:
        """What is gained by components at shapes (m, K, D) in channels where their amplitudes are integrated out.

        Returns:
            By how much RSS falls, and the logarithm of the volume that the integral leaves of the amplitudes' prior,
            (m,) each; None where there is no such channel.
        """
        return None

    def strength_apart(self, z: Any) -> Any | None:
        """Squared SNR of each of K components z, (K, Z), for σ = 1 in the channels of `apart`, (K,), or None."""
        return None

    def apart_with_one_more(self, z: Any, place: Any) -> tuple[Any, Any] | None:
        """What one more tone at each of some places, (G,), adds to `apart` of tones z, (K, Z); (G,) each, or None."""
        xi, _ = self.waveform.unpack(z)
        without = self.apart(xi[None])
        if without is None:
            return None
        xp = namespace(xi)
        sets = xp.concat([xp.stack([xi] * len(place)), place[:, None, None]], 1)
        gain, log_volume = self.apart(sets) or without
        return gain - without[0], log_volume - without[1]

    @property
    @abstractmethod
    def log_scale(self) -> float:
        """Σ_s n_s ln r_s: half the logarithm of the determinant of the noise's covariance over σ²."""

    @abstractmethod
    def products(self, xi: Any) -> Products:
        """Inner products of the components' functions with each other and with the data, at shapes (B, K, D)."""

    @abstractmethod
    def matched(self, xi: Any) -> Any:
        """Σ b̄(ξ) x over all channels, (B, ..., M), at any number of shapes, (B, ..., D)."""

    @abstractmethod
    def overlap(self, xi_a: Any, xi_b: Any) -> Any:
        """Twice the inner product of components of unit amplitudes, (..., M, M), at shapes, (..., D), that broadcast.

        For real data that is P = Σ b̄(ξ_a) b(ξ_b) over all channels (Q is left out), for complex data 2P.
        """

    @abstractmethod
    def coupling(self, xi: Any, z: Any) -> Any:
        """Products of a component's derivatives by Re c and Im c with those of K others by all their coordinates.

        The sum over products of two oscillations (Q) is left out: next to the one over their quotients (P) it is of the
        relative size 1/fT. Proposals, which need not be exact, ask for this.

        Args:
            xi: Shapes of the one component, (G, D).
            z: The others, (K, Z).

        Returns:
            (G, 2M, K·Z).
        """

    @abstractmethod
    def residuals(self, z: Any) -> list[Any]:
        """Each channel's data minus components z, (K, Z), over its noise ratio, (N_s,) each, of the first signal."""

    @abstractmethod
    def second_order(self, z: Any) -> Any:
        """Σ (x − m) ∂²m/∂z∂z of each component, (K, Z, Z), for components z, (K, Z), of the first signal.

        JᵀJ less these blocks is half the Hessian of RSS.
        """

    def equations(self, xi: Any, c: Any) -> Equations:
        """RSS with its first derivatives and the Gauss–Newton matrix.

        Args:
            xi: Shapes, (B, K, D), float64.
            c: Complex amplitudes referred to τ, (B, K, M); 0 for a component that does not exist.
        """
        return self.products(xi).equations(c)

    def rss(self, theta: Any, mask: Any = None) -> Any:
        """Residual sum of squares, differentiable.

        Args:
            theta: Components, (B, n, K, P) or (B, K, P), float64.
            mask: Which components exist, (B, K) or the shape of theta without its last axis, bool; None: all.

        Returns:
            (B, n) or (B,).
        """
        if theta.ndim == 3:
            per_signal = None if mask is None else mask[:, None]
            return self.rss(theta[:, None], per_signal)[:, 0]
        if mask is not None and mask.ndim < theta.ndim - 1:
            mask = mask[:, None]
        gains = self.gains(*self.waveform.split_masked(theta, self.reference, mask))
        return self.energy[:, None] + gains

    def to_z(self, theta: Any) -> Any:
        """Coordinates of components θ, (..., K, P), sorted by place; (..., K, Z)."""
        return self.waveform.to_z(self.waveform.sorted(theta), self.reference)

    def to_theta(self, z: Any) -> Any:
        """θ of coordinates z, (..., K, Z)."""
        return self.waveform.to_theta(z, self.reference)

    def gains(self, xi: Any, c: Any) -> Any:
        """RSS minus the data's energy of n draws of each signal, (B, n).

        Args:
            xi: Shapes, (B, n, K, D).
            c: Complex amplitudes referred to τ, (B, n, K, M).
        """
        xp, n = namespace(xi), xi.shape[1]
        each = [self.equations(xi[:, i], c[:, i]).gain for i in range(n)]
        return xp.stack(each, 1)

    def log_likelihood(self, theta: Any, sigma: Any, mask: Any = None) -> Any:
        """Log L of B signals under n draws of Θ each, differentiable.

        Args:
            theta: Components, (B, n, K, P) or (B, K, P), float64.
            sigma: Noise level, (B,), or (B, n) for one per draw.
            mask: Which components exist, (B, K) or the shape of theta without its last axis, bool; None: all.

        Returns:
            (B, n) or (B,).
        """
        rss = self.rss(theta, mask)
        return self.log_likelihood_of_rss(rss, sigma if sigma.ndim == rss.ndim else sigma[:, None])

    def log_likelihood_of_rss(self, rss: Any, sigma: Any) -> Any:
        """Log L given RSS and σ, which broadcast against each other."""
        constant = 0.5 * self.n * math.log(2 * math.pi) + self.log_scale
        return -0.5 * rss / sigma**2 - self.n * namespace(sigma).log(sigma) - constant
