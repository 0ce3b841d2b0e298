r"""Draws to a few numbers per tone: median, standard deviation, and where the truth lies among the draws.

**Sorted** (`summarise`). Truth and draws are both brought into the order of their frequencies, draw by draw, before
tone i is compared with tone i. Matching each draw to the truth instead would flatter close pairs, whose labels the
posterior does not know.

**Slot by slot** (`summarise_slots`), the protocol of the paper (5.1.6). The slots of a signal are assigned to its
components once, by the densities of the slots, and each component is compared with all draws of its own slot. Slots
that know their component give the same numbers in both ways. They differ where slots overlap: sorting makes order
statistics of their draws, each of them narrower than what either slot says of itself. Two slots that both hold either
of two components at a distance d, with equal probability, have the standard deviation d/2 each, and √3 d/4 when sorted.

**Level of the truth.** With R of n draws below the truth, u = (R + v) / (n + 1), v uniform on [0, 1). If truth and
draws follow one law, R is uniform on 0..n and u is exactly uniform on [0, 1), however few the draws.

**Phases** live on a circle: draws and truth are unrolled around the draws' circular mean, and the median, the standard
deviation and the level are those of the unrolled angles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.signal.waveforms import Waveform
from slotflow.studies.measures.parameters import WAVEFORM, wrap

__all__ = ["ToneSummary", "midpoint", "sort_by_place", "summarise", "summarise_slots"]


@dataclass(frozen=True, eq=False)
class ToneSummary:
    """What is kept of the draws of B signals; zeros where there is no tone."""

    median: Tensor
    """Median of the draws, (B, K, P), tones sorted by frequency; φ in [0, 2π)."""
    sd: Tensor
    """Standard deviation of the draws, (B, K, P)."""
    level: Tensor
    """u of the truth, (B, K, P)."""

    def cpu(self) -> ToneSummary:
        """The same in the CPU's memory."""
        return ToneSummary(self.median.cpu(), self.sd.cpu(), self.level.cpu())

    @staticmethod
    def cat(parts: Sequence[ToneSummary]) -> ToneSummary:
        """Several batches as one."""
        return ToneSummary(
            torch.cat([part.median for part in parts]),
            torch.cat([part.sd for part in parts]),
            torch.cat([part.level for part in parts]),
        )


def sort_by_place(draws: Tensor, mask: Tensor, waveform: Waveform = WAVEFORM) -> Tensor:
    """Each draw's components in the order of their places, the frequencies of tones.

    Args:
        draws: Components, shape (B, n, K, P).
        mask: Which slots exist, shape (B, K), bool.
        waveform: Names the columns.

    Returns:
        Same shape; slots that do not exist go last.
    """
    # A NaN would be sorted behind the slots that do not exist, and be taken for one of them.
    place = waveform.place_of(draws).nan_to_num(nan=-math.inf)
    key = torch.where(mask[:, None, :], place, math.inf)
    order = key.argsort(dim=-1)  # (B, n, K)
    return draws.gather(2, order[..., None].expand_as(draws))


def summarise(
    draws: Tensor, truth: Tensor, mask: Tensor, seed: int = 0, waveform: Waveform = WAVEFORM
) -> ToneSummary:
    """Compares draws at the true K with the truth, both in the order of their frequencies.

    Args:
        draws: Components, shape (B, n, K, P), slots in any order.
        truth: True components, shape (B, K, P), sorted by place, existing ones first.
        mask: Which slots of the draws exist, shape (B, K), bool; as many per signal as there are true tones.
        seed: Seed of v.
        waveform: Names the columns.

    Returns:
        The summary, shape (B, K, P) each, on the draws' device.
    """
    exists = mask.sort(-1, descending=True).values  # as after the sort of the draws
    return _compare(sort_by_place(draws, mask, waveform), truth, exists, seed, waveform)


def summarise_slots(
    draws: Tensor,
    truth: Tensor,
    component: Tensor,
    mask: Tensor,
    seed: int = 0,
    waveform: Waveform = WAVEFORM,
) -> ToneSummary:
    """Compares each true component with all draws of the one slot that takes it.

    Args:
        draws: Components, shape (B, n, K, P), by slot.
        truth: True components, shape (B, K, P), sorted by place, existing ones first.
        component: Which component each slot takes, a permutation, shape (B, K), int64.
        mask: Which components exist, shape (B, K), bool.
        seed: Seed of v.
        waveform: Names the columns.

    Returns:
        The summary, shape (B, K, P) each, in the order of the truth, on the draws' device.
    """
    slot = component.argsort(1).to(draws.device)  # of each component
    own = draws.gather(2, slot[:, None, :, None].expand_as(draws))
    return _compare(own, truth, mask, seed, waveform)


def _compare(
    draws: Tensor, truth: Tensor, exists: Tensor, seed: int, waveform: Waveform
) -> ToneSummary:
    """The summary of draws, (B, n, K, P), whose column j is about component j of the truth, (B, K, P)."""
    size, n, slots, parameters = draws.shape
    generator = torch.Generator(device=draws.device).manual_seed(spread_seed(seed))
    shape = (size, slots, parameters)
    v = torch.rand(shape, generator=generator, device=draws.device, dtype=torch.float64)
    circular = [i for i, p in enumerate(waveform.parameters) if p.circular]
    columns = []
    for parameter in range(parameters):
        x, true = draws[..., parameter], truth[..., parameter]  # (B, n, K), (B, K)
        centre = torch.zeros_like(true)
        if parameter in circular:
            centre = torch.atan2(x.sin().mean(1), x.cos().mean(1))
            x, true = wrap(x - centre[:, None]), wrap(true - centre)
        below = (x < true[:, None]).sum(1)
        level = (below + v[..., parameter]) / (n + 1)
        columns.append((centre + midpoint(x), x.std(1), level))
    median, sd, level = (torch.stack(column, -1) for column in zip(*columns, strict=True))
    for i in circular:
        median[..., i] = torch.remainder(median[..., i], 2 * math.pi)
    return ToneSummary(*(torch.where(exists[..., None], v, 0.0) for v in (median, sd, level)))


def midpoint(x: Tensor) -> Tensor:
    """Median over dimension 1; the mean of the two middle values where their number is even."""
    lower, upper = x.median(1).values, -(-x).median(1).values
    return (lower + upper) / 2
