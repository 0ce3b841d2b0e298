r"""From channels to samples whose noise is white: filters, weights, and what is not signal in them.

**Filter.** Taps a turn coloured noise into white noise: y_t = Σ_j a_j x_{t−j}, wherever p + 1 samples stand in a row.
What follows a gap, or the beginning, is left out until the filter is filled: the likelihood is that of the other
samples given these. A tone keeps its frequency and gets the complex gain g(f) = g_0 Σ_j a_j e^{−2πifj·dt}.

**Weights.** A sample of the error e in a channel of the noise level σ r weighs (e r)^{−2}.

**Nuisances.** Offsets, polynomials in time, offsets of segments and strong lines outside the band are columns U whose
coefficients have flat priors; red noise at any times is made of columns with Gaussian priors of the variances Λσ².
Integrated out, they change the inner product to

.. math:: ⟨a, b⟩ = a^T W b - a^T W U\,(U^T W U + Λ^{-1})^{-1} U^T W b ,

with Λ⁻¹ = 0 for the flat ones. With L Lᵀ the matrix to be inverted, the columns U L^{−T} make this a plain sum less a
sum over columns. Each flat column takes a degree of freedom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.data.channel import Channel
from slotflow.signal.noise.model import ChannelNoise

__all__ = ["Gain", "Samples", "Whitened", "nuisance_columns", "whitened"]

EVEN = 0.02
"""Largest deviation of a step from the median step, as a share of it, that a filter takes for even."""
DEPENDENT = 1e-10
"""Share of a column that must be left after those before it are projected out for it to count."""


@dataclass(frozen=True, eq=False)
class Gain:
    """g(f) = g_0 Σ_j a_j e^{−2πifj·dt}: what a channel and its filter make of a tone's complex amplitude."""

    taps: NDArray[np.complex128]
    """g_0 a, (p + 1,)."""
    step: float
    """dt, in seconds."""

    def __call__(self, f: Array, order: int = 0) -> Complex:
        """g, or its derivative of some order, at frequencies; same shape."""
        if len(self.taps) == 1:
            value = self.taps[0] if order == 0 else 0.0
            return np.full(np.shape(f), value, dtype=np.complex128)
        delay = -2j * math.pi * self.step * np.arange(len(self.taps))
        turn = np.exp(-2j * math.pi * np.remainder(f * self.step, 1.0))
        found: Complex = np.asarray(
            np.polynomial.polynomial.polyval(turn, self.taps * delay**order), dtype=np.complex128
        )
        return found

    def same(self, other: Gain) -> bool:
        """Whether two gains are one."""
        alike = len(self.taps) == len(other.taps) and np.array_equal(self.taps, other.taps)
        return alike and (len(self.taps) == 1 or self.step == other.step)


@dataclass(frozen=True, eq=False)
class Whitened:
    """The samples of one channel after its filter."""

    times: Array
    """In seconds, (N,)."""
    values: NDArray[np.complex128] | Array
    """After the filter, (N,)."""
    weights: Array
    """1/(e r)², (N,)."""
    gain: Gain
    """What the filter makes of a tone."""
    kept: NDArray[np.int64]
    """Which samples of the channel these are, (N,)."""


@dataclass(frozen=True, eq=False)
class Samples:
    """All samples that share a gain."""

    u: Array
    """Times since the reference in seconds, (N,)."""
    values: NDArray[np.complex128] | Array
    """(N,)."""
    weights: Array
    """(N,)."""
    columns: NDArray[np.complex128] | Array
    """U L^{−T} at these samples, (q, N)."""
    gain: Gain
    """What the filter makes of a tone."""


def whitened(channel: Channel, noise: ChannelNoise) -> Whitened:
    """The samples of a channel after its filter."""
    taps, errors = np.asarray(noise.taps), channel.errors
    order, values = len(taps) - 1, channel.values
    kept = np.arange(channel.n)
    if order:
        kept = _filled(channel, order)
        values = sum(tap * values[kept - j] for j, tap in enumerate(taps))
    if len(kept) == 0:
        raise ValueError(
            f"expected stretches of more than {order} even samples for the filter of the noise, received none in "
            f"{channel.n:,} samples; state noise='white', or 'power_law' for samples at any times."
        )
    level = np.full(len(kept), noise.ratio) if errors is None else noise.ratio * errors[kept]
    gain = Gain(np.asarray(taps, dtype=np.complex128) * channel.factor, channel.step)
    return Whitened(channel.times[kept], values, level**-2.0, gain, kept)


def _filled(channel: Channel, order: int) -> NDArray[np.int64]:
    """Samples that have `order` even neighbours before them."""
    if channel.is_even:
        return np.arange(order, channel.n)
    steps = np.diff(channel.times) / channel.step
    broken = np.concatenate([[True], np.abs(steps - 1) > EVEN])
    start = np.maximum.accumulate(np.where(broken, np.arange(channel.n), 0))
    found: NDArray[np.int64] = np.flatnonzero(np.arange(channel.n) - start >= order)
    return found


def nuisance_columns(
    channel: Channel, noise: ChannelNoise, part: Whitened, reference: float
) -> tuple[Array, Array]:
    """The columns U of one channel, (q, N), and their prior precisions in units of σ⁻², (q,); 0 for flat priors."""
    t = part.times - 0.5 * (part.times[0] + part.times[-1])
    unit = t / max(float(np.abs(t).max()), 1e-300)
    columns: list[Array] = []
    if channel.trend >= 0 and channel.segments is not None:
        label = channel.segments[part.kept]
        columns += [(label == one).astype(np.float64) for one in np.unique(label)]
        columns += [unit**p for p in range(1, channel.trend + 1)]
    else:
        columns += [unit**p for p in range(channel.trend + 1)]
    for f in noise.lines:
        angle = 2 * math.pi * np.remainder(f * (part.times - reference), 1.0)
        cosine, sine = np.cos(angle), np.sin(angle)
        columns += [cosine, sine, unit * cosine, unit * sine]
    precisions = [0.0] * len(columns)
    if noise.modes is not None:
        for f, variance in zip(noise.modes.frequencies, noise.modes.variances, strict=True):
            angle = 2 * math.pi * np.remainder(f * (part.times - reference), 1.0)
            columns += [np.cos(angle), np.sin(angle)]
            precisions += [1 / max(float(variance), 1e-300)] * 2
    table = np.stack(columns) if columns else np.zeros((0, len(t)))
    return table, np.array(precisions)
