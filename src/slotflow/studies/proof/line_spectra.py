r"""Complex line spectra under the protocol of DeepFreq, and the distance by which its authors compare estimates.

**Signals** (Izacard, Mohan and Fernandez-Granda, NeurIPS 2019, and the test set of their repository). N = 50 complex
samples of K tones, K uniform on 1..10,

.. math:: s_t = \sum_k a_k e^{i(2π f_k t + φ_k)}, \quad a_k = |g_k| + 0.1, \quad g_k \sim N(0, 1),

with uniform phases. The first frequency is uniform on the circle [−1/2, 1/2); each further one lies d + sign(d)/N from
the one before, d normal of standard deviation 0.05, drawn again until it is at least 1/N away from all others on the
circle. Tones therefore stand in clusters. The clean signal is scaled so that the mean square of its 2N real numbers
is 1.

**Noise** is circular and Gaussian and is scaled as well, signal by signal: ‖noise‖ = 10^{−dB/20} ‖s‖ exactly.

**Chamfer distance** of an estimated set F̂ and a true set F, on the circle, in units of the sampling rate:

.. math:: d(\hat F, F) = \sum_{f \in F} \min_{\hat f \in \hat F} |f - \hat f|
          + \sum_{\hat f \in \hat F} \min_{f \in F} |f - \hat f| ,

the sum over tones, not their mean, averaged over signals.

**The set that a posterior answers with.** The question is which set has the smallest expected chamfer distance under
p(K, Θ | x). The candidates are draws themselves: `set_of_least_distance` takes the draw that is closest to all others
on average. The most probable K with the medians of its draws stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = [
    "LineSpectrum",
    "chamfer",
    "chamfer_to_many",
    "draw_line_spectrum",
    "in_noise",
    "set_of_least_distance",
]

SAMPLES = 50
MOST_TONES = 10
FLOOR = 0.1
"""Smallest amplitude before the signal is scaled."""
SPREAD = 0.05
"""Standard deviation of the distance to the tone before, in cycles per sample."""


@dataclass(frozen=True, eq=False)
class LineSpectrum:
    """A clean signal and its frequencies."""

    values: NDArray[np.complex128]
    """Scaled samples, (50,)."""
    frequencies: Array
    """In cycles per sample on [−1/2, 1/2), (K,), sorted."""


def draw_line_spectrum(rng: np.random.Generator) -> LineSpectrum:
    """One signal of the protocol."""
    k = int(rng.integers(1, MOST_TONES + 1))
    f = np.empty(k)
    f[0] = rng.uniform(-0.5, 0.5)
    for i in range(1, k):
        while True:
            step = rng.normal(scale=SPREAD)
            f[i] = (f[i - 1] + step + np.sign(step) / SAMPLES + 0.5) % 1 - 0.5
            if circular(f[i] - f[:i]).min() >= 1 / SAMPLES:
                break
    amplitude = np.abs(rng.standard_normal(k)) + FLOOR
    c = amplitude * np.exp(2j * np.pi * rng.random(k))
    values = np.exp(2j * np.pi * np.outer(np.arange(SAMPLES), f)) @ c
    values /= np.sqrt(0.5 * np.mean(np.abs(values) ** 2))
    return LineSpectrum(values, np.sort(f))


def in_noise(
    values: NDArray[np.complex128], decibel: float, rng: np.random.Generator
) -> NDArray[np.complex128]:
    """The signal in noise whose norm is that of the signal times 10^{−dB/20}, same shape."""
    real, imaginary = rng.standard_normal((2, len(values)))
    noise: NDArray[np.complex128] = real + 1j * imaginary
    scale = 10 ** (-decibel / 20) * np.linalg.norm(values) / np.linalg.norm(noise)
    return values + scale * noise


def circular(difference: Array) -> Array:
    """Distances on a circle of length 1, same shape."""
    distance: Array = np.abs((difference + 0.5) % 1 - 0.5)
    return distance


def chamfer(estimate: Array, truth: Array) -> float:
    """Chamfer distance of two sets of frequencies, (K̂,) and (K,), neither of them empty."""
    return float(chamfer_to_many(estimate, truth[None])[0])


def chamfer_to_many(estimate: Array, others: Array) -> Array:
    """Chamfer distances of one set, (K̂,), to n others of one size, (n, K); shape (n,)."""
    if not len(estimate) or not others.shape[1]:
        raise ValueError(
            f"a chamfer distance needs frequencies in both sets, received {len(estimate)} and {others.shape[1]}."
        )
    distance = circular(estimate[None, :, None] - others[:, None, :])  # (n, K̂, K)
    both: Array = distance.min(1).sum(-1) + distance.min(2).sum(-1)
    return both


def set_of_least_distance(sets: list[Array], candidates: int = 40) -> Array:
    """The draw of the smallest mean chamfer distance to all draws, (K,).

    Args:
        sets: Frequencies of draws from p(K, Θ | x), (n_K, K) for each K that occurs.
        candidates: Draws of each K that are tried, the first ones.
    """
    best: Array = sets[0][0]
    least = np.inf
    for own in sets:
        for candidate in own[:candidates]:
            total = sum(float(chamfer_to_many(candidate, other).sum()) for other in sets)
            if total < least:
                best, least = candidate, total
    return best
