r"""The noise level from a spectrum: the one estimator for data whose tones lie in a band, and one for any data.

**Outside a band** (:func:`power_outside`, :func:`level_outside`). Tones live in a band, noise everywhere. With Hann
weights w_n and S = Σ w_n², the periodogram P_m = |Σ w_n x_n e^{−2πi m n/N}|² / S of white noise has the mean σ² in
every bin. The mean over the bins outside the band (and outside a guard, beyond which a Hann window's leakage falls as
the cube of the distance) therefore estimates σ² without a fit. Neighbouring Hann bins correlate with (4/9, 1/36) in
power, so M bins are worth M / (1 + 2·(4/9 + 1/36)) independent exponentials, and the relative error of σ is half that
of σ². The window is applied to the spectrum, where w_n = ½ − ½ cos(2πn/N) is a difference of three neighbours.

**From the median** (:func:`median_power`). Where nothing is known to lie outside a band, or where the bins at hand are
those of the band itself, tones would pull the mean up. The median hardly moves, because tones sit in few bins; the
median of an exponential is its mean times ln 2. It is a little less precise, and biased by the tones' share of bins,
which is why the mean outside the band is preferred wherever there is an outside.

All functions take NumPy arrays or torch tensors; torch is not imported for the former, so that reading a file does not
wait for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.data.trend import hann_weights

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FEWEST_BINS_OUTSIDE",
    "GUARD_BINS",
    "level_outside",
    "median_power",
    "periodogram",
    "power_outside",
]

GUARD_BINS = 12
"""Bins on either side of the band that are left out of the noise estimate."""
FEWEST_BINS_OUTSIDE = 8
"""Bins outside the band from which on there is an estimate."""
LOWEST_BIN = 3
"""Lowest bin of the estimate: an offset of the series reaches up to bin 1, and what drifts a little further."""
INDEPENDENT_SHARE = 1 / (1 + 2 * (4 / 9 + 1 / 36))
"""Independent exponentials that a bin of a Hann periodogram is worth."""


def power_outside(
    spectrum: NDArray[np.complex128] | Tensor, n: int, low: Any, high: Any, duration: float = 1.0
) -> tuple[Any, Any]:
    """Total Hann-windowed power outside a band, and the number of bins in it.

    The lowest bins and the last one (of an even number of samples the Nyquist bin, which is real) are left out.

    Args:
        spectrum: Discrete Fourier transform of real series without a window, bins 0 to ⌊n/2⌋, (..., ⌊n/2⌋ + 1).
        n: Number of samples.
        low: Lower edge of the band, a number or (...,), in Hz if the duration is given in seconds, else in bins.
        high: Its upper edge.
        duration: Length of the series in seconds; 1 if the edges are in bins.

    Returns:
        Σ P_m over the bins outside and their number, (...,) each, float64.
    """
    hann: Any = 0.5 * spectrum[..., 1:-1] - 0.25 * (spectrum[..., :-2] + spectrum[..., 2:])
    power = (_double(hann.real) ** 2 + _double(hann.imag) ** 2) / (0.375 * n)
    bins = _counted(spectrum)[1:-1]
    places, guard = bins * (1 / duration), GUARD_BINS / duration
    outside = (places < _edge(low) - guard) | (places > _edge(high) + guard)
    outside = outside & (bins >= LOWEST_BIN)
    return (power * outside).sum(-1), outside.sum(-1)


def level_outside(
    values: NDArray[np.float64], duration: float, band: tuple[float, float]
) -> tuple[float, float]:
    """σ of one real series from its power outside a band.

    Args:
        values: Samples, (n,).
        duration: Length n·dt in seconds.
        band: Frequencies in Hz that may hold tones.

    Returns:
        The estimate and its standard error; (nan, nan) if fewer than `FEWEST_BINS_OUTSIDE` bins lie outside.
    """
    spectrum = np.fft.rfft(values - values.mean())
    power, count = power_outside(spectrum, values.size, *band, duration)
    if count < FEWEST_BINS_OUTSIDE:
        return math.nan, math.nan
    sigma = math.sqrt(power / count)
    return sigma, 0.5 * sigma / math.sqrt(count * INDEPENDENT_SHARE)


def median_power(power: NDArray[np.float64] | Tensor) -> Any:
    """Mean power of noise from the median over the last axis, (...,); bins that are NaN do not count."""
    if isinstance(power, np.ndarray):
        median = np.nanmedian if np.isnan(power).any() else np.median  # the latter is far quicker
        return median(power, axis=-1) / math.log(2)
    return power.nanmedian(-1).values / math.log(2)


def periodogram(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hann periodogram of (n,) below the Nyquist bin, (⌊n/2⌋,); its mean is σ² in white noise.

    Unlike the window of `power_outside`, this one has no zeros, so that series of one or two samples have a spectrum.
    """
    w = hann_weights(x.size)
    power = np.abs(np.fft.rfft(w * x)) ** 2 / (w**2).sum()
    return np.asarray(power[: x.size // 2])


def _double(x: Any) -> Any:
    """An array in double precision."""
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()


def _counted(spectrum: NDArray[np.complex128] | Tensor) -> Any:
    """Numbers of the bins of a spectrum, (bins,), float64, of its library and on its device."""
    if isinstance(spectrum, np.ndarray):
        return np.arange(spectrum.shape[-1], dtype=np.float64)
    import torch

    return torch.arange(spectrum.shape[-1], dtype=torch.float64, device=spectrum.device)


def _edge(value: Any) -> Any:
    """The edge of a band, so that it broadcasts against bins."""
    return value[..., None] if hasattr(value, "ndim") and value.ndim else value
