r"""Slots that look closer: rounds of refinement on windows of the spectrum, then joint steps on all streams.

The first rounds (`rounds.py`) are the network's: they move the slots from the places where the heat map saw tones to
within a fraction of a bin. Then two joint Gauss–Newton steps over all slots and streams (`signal/joint.py`) settle the
estimate and give its covariance, which is the joint Cramér–Rao bound where tones are resolved. A last round looks once
more and leaves y_k as the slot's context: the flow has to learn only what is not Gaussian.

Windows and networks are float32 throughout, positions and joint steps float64: bfloat16 and TF32 round at the size of
the bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.config import ZoomConfig
from slotflow.network.zoom.numbers import frame_factor, joint_numbers, own_numbers, short_numbers
from slotflow.network.zoom.proposals import starts
from slotflow.network.zoom.rounds import Move, Round, moved, slot_inputs
from slotflow.network.zoom.spectrum import Spectrum
from slotflow.signal.joint import JointStep, joint_step, start_amplitudes
from slotflow.signal.likelihood import Statistics
from slotflow.signal.waveforms import TONE

__all__ = ["SlotEstimates", "SlotRefiner"]

EDGE_BINS = 0.5
"""How far a slot's centre may lie outside the band, in bins."""
NOISE_EXCESS = 1.1
"""The residual's noise level counts up to this multiple of the level outside the band: the rest is no noise."""


class SlotEstimates(NamedTuple):
    """K slots of B signals after the last round."""

    mask: Tensor
    """Which slots exist, (B, K), bool."""
    frequency: Tensor
    """Centre of the affine layer, in bins, (B, K), float64."""
    c: Tensor
    """Its complex amplitude in units of the largest, (B, K), complex128."""
    factor: Tensor
    """Lower Cholesky factor of the covariance of (f in bins, c turned by −arg c), (B, K, Z, Z), float64."""
    y: Tensor
    """Contexts, (B, K, d), float32."""
    misfit: Tensor
    """asinh of (RSS/σ² − n)/√(2n)/3, (B,)."""
    sigma: Tensor
    """Noise level of the residual, (B,), float64."""
    moves: list[Move]
    """The network's rounds."""

    def to(self, device: torch.device, dtype: torch.dtype) -> SlotEstimates:
        """On another device, with contexts of another type, without their history."""
        kept = (self.mask, self.frequency, self.c, self.factor)
        mask, frequency, c, factor = (x.to(device) for x in kept)
        y, misfit = self.y.to(device, dtype), self.misfit.to(device, dtype)
        return SlotEstimates(mask, frequency, c, factor, y, misfit, self.sigma.to(device), [])

    def take(self, signals: slice | Tensor, k: int) -> SlotEstimates:
        """The first k slots of some signals, without their history."""
        return SlotEstimates(
            mask=self.mask[signals, :k],
            frequency=self.frequency[signals, :k],
            c=self.c[signals, :k],
            factor=self.factor[signals, :k],
            y=self.y[signals, :k],
            misfit=self.misfit[signals],
            sigma=self.sigma[signals],
            moves=[],
        )

    def rows(self, index: Tensor | None = None) -> SlotEstimates:
        """Centres and factors of the B·K slots in a row, or of those of an index, (S,); the rest as it is."""
        flat = (self.frequency.flatten(), self.c.flatten(), self.factor.flatten(0, 1))
        frequency, c, factor = flat if index is None else (x[index] for x in flat)
        return self._replace(frequency=frequency, c=c, factor=factor)


