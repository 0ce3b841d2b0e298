r"""Matched filters over frequencies and shapes: where a further component would explain most of what is left.

A component of the shape ξ explains, of the residual r of the compressed data, about

.. math:: \sum_j \frac{2 |D_j|^2}{E_j} , \qquad D_j = \sum \overline{H b_j}\, r = \bar b_j^T (H^† r) , \qquad
          E_j = |H b_j|^2 ,

each amplitude for itself. With b = e^{fg_0 + \dots}, D over all frequencies and other shapes of a grid is one product
of two matrices around H†r. E hardly depends on the frequency and is interpolated between a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.waveforms import Waveform

__all__ = ["Bank", "Peak"]

FREQUENCY_STEP = 0.4
"""Distance of the frequencies, in bins."""
FINEST, MOST_CELLS = 4, 5000
"""How many times closer the frequencies of a finer bank are at most, and filters up to which they are."""
KNOTS = 5
"""Frequencies at which E is computed."""
APART = 0.8
"""Bins within which two peaks are one."""
WORTH_A_LOOK = 0.01
"""Share of the largest gain below which a filter says nothing of how strong components are."""


class Peak(NamedTuple):
    """A place where a component would explain much."""

    gain: float
    """About how much RSS it would take away."""
    xi: Array
    """Its shape, (D,)."""


class Bank:
    """Matched filters of one class.

    Args:
        member: The waveform, settled on the record.
        data: The compressed data.
        band: Bounds of the place, in Hz.
        duration: Length of the record in seconds.
        step: Distance of the frequencies, in bins.
    """

    def __init__(
        self,
        member: Waveform,
        data: Compressed,
        band: tuple[float, float],
        duration: float,
        step: float = FREQUENCY_STEP,
    ) -> None:
        self.member, self.data, self.bin = member, data, 1 / duration
        self.band, self.step = band, step
        step = step * member.scales(duration)[0]
        self.frequencies = np.linspace(*band, max(int((band[1] - band[0]) / step) + 1, 3))
        self.axes = member.search_axes(duration)  # D − 1 of them
        self.shapes = member.search_grid(duration)  # (S, D − 1)
        g = member.exponents(data.times)  # (D, J, M)
        self.by_frequency = [np.exp(np.outer(self.frequencies, g[0, j])) for j in range(g.shape[1])]
        self.by_shape: list[Complex] = [np.exp(self.shapes @ g[1:, j]) for j in range(g.shape[1])]
        self.energy = [self._energy(band, g[:, j]) for j in range(g.shape[1])]

    def _energy(self, band: tuple[float, float], g: Complex) -> Array:
        """E of one amplitude at all shapes and frequencies, (S, F)."""
        knots = np.linspace(*band, KNOTS)
        rows = np.stack(
            [
                (np.abs(self.data.seen(np.exp(f * g[0] + self.shapes @ g[1:]))) ** 2).sum(-1)
                for f in knots
            ]
        )  # (knots, S)
        return np.stack([np.interp(self.frequencies, knots, row) for row in rows.T])

    def finer(self) -> Bank:
        """A bank of closer frequencies, as far as its filters are not too many.

        A component that hardly shows is found at the distances of a search, but its density there, e^gain, may differ
        from that between them by a factor.
        """
        times = min(MOST_CELLS // (len(self.shapes) * len(self.frequencies)), FINEST)
        if times < 2:
            return self
        return Bank(self.member, self.data, self.band, 1 / self.bin, self.step / times)

    def edges(self) -> list[Array]:
        """Edges of the cells around the frequencies, (F + 1,), and around the values of each further axis."""
        bounds = [(self.frequencies[0], self.frequencies[-1])]
        bounds += [(law.low, law.high) for law in self.member.ranges.values()]
        return [
            np.concatenate([[low], 0.5 * (values[1:] + values[:-1]), [high]])
            for values, (low, high) in zip([self.frequencies, *self.axes], bounds, strict=True)
        ]

    def energy_at(self, xi: Array) -> Array:
        """E of each amplitude near shapes, (n, D) to (n, J): smooth, since proposals are made of it."""
        places = np.clip(xi[:, 0], self.frequencies[0], self.frequencies[-1])
        if not self.axes:
            return np.stack(
                [np.interp(places, self.frequencies, energy[0]) for energy in self.energy], -1
            )
        column = np.searchsorted(self.frequencies, places).clip(0, len(self.frequencies) - 1)
        return np.stack(
            [1 / self._inverse(energy, xi[:, 1:], column) for energy in self.energy], -1
        )

    def _inverse(self, energy: Array, values: Array, column: NDArray[np.int64]) -> Array:
        """1/E between the values of the axes, (n,), where it is nearly linear: the energy of a decay goes as 1/γ.

        Args:
            energy: E of one amplitude, (S, F).
            values: Shape parameters but the place, (n, D − 1).
            column: Numbers of the frequencies, (n,).
        """
        corners = [(np.zeros(len(values), dtype=np.int64), np.ones(len(values)))]
        for axis, value in zip(self.axes, values.T, strict=True):
            above = np.searchsorted(axis, value).clip(1, len(axis) - 1)
            share = ((value - axis[above - 1]) / (axis[above] - axis[above - 1])).clip(0, 1)
            sides = ((above - 1, 1 - share), (above, share))
            corners = [
                (row * len(axis) + i, weight * part) for row, weight in corners for i, part in sides
            ]
        total: Array = sum(weight / energy[row, column] for row, weight in corners)  # type: ignore[assignment]
        return total

    def gains(self, left: Array) -> Array:
        """About how much RSS a component would take away of a residual, (r,), at all shapes and frequencies, (S, F)."""
        total = np.zeros((len(self.shapes), len(self.frequencies)))
        for filtered, energy in self.filtered(left):
            total += 2 * filtered**2 / energy
        return total

    def filtered(self, left: Array) -> Iterator[tuple[Array, Array]]:
        """|D| and E of each amplitude at all shapes and frequencies, (S, F) each, in a residual, (r,)."""
        back = left @ self.data.image.conj()  # (M,)
        for by_f, by_s, energy in zip(self.by_frequency, self.by_shape, self.energy, strict=True):
            yield np.abs((by_s.conj() * back) @ by_f.conj().T), np.maximum(energy, 1e-300)

    def shared(self, rows: Complex) -> Iterator[Array]:
        """|Q Hb|² of each amplitude at all shapes and frequencies, (S, F) each, of the rows of QH, (d, M)."""
        for by_f, by_s in zip(self.by_frequency, self.by_shape, strict=True):
            total = np.zeros((len(by_s), len(by_f)))
            for row in rows:
                total += np.abs((by_s * row) @ by_f.T) ** 2
            yield total

    def largest_amplitude(self, left: Array) -> float:
        """The largest amplitude that a lone component would have in a residual, (r,), where it would explain much."""
        gains = self.gains(left)
        clear = gains >= WORTH_A_LOOK * gains.max()
        return max(float((2 * d / energy)[clear].max()) for d, energy in self.filtered(left))

    def peaks(self, left: Array, count: int, near: tuple[float, float] | None = None) -> list[Peak]:
        """The best places for a further component, the best first, each at its best shape.

        Args:
            left: Residual of the compressed data, (r,).
            count: Peaks at most.
            near: A frequency in Hz and how far from it to look; None: the whole band.
        """
        gains = self.gains(left)
        if near is not None:
            far = np.abs(self.frequencies - near[0]) > near[1]
            if far.all():
                return []
            gains[:, far] = -1.0
        best = gains.argmax(0)
        height = gains[best, np.arange(len(best))]
        found: list[Peak] = []
        for i in np.argsort(-height):
            place = self.frequencies[i]
            if height[i] < 0 or len(found) == count:
                break
            if all(abs(place - peak.xi[0]) > APART * self.bin for peak in found):
                xi = np.concatenate([[place], self.shapes[best[i]]])
                found.append(Peak(float(height[i]), xi))
        return found
