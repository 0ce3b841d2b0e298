r"""From an observation to the network's record, and from the network's numbers back to the user's.

**Record.** A band of an even series of N_0 samples is shifted to zero frequency, and of its Fourier transform the n
bins around the middle are transformed back: a complex series over the same time with n samples, in which noise is as
white as before. Of real data the bins at negative frequencies are left out, and half the amplitude with them.

**Units.** In both worlds a component is c exp Σ ξ_d g_d(t), with exponents of the user's waveform in seconds and of the
network's in units of the record. That they are the same function of time,

.. math:: κ + \sum_d ξ_d\, g_d(t) = \sum_d ξ'_d\, g'_d(u) + 2πi f_0 (t - τ) ,

makes ξ an affine function of ξ' and ln c one of ξ' and ln c', whatever the waveform; it follows by least squares
over a few instants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from slotflow.core.arrays import Array, Complex
from slotflow.data.channel import Channel
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.units import Units
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Classes, Waveform

__all__ = ["ClassMap", "Record", "bounds_of", "record_of"]

INSTANTS = 33
"""Instants over which units are compared."""
OUTSIDE = 10.0
"""Bins beside what components occupy that do not count for the noise level either."""
FEWEST_BINS = 24
"""Bins that a noise level needs."""


class ClassMap(NamedTuple):
    """From the network's coordinates of a class to the user's; D_c shapes."""

    kind: int
    """Number of the class in the network."""
    member: Waveform
    """The user's waveform, settled on the record."""
    matrix: Array
    """Derivatives of ξ by ξ', (D_c, D_c)."""
    offset: Array
    """ξ at ξ' = 0, (D_c,)."""
    log_slope: Complex
    """Derivatives of ln c by ξ', (D_c,)."""
    log_offset: complex
    """Ln c − ln c' at ξ' = 0."""

    def to_user(self, xi: Array, c: Complex) -> tuple[Array, Complex]:
        """The user's ξ, (..., D_c), and c, (...)."""
        return xi @ self.matrix.T + self.offset, c * np.exp(xi @ self.log_slope + self.log_offset)

    def theta(self, xi: Array, c: Complex, reference: float) -> Array:
        """The user's θ, (..., P_c), of the network's ξ and c.

        Args:
            xi: (..., E), of which the first D_c are the class's own.
            c: (...).
            reference: τ, in seconds.
        """
        user, amplitude = self.to_user(xi[..., : len(self.offset)], c)
        theta: Array = self.member.join(user, amplitude[..., None], reference)
        return theta

    def to_network(self, xi: Array, c: Complex) -> tuple[Array, Complex]:
        """The network's ξ, (..., D_c), and c, (...)."""
        own = (xi - self.offset) @ np.linalg.inv(self.matrix).T
        return own, c * np.exp(-(own @ self.log_slope + self.log_offset))


@dataclass(frozen=True, eq=False)
class Record:
    """A band of a channel as the network reads it."""

    x: Complex
    """Samples, (n,), in units of `level`."""
    level: float
    """Noise level of the samples that x was divided by, as the user counts it: σ."""
    maps: tuple[ClassMap, ...]
    """Of each class of the user's waveform."""
    start: float
    """When it begins, in seconds."""
    reference: float
    """τ, in seconds."""
    duration: float
    """T, in seconds."""

    def rescaled(self, factor: float) -> Record:
        """The same in units of a noise level that is larger by a factor."""
        maps = tuple(one._replace(log_offset=one.log_offset + np.log(factor)) for one in self.maps)
        return Record(
            self.x / factor, self.level * factor, maps, self.start, self.reference, self.duration
        )


def record_of(channel: Channel, prior: Prior, units: Units) -> Record | None:
    """The record of a channel; None where it is not even, or the prior has a waveform that the network does not know.

    Args:
        channel: Even samples, real or complex.
        prior: Gives band and classes.
        units: Of the network.
    """
    waveform = prior.waveform
    if not channel.is_even or not isinstance(waveform, Classes):
        return None
    known = [member.name for member in units.waveform.members.values()]
    names = [member.name for member in waveform.members.values()]
    if len(set(names)) < len(names) or not set(names) <= set(known):
        return None
    grid, n = channel.grid, units.fine.n
    middle = 0.5 * (prior.frequency[0] + prior.frequency[1])
    y, factor = _shifted(channel, middle, n)
    reach = 0.5 * (prior.frequency[1] - prior.frequency[0])
    occupied = waveform.occupied(prior.frequency, grid.duration)
    reach = max(reach, *(abs(edge - middle) for pair in occupied for edge in pair))
    level = _level(y, prior, channel, reach * grid.duration + OUTSIDE)
    spread = level / (np.sqrt(0.5) if channel.is_complex else 1.0)  # of |noise| in y
    t = grid.t0 + np.linspace(0.0, 1.0, INSTANTS) * grid.duration
    u = (t - grid.t0) / grid.duration - 0.5 * (n - 1) / n
    settled = waveform.on(float(grid.t0), grid.mid_time)
    members = list(units.waveform.members.values())
    maps = []
    for member in settled.members.values():
        kind = known.index(member.name)
        shift: Complex = (2j * np.pi * middle * (t - grid.mid_time)).astype(np.complex128)
        one = _map(
            kind, member, member.exponents(t - grid.mid_time), members[kind].exponents(u), shift
        )
        maps.append(one._replace(log_offset=one.log_offset + np.log(spread / factor)))
    return Record(y / spread, level, tuple(maps), grid.t0, grid.mid_time, grid.duration)