class SlotRefiner(nn.Module):
    """Starting places to slots."""

    def __init__(self, config: ZoomConfig, k_max: int) -> None:
        super().__init__()
        self.config = config
        self.rounds = nn.ModuleList(
            Round(config, k_max, joint=False, outputs=Round.MOVE_OUTPUTS)
            for _ in range(config.rounds)
        )
        self.last = Round(config, k_max, joint=True, outputs=config.slot_width)
        self.norm = nn.LayerNorm(config.slot_width)

    def at_places(
        self, view: Spectrum, statistics: Statistics, tokens: Tensor, places: Tensor, k: Tensor
    ) -> SlotEstimates:
        """Slots that start at the most probable places.

        Args:
            view: The spectrum of B signals.
            statistics: Of the same signals.
            tokens: Of the encoder, (B, tokens, width).
            places: In bins, most probable first, (B, k_max), float64.
            k: How many slots each signal gets, (B,), int64, on the CPU; there are as many columns as the largest.
        """
        columns = max(1, int(k.max()))
        mask = torch.arange(columns) < k[:, None]
        mask = mask.to(places.device)
        start = starts(places[:, :columns], mask)
        slots: SlotEstimates = self(view, statistics, tokens, start, mask)
        return slots

    def forward(
        self, view: Spectrum, statistics: Statistics, tokens: Tensor, start: Tensor, mask: Tensor
    ) -> SlotEstimates:
        """Refines slots.

        Args:
            view: The spectrum of B signals.
            statistics: Of the same signals.
            tokens: Of the encoder, (B, tokens, width).
            start: Frequencies in bins, (B, K), float64.
            mask: Which slots exist, (B, K), bool.
        """
        n, duration = statistics.grids[0].n, statistics.grids[0].duration
        largest, sigma, dtype = view.largest, view.sigma, view.z.dtype

        def shape(f: Tensor) -> Tensor:  # frequencies in Hz, (B, K, 1)
            return torch.where(mask, (f + view.first) / duration, 0.0)[..., None]

        # --- the network's rounds ------------------------------------------------------------------
        f = start
        c = start_amplitudes(statistics, shape(f), mask, sigma, largest)[..., 0] / largest[:, None]
        y: Tensor | None = None
        moves: list[Move] = []
        for i, module in enumerate(self.rounds):
            rest = None
            if i > 0 and len(statistics.grids) > 1:
                rest = _short_residual(statistics, shape(f), (c * largest[:, None])[..., None])
            numbers = [short_numbers(view, statistics, f, c, rest), own_numbers(view, f, c, mask)]
            inputs = slot_inputs(f, c, mask, torch.cat(numbers, -1))
            y, out = module(view, tokens, n, inputs, y)
            moves.append(moved(view, f, inputs, out, reach=1.0 / 2**i))
            f = moves[-1].frequency.detach().maximum(view.band[:, :1]).minimum(view.band[:, 1:])
            f = torch.where(mask, f, 0.0)
            c = torch.view_as_complex(moves[-1].c.detach().double()) * mask

        # --- joint steps ---------------------------------------------------------------------------
        exists = mask[..., None]
        step = self._joint(statistics, shape(f), (c * largest[:, None])[..., None], mask, view)
        before = step.xi * exists
        step = self._joint(statistics, before, step.c * exists, mask, view)
        f = torch.where(mask, step.xi[..., 0] * duration - view.first, 0.0)
        low, high = view.band[:, :1] - EDGE_BINS, view.band[:, 1:] + EDGE_BINS
        f = torch.where(mask, f.maximum(low).minimum(high), 0.0)
        c = torch.where(mask, step.c[..., 0] / largest[:, None], 0.0)
        degrees = statistics.n - TONE.coordinates * mask.sum(-1)
        left = (step.rss / degrees).clamp_min(0.0).sqrt()
        sigma = left.minimum(NOISE_EXCESS * sigma).maximum(1e-3 * sigma)
        misfit = (step.rss / view.sigma**2 - statistics.n) / math.sqrt(2 * statistics.n)
        misfit = (misfit / 3).asinh().to(dtype)

        # --- the last look -------------------------------------------------------------------------
        factor = frame_factor(step, c, sigma, largest, duration, mask)
        rest = None
        if len(step.rest) > 1:
            rest = statistics.in_own_frame(1, before, step.rest[1])[..., 0]
        numbers = [
            short_numbers(view, statistics, f, c, rest),
            own_numbers(view, f, c, mask),
            joint_numbers(step, factor, c, sigma, largest, duration, misfit),
        ]
        h, out = self.last(view, tokens, n, slot_inputs(f, c, mask, torch.cat(numbers, -1)), y)
        return SlotEstimates(mask, f, c, factor, self.norm(h + out), misfit, left, moves)

    def _joint(
        self, statistics: Statistics, xi: Tensor, c: Tensor, mask: Tensor, view: Spectrum
    ) -> JointStep:
        """A joint step, or its covariance alone where the config switches the step off."""
        step = joint_step(statistics, xi, c, mask, view.sigma, view.largest)
        return step if self.config.joint else step._replace(xi=xi, c=c)


def _short_residual(statistics: Statistics, xi: Tensor, c: Tensor) -> Tensor:
    """What slots leave of the short stream, filtered by each of them about its mid-time, (B, K), complex."""
    rest = statistics.channel(1).products_of(xi, c).rest(c)[0]
    return statistics.in_own_frame(1, xi, rest)[..., 0]
