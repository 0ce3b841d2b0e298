r"""Simulated signals with samples missing, as a network sees them: zeros in their place, in units of a whole series.

Of N samples a share q is left. With m_n = 1 where there is a sample and 0 elsewhere, the series m_n x_n / q has

- tones whose peaks in the spectrum are as high as without gaps, since Σ m_n/q = N, with side lobes around them that
  are the transform of m instead of the Dirichlet kernel;
- noise that fills the spectrum evenly, as white noise of the level σ/√q would: E|Σ m_n ε_n e^{−iωn}/q|² = Nσ²/q.

So θ stays the truth of such a series, its prior stays what bounds the peaks, and σ/√q is its noise level. The series
that stands in for data with gaps (`slotflow.network.surrogate`) is the same up to a factor, of which bounds taken from
the data know nothing.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.signal.simulation import Simulation

__all__ = ["present", "with_gaps"]

MOST_BLOCKS = 4
"""Largest number of gaps, where samples are not missing one by one."""
SCATTERED = 0.5
"""Share of the signals whose samples are missing one by one."""


def with_gaps(data: Simulation, most: float, seed: int) -> Simulation:
    """The same signals with samples missing, the others raised so that tones keep their peaks.

    Args:
        data: Signals of a long stream alone.
        most: Largest share of samples to miss, below 1; each signal's own is uniform below it.
        seed: Of the gaps.
    """
    if data.short is not None:
        raise ValueError(
            "expected signals without a short stream, received two streams; simulate them with short=None."
        )
    size, n = data.long.shape
    kept = present(size, n, most, seed, data.long.device)
    share = kept.double().mean(-1)
    values = data.long * kept / share[:, None].to(data.long.dtype)
    return dataclasses.replace(data, long=values, sigma=data.sigma / share.sqrt())


def present(size: int, n: int, most: float, seed: int, device: torch.device) -> Tensor:
    """Which samples are there, (size, n), bool: some are missing one by one, or in one to four gaps.

    Args:
        size: Number of signals.
        n: Samples of each.
        most: Largest share of samples to miss, below 1.
        seed: The same seed on the same device gives the same gaps.
        device: Where to draw.
    """
    if not 0 <= most < 1:
        raise ValueError(f"expected a largest share of missing samples in [0, 1), received {most}.")
    generator = torch.Generator(device=device).manual_seed(stream_seed(seed, RandomStream.GAPS))

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    missing = most * uniform(size, 1)
    scattered = uniform(size, n) >= missing
    blocks = 1 + (MOST_BLOCKS * uniform(size, 1)).long()
    length = missing * n / blocks
    start = uniform(size, MOST_BLOCKS) * (n - length)
    start = torch.where(torch.arange(MOST_BLOCKS, device=device) < blocks, start, n)
    place = torch.arange(n, device=device)
    inside = (place >= start[..., None]) & (place < (start + length)[..., None])
    chosen = uniform(size, 1) < SCATTERED
    return torch.where(chosen, scattered, ~inside.any(1))
