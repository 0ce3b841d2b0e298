r"""Tones fitted together to a spectrum: what they leave, where it peaks, and fits of all of them.

**Candidates.** Every maximum of the residual's spectrum P(f) above the threshold (`floor.py`) is a candidate.
Candidates are taken in the order of their amplitudes as long as the leakage of those taken before, A_j |W(f_i,
f_j)|/W(f_i, f_i), cannot explain them; what is deferred shows again in the next round if it is real. A maximum right
beside a tone that is there already is taken only when nothing else is left, since what remains beside a tone is mostly
the leakage of others.

**Fits.** All tones are refitted by Gauss–Newton (`signal/fit.py`), jointly in blocks of neighbours, each block on data
without the tones of the others. The offset or trend that was subtracted from the data follows the tones (`level.py`):
if that moves it by more than a small part of what the noise allows, the tones are fitted once more.

The likelihood may be any: times, weights, nuisances and filters enter through its inner products only.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.bands.floor import HANN_GAIN, local_floor, tapered
from slotflow.bands.level import Levels
from slotflow.core.arrays import Array, Complex
from slotflow.signal.fit import fit, linear_amplitudes
from slotflow.signal.likelihood import Likelihood

__all__ = [
    "COINCIDENT",
    "FALSE_ALARM",
    "FINE_STEPS",
    "MOST_TONES",
    "POINTS_PER_BIN",
    "STRAY",
    "SpectrumFit",
]

FALSE_ALARM = 0.01
"""Probability that noise alone gives a candidate anywhere in the band."""
POINTS_PER_BIN = 4
"""Points of the spectrum per bin."""
MOST_TONES = 600
"""Tones at most."""
APART = 1.0
"""Smallest distance in bins of two candidates of one round."""
BESIDE = 0.75
"""Distance in bins from a tone within which a maximum is taken last."""
COINCIDENT = 0.15
"""Distance in bins at which two fitted tones are one."""
LEAKAGE = 3.0
"""A candidate has so many times the amplitude that others may leak to its place."""
BLOCK = 250
"""Most tones that are fitted jointly."""
ROUGH_STEPS, FINE_STEPS = 4, 15
"""Gauss–Newton steps of a fit on the way and in the end."""
ROUGH = 1e-2
"""Decrement at which a fit ends: a tenth of a standard deviation from the maximum."""
SMALLEST_ENERGY = 1e-6
"""Smallest energy of a tone over the largest: nothing is seen where a nuisance takes all of it."""
ROUNDING = 1e-7
"""Noise that is not told from rounding, in units of the data's root mean square."""
STRAY = 1.5
"""Bins that a tone may move in one fit; one that goes further is dropped."""
SETTLED = 0.01
"""Energy over the noise's σ² that a change of offset or trend may have and not be followed by another fit."""
MOST_LEVELS = 4
"""Fits in a row after each of which offset and trend may move."""


