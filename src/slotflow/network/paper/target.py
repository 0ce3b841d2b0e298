r"""The flow's target: a tone (A, φ, f) to weighted, centred coordinates and back (paper, sections 3.4 and 3.5).

.. math:: y = [A,\; w_\phi \cos\phi,\; w_\phi \sin\phi,\; w_f (f - f_0)], \qquad f_0 = \tfrac12 (f_{lo} + f_{hi}) .

Other waveforms with one phase have an axis for each further parameter, linear or logarithmic (`Axis`), and dim
coordinates in all (`WaveformTarget`).

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
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slotflow.core.fields import check
from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.network.config import FlowConfig
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Axis", "CircleTarget", "WaveformTarget"]

PANEL_EDGES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 512.0)
"""Panel edges on either side of the central radius, in units of its spread."""
PANEL_NODES = 6
"""Gauss–Legendre nodes per panel."""


@dataclass(frozen=True)
class Axis:
    """The map from one parameter v to one coordinate, y = weight · (v − centre), or the same of ln v."""

    weight: float = 1.0
    """Factor on the centred value."""
    centre: float = 0.0
    """Value, or its logarithm, that becomes 0."""
    log: bool = False
    """Whether the logarithm is taken first."""

    def encode(self, value: Tensor) -> Tensor:
        """Values to coordinates, same shape."""
        return self.weight * ((value.log() if self.log else value) - self.centre)

    def decode(self, y: Tensor) -> Tensor:
        """Coordinates to values, same shape."""
        value = self.centre + y / self.weight
        return value.exp() if self.log else value

    def log_slope(self, value: Tensor) -> Tensor:
        """Logarithm of |dy/dv| at values, same shape."""
        slope = torch.full_like(value, math.log(self.weight))
        return slope - value.log() if self.log else slope


class WaveformTarget:
    """Coordinates of a component of any waveform with one phase: an axis for each parameter, a circle for the phase.

    Args:
        waveform: What a component is.
        axes: The map of each parameter but the phase, by its name.
        phase_weight: w_φ, the radius of the circle.
        jitter: s, the spread of ln(radius) in training.
    """

    def __init__(
        self,
        waveform: Waveform,
        axes: Mapping[str, Axis],
        phase_weight: float,
        jitter: float = 0.0,
    ) -> None:
        phases = [p.name for p in waveform.parameters if p.circular]
        others = {p.name for p in waveform.parameters if not p.circular}
        check(len(phases) == 1, f"a waveform with one phase, not a {waveform.name}", phases)
        check(set(axes) == others, f"axes for {sorted(others)}", sorted(axes))
        self.waveform, self.axes = waveform, dict(axes)
        self.phase_weight, self.jitter = phase_weight, jitter
        self.circle = waveform.column(phases[0])
        """Index of the first of the circle's two coordinates."""

    @property
    def dim(self) -> int:
        """Number of coordinates: one for each parameter, and a second one for the phase."""
        return self.waveform.size + 1

    def encode(self, theta: Tensor) -> Tensor:
        """θ, (..., P), to coordinates, (..., dim), same type."""
        columns = []
        for parameter in self.waveform.parameters:
            value = self.waveform.of(theta, parameter.name)
            if parameter.circular:
                columns += [self.phase_weight * value.cos(), self.phase_weight * value.sin()]
            else:
                columns.append(self.axes[parameter.name].encode(value))
        return torch.stack(columns, dim=-1)

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
        coordinates = iter(y.double().unbind(-1))
        columns = []
        for parameter in self.waveform.parameters:
            if parameter.circular:
                cosine, sine = next(coordinates), next(coordinates)
                phase = torch.remainder(torch.atan2(sine, cosine), 2 * math.pi)
                columns.append(torch.where(phase >= 2 * math.pi, 0.0, phase))
            else:
                columns.append(self.axes[parameter.name].decode(next(coordinates)))
        return torch.stack(columns, dim=-1)

    def log_slopes(self, theta: Tensor) -> Tensor:
        """Log volume of coordinates, the circle aside, per volume of parameters, (..., P) to (...), float64."""
        slopes = [
            axis.log_slope(self.waveform.of(theta, name).double())
            for name, axis in self.axes.items()
        ]
        return torch.stack(slopes).sum(0)

    def radial_rule(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes and weights of ∫ … r dr for each slot.

        Args:
            draws: Raw coordinates drawn from each slot's flow, (n, S, dim).

        Returns:
            Radii and weights (with the factor r), both (R, S), float64.
        """
        radius = draws.double()[..., self.circle : self.circle + 2].norm(dim=-1)  # (n, S)
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
        place = torch.arange(self.dim, device=theta.device) - self.circle
        on_circle = (place == 0) | (place == 1)
        scale = (radius / self.phase_weight)[..., None]
        return self.encode(theta) * torch.where(on_circle, scale, 1.0)


class CircleTarget(WaveformTarget):
    """The paper's four coordinates of a tone.

    Args:
        phase_weight: w_φ.
        frequency_weight: w_f.
        centre: f_0 in Hz.
        jitter: s, the spread of ln(radius) in training.
    """

    def __init__(
        self, phase_weight: float, frequency_weight: float, centre: float, jitter: float = 0.0
    ) -> None:
        axes = {"amplitude": Axis(), TONE.place: Axis(frequency_weight, centre)}
        super().__init__(TONE, axes, phase_weight, jitter)
        self.frequency_weight, self.centre = frequency_weight, centre

    @classmethod
    def from_config(cls, config: FlowConfig, prior: Prior) -> CircleTarget:
        """Takes the weights from the config and the centre from the prior's band."""
        centre = sum(prior.frequency) / 2
        return cls(config.phase_weight, config.frequency_weight, centre, config.radius_jitter)
