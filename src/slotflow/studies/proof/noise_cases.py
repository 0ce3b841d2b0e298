r"""Small signals of every kind of noise and sampling, and their likelihood written out as one dense matrix.

The exact step knows a likelihood through curves over frequency, tables and closed forms. Here the same noise model is a
matrix B for each of its nodes, built from nothing but the samples' times: the filter as a band matrix T, the errors as
a diagonal D, a basis of the complement of all columns with flat priors by a QR decomposition, the Cholesky factor of
what the Gaussian modes add, and for local noise an orthonormal basis of the tones in and around the band by a singular
value decomposition. With r = B (x − m(Θ)) and ν the number of its real degrees of freedom,

.. math:: \ln p(x \mid Θ, σ) = \ln \sum_j e^{w_j} \Big[ -\frac{|r_j|^2}{2σ^2} - ν_j \ln σ - \frac{ν_j}{2} \ln 2π
          - \ln\det_j \Big] ,

with the nodes' prior weights w_j. A constant that is the same for all nodes and all Θ, such as the range of a flat
prior, is left out: ln Z_K − ln Z_0 does not know it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import logsumexp

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.signal.likelihood.projection import SPANNED, spanning
from slotflow.signal.noise.model import NoiseModel, NoiseNode
from slotflow.signal.noise.stated import psd
from slotflow.signal.prior import Prior
from slotflow.studies.measures.parameters import AMPLITUDE, PHASE, PLACE, SIZE

__all__ = ["NOISES", "SAMPLINGS", "Case", "Written", "draw_case"]

NOISES = ("white", "errors", "local", "ar", "power_law", "psd")
SAMPLINGS = ("even", "gaps", "uneven", "complex")
SAMPLES, STEP = 64, 0.1
BAND = (1.6, 3.2)
"""In Hz: ten bins out of thirty-two."""
CORRELATION = 0.6
MARGIN = 8.0
"""How far tones that may lie beside the band reach, in bins, as in the general likelihood."""


@dataclass(frozen=True, eq=False)
class Case:
    """A signal, what is stated of it, and its truth."""

    observation: Observation
    stated: Any
    """The noise, as `model.infer` takes it."""
    prior: Prior
    k: int
    """True number of tones."""


def draw_case(noise: str, sampling: str, k: int, rng: np.random.Generator) -> Case:
    """One small signal of a kind of noise and sampling.

    Args:
        noise: One of `NOISES`.
        sampling: One of `SAMPLINGS`.
        k: Number of tones.
        rng: Source of randomness.
    """
    t: Array = STEP * np.arange(SAMPLES, dtype=np.float64)
    if sampling == "gaps":
        t = np.delete(
            STEP * np.arange(SAMPLES + 12, dtype=np.float64), [*range(20, 26), *range(50, 56)]
        )
    if sampling == "uneven":
        t = np.sort(rng.uniform(0, STEP * SAMPLES, SAMPLES))
    errors = rng.uniform(0.4, 1.6, SAMPLES) if noise == "errors" else None
    prior = Prior(
        k_min=0,
        k_max=2,
        amplitude=(0.3, 3.0),
        frequency=BAND,
        min_separation=0.0,
        sigma=(0.2, 2.0),
    )
    places = np.sort(rng.uniform(*BAND, k))
    theta = np.zeros((k, SIZE))
    theta[:, PLACE], theta[:, AMPLITUDE] = places, rng.uniform(0.8, 1.6, k)
    theta[:, PHASE] = rng.uniform(0, 2 * np.pi, k)
    is_complex = sampling == "complex"
    x: NDArray[Any] = tones(theta[None], t, is_complex)[0]
    x = x + _noise(noise, t, errors, is_complex, rng)
    channel = Channel(x, times=t, errors=errors)
    return Case(Observation([channel]), _stated(noise, is_complex), prior, k)


def _noise(
    kind: str, t: Array, errors: Array | None, is_complex: bool, rng: np.random.Generator
) -> NDArray[Any]:
    """Noise at some times, of the level 0.7 after whitening."""
    draws = rng.standard_normal((2, 4 * SAMPLES))
    white: NDArray[Any] = draws[0] + 1j * draws[1] if is_complex else draws[0]
    if kind in ("ar", "psd", "power_law", "local"):
        white = lfilter([1.0], [1.0, -CORRELATION], white)
    white = white[2 * SAMPLES :]
    index = np.rint((t - t[0]) / STEP).astype(int)
    noise: NDArray[Any] = 0.7 * white[index] * (1.0 if errors is None else errors)
    return noise


def _stated(kind: str, is_complex: bool) -> Any:
    """What is stated of the noise."""
    if kind != "psd":
        return {"errors": "white", "ar": "ar(1)"}.get(kind, kind)
    sides = 1.0 if is_complex else 2.0
    return psd(
        lambda f: sides * STEP / np.abs(1 - CORRELATION * np.exp(-2j * np.pi * f * STEP)) ** 2
    )


def tones(theta: Array, t: Array, is_complex: bool) -> NDArray[Any]:
    """Σ_k A cos(2πft + φ), or the complex exponentials, of components (n, K, P) at times (N,); shape (n, N)."""
    angle = 2 * np.pi * theta[..., PLACE, None] * t + theta[..., PHASE, None]
    wave: NDArray[Any] = np.exp(1j * angle) if is_complex else np.cos(angle)
    total: NDArray[Any] = (theta[..., AMPLITUDE, None] * wave).sum(1)
    return total


class Written:
    """The likelihood of an observation of one channel under a noise model, by dense matrices.

    Args:
        observation: What was measured.
        noise: The noise model; the longest filter of its nodes is that of all.
        band: Where tones may be, in Hz.
    """

    def __init__(
        self, observation: Observation, noise: NoiseModel, band: tuple[float, float]
    ) -> None:
        self.channel, self.band, self.local = observation.long, band, noise.local
        self.longest = max(len(node.channels[0].taps) for node in noise.nodes)
        self.nodes = [self._matrix(node) for node in noise.nodes]
        self.weights = [node.log_weight for node in noise.nodes]

    def __call__(self, theta: Array, sigma: Array) -> Array:
        """Ln p(x | Θ, σ) of components, (n, K, P), and levels, (n,); shape (n,)."""
        channel, rest = self.channel, self.channel.values - self.model(theta)
        found = []
        for (matrix, log_det), weight in zip(self.nodes, self.weights, strict=True):
            degrees = len(matrix) * (2 if channel.is_complex else 1)
            rss = (np.abs(rest @ matrix.T) ** 2).sum(-1)
            log_normal = -0.5 * rss / sigma**2 - degrees * np.log(math.sqrt(2 * np.pi) * sigma)
            found.append(log_normal - log_det + weight)
        total: Array = logsumexp(np.stack(found), axis=0)
        return total

    def model(self, theta: Array) -> NDArray[Any]:
        """Samples of components, (n, K, P), without noise, (n, N)."""
        return tones(theta, self.channel.times, self.channel.is_complex)

    def _matrix(self, node: NoiseNode) -> tuple[NDArray[Any], float]:
        """B of a node, (ν, N), and the logarithm of the determinant that belongs to it."""
        channel, shape = self.channel, node.channels[0]
        doubled = 2 if channel.is_complex else 1
        filtered, kept = self._filter(np.asarray(shape.taps))
        errors = np.ones(channel.n) if channel.errors is None else channel.errors
        level = shape.ratio * errors[kept]
        matrix: NDArray[Any] = filtered / level[:, None]
        log_det = doubled * float(np.log(level).sum())
        t = channel.times[kept]
        middle = 0.5 * (t[0] + t[-1])
        unit = (t - middle) / np.abs(t - middle).max()
        flat: list[NDArray[Any]] = [unit**p for p in range(channel.trend + 1)]
        for f in shape.lines:
            wave = np.exp(2j * np.pi * f * (t - channel.mid_time))
            flat += [wave.real, wave.imag, unit * wave.real, unit * wave.imag]
        if flat:
            columns = np.stack(flat, 1) / level[:, None]
            matrix = scipy.linalg.null_space(columns.T).T @ matrix
        if shape.modes is not None:
            modes = shape.modes
            wave = np.exp(2j * np.pi * np.outer(modes.frequencies, channel.times))
            table = matrix @ np.concatenate([wave.real, wave.imag]).T
            variances = np.tile(modes.variances, 2)
            factor = np.linalg.cholesky(np.eye(len(matrix)) + (table * variances) @ table.T)
            matrix = np.linalg.solve(factor, matrix)
            log_det += doubled * float(np.log(np.diag(factor)).sum())
        if self.local:
            matrix, log_det = self._inside(matrix, np.asarray(shape.taps))
            log_det += doubled * len(matrix) * float(np.log(level).mean())
        return matrix, log_det

    def _filter(self, taps: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The filter as a matrix, (n, N), and the samples that it leaves, (n,): those after `longest` even ones."""
        channel, order = self.channel, self.longest - 1
        even = np.abs(np.diff(channel.times) / channel.step - 1) < 0.02
        kept = [i for i in range(order, channel.n) if order == 0 or even[i - order : i].all()]
        matrix = np.zeros((len(kept), channel.n), dtype=taps.dtype)
        for row, i in enumerate(kept):
            for j, tap in enumerate(taps):
                matrix[row, i - j] = tap
        return matrix, np.array(kept)

    def _inside(self, matrix: NDArray[Any], taps: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """The part of B in the span of tones in the band and just beside it, and its determinant."""
        channel, width = self.channel, 1 / self.channel.duration
        low, high = self.band[0] - MARGIN * width, self.band[1] + MARGIN * width
        limits = (low if channel.is_complex else max(low, 0.0), high)
        f = spanning(self.band, limits, width)
        wave = np.exp(2j * np.pi * np.outer(channel.times, f))
        gain = np.abs(np.exp(-2j * np.pi * np.outer(f * channel.step, np.arange(len(taps)))) @ taps)
        wave = wave / gain  # tones of equal energy after the filter
        span = matrix @ (wave if channel.is_complex else np.concatenate([wave.real, wave.imag], 1))
        u, values, _ = np.linalg.svd(span, full_matrices=False)
        inside = u[:, values**2 > SPANNED * values[0] ** 2].conj().T @ matrix
        degrees = len(inside) * (2 if channel.is_complex else 1)
        return inside, -degrees * float(np.log(gain).mean())
