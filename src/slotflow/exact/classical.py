r"""The classical estimator: matching pursuit, joint Gauss–Newton, order by BIC or by Laplace evidence.

**Pursuit.** For K = 1, 2, … the strongest peak of the residual's zero-padded periodogram inside the band, on the long
stream, starts one more tone. All K tones are then refitted together on all streams (`signal/fit.py`), so that an
early tone moves as its neighbours are found. A tone that started on the wrong peak is shed on the way back: from each
order one tone (the weakest, or one of the closest pair) is left out and the rest refitted, which becomes the fit of
the order below if it explains the data better. Where the rest stands on the fit of that order already, or the tone is
worth far more than the two orders differ by, this is spared.

**Accuracy.** Fits on the way stop a tenth of a standard deviation from the maximum (`ROUGH`). Orders that still count
in the end go all the way, and only they have a `mismatch`.

**BIC.** With n samples and σ² = RSS/n, BIC_K = n ln(RSS_K / n) + 3K ln n, or RSS_K / σ² + 3K ln n where the prior says
that σ is known. It knows nothing else of the prior.

**Evidence.** ln Z_K by Laplace's approximation under a given prior (`signal/evidence.py`); p(K | x) ∝ Z_K p(K). Where
the order that BIC and the prior favour has no Gaussian (its fit did not converge), evidences of the other orders say
nothing about it, and p(K | x) ∝ exp(−BIC_K/2) p(K) takes their place.

Resolved tones at the paper's noise levels are an easy case for it. Below the resolution 1/T the pursuit can miss
the second tone of a pair, the posterior is no Gaussian, and p(K | x) is overconfident.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.budget import time_left
from slotflow.data.observation import Observation, as_list
from slotflow.data.sampling import Grid
from slotflow.signal.evidence import gaussian_draws, log_evidence
from slotflow.signal.fit import TOLERANCE, Laplace, fit, linear_amplitudes
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import tones
from slotflow.signal.waveforms import TONE

__all__ = ["Classical", "classical"]

PADDING = 4
"""The periodogram has this many points per bin."""
CLEAR = 12.0
"""A peak this many times above the noise's mean power is taken for a tone, or for the leakage of one."""
SPARE = 2
"""Orders beyond the prior's k_max that the pursuit may pass through: a wrong tone is shed on the way back."""
QUICK = 10
"""Gauss–Newton steps of a first fit; resolved tones need three."""
ROUGH = 1e-2
"""Decrement at which a first fit may stop: within 0.1 standard deviations and 0.005 in log L of the maximum."""
SAME = 0.2
"""Tones that start within so many bins of those of a fit would end there too."""
TOO_DEAR = 50.0
"""A tone whose removal costs so much more log L than an order lacks is not left out of the order above it."""
PATIENCE = 2
"""The pursuit ends after so many orders without a better BIC and with less evidence than the best by `HOPELESS`."""
HOPELESS = 25.0
"""Logarithm of the odds beyond which an order no longer counts."""
FAR = 250.0
"""Evidence is not computed for orders whose BIC/2 is worse than the best by so much."""


