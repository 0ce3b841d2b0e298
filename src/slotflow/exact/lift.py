r"""The amplitudes in channels of a free gain, drawn and weighted after the search has integrated them out.

The search samples (Θ, σ) of plain tones under a likelihood in which the free amplitudes u have Gaussian priors g(u | σ)
and are integrated out (`slotflow.signal.likelihood.integrated_gains`). Given a draw, u is Gaussian around û with the
precision M/σ², so that

.. math:: p(x \mid Θ, u, σ)\, p(u) = p_g(x \mid Θ, σ)\; N(u; \hat u, σ^2 M^{-1})\, \frac{p(u)}{g(u \mid σ)} ,

p(u) being the prior that is meant: a uniform phase, and the law of the prior's amplitudes between the channel's own
bounds. A draw of u from any density q turns a weighted draw of the search into one of the whole posterior with the
weight multiplied by

.. math:: r = \frac{N(u; \hat u, σ^2 M^{-1})\, p(u)}{g(u \mid σ)\, q(u)} ,

and the evidence is multiplied by the mean of r. With M = LLᵀ, components ordered in pairs (Re u, Im u), the last pair
has a Gaussian of its own, the one before it a Gaussian given the last, and so on. q follows this order; each factor is
the pair's Gaussian, taken as round, times p(u) on `CELLS` cells of the amplitude, with a von Mises phase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import i0e

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance, effective_share, pareto_k
from slotflow.exact.orders import Orders
from slotflow.exact.target import Target
from slotflow.signal.likelihood import FreeGains, IntegratedGains
from slotflow.signal.prior import Prior
from slotflow.signal.prior_gains import free_bounds

__all__ = ["integrated", "lifted", "log_density"]

CELLS = 128
"""Cells of the amplitude that a draw is taken from."""
REACH = 8.0
"""Standard deviations on either side of a free amplitude's mean that the cells cover."""
DECADES = 30.0
"""Nats that the density falls by over the cells where the mean lies outside the prior's bounds."""


def integrated(likelihood: FreeGains, prior: Prior, level: float) -> IntegratedGains:
    """The likelihood that the search sees: free amplitudes with Gaussian priors of their law's mean square.

    Args:
        likelihood: Of all amplitudes.
        prior: Gives the law, and the bounds where a channel has none.
        level: About the noise level σ.
    """
    variances = []
    for low, high in free_bounds(likelihood.observation, prior):
        if prior.amplitude_law == "loguniform":
            square = (high**2 - low**2) / (2 * math.log(high / low))
        else:
            square = (high**2 + high * low + low**2) / 3
        variances.append(0.5 * square / max(level, 1e-9 * high) ** 2)
    return IntegratedGains(likelihood, variances)


def log_density(likelihood: FreeGains, prior: Prior, theta: Array) -> Array:
    """Ln p(Θ, x | K) of labelled tuples of all amplitudes, (n, K, P), with the noise integrated out, (n,)."""
    k, waveform = theta.shape[1], likelihood.waveform
    target = Target(likelihood, prior, k)
    z = waveform.to_z(waveform.sorted(theta), likelihood.reference)
    total = log_sum_exp(target.node_log_likelihoods(z), axis=0) - math.lgamma(k + 1)
    total = total + prior.log_prob_theta(waveform.of_amplitude(theta, 0)).numpy()
    _, c = waveform.split(theta, likelihood.reference)
    for j, bounds in enumerate(free_bounds(likelihood.observation, prior)):
        u = c[..., 1 + j]  # per unit of amplitude and phase instead of the complex plane
        total = total + (_Law(bounds, prior.amplitude_law).log_prob(u) + np.log(np.abs(u))).sum(-1)
    return np.asarray(total)


