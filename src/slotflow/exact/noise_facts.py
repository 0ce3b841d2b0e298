"""What the exact step has learnt about the noise: its level, and the posterior of its shape's unknowns.

The likelihood sums over nodes, values of the shape's unknowns (`target.py`). Given a draw of Θ, the probability of a
node is its share in that sum; the mean over draws of (K, Θ) is its posterior probability.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.data.observation import Observation
from slotflow.exact.orders import Orders
from slotflow.exact.target import Target
from slotflow.posterior.noise import Estimate, NoiseFacts, ShapeNode
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior

__all__ = ["facts_of", "node_probabilities", "noise_facts", "white_facts"]

DRAWS = 200
"""Draws of each K behind the nodes' probabilities."""
NEGLIGIBLE = 1e-3
"""p(K | x) below which a K does not count."""


def noise_facts(
    observation: Observation,
    likelihood: Likelihood,
    prior: Prior,
    orders: Orders,
    noise: NoiseModel | None,
    level: Estimate,
) -> NoiseFacts:
    """The noise of a result.

    Args:
        observation: The data.
        likelihood: Of the data.
        prior: Of σ.
        orders: Draws of each K.
        noise: Which noise was assumed; white if None.
        level: σ of the most probable K.
    """
    probabilities = node_probabilities(likelihood, prior, orders)
    return facts_of(observation, likelihood, prior, probabilities, noise, level)


def facts_of(
    observation: Observation,
    likelihood: Likelihood,
    prior: Prior,
    probabilities: Array,
    noise: NoiseModel | None,
    level: Estimate,
) -> NoiseFacts:
    """The same, where the posterior probability of each value of the noise's shape is known, (nodes,)."""
    nodes = tuple(
        ShapeNode(one.node.values, float(p))
        for one, p in zip((likelihood, *likelihood.nodes), probabilities, strict=True)
        if isinstance(one, GeneralTones)
    )
    return _facts(observation, prior, noise, level, nodes, _in_band(likelihood, prior.frequency))


def white_facts(
    observation: Observation, prior: Prior, noise: NoiseModel | None, level: Estimate
) -> NoiseFacts:
    """The same for white noise of an even series, whose shape has no unknowns."""
    return _facts(observation, prior, noise, level, (), 1.0)


def _facts(
    observation: Observation,
    prior: Prior,
    noise: NoiseModel | None,
    level: Estimate,
    nodes: tuple[ShapeNode, ...],
    in_band: float,
) -> NoiseFacts:
    """The noise of a result, given its level in the middle of the band over that of the first channel."""
    noise = NoiseModel.white(len(observation.channels)) if noise is None else noise
    channels = tuple(
        (channel.name or f"channel {i + 1}", shape.ratio)
        for i, (channel, shape) in enumerate(
            zip(observation.channels, noise.nodes[0].channels, strict=True)
        )
    )
    return NoiseFacts(
        noise.name,
        level,
        Estimate(in_band * level.mean, in_band * level.sd),
        noise.words,
        noise.parameters,
        nodes if noise.parameters else (),
        channels,
        prior.known_sigma is not None,
    )


def node_probabilities(likelihood: Likelihood, prior: Prior, orders: Orders) -> Array:
    """Posterior probability of each node of the noise's shape, (nodes,)."""
    nodes = 1 + len(likelihood.nodes)
    if nodes == 1:
        return np.ones(1)
    total = np.zeros(nodes)
    for k, result in orders.results.items():
        if not (orders.k_probs[k] > NEGLIGIBLE and len(result.log_weights)):
            continue
        theta, _ = result.resample(DRAWS, np.random.default_rng(0))
        logs = Target(likelihood, prior, k).node_log_likelihoods(likelihood.to_z(theta))
        total += orders.k_probs[k] * np.exp(logs - log_sum_exp(logs, axis=0)).mean(1)
    if not total.sum() > 0:
        total = np.exp([one.log_weight for one in (likelihood, *likelihood.nodes)])
    probabilities: Array = total / total.sum()
    return probabilities


def _in_band(likelihood: Likelihood, band: tuple[float, float]) -> float:
    """Level per sample of white noise with the density that σ = 1 means in the middle of the band."""
    if not isinstance(likelihood, GeneralTones):
        return 1.0
    samples = sum(len(part.times) for part in likelihood.parts) * (2 if likelihood.complex else 1)
    seen = float(likelihood.weight_at(np.array([0.5 * (band[0] + band[1])]))[0])
    return math.sqrt(samples / seen) if seen > 0 else math.nan