@dataclass(frozen=True, eq=False)
class Classical:
    """Fits of every order to B signals; index K = 0..K_max throughout."""

    fits: list[Laplace]
    """The joint fit of each order; signals whose pursuit ended earlier have converged = False."""
    bic: Tensor
    """BIC, (B, K_max + 1), inf where there is no fit."""
    log_evidence: Tensor
    """ln Z_K, (B, K_max + 1), −inf where there is no fit, or one that is worse by `FAR`."""
    prior: Prior
    """The prior of the evidence."""
    complete: bool = True
    """Whether all orders that may matter were looked at before the time of the call was over."""

    @property
    def k_bic(self) -> NDArray[np.int64]:
        """Order of the smallest BIC, (B,)."""
        order: NDArray[np.int64] = self.bic.argmin(-1).numpy()
        return order

    @property
    def k_probs(self) -> NDArray[np.float64]:
        """p(K | x), (B, K_max + 1)."""
        log_prior = self.prior.log_prob_k(torch.arange(self.prior.k_max + 1))
        logits = self.log_evidence + log_prior
        likely = (log_prior - self.bic / 2).argmax(-1, keepdim=True)
        lost = logits.gather(-1, likely) == -math.inf  # the order to beat has no evidence
        probs: NDArray[np.float64]
        probs = torch.where(lost, log_prior - self.bic / 2, logits).softmax(-1).numpy()
        return probs

    @property
    def k_map(self) -> NDArray[np.int64]:
        """Most probable K, (B,)."""
        order: NDArray[np.int64] = self.k_probs.argmax(-1)
        return order

    def sample(self, i: int, n: int, k: int | None = None, seed: int = 0) -> NDArray[np.float64]:
        """Joint draws of signal i from the Gaussian of order k, cut to the prior's support.

        Args:
            i: Which signal.
            n: Number of draws.
            k: Order; k_map if None.
            seed: The same seed gives the same draws.

        Returns:
            (A, φ in [0, 2π), f), (n, k, 3).
        """
        k = int(self.k_map[i]) if k is None else k
        if not 0 <= k < len(self.fits) or not bool(self.fits[k].converged[i]):
            raise ValueError(
                f"expected an order with a fit, received k = {k} for signal {i}; those of this signal "
                f"are {[j for j, f in enumerate(self.fits) if bool(f.converged[i])]}."
            )
        order, generator = self.fits[k], torch.Generator().manual_seed(seed)
        found: list[Tensor] = []
        for _ in range(1000):
            z = torch.randn(n, TONE.size * k, generator=generator, dtype=torch.float64)
            draws = gaussian_draws(order.theta[i : i + 1], order.covariance[i : i + 1], z)[0]
            found.append(draws[self.prior.log_prob_theta(draws) > -math.inf])
            if sum(map(len, found)) >= n:
                theta: NDArray[np.float64] = torch.cat(found)[:n].numpy()
                return theta
        raise ValueError(
            f"the fit of order {k} to signal {i} lies outside the prior; choose another order or prior."
        )


@torch.no_grad()
def classical(
    observation: Observation | Sequence[Observation], prior: Prior | None = None
) -> Classical:
    """Fits every order up to the prior's k_max.

    Args:
        observation: One observation, or several on the same grids.
        prior: Band, largest order, and what the evidence is taken under; the paper's if None.
    """
    prior = Prior() if prior is None else prior
    several = as_list(observation)
    statistics = Statistics.from_observation(several)
    grid = statistics.grids[0]
    if prior.frequency[1] > 0.5 / grid.dt:
        raise ValueError(
            f"expected a band below the Nyquist frequency of {0.5 / grid.dt:g} Hz, received "
            f"{prior.frequency} Hz; lower the prior's frequency range."
        )
    series = torch.as_tensor(np.stack([one.long.values for one in several]))  # (B, N)
    known = prior.known_sigma
    levels = [known or one.noise_level(prior.frequency)[0] for one in several]
    noise = torch.tensor(levels).double()

    size, orders = len(several), prior.k_max + 1 + SPARE
    fits = [_nothing(size, k) for k in range(orders)]
    result = Classical(
        fits,
        bic=torch.full((size, orders), math.inf, dtype=torch.float64),
        log_evidence=torch.full((size, orders), math.nan, dtype=torch.float64),
        prior=prior,
    )  # evidence: NaN as long as it is not known
    everyone, n = torch.arange(size), statistics.n
    active = everyone
    for k in range(orders):  # forward: one more tone
        start = torch.zeros(len(active), 0, TONE.size, dtype=torch.float64)
        if k > 0:
            before = fits[k - 1].theta[active]
            peak = _strongest(series[active], before, noise[active], grid, prior)
            frequency = torch.cat([TONE.place_of(before), peak[:, None]], dim=1)
            start = linear_amplitudes(statistics.take(active), frequency)
        _improve(result, k, start, active, statistics)
        active = active[_worth_going_on(result, active, k, statistics.n)]
        if len(active) == 0 or time_left() < 0:
            break
    complete = len(active) == 0 or k == orders - 1
    best = torch.maximum(result.bic.argmin(-1), _evidence(result, everyone, n).argmax(-1))
    for k in range(orders - 2, 0, -1):  # backward: one tone less, where that could be the answer
        if time_left() < 0:
            complete = False
            break
        near = (k >= best - 2) & result.bic[:, k + 1].isfinite()
        for drop in (_weakest, _crowded):
            rows = torch.nonzero(near).squeeze(-1)
            if len(rows):
                dropped = drop(fits[k + 1].theta[rows])
                frequency, promising = _without(fits, k, dropped, rows, grid)
                rows = rows[promising]
            if len(rows):
                start = linear_amplitudes(statistics.take(rows), frequency[promising])
                _improve(result, k, start, rows, statistics)
    best = torch.maximum(result.bic.argmin(-1), _evidence(result, everyone, n).argmax(-1))
    for k in range(1, orders):  # neighbours of the best that ran out of steps
        near = ((k - best).abs() <= 1) & result.bic[:, k].isfinite() & ~fits[k].converged
        rows = torch.nonzero(near).squeeze(-1)
        if len(rows):
            _improve(result, k, fits[k].theta[rows], rows, statistics, max_iterations=60)
    asked = prior.k_max + 1
    evidence = _evidence(result, everyone, n)[:, :asked]
    result = Classical(fits[:asked], result.bic[:, :asked], evidence, prior, complete)
    counts = evidence > evidence.amax(-1, keepdim=True) - HOPELESS
    counts.scatter_(1, torch.as_tensor(result.k_bic)[:, None], True)
    for k in range(asked):  # whatever still counts goes all the way
        rows = torch.nonzero(counts[:, k]).squeeze(-1)
        if len(rows):
            _improve(result, k, fits[k].theta[rows], rows, statistics, 60, final=True)
    return replace(result, log_evidence=_evidence(result, everyone, n))


