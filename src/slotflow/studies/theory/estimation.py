r"""The inequalities behind theorem 4.2 (paper, appendix A.7, steps 2 to 4).

**Rademacher complexity** (step 2). With weights of norm ‖φ‖ <= B_φ and inputs of norm <= B, K slots have

.. math:: \hat R_N(H_K) \le C K B B_φ \sqrt{L d_h \ln d_h / N} ,

and with the paper's B_φ = √(L d_h) this is C K B L d_h √(ln d_h / N) (`rademacher`). Appendix A.6 takes
√(L d_h ln(L d_h) / N) for the same estimation error: it leaves out B_φ, hence a factor √(L d_h), 64 for the paper's
network.

**Concentration** (steps 3 and 4). One signal moves the loss by at most K ln ρ, ρ = p_max/p_min, so that by McDiarmid's
inequality and a union over the assignments

.. math:: P(\sup_π |\hat L - L| > t) \le 2 K^K \exp(-2 N t^2 / (K \ln ρ)^2) ,

which is δ at t = K ln ρ √((K ln K + ln(2/δ)) / 2N) (`deviation`). K! <= K^K is generous: ln K! is 15.1 for K = 10 where
K ln K is 23.0 (`log_assignments`).
"""

from __future__ import annotations

import math

__all__ = ["deviation", "log_assignments", "rademacher", "union_bound"]


def rademacher(
    samples: float, k: int, layers: int, width: int, weight_norm: float | None = None
) -> float:
    """Bound of the Rademacher complexity of K slots, with C = B = 1.

    Args:
        samples: N.
        k: K.
        layers: L.
        width: d_h.
        weight_norm: B_φ; the paper's √(L d_h) if None.
    """
    norm = math.sqrt(layers * width) if weight_norm is None else weight_norm
    return k * norm * math.sqrt(layers * width * math.log(width) / samples)


def log_assignments(k: int) -> float:
    """Ln K!, of which K ln K is the union bound's upper limit."""
    return math.lgamma(k + 1)


def deviation(samples: float, k: int, log_range: float, delta: float) -> float:
    """How far an empirical loss may lie from its mean for any assignment, but for a probability δ.

    Args:
        samples: N.
        k: K.
        log_range: ln ρ, the largest |log density|.
        delta: δ.
    """
    exponent = k * math.log(k) + math.log(2 / delta)
    return k * log_range * math.sqrt(exponent / (2 * samples))


def union_bound(distance: float, samples: float, k: int, log_range: float) -> float:
    """Bound of the probability that some assignment's empirical loss is this far from its mean; may exceed 1."""
    exponent = k * math.log(k) - 2 * samples * (distance / (k * log_range)) ** 2
    return 2 * math.exp(exponent)
