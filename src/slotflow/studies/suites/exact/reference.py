r"""Estimates of Z_K and of p(Θ | x, K) that owe nothing to fits, Gaussians and weights: long tempered sampling.

**Evidence** of resolved tones. Particles start from the uniform density of z = (f, Re c, Im c) in a box around the
truth, `BOX_REACH` standard deviations of the Cramér–Rao bound on either side. The boxes of different tones do not
touch, so draws are sorted and the density is normalized: tempering from it to p̃ gives Z_K itself. There is nothing
outside the box: other maxima of a resolved tone are sidelobes at least half a bin 1/T away, where ln L has fallen by
0.6 ρ²/2 for a tone of SNR ρ, and the smallest nominal ρ is 13. (The prior itself is a bad start: at SNRs of hundreds
each tone has to be driven through 15 or 20 nats, the moves lag behind, and ln Z comes out too small by more than its
error says.)

**Correlations** of a close pair. Particles start from the prior cut to a band around the pair; nothing is assumed
about the shape of the posterior.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed
from slotflow.exact.importance import Importance
from slotflow.exact.target import Target
from slotflow.exact.tempering import Tempering, tempered
from slotflow.signal.bounds import crb_std
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.studies.measures.parameters import AMPLITUDE, WAVEFORM

__all__ = ["Band", "Box", "long_evidence", "long_pair"]

BOX_REACH = 12.0
"""Half the side of a box, in standard deviations."""
BINS_BESIDE_A_PAIR = 1.5
"""Bins on either side of a pair."""


class Box:
    """The uniform density of z in a box.

    Args:
        centre: (K, P).
        half: Half of its sides, (K, P).
    """

    def __init__(self, centre: Array, half: Array) -> None:
        self.centre, self.half = centre, half
        self.log_density = -float(np.log(2 * half).sum())

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, P)."""
        return self.centre + self.half * rng.uniform(-1, 1, (n, *self.centre.shape))

    def log_prob(self, z: Array) -> Array:
        """Log density of z, (n, K, P); shape (n,)."""
        inside = (np.abs(z - self.centre) <= self.half).all((-1, -2))
        return np.where(inside, self.log_density, -np.inf)


class Band:
    """The prior of K tones in a band of its own, as a density of sorted z: K! p(Θ | K) Π 1/A.

    Args:
        prior: Of A and φ.
        band: Lowest and highest frequency in Hz.
        k: Number of tones.
        reference: Mid-time that c is referred to.
        seed: Of the draws.
    """

    def __init__(
        self, prior: Prior, band: tuple[float, float], k: int, reference: float, seed: int
    ) -> None:
        self.prior = replace(prior, k_min=0, k_max=k, k_probs=None, frequency=band)
        self.k, self.reference = k, reference
        self.generator = torch.Generator().manual_seed(spread_seed(seed))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, P), sorted."""
        theta = self.prior.sample_theta(torch.full((n,), self.k), self.generator)
        return WAVEFORM.to_z(theta.numpy(), self.reference)

    def log_prob(self, z: Array) -> Array:
        """Log density of sorted z, (n, K, P); shape (n,)."""
        theta = WAVEFORM.to_theta(z, self.reference)
        log_prob: Array = self.prior.log_prob_theta(torch.from_numpy(theta)).numpy()
        log_prob += math.lgamma(self.k + 1)
        log_prob -= np.log(np.maximum(WAVEFORM.of(theta, "amplitude"), 1e-300)).sum(-1)
        return log_prob


def long_evidence(sim: Simulation, prior: Prior, seed: int, options: Tempering) -> Importance:
    """Draws and evidence of the true K of one signal whose tones are resolved.

    Args:
        sim: One signal with its truth.
        prior: The prior.
        seed: Of everything random.
        options: Particles, islands, sweeps.
    """
    statistics, truth = Statistics.from_observation(sim.observation(0)), sim.components(0)
    bound = crb_std(sim.theta, sim.sigma, sim.grids, sim.mask)[0, : len(truth)].numpy()
    # At mid-time the long stream alone knows either part of c to σ√(2/N).
    part = np.maximum(bound[:, AMPLITUDE], float(sim.sigma) * math.sqrt(2 / sim.grids[0].n))
    shape = [bound[:, WAVEFORM.column(name)] for name in WAVEFORM.shape]
    half = BOX_REACH * np.stack([*shape, *(2 * WAVEFORM.amplitudes * [part])], -1)
    box = Box(WAVEFORM.to_z(truth, statistics.reference), half)
    target = Target(statistics, prior, len(truth))
    return tempered(target, box, np.random.default_rng(seed), options)


def long_pair(sim: Simulation, prior: Prior, seed: int, options: Tempering) -> Importance:
    """Draws of two tones, one signal; arguments as of `long_evidence`."""
    statistics, truth = Statistics.from_observation(sim.observation(0)), sim.components(0)
    target = Target(statistics, prior, len(truth))
    low, high = prior.frequency
    beside = BINS_BESIDE_A_PAIR * target.bin
    place = WAVEFORM.place_of(truth)
    band = max(place[0] - beside, low), min(place[-1] + beside, high)
    start = Band(prior, band, len(truth), statistics.reference, seed)
    return tempered(target, start, np.random.default_rng(seed), options)
