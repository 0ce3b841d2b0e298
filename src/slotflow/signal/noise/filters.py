r"""Filters that make coloured noise white, and the three descriptions of them.

Autoregressive noise of order p obeys Σ_j a_j x_{t−j} = ε_t with a_0 = 1 and white ε. Its **taps** a are that filter. It
is stationary exactly if all **partial autocorrelations** r_1 … r_p have a modulus below 1; from one set follows the
other by

.. math:: a^{(m)}_j = a^{(m-1)}_j - r_m\, \bar a^{(m-1)}_{m-j} , \qquad a^{(m)}_m = -r_m ,

and the variance of ε is that of x times Π (1 − |r_m|²). Its power spectrum is v/|g(f)|², v being the variance of ε and
g(f) = Σ_j a_j e^{−2πifj·dt} the filter's **gain** for a tone.

Noise of any power spectrum S(f) is nearly autoregressive: the autocovariances, which are the Fourier transform of S,
give the taps of any order by the Yule–Walker equations. Powers here are two-sided and in units of samples: white noise
of level σ has S = σ² at all frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, linalg, signal

from slotflow.core.arrays import Array
from slotflow.core.numeric import phasor

__all__ = [
    "Samples",
    "autocovariance",
    "filter_loss",
    "gain",
    "partial_of_taps",
    "taps_of_coefficients",
    "taps_of_covariance",
    "taps_of_partial",
    "taps_of_power",
    "whitened",
]

Samples = NDArray[Any]
"""Real or complex values."""
LOSS = 0.01
"""What the choice of a filter's order may cost of the logarithm of the likelihood."""
SMALLEST_POWER = 1e-11
"""Smallest power over the largest that the equations for a filter can tell from 0."""
PER_BIN = 8
"""Frequencies per 1/T at which a given power spectrum is looked at."""


def gain(taps: Samples, dt: float, f: Array) -> Samples:
    """What a filter makes of a tone's complex amplitude, at frequencies f in Hz, same shape."""
    lags = np.arange(len(taps))
    turns = -np.multiply.outer(np.asarray(f, dtype=np.float64) * dt, lags)
    response: Samples = phasor(turns) @ taps
    return response


def taps_of_partial(partial: Samples) -> Samples:
    """Taps (p + 1,) of partial autocorrelations (p,), real or complex."""
    taps: Samples = np.ones(1, dtype=np.result_type(partial, np.float64))
    for r in np.atleast_1d(partial):
        longer = np.append(taps, 0)
        taps = longer - r * longer[::-1].conj()
    return taps


def taps_of_coefficients(coefficients: Sequence[complex]) -> Samples:
    """Taps (p + 1,) of known coefficients φ of x_t = Σ φ_j x_{t−j} + ε_t, which must make stationary noise."""
    taps: Samples = np.concatenate([[1.0], -np.asarray(coefficients)])
    if np.abs(np.roots(taps)).max(initial=0.0) >= 1:
        written = ", ".join(f"{c:g}" for c in coefficients)
        raise ValueError(
            f"expected coefficients of stationary AR noise, received {written}: its variance would grow without bound; "
            "state the order alone, and the coefficients are found."
        )
    return taps


def partial_of_taps(taps: Samples) -> Samples:
    """Partial autocorrelations (p,) of the taps (p + 1,) of stationary noise."""
    taps = np.asarray(taps) / taps[0]
    found = []
    while len(taps) > 1:
        r = -taps[-1]
        found.append(r)
        taps = ((taps + r * taps[::-1].conj()) / (1 - abs(r) ** 2))[:-1]
    partial: Samples = np.array(found[::-1])
    return partial


def autocovariance(power: Samples, is_complex: bool = False) -> Samples:
    """Autocovariances at lags 0, 1, … of noise with a power spectrum on the bins of a discrete Fourier transform.

    Args:
        power: Real noise: bins 0 to N/2, (N/2 + 1,). Complex noise: all bins in the order of the transform, (N,).
        is_complex: Whether the noise is complex.

    Returns:
        (N/2 + 1,) or (N,).
    """
    if is_complex:
        return np.asarray(fft.ifft(power))
    return np.asarray(fft.irfft(power)[: len(power)])


