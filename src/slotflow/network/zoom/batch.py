"""Components of many signals at once: draws and densities of all their slots."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.data.sampling import Grid
from slotflow.network.zoom.bound import (
    BoundFlow,
    FlowContext,
    from_coordinates,
    log_volume,
    to_coordinates,
)
from slotflow.network.zoom.slots import SlotEstimates
from slotflow.signal.prior_batch import PriorBatch
from slotflow.signal.waveforms import TONE

__all__ = ["SlotBatch"]

MAX_REDRAWS = 50
"""Rounds of redrawing; what is outside the prior after them is moved to its edge."""
MASS_DRAWS = 4096
"""Raw draws per slot from which the mass inside the prior is estimated."""


class SlotBatch:
    """Densities of the slots of B signals, restricted to the prior's bounds of A and f.

    Args:
        flow: The flow.
        slots: Centres, covariances and contexts of K slots.
        k: Number of components of each signal, (B,), int64, on the CPU.
        prior: The prior of each signal.
        grid: Sampling of the long stream.
        first: First bin of the network's view.
    """

    waveform = TONE

    def __init__(
        self,
        flow: BoundFlow,
        slots: SlotEstimates,
        k: Tensor,
        prior: PriorBatch,
        grid: Grid,
        first: int,
    ) -> None:
        self.flow, self.slots, self.k, self.prior = flow, slots, k, prior
        self.grid, self.first = grid, first

    @cached_property
    def context(self) -> FlowContext:
        """What the flow needs to know of the B·K slots; a caller who asks for the centres alone does not pay for it."""
        with torch.inference_mode():
            return self.flow.project(self.slots.y.flatten(0, 1))

    @property
    def mask(self) -> Tensor:
        """Which components exist, (B, k_max), bool."""
        return torch.nn.functional.pad(
            self.slots.mask, (0, self.prior.k_max - self.slots.mask.shape[1])
        )

    @torch.inference_mode()
    def sample(self, n: int, seed: int = 0) -> Tensor:
        """Draws.

        Returns:
            θ, (B, n, k_max, P), float64, phases in [0, 2π); zeros where there is no component.
        """
        theta = self.draw(n, seed).transpose(0, 1)  # (B, n, K, P)
        theta = torch.where(self.slots.mask[:, None, :, None], theta, 0.0)
        missing = self.prior.k_max - theta.shape[2]
        return torch.nn.functional.pad(theta, (0, 0, 0, max(missing, 0)))

    @torch.inference_mode()
    def draw(self, n: int, seed: int) -> Tensor:
        """Draws of all columns, those outside the mask included, (n, B, K, P), float64."""
        device, mask = self.slots.y.device, self.slots.mask.flatten()
        generator = torch.Generator(device=device).manual_seed(spread_seed(seed))
        theta = self._theta(self.flow.draw(self.context, n, generator))  # (n, B·K, P)
        low, high = self.bounds()
        for _ in range(MAX_REDRAWS):
            outside = ~((theta >= low) & (theta <= high)).all(-1)
            draw, slot = torch.nonzero(outside & mask, as_tuple=True)
            if draw.numel() == 0:
                break
            fresh = self.flow.draw(self.context.take(slot), 1, generator)[0]
            theta[draw, slot] = self._theta(fresh, slot)
        else:
            theta = torch.where(mask[:, None], theta.maximum(low).minimum(high), theta)
        return theta.reshape(n, *self.slots.mask.shape, -1)

    @torch.inference_mode()
    def centres(self) -> Tensor:
        """θ that the joint steps ended at, moved into the bounds, (B, K, P), float64."""
        low, high = self.bounds()
        theta = self._theta(low.new_zeros(len(low), self.waveform.coordinates))
        return theta.maximum(low).minimum(high).reshape(*self.slots.mask.shape, -1)

    @torch.inference_mode()
    def log_prob(self, theta: Tensor) -> Tensor:
        """Log density per unit of (A, rad, Hz) of component j of signal b under its slot i.

        Args:
            theta: (n, B, K, P), float64.

        Returns:
            (n, B, K, K), index (draw, signal, i, j); −inf outside the bounds.
        """
        return self._flow_log_prob(theta) - self.mass().log()[..., None]

    def pair_log_prob(self, theta: Tensor) -> Tensor:
        """Log density of component j of signal b under its slot i, up to a constant for each slot.

        The share of a slot's mass inside the bounds, which takes many draws, is such a constant: without it the
        cheapest assignment of slots to components is the same.

        Args:
            theta: (B, K', P), float64.

        Returns:
            (B, K, K').
        """
        return self._flow_log_prob(theta[None])[0]

    @torch.inference_mode()
    def _flow_log_prob(self, theta: Tensor) -> Tensor:
        """What the flow alone gives for `log_prob`, which divides by the mass inside the bounds."""
        xi, c = TONE.split(theta, self.grid.mid_time)
        frequency, c = xi[..., 0], c[..., 0]
        bins = frequency * self.grid.duration - self.first
        scale = self.prior.amplitude[:, 1]  # (B,)
        c = c / scale[:, None]
        # axes: component j, draw, signal, slot i
        z = to_coordinates(self.slots, *(x.movedim(-1, 0)[..., None] for x in (bins, c)))
        log_q = self.flow.log_prob(self.context, z.to(self.slots.y.dtype).flatten(-3, -2))
        log_q = log_q.double().reshape(*log_q.shape[:-1], *self.slots.mask.shape)
        log_q = log_q - log_volume(self.slots)
        log_q = log_q + math.log(self.grid.duration)
        amplitude = self.waveform.of(theta, "amplitude").movedim(-1, 0)[..., None]
        log_q = log_q + amplitude.clamp_min(1e-300).log() - 2 * scale.log()[:, None]
        low, high = (end[:, None] for end in self.prior.theta_bounds())
        inside = ((theta >= low) & (theta <= high)).all(-1)  # (n, B, K)
        log_q = torch.where(inside.movedim(-1, 0)[..., None], log_q, -math.inf)
        return log_q.movedim(0, -1)

    def mass(self) -> Tensor:
        """Share of each slot's raw draws inside the bounds, (B, K), at least one of `MASS_DRAWS`."""
        return self._mass

    @cached_property
    def _mass(self) -> Tensor:
        """The draws have a seed of their own and are the same at every call: they are made once."""
        with torch.inference_mode():
            generator = torch.Generator(device=self.slots.y.device).manual_seed(0)
            raw = self._theta(self.flow.draw(self.context, MASS_DRAWS, generator))
            low, high = self.bounds()
            inside = ((raw >= low) & (raw <= high)).all(-1)
            share = inside.double().mean(0).clamp_min(1 / MASS_DRAWS)
            return share.reshape(self.slots.mask.shape)

    def _theta(self, z: Tensor, rows: Tensor | None = None) -> Tensor:
        """Coordinates (..., S, Z) of all B·K slots, or of some rows of them, to θ, (..., S, P)."""
        scale = self.prior.amplitude[:, 1].repeat_interleave(self.slots.mask.shape[1])
        bins, c = from_coordinates(self.slots.rows(rows), z)
        frequency = (bins + self.first) / self.grid.duration
        c = c * (scale if rows is None else scale[rows])
        return TONE.join(frequency[..., None], c[..., None], self.grid.mid_time)

    def theta_of(self, normal: Tensor, rows: Tensor | None = None) -> Tensor:
        """The θ that standard normal numbers stand for, of all B·K slots or of some rows of them.

        Args:
            normal: The numbers, (n, S, Z).
            rows: Numbers of the slots, (S,); None: all of them.

        Returns:
            (n, S, P), float64.
        """
        context = self.context if rows is None else self.context.take(rows)
        return self._theta(self.flow.from_normal(context, normal), rows)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of θ of each slot, (B·K, P) each."""
        k = self.slots.mask.shape[1]
        low, high = self.prior.theta_bounds()
        return low.repeat_interleave(k, 0), high.repeat_interleave(k, 0)
