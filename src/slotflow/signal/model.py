r"""The sum of components over a channel's samples: what a simulation, a residual and a picture are made of.

A tone on an even grid is a product. With t = t_i + t_j, t_i = t_0 + i·J·dt and t_j = j·dt,

.. math:: c\, e^{2πif(t - τ)} = \big[ c\, e^{2πif(t_i - τ)} \big]\, e^{2πift_j} ,

so sines are needed on I + J ≈ 2√N points only, and the sum is the real part of a product of an I × 2K and a 2K × J
matrix. Phases are reduced to one turn in float64: at t = 300 s and f = 3 Hz a float32 phase is wrong by 1e-4 rad.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import Array, namespace
from slotflow.core.devices import upload
from slotflow.core.numeric import phasor
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid, Sampling
from slotflow.signal.waveforms import TONE, Tone, Waveform

__all__ = ["component_sum", "components_in", "noise_free", "without_components"]


def noise_free(theta: Any, sampling: Sampling, waveform: Waveform = TONE) -> Any:
    """What components look like in a channel without noise.

    Args:
        theta: Components as a person reads them, (..., K, P), float64; an amplitude of 0 is no component.
        sampling: When the samples are taken.
        waveform: The form of a component.

    Returns:
        (..., N), float64.
    """
    return component_sum(*waveform.split(theta, 0.0), sampling, 0.0, waveform)


def component_sum(
    xi: Any, c: Any, sampling: Sampling, reference: float, waveform: Waveform = TONE
) -> Any:
    """Re Σ_k Σ_m c_km b_m(t − τ; ξ_k).

    Args:
        xi: Shapes, (..., K, D).
        c: Complex amplitudes, (..., K, M).
        sampling: When the samples are taken.
        reference: τ, in seconds.
        waveform: The form of a component.

    Returns:
        (..., N), float64.
    """
    xp = namespace(xi)
    if not (isinstance(sampling, Grid) and isinstance(waveform, Tone)):
        t = _like(sampling.times - reference, xi)
        return (c[..., None] * waveform.basis(t, xi)).real.sum((-3, -2))
    cols = max(1, math.isqrt(sampling.n))
    rows = -(-sampling.n // cols)
    t_i = _like(
        sampling.t0 - reference + sampling.dt * cols * np.arange(rows, dtype=np.float64), xi
    )
    t_j = _like(sampling.dt * np.arange(cols, dtype=np.float64), xi)
    coarse, fine = c * phasor(xi * t_i), phasor(xi * t_j)  # (..., K, I), (..., K, J)
    left = xp.concat([coarse.real, -coarse.imag], -2).mT
    values = left @ xp.concat([fine.real, fine.imag], -2)
    return values.reshape(*values.shape[:-2], rows * cols)[..., : sampling.n]


def components_in(channel: Channel, theta: Array, waveform: Waveform, reference: float) -> Any:
    """The sum of components in a channel of an observation, its gain included, (N,), real or complex as its samples.

    Args:
        channel: Where they are seen.
        theta: Components, (K, P).
        waveform: Their form, settled on the record.
        reference: τ, in seconds.
    """
    if not len(theta):
        return np.zeros(channel.n)
    xi, c = waveform.split(theta, reference)
    total = (c[..., None] * waveform.basis(channel.times - reference, xi)).sum((0, 1))
    total = channel.factor * total
    return total if channel.is_complex else total.real


def without_components(observation: Observation, theta: Array, waveform: Waveform) -> Observation:
    """An observation with components θ, (K, P), of a waveform subtracted from each channel."""
    tau = observation.long.mid_time
    settled = waveform.on(float(observation.long.times[0]), tau)
    channels = [
        replace(channel, values=channel.values - components_in(channel, theta, settled, tau))
        for channel in observation.channels
    ]
    return Observation(channels, removed=observation.removed)


def _like(values: Array, array: Any) -> Any:
    """NumPy values in the library and on the device of another array, without waiting for the device."""
    return upload(torch.from_numpy(values), array.device) if isinstance(array, Tensor) else values
