r"""Three coordinates of a tone instead of the paper's four: a target that has a density.

The paper's target puts (A, φ, f) on a surface of R⁴, where it has no density (`target`). The complex amplitude
c = A e^{iφ} needs no second coordinate for the circle:

.. math:: y = [w_\phi A \cos\phi,\; w_\phi A \sin\phi,\; w_f (f - f_0)] .

The map is one-to-one for A > 0 and has the Jacobian w_φ² A w_f, so that

.. math:: q(A, \phi, f) = w_\phi^2 \, A \, w_f \; q_3(y)

holds without an integral, and the expected loss is the negative log-likelihood of (A, φ, f) plus a constant: bounded
below by the entropy of the posterior. The phase is that at t = 0, as in the paper. (For a network that knows f to
much less than 1/T the phase at mid-time would be better; this one does not, and the short stream begins at t = 0.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slotflow.network.config import FlowConfig
from slotflow.network.paper.target import Axis, CircleTarget, WaveformTarget
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["PlaneTarget", "tone_target"]


class PlaneTarget(WaveformTarget):
    """Complex amplitude and frequency of a tone.

    Args:
        phase_weight: w_φ, the factor on the complex amplitude.
        frequency_weight: w_f.
        centre: f_0 in Hz.
    """

    def __init__(self, phase_weight: float, frequency_weight: float, centre: float) -> None:
        axes = {"amplitude": Axis(), TONE.place: Axis(frequency_weight, centre)}
        super().__init__(TONE, axes, phase_weight)
        self.circle = 0

    @property
    def dim(self) -> int:
        """Number of coordinates: as many as a tone has parameters."""
        return self.waveform.size

    def encode(self, theta: Tensor) -> Tensor:
        """θ, (..., 3), to coordinates, (..., 3), same type."""
        a, phi, f = (self.waveform.of(theta, n) for n in ("amplitude", "phase", TONE.place))
        radius = self.phase_weight * a
        place = self.axes[TONE.place].encode(f)
        return torch.stack([radius * phi.cos(), radius * phi.sin(), place], dim=-1)

    def decode(self, y: Tensor) -> Tensor:
        """Coordinates, (..., 3), to θ with phases in [0, 2π), (..., 3), float64."""
        real, imaginary, place = y.double().unbind(-1)
        phase = torch.remainder(torch.atan2(imaginary, real), 2 * math.pi)
        values = {
            "amplitude": torch.hypot(real, imaginary) / self.phase_weight,
            "phase": torch.where(phase >= 2 * math.pi, 0.0, phase),
            TONE.place: self.axes[TONE.place].decode(place),
        }
        return torch.stack([values[p.name] for p in self.waveform.parameters], dim=-1)

    def log_slopes(self, theta: Tensor) -> Tensor:
        """Logarithm of the Jacobian w_φ² A w_f, (..., 3) to (...), float64."""
        amplitude = self.waveform.of(theta, "amplitude").double()
        return super().log_slopes(theta) + (self.phase_weight**2 * amplitude).log()

    def radial_rule(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """There is no radius to integrate over: one node of weight 1 for each slot, both (1, S), float64."""
        one = torch.ones(1, draws.shape[-2], dtype=torch.float64, device=draws.device)
        return one, one

    def at_radius(self, theta: Tensor, radius: Tensor) -> Tensor:
        """Coordinates of θ, (..., 3), which no radius changes, in the shape of both together, (..., 3)."""
        return self.encode(theta) * torch.ones_like(radius)[..., None]


def tone_target(config: FlowConfig, prior: Prior) -> WaveformTarget:
    """The target that a config asks for, with its centre in the middle of the prior's band."""
    if config.target == "circle":
        return CircleTarget.from_config(config, prior)
    return PlaneTarget(config.phase_weight, config.frequency_weight, sum(prior.frequency) / 2)
