r"""Where the slots start: the heat map's most probable places, two of which may share a bin.

The heat map gives each bin the probability p_1 of a tone in it and p_2 of a second one, with a place for each. The
places are taken in the order of their probabilities. A tone on the border of two bins lights up both at half strength.
When a place with probability p is taken, what p lacks, 1 − p, is therefore subtracted from the neighbours within three
quarters of a bin: the other half does not count as a tone of its own, while a true neighbour with p = 1 keeps its
claim.

The places do not depend on K: K slots are the first K of them, and K + 1 slots are the same and one more.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["heat_targets", "propose", "starts"]

SAME_TONE_BINS = 0.75
"""Distance in bins within which two places may be the same tone."""


@torch.no_grad()
def propose(heat: Tensor, band: Tensor, k_max: int) -> Tensor:
    """The k_max most probable places.

    Args:
        heat: Logits and offsets, (B, bins, 2, 2), float32.
        band: Edges of the band in bins, (B, 2).
        k_max: How many places to give.

    Returns:
        Frequencies in bins from the edge of the view, most probable first, (B, k_max), float64.
    """
    bins = torch.arange(heat.shape[1], device=heat.device)[:, None]
    low, high = band[:, 0, None, None], band[:, 1, None, None]
    place = bins + heat[..., 1].double()  # (B, bins, 2)
    allowed = (place >= low - 0.5) & (place <= high + 0.5)
    p = heat[..., 0].sigmoid()
    p = torch.stack([p[..., 0], p.amin(-1)], -1) * allowed  # a second tone needs a first
    p, place = p.flatten(1), place.maximum(low).minimum(high).flatten(1)  # (B, 2 bins)
    index = torch.arange(p.shape[1], device=p.device)
    found = []
    for _ in range(k_max):
        best, at = p.max(1, keepdim=True)
        here = place.gather(1, at)
        found.append(here)
        near = ((place - here).abs() < SAME_TONE_BINS) & (index // 2 != at // 2)
        p = torch.where(near, (p - (1 - best)).maximum(1e-6 * p), p)
        p = torch.where(index == at, -1.0, p)
    return torch.cat(found, 1)


def starts(places: Tensor, mask: Tensor) -> Tensor:
    """The first K places of each signal, (B, k_max) with a mask, in the order of frequency; 0 elsewhere."""
    ordered = torch.where(mask, places, torch.inf).sort(1).values
    return torch.where(mask, ordered, 0.0)


@torch.no_grad()
def heat_targets(frequency: Tensor, mask: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """What the heat map should show.

    Args:
        frequency: In bins from the edge of the view, sorted, (B, K), float64.
        mask: Which tones exist, (B, K), bool.
        bins: Length of the view.

    Returns:
        Presence of a first and a second tone in each bin, (B, bins, 2), and their offsets, (B, bins, 2), float32.
    """
    size, k = frequency.shape
    bin_of = frequency.round().long().clamp(0, bins - 1)
    same = (bin_of[:, :, None] == bin_of[:, None, :]) & mask[:, None, :]  # (B, K, K)
    earlier = torch.ones(k, k, device=mask.device, dtype=torch.bool).tril(-1)
    rank = (same & earlier).sum(-1)  # tones of the same bin that come before
    counted = mask & (rank < 2)
    place = torch.where(counted, 2 * bin_of + rank, 2 * bins)  # the last entry takes the rest
    present = torch.zeros(size, 2 * bins + 1, device=mask.device)
    present.scatter_(1, place, 1.0)
    offset = torch.zeros_like(present).scatter_(1, place, (frequency - bin_of).float())
    shape = (size, bins, 2)
    return present[:, :-1].reshape(shape), offset[:, :-1].reshape(shape)
