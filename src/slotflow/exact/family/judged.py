"""The verdict on an answer of families, its evidences, and what it says of the noise."""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.analysed import Analysed
from slotflow.exact.family.sample import Sampled
from slotflow.exact.noise_facts import facts_of
from slotflow.posterior.noise import Estimate, NoiseFacts
from slotflow.posterior.verdict import (
    DrawQuality,
    Verdict,
    check_residual,
    judge,
    residual_words,
)
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Classes

__all__ = ["judged", "log_evidence", "noise_of"]

UNFINISHED = "the time budget ended before the search did; raise max_seconds"
DRAWS = 200
"""Draws of each layout behind the probabilities of the noise's shapes."""
NEGLIGIBLE = 1e-3
"""Probability of a layout below which it does not count there."""


def log_evidence(sampled: Sampled, prior: Prior) -> Array:
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


def noise_of(analysed: Analysed, level: Estimate) -> NoiseFacts:
    """What is known of the noise.

    Args:
        analysed: Data, maxima and draws.
        level: σ of the most probable K.
    """
    likelihood = analysed.left(np.zeros((0, analysed.prior.waveform.size)))
    return facts_of(
        analysed.observation,
        likelihood,
        analysed.prior,
        _shape_probabilities(analysed),
        analysed.noise,
        level,
    )


def _shape_probabilities(analysed: Analysed) -> Array:
    """Posterior probability of each value of the noise's shape, (nodes,)."""
    search, sampled = analysed.search, analysed.sampled
    if len(search.nodes) == 1:
        return np.ones(1)
    total, probs = np.zeros(len(search.nodes)), sampled.counts_probs()
    for counts, result in sampled.results.items():
        if probs[counts] > NEGLIGIBLE:
            target = search.target(counts)
            theta, _ = result.resample(DRAWS, np.random.default_rng(0))
            logs = target.node_log_likelihoods(target.layout.of_theta(theta))
            total += probs[counts] * np.exp(logs - log_sum_exp(logs, axis=0)).mean(1)
    probabilities: Array = total / total.sum()
    return probabilities


def judged(analysed: Analysed, k_probs: Array) -> Verdict:
    """The verdict, from the draws and from what the largest plausible K leaves of the data."""
    prior, sampled = analysed.prior, analysed.sampled
    plausible = [int(k) for k in np.flatnonzero(k_probs > 1e-3)]
    # Of components that do not show there may be draws and no maximum.
    largest = max([k for k in plausible if analysed.fit(k) is not None], default=0)
    best = int(np.argmax(k_probs))
    fit = analysed.fit(largest)
    fit = np.zeros((0, prior.waveform.size)) if fit is None else fit
    left = analysed.left(fit)
    none = np.zeros((0, left.waveform.size))
    layouts = [counts for counts in sampled.results if sum(counts) == best]
    top = sampled.results[max(layouts, key=lambda counts: sampled.log_joint[counts])]
    evidence = log_evidence(sampled, prior)
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
