"""The noise of each window of a band: decided once for the whole series, then local to each window.

White noise over the whole spectrum stays white in every window. Where the series is not white, every window has local
noise (`slotflow.signal.noise.local`): the smooth filter for the whole is found once, from what the search leaves of the
data, and each window has a level, and if need be a slope, of its own.

**Noise that tones took.** K tones that were fitted to N samples took 3K degrees of freedom of the noise with them, all
of them near their frequencies: what a crowd of tones leaves of white noise is not white. With J the derivatives of the
tones by their parameters, (x − m) + J(JᵀJ)⁻¹Jᵀe for white e of the same level is white again if the noise was. Where
the share 3K/N is not small, the test and the filter look at such data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slotflow.bands.core_draws import seen_in
from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.signal.noise.background import Background, background_of
from slotflow.signal.noise.choice import choose_noise
from slotflow.signal.noise.local import LOCAL_ORDER, local_noise
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.noise.series import series_of
from slotflow.signal.noise.stated import parse_noise
from slotflow.signal.noise.versions import known_ratios, white_noise
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["WindowNoise", "window_noise"]

SMALL_SHARE = 0.03
"""Share of the degrees of freedom that tones may take without being noticed."""
STEP = 1e-4
"""Of a parameter's natural scale, in a derivative by differences."""
COINCIDENT = 1e-12
"""Share of the largest eigenvalue of JᵀJ below which a direction is that of others."""
LONGEST = 16_384
"""Samples that a filter is fitted to at most."""

Bounds = tuple[float, float]


@dataclass(frozen=True, eq=False)
class WindowNoise:
    """What each window assumes of the noise."""

    stated: Any
    """What every window is told; None where it is local."""
    backgrounds: tuple[Background, ...] = ()
    """Filters of the channels, for local noise."""
    ratios: tuple[float, ...] = ()
    """Noise levels of the channels as far as they are known, in units of the first one's."""
    words: str = ""
    """Why it is local."""

    @property
    def is_local(self) -> bool:
        """Whether each window has noise of its own."""
        return bool(self.backgrounds)

    def of(self, band: Bounds) -> Any:
        """What to say of the noise in a window between two frequencies in Hz."""
        if not self.is_local:
            return self.stated
        return local_noise(self.backgrounds, band, self.ratios, self.words)


def window_noise(observation: Observation, stated: Any, band: Bounds, tones: Array) -> WindowNoise:
    """The noise of all windows.

    Args:
        observation: The data.
        stated: What the user says of the noise.
        band: Lowest and highest frequency in Hz of all windows.
        tones: What the search found, (K, P).
    """
    if isinstance(stated, NoiseModel):
        return WindowNoise(stated)
    if any(np.ptp(channel.values) == 0 for channel in observation.channels):
        return WindowNoise("white")  # the verdict says what constant data are
    data = observation
    observation = Observation(
        [_refilled(_stretch(channel), tones) for channel in observation.channels]
    )
    kind = parse_noise(stated).kind
    if kind == "white":
        return WindowNoise(white_noise(data, "white, as stated"))
    if kind not in ("auto", "local"):
        return WindowNoise(stated)
    words = "local, as stated"
    if kind == "auto":
        chosen = choose_noise(observation, stated, band, tones)
        if chosen.is_white:
            return WindowNoise(white_noise(data, chosen.words))
        words = f"local: {chosen.words.partition(': ')[2]}"
    series = [series_of(channel, tones) for channel in observation.channels]
    backgrounds = tuple(background_of(one, LOCAL_ORDER) for one in series)
    return WindowNoise(None, backgrounds, tuple(known_ratios(observation)), words)


def _refilled(channel: Channel, tones: Array, waveform: Waveform = TONE) -> Channel:
    """A channel with the noise again that the tones (K, P) took with them, where that is a good part of it."""
    size = waveform.coordinates * len(tones)
    if size < SMALL_SHARE * channel.n or size >= channel.n or channel.is_complex:
        return channel
    columns = _derivatives(channel, tones, waveform)
    rest = channel.values - seen_in(channel, tones)
    level = np.sqrt((rest**2).sum() / (channel.n - size))
    noise = level * np.random.default_rng(0).standard_normal(channel.n)
    return replace(channel, values=channel.values + columns.T @ _solved(columns, columns @ noise))


def _derivatives(channel: Channel, tones: Array, waveform: Waveform) -> Array:
    """Derivatives of the tones (K, P) in a real channel by all their coordinates, each of unit length, (K·Z, n)."""
    reference = float(0.5 * (channel.times[0] + channel.times[-1]))
    t = channel.times - reference
    xi, c = waveform.split(tones, reference)
    basis = channel.factor * waveform.basis(t, xi)  # (K, M, n)
    parts = [basis.real.reshape(-1, channel.n), basis.imag.reshape(-1, channel.n)]
    for d, scale in enumerate(waveform.scales(channel.duration)):
        step = np.zeros(xi.shape[-1])
        step[d] = STEP * scale
        change = waveform.basis(t, xi + step) - waveform.basis(t, xi - step)
        parts.append((channel.factor * c[..., None] * change).sum(-2).real)
    columns = np.concatenate(parts)
    unit: Array = columns / np.maximum(np.linalg.norm(columns, axis=1, keepdims=True), 1e-300)
    return unit


def _solved(columns: Array, right: Array) -> Array:
    """(JᵀJ)⁻¹ times a vector, (m,), for columns of J as rows, (m, n); directions that coincide count once."""
    values, vectors = np.linalg.eigh(columns @ columns.T)
    kept = values > COINCIDENT * values[-1]
    found: Array = vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept])
    return found


def _stretch(channel: Channel) -> Channel:
    """The middle of a channel that is longer than a filter needs; its times stay what they are."""
    if channel.n <= LONGEST:
        return channel
    first = (channel.n - LONGEST) // 2
    part = slice(first, first + LONGEST)
    return replace(
        channel,
        values=channel.values[part],
        times=channel.times[part],
        t0=float(channel.times[first]),
        errors=None if channel.errors is None else channel.errors[part],
        segments=None if channel.segments is None else channel.segments[part],
        filled=(),
    )
