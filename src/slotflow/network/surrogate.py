r"""An even, real series that a network can read, made from data that it cannot.

The networks read real series on even grids in white noise. Other data become such a series; what a network finds there
are places to start from, at the data's own frequencies once the shift is taken back. The likelihood of the data
themselves decides.

- **Coloured noise**: the whitened series. A tone keeps its frequency and gets another amplitude.
- **Gaps**: samples that lie on an even grid but for missing ones. Zeros stand in for what is missing; in white noise
  of mean zero they are the samples that say nothing. A tone keeps its frequency; its peak gets side lobes, so that at
  least `FULLEST` of the grid must be there.
- **Complex samples** of the rate r: at twice the rate, and shifted so that the band's middle m comes to r/2, the real
  part holds every tone once,

  .. math:: \Re\, c\, e^{2πi (f - m + r/2) t} , \qquad 0 < f - m + r/2 < r ,

  below its Nyquist frequency r. N complex samples become 2N real ones and white noise stays white. A band that wraps
  around, of which the data cannot know on which side of the Nyquist frequency it lies, needs no special care.

Times that fit on no grid have no such series: then nobody but the spectrum proposes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation

__all__ = ["Surrogate", "surrogate"]

FULLEST = 0.6
"""Share of an even grid that must be there."""
OFF_GRID = 0.05
"""Distance from the grid, in steps, within which a sample counts as lying on it."""


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A series that a network can read in place of the data."""

    observation: Observation
    """One even, real channel."""
    shift: float
    """What to add to a frequency of the data to find it there, in Hz."""

    def band(self, band: tuple[float, float]) -> tuple[float, float]:
        """A band of the data as the series shows it."""
        return band[0] + self.shift, band[1] + self.shift

    def places(self, frequencies: Array) -> Array:
        """Frequencies of the series as those of the data, same shape."""
        return frequencies - self.shift


def surrogate(
    times: Array, values: NDArray[np.float64] | Complex, step: float, band: tuple[float, float]
) -> Surrogate | None:
    """The series that stands in for white data; None where their times lie on no even grid.

    Args:
        times: Of the samples, in seconds, (n,).
        values: Data in white noise of mean zero, real or complex, (n,).
        step: Of the grid, in seconds.
        band: Frequencies in Hz that are looked at.
    """
    places = (times - times[0]) / step
    index = np.rint(places).astype(np.int64)
    n = int(index[-1]) + 1
    if len(times) < FULLEST * n or np.abs(places - index).max() > OFF_GRID:
        return None
    even = np.zeros(n, dtype=values.dtype)
    even[index] = values
    if not np.iscomplexobj(even):
        return Surrogate(Observation(Channel(even, step, float(times[0]), trend=-1)), 0.0)
    rate = 1 / step
    shift = 0.5 * (rate - band[0] - band[1])
    doubled = _at_twice_the_rate(
        even * np.exp(2j * np.pi * (shift - 0.5 * rate) * step * np.arange(n))
    )
    fine = 0.5 * step
    real = (doubled * np.exp(1j * np.pi * rate * fine * np.arange(2 * n))).real
    return Surrogate(Observation(Channel(real, fine, float(times[0]), trend=-1)), shift)


def _at_twice_the_rate(x: Complex) -> Complex:
    """A complex series between its samples too, (n,) to (2n,), by its discrete Fourier transform."""
    n, spectrum = len(x), np.fft.fft(x)
    padded = np.zeros(2 * n, dtype=np.complex128)
    upper = (n + 1) // 2  # bins from 0 up
    padded[:upper], padded[upper - n :] = spectrum[:upper], spectrum[upper:]
    doubled: Complex = 2 * np.fft.ifft(padded)
    return doubled
