"""Data with the maxima and draws that were found in them, and what is left of the data without components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.family.bank import Bank
from slotflow.exact.family.layout import members_of
from slotflow.exact.family.leverage import leverage
from slotflow.exact.family.sample import Sampled
from slotflow.exact.family.search import Search, Start
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.compressed import compressed
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.signal.model import without_components
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Waveform

__all__ = ["Analysed", "largest_amplitude", "searched"]


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


def searched(
    observation: Observation,
    prior: Prior,
    noise: NoiseModel | None = None,
    max_seconds: float = math.inf,
    starts: Sequence[Start] = (),
) -> Search:
    """The maxima of the likelihood; arguments as of `family_posterior`."""
    waveform, likelihood = _settled(prior, observation, noise)
    nodes = compressed(likelihood, observation, waveform, prior.frequency)
    search = Search(nodes, prior, waveform, likelihood.reference, observation.long.duration)
    search.propose(starts)
    search.run(max_seconds)
    return search


def largest_amplitude(
    observation: Observation, prior: Prior, noise: NoiseModel | None = None
) -> float:
    """The largest amplitude that a lone component of any class would have, as matched filters see the data."""
    waveform, likelihood = _settled(prior, observation, noise)
    node = compressed(likelihood, observation, waveform, prior.frequency)[0]
    banks = [
        Bank(member, node, prior.frequency, observation.long.duration)
        for member in members_of(waveform)
    ]
    return max(bank.largest_amplitude(node.data) for bank in banks)


def _settled(
    prior: Prior, observation: Observation, noise: NoiseModel | None
) -> tuple[Waveform, Likelihood]:
    """The prior's waveform, settled on the record, and the likelihood of tones in what components occupy."""
    long = observation.long
    waveform = prior.waveform.on(float(long.times[0]), long.mid_time)
    return waveform, likelihood_of(observation, noise, _hull(prior, observation))


def _hull(prior: Prior, observation: Observation) -> tuple[float, float]:
    """Lowest and highest frequency in Hz that components may occupy."""
    every = prior.waveform.occupied(prior.frequency, observation.long.duration)
    return min(low for low, _ in every), max(high for _, high in every)
