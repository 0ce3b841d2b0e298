r"""Where slots start: the most probable places and classes of the heat map.

Each bin and class has a probability p. A component whose class is in doubt lights up several classes at one place, and
one on the border of two bins lights up both. When an entry with the probability p is taken, what p lacks, 1 − p, is
therefore subtracted from all others within three quarters of a bin. Two components that cross at one frequency keep
their claims, since each has a p near 1. As for tones (`zoom/proposals.py`), places do not depend on K.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.family.bounds import Bounds

__all__ = ["Places", "heat_terms", "propose"]

SAME_BINS = 0.75
"""Distance in bins within which two entries may be the same component."""


class Places(NamedTuple):
    """Starting places of B signals, the most probable first."""

    raw: Tensor
    """Raw coordinates, (B, K, D)."""
    kind: Tensor
    """Classes, (B, K), int64."""
    p: Tensor
    """Probabilities that they were taken with, (B, K)."""

    def first(self, mask: Tensor) -> Places:
        """The same with those of a mask, (B, K), in the order of their places, and then the rest."""
        order = torch.where(mask, self.raw[..., 0], torch.inf).argsort(dim=1, stable=True)
        return self.take(order)

    def take(self, order: Tensor) -> Places:
        """Places in another order, (B, K), int64."""
        raw = self.raw.gather(1, order[..., None].expand(-1, -1, self.raw.shape[-1]))
        return Places(raw, self.kind.gather(1, order), self.p.gather(1, order))


@torch.no_grad()
def propose(heat: Tensor, bounds: Bounds, outer: Bounds, k_max: int) -> Places:
    """The k_max most probable places.

    Args:
        heat: (B, bins, C, 1 + D), float32.
        bounds: The priors.
        outer: The widest bounds, (1, ·), which the heat map's shapes refer to.
        k_max: How many.
    """
    bins, classes = heat.shape[1:3]
    centres = torch.arange(bins, device=heat.device) - 0.5 * bins
    place = centres[:, None] + heat[..., 1]  # (B, bins, C)
    low, high = bounds.low[:, None], bounds.high[:, None]
    inside = (place >= low[..., :1] - 0.5) & (place <= high[..., :1] + 0.5)
    p = heat[..., 0].sigmoid() * (inside & bounds.allowed[:, None])
    p, place = p.flatten(1), place.flatten(1)
    centre, half = 0.5 * (outer.low + outer.high), 0.5 * (outer.high - outer.low)
    rest = heat[..., 2:].flatten(1, 2) * half[:, None, 1:] + centre[:, None, 1:]
    index = torch.arange(p.shape[1], device=p.device)
    chosen, chances = [], []
    for _ in range(k_max):
        best, at = p.max(1, keepdim=True)
        chosen.append(at)
        chances.append(best)
        near = (place - place.gather(1, at)).abs() < SAME_BINS
        p = torch.where(near, (p - (1 - best)).maximum(1e-6 * p), p)
        p = torch.where(index == at, -1.0, p)
    at = torch.cat(chosen, 1)  # (B, k_max)
    others = rest.gather(1, at[..., None].expand(-1, -1, rest.shape[-1]))
    raw = torch.cat([place.gather(1, at)[..., None], others], -1)
    return Places(raw.maximum(low).minimum(high), at % classes, torch.cat(chances, 1))


def heat_terms(
    heat: Tensor, raw: Tensor, kind: Tensor, mask: Tensor, outer: Bounds, present: Tensor
) -> dict[str, Tensor]:
    """Cross-entropy of the heat map, summed over its entries, and squared error of shapes, per component.

    Args:
        heat: (B, bins, C, 1 + D).
        raw: Raw coordinates of the components that it should show, (B, K, D).
        kind: Their classes, (B, K).
        mask: Which of them exist, (B, K), bool.
        outer: The widest bounds, (1, ·).
        present: Which shape parameters each class has, (C, D), bool.
    """
    bins, classes = heat.shape[1:3]
    nearest = (raw[..., 0] + 0.5 * bins).round().clamp(0, bins - 1)
    entry = nearest.long() * classes + kind  # (B, K)
    target = torch.zeros(len(heat), bins * classes, device=heat.device)
    target = target.scatter_reduce(1, entry, mask.float(), "amax")
    logits = heat[..., 0].flatten(1)
    entropy = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    said = heat.flatten(1, 2).gather(1, entry[..., None].expand(-1, -1, heat.shape[-1]))
    centre, half = 0.5 * (outer.low + outer.high), 0.5 * (outer.high - outer.low)
    offset = raw[..., :1] + 0.5 * bins - nearest[..., None]
    truth = torch.cat([offset, ((raw - centre[:, None]) / half[:, None])[..., 1:]], -1)
    error = (said[..., 1:] - truth).square() * present[kind]
    weight = mask.float() / mask.sum().clamp_min(1)
    return {
        "heat": entropy.sum(1).mean(),
        "offset": (error.sum(-1) * weight).sum(),
    }
