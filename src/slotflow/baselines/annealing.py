r"""The path from the prior to the posterior: ln L as a function of RSS, with a limited slope.

With σ integrated out ln L is a function m(RSS). Its slope −τ(RSS)/2 is the steeper the smaller RSS is; τ is the
precision 1/σ² that such an RSS suggests. A power of L would be the usual path, but along it every tone that is found
sharpens the likelihood of the next: all tones lock at once, and few particles get through. Instead the slope is limited
to τ/2: g_τ is m above the RSS at which m has that slope, and a straight line below,

.. math:: g_τ(R) = m(\max(R, R_τ)) + \tfrac12 τ \max(R_τ - R, 0) .

τ = 0 is a constant. Small τ is a large known noise level, at which the tones are found one after the other, the
strongest first. τ → ∞ is m itself. Where σ is known, m is a straight line, and g_τ a power of L.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array

__all__ = ["Annealing"]

SLOPE_POINTS = 4096
"""Number of points in ln RSS at which the slope of ln L is tabulated."""


class Annealing:
    """The log densities g_τ as functions of RSS, without the prior.

    Args:
        table: The likelihood.
    """

    def __init__(self, table: Tabulated) -> None:
        self.table = table
        lowest = math.log(
            0.01 * table.statistics.n * table.noise.low**2
        )  # lower values are of no use
        x = np.linspace(min(table.log_rss[0], lowest), table.log_rss[-1], SLOPE_POINTS)
        slope = -2 * np.gradient(table.log_likelihood(np.exp(x)), x) / np.exp(x)
        self.rss = np.exp(x)
        self.precision: Array = np.maximum.accumulate(slope[::-1])[::-1]
        """τ at these RSS, (SLOPE_POINTS,), falling."""

    def __call__(self, tau: float, rss: Array) -> Array:
        """g_τ at rss, any shape."""
        if tau == math.inf:
            return self.table.log_likelihood(rss)
        # Where ln L is steeper everywhere, the straight line begins at the largest RSS of all.
        edge = np.interp(-tau, -self.precision, self.rss)
        value = self.table.log_likelihood(np.maximum(rss, edge))
        return value + 0.5 * tau * np.maximum(edge - rss, 0.0)

    def level(self, tau: float, rss: Array) -> float:
        """The noise level that states feel: 1/√τ or, if that is larger, the level that their RSS suggests."""
        felt = float(np.interp(np.median(rss), self.rss, self.precision))
        return 1 / math.sqrt(max(min(tau, felt), 1e-300))

    def next(self, tau: float, rss: Array, keep: float) -> float:
        """The largest τ' under whose weights exp(g_τ' − g_τ) a share of the states stays effective.

        Args:
            tau: The current τ.
            rss: Residual sums of squares of the states, (n,).
            keep: The share of the states, between 0 and 1.
        """
        before = self(tau, rss)

        def effective(trial: float) -> float:
            gain = self(trial, rss) - before
            w = np.exp(gain - gain.max())
            return float(w.sum() ** 2 / (len(w) * (w**2).sum()))

        steepest = float(self.precision[0])
        if tau >= steepest or effective(math.inf) >= keep:
            return math.inf
        low = math.log(max(tau, 1e-6 / float(rss.max())))  # so small a τ changes no weight
        high = math.log(steepest)
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if effective(math.exp(middle)) >= keep else (low, middle)
        return math.exp(high)
