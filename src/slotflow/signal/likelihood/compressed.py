r"""Data in a band as a few numbers in white noise: the likelihood of any waveform, under any sampling and noise.

**Numbers.** Tones e_r = e^{2πif_r u} at distances below a bin, over all that components may occupy and a guard beside
it, span what the data say of them. The likelihood of the data (`Statistics`, `GeneralTones`) knows the Gram matrix G of
their cosines and sines and the products d with the data, under any weights, filters and nuisances. With the
eigenvectors G = V Λ Vᵀ of all eigenvalues that are not rounding,

.. math:: y = Λ^{-1/2} V^T d , \qquad m = Λ^{1/2} V^T \binom{\Re a}{\Im a} , \qquad
          \mathrm{RSS} = ⟨x, x⟩ - |y|^2 + |y - m|^2

for a model Re Σ a_r e_r: y has as many entries as the data have degrees of freedom in the band, whose noise is white.

**Components.** A function b of time is such a sum too: its coefficients follow by least squares from its values at M
even instants of the record. Frequencies closer than 1/T make this a Fourier extension, which knows no period and
converges for every smooth function; at 0.7 bins, eight bins of guard and 1.5 instants a tone its error is below 1e-6 of
b, and 2e-5 at the ends of a chirp over 60 bins. All linear maps together are one matrix H, (r, M), and

.. math:: m = \Re\, H \sum_k \sum_j c_{kj}\, b_j(u; ξ_k) ,

so that a component costs M exponentials and a product, independent of the number of samples.

Real data see a tone at −f as the conjugate of one at f, so that a band near zero needs no exception; complex data tell
the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.data.observation import Observation
from slotflow.signal.likelihood.base import Likelihood
from slotflow.signal.waveforms import Waveform

__all__ = ["Compressed", "bins_needed", "compressed", "compressed_around", "shown_by"]

TONE_STEP = 0.7
"""Distance of the tones, in bins."""
GUARD = 8.0
"""Bins beside what components occupy that belong to the span."""
INSTANTS = 1.5
"""Instants for each tone at which functions of time are looked at."""
ALIAS_GAP = 8.0
"""Steps between the aliases of different intervals at these instants."""
ROUNDING = 1e-10
"""Eigenvalue of the Gram matrix, in units of the largest one, below which it is rounding."""
EXTENSION = 1e-10
"""Singular value of the tones at the instants, in units of the largest one, below which it is not used."""
MOST_TONES = 1500
"""Tones above which a band is too wide for this."""


@dataclass(frozen=True, eq=False)
class Compressed:
    """What the data say of components in a band, under one value of the noise's shape."""

    data: Array
    """y, (r,)."""
    image: Complex
    """H, (r, M)."""
    times: Array
    """Instants at which functions of time are looked at, since the reference, (M,)."""
    beside: float
    """Energy of the data outside the band, ⟨x, x⟩ − |y|²; where the noise is local, what is missing to its energy."""
    n: int
    """Real degrees of freedom of the data, inside the band and outside."""
    log_scale: float
    """Half the logarithm of the determinant of the noise's covariance over σ²."""
    log_weight: float
    """Logarithm of the prior's mass of this value of the noise's shape."""

    @property
    def energy(self) -> float:
        """Energy of all data, ⟨x, x⟩."""
        return self.beside + float(self.data @ self.data)

    def seen(self, functions: Any) -> Complex:
        """H applied to functions of time, (..., M) to (..., r): their part in the data is the real part."""
        found: Complex = functions @ self.image.T
        return found

    def shown(self, functions: Any) -> Array:
        """The real part of `seen`, at half its cost, (..., r)."""
        real, imag = self._parts
        found: Array = functions.real @ real - functions.imag @ imag
        return found

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """Real and imaginary part of H, (M, r) each."""
        return np.ascontiguousarray(self.image.real.T), np.ascontiguousarray(self.image.imag.T)

    def rss(self, model: Any) -> Array:
        """Residual sum of squares, (...), of models Σ c b at the instants, (..., M)."""
        left = self.data - self.shown(model)
        rss: Array = self.beside + np.einsum("...r,...r->...", left, left)
        return rss


