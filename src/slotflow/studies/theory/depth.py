r"""How deep a flow should be for a given budget (paper, proposition 4.3; appendix A.6).

A budget of 𝓑 operations buys N = 𝓑 / (L d_h² K T) signals of T epochs, and the error is that of `flow_error` plus an
estimation error √(L d_h ln(L d_h) / N):

.. math::
    E(L) = C_0 e^{-αL} + C_1 B^{-2} + C_2 \sqrt{L^2 d_h^3 K T \ln(L d_h) / \mathcal{B}} .

Its minimum has no closed form; `best_depth` finds it. The paper balances the terms by orders of magnitude and prints
the optimum three times, each time differently:

=====================  =====================================  =================  ===================
where                  second term of the minimum             with its numbers   the paper's number
=====================  =====================================  =================  ===================
proposition 4.3        (𝓑 / (K d_h²))^(1/3)                   72.5
A.6, end of the proof  (𝓑 / (d_h³ K T))^(1/3)                 1.55
A.6, remark            (𝓑 / (d_h³ K T))^(1/2)                 1.93               6
=====================  =====================================  =================  ===================

for 𝓑 = 10¹², d_h = 512, K = 10, T = 200. The first term, ln(C_0/ε)/α with C_0 = 100 and α = 0.2, is the printed 23 for
ε = 1, which is not an approximation. With the same 𝓑 the cost model leaves 238 signals for L = 8, where section 4.2
says 10⁶.

The derivative that A.6 sets to zero, (3/2) C_2 √(L …), belongs to an estimation error that grows as L^(3/2), as the
text under proposition 4.3 has it; that of E(L) above, which grows as L √(ln L), does not contain √L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import minimize_scalar

from slotflow.studies.theory.flow_error import approximation_error, layers_for

__all__ = ["Budget", "best_depth", "depth_of_the_paper", "samples_bought", "total_error"]

DEEPEST = 1000.0
"""Largest depth that `best_depth` looks at."""


@dataclass(frozen=True)
class Budget:
    """What a training may cost; the defaults are those of the paper's remark (A.6)."""

    operations: float = 1e12
    """𝓑, floating-point operations."""
    width: int = 512
    """d_h."""
    k: int = 10
    """K, slots."""
    epochs: int = 200
    """T, passes over the training set."""


def samples_bought(budget: Budget, layers: float) -> float:
    """N = 𝓑 / (L d_h² K T)."""
    return budget.operations / (layers * budget.width**2 * budget.k * budget.epochs)


def total_error(
    layers: float,
    budget: Budget,
    alpha: float,
    c_layers: float,
    c_estimation: float = 1.0,
    bins: float = math.inf,
) -> float:
    """E(L), the approximation error and the estimation error together.

    Args:
        layers: L.
        budget: Gives N.
        alpha: α of the approximation error.
        c_layers: C_0.
        c_estimation: C_2.
        bins: B, with C_1 = 1; infinite to leave its term out.
    """
    complexity = layers * budget.width * math.log(layers * budget.width)
    estimation = c_estimation * math.sqrt(complexity / samples_bought(budget, layers))
    return approximation_error(layers, bins, alpha, c_layers) + estimation


def best_depth(budget: Budget, alpha: float, c_layers: float, c_estimation: float = 1.0) -> float:
    """The L with the least `total_error`, whose arguments these are; from 1 on."""
    found = minimize_scalar(
        lambda layers: total_error(layers, budget, alpha, c_layers, c_estimation),
        bounds=(1.0, DEEPEST),
        method="bounded",
    )
    return float(found.x)


def depth_of_the_paper(
    budget: Budget,
    alpha: float,
    c_layers: float,
    epsilon: float,
    *,
    in_proof: bool = True,
    power: float = 1 / 3,
) -> tuple[float, float]:
    """The two terms whose minimum the paper calls L*: for the approximation, and under the budget.

    Args:
        budget: What a training may cost.
        alpha: α.
        c_layers: C_0.
        epsilon: ε, the approximation error to reach.
        in_proof: Whether the budget is divided by d_h³ K T, as in A.6, or by d_h² K, as in proposition 4.3.
        power: 1/3 in both formulas; the remark of A.6 computes with 1/2.
    """
    per_unit = budget.width**2 * budget.k
    if in_proof:
        per_unit *= budget.width * budget.epochs
    return layers_for(epsilon, alpha, c_layers), (budget.operations / per_unit) ** power
