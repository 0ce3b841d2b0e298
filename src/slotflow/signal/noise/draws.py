r"""Random noise of every kind, at the instants of any channel, with σ = 1.

- **white**: independent samples; **errors** multiply them.
- **ar**: white samples through the inverse filter, on the grid that the instants belong to; what the filter's start
  leaves behind has died away before the first of them. σ is the level of what drives it.
- **power_law**: the red part is shaped in frequency on an even grid, eight times as long as the record so that it does
  not repeat, and looked up at the instants; the white floor, of level σ, is drawn at the instants.
- **psd**: the same without a floor, for even series; σ is a factor.

Shape parameters that are not stated are drawn from the prior under which they are marginalized: partial
autocorrelations uniform, ln f_k and α uniform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import fft, signal

from slotflow.core.arrays import Array
from slotflow.signal.noise.ar import LARGEST
from slotflow.signal.noise.filters import Samples, taps_of_coefficients, taps_of_partial
from slotflow.signal.noise.power_law import EXPONENTS
from slotflow.signal.noise.red_whitening import Shape, red_power
from slotflow.signal.noise.series import Series
from slotflow.signal.noise.stated import StatedNoise

__all__ = ["NoiseDraw", "draw_noise"]

PERIODS = 8
"""Length of the series in which red noise is made, in units of the record."""
FINER = 8
"""Points per step on which red noise is made that is looked up at uneven times."""
ON_GRID = 1e-2
"""Distance of an instant from a grid, in steps, up to which it belongs to it."""
DIED_AWAY = 30.0
"""Decay times of the slowest part of autoregressive noise before its first sample."""
LONGEST_START = 200_000
"""Samples before the first one at most."""
HIGHEST_DRAWN = math.tanh(LARGEST)
"""Largest partial autocorrelation that is drawn."""

NoiseDraw = tuple[list[Samples], tuple[float, ...]]
"""Noise of each channel at σ = 1, and the values of the shape parameters."""


def draw_noise(
    stated: StatedNoise, channels: Sequence[Series], rng: np.random.Generator
) -> NoiseDraw:
    """Draws the noise of all channels of one signal.

    Args:
        stated: The kind of noise, with or without its numbers.
        channels: Whose instants, errors and kind of samples count; not their values.
        rng: Source of randomness.
    """
    if stated.kind == "white":
        return [_white(series, rng) for series in channels], ()
    if stated.kind == "ar":
        return _autoregressive(stated, channels, rng)
    if stated.kind == "power_law":
        shape = stated.shape or _drawn_shape(channels, rng)
        return [_white(s, rng) + _red(s, shape, rng) for s in channels], shape
    if stated.kind == "psd":
        densities = list(stated.densities) * (len(channels) if len(stated.densities) == 1 else 1)
        return [_of_density(s, d, rng) for s, d in zip(channels, densities, strict=True)], ()
    raise ValueError(
        f"expected noise that can be drawn (white, ar, power_law, psd), received {stated.text!r}: it says how noise is "
        "to be judged, not what it is."
    )


def _standard(n: int, is_complex: bool, rng: np.random.Generator) -> Samples:
    """Standard normal samples; of a complex series both parts."""
    if is_complex:
        return rng.standard_normal(n) + 1j * rng.standard_normal(n)
    return rng.standard_normal(n)


def _white(series: Series, rng: np.random.Generator) -> Samples:
    """White noise with the errors of the samples."""
    white = _standard(series.n, series.is_complex, rng)
    return white if series.errors is None else white * series.errors


def _autoregressive(
    stated: StatedNoise, channels: Sequence[Series], rng: np.random.Generator
) -> NoiseDraw:
    """Autoregressive noise of known or drawn coefficients, alike in all channels."""
    is_complex = channels[0].is_complex
    if stated.coefficients:
        taps = taps_of_coefficients(stated.coefficients)
    elif stated.order is None:
        raise ValueError(
            "expected the order of the AR noise to draw, such as ar(1), received none."
        )
    else:
        size = HIGHEST_DRAWN * (np.sqrt(rng.random(stated.order)) if is_complex else 1.0)
        turn = rng.uniform(-1, 1, stated.order)
        taps = taps_of_partial(size * (np.exp(1j * math.pi * turn) if is_complex else turn))
    poles = np.abs(np.roots(taps)).max(initial=0.0)
    start = min(math.ceil(DIED_AWAY / max(1 - poles, 1e-9)) + len(taps), LONGEST_START)
    found = []
    for series in channels:
        places = _places(series, f"{stated.text} noise")
        driven = _standard(start + int(places[-1]) + 1, is_complex, rng)
        found.append(np.asarray(signal.lfilter([1.0], taps, driven))[start + places])
    coefficients = -taps[1:]
    if is_complex:
        coefficients = np.stack([coefficients.real, coefficients.imag], 1).ravel()
    return found, tuple(float(c) for c in coefficients)


def _places(series: Series, what: str) -> NDArray[np.int64]:
    """Places of the samples on their grid, (n,)."""
    place = (series.times - series.times[0]) / series.step
    whole = np.rint(place)
    if series.errors is not None or np.abs(place - whole).max() > ON_GRID:
        raise ValueError(
            f"expected even instants, with gaps at most, and no errors for {what}, received others; use power_law."
        )
    return np.asarray(whole, dtype=np.int64)


def _drawn_shape(channels: Sequence[Series], rng: np.random.Generator) -> Shape:
    """Knee and exponent from their prior."""
    low = 0.25 / max(series.duration for series in channels)
    high = max(series.nyquist for series in channels)
    return math.exp(rng.uniform(math.log(low), math.log(high))), rng.uniform(*EXPONENTS)


def _red(series: Series, shape: Shape, rng: np.random.Generator) -> Samples:
    """The red part of a power law at the instants of a series."""
    finer = 1 if _is_even(series) else FINER
    step = series.step / finer

    def power(f: Array) -> Array:
        """Nothing above the Nyquist frequency of the samples."""
        slow = np.maximum(np.abs(f), 0.5 / (PERIODS * series.duration))
        return np.where(np.abs(f) <= series.nyquist, finer * red_power(slow, *shape), 0.0)

    points = math.ceil((series.times[-1] - series.times[0]) / step) + 2
    made = _shaped(power, points, step, series.is_complex, rng)
    return _looked_up(made, series, step)


def _of_density(
    series: Series, density: Callable[[Array], Array], rng: np.random.Generator
) -> Samples:
    """Noise of a power spectral density at the instants of an even series."""
    places = _places(series, "a given power spectral density")
    made = _shaped(
        lambda f: density(f) / (2 * series.step),
        int(places[-1]) + 1,
        series.step,
        series.is_complex,
        rng,
    )
    return made[places]


def _shaped(
    power: Callable[[Array], Array],
    n: int,
    step: float,
    is_complex: bool,
    rng: np.random.Generator,
) -> Samples:
    """Noise of a power spectrum on an even grid, (n,)."""
    size = int(fft.next_fast_len(PERIODS * n, real=True))
    white = _standard(size, is_complex, rng)
    if is_complex:
        return np.asarray(fft.ifft(fft.fft(white) * np.sqrt(power(fft.fftfreq(size, step)))))[:n]
    return np.asarray(fft.irfft(fft.rfft(white) * np.sqrt(power(fft.rfftfreq(size, step))), size))[
        :n
    ]


def _is_even(series: Series) -> bool:
    """Whether all samples belong to one grid."""
    place = (series.times - series.times[0]) / series.step
    return bool(np.abs(place - np.rint(place)).max() <= ON_GRID)


def _looked_up(made: Samples, series: Series, step: float) -> Samples:
    """Values on a grid from the first instant on, at the instants, between points on a straight line."""
    place = (series.times - series.times[0]) / step
    below = np.minimum(place.astype(np.int64), len(made) - 2)
    share = np.clip(place - below, 0.0, 1.0)
    found: Samples = made[below] * (1 - share) + made[below + 1] * share
    return found
