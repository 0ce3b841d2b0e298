"""Signals as they would look in given channels: at any times, with errors, gaps, complex samples, coloured noise.

`simulate` (`simulation.py`) makes batches on even grids for training; this makes single observations of every kind, on
the sampling of an observation that serves as a template.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.signal.model import components_in
from slotflow.signal.noise.draws import draw_noise
from slotflow.signal.noise.series import Series
from slotflow.signal.noise.stated import parse_noise
from slotflow.signal.prior import Prior
from slotflow.signal.prior_gains import with_free_amplitudes
from slotflow.signal.waveforms import TONE, GainTone, Waveform

__all__ = ["SimulatedObservation", "simulate_like"]


@dataclass(frozen=True, eq=False)
class SimulatedObservation:
    """One simulated observation with its truth."""

    observation: Observation
    """The data."""
    theta: Array
    """Components, (K, P)."""
    sigma: float
    """Noise level."""
    noise_values: tuple[float, ...] = ()
    """Shape parameters of the noise: AR coefficients, or knee and exponent of a power law."""
    waveform: Waveform = TONE
    """What a component is."""


def simulate_like(
    template: Observation,
    prior: Prior,
    n: int = 1,
    *,
    noise: Any = "white",
    seed: int = 0,
    k: int | None = None,
) -> list[SimulatedObservation]:
    """Draws signals from a prior and samples them as an observation was sampled.

    Args:
        template: Whose times, errors, gains, kind of samples and channels count; its values do not.
        prior: Where K, Θ and σ come from. Levels that the channels know (`Channel.sigma`) are ratios. In channels of a
            free gain every tone has an amplitude of its own, from the same law between the channel's bounds.
        n: Number of signals.
        noise: What `slotflow.noise` builds or its short form. Parameters that are not stated are drawn for each signal.
        seed: The same seed gives the same signals.
        k: A fixed number of components instead of draws from p(K).
    """
    stated = parse_noise(noise)
    counts = prior.sample_k(n, _torch(seed, RandomStream.COUNTS))
    if k is not None:
        counts = torch.full_like(counts, k)
    generator = _torch(seed, RandomStream.SIGNALS)
    theta = prior.sample_theta(counts, generator).numpy()
    sigma = prior.sample_sigma(n, generator).numpy()
    rng = np.random.default_rng(stream_seed(seed, RandomStream.SIGNALS))
    series = [_empty(channel) for channel in template.channels]
    first, tau = template.long.sigma, template.long.mid_time
    waveform = prior.waveform.on(float(template.long.times[0]), tau)
    if template.free_names:
        waveform = GainTone(template.free_names)
    found = []
    for i in range(n):
        components = with_free_amplitudes(theta[i, : int(counts[i])], template, prior, rng)
        noises, values = draw_noise(stated, series, rng)
        channels = []
        for channel, name, drawn in zip(
            template.channels, template.gain_names, noises, strict=True
        ):
            ratio = channel.sigma / first if channel.sigma and first else 1.0
            form, own = waveform.in_channel(components, name)
            total = components_in(channel, own, form, tau) + float(sigma[i]) * ratio * drawn
            channels.append(replace(channel, values=total, notes=(), filled=()))
        observation = Observation(channels)
        found.append(
            SimulatedObservation(observation, components, float(sigma[i]), values, waveform)
        )
    return found


def _torch(seed: int, stream: RandomStream) -> torch.Generator:
    """The source of one stream of random numbers."""
    return torch.Generator().manual_seed(stream_seed(seed, stream))


def _empty(channel: Channel) -> Series:
    """The instants of a channel."""
    values = np.zeros(channel.n, dtype=channel.values.dtype)
    return Series(values, channel.times, channel.step, channel.errors)
