r"""The flow's target: a tone (A, φ, f) to weighted, centred coordinates and back (paper, sections 3.4 and 3.5).

.. math:: y = [A,\; w_\phi \cos\phi,\; w_\phi \sin\phi,\; w_f (f - f_0)], \qquad f_0 = \tfrac12 (f_{lo} + f_{hi}) .

The weights scale the flow's target, so they act on the matching cost and on the loss alike, and `decode` undoes them:
φ = atan2(y_3, y_2) does not see w_φ, and f = f_0 + y_4 / w_f.

**Density.** Targets lie on the circle y_2² + y_3² = w_φ², a 3-D surface in R⁴, but the flow is a density on R⁴: drawing
from it and decoding means to ignore the radius r. The density of what is drawn is therefore the radial integral

.. math:: q(A, \phi, f) = w_f \int_0^\infty q_4(A, r\cos\phi, r\sin\phi, w_f (f - f_0)) \, r \, dr .

A trained flow is thin around the circle, so the integral is done by Gauss–Legendre panels whose widths grow away from
the radius that the flow's own draws show.

**Jitter.** Data on a surface have no density in R⁴: the likelihood grows without bound as the flow grows thinner
around the circle, and that, not the parameters, is what training then works on. With `jitter` = s > 0 a training target
gets the radius w_φ e^{s ε}, ε ~ N(0, 1), independent of everything else. The expected loss becomes the negative
log-likelihood of (A, φ, f), which is bounded, plus a constant; what is decoded does not change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.network.config import FlowConfig
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Tone

__all__ = ["CircleTarget"]

PANEL_EDGES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 512.0)
"""Panel edges on either side of the central radius, in units of its spread."""
PANEL_NODES = 6
"""Gauss–Legendre nodes per panel."""


@dataclass(frozen=True)
class CircleTarget:
    """The paper's four coordinates of a component."""

    phase_weight: float
    """w_φ."""
    frequency_weight: float
    """w_f."""
    centre: float
    """f_0 in Hz."""
    jitter: float = 0.0
    """s, the spread of ln(radius) in training."""

    waveform: ClassVar[Tone] = TONE
    """What a component is."""
    dim: ClassVar[int] = TONE.size + 1
    """Number of coordinates: one for each parameter, and a second one for the phase."""

    @classmethod
    def from_config(cls, config: FlowConfig, prior: Prior) -> CircleTarget:
        """Takes the weights from the config and the centre from the prior's band."""
        centre = sum(prior.frequency) / 2
        return cls(config.phase_weight, config.frequency_weight, centre, config.radius_jitter)

    def encode(self, theta: Tensor) -> Tensor:
        """θ, (..., P), to coordinates, (..., dim), same type."""
        phase = self.waveform.of(theta, "phase")
        return torch.stack(
            [
                self.waveform.of(theta, "amplitude"),
                self.phase_weight * phase.cos(),
                self.phase_weight * phase.sin(),
                self.frequency_weight * (self.waveform.of(theta, "frequency") - self.centre),
            ],
            dim=-1,
        )

    def encode_for_training(self, theta: Tensor, seed: int) -> Tensor:
        """Coordinates of θ, (n, P), with the radius jittered, (n, dim); the same seed gives the same radii."""
        if self.jitter == 0:
            return self.encode(theta)
        generator = torch.Generator(device=theta.device).manual_seed(
            stream_seed(seed, RandomStream.RADII)
        )
        noise = torch.randn(theta.shape[0], generator=generator, device=theta.device)
        return self.at_radius(theta, self.phase_weight * torch.exp(self.jitter * noise))

    def decode(self, y: Tensor) -> Tensor:
        """Coordinates, (..., dim), to θ with phases in [0, 2π), (..., P), float64."""
        amplitude, c, s, f = y.double().unbind(-1)
        phase = torch.remainder(torch.atan2(s, c), 2 * math.pi)
        phase = torch.where(phase >= 2 * math.pi, 0.0, phase)
        frequency = self.centre + f / self.frequency_weight
        column = {"amplitude": amplitude, "phase": phase, "frequency": frequency}
        return torch.stack([column[name] for name in self.waveform.names], dim=-1)

    def radial_rule(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes and weights of ∫ … r dr for each slot.

        Args:
            draws: Raw coordinates drawn from each slot's flow, (n, S, dim).

        Returns:
            Radii and weights (with the factor r), both (R, S), float64.
        """
        _, x, y, _ = draws.double().unbind(-1)
        radius = torch.stack([x, y], -1).norm(dim=-1)  # (n, S)
        low, mid, high = torch.quantile(
            radius,
            torch.tensor([0.16, 0.5, 0.84], dtype=torch.float64, device=radius.device),
            dim=0,
        )
        spread = (high - low).clamp_min(1e-6 * self.phase_weight) / 2  # (S,)
        offsets = torch.tensor(
            [-e for e in reversed(PANEL_EDGES[1:])] + list(PANEL_EDGES), device=radius.device
        ).double()
        edges = (mid + offsets[:, None] * spread).clamp_min(0.0)  # (E, S)
        nodes, weights = (
            torch.as_tensor(v, device=radius.device)
            for v in np.polynomial.legendre.leggauss(PANEL_NODES)
        )
        half = (edges[1:] - edges[:-1]) / 2  # (E − 1, S)
        centre = (edges[1:] + edges[:-1]) / 2
        r = (centre[:, None] + half[:, None] * nodes[:, None]).flatten(0, 1)  # (R, S)
        w = (half[:, None] * weights[:, None]).flatten(0, 1)
        return r, w * r

    def at_radius(self, theta: Tensor, radius: Tensor) -> Tensor:
        """Coordinates of θ, (..., P), with the circle's radius replaced, (..., dim)."""
        amplitude, x, y, frequency = self.encode(theta).unbind(-1)
        scale = radius / self.phase_weight
        x, y = x * scale, y * scale
        return torch.stack([amplitude.expand_as(x), x, y, frequency.expand_as(x)], dim=-1)
