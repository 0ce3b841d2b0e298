"""The posterior of components that are no tones: draws of each K, p of each class, evidences and a verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.data.observation import Observation
from slotflow.exact.family.analysed import Analysed, searched
from slotflow.exact.family.judged import (
    counts_words,
    judged,
    log_evidence,
    noise_of,
    quality_of,
)
from slotflow.exact.family.sample import sample_layouts
from slotflow.exact.family.search import Start
from slotflow.posterior.draws import Draws
from slotflow.posterior.limits import UpperLimit
from slotflow.posterior.noise import Estimate
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Classes

__all__ = ["FamilyPosterior", "family_posterior"]

SEARCH_SHARE = 0.6
"""Share of the time budget that the search may take."""


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
    began, rng = time.perf_counter(), np.random.default_rng(seed)
    search = searched(observation, prior, noise, SEARCH_SHARE * max_seconds, starts)
    left = max_seconds - (time.perf_counter() - began)
    sampled = sample_layouts(search, rng, draws, max(left, (1 - SEARCH_SHARE) * max_seconds))
    return FamilyPosterior(Analysed(observation, prior, noise, search, sampled), draws, rng)


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
    ess: float
    """Effective share of the draws of all numbers of components that matter, 0 to 1."""

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
        self.log_evidence = log_evidence(sampled, prior)
        self.noise = noise_of(analysed, Estimate(level, spread))
        self._verdict = judged(analysed, k_probs)
        self.ess = quality_of(sampled).ess

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
        return [
            (counts_words(self.waveform, counts), p) for counts, p in self.counts_probs().items()
        ]

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
        """Each channel's whitened data minus the best fit, (N_s,), over its noise ratio."""
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
