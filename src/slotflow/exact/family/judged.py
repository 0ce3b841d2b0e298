r"""The verdict on an answer of families, its evidences, and what it says of the noise.

An answer is a mixture of layouts, sets of counts n = (K_1, …, K_C), with the probabilities p_n and draws of the
effective shares e_n. Draws of all of them in proportion to p_n have the effective share

.. math:: e = \Bigl(\sum_n p_n / e_n\Bigr)^{-1} ,

which a layout of p = 0.4 and e = 0.008 brings down to 0.02 however good the others are. The poorest layouts, up to 5 %
in all, are left out: they change no statement by more. Where many draws are effective, a tail is no
danger. So the Pareto k is that of the most probable layout, unless layouts of few effective draws that have a larger
one carry more than 5 %. Weights of which none is twice their mean have no tail, whatever law their largest ones follow.
No layout is left out of the errors of the probabilities: with the standard error s_m of ln Z_m,

.. math:: \mathrm{var}\, p_n = \sum_m (p_m (δ_{nm} - p_n) s_m)^2 , \qquad
          \mathrm{var}\, p(K) = \sum_m (p_m (δ_{K, |m|} - p(K)) s_m)^2 ,

and the largest of these errors must not exceed 0.05. What stands in for ln Z of layouts without draws errs in the same
direction for all of them: their terms are added before the square is taken. A K without any draws gets p(K | x) = 0,
and what it would have had is an error too.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.analysed import Analysed
from slotflow.exact.family.sample import Sampled
from slotflow.exact.importance import Importance
from slotflow.exact.noise_facts import facts_of
from slotflow.posterior.noise import Estimate, NoiseFacts
from slotflow.posterior.verdict import (
    HEAVY_TAIL,
    UNCERTAIN_K,
    DrawQuality,
    Verdict,
    check_residual,
    ess_words,
    judge,
    residual_words,
)
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Classes, Waveform

__all__ = ["counts_words", "judged", "log_evidence", "noise_of", "quality_of"]

UNFINISHED = "the time budget ended before the search did; raise max_seconds"
DRAWS = 200
"""Draws of each layout behind the probabilities of the noise's shapes."""
NEGLIGIBLE = 1e-3
"""Probability of a layout below which it does not count there."""
MINOR = 0.05
"""Probability that the poorest layouts, which are not judged by their draws, may have together."""
LIGHT = 2.0
"""Largest weight, in units of the mean one, up to which weights have no tail."""
UNKNOWN_ERROR = 1.0
"""Standard error of ln Z where the draws do not tell it: of layouts without draws, or with few effective ones whose
weights have a heavy tail."""


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
    fit = analysed.fit(largest)
    fit = np.zeros((0, prior.waveform.size)) if fit is None else fit
    left = analysed.left(fit)
    none = np.zeros((0, left.waveform.size))
    quality = quality_of(sampled)
    verdict = judge(
        check_residual(left, none, analysed.hull, prior.known_sigma, spent=analysed.spent(largest)),
        quality,
        at_k_max=float(k_probs[prior.k_max]),
        tested=residual_words(left),
    )
    if verdict.status == "approximate" and (why := _poorest(analysed, quality)):
        return replace(verdict, reason=f"{verdict.reason}; {why}")
    if verdict.status == "exact" and not (analysed.search.complete and sampled.complete):
        return Verdict("approximate", UNFINISHED, verdict.checks)
    if verdict.status == "misfit":
        names = _kinds(prior)
        reason = verdict.reason.replace("the tones do not", f"{names} do not", 1)
        return Verdict("misfit", reason, verdict.checks)
    return verdict


def quality_of(sampled: Sampled) -> DrawQuality:
    """How good the draws of all layouts are together, and how well their probabilities are known."""
    major = _major(sampled)
    total, efforts = sum(major.values()), 0.0
    for counts, probability in major.items():
        ess = sampled.results[counts].ess
        efforts += probability / ess if ess > 0 else math.inf
    return DrawQuality(total / efforts, _tail(sampled), _largest_error(sampled))


def _drawn(sampled: Sampled) -> dict[tuple[int, ...], float]:
    """Probabilities of the layouts that were drawn, the most probable first."""
    return {c: p for c, p in sampled.counts_probs().items() if c in sampled.results}


def _major(sampled: Sampled) -> dict[tuple[int, ...], float]:
    """Probabilities of the layouts that were drawn, the most probable first, but for the poorest `MINOR` of them."""
    probs = _drawn(sampled)
    left, minor = MINOR * sum(probs.values()), set()
    for counts in sorted(probs, key=lambda c: sampled.results[c].ess):
        if probs[counts] <= left:
            left -= probs[counts]
            minor.add(counts)
    return {counts: p for counts, p in probs.items() if counts not in minor}


