"""The posterior of components that are no tones: draws of each K, p of each class, evidences and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.data.observation import Observation
from slotflow.exact.family.leverage import leverage
from slotflow.exact.family.sample import Sampled, sample_layouts
from slotflow.exact.family.search import Search, Start
from slotflow.exact.importance import Importance
from slotflow.posterior.draws import Draws
from slotflow.posterior.limits import UpperLimit
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import (
    DrawQuality,
    Verdict,
    check_residual,
    judge,
    residual_words,
)
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.compressed import compressed
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.signal.model import without_components
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Classes

__all__ = ["FamilyPosterior", "family_posterior", "searched"]

SEARCH_SHARE = 0.6
"""Share of the time budget that the search may take."""
UNFINISHED = "the time budget ended before the search did; raise max_seconds"


@dataclass(frozen=True, eq=False)
class Analysed:
    """Data and what was found in them."""

    observation: Observation
    """The data."""
    prior: Prior
    """The prior."""
    noise: NoiseModel | None
    """What was assumed of the noise; white if None."""
    search: Search
    """The maxima."""
    sampled: Sampled
    """The draws."""

    @property
    def hull(self) -> tuple[float, float]:
        """Lowest and highest frequency in Hz that components may occupy."""
        return _hull(self.prior, self.observation)

    def left(self, theta: Array) -> Likelihood:
        """The likelihood of tones in what components, (K, P), leave of the data."""
        rest = without_components(self.observation, theta, self.prior.waveform)
        return likelihood_of(rest, self.noise, self.hull)

    def fit(self, k: int) -> Array | None:
        """Parameters of the largest posterior that was found for K components, (K, P); None where there is none."""
        modes = self.search.of_order(k)
        return modes[0].target.layout.theta(modes[0].fit.z) if modes else None

    def spent(self, k: int) -> list[Array] | None:
        """Degrees of freedom that the fit of K components takes from each sample of each channel, (N_s,)."""
        modes, channels = self.search.of_order(k), self.observation.channels
        if not modes:
            return None
        layout, z, total = modes[0].target.layout, modes[0].fit.z, sum(c.n for c in channels)
        return [
            leverage(layout, z, c.times - layout.reference, c.is_complex) * (c.n / total)
            for c in channels
        ]


def family_posterior(
    observation: Observation,
    prior: Prior,
    noise: NoiseModel | None = None,
    *,
    draws: int = 2000,
    seed: int = 0,
    max_seconds: float = 10.0,
    starts: Sequence[Start] = (),
) -> FamilyPosterior:
    """The exact posterior of components of any waveform, or of several classes.

    Args:
        observation: What was measured.
        prior: Prior of everything, its waveform among it.
        noise: What is assumed of the noise; white if None.
        draws: Weighted draws of the most probable numbers of components.
        seed: Of everything random.
        max_seconds: Time budget.
        starts: Sets of components that a network or a user proposes, beside what the search finds.
    """
    search = searched(observation, prior, noise, SEARCH_SHARE * max_seconds, starts)
    rng = np.random.default_rng(seed)
    sampled = sample_layouts(search, rng, draws, (1 - SEARCH_SHARE) * max_seconds)
    return FamilyPosterior(Analysed(observation, prior, noise, search, sampled), draws, rng)


def searched(
    observation: Observation,
    prior: Prior,
    noise: NoiseModel | None = None,
    max_seconds: float = math.inf,
    starts: Sequence[Start] = (),
) -> Search:
    """The maxima of the likelihood; arguments as of `family_posterior`."""
    long = observation.long
    waveform = prior.waveform.on(float(long.times[0]), long.mid_time)
    likelihood = likelihood_of(observation, noise, _hull(prior, observation))
    nodes = compressed(likelihood, observation, waveform, prior.frequency)
    search = Search(nodes, prior, waveform, likelihood.reference, long.duration)
    search.propose(starts)
    search.run(max_seconds)
    return search


class FamilyPosterior(Posterior):
    """The exact posterior of components of any waveform or of several classes.

    Example::

        prior = Prior(classes={"tone": Tone(), "chirp": Chirp(drift=(-1e-4, 1e-4))}, k_min=0)
        post = model.infer(observation, prior=prior)
        post.counts_probs()  # p(K_tone, K_chirp | x)
        post.summary()[["class", "class_probability", "frequency_median", "drift_median"]]
        post.class_probs  # one row per component, one column per class

    Args:
        analysed: Data, maxima and draws.
        draws: Equally weighted draws of each K to keep.
        rng: Source of randomness.
    """

    slots: Draws

    def __init__(self, analysed: Analysed, draws: int, rng: np.random.Generator) -> None:
        prior, sampled = analysed.prior, analysed.sampled
        slots, k_probs = _equally_weighted(analysed, draws, rng)
        best = int(np.argmax(k_probs))
        sigma, known = slots.sigma[best], prior.known_sigma
        level = float(sigma.mean()) if known is None else known
        spread = float(sigma.std()) if known is None else 0.0
        super().__init__(
            k_probs, slots, analysed.observation, level, spread, "classical+exact", prior
        )
        self.analysed, self.waveform = analysed, analysed.search.waveform
        self.proposed_by = "classical"
        self.log_evidence = _log_evidence(sampled, prior)
        self._verdict = _judged(analysed, k_probs)
        self.ess = self._most_probable().ess

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted, and why."""
        return self._verdict

    @property
    def noise_model(self) -> NoiseModel | None:
        """How the noise was made white; None for white noise of one level."""
        noise = self.analysed.noise
        return None if noise is None or noise.is_white else noise

    def counts_probs(self) -> dict[tuple[int, ...], float]:
        """Probabilities p(K_1, …, K_C | x) by the numbers of components of each class, the most probable first."""
        return self.analysed.sampled.counts_probs()

    def kinds(self) -> list[tuple[str, float]]:
        """How many components of each class, in words, with the probability, the most probable first."""
        if not isinstance(self.waveform, Classes):
            return []
        names, found = self.waveform.class_names, []
        for counts, probability in self.counts_probs().items():
            parts = [f"{n} {name}" for n, name in zip(counts, names, strict=True) if n]
            found.append((", ".join(parts) or "none", probability))
        return found

    def _most_probable(self) -> Importance:
        """Draws of the most probable numbers of components that were sampled."""
        results = self.analysed.sampled.results
        return results[max(results, key=lambda counts: self.analysed.sampled.log_joint[counts])]

    def known_fit(self, k: int) -> Array | None:
        """The fit of k components of largest posterior, (k, P); None where there is none."""
        return self.analysed.fit(k)

    def best_fit(self, k: int | None = None) -> Array:
        """Parameters of k components with the largest posterior that was found, (k, P); k_map if None."""
        fit = self.analysed.fit(self._k(k))
        if fit is None:
            have = sorted({sum(counts) for counts in self.analysed.search.found})
            raise ValueError(
                f"expected a number of components that was fitted, one of {have}, received {k}."
            )
        return fit

    def residual(self, k: int | None = None) -> list[Array]:
        """Each channel's whitened data minus the best fit, (N_s,), in units of σ."""
        likelihood = self.analysed.left(self.best_fit(k))
        none = np.zeros((0, likelihood.waveform.coordinates))
        return [np.asarray(part) for part in likelihood.residuals(none)]

    def upper_limit(
        self, frequency: ArrayLike | None = None, credibility: float = 0.95
    ) -> UpperLimit | None:
        """None: limits are known for tones alone."""
        return None

    def statistics(self) -> Likelihood:
        """The likelihood of tones in the data, under the noise that was assumed."""
        return self.analysed.left(np.zeros((0, self.waveform.size)))


