r"""The count carried over from the law that the network knows to the user's prior.

The network was trained on components whose ρ is log-uniform between two bounds, so that an amplitude given its shape
has the density p_0(A) = 1/(A ln(ρ_hi/ρ_lo)), and it knows no smallest distance. Under a prior with p(A) and a distance
that the band, of width W, leaves the room R_K for, its evidence of K components becomes larger by

.. math:: \frac{Z_K'}{Z_K} = \Bigl(\frac{W}{R_K}\Bigr)^K q(\text{apart} \mid K, x) \prod_k
          E_q\Bigl[\frac{p(A_k)}{p_0(A_k)}\Bigr] ,

since q(Θ | K, x) is a product over slots. A sixth tone that is a peak of the noise has hardly any weight where the
prior allows none so weak. The expectations take A_k as Gaussian, with the moments of some draws: so they are not zero
where the prior's bounds are far outside of these. Classes are the most probable ones.

What the network was not trained to see, components of a ρ below its smallest, is not brought back by this: K counts
those above it, and p(A) is the prior's law of these.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import roots_legendre

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.network.family.densities import FamilySlots
from slotflow.network.family.slot_choices import NEGLIGIBLE
from slotflow.signal.prior import Prior

__all__ = ["carried"]

DRAWS = 200
"""Draws of each slot."""
REACH = 8.0
"""Standard deviations over which an expectation is integrated."""
NODES, WEIGHTS = roots_legendre(48)
"""On [−1, 1], (48,)."""


def carried(slots: FamilySlots, k_probs: Array) -> Array:
    """The probabilities of K under the prior of the slots' signal, (k_max + 1,), of those of the network."""
    prior = slots.signal.prior
    low, high = slots.signal.answer.seen.bounds.gain[0].tolist()
    log_p = np.full(len(k_probs), -np.inf)
    for k in np.flatnonzero(k_probs > NEGLIGIBLE):
        log_p[k] = math.log(k_probs[k]) + (
            _log_ratio(slots, int(k), prior, (low, high)) if k else 0.0
        )
    if not np.isfinite(log_p).any():
        return k_probs
    found: Array = np.exp(log_p - log_sum_exp(log_p, axis=0))
    return found


def _log_ratio(slots: FamilySlots, k: int, prior: Prior, gain: tuple[float, float]) -> float:
    """Logarithm of the ratio of evidences of K components, with the network's smallest and largest ρ."""
    draws = slots.drawn_alone(k, DRAWS)
    total = k * math.log(math.log(gain[1] / gain[0]))
    total += sum(_log_mean(one.amplitude, gain[0] * one.unit, prior) for one in draws)
    if prior.min_separation > 0:
        places = np.sort(np.stack([one.place for one in draws], 1), axis=1)  # (n, K)
        apart = (np.diff(places, axis=1) >= prior.min_separation).all(1).mean()
        width = prior.frequency[1] - prior.frequency[0]
        total += math.log(max(float(apart), 0.5 / DRAWS)) + k * math.log(width / prior.room(k))
    return total


def _log_mean(amplitude: Array, weakest: float, prior: Prior) -> float:
    """Logarithm of the mean of A p(A) over a slot's amplitudes, (n,), the weakest that the network sees being given."""
    low, high = prior.amplitude
    low = max(low, min(weakest, 0.5 * (low + high)))
    mean, sd = float(amplitude.mean()), max(float(amplitude.std()), 1e-9 * high)
    left, right = np.clip((mean - REACH * sd, mean + REACH * sd), low, high)
    if right - left < sd:  # beyond the prior's bounds, of which the nearer one counts
        left, right = max(low, right - sd), min(high, left + sd)
    a = 0.5 * (left + right) + 0.5 * (right - left) * NODES
    log_q = -0.5 * ((a - mean) / sd) ** 2 - math.log(math.sqrt(2 * math.pi) * sd)
    if prior.amplitude_law == "loguniform":
        log_p = np.full(len(a), -math.log(math.log(high / low)))
    else:
        log_p = np.log(a) - math.log(high - low)
    weights = 0.5 * (right - left) * WEIGHTS
    return float(log_sum_exp(log_q + log_p + np.log(weights), axis=0))
