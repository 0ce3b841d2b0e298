"""Draws of many signals at once that are, signal by signal, those of each alone.

A signal's draws come from standard normal numbers that depend on the seed, the number of draws and K only. Signals that
agree in these share the numbers, so that a batch makes them once; what makes the draws of two signals differ is the
flow. A draw outside the prior's bounds is drawn again, turn by turn: each turn has a full set of numbers of its own, of
which those at the places of the failed draws are taken. No signal thus depends on how often another one failed. Several
turns go through the flow at once, and the first that succeeds counts; what fails in all of them is moved to the bounds.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.network.zoom.batch import MAX_REDRAWS, SlotBatch

__all__ = ["draw_alike"]

TURNS = (1, 5, MAX_REDRAWS + 1)
"""Turns that go through the flow together begin here."""

Numbers = NDArray[np.int64]


@torch.inference_mode()
def draw_alike(batch: SlotBatch, sizes: Numbers, seeds: Numbers) -> Tensor:
    """Draws of signals with any number of slots.

    Args:
        batch: The slots of B signals, the first K of which count.
        sizes: Draws of each signal, (B,).
        seeds: Their seeds, (B,).

    Returns:
        θ, (n, B, K, P), float64, n being the largest size; NaN where there is no slot, and beyond a signal's own size.
    """
    columns, n = batch.slots.mask.shape[1], int(sizes.max())
    device, dtype = batch.slots.y.device, batch.slots.y.dtype
    asked = np.stack([sizes, seeds, batch.k.numpy()], 1)
    kinds, inverse = np.unique(asked, axis=0, return_inverse=True)
    exists = torch.arange(columns) < batch.k[:, None]
    signal, column = (x.to(device) for x in torch.nonzero(exists, as_tuple=True))  # (R,) each
    kind = torch.from_numpy(inverse.reshape(-1)).to(device)[signal]
    slot = None if bool(exists.all()) else signal * columns + column

    def numbers(turn: int, wanted: list[int]) -> Tensor:
        """The normal numbers of one turn for some kinds of signals, (n, wanted, K, Z)."""
        shape = (n, len(wanted), columns, batch.waveform.coordinates)
        found = torch.zeros(shape, device=device, dtype=dtype)
        for i, (size, seed, k) in enumerate(kinds[wanted].tolist()):
            generator = torch.Generator(device=device).manual_seed(_turn_seed(seed, turn))
            own = (size, k, shape[-1])
            found[:size, i, :k] = torch.randn(own, generator=generator, device=device, dtype=dtype)
        return found

    everyone = list(range(len(kinds)))
    theta = batch.theta_of(numbers(0, everyone)[:, kind, column], slot)  # (n, R, P)
    low, high = (end if slot is None else end[slot] for end in batch.bounds())
    own_size = torch.from_numpy(sizes).to(device)[signal]
    wanted = torch.arange(n, device=device)[:, None] < own_size  # (n, R)
    for first, last in pairwise(TURNS):
        outside = ~((theta >= low) & (theta <= high)).all(-1)
        draw, row = torch.nonzero(outside & wanted, as_tuple=True)
        if draw.numel() == 0:
            break
        which, place = torch.unique(kind[row], return_inverse=True)
        own_kinds = which.tolist()
        normal = torch.stack(
            [numbers(t, own_kinds)[draw, place, column[row]] for t in range(first, last)]
        )
        again = batch.theta_of(normal, row if slot is None else slot[row])  # (turns, failed, P)
        inside = ((again >= low[row]) & (again <= high[row])).all(-1)
        chosen = torch.where(inside.any(0), inside.byte().argmax(0), last - first - 1)
        theta[draw, row] = again[chosen, torch.arange(len(row), device=device)]
    theta = torch.where(wanted[..., None], theta.maximum(low).minimum(high), theta)
    if not bool((sizes == n).all()):
        theta = torch.where(wanted[..., None], theta, math.nan)
    if slot is None:
        return theta.reshape(n, *exists.shape, -1)
    full = theta.new_full((n, exists.numel(), theta.shape[-1]), math.nan)
    full[:, slot] = theta
    return full.reshape(n, *exists.shape, -1)


def _turn_seed(seed: int, turn: int) -> int:
    """The seed of a round of numbers."""
    return spread_seed(seed) if turn == 0 else spread_seed(spread_seed(seed) + turn)
