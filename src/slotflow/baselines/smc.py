r"""Tempered sequential Monte Carlo over the number of tones, from a cold start.

For each K from the prior's smallest upwards, particles go from the prior p(Θ | K) to the posterior and give the
evidence Z_K on the way (`particles.py`); p(K | x) ∝ p(K) Z_K. Nothing but the prior and the data is used, in contrast
to `exact/tempering.py`, which starts from a proposal.

**Where it ends.** An order K is negligible if p(K) Z_K is below `negligible` times the largest, even with three
standard errors added. After `patience` negligible orders in succession beyond the most probable one, no larger K is
tried, and p(K | x) of all larger orders is set to zero. Two tones that explain the data only together could be missed
in this way; the verdict's test of the residual then finds their power.

**Effective draws.** Islands are independent, so the scatter of their means gives the variance of a parameter's mean.
The posterior's variance divided by it is the number of independent draws with the same error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np

from slotflow.baselines.chains import r_hat
from slotflow.baselines.particles import ParticleOptions, Tempered, tempered
from slotflow.baselines.redraw import Redraw
from slotflow.baselines.rjmcmc import rough_noise
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.core.progress import ProgressReporter
from slotflow.core.progress import progress as progress_bar
from slotflow.data.observation import Observation
from slotflow.exact.importance import resample
from slotflow.posterior.sampled import Draws, SampledPosterior, SamplerRun
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior

__all__ = ["ParticleOptions", "smc"]


def smc(
    observation: Observation,
    prior: Prior,
    options: ParticleOptions | None = None,
    *,
    seed: int = 0,
    progress: bool = False,
) -> SampledPosterior:
    """The posterior by tempered sequential Monte Carlo.

    Args:
        observation: The data.
        prior: The prior.
        options: Sizes of the sampler, and when it stops.
        seed: Seed of all random numbers.
        progress: Whether to show a bar on standard error.
    """
    began = time.perf_counter()
    options = ParticleOptions() if options is None else options
    nyquist = observation.long.nyquist
    if prior.frequency[1] > nyquist:
        raise ValueError(
            f"expected a band below the Nyquist frequency of {nyquist:g} Hz, received {prior.frequency} Hz; lower the "
            "prior's frequency range."
        )
    table = Tabulated(Statistics.from_observation(observation), prior)
    redraw = Redraw(table, prior, rough_noise(observation, prior))
    possible = np.flatnonzero(prior.k_probs_full > 0).tolist()
    found: dict[int, Tempered] = {}
    given_up = None
    with progress_bar(len(possible), "smc", quiet=not progress) as bar:
        for done, k in enumerate(possible):
            deadline = began + options.max_seconds
            report = _Report(bar, done, k, redraw.sigma)
            result = tempered(
                table, prior, k, redraw, options, seed, deadline=deadline, report=report
            )
            if result is None:
                given_up = k
                break
            found[k] = result
            if _finished(found, prior, options):
                break
        bar.update(len(possible))
    if not found:
        raise ValueError(
            f"max_seconds = {options.max_seconds:g} was not enough for a single K; allow more time or take fewer "
            "particles."
        )
    return _posterior(found, table, observation, prior, seed, began, given_up)


class _Report:
    """Moves the bar while one K is under way."""

    def __init__(self, bar: ProgressReporter, done: int, k: int, sigma: float) -> None:
        self.bar, self.done, self.k, self.sigma = bar, done, k, sigma
        self.first = 0.0

    def __call__(self, level: float) -> None:
        above = math.log(max(level / self.sigma, 1.0))
        self.first = self.first or max(above, 1e-9)
        share = min(max(1 - above / self.first, 0.0), 1.0)
        self.bar.update(self.done + share, K=self.k, noise_level=level)


def _log_odds(found: Mapping[int, Tempered], prior: Prior) -> dict[int, float]:
    """Ln p(K) Z_K of each K."""
    p = prior.k_probs_full
    return {k: math.log(p[k]) + result.log_evidence for k, result in found.items()}


def _finished(found: Mapping[int, Tempered], prior: Prior, options: ParticleOptions) -> bool:
    """Whether the last orders are negligible."""
    odds = _log_odds(found, prior)
    best = max(odds, key=lambda k: odds[k])
    beyond = [k for k in odds if k > best][-options.patience :]
    if len(beyond) < options.patience or options.negligible == 0:
        return False
    limit = odds[best] + math.log(options.negligible)
    margins = [odds[k] + 3 * math.hypot(found[k].error, found[best].error) for k in beyond]
    return all(margin < limit for margin in margins)


# ---------------------------------------------------------------------- from particles to a posterior


def _posterior(
    found: Mapping[int, Tempered],
    table: Tabulated,
    observation: Observation,
    prior: Prior,
    seed: int,
    began: float,
    given_up: int | None,
) -> SampledPosterior:
    """Equally weighted draws of each K, and σ drawn given the RSS of each draw."""
    odds = _log_odds(found, prior)
    largest = max(odds.values())
    k_probs = np.zeros(prior.k_max + 1)
    evidence = np.tile([-math.inf, math.inf], (prior.k_max + 1, 1))
    theta: dict[int, Array] = {}
    sigma: dict[int, Array] = {}
    for k, result in found.items():
        rng = np.random.default_rng([seed, k, 1])
        k_probs[k] = math.exp(odds[k] - largest)
        evidence[k] = result.log_evidence, result.error
        n = len(result.rss)
        size = n // len(result.log_z)
        chosen = resample(np.repeat(result.weights / size, size), n, rng)
        theta[k] = table.statistics.to_theta(result.z[chosen])
        sigma[k] = table.noise.sample(result.rss[chosen], rng)
    k_probs /= k_probs.sum()
    best = int(k_probs.argmax())
    result = found[best]
    effective = effective_draws(result)
    islands = result.log_likelihood.reshape(len(result.log_z), -1)
    sampling = SamplerRun(
        effective=float(np.median(effective)),
        least_effective=float(effective.min()),
        k_error=_k_error(k_probs, evidence[:, 1]),
        jumps=0,
        r_hat=r_hat(islands.T) if best else 1.0,
        autocorrelation=math.nan,
        warm_up=0,
        steps=result.temperatures,
        seconds=time.perf_counter() - began,
        acceptance=result.acceptance,
        temperatures={k: one.temperatures for k, one in found.items()},
        evaluations=sum(one.evaluations for one in found.values()),
        given_up=given_up,
    )
    draws = Draws(prior.k_max, theta, sigma)
    return SampledPosterior(draws, k_probs, observation, prior, "smc", sampling, evidence)


def effective_draws(result: Tempered) -> Array:
    """Number of independent draws with the same error of the mean, for each coordinate in z, (K·Z,).

    There are at most as many as particles. Without tones every particle is independent, (1,).
    """
    n, k = result.z.shape[:2]
    if k == 0:
        return np.array([float(n)])
    islands = len(result.log_z)
    values = result.z.reshape(islands, -1, math.prod(result.z.shape[1:]))
    weights = result.weights[:, None]
    means = values.mean(1)  # (islands, K·Z)
    mean = (weights * means).sum(0)
    variance = (weights * ((values - mean) ** 2).mean(1)).sum(0)
    error = (weights**2 * (means - mean) ** 2).sum(0) * islands / (islands - 1)
    most = n / (islands * float((weights**2).sum()))
    effective: Array = np.minimum(variance / np.maximum(error, 1e-300), most)
    return effective


def _k_error(k_probs: Array, errors: Array) -> float:
    """Standard error of the largest p(K | x), to first order in the standard errors of ln Z."""
    best, sampled = int(k_probs.argmax()), np.isfinite(errors)
    slope = -k_probs * k_probs[best]
    slope[best] += k_probs[best]
    return float(np.sqrt(((slope * np.where(sampled, errors, 0.0)) ** 2).sum()))
