r"""Noise that is known near a band only: a smooth filter for the whole, and a level of its own in the band.

What happens elsewhere in the spectrum must not matter, and it would in two ways: as evidence for the level, which the
likelihood avoids by counting what lies in the band alone (`NoiseModel.local`), and by leakage. Against leakage

- the channel is **filtered** by an autoregressive filter of the order that has the most evidence, fitted to what
  remains without lines (`background.py`), which takes away the slope and most of the dynamic range;
- strong **lines** outside the band are listed for the likelihood to integrate out. At d bins beside the band a line of
  height z (power over the noise) leaves about z/(πd)² there, which counts from `LEAKED` on.

σ means the level of white noise that would have the power which the noise has in the band on average.

**Tilt.** If the whitened spectrum still has a slope across the band, S ∝ e^{s·u} with u from −1 to 1 over the band, s
is on nodes, uniform between ±`STEEPEST`: each adds a short filter to the first. A tone near an edge looks like a slope,
so the nodes cover what the spectrum says with and without the bins that stand out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.noise.background import Background, robust_filter
from slotflow.signal.noise.burg import partial_autocorrelations
from slotflow.signal.noise.colour import whiteness_of
from slotflow.signal.noise.filters import Samples, gain, taps_of_partial, taps_of_power
from slotflow.signal.noise.lines import running_floor
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode
from slotflow.signal.noise.quadrature import nodes_of
from slotflow.signal.noise.series import OVERSAMPLING, Series

__all__ = ["LOCAL_ORDER", "local_noise"]

Bounds = tuple[float, float]

LOCAL_ORDER = 48
"""Highest order of the filter."""
AGREED = 0.4
"""Logarithm of a measured level over an assumed one up to which they agree."""
STEEPEST = 3.0
"""Largest |s|."""
WHITE_P = 1e-3
"""P-value above which a channel needs no filter."""
FEWEST_FOR_A_LEVEL = 8
"""Bins of the band from which on they give the level; the whole spectrum does otherwise."""
SWALLOWED, SLOW_BINS = 5.0, 20.0
"""Power of a filter's noise over the running median that is a peak, from so many bins on."""
TILTED = 3.0
"""Standard deviations of a slope that call for nodes."""
STANDS_OUT = 5.0
"""Power over the noise from which on a bin may be a tone."""
WORTH = 0.5 / 0.95
"""What a bin is worth at half a bin's distance from the next, under a Hann window."""
FEWEST_BINS = 24
"""Bins of the band from which on a slope is looked for."""


def local_noise(
    backgrounds: Sequence[Background], band: Bounds, known: Sequence[float], words: str = ""
) -> NoiseModel:
    """The noise of a band.

    Args:
        backgrounds: Lines and background of each channel, found with filters up to `LOCAL_ORDER`.
        band: Lowest and highest frequency in Hz of what is looked for.
        known: Noise levels of the channels that are assumed unless the data say otherwise, in units of the first one's.
        words: Why this noise.
    """
    backgrounds = [
        replace(b, taps=_smooth_filter(b, band, tones_left=i > 0))
        for i, b in enumerate(backgrounds)
    ]
    first = backgrounds[0]
    gains = [_ratio(b.taps, b.rest.step, band) for b in backgrounds]
    inside = _inside(first, band)
    levels = [
        _whitened_level(b, None if i else inside[1])
        / g  # tones are left in the other channels' band
        for i, (b, g) in enumerate(zip(backgrounds, gains, strict=True))
    ]
    found = [_settled(level / levels[0], one) for level, one in zip(levels, known, strict=True)]
    ratios = [g * level for g, level in zip(gains, found, strict=True)]
    lines = [b.leaking(band) for b in backgrounds]
    plain = tuple(
        ChannelNoise(b.taps, r, lines=many)
        for b, r, many in zip(backgrounds, ratios, lines, strict=True)
    )
    tilt = _tilt_nodes(first, band, *inside)
    if tilt is None:
        return NoiseModel("local", (NoiseNode(plain),), local=True, words=words)
    nodes = []
    for s, log_weight, taps in tilt:
        tilted = ChannelNoise(taps, _ratio(taps, first.rest.step, band), lines=lines[0])
        nodes.append(NoiseNode((tilted, *plain[1:]), log_weight, (s,)))
    return NoiseModel("local", tuple(nodes), local=True, parameters=("tilt",), words=words)


def _smooth_filter(background: Background, band: Bounds, tones_left: bool) -> Samples:
    """The filter that predicts best: each coefficient must gain 1 of the logarithm of the likelihood (Akaike).

    Where tones are left in the band, of which only the first channel can be freed, a channel that is white outside the
    band is not filtered.
    """
    series = background.rest
    if tones_left and whiteness_of(series, background.lines, band, outside=True).p_value > WHITE_P:
        return np.ones(1)
    highest = min(LOCAL_ORDER, series.longest_filter)
    partial = background.partial
    if partial is None or len(partial) != highest:
        partial = partial_autocorrelations(series, highest)
    reals = 2 if series.is_complex else 1
    each = -0.5 * reals * series.n * np.log(np.maximum(1 - np.abs(partial) ** 2, 1e-12)) - reals
    order = int(np.argmax(np.concatenate([[0.0], np.cumsum(each)])))
    taps = taps_of_partial(partial[:order])
    return robust_filter(series, highest) if _follows_peaks(series, taps) else taps


