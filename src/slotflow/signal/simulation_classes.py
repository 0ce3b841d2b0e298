r"""Simulator of components of several classes, as loud as a stated gain: a batch of signals in torch, on any device.

.. math:: x(t) = \sum_k \Re\, c_k\, b(t - τ; ξ_k) + ε(t), \qquad ε \sim N(0, σ^2)

per sample (no real part for complex data, whose noise has the level σ in Re and in Im). K, places, phases, classes and
shapes are draws from the prior. How loud a component is, is not the prior's amplitude but its gain ρ², by which it
raises the log-likelihood of the data above that of noise alone, at its true parameters and on its own:

.. math:: ρ^2 = \frac{1}{2σ^2} \sum_t |m(t)|^2 ,

summed over the samples of both streams. ρ is log-uniform. In this way components of all classes are equally easy to
find, which one law of amplitudes would not give: a damped tone that has gone after a tenth of the record needs three
times the amplitude of a tone.

Nothing here waits for the device: K, which decides shapes, is drawn on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.data.sampling import Grid
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.signal.waveforms import TONE, Chirp, Classes, Damped, Tone, Waveform

__all__ = ["ClassSimulation", "simulate_classes", "unit_classes"]


@dataclass(frozen=True, eq=False)
class ClassSimulation(Simulation):
    """A batch of n simulated mixtures with their truth; `theta` has the columns of `waveform`."""

    gains: Tensor = field(default_factory=lambda: torch.zeros(0))
    """ρ of each component, (n, k_max), float64; zeros where there is no component."""
    waveform: Waveform = TONE
    """What a component is, settled on the long stream; for several classes a `Classes`."""

    def by_class(self) -> tuple[Tensor, list[Tensor]]:
        """The components sorted by their classes.

        Returns:
            The number of components of each class, (n, C), int64, on the CPU; and θ of each class in the columns of its
            own waveform, (ΣK_c, P_c), signal after signal, in the order of the places within each.
        """
        waveform = self.waveform
        if not isinstance(waveform, Classes):
            raise ValueError(f"expected components of several classes, received a {waveform.name}.")
        present = torch.arange(self.theta.shape[1]) < self.k[:, None]
        kind = waveform.class_of(self.theta).cpu()
        counts, theta = [], []
        for index in range(len(waveform.class_names)):
            chosen = present & (kind == index)
            signal, slot = (upload(i, self.theta.device) for i in chosen.nonzero(as_tuple=True))
            counts.append(chosen.sum(1))
            theta.append(waveform.members_theta(index, self.theta[signal, slot]))
        return torch.stack(counts, 1), theta


def unit_classes(
    duration: float, sweep: float = 60.0, decay: tuple[float, float] = (1.5, 30.0)
) -> dict[str, Waveform]:
    """Tones, chirps and damped tones with bounds in units of the record's length T, for `Prior(classes=...)`.

    Args:
        duration: T in seconds.
        sweep: Largest |ḟ| T², the number of bins that a chirp drifts over the record.
        decay: Bounds of γT, log-uniform.
    """
    drift = sweep / duration**2
    rates = (decay[0] / duration, decay[1] / duration)
    return {
        "tone": Tone(),
        "chirp": Chirp(drift=(-drift, drift)),
        "damped": Damped(rate=rates, law="loguniform"),
    }


def simulate_classes(
    prior: Prior,
    n: int,
    long: Grid,
    short: Grid | None = None,
    *,
    gain: tuple[float, float] = (5.0, 40.0),
    seed: int = 0,
    is_complex: bool = False,
    device: str | torch.device = "cpu",
) -> ClassSimulation:
    """Draws n mixtures and samples them on the grids.

    Args:
        prior: Where K, σ and the components come from, but for their amplitudes. Its waveform has one amplitude.
        n: Number of signals.
        long: Grid of the long stream; frequencies refer to its middle, decays to its first sample.
        short: Grid of the short stream, or None for none.
        gain: Bounds of ρ.
        seed: The same seed on the same device gives the same signals.
        is_complex: Whether samples are complex.
        device: Where to compute and to leave the result.
    """
    if n < 1:
        raise ValueError(f"simulate_classes expects n >= 1 signals, received {n}.")
    if not 0 < gain[0] <= gain[1] < math.inf:
        raise ValueError(f"simulate_classes expects gain with 0 < low <= high, received {gain}.")
    host = torch.Generator().manual_seed(stream_seed(seed, RandomStream.COUNTS))
    counts = prior.sample_k(n, host)
    generator = torch.Generator(device=device).manual_seed(stream_seed(seed, RandomStream.SIGNALS))
    device, tau = generator.device, long.mid_time
    waveform = prior.waveform.on(long.t0, tau)

    present = upload(torch.arange(prior.k_max) < counts[:, None], device)  # (n, k_max)
    theta = prior.sample_theta(upload(counts, device), generator)
    sigma = prior.sample_sigma(n, generator)
    u = torch.rand(present.shape, generator=generator, device=device, dtype=torch.float64)
    rho = torch.where(present, gain[0] * torch.exp(u * math.log(gain[1] / gain[0])), 0.0)

    xi, c = waveform.split_masked(theta, tau, present)
    c = torch.polar(present.double(), c.angle()[..., 0])[
        ..., None
    ]  # amplitude 1 where there is one
    grids = (long,) if short is None else (long, short)
    curves = []  # (n, k_max, N) each
    for grid in grids:
        t = upload(torch.from_numpy(grid.times - tau), device)
        curve = (c[..., None] * waveform.basis(t, xi))[..., 0, :]
        curves.append(curve if is_complex else curve.real)
    energy = torch.stack([(curve.abs() ** 2).sum(-1) for curve in curves]).sum(0)  # (n, k_max)
    amplitude = torch.where(present, rho * sigma[:, None] * torch.sqrt(2 / energy), 0.0)
    streams = [_noisy((amplitude[..., None] * curve).sum(1), sigma, generator) for curve in curves]
    loud = waveform.join(xi, amplitude[..., None] * c, tau)
    return ClassSimulation(
        k=counts,
        theta=torch.where(present[..., None], loud, 0.0),
        sigma=sigma,
        long=streams[0],
        short=streams[1] if short is not None else None,
        grids=(long, short),
        seed=seed,
        gains=rho,
        waveform=waveform,
    )


def _noisy(x: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
    """Signals, (n, N), float64 or complex128, with white noise of the levels (n,), in single precision."""
    noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    if x.is_complex():
        noise = noise * math.sqrt(2)  # torch gives each part the variance 1/2
    return (x + sigma[:, None] * noise).to(torch.complex64 if x.is_complex() else torch.float32)
