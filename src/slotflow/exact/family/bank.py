r"""Matched filters over frequencies and shapes: where a further component would explain most of what is left.

A component of the shape ξ explains, of the residual r of the compressed data, about

.. math:: \sum_j \frac{2 |D_j|^2}{E_j} , \qquad D_j = \sum \overline{H b_j}\, r = \bar b_j^T (H^† r) , \qquad
          E_j = |H b_j|^2 ,

each amplitude for itself. With b = e^{fg_0 + \dots}, D over all frequencies and other shapes of a grid is one product
of two matrices around H†r. E hardly depends on the frequency and is interpolated between a few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotflow.core.arrays import Array, Complex
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.waveforms import Waveform

__all__ = ["Bank", "Peak"]

FREQUENCY_STEP = 0.4
"""Distance of the frequencies, in bins."""
KNOTS = 5
"""Frequencies at which E is computed."""
APART = 0.8
"""Bins within which two peaks are one."""


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
    """

    def __init__(
        self, member: Waveform, data: Compressed, band: tuple[float, float], duration: float
    ) -> None:
        self.member, self.data, self.bin = member, data, 1 / duration
        step = FREQUENCY_STEP * member.scales(duration)[0]
        self.frequencies = np.linspace(*band, max(int((band[1] - band[0]) / step) + 1, 3))
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

    def edges(self) -> tuple[Array, Array]:
        """Edges of the cells around the frequencies, (F + 1,), and around the other shape, (S + 1,) or (0, 1)."""
        low, high = self.frequencies[0], self.frequencies[-1]
        places = np.concatenate(
            [[low], 0.5 * (self.frequencies[1:] + self.frequencies[:-1]), [high]]
        )
        if self.shapes.shape[1] == 0:
            return places, np.array([0.0, 1.0])
        law, values = next(iter(self.member.ranges.values())), self.shapes[:, 0]
        shapes = np.concatenate([[law.low], 0.5 * (values[1:] + values[:-1]), [law.high]])
        return places, shapes

    def energy_at(self, xi: Array) -> Array:
        """E of each amplitude near shapes, (n, D) to (n, J): smooth, since proposals are made of it."""
        places = np.clip(xi[:, 0], self.frequencies[0], self.frequencies[-1])
        if self.shapes.shape[1] == 0:
            return np.stack(
                [np.interp(places, self.frequencies, energy[0]) for energy in self.energy], -1
            )
        found = []
        for energy in self.energy:
            column = np.searchsorted(self.frequencies, places).clip(0, len(self.frequencies) - 1)
            values = self.shapes[:, 0]
            row = np.searchsorted(values, xi[:, 1]).clip(1, len(values) - 1)
            share = ((xi[:, 1] - values[row - 1]) / (values[row] - values[row - 1])).clip(0, 1)
            # 1/E is nearly linear: the energy of a decay goes as 1/γ.
            found.append(1 / ((1 - share) / energy[row - 1, column] + share / energy[row, column]))
        return np.stack(found, -1)

    def gains(self, left: Array) -> Array:
        """About how much RSS a component would take away of a residual, (r,), at all shapes and frequencies, (S, F)."""
        back = left @ self.data.image.conj()  # (M,)
        total = np.zeros((len(self.shapes), len(self.frequencies)))
        for by_f, by_s, energy in zip(self.by_frequency, self.by_shape, self.energy, strict=True):
            filtered = (by_s.conj() * back) @ by_f.conj().T  # (S, F)
            total += 2 * np.abs(filtered) ** 2 / np.maximum(energy, 1e-300)
        return total

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
