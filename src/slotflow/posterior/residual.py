"""What a posterior leaves of the data.

Where the shape of the noise is unknown, the likelihood stands for several values of it (`Likelihood.nodes`), each of
which whitens the data in its own way. The residual is that under the most plausible one given the components: the
first one was chosen before any component was known.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.signal.likelihood import GeneralTones, Likelihood
from slotflow.signal.model import without_components
from slotflow.signal.waveforms import Waveform

__all__ = ["best_draw", "best_draw_by_samples", "likeliest", "residual"]


def best_draw(draws: Array, statistics: Likelihood) -> Array:
    """The draw with the smallest sum of squared residuals, (n, K, P) to (K, P)."""
    best = 0
    if draws.shape[1]:
        best = int(statistics.rss(torch.from_numpy(draws)[None])[0].argmin())
    chosen: Array = draws[best]
    return chosen


def best_draw_by_samples(draws: Array, observation: Observation, waveform: Waveform) -> Array:
    """The same for components of any waveform, from sums over the samples, (n, K, P) to (K, P)."""
    energies = [
        sum(
            float((np.abs(channel.values) ** 2).sum())
            for channel in without_components(observation, theta, waveform).channels
        )
        for theta in draws
    ]
    chosen: Array = draws[int(np.argmin(energies))]
    return chosen


def residual(statistics: Likelihood, theta: Array) -> list[Array]:
    """Each stream's data minus some components, over the stream's noise ratio, (N_s,) each.

    Args:
        statistics: The likelihood of the data.
        theta: Parameters of the components, (K, P).
    """
    return likeliest(statistics, theta).residuals(statistics.to_z(theta))


def likeliest(likelihood: Likelihood, theta: Array) -> Likelihood:
    """The likelihood under the value of the noise's shape that is most plausible beside some components, (K, P)."""
    if not likelihood.nodes:
        return likelihood
    z = np.asarray(likelihood.to_z(theta))
    every = (likelihood, *likelihood.nodes)
    return max(every, key=lambda node: _log_profile(node, z))


def _log_profile(node: Likelihood, z: Array) -> float:
    """Logarithm of the likelihood of components z, (K, Z), at the best noise level, with the weight of the node."""
    if isinstance(node, GeneralTones) and not node.local:
        rss = node.rss_by_samples(z)
    else:
        xi, c = node.waveform.unpack(z[None, None])
        rss = float(node.energy[0]) + (float(node.gains(xi, c)[0, 0]) if len(z) else 0.0)
    return -0.5 * node.n * math.log(max(rss, 1e-300)) - node.log_scale + node.log_weight
