"""A posterior whose law is known, for tests of what is made of posteriors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tone_helpers import model

from slotflow import Grid, Observation, Posterior, Prior, Stream

__all__ = ["PRIOR", "TONES", "WIDTHS", "GaussianSlots", "gaussian_posterior", "shuffled"]

Array = NDArray[np.float64]

TONES = np.array([[0.7, 0.1, 2.55], [1.3, 4.0, 2.72], [0.9, 2.0, 2.91]])
WIDTHS = np.array([0.05, 0.1, 0.002])
PRIOR = Prior(k_min=0, k_max=3)


class GaussianSlots:
    """Independent Gaussians around the first K tones, listed in no particular order.

    Args:
        tones: (A, φ, f), (K_max, 3).
        widths: Standard deviations, (3,) or (K_max, 3).
    """

    def __init__(self, tones: ArrayLike = TONES, widths: ArrayLike = WIDTHS) -> None:
        self.tones = np.asarray(tones, dtype=float)
        self.widths = np.broadcast_to(np.asarray(widths, dtype=float), self.tones.shape)
        self.k_max = len(self.tones)

    def sample(self, n: int, k: int, seed: int) -> Array:
        noise = np.random.default_rng(seed).standard_normal((n, *self.tones[:k].shape))
        theta = (self.tones[:k] + self.widths[:k] * noise)[:, ::-1].copy()
        theta[..., 1] %= 2 * np.pi
        return theta

    def log_prob(self, theta: Array) -> Array:
        raise NotImplementedError

    def constrained_fraction(self, k: int) -> float:
        return 0.0


def gaussian_posterior(
    k_probs: Sequence[float],
    *,
    tones: ArrayLike = TONES,
    widths: ArrayLike = WIDTHS,
    present: int | None = None,
    short: bool = True,
    prior: Prior | None = PRIOR,
    sigma: float = 0.3,
    method: str = "gaussian",
) -> Posterior:
    """Gaussians around tones, beside data of the first `present` of them (of the most probable K) in noise."""
    slots = GaussianSlots(tones, widths)
    shown = slots.tones[: int(np.argmax(k_probs)) if present is None else present]
    rng = np.random.default_rng(0)
    grids = ((512, 0.1), (128, 1 / 128)) if short else ((512, 0.1),)
    streams = [
        Stream(
            model(torch.from_numpy(shown), Grid(n, dt)).numpy() + sigma * rng.standard_normal(n), dt
        )
        for n, dt in grids
    ]
    return Posterior(k_probs, slots, Observation(*streams), sigma, 0.01, method, prior)


def shuffled(draws: Array, seed: int) -> Array:
    """The same draws, (n, k, 3), with the components of each in an order of their own."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(draws.shape[1]), (len(draws), 1)), axis=1)
    return np.take_along_axis(draws, order[..., None], 1)
