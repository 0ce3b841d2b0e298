"""Evidence and draws of B signals with K tones each, or why a signal cannot be decided here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.core.devices import download
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.batch.bent import bent_batch
from slotflow.exact.batch.changes import steady
from slotflow.exact.batch.draws import Drawn, Numbers, draw
from slotflow.exact.batch.fits import Fits, fitted
from slotflow.exact.batch.levels import Levels
from slotflow.exact.batch.near import near
from slotflow.exact.batch.neighbours import one_less, one_more
from slotflow.exact.importance import Importance
from slotflow.exact.ledger import BOUND
from slotflow.exact.orders import NEGLIGIBLE, Orders
from slotflow.exact.proposals.collapsed import spread_out
from slotflow.exact.spared import HOPELESS, MARGIN
from slotflow.posterior.verdict import FALSE_ALARM, Verdict
from slotflow.posterior.whiteness.screen import screen
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior

__all__ = ["DECIDED", "POOR_DRAWS", "Group", "decide", "decide_empty", "undecided"]

DECIDED = ""
"""Reason of a signal that was decided."""
POOR_DRAWS = frozenset({"few effective draws", "heavy tail", "uncertain evidence"})
"""Reasons that more draws may remove."""
EFFECTIVE = 0.25
"""Effective share from which on one round of draws is enough."""
HEAVY_TAIL = 0.7
"""Pareto k from which on weights cannot be trusted."""
SURE = 0.1
"""Error of ln Z from which on it is not known well."""


@dataclass(frozen=True, eq=False)
class Group:
    """What was found of B signals with K tones each, in NumPy arrays."""

    k: int
    """Number of tones."""
    reasons: list[str]
    """Why each signal was not decided; `DECIDED` if it was."""
    log_evidence: Array
    """ln Z_K, (B, K_max + 1); −inf where it was not needed."""
    fits: Array
    """θ of the maxima, (B, K, P)."""
    theta: Array
    """Draws, (B, n, K, P)."""
    sigma: Array
    """Their noise levels, (B, n)."""
    sigma_alone: Array
    """Noise levels without tones, (B, n), where the prior allows none; (B, 0) otherwise."""
    log_weights: Array
    """Logarithms of weights that sum to one, (B, n)."""
    facts: dict[str, Array]
    """Fields of `Importance` that are one number to a signal, (B,) each."""
    k_probs: Array
    """p(K | x), (B, K_max + 1)."""
    levels: Array
    """Mean and standard deviation of σ, (B, 2)."""
    p_values: dict[str, Array]
    """P-values of the tests of the residuals by their names, (B,) each."""
    steady: NDArray[np.bool_]
    """Whether nothing is to be said of how tones change, (B,)."""
    judged: dict[int, Verdict] = field(default_factory=dict)
    """Verdicts on signals that are not steady, by their rows, as far as they were asked for."""

    def orders(self, i: int, seconds: float = 0.0) -> Orders:
        """The answer for one signal that was decided."""
        k, log_z = self.k, self.log_evidence[i]
        facts: dict[str, Any] = {name: float(values[i]) for name, values in self.facts.items()}
        result = Importance(
            self.theta[i],
            self.sigma[i],
            self.log_weights[i],
            log_evidence=float(log_z[k]),
            seconds=seconds,
            **facts,
        )
        error = np.full(len(log_z), np.inf)
        error[k] = result.log_evidence_error
        results, fits = {k: result}, {k: self.fits[i]}
        methods = {int(j): BOUND for j in np.flatnonzero(np.isfinite(log_z)) if j != k}
        methods[k] = result.method
        if k + 1 < len(log_z):
            fits[k + 1] = self.fits[i]  # no maximum of one tone more was looked for
            methods.setdefault(k + 1, BOUND)
        if self.sigma_alone.shape[1]:
            results[0] = self._noise_alone(i)
            error[0], methods[0], fits[0] = 0.0, results[0].method, self.fits[i][:0]
        return Orders(log_z, error, self.k_probs[i], results, fits, seconds, methods)

    def _noise_alone(self, i: int) -> Importance:
        """Noise without tones, whose evidence needs no draws."""
        sigma = self.sigma_alone[i]
        n = len(sigma)
        theta = np.zeros((n, 0, self.theta.shape[-1]))
        log_z = float(self.log_evidence[i, 0])
        equal = np.full(n, -math.log(n))
        return Importance(theta, sigma, equal, log_z, 0.0, 1.0, 0.0, 1.0, 0.0, "analytic")


def decide(statistics: Statistics, starts: Tensor, prior: Prior, numbers: Numbers) -> Group:
    """Evidence and draws of signals that start from K tones each.

    Args:
        statistics: Of B signals.
        starts: Frequencies in Hz, (B, K), K ≥ 1.
        prior: Prior of K, Θ and σ; k_min ≤ K ≤ k_max.
        numbers: Normal variables of K tones.
    """
    k, fits = starts.shape[1], fitted(statistics, starts, prior)
    failures, failed = dict(fits.failures), fits.failed
    if bool(failed.all()):
        return undecided(k, _first_reasons(failures), prior)
    # A signal that has failed already, whose equations may have no solution, is taken for the first sound one.
    every = torch.arange(len(failed), device=failed.device)
    chosen = torch.where(failed, every[~failed][0], every)
    statistics, fits = statistics.take(chosen), fits.take(chosen)
    levels = Levels(statistics, prior)
    tables = near(statistics, fits.places, fits.spread)
    more = spread_out(statistics.n, k)
    power = 2.0 if prior.amplitude_law == "loguniform" else 1.0
    proposal = bent_batch(
        tables,
        fits.place_covariance,
        lambda gain: levels.precision((levels.energy - gain) * more),
        power,
    )
    drawn = draw(proposal, tables, fits.places, levels, prior, numbers)
    log_z = _evidences(statistics, fits, levels, prior, drawn)
    log_prior = torch.from_numpy(np.log(np.maximum(prior.k_probs_full, 1e-300))).to(log_z)
    odds = log_z + log_prior - (log_z[:, k] + log_prior[k])[:, None]
    odds[:, k] = -math.inf
    excluded = odds.amax(-1) < math.log(NEGLIGIBLE)
    beside = [j for j in (k - 1, k + 1) if prior.k_min <= j <= prior.k_max and j > 0]
    settled = (odds[:, beside] < -HOPELESS).all(-1) & excluded
    failures |= {
        "no proposal": ~proposal.sound,
        "outside the prior": ~drawn.filled,
        "few effective draws": ~(drawn.ess >= EFFECTIVE),
        "heavy tail": ~(drawn.pareto_k < HEAVY_TAIL),
        "uncertain evidence": ~(drawn.log_evidence_error < SURE),
        "neighbours of K": ~settled,
    }
    tests = screen(statistics, fits.z, prior.frequency, prior.known_sigma)
    failures["residual"] = torch.ones_like(settled)
    if tests is not None:
        failures["residual"] = torch.from_numpy(~tests.pass_at(FALSE_ALARM)).to(settled.device)
    alone = _alone(levels, prior, numbers)
    group = _group(statistics, prior, fits, drawn, log_z, failures, alone)
    p_values = {} if tests is None else tests.p_values
    return replace(group, p_values=p_values, steady=steady(statistics, fits.z))


def decide_empty(statistics: Statistics, prior: Prior, numbers: Numbers) -> Group:
    """The same for signals that seem to hold no tone; k_min is 0. The evidence of noise alone needs no draws."""
    levels, energy, n = Levels(statistics, prior), statistics.energy, numbers.n
    batch, size = len(energy), statistics.waveform.coordinates
    z, none = energy.new_zeros(batch, 0, size), energy.new_zeros(batch, 0)
    fits = Fits(z, energy, energy.new_zeros(batch, 0, 0), none, none, {})
    log_z = energy.new_full((batch, prior.k_max + 1), -math.inf)
    log_z[:, 0] = levels.log_likelihood(energy[:, None], 0)[:, 0]
    alone, zero, one = _alone(levels, prior, numbers), torch.zeros_like(energy), energy * 0 + 1
    equal = energy.new_full((batch, n), -math.log(n))
    drawn = Drawn(
        z[:, None].expand(-1, n, -1, -1), alone, equal, log_z[:, 0], zero, one, zero, one, one > 0
    )
    settled = one > 0
    if prior.k_max > 0:
        log_z[:, 1] = log_z[:, 0] + one_more(statistics, fits, levels, prior)
        p = prior.k_probs_full
        settled = log_z[:, 1] - log_z[:, 0] + math.log(p[1] / p[0]) < -HOPELESS
    tests = screen(statistics, z, prior.frequency, prior.known_sigma)
    passed = np.zeros(batch, dtype=bool) if tests is None else tests.pass_at(FALSE_ALARM)
    failures = {
        "neighbours of K": ~settled,
        "residual": torch.from_numpy(~passed).to(energy.device),
    }
    group = _group(statistics, prior, fits, drawn, log_z, failures, alone)
    p_values = {} if tests is None else tests.p_values
    return replace(group, p_values=p_values, steady=np.ones(batch, dtype=bool))


def _evidences(
    statistics: Statistics, fits: Fits, levels: Levels, prior: Prior, drawn: Drawn
) -> Tensor:
    """Evidences ln Z_K and the bounds of its neighbours, (B, K_max + 1)."""
    k, known = fits.z.shape[1], drawn.log_evidence
    log_z = known.new_full((len(known), prior.k_max + 1), -math.inf)
    log_z[:, k] = known
    if k - 1 >= max(prior.k_min, 1):
        log_z[:, k - 1] = known + one_less(fits, levels, prior) + MARGIN
    if k + 1 <= prior.k_max:
        log_z[:, k + 1] = known + one_more(statistics, fits, levels, prior)
    if prior.k_min == 0:
        log_z[:, 0] = levels.log_likelihood(levels.energy[:, None], 0)[:, 0]
    return log_z


def _alone(levels: Levels, prior: Prior, numbers: Numbers) -> Tensor:
    """Noise levels of signals without tones, (B, n), where the prior allows none; (B, 0) otherwise."""
    count = numbers.n if prior.k_min == 0 else 0
    energy = levels.energy[:, None].expand(-1, count)
    return levels.sample(energy, (numbers.seed, 0)) if count else energy


def _group(
    statistics: Statistics,
    prior: Prior,
    fits: Fits,
    drawn: Drawn,
    log_z: Tensor,
    failures: dict[str, Tensor],
    alone: Tensor,
) -> Group:
    """The same in NumPy."""

    def array(x: Tensor) -> Array:
        host = x
        if x.device.type != "cpu":
            host = torch.empty(x.shape, dtype=x.dtype)
            download(x, host)
        found: Array = host.numpy()
        return found

    first = _first_reasons(failures)
    evidence = array(log_z)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = evidence + np.log(prior.k_probs_full)
        score = np.where(np.isnan(score), -np.inf, score)
        k_probs = np.exp(score - log_sum_exp(score, axis=-1)[:, None])
    facts = {
        name: array(getattr(drawn, name))
        for name in ("log_evidence_error", "ess", "pareto_k", "share")
    }
    weights = drawn.log_weights.exp()
    mean = (weights * drawn.sigma).sum(-1)
    spread = (weights * (drawn.sigma - mean[:, None]) ** 2).sum(-1).sqrt()
    return Group(
        fits.z.shape[1],
        first,
        evidence,
        array(statistics.to_theta(fits.z)),
        array(statistics.to_theta(drawn.z)),
        array(drawn.sigma),
        array(alone),
        array(drawn.log_weights),
        facts,
        k_probs,
        array(torch.stack([mean, spread], -1)),
        {},
        np.zeros(len(first), dtype=bool),
    )


def _first_reasons(failures: dict[str, Tensor]) -> list[str]:
    """The first reason of each of B signals, or `DECIDED`."""
    names = np.array([*failures, DECIDED], dtype=object)
    flags: NDArray[np.bool_] = torch.stack(list(failures.values())).cpu().numpy()
    found: list[str] = names[np.where(flags.any(0), flags.argmax(0), -1)].tolist()
    return found


def undecided(k: int, reasons: list[str], prior: Prior) -> Group:
    """What is said of signals none of which was decided.

    Args:
        k: Number of tones.
        reasons: Of each signal.
        prior: Gives K_max.
    """
    batch, size = len(reasons), prior.waveform.size
    nothing, none = np.full((batch, prior.k_max + 1), -np.inf), np.zeros((batch, 0))
    return Group(
        k,
        reasons,
        nothing,
        np.zeros((batch, k, size)),
        np.zeros((batch, 0, k, size)),
        none,
        none,
        none,
        {},
        np.zeros_like(nothing),
        np.zeros((batch, 2)),
        {},
        np.zeros(batch, dtype=bool),
    )