def lifted(
    orders: Orders,
    search: IntegratedGains,
    prior: Prior,
    missing: Sequence[int],
    rng: np.random.Generator,
) -> Orders:
    """The result with an amplitude and a phase of each component in each free channel, exactly weighted.

    Args:
        orders: Of the search.
        search: The likelihood that it saw.
        prior: The prior.
        missing: Orders for which the search had no time.
        rng: Source of randomness.
    """
    whole = search.whole
    results = {k: _lifted(one, search, prior, k, rng) for k, one in orders.results.items()}
    log_z, error = orders.log_evidence.copy(), orders.log_evidence_error.copy()
    change = np.full(len(log_z), np.nan)
    for k, one in results.items():
        change[k] = one.log_evidence - orders.results[k].log_evidence
        log_z[k], error[k] = one.log_evidence, one.log_evidence_error
    each = [change[k] / k for k in results if k > 0 and math.isfinite(change[k])]
    for k in range(1, len(log_z)):  # bounds and estimates move as the orders beside them did
        if k not in results and each:
            log_z[k] += k * float(np.median(each))
    methods = dict(orders.methods)
    following = max(methods, default=0) + 1
    if not math.isfinite(log_z[min(following, len(log_z) - 1)]) and following <= prior.k_max:
        # The search ended where one tone more did not matter; one more than that gains no more.
        before = log_z[max(following - 2, 0) : following]
        if len(before) == 2 and before[1] < before[0] and following not in missing:
            log_z[following], methods[following] = 2 * before[1] - before[0], "bound"
    with np.errstate(divide="ignore"):
        score = log_z + np.log(np.pad(prior.k_probs_full, (0, len(log_z) - prior.k_max - 1)))
    probs = np.exp(score - log_sum_exp(score)) if np.isfinite(score).any() else orders.k_probs
    fits = {k: whole.completed(fit) for k, fit in orders.fits.items()}
    return replace(
        orders,
        methods=methods,
        log_evidence=log_z,
        log_evidence_error=error,
        k_probs=probs,
        results=results,
        fits=fits,
    )


def _lifted(
    result: Importance, search: IntegratedGains, prior: Prior, k: int, rng: np.random.Generator
) -> Importance:
    """Weighted draws of one order with the free amplitudes."""
    whole, n = search.whole, len(result.log_weights)
    size = whole.waveform.size
    if k == 0 or n == 0:
        return replace(result, theta=np.zeros((n, k, size)))
    target, z = Target(search, prior, k), search.to_z(result.theta)
    node, sigma = target.sample_noise(z, target.rss(z), rng)
    xi, c = search.waveform.unpack(z)
    amplitudes = np.concatenate([c, np.zeros((n, k, len(search.free)), np.complex128)], -1)
    log_ratio = np.zeros(n)
    for i, one in enumerate((search, *search.nodes)):
        rows = np.flatnonzero(node == i)
        if not len(rows):
            continue
        assert isinstance(one, IntegratedGains)
        for j, bounds in enumerate(free_bounds(whole.observation, prior)):
            law = _Law(bounds, prior.amplitude_law)
            u, ratio = _draw(one, j, xi[rows], sigma[rows], law, rng)
            amplitudes[rows, :, 1 + j] = u
            log_ratio[rows] += ratio
    return _reweighted(
        replace(result, theta=whole.waveform.join(xi, amplitudes, whole.reference), sigma=sigma),
        log_ratio,
    )


def _reweighted(result: Importance, log_ratio: Array) -> Importance:
    """A result whose weights are multiplied by ratios, (n,)."""
    log_w = result.log_weights + log_ratio
    if not np.isfinite(log_w.max()):
        empty = np.zeros(0)
        return replace(
            result, theta=result.theta[:0], sigma=empty, log_weights=empty, log_evidence=-math.inf,
            log_evidence_error=math.inf, ess=0.0, pareto_k=math.inf, lineage=None,
        )  # fmt: skip
    total = float(log_sum_exp(log_w))
    with np.errstate(under="ignore", over="ignore"):  # one draw may have all the weight
        off = np.exp(result.log_weights) * (np.exp(log_ratio - total) - 1)
    before, after = effective_share(result.log_weights), effective_share(log_w)
    return replace(
        result,
        log_weights=log_w - total,
        log_evidence=result.log_evidence + total,
        log_evidence_error=math.hypot(result.log_evidence_error, math.sqrt(float((off**2).sum()))),
        ess=min(result.ess / before, 1.0) * after,
        pareto_k=max(
            pareto_k(log_w), result.pareto_k if result.method == "tempering" else -math.inf
        ),
    )