def _endangered(sampled: Sampled) -> list[tuple[int, ...]]:
    """Layouts whose Pareto k counts: the most probable one, and those of few effective draws."""
    top, *others = _drawn(sampled)
    return [top, *(c for c in others if sampled.results[c].ess < DrawQuality.smallest_ess)]


def _tail(sampled: Sampled) -> float:
    """Pareto k of an answer."""
    probs, (top, *poor) = _drawn(sampled), _endangered(sampled)
    left, tail = MINOR * sum(probs.values()), _own_tail(sampled.results[top])
    for counts in sorted(poor, key=lambda c: -_own_tail(sampled.results[c])):
        left -= probs[counts]
        if left < 0:
            return max(tail, _own_tail(sampled.results[counts]))
    return tail


def _own_tail(result: Importance) -> float:
    """Pareto k of a layout; 0 where no weight is large, such as those of no component, which are all the same."""
    logs = result.log_weights  # of weights that sum to one
    is_light = result.method == "importance" and len(logs) > 0
    is_light = is_light and float(logs.max()) + math.log(len(logs)) < math.log(LIGHT)
    return 0.0 if is_light else result.pareto_k


def _error(result: Importance | None) -> float:
    """Standard error of a layout's ln Z, as far as it can be trusted."""
    if result is None:
        return UNKNOWN_ERROR
    is_known = result.pareto_k < HEAVY_TAIL or result.ess >= DrawQuality.smallest_ess
    return result.log_evidence_error if is_known else max(result.log_evidence_error, UNKNOWN_ERROR)


def _largest_error(sampled: Sampled) -> float:
    """The largest standard error of any p(K_1, …, K_C | x) and of any p(K | x)."""
    probs = sampled.counts_probs()
    p, orders = np.array(list(probs.values())), np.array([sum(counts) for counts in probs])
    errors = np.array([_error(sampled.results.get(counts)) for counts in probs])
    same_order = orders == np.arange(orders.max() + 1)[:, None]  # (K_max + 1, layouts)
    chosen = np.concatenate([np.eye(len(p)), same_order])
    terms = p * (chosen - (chosen @ p)[:, None]) * errors
    has_draws = np.array([counts in sampled.results for counts in probs])
    together = terms[:, ~has_draws].sum(-1)
    left_out = float(p[~np.isin(orders, orders[has_draws])].sum())
    return max(left_out, float(np.sqrt((terms[:, has_draws] ** 2).sum(-1) + together**2).max()))


def _poorest(analysed: Analysed, quality: DrawQuality) -> str:
    """Which numbers of components make an answer approximate, in words; empty where draws and evidences are good."""
    sampled, waveform = analysed.sampled, analysed.prior.waveform
    probs = sampled.counts_probs()
    is_heavy = not quality.pareto_k < HEAVY_TAIL
    if is_heavy or quality.ess < quality.smallest_ess:
        suspects = list(sampled.results)
        if is_heavy:
            tails = {c: _own_tail(sampled.results[c]) for c in _endangered(sampled)}
            suspects = [c for c, tail in tails.items() if tail >= quality.pareto_k]
        efforts = {c: probs[c] / max(sampled.results[c].ess, 1e-12) for c in suspects}
        counts = max(efforts, key=lambda c: efforts[c])
        ess = ess_words(sampled.results[counts].ess)
        return f"poorest for {counts_words(waveform, counts)} (probability {probs[counts]:.2f}, ESS per draw {ess})"
    if not quality.k_error > UNCERTAIN_K:
        return ""
    spread = {c: p * (1 - p) * _error(sampled.results.get(c)) for c, p in probs.items()}
    counts = max(spread, key=lambda c: spread[c])
    error = _error(sampled.results.get(counts))
    return f"{counts_words(waveform, counts)} (probability {probs[counts]:.2f}) has ln Z with an error of {error:.2f}"


def counts_words(waveform: Waveform, counts: tuple[int, ...]) -> str:
    """Numbers of components of each class in words, such as "2 tone, 1 damped"; "none" without any."""
    if not isinstance(waveform, Classes):
        return f"K = {sum(counts)}"
    pairs = zip(counts, waveform.class_names, strict=True)
    return ", ".join(f"{n} {name}" for n, name in pairs if n) or "none"


def _kinds(prior: Prior) -> str:
    """What components are, in words."""
    if isinstance(prior.waveform, Classes):
        return f"components of the classes {', '.join(prior.waveform.class_names)}"
    return f"components of the waveform {prior.waveform.name}"
