r"""The count carried over from the law that the network knows to the user's prior.

The network was trained on components whose ρ is log-uniform between two bounds, so that an amplitude given its shape
has the density p_0(A) = 1/(A ln(ρ_hi/ρ_lo)) between two amplitudes, and it knows no smallest distance. Under a prior
with p(A) and a distance that the band, of width W, leaves the room R_K for, its evidence of K components becomes larger
by the factor

.. math:: \frac{Z_K'}{Z_K} = \Bigl(\frac{W}{R_K}\Bigr)^K P(\text{apart} \mid K, x)
          \prod_k \frac{\int p(A)\, L_k(A)\, dA}{\int p_0(A)\, L_k(A)\, dA} .

A sixth tone that is a peak of the noise has hardly any weight where the prior allows none so weak. L_k is the
likelihood of a slot's amplitude, the others being integrated out: of the joint fit, Â, and its bound, s², in both parts
of the complex amplitude, whose phase is integrated out too,

.. math:: L_k(A) = e^{-(A^2 + \hat A^2) / 2 s^2}\, I_0(A \hat A / s^2) .

It is not q(A | x) divided by p_0. The flow of a slot ends where p_0 does, and it has learned nothing of slots on no
component: beyond the law of training it says neither how small a likelihood is, nor where. Places are taken from the
bound as well. Classes are the most probable ones.

What the network was not trained to see, components of a ρ below its smallest, is not brought back by this: K counts
those above it, and p(A) is the prior's law of these. Those above its largest it counts as well as others: p_0 reaches
as far as the slot does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import i0e, roots_legendre

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.network.family.alone import Alone
from slotflow.network.family.slot_choices import NEGLIGIBLE, Signal
from slotflow.signal.prior import Prior

__all__ = ["carried"]

REACH = 8.0
"""Standard deviations over which an amplitude is integrated."""
NODES, WEIGHTS = roots_legendre(48)
"""On [−1, 1], (48,)."""


class _Law(NamedTuple):
    """Of an amplitude."""

    low: float
    high: float
    is_log: bool
    """Whether it is log-uniform; else it is uniform."""

    def log_prob(self, a: Array) -> Array:
        """Log density of amplitudes inside, same shape."""
        if self.is_log:
            return -np.log(a * math.log(self.high / self.low))
        return np.full(a.shape, -math.log(self.high - self.low))


def carried(signal: Signal, k_probs: Array) -> Array:
    """The probabilities of K under the prior of a signal, (k_max + 1,), of those of the network."""
    plausible = np.flatnonzero(k_probs > NEGLIGIBLE)
    if len(plausible) < 2:  # there is nothing to weigh
        return k_probs
    low, high = signal.answer.seen.bounds.gain[0].tolist()
    log_p = np.full(len(k_probs), -np.inf)
    for k in plausible:
        ratio = _log_ratio(signal.alone(int(k)), signal.prior, (low, high)) if k else 0.0
        log_p[k] = math.log(k_probs[k]) + ratio
    if not np.isfinite(log_p).any():
        return k_probs
    found: Array = np.exp(log_p - log_sum_exp(log_p, axis=0))
    return found


def _log_ratio(slots: Sequence[Alone], prior: Prior, gain: tuple[float, float]) -> float:
    """Logarithm of the ratio of evidences of K components, with the network's smallest and largest ρ."""
    total, k = 0.0, len(slots)
    for one in slots:
        loudest = max(gain[1] * one.unit, one.amplitude + REACH * one.spread)
        trained = _Law(gain[0] * one.unit, loudest, True)
        total += _log_integral(one, _stated(prior, trained.low)) - _log_integral(one, trained)
    if prior.min_separation > 0:
        places = np.sort(np.stack([one.place for one in slots], 1), axis=1)  # (n, K)
        closest = np.diff(places, axis=1).min(1, initial=np.inf)
        apart = float((closest >= prior.min_separation).mean())
        width = prior.frequency[1] - prior.frequency[0]
        total += math.log(max(apart, 0.5 / len(places)))
        total += k * math.log(width / prior.room(k))
    return total


def _stated(prior: Prior, weakest: float) -> _Law:
    """The prior's law of amplitudes that the network sees, the weakest of which is given."""
    low, high = prior.amplitude
    low = max(low, min(weakest, 0.5 * (low + high)))
    return _Law(low, high, prior.amplitude_law == "loguniform")


def _log_integral(one: Alone, law: _Law) -> float:
    """Logarithm of ∫ p(A) L(A) dA of a slot."""
    centre, sd = one.amplitude, max(one.spread, 1e-9 * law.high)
    left, right = np.clip((centre - REACH * sd, centre + REACH * sd), law.low, law.high)
    if right - left < sd:  # beyond the law's bounds, of which the nearer one counts
        left, right = max(law.low, right - sd), min(law.high, left + sd)
    a = 0.5 * (left + right) + 0.5 * (right - left) * NODES
    log_l = -0.5 * ((a - centre) / sd) ** 2 + np.log(i0e(a * centre / sd**2))
    weights = 0.5 * (right - left) * WEIGHTS
    return float(log_sum_exp(log_l + law.log_prob(a) + np.log(weights), axis=0))
