r"""The prior p(K) p(Θ | K) p(σ): one object to draw from and to evaluate.

Training, exact inference and the classical samplers must agree on the prior, so all of them take it from here.

A tone is θ = (A, φ, f); other waveforms have more columns, whose prior they know themselves (`signal/waveforms/`).
Amplitudes and phases are independent. Frequencies are uniform over the allowed set

.. math:: \{ f \in [f_{lo}, f_{hi}]^K : |f_i - f_j| \ge s \ \text{for all}\ i \ne j \} .

**Drawing.** Sort K uniforms on the shortened band [0, W − (K−1)s], W = f_hi − f_lo, and shift the i-th of them by i·s.
The map has unit Jacobian and reaches every sorted allowed tuple once, so the result is uniform over the allowed set:
no rejection, and never fewer than K components.

**Density.** The sorted allowed set has the volume (W − (K−1)s)^K / K!. There are K! labellings, so the density of a
labelled tuple is (W − (K−1)s)^{−K} inside the allowed set and zero outside.

**Noise level.** σ is uniform between its bounds. Equal bounds state a known level s: a point mass, with respect to
which the density is 1 at s and zero elsewhere, so that p(x | Θ, K) = N(x; model, s²) and nothing is integrated.

`Prior` is one prior. `PriorBatch` holds one for each signal of a batch, as tensors; both draw by the same formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from slotflow.signal.prior_batch import PriorBatch
from slotflow.signal.prior_draws import check_common, draw_k, draw_theta, normalized, uniform
from slotflow.signal.waveforms import TONE, Classes, Waveform, waveform_named

__all__ = ["Prior", "batch_of"]


@dataclass(frozen=True)
class Prior:
    """Prior over the number of components, their parameters and the noise level, in the data's units.

    The defaults are the paper's (section 5.1.1).

    Args:
        k_min: Smallest number of components.
        k_max: Largest number of components.
        k_probs: p(K) for K = k_min..k_max, normalized on construction; uniform if None.
        amplitude: Bounds of A.
        frequency: Bounds of f, in Hz; below 0 for complex data alone, which tell f from −f. A band of theirs that wraps
            around is stated beyond the Nyquist frequency: (0.4, 0.6) at one sample a second is 0.4–0.5 and −0.5–−0.4.
        min_separation: Smallest allowed distance between two frequencies, in Hz.
        sigma: Bounds of the noise level σ, which is uniform between them; (s, s) with s > 0 is a known level. It is
            that of the long stream: `Channel.sigma` says how the streams' levels compare. The networks take the noise
            from the data; what the prior says of it counts in the exact step and in the baselines.
        amplitude_law: "uniform" or "loguniform".
        waveform: What a component is, with the prior of its shape: Chirp(drift=(-1e-4, 1e-4)); or its text.
        classes: Waveforms by the names of their classes, instead of one waveform: each component is of one class.
    """

    k_min: int = 1
    k_max: int = 10
    k_probs: tuple[float, ...] | None = None
    amplitude: tuple[float, float] = (0.5, 1.5)
    frequency: tuple[float, float] = (2.5, 3.0)
    min_separation: float = 0.01
    sigma: tuple[float, float] = (0.0, 1.5)
    amplitude_law: str = "uniform"
    waveform: Waveform = TONE
    classes: InitVar[Mapping[str, Waveform] | None] = None

    def __post_init__(self, classes: Mapping[str, Waveform] | None) -> None:
        object.__setattr__(self, "waveform", _waveform(self.waveform, classes))
        members = self.waveform.members if isinstance(self.waveform, Classes) else None
        object.__setattr__(self, "classes", members)
        check_common(self.k_min, self.k_max, self.amplitude_law)
        for name in ("amplitude", "frequency", "sigma"):
            object.__setattr__(self, name, _bounds(name, getattr(self, name)))
        if self.amplitude_law == "loguniform" and self.amplitude[0] <= 0:
            raise ValueError(
                f"A log-uniform amplitude needs a lower bound above 0, received "
                f"amplitude={self.amplitude}; raise the bound or use amplitude_law='uniform'."
            )
        number = isinstance(self.min_separation, int | float | np.number)
        if not (number and math.isfinite(self.min_separation) and self.min_separation >= 0):
            raise ValueError(
                f"Prior expects a finite min_separation >= 0, received {self.min_separation}."
            )
        if self.room(self.k_max) <= 0:
            raise ValueError(
                f"{self.k_max} components at a separation of {self.min_separation} Hz do not fit "
                f"into the band {self.frequency} Hz; lower k_max or min_separation."
            )
        if self.k_probs is not None:
            probs = normalized(self.k_probs, self.k_min, self.k_max, "k_probs")
            object.__setattr__(self, "k_probs", tuple(probs.tolist()))

    @classmethod
    def paper(cls) -> Prior:
        """The paper's prior (section 5.1.1): 1 to 10 tones, A in 0.5–1.5, f in 2.5–3 Hz, 0.01 Hz apart, σ below 1.5.

        A field that `Prior(...)` is not given has the same value.
        """
        return cls()

    # ------------------------------------------------------------------ p(K)

    @property
    def k_probs_full(self) -> NDArray[np.float64]:
        """p(K) as an array of shape (k_max + 1,) whose index is K."""
        full = np.zeros(self.k_max + 1)
        n = self.k_max - self.k_min + 1
        full[self.k_min :] = np.full(n, 1.0 / n) if self.k_probs is None else self.k_probs
        return full

    def sample_k(self, n: int, generator: torch.Generator) -> Tensor:
        """Draws K, shape (n,), int64, on the generator's device."""
        return draw_k(self.k_min, self.k_max, self.k_probs, n, generator)

    def log_prob_k(self, k: ArrayLike | Tensor) -> Tensor:
        """Log p(K), same shape as k; −inf outside the range."""
        k = torch.as_tensor(k)
        table = torch.as_tensor(self.k_probs_full, device=k.device).log()
        inside = (k >= 0) & (k <= self.k_max)
        return torch.where(inside, table[k.clamp(0, self.k_max).long()], -math.inf)

    # ------------------------------------------------------------------ p(Θ | K)

    def sample_theta(self, k: Tensor, generator: torch.Generator) -> Tensor:
        """Draws Θ given K, components in the order of their frequencies.

        Args:
            k: Number of components of each draw, shape (n,), int64.
            generator: Source of randomness; must live on the device of k.

        Returns:
            θ, shape (n, k_max, P), float64; zeros where a draw has fewer components.
        """
        return draw_theta(
            k,
            self.k_max,
            self.amplitude,
            self.frequency,
            self.min_separation,
            self.amplitude_law,
            generator,
            self.waveform,
        )

    def log_prob_theta(self, theta: ArrayLike | Tensor) -> Tensor:
        """Log p(Θ | K) of labelled tuples, per unit of (A, rad, Hz).

        Args:
            theta: Of K components, shape (..., K, P), φ taken modulo 2π.

        Returns:
            Log density, shape (...), float64; −inf outside the support.
        """
        theta, waveform = torch.as_tensor(theta).double(), self.waveform
        if theta.ndim < 2 or theta.shape[-1] != waveform.size:
            raise ValueError(
                f"theta must have the shape (..., K, {waveform.size}), received {tuple(theta.shape)}."
            )
        k = theta.shape[-2]
        amplitude = theta[..., list(waveform.amplitude_columns)]  # (..., K, M)
        present = waveform.present(theta)
        frequency = waveform.of(theta, "frequency").sort(dim=-1).values
        if k > 0 and self.room(k) <= 0:
            return theta.new_full(theta.shape[:-2], -math.inf)
        (a_lo, a_hi), (f_lo, f_hi) = self.amplitude, self.frequency
        good = (amplitude >= a_lo) & (amplitude <= a_hi)
        phases: float | Tensor = float(k * amplitude.shape[-1])  # each amplitude has a phase
        if present is not None:
            good, phases = (
                torch.where(present, good, amplitude == 0),
                present.sum((-2, -1)).double(),
            )
        inside = good.all(-1).all(-1)
        inside &= ((frequency >= f_lo) & (frequency <= f_hi)).all(-1)
        inside &= (frequency.diff(dim=-1) >= self.min_separation).all(-1)

        log_prob = theta.new_zeros(inside.shape) - phases * math.log(2 * math.pi)
        if k > 0:
            log_prob -= k * math.log(self.room(k))
        if self.amplitude_law == "loguniform":
            log_prob -= phases * math.log(math.log(a_hi / a_lo))
            logs = amplitude.clamp_min(a_lo).log()
            log_prob -= (logs if present is None else torch.where(present, logs, 0.0)).sum((-2, -1))
        else:
            log_prob -= phases * math.log(a_hi - a_lo)
        if waveform is not TONE:
            log_prob += waveform.log_prior(theta)
        return torch.where(inside, log_prob, -math.inf)

    # ------------------------------------------------------------------ p(σ)

    @property
    def known_sigma(self) -> float | None:
        """The noise level where it is known (equal bounds), else None."""
        low, high = self.sigma
        return low if low == high else None

    def sample_sigma(self, n: int, generator: torch.Generator) -> Tensor:
        """Draws σ, shape (n,), float64, on the generator's device."""
        lo, hi = self.sigma
        u = torch.rand(n, generator=generator, device=generator.device, dtype=torch.float64)
        return uniform(lo, hi, u)

    def log_prob_sigma(self, sigma: ArrayLike | Tensor) -> Tensor:
        """Log p(σ), same shape as sigma, float64; −inf outside the bounds, and 0 at a known level."""
        sigma = torch.as_tensor(sigma, dtype=torch.float64)
        lo, hi = self.sigma
        inside = (sigma >= lo) & (sigma <= hi)
        log_density = 0.0 if self.known_sigma is not None else -math.log(hi - lo)
        return torch.where(inside, sigma.new_full((), log_density), -math.inf)

    # ------------------------------------------------------------------ helpers

    def batch(self, n: int, device: str | torch.device = "cpu") -> PriorBatch:
        """This prior for each of n signals, on a device, without waiting for it."""
        if n < 0:
            raise ValueError(f"Prior.batch expects n >= 0 signals, received {n}.")
        if self.waveform != TONE:
            raise ValueError(
                f"Prior.batch expects a prior of tones, received {self.waveform.text!r}; batches of priors serve "
                "networks that know tones alone."
            )

        def rows(*values: float) -> Tensor:
            columns = [torch.full((n,), v, dtype=torch.float64, device=device) for v in values]
            return torch.stack(columns, dim=1)  # (n, number of values)

        return PriorBatch(
            self.k_min,
            self.k_max,
            self.k_probs,
            rows(*self.amplitude),
            rows(*self.frequency),
            rows(self.min_separation)[:, 0],
            rows(*self.sigma),
            self.amplitude_law,
        )

    def room(self, k: int) -> float:
        """Length of the shortened band for k components, in Hz."""
        return self.frequency[1] - self.frequency[0] - (k - 1) * self.min_separation