def _hull(prior: Prior, observation: Observation) -> tuple[float, float]:
    """Lowest and highest frequency in Hz that components may occupy."""
    every = prior.waveform.occupied(prior.frequency, observation.long.duration)
    return min(low for low, _ in every), max(high for _, high in every)


def _equally_weighted(
    analysed: Analysed, draws: int, rng: np.random.Generator
) -> tuple[Draws, Array]:
    """Draws of each K, from its layouts by their probabilities, and p(K | x)."""
    sampled, prior = analysed.sampled, analysed.prior
    theta: dict[int, Array] = {}
    sigma: dict[int, Array] = {}
    for k in range(prior.k_max + 1):
        layouts = [counts for counts in sampled.results if sum(counts) == k]
        if not layouts:
            continue
        logs = np.array([sampled.log_joint[counts] for counts in layouts])
        numbers = rng.multinomial(draws, np.exp(logs - log_sum_exp(logs)))
        pairs = [
            sampled.results[counts].resample(int(n), rng)
            for counts, n in zip(layouts, numbers, strict=True)
        ]
        order = rng.permutation(draws)
        theta[k] = np.concatenate([one for one, _ in pairs])[order]
        sigma[k] = np.concatenate([one for _, one in pairs])[order]
    return Draws(prior.k_max, theta, sigma), sampled.k_probs


