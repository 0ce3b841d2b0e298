r"""How well a spline flow can approximate a density (paper, lemma 4.2; appendix A.5).

.. math:: \mathrm{KL}(p \,\|\, q) \le C_0 e^{-αL} + C_1 B^{-2} , \qquad α = β/d ,

for L layers and B bins, β the Hölder exponent of the density and d its dimension. The paper's α ≈ 0.2 (A.6) with its
four coordinates means β = 0.8. Neither C_0 nor C_1 is given, and no theorem that the proof cites has an exponential
rate in the number of layers; the formula is kept for what is built on it (`depth`).
"""

from __future__ import annotations

import math

__all__ = ["approximation_error", "layers_for"]


def approximation_error(
    layers: float, bins: float, alpha: float, c_layers: float = 1.0, c_bins: float = 1.0
) -> float:
    """C_0 e^(−αL) + C_1 B⁻².

    Args:
        layers: L.
        bins: B; infinite to leave the second term out.
        alpha: α.
        c_layers: C_0.
        c_bins: C_1.
    """
    return c_layers * math.exp(-alpha * layers) + c_bins * bins**-2


def layers_for(epsilon: float, alpha: float, c_layers: float) -> float:
    """The depth at which the first term has fallen to ε: ln(C_0/ε) / α."""
    return math.log(c_layers / epsilon) / alpha
