r"""The two regimes of theorem 4.2 (paper, section 4.3; appendix A.7, "Regime Identification"; table 4).

Of the three terms of the bound, two grow with the problem and the network:

.. math::
    N_{comb} \propto K^3 \ln K , \qquad N_{arch} \propto K^2 L^2 d_h^2 \ln d_h .

**The paper's threshold.** It calls

.. math:: K_{crit} = L^2 d_h^2 \ln d_h

the cardinality at which the first overtakes the second. For L = 8 and d_h = 512 that is 1.05 · 10⁸ (`critical`). The
1.5 · 10⁸ of section 4.3 and appendix B.3 is the same formula with a logarithm to base 2; the "≈ 10⁸" of A.7 has the
natural one, rounded to 6.

**Where the terms are equal.** K_crit drops the ln K of the first term. With it, N_comb = N_arch where
K ln K = K_crit, that is at

.. math:: K_= = K_{crit} / W(K_{crit}) ,

W being Lambert's function (x = W e^W has ln K = W). For the same network this is 6.7 · 10⁶ (`crossover`), sixteen times
less. Neither is near the "K ≈ 100–500" at which appendix B.3 expects the transition.
"""

from __future__ import annotations

import math

from scipy.special import lambertw

__all__ = ["critical", "crossover"]


def critical(layers: int, width: int, base: float = math.e) -> float:
    """K_crit = L² d_h² log d_h.

    Args:
        layers: L, the flow's depth.
        width: d_h, the width of its conditioners.
        base: Of the logarithm; the paper's formula has the natural one.
    """
    return layers**2 * width**2 * math.log(width, base)


def crossover(layers: int, width: int) -> float:
    """The K at which the combinatorial and the architectural term of theorem 4.2 are equal."""
    threshold = critical(layers, width)
    return threshold / float(lambertw(threshold).real)
