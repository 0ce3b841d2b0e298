r"""Tones in samples at any times, real or complex, with weights, filters and nuisances: one signal, in NumPy.

Here channels become samples whose noise is white, and what is asked of them in time; the sums are in `summed.py`.

**Local.** Let Π project on the span of all tones in the band and just beside it. If the noise is white there and
anything elsewhere, Πx is all that the data say, and of a tone in the band Πb = b: Gram matrices and matched filters
stay what they are, while the energy becomes |Πx|² and the number of degrees of freedom the dimension of the span.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.core.numeric import phasor
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.sampling import Instants, Sampling
from slotflow.signal.likelihood.projection import (
    inside_band,
    orthogonal_columns,
    spanning,
    square_root,
)
from slotflow.signal.likelihood.samples import Samples, nuisance_columns, whitened
from slotflow.signal.likelihood.summed import TURN, SummedTones
from slotflow.signal.noise.model import NoiseNode
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["GeneralTones"]

MARGIN = 8.0
"""How far the curves reach beyond the band, in bins."""
OFF_THE_GRID = 1e-6
"""Steps by which samples of an even grid may lie beside it."""


class GeneralTones(SummedTones):
    """The likelihood of tones in one observation.

    Args:
        observation: What was measured.
        node: How its noise is whitened.
        band: Lowest and highest frequency in Hz that tones may have.
        local: Whether only what lies in the band and just beside it counts.
        first: The channel whose mid-time amplitudes refer to, and whose length sets the bin; the first one if None.
    """

    def __init__(
        self,
        observation: Observation,
        node: NoiseNode,
        band: tuple[float, float],
        local: bool = False,
        first: Channel | None = None,
    ) -> None:
        self.observation, self.node, self.local = observation, node, local
        self.complex, self.removed = observation.is_complex, observation.removed
        self.waveform: Waveform = TONE
        self.nodes: tuple[GeneralTones, ...] = ()
        """The likelihood under other values of what is unknown of the noise's shape."""
        self.log_weight = node.log_weight
        first = observation.long if first is None else first
        self.reference, self._duration = first.mid_time, first.duration
        reach = MARGIN / self.duration
        low, high = band[0] - reach, band[1] + reach
        self.band, self._limits = band, (low if self.complex else max(low, 0.0), high)
        self.parts = [
            whitened(channel, noise)
            for channel, noise in zip(observation.channels, node.channels, strict=True)
        ]
        self._set_columns()
        self.samples = self._grouped([part.values for part in self.parts])
        self._latest_rest: tuple[bytes, GeneralTones] | None = None
        self._set_energy()

    # ------------------------------------------------------------------ preparation

    def _set_columns(self) -> None:
        """Finds the nuisances' columns of all channels in a row, and how many degrees of freedom they take."""
        tables, precisions = [], []
        for channel, noise, part in zip(
            self.observation.channels, self.node.channels, self.parts, strict=True
        ):
            columns, precision = nuisance_columns(channel, noise, part, self.reference)
            tables.append(columns)
            precisions.append(precision)
        weights = np.concatenate([part.weights for part in self.parts])
        self.columns, self.flat, self.log_modes = orthogonal_columns(tables, precisions, weights)

    def _grouped(self, values: Sequence[NDArray[Any]]) -> list[Samples]:
        """Samples that share a gain, together, less their projection on the nuisances."""
        joined, weights = np.concatenate(values), np.concatenate([p.weights for p in self.parts])
        joined = joined - (self.columns * weights @ joined) @ self.columns
        ends = np.cumsum([len(part.times) for part in self.parts])
        groups: list[list[int]] = []
        for s, part in enumerate(self.parts):
            same = next((g for g in groups if self.parts[g[0]].gain.same(part.gain)), None)
            if same is None:
                groups.append([s])
            else:
                same.append(s)
        found = []
        for group in groups:
            rows = np.concatenate(
                [np.arange(ends[s] - len(self.parts[s].times), ends[s]) for s in group]
            )
            u = np.concatenate([self.parts[s].times for s in group]) - self.reference
            gain = self.parts[group[0]].gain
            found.append(Samples(u, joined[rows], weights[rows], self.columns[:, rows], gain))
        return found

    def rss_by_samples(self, z: Any) -> float:
        """RSS of one set of tones z, (K, 3), summed over the samples: cheaper than `gains` where it is all one asks.

        The whole of the data counts, whatever `local` says.
        """
        left = np.concatenate(self._left(z))
        weights = np.concatenate([part.weights for part in self.parts])
        seen = self.columns * weights @ left
        return float((weights * np.abs(left) ** 2).sum() - (np.abs(seen) ** 2).sum())

    def _set_energy(self) -> None:
        """⟨x, x⟩, or that of its part in the band; the degrees of freedom and the noise's determinant."""
        count = sum(len(s.u) for s in self.samples) * (2 if self.complex else 1)
        self.degrees = count - self.flat * (2 if self.complex else 1)
        raw = np.concatenate([part.values for part in self.parts])
        weights = np.concatenate([part.weights for part in self.parts])
        seen = self.columns * weights @ raw
        energy = float((weights * np.abs(raw) ** 2).sum() - (np.abs(seen) ** 2).sum())
        self.log_scale_ = -0.5 * sum(float(np.log(s.weights).sum()) for s in self.samples)
        self.log_scale_ += self.log_modes
        self.log_scale_ *= 2 if self.complex else 1  # real and imaginary parts
        if self.local:
            f = spanning(self.band, self.limits, self.bin)
            gain = np.abs(self.parts[0].gain(f) / self.observation.long.factor)
            size = np.maximum(gain, 1e-9 * gain.max())  # as many dimensions for any filter
            energy, self.degrees = inside_band(*self.even_amplitude_system(f, size))
            level = -0.5 * float(np.log(weights).mean())
            self.log_scale_ = self.degrees * (level - float(np.log(gain).mean()))
        self.energy: Any = torch.tensor([energy], dtype=torch.float64)

    # ------------------------------------------------------------------ facts

    @property
    def n(self) -> int:
        """Real degrees of freedom of the data."""
        return int(self.degrees)

    @property
    def duration(self) -> float:
        """Length of the first channel in seconds."""
        return self._duration

    @property
    def limits(self) -> tuple[float, float]:
        """The band and a few bins on either side of it, in Hz."""
        return self._limits

    @cached_property
    def period(self) -> float:
        """The sampling rate of complex samples at multiples of a step, some of which may be missing."""
        step, times = self.observation.long.step, self.parts[0].times
        if not self.complex or len(self.parts) > 1:
            return math.inf
        place = (times - times[0]) / step
        return 1 / step if np.abs(place - np.rint(place)).max() < OFF_THE_GRID else math.inf

    @property
    def log_scale(self) -> float:
        """Half the logarithm of the determinant of the noise's covariance over σ²."""
        return self.log_scale_

    @property
    def span(self) -> float:
        """Twice the time from the reference to the furthest sample, in seconds."""
        return max(2 * float(np.abs(s.u).max()) for s in self.samples)

    @cached_property
    def weight(self) -> float:
        """Twice the energy of a tone of unit amplitude, the mean over the band."""
        f = np.linspace(*self.band, 65)[:, None]
        return float(self.overlap(f, f).real.mean())

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        """When the samples of each channel's residual were taken."""
        return tuple(Instants(part.times) for part in self.parts)

    def weight_at(self, f: Array) -> Array:
        """The same at frequencies; same shape."""
        if self._nuisances is None and all(len(s.gain.taps) == 1 for s in self.samples):
            return np.full(np.shape(f), self.weight)
        return self.own_overlap(np.asarray(f))

    def is_single(self, *_: Any) -> bool:
        """NumPy answers, whatever is asked."""
        return True

    # ------------------------------------------------------------------ in time

    def residuals(self, z: Any) -> list[Any]:
        """Each channel's whitened data minus tones z, (K, 3), in units of σ, (N_s,) each."""
        values = self._left(z)
        weights = np.concatenate([p.weights for p in self.parts])
        joined = np.concatenate(values) * np.sqrt(weights)
        rows, share = self._whitening
        joined = joined - (share * (rows @ joined)) @ rows
        ends = np.cumsum([len(value) for value in values])[:-1]
        return list(np.split(joined, ends))

    @cached_property
    def _whitening(self) -> tuple[Array, Array]:
        """What the residual is freed of: directions, (q, N), and the share of each, (q,)."""
        weights = np.concatenate([part.weights for part in self.parts])
        rows = self.columns * np.sqrt(weights)
        return (rows, np.ones(len(rows))) if self.flat == len(rows) else square_root(rows)

    def _left(self, z: Any) -> list[NDArray[Any]]:
        """Each channel's filtered data minus tones z, (K, 3), nuisances and all, (N_s,) each."""
        xi, c = self.waveform.unpack(np.asarray(z))
        found = []
        for part in self.parts:
            u = part.times - self.reference
            tones = (c * part.gain(xi)).T @ phasor(xi * u)  # (1, N)
            found.append(part.values - (tones[0] if self.complex else tones[0].real))
        return found

    def second_order(self, z: Array) -> Array:
        """Σ (x − m) ∂²m/∂z∂z of each tone, (K, 3, 3), for tones z, (K, 3)."""
        (xi, c), bends = self.waveform.unpack(z), np.zeros((*z.shape, z.shape[-1]))
        f, by_f, by_ff = xi[:, 0], np.zeros(len(z), np.complex128), np.zeros(len(z), np.complex128)
        for s in self._grouped(self._left(z)):
            wave = phasor(f[:, None] * s.u) * (s.weights * s.values.conj())
            m_0, m_1, m_2 = (wave @ s.u**p for p in range(3))
            g, slope, bend = (s.gain(f, order) for order in range(3))
            by_f += slope * m_0 + TURN * g * m_1
            by_ff += bend * m_0 + 2 * TURN * slope * m_1 + TURN**2 * g * m_2
        bends[:, 0, 0] = (c[:, 0] * by_ff).real
        bends[:, 0, 1] = bends[:, 1, 0] = by_f.real
        bends[:, 0, 2] = bends[:, 2, 0] = -by_f.imag
        return bends

    # ------------------------------------------------------------------ views

    @property
    def in_numpy(self) -> GeneralTones:
        """The same with its energy in a NumPy array."""
        other = self._copy()
        other.energy = np.asarray(self.energy)
        return other

    def take(self, index: Tensor) -> GeneralTones:
        """The one signal as often as an index, (B',), or the true entries of a mask asks for it."""
        other = self._copy()
        other.energy = self.energy[index]
        return other

    def _copy(self) -> GeneralTones:
        """A copy that shares the curves, which are the same for all."""
        _ = self._windows, self._over_band, self._data, self._nuisances
        other = copy.copy(self)
        other._latest_rest = None
        return other

    def less(self, z: Any) -> GeneralTones:
        """The signal with tones z, (K, 3), taken out of its data; the latest one is kept."""
        key = np.asarray(z).tobytes()
        if self._latest_rest is None or self._latest_rest[0] != key:
            self._latest_rest = key, self._without(z)
        return self._latest_rest[1]

    def _without(self, z: Any) -> GeneralTones:
        """The signal with tones z, (K, 3), taken out of its data."""
        other = self._copy()
        del other.__dict__["_data"]
        other.samples = self._grouped(self._left(z))
        xi, c = self.waveform.unpack(np.asarray(z, dtype=np.float64))
        gain = self.gains(xi[None, None], c[None, None])[0, 0] if len(xi) else 0.0
        other.energy = self.energy[:1] + gain
        return other
