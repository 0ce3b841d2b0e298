r"""Whether slow noise would look like the slowest tones.

White noise with a tone of two cycles describes a random walk that is weak beside the white noise as well as anything
does: both show in the lowest bins only. The rival of the tones is noise with a level of its own in the lowest m bins.
With S and S' the mean power there without and with the slow tones, these gain

.. math:: m \ln (S / S')

over it, which is little where the tone is no more than ten times as strong as the noise of these bins together. The
other tones are taken out before.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.likelihood import GeneralTones, Likelihood
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["SLOW", "slow_noise_doubt"]

SLOW = 3.0
"""Cycles in the record below which noise may pass for a tone."""
BINS = 6
"""How many of the lowest bins are looked at."""
COST = 12.0
"""Nats that each slow tone must gain: what a peak of noise hardly ever does in a thousand bins."""
LEAST_LEFT = 0.3
"""Mean power over the noise's that is left at least, however many tones were fitted."""


def slow_noise_doubt(likelihood: Likelihood, fit: Array, prior: Prior) -> str:
    """Why the slowest tones may be noise; empty if they are not slow, stand out, or the noise is coloured anyway.

    Args:
        likelihood: Of one signal.
        fit: The tones, (K, P).
        prior: Whose band says which bins are the lowest.
    """
    waveform, low = likelihood.waveform, prior.frequency[0]
    if waveform != TONE or low < 0 or _is_coloured(likelihood):
        return ""
    cycles = waveform.place_of(fit) * likelihood.duration
    slow = cycles < SLOW
    if not slow.any():
        return ""
    f = low + np.arange(BINS) / likelihood.duration
    least = LEAST_LEFT * _without(likelihood, fit).energy.item() / likelihood.n
    before, after = (
        max(_power(_without(likelihood, some), f), least) for some in (fit[~slow], fit)
    )
    if BINS * math.log(before / after) >= COST * slow.sum():
        return ""
    told = "a tone" if slow.sum() == 1 else f"{slow.sum()} tones"
    return (
        f"what looks like {told} of {cycles[slow].min():.1f} cycles in the record may be slow noise, which white noise "
        "leaves out"
    )


def _is_coloured(likelihood: Likelihood) -> bool:
    """Whether the noise is another than white already."""
    if not isinstance(likelihood, GeneralTones):
        return False
    return likelihood.local or not all(one.is_white for one in likelihood.node.channels)


def _without(likelihood: Likelihood, theta: Array) -> Likelihood:
    """The likelihood of what tones (K, P) leave of the data."""
    found: Likelihood = likelihood.less(likelihood.to_z(theta)) if len(theta) else likelihood
    return found


def _power(likelihood: Likelihood, f: Array) -> float:
    """Mean power at some frequencies, (F,), whose mean is σ² in white noise."""
    energy = np.abs(np.asarray(likelihood.overlap(f[:, None], f[:, None]))).reshape(-1)
    matched = np.abs(np.asarray(likelihood.matched(f[None, :, None]))).reshape(-1)
    return float(np.mean(matched**2 / np.maximum(energy, 1e-6 * energy.max())))
