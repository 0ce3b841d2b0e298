"""Components of many signals at once, and one signal's as the densities behind a Posterior."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.data.sampling import Grid
from slotflow.network.zoom.bound import (
    BoundFlow,
    Context,
    from_coordinates,
    log_volume,
    to_coordinates,
)
from slotflow.network.zoom.slots import Slots
from slotflow.signal.kernels import mid_time
from slotflow.signal.likelihood import from_complex, to_complex
from slotflow.signal.prior_batch import PriorBatch

if TYPE_CHECKING:
    from slotflow.network.zoom.analysis import Analysis

__all__ = ["SlotBatch", "SlotDensities"]

REDRAWS = 50
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
        first: The window's first bin.
    """

    def __init__(
        self, flow: BoundFlow, slots: Slots, k: Tensor, prior: PriorBatch, grid: Grid, first: int
    ) -> None:
        self.flow, self.slots, self.k, self.prior = flow, slots, k, prior
        self.grid, self.first = grid, first
        self.constrained = 0.0

    @cached_property
    def context(self) -> Context:
        """What the flow needs to know of the B·K slots; who asks for the centres alone does not pay for it."""
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
            (A, φ in [0, 2π), f in Hz), (B, n, k_max, 3), float64; zeros where there is no component.
        """
        theta = self.draw(n, seed).transpose(0, 1)  # (B, n, K, 3)
        theta = torch.where(self.slots.mask[:, None, :, None], theta, 0.0)
        missing = self.prior.k_max - theta.shape[2]
        return torch.nn.functional.pad(theta, (0, 0, 0, max(missing, 0)))

    @torch.inference_mode()
    def draw(self, n: int, seed: int) -> Tensor:
        """Draws of all columns, those outside the mask included, (n, B, K, 3), float64."""
        device, mask = self.slots.y.device, self.slots.mask.flatten()
        generator = torch.Generator(device=device).manual_seed(spread_seed(seed))
        theta = self._theta(self.flow.draw(self.context, n, generator), None)  # (n, B·K, 3)
        for _ in range(REDRAWS):
            draw, slot = torch.nonzero(~self._inside(theta, None) & mask, as_tuple=True)
            if draw.numel() == 0:
                break
            fresh = self.flow.draw(self.context.take(slot), 1, generator)[0]
            theta[draw, slot] = self._theta(fresh, slot)
        else:
            low, high = self._bounds(None)
            theta = torch.where(mask[:, None], theta.maximum(low).minimum(high), theta)
        return theta.reshape(n, *self.slots.mask.shape, 3)

    @torch.inference_mode()
    def centres(self) -> Tensor:
        """(A, φ, f) that the joint steps ended at, moved into the bounds, (B, K, 3), float64."""
        low, high = self._bounds(None)
        theta = self._theta(torch.zeros_like(low), None)
        return theta.maximum(low).minimum(high).reshape(*self.slots.mask.shape, 3)

    @torch.inference_mode()
    def log_prob(self, theta: Tensor) -> Tensor:
        """Log density per unit of (A, rad, Hz) of component j of signal b under its slot i.

        Args:
            theta: (n, B, K, 3), float64.

        Returns:
            (n, B, K, K), index (draw, signal, i, j); −inf outside the bounds.
        """
        frequency, c = to_complex(theta, mid_time(self.grid))
        bins = frequency * self.grid.duration - self.first
        scale = self.prior.amplitude[:, 1]  # (B,)
        c = c / scale[:, None]
        # axes: component j, draw, signal, slot i
        z = to_coordinates(self.slots, *(x.movedim(-1, 0)[..., None] for x in (bins, c)))
        log_q = self.flow.log_prob(self.context, z.to(self.slots.y.dtype).flatten(-3, -2))
        log_q = log_q.double().reshape(*log_q.shape[:-1], *self.slots.mask.shape)
        log_q = log_q - log_volume(self.slots)
        log_q = log_q - self.mass().log() + math.log(self.grid.duration)
        amplitude = theta[..., 0].movedim(-1, 0)[..., None].clamp_min(1e-300)
        log_q = log_q + amplitude.log() - 2 * scale.log()[:, None]
        low, high = (self.prior.amplitude[:, i, None] for i in (0, 1))
        f_low, f_high = (self.prior.frequency[:, i, None] for i in (0, 1))
        inside = (theta[..., 0] >= low) & (theta[..., 0] <= high)
        inside &= (theta[..., 2] >= f_low) & (theta[..., 2] <= f_high)  # (n, B, K)
        log_q = torch.where(inside.movedim(-1, 0)[..., None], log_q, -math.inf)
        return log_q.movedim(0, -1)

    @torch.inference_mode()
    def mass(self) -> Tensor:
        """Share of each slot's raw draws inside the bounds, (B, K), at least one of `MASS_DRAWS`."""
        generator = torch.Generator(device=self.slots.y.device).manual_seed(0)
        raw = self._theta(self.flow.draw(self.context, MASS_DRAWS, generator), None)
        share = self._inside(raw, None).double().mean(0).clamp_min(1 / MASS_DRAWS)
        return share.reshape(self.slots.mask.shape)

    def _theta(self, z: Tensor, rows: Tensor | None) -> Tensor:
        """Coordinates (..., S, 3) of all B·K slots, or of some rows of them, to (A, φ, f), (..., S, 3)."""
        slots = self.slots
        flat = slots._replace(
            frequency=slots.frequency.flatten(),
            c=slots.c.flatten(),
            factor=slots.factor.flatten(0, 1),
        )
        scale = self.prior.amplitude[:, 1].repeat_interleave(slots.mask.shape[1])
        if rows is not None:
            flat = flat._replace(
                frequency=flat.frequency[rows], c=flat.c[rows], factor=flat.factor[rows]
            )
            scale = scale[rows]
        bins, c = from_coordinates(flat, z)
        frequency = (bins + self.first) / self.grid.duration
        return from_complex(frequency, c * scale, mid_time(self.grid))

    def _bounds(self, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of (A, φ, f) of each slot, (S, 3)."""
        k = self.slots.mask.shape[1]
        ends = []
        for i, any_phase in ((0, -math.inf), (1, math.inf)):
            a, f = self.prior.amplitude[:, i], self.prior.frequency[:, i]
            end = torch.stack([a, torch.full_like(a, any_phase), f], -1).repeat_interleave(k, 0)
            ends.append(end if rows is None else end[rows])
        return ends[0], ends[1]

    def _inside(self, theta: Tensor, rows: Tensor | None) -> Tensor:
        low, high = self._bounds(rows)
        return ((theta >= low) & (theta <= high)).all(-1)


class SlotDensities:
    """One signal's slot densities for each K, computed when asked for."""

    def __init__(self, analysis: Analysis, k_max: int) -> None:
        self.analysis, self.k_max = analysis, k_max
        self._found: dict[int, SlotBatch] = {}

    def at(self, k: int) -> SlotBatch:
        """The slots of k components."""
        current = self.analysis.current()
        if current is not self.analysis:  # the model was moved or cast since
            self.analysis, self._found = current, {}
        if k not in self._found:
            self._found[k] = self.analysis.slots(torch.tensor([k]))
        return self._found[k]

    def sample(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Draws, (n, k, 3)."""
        if n == 0 or k == 0:
            return np.zeros((n, k, 3))
        draws: NDArray[np.float64] = self.at(k).draw(n, seed)[:, 0].cpu().numpy()
        return draws

    def log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of component j under slot i, (n, k, 3) to (n, k, k)."""
        n, k = theta.shape[:2]
        if n == 0 or k == 0:
            return np.zeros((n, k, k))
        batch = self.at(k)
        points = torch.as_tensor(np.ascontiguousarray(theta)).to(batch.slots.y.device)
        result: NDArray[np.float64] = batch.log_prob(points[:, None])[:, 0].cpu().numpy()
        return result

    def centres(self, k: int) -> NDArray[np.float64]:
        """The slots' own estimates, (k, 3)."""
        if k == 0:
            return np.zeros((0, 3))
        centres: NDArray[np.float64] = self.at(k).centres()[0].cpu().numpy()
        return centres

    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the bounds."""
        return 0.0 if k == 0 else float(1 - self.at(k).mass().mean())
