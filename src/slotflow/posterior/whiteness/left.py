r"""What a fit leaves of the data: for each channel a series that is white noise if the model is right.

Residuals come whitened from the likelihood. What the fit has taken from a series is kept beside it, as frequencies
with the degrees of freedom that went with each: the residual of white noise is a little less than white there.

Where the noise is known in a band only (`likelihood.local`), the series is cut to that band: its m Fourier
coefficients in the band, transformed back, are m complex samples at the step T/m. They are white and independent if
the noise in the band is, so that every test of a complex series is a test of the band, and nothing outside counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slotflow.core.arrays import Array, Complex

__all__ = ["Left", "cut_to_band"]


@dataclass(frozen=True, eq=False)
class Left:
    """What is left of one channel."""

    name: str
    """Of the channel: "long", "short", or its own; empty where it is the only one."""
    values: Array | Complex
    """Whitened residual, (n,)."""
    times: Array
    """In seconds, (n,)."""
    step: float | None
    """Sampling step in seconds; None where samples are not even."""
    taken_at: Array
    """Frequencies in Hz where the fit took something out, (J,)."""
    taken: Array
    """Real degrees of freedom that went with each, (J,)."""
    unseen: float = 0.0
    """Degrees of freedom that were taken before, at frequencies that are not known."""
    origin: float | None = None
    """Frequency in Hz that the first Fourier coefficient stands for, where the series was cut to a band."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.values)

    @property
    def is_complex(self) -> bool:
        """Whether samples are complex."""
        return np.iscomplexobj(self.values)

    @property
    def whose(self) -> str:
        """Before "residual", in words: "the" or "the short stream's"."""
        return f"the {self.name} stream's" if self.name else "the"

    @property
    def label(self) -> str:
        """Behind the name of a test, to tell channels apart."""
        return self.name or "long"

    @cached_property
    def square(self) -> Array:
        """|values|², (n,)."""
        square: Array = self.values.real**2
        return square + self.values.imag**2 if self.is_complex else square

    @property
    def dof(self) -> float:
        """Real degrees of freedom that are left."""
        return (2 if self.is_complex else 1) * self.n - float(self.taken.sum()) - self.unseen

    @property
    def reals(self) -> Array:
        """The samples as real numbers, (n,) or (2n,)."""
        parts = [self.values.real, self.values.imag] if self.is_complex else [self.values.real]
        return np.concatenate(parts)

    def spectrum(self, padding: int = 1) -> tuple[Array, Array]:
        """Frequencies in Hz and |Σ x e^{−2πift}|²/n there, (F,) each, in rising order; of an even series.

        Args:
            padding: Frequencies per bin.
        """
        assert self.step is not None
        fine = padding * self.n
        if not self.is_complex:
            power = np.abs(np.fft.rfft(self.values, fine)) ** 2 / self.n
            return np.asarray(np.fft.rfftfreq(fine, self.step)), power
        power = np.abs(np.fft.fft(self.values, fine)) ** 2 / self.n
        if self.origin is not None:
            return self.origin + np.arange(fine) / (fine * self.step), power
        return np.fft.fftshift(np.fft.fftfreq(fine, self.step)), np.fft.fftshift(power)


def cut_to_band(left: Left, band: tuple[float, float]) -> Left:
    """An even series cut to the frequencies of a band in Hz: m complex samples at the step T/m."""
    assert left.step is not None
    duration = left.n * left.step
    first, last = int(np.ceil(band[0] * duration)), int(np.floor(band[1] * duration))
    if not left.is_complex:
        first, last = max(first, 1), min(last, (left.n - 1) // 2)
    m = last - first + 1
    chosen = np.fft.fft(left.values)[np.arange(first, last + 1) % left.n]
    inside = (left.taken_at >= band[0]) & (left.taken_at <= band[1])
    return Left(
        left.name,
        np.fft.ifft(chosen) * np.sqrt(m / left.n),
        left.times[0] + duration / m * np.arange(m),
        duration / m,
        left.taken_at[inside] - first / duration,
        left.taken[inside],
        origin=first / duration,
    )