def compressed(
    likelihood: Likelihood, observation: Observation, waveform: Waveform, band: tuple[float, float]
) -> list[Compressed]:
    """What an observation says of components of a waveform, one for each value of the noise's shape.

    Args:
        likelihood: Of tones in the observation, anywhere in what the components occupy.
        observation: Whose samples these are.
        waveform: The form of a component.
        band: Bounds of the components' places, in Hz.
    """
    intervals = _checked(waveform.occupied(band, likelihood.duration), observation)
    span = _Span(likelihood, observation, intervals, GUARD)
    return [span.compressed(node) for node in (likelihood, *likelihood.nodes)]


def compressed_around(
    likelihood: Likelihood,
    observation: Observation,
    intervals: Sequence[tuple[float, float]],
    guard: float = GUARD,
) -> Compressed:
    """What an observation says of whatever lies in some intervals, under one value of the noise's shape.

    Args:
        likelihood: Of tones in the observation; its other nodes do not count.
        observation: Whose samples these are.
        intervals: Frequencies in Hz.
        guard: Bins beside each interval that belong to the span.
    """
    return _Span(likelihood, observation, intervals, guard).compressed(likelihood)


class _Span:
    """Tones that span what lies in some intervals, and the functions of time that they are."""

    def __init__(
        self,
        likelihood: Likelihood,
        observation: Observation,
        intervals: Sequence[tuple[float, float]],
        guard: float,
    ) -> None:
        first, last = (t - likelihood.reference for t in _ends(observation))
        step = TONE_STEP / max(last - first, likelihood.duration)
        f = _tones(intervals, guard * likelihood.bin, step)
        if len(f) > MOST_TONES:
            raise ValueError(
                f"expected components in at most {MOST_TONES * TONE_STEP:.0f} bins of 1/T, received a band that needs "
                f"{len(f) * TONE_STEP:.0f} of them; narrow the band (Prior.frequency, --band)."
            )
        self.f, self.times = f, np.linspace(first, last, _instants(f, last - first, step))
        functions = np.exp(2j * np.pi * np.outer(self.times, f))
        self.extension = _inverse(functions)
        self.mirrored = (f < 0) & (not observation.is_complex)

    def compressed(self, node: Likelihood) -> Compressed:
        """The data under one value of the noise's shape."""
        return _one(node, self.f, self.mirrored, self.times, self.extension)


def _one(
    likelihood: Likelihood,
    f: Array,
    mirrored: NDArray[np.bool_],
    times: Array,
    extension: Complex,
) -> Compressed:
    """The same for one value of the noise's shape; mirrored frequencies are conjugates of their negatives."""
    plain = likelihood.in_numpy
    seen = np.where(mirrored, -f, f)
    gram, data = (x[0] for x in plain.amplitude_systems(seen[None, :, None]))
    sign = np.concatenate([np.ones(len(f)), np.where(mirrored, -1.0, 1.0)])
    values, vectors = _eigen(gram * sign * sign[:, None])
    kept = values > ROUNDING * values[-1]
    root = np.sqrt(values[kept])
    y = (vectors[:, kept].T @ (sign * data)) / root
    turned = root[:, None] * vectors[:, kept].T  # (r, 2R)
    image = (turned[:, : len(f)] - 1j * turned[:, len(f) :]) @ extension
    energy = float(plain.energy[0])
    return Compressed(
        y,
        image,
        times,
        energy - float(y @ y),
        likelihood.n,
        likelihood.log_scale,
        likelihood.log_weight,
    )


def _inverse(functions: Complex) -> Complex:
    """Coefficients of tones for values at the instants, (R, M), from the tones' own values there, (M, R).

    Divide and conquer does not always converge here either (`_eigen`).
    """
    try:
        inverse: Complex = torch.linalg.pinv(torch.from_numpy(functions), rtol=EXTENSION).numpy()
    except RuntimeError:
        u, s, v = scipy.linalg.svd(functions, full_matrices=False, lapack_driver="gesvd")
        kept = s > EXTENSION * s[0]
        inverse = (v[kept].conj().T / s[kept]) @ u[:, kept].conj().T
    return inverse


