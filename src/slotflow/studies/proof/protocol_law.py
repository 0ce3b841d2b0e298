r"""The law that the line spectra of DeepFreq's protocol are drawn from, and a posterior under it.

A network that is trained on the protocol's signals knows their law. The prior of the package is broader (frequencies
uniform, amplitudes uniform between bounds), and its weighted draws carry over to any other law p′ by their ratio,

.. math:: Z'_K = Z_K \sum_i w_i \frac{p'(Θ_i \mid K)}{p(Θ_i \mid K)} ,

with the normalized weights w_i of the draws given K.

**Frequencies** come one after the other, each at the distance y = d + sign(d)/N from the one before on the circle, d
normal of standard deviation 0.05. The density of a set is the sum over all orders in which it may have come, by
recursion over subsets S and their last member j,

.. math:: F(S \cup \{l\}, l) = \sum_{j \in S} F(S, j)\, q(f_l - f_j), \qquad F(\{j\}, j) = 1 ,

over the probability that a whole sequence keeps the smallest separation (in the protocol single steps are repeated;
the difference is small, since most sequences are crowded alike).

**Amplitudes** a = |g| + 0.1, g standard normal, are divided by the signal's root mean square s, which is unknown: flat
in ln s, p(A) ∝ ∫ d ln s  s^K Π p_a(s A_k).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from scipy.special import logsumexp

from slotflow.core.arrays import Array
from slotflow.exact.refined import RefinedPosterior
from slotflow.signal.prior import Prior
from slotflow.studies.measures.parameters import AMPLITUDE, PLACE
from slotflow.studies.proof.line_spectra import FLOOR, SAMPLES, SPREAD, circular

__all__ = ["log_law", "log_law_of_amplitudes", "log_law_of_places", "under_the_law"]

SCALES = np.exp(np.linspace(math.log(0.04), math.log(10.0), 96))
"""Root mean squares s that a signal may have before it is scaled."""
SEQUENCES = 20_000
"""Simulated sequences behind the share that keeps the smallest separation."""


def under_the_law(
    post: RefinedPosterior, prior: Prior, n: int, seed: int
) -> tuple[Array, list[Array]]:
    """p(K | x) under the protocol's law, (k_max + 1,), and places of n draws from it, (n_K, K) for each K that occurs.

    Args:
        post: A posterior under a broader prior.
        prior: That prior.
        n: Draws.
        seed: Of the draws.
    """
    rng = np.random.default_rng(seed)
    log_z, weights = np.full(prior.k_max + 1, -np.inf), {}
    for k in range(1, prior.k_max + 1):
        if not post.slots.sampled(k) or not math.isfinite(post.log_evidence[k][1]):
            continue
        theta = post.weighted(k).theta
        broad = prior.log_prob_theta(torch.from_numpy(theta)).numpy() + math.lgamma(k + 1)
        log_weights = post.weighted(k).log_weights + log_law(theta) - broad
        log_z[k] = post.log_evidence[k][0] + logsumexp(log_weights)
        weights[k] = np.exp(log_weights - logsumexp(log_weights))
    with np.errstate(divide="ignore"):
        log_z += np.log(prior.k_probs_full)
    k_probs: Array = np.exp(log_z - logsumexp(log_z))
    sets: list[Array] = []
    for k, count in enumerate(rng.multinomial(n, k_probs / k_probs.sum())):
        if count:
            chosen = rng.choice(len(weights[k]), count, p=weights[k])
            sets.append(post.waveform.place_of(post.weighted(k).theta[chosen]))
    return k_probs, sets


def log_law(theta: Array) -> Array:
    """Log density of sets of components, (n, K, P), under the protocol; shape (n,)."""
    k = theta.shape[1]
    places, amplitudes = theta[..., PLACE], theta[..., AMPLITUDE]
    phases = -k * math.log(2 * math.pi)
    found: Array = log_law_of_places(places) + log_law_of_amplitudes(amplitudes) + phases
    return found


def log_law_of_amplitudes(amplitudes: Array) -> Array:
    """Log density of scaled amplitudes, (n, K), labelled; shape (n,)."""
    k = amplitudes.shape[1]
    unscaled = SCALES[:, None, None] * amplitudes  # (scales, n, K)
    half_normal = 0.5 * math.log(2 / math.pi) - 0.5 * (unscaled - FLOOR) ** 2
    each = np.where(unscaled > FLOOR, half_normal, -np.inf).sum(-1)
    found: Array = logsumexp(each + k * np.log(SCALES)[:, None], axis=0)
    found -= math.log(len(SCALES))
    return found


def log_law_of_places(f: Array) -> Array:
    """Log density of sets of frequencies, (n, K), in cycles per sample; shape (n,)."""
    n, k = f.shape
    distance = circular(f[:, :, None] - f[:, None, :])
    steps = np.exp(-0.5 * ((distance - 1 / SAMPLES) / SPREAD) ** 2)
    steps /= SPREAD * math.sqrt(2 * math.pi)
    ways = np.zeros((2**k, k, n))
    for j in range(k):
        ways[1 << j, j] = 1.0
    for members in range(1, 2**k):
        here = ways[members]
        for last in range(k):
            if not members >> last & 1:
                ways[members | 1 << last, last] = (here * steps[:, :, last].T).sum(0)
    with np.errstate(divide="ignore"):
        found: Array = np.log(ways[-1].sum(0))
    found -= math.log(_share_apart(k))
    return found


@cache
def _share_apart(k: int) -> float:
    """Share of sequences of k frequencies that keep the smallest separation."""
    rng = np.random.default_rng(k)
    step = rng.normal(scale=SPREAD, size=(SEQUENCES, k))
    step += np.sign(step) / SAMPLES
    f = np.cumsum(step, axis=1)
    distance = circular(f[:, :, None] - f[:, None, :]) + np.eye(k)
    return float((distance.min((1, 2)) >= 1 / SAMPLES).mean())