def _draw(
    search: IntegratedGains, j: int, xi: Array, sigma: Array, law: _Law, rng: np.random.Generator
) -> tuple[Complex, Array]:
    """Amplitudes of K components in the j-th free channel, (n, K), and ln r of the module's docstring, (n,)."""
    n, k = xi.shape[:2]
    mean, precision = search.conditionals(j, xi)
    order = np.arange(2 * k).reshape(2, k).T.ravel()  # pairs of Re u and Im u
    mean, precision = mean[:, order], precision[:, order][:, :, order]
    factor = np.linalg.cholesky(precision)  # (n, 2K, 2K)
    off = np.zeros((n, 2 * k))  # u − û
    u, log_q = np.zeros((n, k), np.complex128), np.zeros(n)
    for i in range(k - 1, -1, -1):
        own, pair = factor[:, 2 * i : 2 * i + 2, 2 * i : 2 * i + 2], slice(2 * i, 2 * i + 2)
        later = np.einsum("nji,nj->ni", factor[:, 2 * i + 2 :, pair], off[:, 2 * i + 2 :])
        middle = mean[:, pair] - np.linalg.solve(own.mT, later[..., None])[..., 0]
        weight = 0.5 * (own**2).sum((-2, -1)) / sigma**2
        u[:, i], log_density = law.sample(middle[:, 0] + 1j * middle[:, 1], weight, rng)
        off[:, pair] = np.stack([u[:, i].real, u[:, i].imag], -1) - mean[:, pair]
        log_q += log_density
    white = np.einsum("nji,nj->ni", factor, off) / sigma[:, None]
    log_normal = -0.5 * (white**2).sum(-1) + np.log(np.einsum("nii->ni", factor)).sum(-1)
    variance = search.variances[j]
    log_gaussian = -0.5 * (np.abs(u) ** 2).sum(-1) / (variance * sigma**2) - k * math.log(variance)
    # (2πσ²)^K stands in both Gaussians.
    return u, log_normal - log_gaussian + law.log_prob(u).sum(-1) - log_q


class _Law:
    """The prior of a complex amplitude: a law of its modulus between bounds, and a uniform phase.

    Args:
        bounds: Of the modulus.
        law: "uniform" or "loguniform".
    """

    def __init__(self, bounds: tuple[float, float], law: str) -> None:
        self.low, self.high = bounds
        self.power = 2 if law == "loguniform" else 1
        if law == "loguniform" and not self.low > 0:
            raise ValueError(
                f"a log-uniform amplitude needs a lower bound above 0 in every channel, received {bounds}; raise it."
            )
        width = math.log(self.high / self.low) if self.power == 2 else self.high - self.low
        self.constant = -math.log(2 * math.pi * width)

    def log_prob(self, u: Complex) -> Array:
        """Log density in the complex plane, same shape; −inf outside the bounds."""
        size = np.abs(u)
        inside = (size >= self.low) & (size <= self.high)
        log_prob: Array = self.constant - self.power * np.log(np.maximum(size, 1e-300))
        return np.where(inside, log_prob, -np.inf)

    def sample(
        self, mean: Complex, weight: Array, rng: np.random.Generator
    ) -> tuple[Complex, Array]:
        """Draws from about p(u) exp(−½ w |u − ū|²), and their log density, (n,) each.

        Args:
            mean: ū, (n,).
            weight: w, (n,).
            rng: Source of randomness.
        """
        n, size, spread = len(mean), np.abs(mean), weight**-0.5
        first, last = (
            np.clip(size - REACH * spread, self.low, self.high),
            np.clip(size + REACH * spread, self.low, self.high),
        )
        # Where the mean lies beyond a bound, the density falls exponentially from it.
        above, below = np.maximum(self.low - size, 0.0), np.maximum(size - self.high, 0.0)
        last = np.where(
            above > REACH * spread, self.low + DECADES / (weight * np.maximum(above, spread)), last
        )
        first = np.where(
            below > REACH * spread,
            self.high - DECADES / (weight * np.maximum(below, spread)),
            first,
        )
        first, last = np.maximum(first, self.low), np.minimum(last, self.high)
        width = (last - first) / CELLS
        middle = first[:, None] + width[:, None] * (np.arange(CELLS) + 0.5)  # (n, CELLS)
        x = (weight * size)[:, None] * middle
        gain = np.log(i0e(x)) - 0.5 * weight[:, None] * (middle - size[:, None]) ** 2
        gain -= (self.power - 1) * np.log(middle)  # p(u) times the circle's length
        mass = np.exp(gain - gain.max(-1, keepdims=True))
        mass /= mass.sum(-1, keepdims=True)
        cell = (mass.cumsum(-1) < rng.random(n)[:, None]).sum(-1).clip(0, CELLS - 1)
        radius = first + width * (cell + rng.random(n))
        pull = weight * size * radius
        phase = rng.vonmises(np.angle(mean), pull)
        log_phase = pull * (np.cos(phase - np.angle(mean)) - 1) - np.log(2 * math.pi * i0e(pull))
        log_density = np.log(mass[np.arange(n), cell] / width) + log_phase - np.log(radius)
        return radius * np.exp(1j * phase), log_density
