r"""The bound of theorem 4.2 on the number of training signals (paper, section 4.3; appendix A.7).

For E[KL(p ‖ q)] <= ε with probability 1 − δ it suffices that

.. math::
    N \ge \frac{C_ρ (1 + \mathrm{SNR}^{-2})^2}{ε^2}
    \left( K^3 \ln K + K^2 L^2 d_h^2 \ln d_h + K^2 \ln\frac{2}{δ} \right) , \qquad K = K_{max} .

It follows from requiring each of the two terms of `estimation` to be of the order of ε: N >= (Rademacher)² / ε² gives
the middle term, N >= (deviation)² / ε² the others, and ln ρ ∝ 1 + SNR⁻² the factor in front. Three remarks:

- The first step of the proof is a triangle inequality for KL, which does not exist; the statement is taken as it is.
- Regime I is called independent of K ("N ∼ L² d_h² / ε²"), but both leading terms carry K²: from K = 1 to K = 10 the
  bound grows a hundredfold, exactly.
- A.7 says that the bound is N ≳ 10¹⁰ for ε = 0.01. With C_ρ = 1 and no noise it is 1.0 · 10¹⁴ for K_max = 10
  (L = 8, d_h = 512) and 1.7 · 10¹¹ if K² and the logarithm are dropped as well: 10¹⁰ would need C_ρ ≈ 10⁻⁴.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Network", "Terms", "prefactor", "samples_needed", "terms"]


@dataclass(frozen=True)
class Network:
    """What the bound knows of an architecture."""

    layers: int = 8
    """L, the flow's depth."""
    width: int = 512
    """d_h: 512 in section 4, where section 3 has conditioners of width 768."""


@dataclass(frozen=True)
class Terms:
    """The three additive terms in the brackets."""

    combinatorial: float
    """K³ ln K, of the union over assignments."""
    architectural: float
    """K² L² d_h² ln d_h, of the Rademacher complexity."""
    confidence: float
    """K² ln(2/δ)."""

    @property
    def total(self) -> float:
        """Their sum."""
        return self.combinatorial + self.architectural + self.confidence


def terms(k_max: int, network: Network, delta: float = 0.05) -> Terms:
    """The terms in the brackets for K_max components and a probability δ of failure."""
    complexity = network.layers**2 * network.width**2 * math.log(network.width)
    return Terms(
        k_max**3 * math.log(k_max),
        k_max**2 * complexity,
        k_max**2 * math.log(2 / delta),
    )


def prefactor(epsilon: float, snr: float = math.inf, c_rho: float = 1.0) -> float:
    """C_ρ (1 + SNR⁻²)² / ε².

    Args:
        epsilon: ε, the divergence to reach.
        snr: Signal-to-noise ratio; infinite without noise.
        c_rho: C_ρ, which the paper leaves open.
    """
    return c_rho * (1 + snr**-2) ** 2 / epsilon**2


def samples_needed(
    epsilon: float,
    k_max: int,
    network: Network,
    delta: float = 0.05,
    snr: float = math.inf,
    c_rho: float = 1.0,
) -> float:
    """N of theorem 4.2; the arguments are those of `prefactor` and `terms`."""
    return prefactor(epsilon, snr, c_rho) * terms(k_max, network, delta).total