def _improve(
    result: Classical,
    k: int,
    start: Tensor,
    rows: Tensor,
    statistics: Statistics,
    max_iterations: int = QUICK,
    final: bool = False,
) -> None:
    """Fits k tones to some signals and keeps what explains the data better than what is there.

    Args:
        result: Changed in place.
        k: Order.
        start: Where to start, (R, k, 3).
        rows: Which signals, (R,).
        statistics: Of all signals.
        max_iterations: Gauss–Newton steps at most.
        final: Whether to go all the way and to compare the curvature there; only a fit that arrives is kept.
    """
    n, known = statistics.n, result.prior.known_sigma
    found = fit(
        statistics.take(rows),
        start,
        sigma=None if known is None else torch.full((len(rows),), known, dtype=torch.float64),
        max_iterations=max_iterations,
        max_shift=2.0,
        tolerance=TOLERANCE if final else ROUGH,
        curvature=final,
    )
    rss = found.rss
    misfit = n * (rss / n).clamp_min(1e-300).log() if known is None else rss / known**2
    bic = misfit + TONE.size * k * math.log(n)
    better = (bic <= result.bic[rows, k] + 1e-9) & bic.isfinite()
    if final:
        better &= found.converged
    chosen = rows[better]
    result.bic[chosen, k] = bic[better]
    result.log_evidence[chosen, k] = math.nan
    for name, values in vars(result.fits[k]).items():
        values[chosen] = getattr(found, name)[better]


def _strongest(series: Tensor, theta: Tensor, noise: Tensor, grid: Grid, prior: Prior) -> Tensor:
    """Frequency of the strongest peak of the residual inside the band.

    Peaks right beside a tone that is already there come last: as long as others remain, what is left beside it is
    mostly their leakage, and two tones on one peak cancel each other with ever larger amplitudes.

    Args:
        series: The long streams, (B, N).
        theta: Tones found so far, (B, k, 3).
        noise: Estimates of σ, (B,), or NaN.
        grid: Sampling of the long stream.
        prior: Gives band and separation.

    Returns:
        Frequencies in Hz, (B,).
    """
    residual = series - tones(theta, grid).double()
    n = PADDING * grid.n
    first, last = (int(f * n * grid.dt) for f in prior.frequency)
    power = torch.fft.rfft(residual, n=n)[:, first : last + 2].abs() ** 2  # of noise alone N σ²
    frequency = torch.arange(first, first + power.shape[1], dtype=torch.float64) / (n * grid.dt)
    inside = (frequency >= prior.frequency[0]) & (frequency <= prior.frequency[1])
    power = torch.where(inside, power, 0.0)  # (B, F)
    radius = max(0.7 * prior.min_separation, 0.75 / grid.duration)
    beside = ((frequency - TONE.place_of(theta)[..., None]).abs() < radius).any(1)  # (B, F)
    apart, peak = torch.where(beside, 0.0, power).max(-1)
    clear = apart > CLEAR * noise**2 * grid.n
    return frequency[torch.where(clear, peak, power.argmax(-1))]


