r"""Parallel-tempered reversible-jump MCMC over the number of tones, by Eryn (extra ``baselines``).

It is fast because the likelihood takes about a microsecond (`tabulated.py`), births come from the periodogram
(`births.py`) and steps have the scale of the Fisher information at each temperature (`moves.py`). σ is integrated out,
and drawn afterwards; the minimum separation is part of the prior. One step of the chain consists of `repeats` moves
within the model and one birth or death for every walker (`ensemble.py`).

**Starts.** A cold start is what a user has: every walker takes its K from the prior and its tones from the births,
which know nothing but the data. The other start is near given tones, scattered by the inverse of their Fisher matrix;
the paper starts its chains in this way near the truth.

**Warm-up.** The temperatures and the sizes of the steps adapt until the log-likelihood has settled. From then on they
are fixed, and detailed balance holds. The kept part of the chain begins there, or later if a second look shows that the
likelihood settled later. The run ends when there are enough effective draws (`chains.py`) of the parameters of the most
probable K, or of the statement K = 0 where noise alone is most probable.
"""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slotflow.baselines.births import BirthsOfTheta, PeriodogramBirths
from slotflow.baselines.chains import effective_draws, r_hat, warm_up
from slotflow.baselines.ensemble import BLOCK, ChainOptions, Ensemble
from slotflow.baselines.eryn_compat import load_eryn, seeded
from slotflow.baselines.moves import Mask, StatePrior
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.core.progress import progress as progress_bar
from slotflow.data.observation import Observation
from slotflow.posterior.sampled import Draws, SampledPosterior, SamplerRun
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior

__all__ = ["ChainOptions", "rjmcmc", "rough_noise"]

FEWEST_AUTOCORRELATION_TIMES = 20
"""Length that a chain needs before its number of effective draws is trusted, in autocorrelation times."""
FEWEST_STEPS = 100
"""Length that a chain needs in any case, in steps."""
LARGEST_R_HAT = 1.1
"""R-hat below which the walkers count as being in agreement."""
BIRTHS_TRIED = 10
"""Number of births that are tried for each tone of a cold start."""
SCATTERS_TRIED, SCATTERS_PER_HALVING = 200, 20
"""Number of times that a start near given tones is scattered, and after how many of them the scatter is halved."""


