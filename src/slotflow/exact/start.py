"""Where the exact step begins: who proposes components, and what is known before the likelihood is asked.

Only places (the frequencies of tones) are taken from a proposer; amplitudes, widths and weights come from the
likelihood. Three kinds of proposers exist:

- a network that has read the data themselves (`Start.from_posterior`); its draws also stand in for numbers of
  components that are not worth sampling;
- a network that has read a series made from the data (`Start.from_places`), whitened or shifted: only its places, at
  the data's own frequencies, have a meaning;
- nobody (`Start.from_places` without places): the peaks of the residual's spectrum are followed.

Where no network's draws stand in, those of the prior do. They belong to counts of next to no probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.tuples import Slots
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior
from slotflow.signal.prior_gains import with_free_amplitudes
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["CLASSICAL", "PriorSlots", "Start", "likely_counts", "proposer"]

CLASSICAL = "classical"
"""Who proposed where no network did."""
STARTS = 3
"""Numbers of components, the most probable first, whose components are starting points."""
UNLIKELY = 1e-4
"""Probability of a number of components, by the network, below which its components are no starting points."""


class PriorSlots:
    """Draws from the prior, for numbers of components that nobody looked at.

    Args:
        prior: Where they come from.
        observation: The data; in its channels of a free gain components have amplitudes of their own.
    """

    def __init__(self, prior: Prior, observation: Observation) -> None:
        self.prior, self.observation, self.k_max = prior, observation, prior.k_max

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws, (n, k, P)."""
        counts = torch.full((n,), min(k, self.prior.k_max), dtype=torch.int64)
        drawn = self.prior.sample_theta(counts, torch.Generator().manual_seed(seed))
        theta: Array = drawn[:, :k].numpy()
        rng = np.random.default_rng(seed)
        return with_free_amplitudes(theta, self.observation, self.prior, rng)

    def log_prob(self, theta: Array) -> Array:
        """Refused: these draws only fill a place."""
        raise NotImplementedError("numbers of components that were not sampled have no density.")

    def constrained_fraction(self, k: int) -> float:
        """Zero: all draws lie inside the prior."""
        return 0.0


@dataclass(frozen=True, eq=False)
class Start:
    """What a proposer gives the exact step."""

    observation: Observation
    """The data."""
    k_probs: Array
    """p(K) as the proposer sees it, (K_max + 1,); zeros where it has no opinion."""
    components: tuple[Array, ...]
    """Sets of components to start from, (K, P) each, the most probable first; empty: follow the spectrum."""
    slots: Slots
    """Where draws of a number of components come from that is not sampled."""
    sigma: tuple[float, float | None]
    """Estimate of the noise level and its standard error."""
    proposed_by: str
    """Name of the network, "classical", or both."""
    method: str
    """What the result's method is called before the exact step."""
    extra: Callable[[], Sequence[float]] | None = None
    """Gives places where more components may be."""
    amortized: Posterior | None = None
    """The network's answer, where it has read the data themselves."""
    waveform: Waveform = TONE
    """What a component is."""

    @property
    def k_max(self) -> int:
        """Largest number of components that the result is to know."""
        return len(self.k_probs) - 1

    @property
    def follows_spectrum(self) -> bool:
        """Whether peaks of the residual propose as well."""
        return CLASSICAL in self.proposed_by

    @classmethod
    def from_posterior(cls, post: Posterior, prior: Prior, seed: int) -> Start:
        """The start that a posterior of the same data gives.

        Args:
            post: A network's answer, or any other posterior with components.
            prior: The prior of the exact step.
            seed: Of draws that tell where components are.
        """
        chosen = likely_counts(post.k_probs, prior)
        return cls(
            observation=post.observation,
            k_probs=post.k_probs,
            components=tuple(post.centres(k, seed) for k in chosen),
            slots=post.slots,
            sigma=(post.noise_std, post.noise_std_error),
            proposed_by=proposer(post.method),
            method=post.method,
            extra=_one_more(post, chosen[0], prior, seed),
            amortized=post,
            waveform=post.waveform,
        )

    @classmethod
    def from_places(
        cls,
        observation: Observation,
        likelihood: Likelihood,
        prior: Prior,
        level: float,
        places: Sequence[Array] = (),
        proposed_by: str = CLASSICAL,
    ) -> Start:
        """The start at given places, or at none.

        Args:
            observation: The data.
            likelihood: Their likelihood.
            prior: The prior of the exact step.
            level: Estimate of the noise level.
            places: Sets of places, (K,) each, the most probable first.
            proposed_by: Who proposes.
        """
        waveform, found = likelihood.waveform, []
        for one in places:
            z = np.zeros((len(one), waveform.coordinates))
            waveform.place_in_z(z)[:] = one  # amplitudes come from the likelihood, later
            found.append(likelihood.to_theta(z))
        return cls(
            observation=observation,
            k_probs=np.zeros(prior.k_max + 1),
            components=tuple(found),
            slots=PriorSlots(prior, observation),
            sigma=(level, None),
            proposed_by=proposed_by,
            method=CLASSICAL if proposed_by == CLASSICAL else f"slotflow:{proposed_by}",
            waveform=likelihood.waveform,
        )


def proposer(method: str) -> str:
    """Who proposed, given the method of the answer: "zoom" of "slotflow:zoom"."""
    return method.rpartition(":")[-1]


def likely_counts(k_probs: Array, prior: Prior) -> list[int]:
    """Numbers of components within the prior that start a search, the most probable first.

    Args:
        k_probs: p(K) of the proposer, (≥ k_max + 1,).
        prior: Gives k_min and k_max.
    """
    inside = np.arange(prior.k_min, prior.k_max + 1)
    ranked = inside[np.argsort(-k_probs[inside], kind="stable")]
    return [int(k) for k in ranked[:STARTS] if k == ranked[0] or k_probs[k] > UNLIKELY]


def _one_more(
    post: Posterior, k: int, prior: Prior, seed: int
) -> Callable[[], Sequence[float]] | None:
    """Places of one component more than k, asked for when they are needed."""
    if k == prior.k_max:
        return None
    return lambda: [float(place) for place in post.waveform.place_of(post.centres(k + 1, seed))]