def _eigen(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, (n,), and eigenvectors, (n, n), of a symmetric matrix, (n, n).

    Divide and conquer, which is the fastest, does not always converge where many eigenvalues are rounding. torch
    computes with as many threads as it was told; NumPy would take every core, in each of many processes.
    """
    try:
        values, vectors = (x.numpy() for x in torch.linalg.eigh(torch.from_numpy(matrix)))
    except RuntimeError:  # what torch raises then
        values, vectors = scipy.linalg.eigh(matrix, driver="ev")
    return values, vectors


def _tones(intervals: Sequence[tuple[float, float]], guard: float, step: float) -> Array:
    """Frequencies in Hz that cover intervals and a guard beside each, at most a step apart, (R,).

    Intervals whose aliases could not be told apart, as they are too close themselves, become one.
    """
    wide = sorted((low - guard, high + guard) for low, high in intervals)
    joined = [wide[0]]
    for low, high in wide[1:]:
        if low <= joined[-1][1] + (ALIAS_GAP + 1) * step:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return np.concatenate([np.linspace(a, b, int((b - a) / step) + 2) for a, b in joined])


def _instants(f: Array, span: float, step: float) -> int:
    """How many even instants over some seconds tell frequencies, (R,), apart.

    Sets of neighbours whose aliases overlap are one to these instants, and sets whose aliases touch serve as each
    other's guard, which they are not at other instants: aliases of different sets stay `ALIAS_GAP` steps apart.

    Args:
        f: In Hz.
        span: From the first instant to the last, in seconds.
        step: Distance of neighbours in Hz.
    """
    fewest = int(INSTANTS * len(f))
    number = np.cumsum(np.diff(f, prepend=f[0]) > 1.1 * step)  # of the set that each belongs to
    if number[-1] == 0:
        return fewest
    widest = max(fewest, int(INSTANTS * (f[-1] - f[0]) / step))
    for count in range(fewest, widest):
        rate = (count - 1) / span
        folded = f % rate
        order = np.argsort(folded)
        gaps = np.diff(folded[order], append=folded[order[0]] + rate) / step
        leaves = number[order] != number[np.roll(order, -1)]
        if leaves.sum() == number[-1] + 1 and gaps[leaves].min() > ALIAS_GAP:
            return count
    return widest


def bins_needed(intervals: Sequence[tuple[float, float]], observation: Observation) -> float:
    """How many bins of 1/T components in some intervals need, the guard included."""
    (first, last), duration = _ends(observation), observation.long.duration
    step = TONE_STEP / max(last - first, duration)
    return TONE_STEP * len(_tones(intervals, GUARD / duration, step))


def shown_by(observation: Observation) -> tuple[float, float]:
    """Lowest and highest frequency in Hz that the samples can show a component at; complex ones go on periodically."""
    if observation.is_complex:
        return -np.inf, np.inf
    even = [channel.nyquist for channel in observation.channels if channel.is_even]
    return 0.0, min(even, default=np.inf)


def _ends(observation: Observation) -> tuple[float, float]:
    """The first and the last instant of all channels, in seconds."""
    first = min(float(channel.times[0]) for channel in observation.channels)
    return first, max(float(channel.times[-1]) for channel in observation.channels)


def _checked(
    intervals: list[tuple[float, float]], observation: Observation
) -> list[tuple[float, float]]:
    """The same intervals; refused where components leave what the samples can show."""
    low, high = min(a for a, _ in intervals), max(b for _, b in intervals)
    lowest, highest = shown_by(observation)
    if low < lowest or high > highest:
        raise ValueError(
            f"expected components that stay between 0 and {highest:.6g} Hz, received a prior under which they reach "
            f"{low:.6g} to {high:.6g} Hz (the band, and how far they drift, decay or have harmonics); narrow it."
        )
    return intervals