def batch_of(priors: Sequence[Prior], device: str | torch.device = "cpu") -> PriorBatch:
    """One given prior for each signal; p(K) and the amplitude's law are those of the first.

    Args:
        priors: At least one.
        device: Where the bounds live.
    """
    common = priors[0]
    if all(prior is common for prior in priors):
        return common.batch(len(priors), device)

    def column(name: str) -> Tensor:
        rows = [getattr(prior, name) for prior in priors]
        return torch.tensor(rows, dtype=torch.float64).to(device)

    return PriorBatch(
        k_min=common.k_min,
        k_max=common.k_max,
        k_probs=common.k_probs,
        amplitude=column("amplitude"),
        frequency=column("frequency"),
        min_separation=column("min_separation"),
        sigma=column("sigma"),
        amplitude_law=common.amplitude_law,
    )


def _waveform(stated: Waveform | str, classes: Any) -> Waveform:
    """What a component is, from one waveform, its text, or several classes of them."""
    waveform = waveform_named(stated) if isinstance(stated, str) else stated
    if not isinstance(waveform, Waveform):
        raise ValueError(
            f"Prior expects waveform as Tone(), Chirp(...), Damped(...) or Harmonic(...), received {waveform!r}."
        )
    if classes is None:
        return TONE if waveform == TONE else waveform
    if not isinstance(classes, Mapping) or not all(isinstance(name, str) for name in classes):
        raise ValueError(
            "Prior expects classes as waveforms by their names, such as {'tone': Tone(), 'ring': Damped(rate=(0.01, "
            f"0.2))}}, received {classes!r}."
        )
    several = Classes(**classes)
    if waveform not in (TONE, several):
        raise ValueError(
            f"Prior expects one waveform or several classes, received waveform={waveform!r} and "
            f"classes={dict(classes)!r}; give one of the two."
        )
    return several


def pair_of(name: str, value: Any) -> tuple[float, float]:
    """Two finite bounds of a field as floats; of σ also one number, where it is known."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        known = name == "sigma" and np.ndim(value) == 0
        pair = tuple(float(v) for v in ((value, value) if known else value))
    except (TypeError, ValueError):
        pair = ()
    if len(pair) != 2 or not all(map(math.isfinite, pair)):
        one = ", or one number where it is known" if name == "sigma" else ""
        raise ValueError(
            f"Prior expects {name} as two finite bounds such as (0.5, 1.5){one}, received {value!r}."
        )
    return pair[0], pair[1]


def _bounds(name: str, value: Any) -> tuple[float, float]:
    """Checks the bounds of a field and returns them as floats; those of σ may be equal, those of f below 0."""
    low, high = pair_of(name, value)
    point, signed = name == "sigma", name == "frequency"
    if (signed or low >= 0) and (low < high or (point and low == high > 0)):
        return low, high
    known = ", or twice the same one above 0 where it is known" if point else ""
    order = "lower < upper" if signed else "0 <= lower < upper"
    raise ValueError(
        f"Prior expects {name} as two finite bounds with {order}{known}, received {value!r}."
    )