def _log_evidence(sampled: Sampled, prior: Prior) -> Array:
    """Logarithms of Z_K with their standard errors, (K_max + 1, 2)."""
    found = np.full((prior.k_max + 1, 2), [-math.inf, math.inf])
    for k in range(prior.k_max + 1):
        results = [r for counts, r in sampled.results.items() if sum(counts) == k]
        if results:
            logs = np.array([r.log_evidence for r in results])
            total = float(log_sum_exp(logs))
            errors = np.array([r.log_evidence_error for r in results])
            found[k] = total, float(np.sqrt(((np.exp(logs - total) * errors) ** 2).sum()))
    return found


def _judged(analysed: Analysed, k_probs: Array) -> Verdict:
    """The verdict, from the draws and from what the largest plausible K leaves of the data."""
    prior, sampled = analysed.prior, analysed.sampled
    largest = int(np.flatnonzero(k_probs > 1e-3).max())
    best = int(np.argmax(k_probs))
    fit = analysed.fit(largest)
    fit = np.zeros((0, prior.waveform.size)) if fit is None else fit
    left = analysed.left(fit)
    none = np.zeros((0, left.waveform.size))
    layouts = [counts for counts in sampled.results if sum(counts) == best]
    top = sampled.results[max(layouts, key=lambda counts: sampled.log_joint[counts])]
    evidence = _log_evidence(sampled, prior)
    errors = np.where(k_probs > 1e-3, np.nan_to_num(evidence[:, 1], posinf=0.0), 0.0)
    slope = k_probs[best] * ((np.arange(len(k_probs)) == best) - k_probs)
    quality = DrawQuality(top.ess, top.pareto_k, float(np.sqrt(((slope * errors) ** 2).sum())))
    verdict = judge(
        check_residual(left, none, analysed.hull, prior.known_sigma, spent=analysed.spent(largest)),
        quality,
        at_k_max=float(k_probs[prior.k_max]),
        tested=residual_words(left),
    )
    if verdict.status == "exact" and not (analysed.search.complete and sampled.complete):
        return Verdict("approximate", UNFINISHED, verdict.checks)
    if verdict.status == "misfit":
        names = _kinds(prior)
        reason = verdict.reason.replace("the tones do not", f"{names} do not", 1)
        return Verdict("misfit", reason, verdict.checks)
    return verdict


def _kinds(prior: Prior) -> str:
    """What components are, in words."""
    if isinstance(prior.waveform, Classes):
        return f"components of the classes {', '.join(prior.waveform.class_names)}"
    return f"components of the waveform {prior.waveform.name}"
