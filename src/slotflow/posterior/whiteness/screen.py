r"""The tests of a residual for many signals at once: p-values alone, from sums on the device where the data are.

Even, real series on common grids in white noise have the tests of `check_residual`, of which `made.py` is the first
form and the test of this one. Sums over samples and frequencies are taken in torch, the laws (`laws.py`) then see a few
numbers of each signal. A signal that has anything to be said about, in words or for other reasons, is left to
`check_residual`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.data.sampling import Grid
from slotflow.posterior.whiteness import lags, samples, spectrum
from slotflow.posterior.whiteness.laws import (
    any_of,
    chi_square_test,
    f_test,
    kurtosis_score,
    normal_test,
    peak_probability,
    share_test,
    skewness_score,
)
from slotflow.posterior.whiteness.left import channel_labels
from slotflow.posterior.whiteness.made import ROUNDING
from slotflow.signal.likelihood import Statistics
from slotflow.signal.model import component_sum

__all__ = ["Screened", "screen"]

Band = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Screened:
    """Tests of the residuals of B signals."""

    p_values: dict[str, Array]
    """P-values by the names of the tests, (B,) each."""
    doubts: dict[str, float]
    """P-values below which a result is not called exact, of tests that have such a limit."""
    odd: NDArray[np.bool_]
    """Signals that these tests are not made for, (B,): repeated values, or nothing left but rounding."""

    def pass_at(self, false_alarm: float, margin: float = 1.01) -> NDArray[np.bool_]:
        """Which signals pass all tests beyond doubt, (B,).

        Args:
            false_alarm: Rate of alarms of all tests together.
            margin: By how much p-values must exceed their limits, for what rounding may change.
        """
        limit = false_alarm / max(len(self.p_values), 1)
        passed = ~self.odd
        for name, p in self.p_values.items():
            passed &= p > margin * max(limit, self.doubts.get(name, 0.0))
        return passed


@dataclass(frozen=True, eq=False)
class _Series:
    """What is left of one channel of B signals."""

    label: str
    rest: Tensor
    """(B, N)."""
    grid: Grid
    places: Array
    """Frequencies of the tones that were taken out, (B, K)."""
    each: float
    """Degrees of freedom that went with each of them in this channel."""
    unseen: float
    """Those that were taken before."""

    @property
    def total(self) -> float:
        """All that were taken."""
        return self.each * int(self.places.shape[1]) + self.unseen

    @property
    def dof(self) -> float:
        """Degrees of freedom that are left."""
        return float(self.grid.n - self.total)

    @property
    def bin(self) -> float:
        """1/T, in Hz."""
        return 1 / (self.grid.n * self.grid.dt)


def screen(
    statistics: Statistics, z: Tensor, band: Band, sigma: float | None = None
) -> Screened | None:
    """The tests of what tones leave of B signals; None where the band leaves too little to compare it with.

    Args:
        statistics: Of B signals.
        z: The tones, (B, K, Z).
        band: Frequencies in Hz that may hold tones.
        sigma: Noise level, if it is known.
    """
    several = _left(statistics, z)
    odd = torch.zeros(len(z), dtype=torch.bool, device=z.device)
    for s in range(len(several)):
        odd |= _repeats(statistics.series(s))
    size = (statistics.energy / statistics.n).sqrt()
    odd |= ~((several[0].rest ** 2).mean(-1).sqrt() > ROUNDING * size)
    p_values = _spectrum(several[0], band)
    if p_values is None:
        return None
    doubts = dict[str, float]()
    power = [_numpy((one.rest**2).sum(-1)) for one in several]
    for one, whole in zip(several, power, strict=True):
        if sigma is not None:
            p_values[f"stated level ({one.label})"] = chi_square_test(whole / sigma**2, one.dof)
        correlations = _lags(one, whole)
        p_values |= correlations | _steadiness(one, whole) | _shape(one)
        p_values[f"repeats ({one.label})"] = np.ones(len(z))
        if one.total > lags.MUCH_TAKEN * one.dof:
            doubts |= dict.fromkeys(correlations, lags.DOUBT)
    if sigma is None:
        levels = [whole / max(one.dof, 1.0) for one, whole in zip(several, power, strict=True)]
        for one, level in zip(several[1:], levels[1:], strict=True):
            ratio = level / np.maximum(levels[0], 1e-300)
            p_values[samples.streams_name(one.label)] = f_test(ratio, one.dof, several[0].dof)
    return Screened(p_values, doubts, odd.cpu().numpy())


def _left(statistics: Statistics, z: Tensor) -> list[_Series]:
    """What tones leave of each channel."""
    waveform, (xi, c) = statistics.waveform, statistics.waveform.unpack(z)
    places = _numpy(waveform.place_in_z(z))
    several = len(statistics.grids) > 1
    labels = channel_labels([grid.duration for grid in statistics.grids]) if several else ("long",)
    found = []
    for s, (grid, ratio) in enumerate(zip(statistics.grids, statistics.ratios, strict=True)):
        model = component_sum(xi, c / ratio, grid, statistics.reference, waveform)
        each = waveform.coordinates * grid.n / statistics.n
        rest = statistics.series(s) - model
        unseen = each * statistics.removed
        found.append(_Series(labels[s], rest, grid, places, each, unseen))
    return found


def _repeats(data: Tensor) -> Tensor:
    """Whether series, (B, N), hold so many equal samples that they need a closer look, (B,)."""
    equal = (data[:, 1:] == data[:, :-1]).sum(-1) >= samples.RUN - 1
    lowest, highest = data.amin(-1, keepdim=True), data.amax(-1, keepdim=True)
    ends = torch.maximum((data == lowest).sum(-1), (data == highest).sum(-1))
    return equal | (ends >= samples.RUN)


def _spectrum(one: _Series, band: Band) -> dict[str, Array] | None:
    """Peaks, level and colour of the first channel."""
    n, bins = one.grid.n, one.bin
    f = np.arange(n // 2 + 1, dtype=np.float64) * bins
    fine = np.arange(2 * n + 1, dtype=np.float64) * bins / spectrum.PADDING
    outer = ~_within(f, band, spectrum.GUARD * bins) & _inner(f, one.grid, 0.5 * bins)
    count = int(outer.sum())
    if count < spectrum.FEWEST_FOR_COLOUR:
        return None
    inner = _within(f, band, 0.0)
    power = torch.fft.rfft(one.rest).abs() ** 2 / n
    outside = power[:, torch.from_numpy(np.flatnonzero(outer)).to(power.device)]
    level = outside.mean(-1).clamp_min(1e-300)
    found = _peaks(one, fine, band, level, count)
    taken = one.each * ((one.places >= band[0]) & (one.places <= band[1])).sum(-1)
    dof = 2.0 * float(inner.sum()) - taken
    if not (dof > 8).all():
        return None
    inside = power[:, torch.from_numpy(np.flatnonzero(inner)).to(power.device)].sum(-1)
    found["level"] = f_test(_numpy(2 * inside / level) / dof, dof, 2.0 * count)
    steps = torch.arange(1, count + 1, dtype=torch.float64, device=power.device) / count
    cumulative = outside.cumsum(-1) / outside.sum(-1, keepdim=True)
    distance = (cumulative - steps)[:, :-1].abs().amax(-1)
    found["colour"] = spectrum.colour_test(_numpy(distance), float(count))
    lowest = spectrum.lowest_of(count)
    ratio = _numpy(outside[:, :lowest].mean(-1) / outside[:, lowest:].mean(-1))
    found["low frequencies"] = f_test(ratio, 2 * lowest, 2 * (count - lowest))
    return found


def _peaks(one: _Series, f: Array, band: Band, level: Tensor, count: int) -> dict[str, Array]:
    """The highest peaks in the band and outside, over a level from so many frequencies."""
    bins, n = one.bin, one.grid.n
    power = torch.fft.rfft(one.rest, spectrum.PADDING * n).abs() ** 2 / n / level[:, None]
    wide = _inner(f, one.grid, 1.5 * bins)
    near = _within(f, band, spectrum.GUARD * bins)
    found = {}
    for name, where in (("peak in the band", near & wide), ("peak outside the band", ~near & wide)):
        if where.sum() < 8:
            continue
        mask = torch.from_numpy(where).to(power.device)
        top = torch.where(mask, power, 0.0).argmax(-1).clamp(1, power.shape[1] - 2)
        beside = top[:, None] + torch.arange(-1, 2, device=power.device)
        a, b, c = (_numpy(x) for x in power.gather(1, beside).unbind(-1))
        bend = np.minimum(a - 2 * b + c, -1e-300)
        height = np.where(a - 2 * b + c < 0, b - (a - c) ** 2 / (8 * bend), b)
        z = spectrum.height_outside(height, 2.0 * count)
        found[name] = peak_probability(z, float(where.sum()) / spectrum.PADDING)
    return found


def _within(f: Array, band: Band, edge: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (f >= band[0] - edge) & (f <= band[1] + edge)
    return inside


def _inner(f: Array, grid: Grid, edge: float) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (f > edge) & (f < grid.nyquist - edge)
    return inside


def _lags(one: _Series, whole: Array) -> dict[str, Array]:
    """Correlations from sample to sample."""
    n = one.grid.n
    several = np.arange(1, min(lags.FARTHEST, n // 8) + 1)
    if one.dof < lags.FEWEST or not len(several):
        return {}
    rest = one.rest
    products = [(rest[:, :-lag] * rest[:, lag:]).sum(-1) for lag in several.tolist()]
    r = _numpy(torch.stack(products, -1)) / np.maximum(whole, 1e-300)[:, None]  # (B, L)
    turns = np.cos(2 * math.pi * one.grid.dt * one.places[:, None] * several[:, None])
    first, second = one.each * turns.sum(-1), one.each * (turns**2).sum(-1)
    slack = one.unseen / max(one.dof, 1.0)
    p = lags.correlation_test(r, first, second, 0.5 * (n - several), one.dof, slack)
    found = {f"neighbours ({one.label})": p[:, 0]}
    if len(several) > 1:
        found[f"lags ({one.label})"] = any_of(p[:, 1:].min(-1), len(several) - 1)
    return found


def _steadiness(one: _Series, whole: Array) -> dict[str, Array]:
    """The power in pieces of the series."""
    n, found = one.grid.n, {}
    running = torch.nn.functional.pad((one.rest**2).cumsum(-1), (1, 0))
    for pieces in samples.PIECES:
        if n < samples.SMALLEST_PIECE * pieces:
            continue
        sizes = n // pieces + (np.arange(pieces) < n % pieces)
        edges = torch.from_numpy(np.append(0, np.cumsum(sizes))).to(running.device)
        share = _numpy(running[:, edges].diff(dim=-1)) / np.maximum(whole, 1e-300)[:, None]
        dof = sizes.astype(np.float64)
        if n % pieces == 0:  # of equal pieces only the weakest and the strongest can be the worst
            ends = np.stack([share.min(-1), share.max(-1)], -1)[..., None]
            parts = np.array([dof[0], n - dof[0]])
            p = share_test(np.concatenate([ends, 1 - ends], -1), parts)[..., 0]
        else:
            p = share_test(share, dof)
        found[f"steadiness ({one.label}, {pieces})"] = any_of(p.min(-1), pieces)
    return found


def _shape(one: _Series) -> dict[str, Array]:
    """Skewness and kurtosis."""
    if one.grid.n < samples.FEWEST_FOR_SHAPE:
        return {}
    unit = one.rest - one.rest.mean(-1, keepdim=True)
    unit = unit / unit.std(-1, correction=0, keepdim=True).clamp_min(1e-300)
    square = unit * unit
    skewness, kurtosis = _numpy((square * unit).mean(-1)), _numpy((square * square).mean(-1)) - 3
    return {
        f"kurtosis ({one.label})": normal_test(kurtosis_score(kurtosis, one.grid.n)),
        f"skewness ({one.label})": normal_test(skewness_score(skewness, one.grid.n)),
    }


def _numpy(x: Tensor) -> Array:
    found: Array = x.cpu().numpy()
    return found
