r"""The exact posterior as an object: joint draws of each K, evidence, effective sample size and a verdict.

It answers every question that an amortized posterior answers, with draws in which the components are correlated as the
data say. The density of a labelled tuple is known: ln p(Θ, K | x) = ln p(Θ, x | K) − ln Z_K + ln p(K | x).

Draws of a K that was not worth sampling (`orders.methods` names it "bound") are the network's; its p(K | x) is next to
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.exact.lift import integrated, log_density
from slotflow.exact.noise_facts import noise_facts
from slotflow.exact.orders import Orders
from slotflow.exact.start import Start
from slotflow.exact.target import Target
from slotflow.posterior.alternative import Alternative
from slotflow.posterior.draws import WeightedDraws
from slotflow.posterior.named import with_alternatives
from slotflow.posterior.noise import Estimate
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.residual import likeliest
from slotflow.posterior.tuples import Slots
from slotflow.posterior.verdict import (
    FALSE_ALARM,
    Verdict,
    graded,
)
from slotflow.signal.likelihood import FreeGains, GeneralTones, Likelihood
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["JointDraws", "RefinedPosterior", "WeightedDraws", "exact_method"]


def exact_method(start: str) -> str:
    """What the method of an exact posterior is called, given that of the answer it started from."""
    return f"{start}+exact"


class JointDraws:
    """Joint draws of each number of components, as the densities behind a Posterior.

    Args:
        orders: The result across K.
        statistics: Of the data.
        prior: The prior.
        amortized: What to ask for a number of components that was not sampled.
        waveform: What a component is.
    """

    def __init__(
        self,
        orders: Orders,
        statistics: Likelihood,
        prior: Prior,
        amortized: Slots,
        waveform: Waveform = TONE,
    ) -> None:
        self.orders, self.statistics, self.prior = orders, statistics, prior
        self.amortized, self.k_max = amortized, len(orders.k_probs) - 1
        self.waveform = waveform

    def sampled(self, k: int) -> bool:
        """Whether there are exact draws of k components."""
        return k in self.orders.results and len(self.orders.results[k].log_weights) > 0

    def sample(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Draws, (n, k, P)."""
        if not self.sampled(k):
            return self.amortized.sample(n, k, seed)
        return self.orders.sample(n, np.random.default_rng(seed), k)[0]

    def sample_sigma(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Noise levels of the draws that `sample` gives for the same arguments, (n,)."""
        return self.orders.sample(n, np.random.default_rng(seed), k)[1]

    def log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refused: the draws are joint, so that no slot has a density of its own."""
        raise NotImplementedError(
            "the components of a refined posterior have a joint density only."
        )

    def joint_log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Ln p(Θ | x, K) of labelled tuples, (n, k, P) to (n,); NaN where Z_K is not known."""
        k = theta.shape[1]
        log_z = self.orders.log_evidence[k]
        if not math.isfinite(log_z) or not math.isfinite(self.orders.log_evidence_error[k]):
            return np.full(len(theta), np.nan)
        return self.log_joint(theta) - log_z

    def log_joint(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Ln p(Θ, x | K) of labelled tuples with the noise integrated out, (n, k, P) to (n,); any K."""
        if isinstance(self.statistics, FreeGains):
            return log_density(self.statistics, self.prior, theta)
        k = theta.shape[1]
        z = self.waveform.to_z(self.waveform.sorted(theta), self.statistics.reference)
        log_prob, _ = Target(self.statistics, self.prior, k).log_prob(z)
        amplitude = self.waveform.of(theta, "amplitude")  # |∂z/∂θ| of a component
        jacobian = np.log(np.maximum(amplitude, 1e-300)).sum(-1)
        result: NDArray[np.float64] = log_prob - math.lgamma(k + 1) + jacobian
        return result

    def constrained_fraction(self, k: int) -> float:
        """Zero for exact draws, none of which was moved; the network's share where its draws are used."""
        return 0.0 if self.sampled(k) else self.amortized.constrained_fraction(k)


class RefinedPosterior(Posterior):
    """The exact posterior: joint draws, evidence, effective sample size and a verdict.

    Example::

        post = model.infer(observation, prior=prior)
        print(post.verdict)  # exact, approximate or misfit, and why
        post.k_probs, post.log_evidence[post.k_map]  # p(K | x); ln Z_K and its standard error
        post.sample(1000)  # equally weighted joint draws, (1000, K, 3)
        post.weighted().log_weights  # or the draws as they were weighted
        post.correlation()  # (3K, 3K), between components too
        post.sample_sigma(1000)  # the noise level
        post.best_fit(), post.residual()[0]  # the largest likelihood, and what it leaves of the long stream

    Args:
        start: Who proposed, and what was known before the likelihood was asked.
        slots: The draws.
        verdict: How far they can be trusted.
        noise: Which noise the likelihood assumes; white if None.
        alternatives: What may stand in for some of the tones.
        judged: The verdict at a rate of false alarms; None where it is the same at every rate.
    """

    slots: JointDraws
    log_evidence: Array
    ess: float

    def __init__(
        self,
        start: Start,
        slots: JointDraws,
        verdict: Verdict,
        noise: NoiseModel | None = None,
        alternatives: Sequence[Alternative] = (),
        judged: Callable[..., Verdict] | None = None,
    ) -> None:
        orders, ess = slots.orders, 0.0
        sigma, spread = start.sigma
        if slots.sampled(orders.k_map):
            best = orders.results[orders.k_map]
            ess, weights, known = best.ess, np.exp(best.log_weights), slots.prior.known_sigma
            sigma = float(np.sum(weights * best.sigma)) if known is None else known
            spread = math.sqrt(float(np.sum(weights * (best.sigma - sigma) ** 2)))
        super().__init__(
            orders.k_probs,
            slots,
            start.observation,
            sigma,
            spread,
            method=exact_method(start.method),
            prior=slots.prior,
        )
        self.log_evidence = np.stack([orders.log_evidence, orders.log_evidence_error], -1)
        self.ess = ess
        self.waveform = slots.waveform
        level = Estimate(self.noise_std, math.nan if spread is None else spread)
        self.noise = noise_facts(
            start.observation, slots.statistics, slots.prior, orders, noise, level
        )
        self.proposed_by = start.proposed_by
        self._amortized = start.amortized
        fit = orders.fits.get(orders.k_map)
        self._on_tones = graded(verdict, slots.statistics, fit, sigma)
        self._alternatives, self._judged = tuple(alternatives), judged
        self._verdict = with_alternatives(self._on_tones, self._alternatives)

    def __repr__(self) -> str:
        text = f"{self.method}, k_map={self.k_map}, p={self.k_probs[self.k_map]:.3f}"
        return f"RefinedPosterior({text}, {self.verdict.status})"

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted, and why; `print(post.verdict)` reads as a sentence."""
        return self._verdict

    @property
    def orders(self) -> Orders:
        """Everything that is known of each K, how it was found included."""
        return self.slots.orders

    @property
    def noise_model(self) -> NoiseModel | None:
        """How the residual of the best fit is whitened; None where the noise is white."""
        likelihood = likeliest(self.statistics(), self.best_fit())
        if not isinstance(likelihood, GeneralTones):
            return None
        name = "white" if self.noise is None else self.noise.name
        found = NoiseModel(name, (likelihood.node,), local=likelihood.local)
        return None if found.is_white else found

    def statistics(self) -> Likelihood:
        """The likelihood of the data, as the search used it."""
        return self.slots.statistics

    def verdict_at(self, false_alarm: float, within: tuple[float, float] | None = None) -> Verdict:
        """The verdict at another rate of false alarms; only a misfit is judged again.

        Args:
            false_alarm: The rate.
            within: Frequencies in Hz between which alternatives to tones count; None for all.
        """
        share = false_alarm / FALSE_ALARM
        named = [one for one in self._alternatives if one.holds(share, within)]
        return with_alternatives(self._on_tones_at(false_alarm), named)

    def _on_tones_at(self, false_alarm: float) -> Verdict:
        """The same without alternatives to tones."""
        if self._on_tones.status != "misfit" or self._judged is None:
            return self._on_tones
        verdict = self._judged(false_alarm=false_alarm)
        if verdict.status == "misfit":
            verdict = replace(verdict, standing=self._on_tones.standing)
        return verdict

    def weighted(self, k: int | None = None) -> WeightedDraws:
        """Draws as they were weighted: theta (n, k, P), sigma (n,), log_weights (n,) and weights (n,).

        Args:
            k: Number of components; k_map if None. A K that was not sampled is refused.
        """
        found = self.orders.results[self._sampled(k)]
        return WeightedDraws(found.theta, found.sigma, found.log_weights)

    def known_fit(self, k: int) -> Array | None:
        """The best fit of k components, where the search has fitted that order; None otherwise."""
        return self.orders.fits.get(k)

    def best_fit(self, k: int | None = None) -> Array:
        """The parameters of the largest likelihood that was found for k tones, (k, P).

        They are fewer than k where the prior excludes every maximum of that order that was found.

        Args:
            k: Number of components; k_map if None. One that was excluded without a fit is fitted now, from the fits
                beside it.
        """
        k = self._k(k)
        fit = self.known_fit(k)
        return _fitted(k, self.slots) if fit is None else fit


def _fitted(k: int, slots: JointDraws) -> Array:
    """A fit of k tones that the search did not make, one tone at a time from the fits beside it, (k, P) or fewer."""
    from slotflow.exact.modes import Modes

    whole, prior, waveform = slots.statistics, slots.prior, slots.waveform
    statistics = whole
    if isinstance(whole, FreeGains):
        level = math.sqrt(float(whole.energy[0]) / whole.n)
        statistics = integrated(whole, prior, level)
    found = slots.orders.fits
    modes = Modes(statistics, prior)
    sizes = sorted({len(fit) for fit in found.values()})
    for fit in found.values():
        modes.add([np.sort(waveform.place_of(fit))])
    for j in range(min((n for n in sizes if n > k), default=k) - 1, k - 1, -1):
        modes.down(j)
    for j in range(max((n for n in sizes if n < k), default=0) + 1, k + 1):
        modes.up(j)
        if not modes.plausible(j):  # then larger orders have none either
            break
    for j in range(k, 0, -1):
        for mode in modes.plausible(j):
            if not mode.bounded and mode.keeps_apart(prior, modes.bin):
                theta = statistics.to_theta(mode.z)
                return whole.completed(theta) if isinstance(whole, FreeGains) else theta
    return np.zeros((0, waveform.size))
