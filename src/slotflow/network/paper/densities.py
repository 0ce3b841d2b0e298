"""Slot densities of the paper's network: one signal's components from the shared flow and the signal's context.

**Constraints.** A flow on R⁴ puts a little mass on A <= 0 and on frequencies outside the band. Such draws are drawn
again, so q_k is the flow's density restricted to the allowed box and divided by its mass there;
`constrained_fraction` says what share of the raw draws lies outside.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.network.flow import ConditionalFlow
from slotflow.network.paper.onehot import slot_contexts
from slotflow.network.paper.target import WaveformTarget
from slotflow.signal.prior import Prior

__all__ = ["PaperSlotDensities"]

MASS_DRAWS = 4096
"""Raw draws per slot from which the mass inside the constraints and the radial rule are estimated."""
MAX_REDRAWS = 1000
"""Rounds of redrawing before the constraints are called unreachable."""
MAX_ROWS = 65_536
"""Largest number of flow evaluations in one call, which bounds the memory."""


class PaperSlotDensities:
    """Slot densities from the shared flow and a signal's global context.

    Args:
        flow: The conditional flow.
        target: Its coordinates.
        context: Global context g of the signal, (H,).
        prior: Gives K_max and the band.
    """

    def __init__(
        self, flow: ConditionalFlow, target: WaveformTarget, context: Tensor, prior: Prior
    ) -> None:
        self.flow, self.target, self.context, self.prior = flow, target, context, prior
        self.k_max = prior.k_max

    @torch.inference_mode()
    def sample(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Draws of θ, (n, k, P)."""
        if n == 0 or k == 0:
            return np.zeros((n, k, self.target.waveform.size))
        projected = self._project(k)
        generator = torch.Generator(device=projected.device).manual_seed(seed)
        theta = torch.cat(
            [
                self.target.decode(self.flow.draw(projected, rows, generator))
                for rows in _chunks(n, max(1, MAX_ROWS // k))
            ]
        )
        for _ in range(MAX_REDRAWS):
            draw, slot = torch.nonzero(~self._inside(theta), as_tuple=True)
            if draw.numel() == 0:
                array: NDArray[np.float64] = theta.cpu().numpy()
                return array
            fresh = self.flow.draw(projected[slot], 1, generator)[0]
            theta[draw, slot] = self.target.decode(fresh)
        raise self._unreachable(int(slot[0]))

    @torch.inference_mode()
    def log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of component j under slot i, (n, k, P) to (n, k, k)."""
        n, k = theta.shape[:2]
        if n == 0 or k == 0:
            return np.zeros((n, k, k))
        projected = self._project(k)
        raw = self._raw_draws(projected)  # (m, k, dim)
        inside = self._inside(self.target.decode(raw)).double().mean(dim=0)  # (k,)
        if not bool(inside.all()):
            raise self._unreachable(int(inside.argmin()))
        radii, weights = self.target.radial_rule(raw)  # (R, k)
        flow = self.flow.distribution(projected)
        points = torch.tensor(np.ascontiguousarray(theta), device=projected.device)
        rows = []
        for size in _chunks(n, max(1, MAX_ROWS // (radii.shape[0] * k * k))):
            block, points = points[:size], points[size:]
            # axes: radius, draw, component j, slot i
            y = self.target.at_radius(block[None, :, :, None], radii[:, None, None])
            log_q4 = flow.log_prob(y.to(projected.dtype)).double()
            log_q = torch.logsumexp(log_q4 + weights.log()[:, None, None], dim=0)
            log_q = log_q + self.target.log_slopes(block)[..., None] - inside.log()
            rows.append(torch.where(self._inside(block)[..., None], log_q, -math.inf))
        result: NDArray[np.float64] = torch.cat(rows).transpose(1, 2).cpu().numpy()
        return result

    @torch.inference_mode()
    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the constraints."""
        if k == 0:
            return 0.0
        raw = self._raw_draws(self._project(k))
        return float((~self._inside(self.target.decode(raw))).double().mean())

    def _project(self, k: int) -> Tensor:
        """Context terms of the first k slots, (k, L, H)."""
        weights = next(self.flow.parameters())  # the model may have been moved since
        g = self.context[None].to(weights.device, weights.dtype)
        slot = torch.arange(k, device=g.device)
        return self.flow.project(slot_contexts(g, torch.zeros_like(slot), slot, self.k_max))

    def _raw_draws(self, projected: Tensor) -> Tensor:
        """A fixed set of unconstrained draws, (MASS_DRAWS, k, dim)."""
        generator = torch.Generator(device=projected.device).manual_seed(0)
        return self.flow.draw(projected, MASS_DRAWS, generator)

    def _unreachable(self, slot: int) -> ValueError:
        return ValueError(
            f"slot {slot} of the flow has next to no mass at A > 0 and f in "
            f"{self.prior.frequency} Hz; the network is untrained or the data are far from its training."
        )

    def _inside(self, theta: Tensor) -> Tensor:
        """Whether A > 0 and f is in the band, (..., P) to (...)."""
        low, high = self.prior.frequency
        amplitude, f = (self.target.waveform.of(theta, n) for n in ("amplitude", "frequency"))
        return (amplitude > 0) & (f >= low) & (f <= high)


def _chunks(n: int, size: int) -> list[int]:
    """Splits n into pieces of at most `size`."""
    return [size] * (n // size) + ([n % size] if n % size else [])
