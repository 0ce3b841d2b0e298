r"""The density that sampling aims at: p(Θ, x | K) with σ integrated out, in coordinates where it is nearly Gaussian.

**Noise.** Its unknowns are integrated out (`signal/noise/`): RSS alone decides, and σ is drawn afterwards given RSS.

**Coordinates.** A component is z = (ξ, Re c, Im c), c referred to the first channel's mid-time: given the shapes ξ, the
likelihood is exactly Gaussian in c. dA dφ = d²c / A, so the density in z is p(Θ | K) Π_k 1/A_k.

**Labels.** The K! labellings of a set of components are equally probable. Only the one that is sorted by place is
looked at, with K! times the density; anything unsorted has the density zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.signal.likelihood import GeneralTones, Likelihood
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.noise import WhiteNoise
from slotflow.signal.prior import Prior
from slotflow.signal.systems import inverse
from slotflow.signal.waveforms import Waveform

__all__ = ["CHUNK", "Level", "Target", "log_prior"]

CHUNK = 1024
"""Draws whose likelihood is computed at a time."""


def log_prior(prior: Prior, waveform: Waveform, z: Tensor) -> Tensor:
    """Logarithm of p(Θ | K) Π 1/A of z, (..., K, Z); −inf where unsorted or outside the support. Shape (...)."""
    moduli = waveform.moduli(z)
    log_prob = prior.log_prob_theta(waveform.without_phase(z[..., : len(waveform.shape)], moduli))
    in_order = (waveform.place_in_z(z).diff(dim=-1) > 0).all(-1)
    log_prob.masked_fill_(~in_order, -math.inf)
    log_prob -= moduli.clamp_min(1e-300).log().sum((-2, -1))
    return log_prob


class Level:
    """The noise level under one value of the noise's shape, to be integrated out.

    Args:
        data: Their energy, degrees of freedom, scale and weight: a likelihood of one signal, or compressed data.
        prior: Gives the bounds of σ.
        spent: Degrees of freedom that were spent on the data before.
    """

    def __init__(self, data: Likelihood | Compressed, prior: Prior, spent: int = 0) -> None:
        self.log_weight = data.log_weight
        rms = math.sqrt(float(data.energy) / data.n)
        self.noise = WhiteNoise.under(prior.sigma, max(data.n - spent, 2), rms)
        self.constant = (
            -0.5 * self.noise.n * math.log(2 * math.pi)
            - data.log_scale
            - (0.0 if self.noise.known else math.log(prior.sigma[1] - prior.sigma[0]))
        )


class _Node(Level):
    """The same with the likelihood itself."""

    def __init__(self, statistics: Likelihood, prior: Prior) -> None:
        # Each component that was removed before took its degrees of freedom.
        super().__init__(statistics, prior, statistics.waveform.coordinates * statistics.removed)
        self.statistics = statistics

    def log_likelihood(self, z: Array) -> float:
        """Log-likelihood of one set of components z, (K, Z), under this value, its weight included."""
        likelihood = self.statistics
        if isinstance(likelihood, GeneralTones) and not likelihood.local:
            rss = likelihood.rss_by_samples(z)  # without tables that only many draws are worth
        else:
            xi, c = likelihood.waveform.unpack(z[None, None])
            rss = float(likelihood.energy) + (float(likelihood.gains(xi, c)[0, 0]) if len(z) else 0)
        apart = likelihood.apart(likelihood.waveform.unpack(z[None])[0])
        log_volume = 0.0 if apart is None else float(apart[1][0])
        return float(self.noise.log_marginal(np.array([rss]))[0]) + self.constant + log_volume


class Target:
    """p(Θ, x | K) of one observation as a density of sorted z = (ξ, Re c, Im c).

    Args:
        statistics: Of one signal.
        prior: Prior of Θ and σ.
        k: Number of components.
    """

    largest_round: int = 200_000
    """Candidates of a proposal that are drawn at a time at most."""

    def __init__(self, statistics: Likelihood, prior: Prior, k: int) -> None:
        if len(statistics.energy) != 1:
            raise ValueError(
                f"expected the statistics of one signal, received {len(statistics.energy)}; choose one with take()."
            )
        self.statistics, self.prior, self.k = statistics, prior, k
        self.waveform = statistics.waveform
        self.nodes = [_Node(one, prior) for one in (statistics, *statistics.nodes)]
        self._set_levels(self.nodes)

    def _set_levels(self, levels: Sequence[Level]) -> None:
        """Takes the noise levels under all values of the noise's shape, with the constants of the density."""
        self.levels = levels
        total = log_sum_exp(np.array([level.log_weight for level in levels]))
        for level in levels:
            level.constant += level.log_weight + math.lgamma(self.k + 1)
        self.noise, self.constant = levels[0].noise, levels[0].constant
        if len(levels) > 1:  # what a single likelihood is taken for is the whole of them
            self.constant -= levels[0].log_weight - float(total)

    def to_theta(self, z: Array) -> Array:
        """θ, (n, K, P), of coordinates z, (n, K, Z)."""
        theta: Array = self.statistics.to_theta(z)
        return theta

    @property
    def bin(self) -> float:
        """1/T of the first channel, in Hz."""
        return self.statistics.bin

    def log_prior(self, z: Array) -> Array:
        """Logarithm of p(Θ | K) Π 1/A of z, (n, K, Z); −inf where unsorted or outside the support. Shape (n,)."""
        return log_prior(
            self.prior, self.waveform, torch.from_numpy(np.ascontiguousarray(z))
        ).numpy()

    def rss(self, z: Array, node: int = 0) -> Array:
        """Residual sum of squares, (n,), of z, (n, K, Z), under the first or another node of the noise."""
        statistics = self.nodes[node].statistics
        energy = float(statistics.energy)
        if self.k == 0:
            return np.full(len(z), energy)
        parts = [
            statistics.gains(*self.waveform.unpack(z[None, i : i + CHUNK]))[0]
            for i in range(0, len(z), CHUNK)
        ]
        gains: Array = np.concatenate(parts) if parts else np.zeros(0)
        return energy + gains

    def log_volume(self, z: Array, node: int = 0) -> Array | float:
        """Logarithm of what integrating amplitudes out leaves of their prior, (n,), of z, (n, K, Z); 0 if none is."""
        shapes = z[..., : len(self.waveform.shape)]
        apart = self.nodes[node].statistics.apart(shapes)
        return 0.0 if apart is None else np.asarray(apart[1])

    def log_likelihood(self, rss: Array) -> Array:
        """Log-likelihood with σ integrated out, K! included, same shape; of the noise's first node alone."""
        return self.noise.log_marginal(rss) + self.constant

    def node_log_likelihoods(self, z: Array) -> Array:
        """The same under each node of the noise, its weight included, (nodes, n), of z, (n, K, Z)."""
        return np.stack(
            [
                level.noise.log_marginal(self.rss(z, i)) + level.constant + self.log_volume(z, i)
                for i, level in enumerate(self.levels)
            ]
        )

    def sample_sigma(self, z: Array, rss: Array, rng: np.random.Generator) -> Array:
        """A noise level for each z, (n, K, Z), with its RSS under the first node, (n,); (n,)."""
        return self.sample_noise(z, rss, rng)[1]

    def sample_noise(
        self, z: Array, rss: Array, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], Array]:
        """A node of the noise's shape and a level for each z, (n, K, Z), with its RSS under the first node, (n,).

        The node is drawn first, by its share in the likelihood.

        Returns:
            The index of the node and σ, (n,) each.
        """
        if len(self.levels) == 1 or not len(z):
            return np.zeros(len(z), dtype=np.int64), self.noise.sample(rss, rng)
        logs = self.node_log_likelihoods(z)
        shares = np.exp(logs - log_sum_exp(logs, axis=0)).cumsum(0)
        chosen = (shares < rng.random(len(z)) * shares[-1]).sum(0)
        sigma = np.empty(len(z))
        for i, level in enumerate(self.levels):
            rows = np.flatnonzero(chosen == i)
            if len(rows):
                sigma[rows] = level.noise.sample(self.rss(z[rows], i), rng)
        return chosen, sigma

    def log_prob(self, z: Array, known_rss: Array | None = None) -> tuple[Array, Array]:
        """Log density and RSS of z, (n, K, Z), shape (n,) each; the likelihood is computed inside the support only.

        The density is that of all nodes of the noise together, RSS that of the first one, (n,), which the caller may
        know already.
        """
        log_prob, rss = self.log_prior(z), np.full(len(z), np.nan)
        inside = np.flatnonzero(log_prob > -np.inf)
        rss[inside] = self.rss(z[inside]) if known_rss is None else known_rss[inside]
        if len(self.levels) == 1:
            log_prob[inside] += self.log_likelihood(rss[inside]) + self.log_volume(z[inside])
        else:
            log_prob[inside] += log_sum_exp(self.node_log_likelihoods(z[inside]), axis=0)
        return log_prob, rss

    def gaussian(self, z: Array, extra: float = 0.0) -> tuple[Array, Array] | None:
        """Mean and covariance of the Gaussian around a maximum of the likelihood.

        The curvature is that of −ln p̃ itself, not the Fisher matrix alone: second derivatives of the model times the
        residual (which couple the coordinates of one component only), and the prior's −ln A or −2 ln A. One Newton step
        carries the maximum of the likelihood to that of the posterior.

        Args:
            z: The maximum, (K, Z), sorted.
            extra: The density is that of p̃ Π A^{−extra}, as other coordinates than z ask for.

        Returns:
            (K·Z,) and (K·Z, K·Z), or None where the curvature is not positive.
        """
        (k, size), first = z.shape, len(self.waveform.shape)
        gain, _, matrices = self.statistics.equations(*self.waveform.unpack(z[None]))
        precision = self.noise.precision(float(self.statistics.energy) + float(gain[0]))
        fisher = precision * matrices[0]
        hessian = fisher.copy()
        own = np.einsum(
            "kikj->kij", hessian.reshape(k, size, k, size)
        )  # a view of each component's block
        own -= precision * self.statistics.second_order(z)
        power = extra + (2.0 if self.prior.amplitude_law == "loguniform" else 1.0)
        c = z[:, first:]
        square = np.maximum((c**2).sum(-1), 1e-300)[:, None, None]
        slope = np.zeros((k, size))
        slope[:, first:] = -power * c / square[:, 0]
        with_prior = hessian.copy()
        own = np.einsum("kikj->kij", with_prior.reshape(k, size, k, size))
        outer = c[:, :, None] * c[:, None, :]
        own[:, first:, first:] += power * (np.eye(c.shape[1]) / square - 2 * outer / square**2)
        for trial in (with_prior, hessian, fisher):
            found = inverse(trial)
            if found is not None:
                step = found @ slope.ravel() if trial is with_prior else np.zeros(k * size)
                return z.ravel() + step, found
        return None