def _without(
    fits: list[Laplace], k: int, dropped: Tensor, rows: Tensor, grid: Grid
) -> tuple[Tensor, Tensor]:
    """Order k + 1 without one tone, and whether that could improve on the fit of order k.

    It could not if the rest stands where the fit of order k ended, or if the tone is worth too much: without it log L
    falls by (A/sd A)²/2 until the others move.

    Args:
        fits: Of each order.
        k: Order.
        dropped: Which tone to leave out, (R,).
        rows: Which signals, (R,).
        grid: Sampling of the long stream.

    Returns:
        Frequencies in Hz, (R, k), and whether they are worth a fit, (R,), bool.
    """
    larger, smaller, each = fits[k + 1], fits[k], torch.arange(len(rows))
    keep = torch.arange(k + 1) != dropped[:, None]
    frequency = TONE.place_of(larger.theta[rows])[keep].reshape(len(rows), k)
    distance = frequency.sort(-1).values - TONE.place_of(smaller.theta[rows]).sort(-1).values
    same = smaller.converged[rows] & (distance.abs() * grid.duration < SAME).all(-1)
    amplitude = TONE.of(larger.theta[rows, dropped], "amplitude")
    variance = larger.covariance[rows].diagonal(dim1=-2, dim2=-1).reshape(len(rows), k + 1, -1)
    variance = TONE.of(variance[each, dropped], "amplitude")
    cost = 0.5 * amplitude**2 / variance  # inf without a fit
    lead = larger.log_likelihood[rows] - smaller.log_likelihood[rows]
    dear = larger.converged[rows] & smaller.converged[rows] & (cost > lead + TOO_DEAR)
    return frequency, ~(same | dear)


def _evidence(result: Classical, rows: Tensor, n: int) -> Tensor:
    """Ln Z_K of some signals, (R, orders), computed where it is not known yet and the order is not too far off."""
    bic = result.bic[rows]
    near = bic < bic.amin(-1, keepdim=True) + 2 * FAR
    missing = near & result.log_evidence[rows].isnan()
    for k in missing.any(0).nonzero().squeeze(-1).tolist():
        some = rows[missing[:, k]]
        found = Laplace(**{name: value[some] for name, value in vars(result.fits[k]).items()})
        result.log_evidence[some, k] = log_evidence(found, result.prior, n)
    return torch.where(near, result.log_evidence[rows], -math.inf)


def _worth_going_on(result: Classical, rows: Tensor, k: int, n: int) -> Tensor:
    """Whether a tone beyond order k may still help, (R,)."""
    stale = result.bic[rows, : k + 1].argmin(-1) <= k - PATIENCE
    if not bool(stale.any()):
        return ~stale
    evidence = _evidence(result, rows[stale], n)[:, : k + 1]
    hopeless = evidence[:, max(k - PATIENCE + 1, 0) :].amax(-1) < evidence.amax(-1) - HOPELESS
    return ~stale.masked_scatter(stale, hopeless)


def _weakest(theta: Tensor) -> Tensor:
    """Index of the tone of smallest amplitude, (R,), of (R, k, 3)."""
    return TONE.of(theta, "amplitude").argmin(-1)


def _crowded(theta: Tensor) -> Tensor:
    """Index of the weaker tone of the closest pair, (R,), of (R, k, 3)."""
    frequency, order = TONE.place_of(theta).sort(-1)
    rows = torch.arange(len(theta))
    if theta.shape[1] < 2:
        return torch.zeros_like(rows)
    first = frequency.diff(dim=-1).argmin(-1)
    left, right = order[rows, first], order[rows, first + 1]
    amplitude = TONE.of(theta, "amplitude")
    return torch.where(amplitude[rows, left] < amplitude[rows, right], left, right)


def _nothing(size: int, k: int) -> Laplace:
    """No fit of order k to any of the signals."""
    zero = torch.zeros(size, dtype=torch.float64)
    return Laplace(
        theta=torch.zeros(size, k, TONE.size, dtype=torch.float64),
        sigma=zero.clone(),
        covariance=torch.zeros(size, TONE.size * k, TONE.size * k, dtype=torch.float64),
        log_likelihood=zero.clone(),
        rss=zero.clone(),
        iterations=torch.zeros(size, dtype=torch.int64),
        converged=torch.zeros(size, dtype=torch.bool),
        mismatch=zero.clone(),
    )
