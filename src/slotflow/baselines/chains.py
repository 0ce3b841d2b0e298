r"""How much a Markov chain of walkers is worth: Monte-Carlo error, effective draws, R-hat, warm-up.

**Effective draws.** Let ḡ be the mean of g given K = k over n steps of W walkers, 1_k the indicator of K = k and p its
mean. Then

.. math:: h_t = \frac1W \sum_w 1_k (g_{tw} - \bar g) / p

is the series whose mean is the error of ḡ to first order. Its variance times its autocorrelation time τ over n is the
square of the Monte-Carlo error, and n_eff = Var(g | k) / error² independent draws would have the same error. The
walkers need not be independent of each other: walkers of an ensemble exchange states and pull each other along, and
autocorrelation times that are measured walker by walker overstate n_eff.

**τ** = 1 + 2 Σ ρ_j up to the first j ≥ 5τ (Sokal's window).

**R-hat** compares the walkers' means over each half of the chain with the spread within them; it is 1 where all agree.
With several temperatures it reveals less: a state that is stuck wanders from walker to walker by exchanges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = ["autocorrelation_time", "effective_draws", "r_hat", "settled", "warm_up"]

SOKAL_WINDOW = 5.0
"""Number of autocorrelation times after which the sum of the autocorrelations ends."""


def autocorrelation_time(series: Array) -> float:
    """Integrated autocorrelation time of a series, (n,), in steps; at least 1, and NaN if the series is constant."""
    x = series - series.mean()
    n = len(x)
    if n < 4 or not np.ptp(x) > 0:
        return float("nan")
    spectrum = np.fft.rfft(x, 2 * (1 << (n - 1).bit_length()))
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[:n]
    times = 2 * np.cumsum(correlation / correlation[0]) - 1
    ends = np.flatnonzero(np.arange(n) >= SOKAL_WINDOW * times)
    return float(max(times[ends[0] if ends.size else n - 1], 1.0))


def effective_draws(values: Array, chosen: NDArray[np.bool_]) -> tuple[float, float]:
    """Effective draws of a mean given a condition.

    Args:
        values: g of each step and walker, (n, W); only those that are chosen count.
        chosen: Where the condition holds, (n, W).

    Returns:
        Number of independent draws with the same Monte-Carlo error, and τ in steps; NaN where nothing varies.
    """
    share = float(chosen.mean())
    if share == 0 or chosen.sum() < 4:
        return float("nan"), float("nan")
    kept = values[chosen]
    series = np.where(chosen, values - kept.mean(), 0.0).mean(1) / share
    time = autocorrelation_time(series)
    error = float(series.var()) * time / len(series)
    if not error > 0:
        return float("nan"), float("nan")
    return float(kept.var()) / error, time


def r_hat(values: Array) -> float:
    """Split R-hat of the chains of W walkers, (n, W); 1 where nothing varies, NaN where the chain is too short."""
    half = len(values) // 2
    if half < 4:
        return float("nan")
    chains = np.concatenate([values[:half], values[half : 2 * half]], 1)  # (n/2, 2W)
    within = float(chains.var(0, ddof=1).mean())
    between = float(chains.mean(0).var(ddof=1))
    if between == 0:
        return 1.0
    return float(np.sqrt((half - 1) / half + between / within)) if within > 0 else float("inf")


def warm_up(log_likelihood: Array) -> int:
    """Steps before the ensemble's mean log-likelihood, (n, W), comes within the scatter of its last quarter."""
    mean = log_likelihood.mean(1)
    rest = mean[-max(len(mean) // 4, 1) :]
    late = np.flatnonzero(np.abs(mean - rest.mean()) < 3 * rest.std() + 1e-9)
    return int(late[0]) if late.size else len(mean)


def settled(log_likelihood: Array) -> bool:
    """Whether the mean and the median walker's log-likelihood, (n, W), have stopped climbing.

    Their means over the last two quarters differ by less than 1.5 times the scatter within the last one. A steady climb
    makes that ratio 3.5. The median is tested too, because a few walkers far below the rest make the scatter of the
    mean large.
    """
    quarter = max(len(log_likelihood) // 4, 1)
    for series in (log_likelihood.mean(1), np.median(log_likelihood, 1)):
        before, last = series[-2 * quarter : -quarter], series[-quarter:]
        if abs(last.mean() - before.mean()) > 1.5 * last.std() + 1e-9:
            return False
    return True
