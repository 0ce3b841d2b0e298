r"""Frequencies first, amplitudes given the frequencies: a proposal that follows the bends of the posterior.

**Amplitudes.** Given the frequencies the model is linear in c: with the Gram matrix G(f) of cos and −sin at τ, the
matched filters d(f), and σ⁻² that the likelihood's curvature sees, p(c | f, x) is the Gaussian of mean ĉ = G⁻¹d and
precision G/σ² times the prior's Π A^{−p} (p = 1, or 2 for a log-uniform law), whose slope moves the mean to

.. math:: \bar c(f) = \hat c - σ^2 G^{-1}\, p\, \hat c/|\hat c|^2 .

**Frequencies.** Integrating c out leaves, but for terms of the order of 1/SNR²,

.. math:: \ell(f) = \tfrac{1}{2σ^2}\, d \cdot \hat c - \tfrac12 \ln\det G - p \sum_k \ln |\hat c_k| .

**The proposal** is f = f̂ + L y, y Gaussian, and c Gaussian around a polynomial of the second degree in y that stands
for c̄(f). Both come from ℓ and c̄ at y = 0, ±h e_a and ±h (e_a + e_b), L being the factor of the Fisher matrix's
covariance of f. h = √3 is the node of Gauss and Hermite, at which a difference quotient is the mean slope under a
unit Gaussian, so that the skewness of ℓ is found in the mean of y, and cubic bends of c̄ in its slope. The covariance
of c turns with the phases, by e^{iθ_k (f_k − f̂_k)}, and is constant otherwise. Density and draws are exact; that they
miss p(f, c | x) by a little is for the weights to correct, and a draw costs no likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, namespace
from slotflow.core.numeric import phasor, solve_lower
from slotflow.exact.target import Target
from slotflow.signal.systems import positive_solver
from slotflow.signal.waveforms import TONE

__all__ = ["Bent", "bent", "conditionals", "differences", "nodes_of", "spread_out"]

NODE = math.sqrt(3)
"""h, in standard deviations."""
FLATTEST = 0.1
"""Curvature of ℓ in units of the Fisher matrix below which no Gaussian is near."""


class Bent:
    """A Gaussian of f, and one of c whose mean bends with f (see the module's docstring).

    Args:
        target: What to propose for.
        z: A maximum of the likelihood, (K, 3), sorted, K > 0.
        covariance: Of z there, (3K, 3K); only that of the frequencies is looked at, and as a scale.
        widen: Factor on the standard deviations.

    Raises:
        numpy.linalg.LinAlgError: ℓ is too flat around z, or tones coincide; `bent` gives None instead.
    """

    def __init__(self, target: Target, z: Array, covariance: Array, widen: float = 1.0) -> None:
        self.k, self.centre = len(z), np.ascontiguousarray(TONE.place_in_z(z))
        self.pairs = np.tril_indices(self.k)
        every = slice(None, None, z.shape[1])
        self.root = _cholesky(covariance[every, every])  # L
        nodes = nodes_of(self.k)  # (m, K)
        log_density, mean, precision = _conditionals(target, self.centre + nodes @ self.root.T)
        slope, curvature, _ = differences(log_density[:, None], self.k)
        if not np.linalg.eigvalsh(curvature[..., 0])[0] > FLATTEST:
            raise np.linalg.LinAlgError("the posterior of the frequencies has no maximum near z")
        self.spread = _cholesky(np.linalg.inv(curvature[..., 0])) * widen
        self.mean = np.linalg.solve(curvature[..., 0], slope[:, 0])
        self.factor = np.asarray(np.linalg.cholesky(precision) / widen, dtype=np.float64)
        # The phase of each tone turns with its own frequency; what is left is smooth.
        slope, _, _ = differences(mean, self.k)
        slope = np.linalg.solve(self.root.T, slope)  # ∂c̄/∂f, (K, K)
        self.theta = (slope.diagonal() / mean[0]).imag
        straight = mean * np.exp(-1j * self.theta * (nodes @ self.root.T))
        slope, curvature, level = differences(straight, self.k)
        half = -curvature[self.pairs] * np.where(self.pairs[0] == self.pairs[1], 0.5, 1.0)[:, None]
        bend = np.concatenate([level[None], slope, half])
        self.bend = np.concatenate([bend.real, bend.imag], -1)  # (1 + K + K (K + 1)/2, 2K)
        self.normalizer = (
            0.5 * TONE.coordinates * self.k * math.log(2 * math.pi)
            + float(np.log(np.diag(self.spread)).sum())
            + float(np.log(np.diag(self.root)).sum())
            - float(np.log(np.diag(self.factor)).sum())
        )

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        return self.from_normal(rng.standard_normal((n, TONE.coordinates * self.k)))

    def from_normal(self, u: Array) -> Array:
        """What standard normal variables, (n, 3K), stand for, (n, K, 3): those of f first."""
        y = self.mean + u[:, : self.k] @ self.spread.T
        noise = solve_lower(self.factor, u[:, self.k :].T, transposed=True)
        straight = self._mean(y) + noise.T
        away = y @ self.root.T
        c = straight[:, : self.k] + 1j * straight[:, self.k :]
        c *= phasor(self.theta / (2 * math.pi) * away)
        return TONE.from_simple(self.centre + away, c)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        u = self.to_normal(z)
        log_prob: Array = -0.5 * np.einsum("nd,nd->n", u, u) - self.normalizer
        return log_prob

    def to_normal(self, z: Array) -> Array:
        """The standard normal variables, (n, 3K), that z, (n, K, 3), stands for."""
        f, c = TONE.simple(z)
        away = f - self.centre
        y = solve_lower(self.root, away.T).T
        white = solve_lower(self.spread, (y - self.mean).T)
        c = c * phasor(-self.theta / (2 * math.pi) * away)
        rest = (np.concatenate([c.real, c.imag], -1) - self._mean(y)) @ self.factor
        return np.concatenate([white.T, rest], 1)

    def _mean(self, y: Array) -> Array:
        """Re and Im of the straightened c̄, (n, 2K), of y, (n, K)."""
        a, b = self.pairs
        features = np.concatenate([np.ones((len(y), 1)), y, y[:, a] * y[:, b]], 1)
        mean: Array = features @ self.bend
        return mean


def bent(target: Target, z: Array, covariance: Array) -> Bent | None:
    """The proposal around a maximum, arguments as those of `Bent`; None where there is none."""
    try:
        return Bent(target, z, covariance)
    except np.linalg.LinAlgError:
        return None


def _conditionals(target: Target, frequency: Array) -> tuple[Array, NDArray[np.complex128], Array]:
    """ℓ, (m,), and c̄, (m, K), at frequencies (m, K), and the precision of c at the first of them, (2K, 2K)."""
    gram, data = target.statistics.amplitude_systems(frequency[..., None])
    apart = target.statistics.apart(frequency[..., None])
    power = 2.0 if target.prior.amplitude_law == "loguniform" else 1.0
    more = None if apart is None else np.asarray(apart[0])

    def precision_of(gain: Array) -> Array:
        rss = (float(target.statistics.energy) - float(gain)) * spread_out(
            target.statistics.n, frequency.shape[1]
        )
        return np.array(target.noise.precision(rss))

    log_density, mean, precision = conditionals(gram, data, precision_of, power, more)
    if apart is not None:
        log_density += apart[1]
    return log_density, mean, precision


def spread_out(n: int, k: int) -> float:
    """By how much RSS of draws of k tones exceeds that of the maximum: they have 3K degrees of freedom more to err."""
    return 1 + TONE.coordinates * k / n


def conditionals(
    gram: Any,
    data: Any,
    precision_of: Callable[[Any], Any],
    power: float,
    more_gain: Any = None,
) -> tuple[Any, Any, Any]:
    """ℓ and c̄ from the normal equations of the amplitudes, for any number of signals.

    Args:
        gram: G at m sets of frequencies, (..., m, 2K, 2K).
        data: d there, (..., m, 2K).
        precision_of: Gives σ⁻², (...), of the gain in RSS at the first set, (...).
        power: p.
        more_gain: What else is gained in RSS, (..., m), or None.

    Returns:
        ℓ, (..., m), c̄, (..., m, K), and the precision of c at the first set, (..., 2K, 2K).
    """
    xp, k = namespace(data), data.shape[-1] // 2
    solve, log_det = positive_solver(gram)
    best = solve(data)
    gain = (data * best).sum(-1)
    if more_gain is not None:
        gain = gain + more_gain
    precision = precision_of(gain[..., 0])[..., None]
    square = best[..., :k] ** 2 + best[..., k:] ** 2
    tilt = power * best / xp.concat([square, square], -1)
    moved = solve(tilt)
    mean = best - moved / precision[..., None]
    log_density = 0.5 * precision * gain - 0.5 * log_det - 0.5 * power * xp.log(square).sum(-1)
    first = precision[..., None] * gram[..., 0, :, :]
    return log_density, mean[..., :k] + 1j * mean[..., k:], first


def differences(values: Any, k: int) -> tuple[Any, Any, Any]:
    """Slope (K, …), minus the curvature (K, K, …) and level (…) of values at the nodes, (m, …)."""
    level, even, odd = values[0], values[1::2] + values[2::2], values[1::2] - values[2::2]
    a, b = np.tril_indices(k)
    own = np.flatnonzero(a == b)
    shape = (k, k, *values.shape[1:])
    second = namespace(values).zeros(shape, dtype=values.dtype, device=values.device)
    mixed = even - even[own[a]] - even[own[b]] + 2 * level
    mixed[own] = 2 * (even[own] - 2 * level)
    second[a, b] = second[b, a] = -mixed / (2 * NODE**2)
    return odd[own] / (2 * NODE), second, level


def nodes_of(k: int) -> Array:
    """Where ℓ and c̄ are looked at: y = 0, then ±h (e_a + e_b) for a > b and ±h e_a for a = b, (m, K)."""
    a, b = np.tril_indices(k)
    nodes = np.zeros((1 + 2 * len(a), k))
    rows = 1 + 2 * np.arange(len(a))
    nodes[rows, a] = nodes[rows, b] = NODE
    nodes[rows + 1, a] = nodes[rows + 1, b] = -NODE
    return nodes


def _cholesky(matrix: Array) -> Array:
    """Lower factor of a covariance, through unit diagonals."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not (np.isfinite(matrix).all() and (scale > 0).all()):
        raise np.linalg.LinAlgError("not a covariance")
    factor: Array = np.linalg.cholesky(matrix / (scale[:, None] * scale)) * scale[:, None]
    return factor
