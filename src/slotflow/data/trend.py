r"""Offsets and trends: how they are removed, and how they are measured beside tones.

**Removing** (:func:`detrend`) is an ordinary least-squares fit of a polynomial of order 0 to 3. Of noise alone it takes
as little as any fit can. Its weakness is a tone of a few cycles: a part of such a tone passes for a slope and is
subtracted. Of a tone of c cycles that is odd about the middle, it is 6 cos²(π c)/(π c)² of the amplitude: 2.4 % for
five cycles, 0.2 % for twenty.

**Measuring** (:func:`fit_line`) uses the weights w_n = sin²(π (n + 1)/(N + 1)), a Hann window. With
u_n = n − (N − 1)/2,

.. math:: a = \frac{Σ w_n x_n}{Σ w_n}, \qquad b = \frac{Σ w_n u_n x_n}{Σ w_n u_n^2},

which do not disturb each other, because the weights are even and u is odd. At uneven times u_n is the time from the
middle in units of the median step, and the line is fitted about the weighted mean of u instead. A tone's part of a and
b falls as the window's leakage, with the cube of the number of cycles, so that a tone is not reported as a trend. The
price is a larger error: white noise of standard deviation σ gives b the error σ (Σ w² u²)^½ / Σ w u², and a likewise.
Where tones are looked for, and nobody has asked for a least-squares fit, this line is subtracted
(:func:`without_line`).
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.data.channel import Channel

__all__ = [
    "EXTREME",
    "HIGHEST_ORDER",
    "check_remainder",
    "check_varying",
    "detrend",
    "fit_line",
    "hann_weights",
    "line_errors",
    "line_filters",
    "places",
    "removed_order",
    "sample_numbers",
    "scaled",
    "without_line",
]

Array = NDArray[np.float64]
Samples = NDArray[Any]

HIGHEST_ORDER = 3
"""Highest order of a polynomial that `detrend` removes."""
POLYNOMIALS = ("offset", "line", "parabola", "cubic")
REMOVED = "subtracted ("
"""What the notes of `detrend` and `without_line` have in common."""
EXTREME = 1e140
"""Numbers beyond it, or below its inverse, have no square in double precision."""
ROUNDING = 1e-13
"""Share of the largest sample below which what a fit leaves over is rounding."""


def detrend(channel: Channel, order: int = 0) -> Channel:
    """Removes a polynomial that is fitted by ordinary least squares.

    A tone of a few cycles loses a part of itself to the fit (see the module's docstring): analyse such a tone without
    `detrend`, or with order 0.

    Args:
        channel: The series.
        order: 0 removes the mean, 1 a straight line, 2 a parabola, 3 a cubic.

    Returns:
        The series without it; its notes say what was subtracted.
    """
    if order not in range(HIGHEST_ORDER + 1):
        raise ValueError(
            f"expected an order from 0 (offset) to {HIGHEST_ORDER} (cubic), received {order!r}."
        )
    scale, x = scaled(channel)
    u = places(channel)
    weights = np.ones(x.size) if channel.errors is None else channel.errors.min() / channel.errors
    basis = _polynomials(u, weights, order)
    fitted = basis @ (basis.T @ (weights * x))
    fitted += basis @ (basis.T @ (weights * x - fitted))  # what rounding left of a large offset
    fitted = fitted / weights
    slope = (u @ fitted / (u @ u)).item() if x.size > 1 else 0.0
    said = _said(scale * fitted.mean().item(), scale * (slope / channel.step), order)
    if order >= 2:
        said = f"{POLYNOMIALS[order]} with {said}"
    notes = (*channel.notes, f"{said} {REMOVED}least squares)")
    return replace(channel, values=scale * (x - fitted), notes=notes)


def without_line(channel: Channel, order: int = 1) -> Channel:
    """Removes the offset, or offset and slope, that a Hann-weighted fit finds; tones of three cycles and more stay.

    Args:
        channel: The series.
        order: 0 for the offset alone, 1 for the offset and the slope.

    Returns:
        The series without them; its notes say what was subtracted.
    """
    scale, x = scaled(channel)
    u = places(channel)
    offset, slope = fit_line(x, u)[0]
    line = offset + (slope * u if order else 0.0)
    said = _said(scale * offset, scale * (slope / channel.step), order)
    notes = (*channel.notes, f"{said} {REMOVED}Hann-weighted fit)")
    return replace(channel, values=scale * (x - line), notes=notes)


def removed_order(notes: tuple[str, ...]) -> int:
    """What the notes of a series say was subtracted from it: −1 for nothing, 0 for an offset, 1 for a line or more."""
    applied = [note for note in notes if REMOVED in note]
    return max((1 if " and trend " in note else 0 for note in applied), default=-1)


def _said(offset: complex, trend: complex, order: int) -> str:
    """Offset and, from order 1 on, trend per second in words."""
    return f"offset {offset:.6g}" + (f" and trend {trend:.6g} per second" if order else "")


def check_varying(channel: Channel) -> None:
    """Refuses a series of which nothing can be inferred."""
    size = float(np.abs(channel.values).max())
    if (channel.values == channel.values[0]).all():
        raise ValueError(
            f"expected a series that varies, received {channel.n:,} samples that all are {channel.values[0]:g}; there "
            "is nothing to infer from it: check the column or array that was read."
        )
    if not 1 / EXTREME < size < EXTREME:
        raise ValueError(
            f"expected samples whose squares are numbers, received some of up to {size:.4g}; scale the data, or check "
            "the column or array that was read."
        )


def check_remainder(before: Channel, after: Channel) -> None:
    """Refuses a series of which `detrend` has left nothing but rounding."""
    if float(np.abs(after.values).max()) <= ROUNDING * float(np.abs(before.values).max()):
        raise ValueError(
            f"nothing but rounding is left of the {before.n:,} samples without offset and trend; there is nothing to "
            "infer from them: check the column or array that was read."
        )


def fit_line(x: Samples, u: Array) -> tuple[tuple[Any, Any], tuple[float, float]]:
    """Offset and slope by the Hann-weighted fit, and their errors for noise of σ = 1.

    Args:
        x: Samples, (n,), real or complex.
        u: Where they were taken, (n,), in steps from the middle; see `places`.

    Returns:
        The value in the middle and the slope per step, and the error of each.
    """
    w, tilted = _line_weights(u)
    centre, mean = (
        (w * u).sum() / w.sum(),
        (w * x).sum() / w.sum(),
    )  # of a constant the constant itself
    slope = (tilted * x).sum()
    return ((mean - slope * centre).item(), slope.item()), line_errors(u)


def line_filters(u: Array) -> Array:
    """The Hann-weighted fit as two sums over the samples: the weights of offset and slope per step, (2, n).

    Up to rounding, their products with a series (n,) are what `fit_line` gives.

    Args:
        u: Where the samples were taken, (n,), in steps from the middle.
    """
    w, tilted = _line_weights(u)
    return np.stack([w / w.sum() - (w * u).sum() / w.sum() * tilted, tilted])


def line_errors(u: Array) -> tuple[float, float]:
    """Errors of offset and slope per step by the Hann-weighted fit, for noise of σ = 1."""
    w, tilted = _line_weights(u)
    offset_error = float(np.sqrt((w**2).sum()) / w.sum())
    return offset_error, float(np.sqrt((tilted**2).sum())) if u.size > 2 else 1.0


def _line_weights(u: Array) -> tuple[Array, Array]:
    """Hann weights at places u, and weights whose sum with a series is its slope; zeros for one or two samples."""
    w = np.cos(np.pi * u / (2 * np.abs(u).max() + 2)) ** 2
    if u.size < 3:
        return w, 0 * w
    tilted = w * (u - (w * u).sum() / w.sum())
    return w, tilted / (w * (u - (w * u).sum() / w.sum()) ** 2).sum()


def scaled(channel: Channel) -> tuple[float, Samples]:
    """The largest absolute value (1 if all are 0) and the samples (n,) over it, so that no square overflows."""
    scale = float(np.abs(channel.values).max()) or 1.0
    return scale, channel.values / scale


def places(channel: Channel) -> Array:
    """Where the samples were taken, (n,), in steps from the middle of the record."""
    if channel.is_even:
        return sample_numbers(channel.n)
    return np.asarray((channel.times - channel.mid_time) / channel.step)


def sample_numbers(n: int) -> Array:
    """Sample numbers counted from the middle, (n,)."""
    return np.arange(n, dtype=np.float64) - 0.5 * (n - 1)


@functools.lru_cache(maxsize=8)
def hann_weights(n: int) -> Array:
    """A Hann window without its zeros, (n,); shared, and not to be written to."""
    weights = np.asarray(np.sin(np.pi * np.arange(1, n + 1) / (n + 1)) ** 2)
    weights.setflags(write=False)
    return weights


def _polynomials(u: Array, weights: Array, order: int) -> Array:
    """An orthonormal basis of weighted polynomials up to an order at the places u, (n, at most order + 1)."""
    places = u / max(float(np.abs(u).max()), 1.0)
    powers = np.vander(places, min(order + 1, u.size), increasing=True)
    return np.linalg.qr(weights[:, None] * powers)[0]