@dataclass(eq=False)
class SpectrumFit:
    """Tones between two frequencies, fitted together, and what they leave.

    Args:
        likelihood: Of one signal.
        band: Lowest and highest frequency in Hz.
        deadline: When to end, on the clock of `time.perf_counter`.
        levels: The offsets and trends that its data are without, if these are to follow the tones.
    """

    likelihood: Likelihood
    band: tuple[float, float]
    deadline: float
    levels: Levels | None = None
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.waveform = self.likelihood.waveform
        self.theta = np.zeros((0, self.waveform.size))
        step = self.likelihood.bin / POINTS_PER_BIN
        low, high = self.band
        points = max(math.floor((high - low) / step) + 1, 2)
        self.frequencies: Array = low + step * np.arange(points, dtype=np.float64)
        shapes = self.frequencies[:, None]
        energy = np.abs(np.asarray(self.likelihood.overlap(shapes, shapes))).reshape(-1)
        self.energy = np.maximum(energy, SMALLEST_ENERGY * energy.max())  # W(f)
        self.rounding = ROUNDING**2 * float(self.likelihood.energy[0]) / self.likelihood.n
        self.tried = np.zeros(0)
        self._rest: tuple[Array, Any] | None = None
        self.visible = self.level = np.zeros_like(self.frequencies)
        self.known_level = np.full_like(self.frequencies, np.nan)
        """Power of the noise where it is known, (F,); NaN elsewhere."""
        self.cost = math.inf
        """Power over a known noise level that a tone must have."""
        self.likeliest = low

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() > self.deadline

    @property
    def places(self) -> Array:
        """Frequencies of the tones so far, (K,)."""
        return self.waveform.place_of(self.theta)

    def without(self, theta: Array) -> Any:
        """The likelihood of the data without some tones; the latest answer is kept."""
        if not len(theta):
            return self.likelihood
        if self._rest is None or not np.array_equal(self._rest[0], theta):
            self._rest = theta.copy(), self.likelihood.less(self.likelihood.to_z(theta))
        return self._rest[1]

    def _matched(self) -> Complex:
        """D(f) of what the tones leave, (F,)."""
        found = self.without(self.theta).matched(self.frequencies[None, :, None])
        matched: Complex = np.asarray(found).reshape(-1)
        return matched

    def power(self) -> Array:
        """P(f) of what the tones leave, (F,)."""
        found: Array = np.abs(self._matched()) ** 2 / self.energy
        return found

    def spectra(self) -> list[tuple[Array, Array]]:
        """P(f) of what the tones leave and the smallest power that counts, (F,) each, without and with a taper.

        Powers of the tapered data are those of a tone that would show so high.
        """
        matched = self._matched()
        plain = np.abs(matched) ** 2 / self.energy
        smooth = tapered(matched, self.energy, POINTS_PER_BIN)
        found = []
        for power, gain in ((plain, 1.0), (smooth, HANN_GAIN)):
            floor = local_floor(
                np.maximum(power, self.rounding),
                self.frequencies,
                self.likelihood.bin,
                self.places,
                0.5 * FALSE_ALARM,
            ).where_known(self.known_level)
            self.cost = floor.certain
            found.append((power / gain, floor.visible / gain))
            self.level = np.sqrt(floor.level)
        return found

    def candidates(self, apart: float = APART, comparable: float = 0.0) -> Array:
        """Frequencies of the maxima to take next, (C,).

        Args:
            apart: Smallest distance of two of them in bins.
            comparable: Smallest amplitude of one of them over that of the strongest.
        """
        parts = [self._maxima(power, visible) for power, visible in self.spectra()]
        f, amplitude = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(-amplitude, kind="stable")
        f, amplitude = f[order], amplitude[order]
        chosen = _nearest(f, self.places) > BESIDE * self.likelihood.bin
        if not chosen.any():  # maxima beside tones are tried once
            chosen = _nearest(f, self.tried) > COINCIDENT * self.likelihood.bin
            self.tried = np.append(self.tried, f[chosen])
        f, amplitude = f[chosen], amplitude[chosen]
        strong = amplitude >= comparable * amplitude.max(initial=0.0)
        return self._unexplained(f[strong], amplitude[strong], apart * self.likelihood.bin)

    def _maxima(self, power: Array, visible: Array) -> tuple[Array, Array]:
        """Frequencies of the maxima of a spectrum that count, and their amplitudes as the filter sees them, (C,)."""
        top = (power[1:-1] >= power[:-2]) & (power[1:-1] > power[2:])
        index = 1 + np.flatnonzero(top & (power > visible)[1:-1])
        return self._interpolated(power, index), np.sqrt(power[index] / self.energy[index])

    def _interpolated(self, power: Array, index: NDArray[np.int64]) -> Array:
        """Frequencies of maxima, by a parabola through three points of the logarithm."""
        left, top, right = (np.log(power[index + d] + 1e-300) for d in (-1, 0, 1))
        bend = left - 2 * top + right
        shift = np.where(bend < 0, 0.5 * (left - right) / np.minimum(bend, -1e-12), 0.0)
        step = self.frequencies[1] - self.frequencies[0]
        found: Array = self.frequencies[index] + step * np.clip(shift, -0.5, 0.5)
        return found

    def _unexplained(self, f: Array, amplitude: Array, apart: float) -> Array:
        """Candidates, the strongest first, that the leakage of those before them cannot explain, so far apart in Hz."""
        room = MOST_TONES - len(self.theta)
        f, amplitude = f[:room], amplitude[:room]
        shapes = f[:, None]
        overlap = np.abs(np.asarray(self.likelihood.overlap(shapes[:, None], shapes)))
        overlap = overlap.reshape(len(f), len(f))
        leaked = (amplitude * overlap / np.maximum(np.diag(overlap), 1e-300)[:, None]) ** 2
        taken: list[int] = []
        for i in range(len(f)):
            explained = LEAKAGE * math.sqrt(float(leaked[i, taken].sum()))
            near = np.abs(f[taken] - f[i]) < apart
            if amplitude[i] > explained and not near.any():
                taken.append(i)
        return f[taken]

    def add(self, places: Array) -> None:
        """Adds tones at some frequencies and fits all of them."""
        rest = self.without(self.theta)
        new = linear_amplitudes(rest, torch.from_numpy(places[None].copy()))[0].numpy()
        self.theta = self.waveform.sorted(np.concatenate([self.theta, new]))
        self.fit(ROUGH_STEPS)

    def fit(self, steps: int) -> None:
        """Fits all tones, again where that has moved the level of the data."""
        for _ in range(MOST_LEVELS):
            self._fit_blocks(steps)
            if not self._level_moves() or self.out_of_time:
                break

    def _level_moves(self) -> bool:
        """Puts offset and trend of the data where the tones leave them, if that makes a difference."""
        if self.levels is None or not self.levels.follow:
            return False
        levels = self.levels.beside(self.theta)
        if levels.apart(self.levels) <= SETTLED * self.rss / self.likelihood.n:
            return False
        self.levels, self.likelihood, self._rest = levels, levels.likelihood, None
        return True

    def _fit_blocks(self, steps: int) -> None:
        """Fits all tones, block by block."""
        blocks = _blocks(self.places, BLOCK)
        for block in blocks:
            if self.out_of_time and len(blocks) > 1:
                break
            others = np.delete(self.theta, np.arange(block.start, block.stop), axis=0)
            start = self.theta[block]
            found = (
                fit(
                    self.without(others),
                    torch.from_numpy(start[None].copy()),
                    max_iterations=steps,
                    max_shift=STRAY,
                    tolerance=ROUGH,
                    curvature=False,
                )
                .theta[0]
                .numpy()
            )
            lost = np.abs(self.waveform.place_of(found) - self.waveform.place_of(start))
            found[~(lost <= STRAY * self.likelihood.bin)] = np.nan
            self.theta[block] = found
        self._tidy()

    @property
    def rss(self) -> float:
        """Sum of squares that the tones leave."""
        return float(np.ravel(self.without(self.theta).energy)[0])

    def settle(self) -> None:
        """Fits all tones until they rest; if some get lost on the way, which costs more than it gains, none moves."""
        before = self.theta.copy()
        self.fit(FINE_STEPS)
        if len(self.theta) < len(before):
            after, rss = self.theta, self.rss
            self.theta = before
            if rss <= self.rss:
                self.theta = after

    def _tidy(self) -> None:
        """Drops tones that got lost, left the band or ended where a stronger one is."""
        (low, high), place = self.band, self.places
        kept = self.theta[np.isfinite(self.theta).all(-1) & (place >= low) & (place <= high)]
        kept = self.waveform.sorted(kept)
        gaps = np.diff(self.waveform.place_of(kept)) < COINCIDENT * self.likelihood.bin
        size = self.waveform.of(kept, "amplitude")
        weaker = np.flatnonzero(gaps) + (size[1:] < size[:-1])[gaps]
        self.theta = np.delete(kept, weaker, axis=0)


def _nearest(f: Array, places: Array) -> Array:
    """Distance of each frequency, (C,), to the nearest of some places, (K,); inf if there is none."""
    if not len(places):
        return np.full(len(f), np.inf)
    ranked = np.concatenate([[-np.inf], np.sort(places), [np.inf]])
    right = np.searchsorted(ranked, f)
    found: Array = np.minimum(f - ranked[right - 1], ranked[right] - f)
    return found


def _blocks(places: Array, most: int) -> list[slice]:
    """Runs of sorted places of at most so many, cut at wide gaps; a list of slices."""
    if len(places) <= most:
        return [slice(0, len(places))] if len(places) else []
    # The cut lies at the widest gap of the middle half, so that no block is much smaller than another.
    quarter = len(places) // 4
    gaps = np.diff(places)[quarter : len(places) - quarter]
    cut = quarter + int(gaps.argmax()) + 1
    left, right = _blocks(places[:cut], most), _blocks(places[cut:], most)
    return left + [slice(cut + part.start, cut + part.stop) for part in right]