def bounds_of(
    record: Record, prior: Prior, units: Units, outer: Bounds, gain: tuple[float, float]
) -> tuple[Bounds, bool]:
    """What the network is told of a prior, (1, ·), and whether that is all of it.

    Args:
        record: Gives the maps of the classes.
        prior: The user's.
        units: Of the network.
        outer: The widest bounds of the training, within which what is told is kept.
        gain: Smallest and largest ρ.
    """
    low, high = outer.low[0].clone(), outer.high[0].clone()
    allowed = torch.zeros_like(outer.allowed[0])
    half = 0.5 * (prior.frequency[1] - prior.frequency[0]) * record.duration
    low[0], high[0] = -half, half
    for one in record.maps:
        allowed[one.kind] = True
        for d, name in enumerate(one.member.shape):
            law = one.member.ranges.get(name)
            if law is not None:
                column = units.names.index(name)
                edges = torch.tensor([[law.low], [law.high]]) / float(one.matrix[d, d])
                edges = torch.where(
                    units.positive[column].cpu(), edges.clamp_min(1e-3).log(), edges
                )
                low[column], high[column] = edges.min(), edges.max()
    slack = 0.01 * (outer.high[0] - outer.low[0])
    whole = bool(((low >= outer.low[0] - slack) & (high <= outer.high[0] + slack)).all())
    low, high = low.maximum(outer.low[0]), high.minimum(outer.high[0])
    gains = torch.tensor([gain], device=low.device)
    return Bounds(low[None], high.maximum(low + 1e-3)[None], allowed[None], gains), whole


def _shifted(channel: Channel, middle: float, n: int) -> tuple[Complex, float]:
    """The n bins around a frequency as a series, (n,), and the factor between amplitudes in it and in the data.

    Noise of |noise|² = s² in complex data, or of the level s in real ones, is noise of |noise|² = s² in the series.
    """
    grid, values = channel.grid, np.asarray(channel.values)
    size, t = grid.n, grid.times - grid.mid_time
    if channel.trend >= 0:
        values = values - values.mean()
    spectrum = np.fft.fft(values * np.exp(-2j * np.pi * middle * t)) / np.sqrt(size)
    bins = np.arange(n) - n // 2
    there = (bins >= -(size // 2)) & (bins < (size + 1) // 2)
    if not channel.is_complex:
        there &= bins + middle * grid.duration > 0
    kept = np.where(there, spectrum[bins % size], 0.0)
    series = np.fft.ifft(np.fft.ifftshift(kept)) * np.sqrt(n)
    factor = np.sqrt(size / n) * (1.0 if channel.is_complex else 0.5)
    return series, float(factor)


def _level(y: Complex, prior: Prior, channel: Channel, reach: float) -> float:
    """Noise level σ: the known one, or the median power outside of what components occupy, else of all bins."""
    if prior.known_sigma:
        return float(prior.known_sigma)
    power = np.abs(np.fft.fftshift(np.fft.fft(y))) ** 2 / len(y)
    bins = np.arange(len(y)) - len(y) // 2
    outside = (np.abs(bins) > reach) & (power > 0)
    chosen = power[outside] if outside.sum() >= FEWEST_BINS else power[power > 0]
    spread = np.sqrt(np.median(chosen) / np.log(2)) if len(chosen) else 1.0
    return float(spread * (np.sqrt(0.5) if channel.is_complex else 1.0))


def _map(kind: int, member: Waveform, user: Complex, network: Complex, shift: Complex) -> ClassMap:
    """The map of a class, from exponents of both worlds, (D_c, 1, I), and what the shift of the band adds, (I,)."""
    functions = np.asarray(user)[:, 0]
    d, size = functions.shape
    one, zero = np.ones((size, 1)), np.zeros((size, 1))
    design = np.block([[functions.real.T, one, zero], [functions.imag.T, zero, one]])
    wanted = np.concatenate([np.asarray(network)[:, 0], shift[None]])  # (D_c + 1, I)
    scale = np.abs(design).max(0)
    solved = np.linalg.lstsq(
        design / scale, np.concatenate([wanted.real, wanted.imag], 1).T, rcond=None
    )[0]
    solved = solved / scale[:, None]
    kappa = solved[d] + 1j * solved[d + 1]
    return ClassMap(kind, member, solved[:d, :d], solved[:d, d], kappa[:d], complex(kappa[d]))
