r"""Coordinates of a class's components, y in R^{d_c}, and the scales that bring them to about ±1.

A class has the paper's circle for the phase (weight w_φ) and its centred frequency (weight w_f). Every other parameter
gets an axis on which its range is [−1, 1]: linear or logarithmic, as its prior is. The amplitude is on a logarithmic
axis, since ρ is log-uniform; its range follows from that of ρ and of the energy of a component of amplitude 1,

.. math:: A = ρ\, σ \sqrt{2 / E(ξ)} , \qquad E(ξ) = \sum_t \tfrac12 |b(t; ξ)|^2 .

With P_c parameters of which one is the phase, d_c = P_c + 1: 4 for a tone, 5 for a chirp or a damped tone.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from slotflow.network.config import ModelConfig
from slotflow.network.paper.target import Axis, WaveformTarget
from slotflow.signal.waveforms import Waveform

__all__ = ["amplitude_range", "class_target"]


def class_target(waveform: Waveform, config: ModelConfig) -> WaveformTarget:
    """The target of a class.

    Args:
        waveform: Its waveform, settled on the long stream.
        config: Gives the band, the grids, the law of ρ and the weights.
    """
    flow = config.flow
    axes = {
        waveform.place: Axis(flow.frequency_weight, sum(config.prior.frequency) / 2),
        "amplitude": _axis(*amplitude_range(waveform, config), log=True),
    }
    for name, law in waveform.ranges.items():
        axes[name] = _axis(law.low, law.high, log=law.law == "loguniform")
    return WaveformTarget(waveform, axes, flow.phase_weight, flow.radius_jitter)


def amplitude_range(waveform: Waveform, config: ModelConfig) -> tuple[float, float]:
    """Smallest and largest amplitude that ρ allows, over the corners of the ranges of the shape."""
    middle = sum(config.prior.frequency) / 2
    corners = []
    for values in itertools.product(*((law.low, law.high) for law in waveform.ranges.values())):
        column = dict(zip(waveform.ranges, values, strict=True)) | {waveform.place: middle}
        corners.append([column[name] for name in waveform.shape])
    energy = np.zeros(len(corners))
    for grid in (config.long, config.short):
        t = grid.times - config.long.mid_time
        energy += 0.5 * (np.abs(waveform.basis(t, np.array(corners))) ** 2).sum((-2, -1))
    (quiet, loud), (low, high) = config.gain, config.prior.sigma
    return (
        quiet * low * math.sqrt(2 / energy.max()),
        loud * high * math.sqrt(2 / energy.min()),
    )


def _axis(low: float, high: float, log: bool) -> Axis:
    """The axis on which a range is [−1, 1]."""
    if log:
        low, high = math.log(low), math.log(high)
    return Axis(2 / (high - low), (low + high) / 2, log)
