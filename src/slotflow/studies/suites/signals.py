"""Test signals of given components: the same components in noise that the caller chooses by a seed."""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.data.sampling import Grid
from slotflow.signal.simulation import Simulation, coincident, tones
from slotflow.studies.suites.sets import GRIDS

__all__ = ["in_fresh_noise"]


def in_fresh_noise(
    theta: Tensor, sigma: Tensor, seed: int, grids: tuple[Grid, Grid] = GRIDS
) -> Simulation:
    """Signals of given components in white noise.

    Instants that both streams share have the same noise, as in `simulate`.

    Args:
        theta: Components of each signal, all of which exist, (n, K, P), float64.
        sigma: Noise level of each, (n,), float64.
        seed: The same seed gives the same noise on the same device.
        grids: Long and short grid; those of the test sets unless given.
    """
    long, short = grids
    size, device = len(theta), theta.device
    generator = torch.Generator(device=device).manual_seed(spread_seed(seed))
    noise = [torch.randn(size, g.n, generator=generator, device=device) for g in (long, short)]
    i, j = (torch.as_tensor(index, device=device) for index in coincident(long, short))
    noise[1][:, j] = noise[0][:, i]
    level = sigma[:, None].float()
    x, y = (tones(theta, g) + level * e for g, e in zip(grids, noise, strict=True))
    return Simulation(torch.full((size,), theta.shape[1]), theta, sigma, x, y, grids, seed)