def taps_of_covariance(covariance: Samples, order: int) -> tuple[Samples, float]:
    """Taps (p + 1,) of some order, and the variance that they leave, from autocovariances at lags 0 to p or more."""
    if order == 0:
        return np.ones(1), float(covariance[0].real)
    column = covariance[:order]
    ahead = linalg.solve_toeplitz((column, column.conj()), covariance[1 : order + 1])
    taps = np.append(1.0, -ahead)
    left = float((covariance[0] - ahead @ covariance[1 : order + 1].conj()).real)
    return taps, left


def taps_of_power(
    power: Callable[[Array], Array],
    dt: float,
    n: int,
    *,
    is_complex: bool = False,
    longest: int,
    order: int | None = None,
) -> tuple[Samples, float]:
    """The shortest filter that makes noise of a given power spectrum as good as white, and the level that it leaves.

    The order is the first for which `filter_loss` is below `LOSS`.

    Args:
        power: S at frequencies in Hz, any shape to the same shape. Below 1/4T it is rounded off.
        dt: Sampling step in seconds.
        n: Number of samples, T = n·dt.
        is_complex: Whether the noise is complex, with a spectrum at negative frequencies of its own.
        longest: The largest order to be tried.
        order: An order instead of the shortest that will do.

    Returns:
        Taps (p + 1,), and the standard deviation of the whitened noise.
    """
    s = _on_bins(power, dt, n, is_complex, longest)
    covariance = autocovariance(s, is_complex)
    if order is not None:
        taps, variance = taps_of_covariance(covariance, order)
        return taps, math.sqrt(variance)
    best, reals = _mean_logarithm(s, is_complex), 2 * n if is_complex else n
    for p in sorted({min(round(4 * 2 ** (i / 2)), longest) for i in range(-6, 40)} | {0}):
        taps, variance = taps_of_covariance(covariance, p)
        if 0.5 * reals * (math.log(variance) - best) <= LOSS:
            break
    return taps, math.sqrt(variance)


def filter_loss(
    power: Callable[[Array], Array], dt: float, n: int, order: int, is_complex: bool = False
) -> float:
    """What a filter of some order loses of the logarithm of the likelihood of n samples.

    A filter of order p leaves the variance v_p, the best possible one v = exp⟨ln S⟩ (Kolmogorov); the loss is
    ½ n ln(v_p/v), and twice that for complex samples.

    Args:
        power: S at frequencies in Hz.
        dt: Sampling step in seconds.
        n: Number of samples.
        order: P.
        is_complex: Whether the noise is complex.
    """
    s = _on_bins(power, dt, n, is_complex, order)
    _, variance = taps_of_covariance(autocovariance(s, is_complex), order)
    best, reals = _mean_logarithm(s, is_complex), 2 * n if is_complex else n
    return 0.5 * reals * (math.log(variance) - best)


def _on_bins(
    power: Callable[[Array], Array], dt: float, n: int, is_complex: bool, longest: int
) -> Array:
    """A power spectrum on the bins of a discrete Fourier transform, rounded off below 1/4T, (F,)."""
    size = int(fft.next_fast_len(max(PER_BIN * n, 8 * longest, 64), real=True))
    size += size % 2
    f = fft.fftfreq(size, dt) if is_complex else fft.rfftfreq(size, dt)
    rounded = np.where(f < 0, -1.0, 1.0) * np.hypot(f, 0.25 / (n * dt))
    s = np.asarray(power(rounded), dtype=np.float64)
    if not (np.isfinite(s).all() and (s > 0).all()):
        raise ValueError(
            "expected a power spectrum that is finite and above 0 at all frequencies up to Nyquist, received some "
            "values that are not; give S for the whole range, with a floor where it vanishes."
        )
    floored: Array = np.maximum(s, SMALLEST_POWER * s.max())
    return floored


def _mean_logarithm(s: Array, is_complex: bool) -> float:
    """⟨ln S⟩ over all frequencies, negative ones included, of a spectrum on bins, (F,)."""
    logarithm = np.log(s)
    mean = logarithm if is_complex else np.append(logarithm, logarithm[1:-1])
    return float(mean.mean())


def whitened(values: Samples, taps: Samples, stretches: Sequence[slice]) -> Samples:
    """Filtered samples of a series, (n',): each stretch without a gap gives up as many as the filter's order."""
    if len(taps) == 1:
        return np.concatenate([values[piece] for piece in stretches])
    pieces = [
        signal.convolve(values[piece], taps, mode="valid")
        for piece in stretches
        if piece.stop - piece.start >= len(taps)
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=values.dtype)