def _follows_peaks(series: Series, taps: Samples) -> bool:
    """Whether a filter takes away peaks that the spectrum resolves: partials of a sound, a cycle, a drifting line.

    They are what is looked for. The spectrum of the filter's noise is compared with the running median of the series',
    both without their steepest slope; a peak that is as broad as the median's window is noise.
    """
    if len(taps) < 3:
        return False
    steep = taps_of_partial(partial_autocorrelations(series, 1))
    flat = series.filtered(steep)
    f, power = flat.spectrum()
    floor, _ = running_floor(power, series.is_complex)
    variance = float(np.mean(np.abs(series.filtered(taps).values) ** 2))
    step = slice(None, None, max(len(f) // 4096, 1))
    f, floor = f[step], floor[step]
    g, h = gain(steep, series.step, f), gain(taps, series.step, f)
    ratio = variance * np.abs(g / h) ** 2 / floor
    return bool((ratio[np.abs(f) * series.duration > SLOW_BINS] > SWALLOWED).any())


def _inside(background: Background, band: Bounds) -> tuple[Array, Array]:
    """Bins of the whitened spectrum in the band without those of lines: frequency and power, (F,) each."""
    white = background.white
    f, power = white.spectrum()
    f, power = f[:: OVERSAMPLING // 2], power[:: OVERSAMPLING // 2]
    kept = (f >= band[0]) & (f <= band[1])
    for line in background.lines:
        kept &= np.abs(f - line.frequency) * white.duration > 2.0
    return f[kept], power[kept]


def _whitened_level(background: Background, power: Array | None) -> float:
    """The level of a channel's whitened noise by the power of its bins in the band, (F,), or in the whole spectrum."""
    if power is None or len(power) < FEWEST_FOR_A_LEVEL:
        power = background.white.spectrum()[1]
    return math.sqrt(max(float(np.median(power)) / math.log(2), 1e-300))


def _settled(measured: float, assumed: float) -> float:
    """The assumed ratio of two levels, unless a measurement is far from it."""
    return assumed if abs(math.log(measured / assumed)) < AGREED else measured


def _ratio(taps: Samples, step: float, band: Bounds) -> float:
    """Level of the whitened noise over that of the noise in the band: ⟨|g|^{−2}⟩^{−½} over the band."""
    f = np.linspace(band[0], band[1], 257)
    return 1 / math.sqrt(float(np.mean(np.abs(gain(taps, step, f)) ** -2.0)))


def _tilt_nodes(
    background: Background, band: Bounds, f: Array, power: Array
) -> list[tuple[float, float, Samples]] | None:
    """Nodes over the slope of the spectrum in the band with their filters; None if there is no slope to speak of.

    Args:
        background: Of the first channel.
        band: In Hz.
        f: Frequencies of the bins in the band, (F,).
        power: Their power, (F,).
    """
    series = background.rest
    longest = min(series.longest_filter - background.order, 64)
    if len(f) < 2 * FEWEST_BINS or longest < 4 or series.is_complex:
        return None
    u = 2 * (f - band[0]) / (band[1] - band[0]) - 1
    # Bins that stand out may be tones, which are no slope: the nodes cover what both versions say.
    quiet = power < STANDS_OUT * float(np.median(power)) / math.log(2)
    versions = [(u[quiet], power[quiet]), (u, power)]
    scores = [_tilt_score(*version) for version in versions]
    if max(map(abs, scores)) < TILTED:
        return None

    def log_likelihood(x: Array) -> Array:
        return np.array([_tilt_log_likelihood(float(x[0]), *version) for version in versions])

    def log_prior(x: Array) -> float:
        return -math.log(2 * STEEPEST) if abs(x[0]) <= STEEPEST else -math.inf

    scale = np.array([1 / math.sqrt(WORTH * float(((u - u.mean()) ** 2).sum()))])
    starts = [np.clip(score * scale, -STEEPEST, STEEPEST) for score in scores]
    nodes = nodes_of(log_likelihood, log_prior, starts, scale)
    best, _ = taps_of_power(
        _tilted(float(nodes.points[0, 0]), band), series.step, series.n, longest=longest
    )
    longest = len(best) - 1
    found = []
    for x, log_weight in zip(nodes.points, nodes.log_weights, strict=True):
        extra, _ = taps_of_power(
            _tilted(float(x[0]), band), series.step, series.n, longest=longest, order=longest
        )
        found.append((float(x[0]), float(log_weight), np.convolve(background.taps, extra)))
    return found


def _tilt_score(u: Array, power: Array) -> float:
    """How many standard deviations the slope of a spectrum at places u, (F,), is away from none."""
    middle = u - u.mean()
    slope = float((middle * power).sum() / power.mean() / math.sqrt((middle**2).sum()))
    return slope * math.sqrt(WORTH)


def _tilt_log_likelihood(slope: float, u: Array, power: Array) -> float:
    """Whittle's logarithm of the likelihood of a slope, the level profiled."""
    total = len(u) * math.log(float((power / np.exp(slope * u)).mean())) + slope * float(u.sum())
    return -WORTH * total


def _tilted(s: float, band: Bounds) -> Callable[[Array], Array]:
    """A spectrum with a slope over a band and constant on either side."""

    def power(f: Array) -> Array:
        u = 2 * (np.abs(f) - band[0]) / (band[1] - band[0]) - 1
        return np.exp(s * np.clip(u, -1.3, 1.3))

    return power