def rjmcmc(
    observation: Observation,
    prior: Prior,
    options: ChainOptions | None = None,
    *,
    start: ArrayLike | None = None,
    births: Any = None,
    file: str | Path | None = None,
    seed: int = 0,
    progress: bool = False,
) -> SampledPosterior:
    """The posterior by reversible-jump MCMC.

    Args:
        observation: The data.
        prior: The prior.
        options: Sizes of the sampler, and when it stops.
        start: Tones θ, (K, P), near which all walkers start; None: a cold start from the prior.
        births: Object with `rvs` and `logpdf` of single tones θ, such as `Posterior.as_eryn_proposal()`; None: births
            come from the periodogram.
        file: HDF file of the chain. A run continues where an earlier one with the same file ended. Eryn writes the file
            at every step, which takes longer than the step itself. None: the chain is kept in memory.
        seed: Seed of all random numbers.
        progress: Whether to show a bar on standard error.
    """
    load_eryn()  # the time of the import does not count
    began = time.perf_counter()
    options = ChainOptions() if options is None else options
    statistics = Statistics.from_observation(observation)
    table, sigma = Tabulated(statistics, prior), rough_noise(observation, prior)
    source = (
        PeriodogramBirths(table, prior, sigma)
        if births is None
        else BirthsOfTheta(births, statistics.reference)
    )
    path = None if file is None else Path(file)
    with seeded(seed), warnings.catch_warnings():
        # Eryn warns if the proposals of all walkers lie outside the prior, which may happen with a few walkers.
        warnings.filterwarnings("ignore", message="All points input", category=UserWarning)
        ensemble = Ensemble(table, prior, source, sigma, options, path)
        state = ensemble.last() if ensemble.steps else _start(ensemble, start, seed)
        with progress_bar(options.effective, "rjmcmc", quiet=not progress) as bar:
            look = 0
            while True:
                done, seconds = ensemble.steps, time.perf_counter() - began
                last = done >= options.max_steps or (done > 8 and seconds > options.max_seconds)
                if last or (
                    ensemble.tuned > 0 and done >= max(look, ensemble.tuned + FEWEST_STEPS)
                ):
                    found = _sampling(ensemble, seconds)
                    bar.update(
                        min(found.effective, options.effective), steps=done, r_hat=found.r_hat
                    )
                    needed = FEWEST_AUTOCORRELATION_TIMES * found.autocorrelation
                    sure = found.steps >= max(needed, FEWEST_STEPS)
                    sure &= found.r_hat < LARGEST_R_HAT
                    if last or (found.effective >= options.effective and sure):
                        break
                    look = done + max(BLOCK, done // 10)  # looks become rarer as the chain grows
                state = ensemble.advance(state)
    return _posterior(ensemble, found, observation, prior, seed)


# ---------------------------------------------------------------------- start


def rough_noise(observation: Observation, prior: Prior) -> float:
    """Noise level from outside the band, or the middle of the prior where the data do not give it."""
    sigma = observation.noise_level(prior.frequency)[0]
    low, high = prior.sigma
    return float(
        np.clip(sigma if math.isfinite(sigma) else 0.5 * (low + high), max(low, 1e-3 * high), high)
    )


def _start(ensemble: Ensemble, start: ArrayLike | None, seed: int) -> Any:
    """Eryn's first state, cold or near given tones."""
    shape = ensemble.options.temperatures, ensemble.options.walkers
    if start is None:
        z, places = _cold(ensemble, math.prod(shape), seed)
    else:
        tones = np.asarray(start, dtype=np.float64)
        z, places = near(
            tones, ensemble.table.statistics, ensemble.log_prior, math.prod(shape), seed
        )
    return ensemble.state(z.reshape(*shape, *z.shape[1:]), places.reshape(*shape, -1))


def _cold(ensemble: Ensemble, n: int, seed: int) -> tuple[Array, Mask]:
    """Draws of the prior, z, (n, L, Z), and places, (n, L), with tones replaced by births where the prior allows it."""
    prior, births = ensemble.log_prior, ensemble.jump.births
    rng = np.random.default_rng(seed)
    z, places = prior.sample(n, seed, ensemble.table.statistics.reference)
    for j in range(prior.k_max):
        left = np.flatnonzero(places[:, j])
        for _ in range(BIRTHS_TRIED):
            trial = z[left].copy()
            trial[:, j] = births.sample(len(left), rng)
            good = np.isfinite(prior(trial, places[left]))
            z[left[good]] = trial[good]
            left = left[~good]
    return z, places


def near(
    tones: Array, statistics: Statistics, prior: StatePrior, n: int, seed: int
) -> tuple[Array, Mask]:
    """States around given tones by the inverse of their Fisher matrix, inside the prior.

    Args:
        tones: Tones θ, (K, P).
        statistics: Sufficient statistics of the data.
        prior: Log prior of states.
        n: Number of states.
        seed: Seed of the scatter.

    Returns:
        z, (n, L, Z), and which places are taken, (n, L).
    """
    k, waveform = len(tones), statistics.waveform
    if tones.ndim != 2 or tones.shape[1] != waveform.size or not prior.k_min <= k <= prior.k_max:
        raise ValueError(
            f"expected start as ({', '.join(waveform.names)}) of {prior.k_min} to {prior.k_max} tones, "
            f"(K, {waveform.size}), received an array of shape {tones.shape}."
        )
    z, rng = np.zeros((n, prior.k_max, waveform.coordinates)), np.random.default_rng(seed)
    places = np.broadcast_to(np.arange(prior.k_max) < k, (n, prior.k_max)).copy()
    if k == 0:
        return z, places
    centre = statistics.to_z(tones)
    gain, _, matrix = statistics.equations(*waveform.unpack(centre[None]))
    rss = float(statistics.energy) + float(gain[0])
    covariance = np.linalg.inv(matrix[0]) * rss / statistics.n
    scale = np.sqrt(np.diag(covariance))
    factor = scale[:, None] * np.linalg.cholesky(covariance / np.outer(scale, scale))
    left = np.arange(n)
    for attempt in range(SCATTERS_TRIED):
        # Tones on an edge of the prior are scattered less and less, until they stay inside.
        step = rng.standard_normal((left.size, centre.size)) @ factor.T
        step *= 0.5 ** (attempt // SCATTERS_PER_HALVING)
        z[left, :k] = centre + step.reshape(-1, *centre.shape)
        left = left[np.isinf(prior(z[left], places[left]))]
        if left.size == 0:
            return z, places
    raise ValueError(
        "expected start inside the prior's bounds, received tones outside of them; widen the prior or move the tones."
    )


# ---------------------------------------------------------------------- from the chain to a posterior


def _kept(ensemble: Ensemble) -> tuple[Array, Mask, Array, int]:
    """Sorted tones, (n, W, L, Z), places, (n, W, L), and log-likelihood, (n, W), after the warm-up; its length."""
    z, places, log_likelihood = ensemble.chain()
    begin = min(max(warm_up(log_likelihood), ensemble.tuned), len(z) - 4)
    z, places = z[begin:], places[begin:]
    at = ensemble.table.waveform.place_in_z(z)
    order = np.argsort(np.where(places, at, np.inf), -1)
    z = np.take_along_axis(z, order[..., None], -2)
    return z, np.take_along_axis(places, order, -1), log_likelihood[begin:], begin


def _sampling(ensemble: Ensemble, seconds: float) -> SamplerRun:
    """Diagnostics of the run so far."""
    z, places, log_likelihood, begin = _kept(ensemble)
    counts = places.sum(-1)
    k = int(np.bincount(counts.ravel()).argmax())
    chosen = counts == k
    draws, time_of_k = effective_draws(chosen.astype(float), np.ones_like(chosen))
    found = [effective_draws(z[..., j, i], chosen) for j in range(k) for i in range(z.shape[-1])]
    if not found:
        # Noise alone has no parameters, so its effective draws are those of K. Where every state is noise alone, all
        # states are alike, and each one counts.
        known = math.isfinite(draws)
        found = [(draws, time_of_k) if known else (float(chosen.size), 1.0)]
    effective, times = np.array(found).T
    # K is known no better than from as many independent draws as there were jumps: walkers may be stuck.
    draws = min(draws if math.isfinite(draws) else math.inf, max(ensemble.jumps(), 1))
    share = float(chosen.mean())
    return SamplerRun(
        effective=float(np.median(effective)),
        least_effective=float(effective.min()),
        k_error=math.sqrt(share * (1 - share) / draws),
        jumps=ensemble.jumps(),
        r_hat=max(r_hat(log_likelihood), r_hat(counts.astype(float))),
        autocorrelation=float(np.median(times)),
        warm_up=begin,
        steps=len(z),
        seconds=seconds,
        acceptance=ensemble.acceptance(),
        swaps=ensemble.swaps(),
    )


def _posterior(
    ensemble: Ensemble, found: SamplerRun, observation: Observation, prior: Prior, seed: int
) -> SampledPosterior:
    """The draws of all cold walkers after the warm-up, and σ drawn given the RSS of each draw."""
    z, places, _, _ = _kept(ensemble)
    counts, table, rng = places.sum(-1), ensemble.table, np.random.default_rng(seed)
    k_probs = np.bincount(counts.ravel(), minlength=prior.k_max + 1) / counts.size
    theta: dict[int, Array] = {}
    sigma: dict[int, Array] = {}
    for k in np.flatnonzero(k_probs).tolist():
        chosen = z[counts == k][:, :k]
        theta[k] = table.statistics.to_theta(chosen)
        rss = table.rss(chosen) if k else np.full(len(chosen), table.energy)
        sigma[k] = table.noise.sample(rss, rng)
    return SampledPosterior(
        Draws(prior.k_max, theta, sigma), k_probs, observation, prior, "rjmcmc", found
    )
