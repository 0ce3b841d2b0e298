r"""When the samples of a file were taken: its stamps in order, each of them once, and even where they are even.

Stamps may be absent, out of order, or repeated. Samples without a stamp are left out, the others are put in order, and
samples of one instant become their weighted mean, with weights 1/ε² where errors ε are known:

.. math:: \bar x = \frac{Σ x_i/ε_i^2}{Σ 1/ε_i^2}, \qquad \bar ε = \left(Σ 1/ε_i^2\right)^{-1/2}.

Stamps of few digits are put back on the even grid that they were rounded from (`slotflow.data.gaps.rounded_grid`).
Stamps that leave out some places of an even grid are taken as that grid, with missing samples. All others are kept as
they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.data.gaps import even_step, missing_stamps, moved_note, rounded_grid
from slotflow.data.read.timestamps import Stamps

__all__ = ["GRID_SLACK", "MERGED", "Timeline", "timeline_of"]

Array = NDArray[Any]

GRID_SLACK = 0.05
"""Share of a step by which two accounts of the same time grid may differ at most."""
LARGEST_REPEATED_SHARE = 0.1
"""Share of samples with the stamp of another one up to which they are merged: beyond, the stamps lack digits, or the
table holds several series."""
MERGED = "had the time stamp of another"
"""What the note on merged samples says."""


@dataclass(frozen=True)
class Timeline:
    """The instants of a series, and how the samples of the file are put on them.

    Args:
        n: Number of instants, those of missing samples included.
        step: Step of an even grid; the median step of any other instants.
        seconds: Seconds after the first instant, (n,); None on an even grid.
        order: Which samples of the file have a stamp, in the order of their stamps, (m,); None: all, as they are.
        places: The instant of each of them, (m,); None: one after another.
        shift: Seconds from the first stamp of the file to the first instant.
        notes: What was done, in words.
    """

    n: int
    step: float
    seconds: NDArray[np.float64] | None = None
    order: NDArray[np.int64] | None = None
    places: NDArray[np.int64] | None = None
    shift: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def is_even(self) -> bool:
        """Whether the instants are an even grid, of which samples may be missing."""
        return self.seconds is None

    @property
    def duration(self) -> float:
        """Seconds that the instants span."""
        return self.n * self.step if self.seconds is None else float(self.seconds[-1])

    def labels(self, labels: Array) -> Array:
        """One whole number per sample of the file as one per instant, (n,); a missing sample has its neighbour's."""
        found = labels if self.order is None else labels[self.order]
        if self.places is None:
            return found
        last = np.searchsorted(self.places, np.arange(self.n), side="right") - 1
        return np.asarray(found[last])

    def arranged(self, values: Array, errors: Array | None) -> tuple[Array, Array | None]:
        """Samples and errors of the file on the instants.

        Args:
            values: Samples, (m,) as in the file, NaN where one is missing.
            errors: Their errors, (m,), or None.

        Returns:
            Samples and errors, (n,), NaN where one is missing.
        """
        if self.order is not None:
            values = values[self.order]
            errors = None if errors is None else errors[self.order]
        if self.places is None:
            return values, errors
        present = ~np.isnan(values)
        if errors is not None:
            present &= ~np.isnan(errors)
        places, kept = self.places[present], values[present]
        weights = np.ones(kept.size) if errors is None else errors[present] ** -2.0
        total = np.bincount(places, weights, self.n)
        total[total == 0] = math.nan
        mean = np.bincount(places, weights * kept.real, self.n) / total
        if kept.dtype.kind == "c":
            mean = mean + 1j * (np.bincount(places, weights * kept.imag, self.n) / total)
        alone = np.bincount(places, minlength=self.n)[places] == 1
        mean[places[alone]] = kept[alone]  # without the rounding of a mean
        return mean, None if errors is None else total**-0.5


def timeline_of(stamps: Stamps) -> Timeline:
    """The instants that time stamps tell of."""
    t, notes = stamps.seconds, []
    order: NDArray[np.int64] | None = None
    if absent := int((~np.isfinite(t)).sum()):
        order = np.flatnonzero(np.isfinite(t))
        notes.append(f"{absent} of {t.size} samples without a time stamp left out")
        t = t[order]
    backward = int((np.diff(t) < 0).sum())
    if backward:
        by_time = np.argsort(t, kind="stable")
        order = by_time if order is None else order[by_time]
        t = t[by_time]
        falling = backward == t.size - 1
        said = "falling" if falling else f"out of order in {backward} place(s)"
        notes.append(f"time stamps {said}: samples sorted by time")
    shift = float(t[0]) if t.size else 0.0
    t = t - shift
    places: NDArray[np.int64] | None = None
    fresh = np.diff(t, prepend=-math.inf) > 0
    if repeated := int((~fresh).sum()):
        _check_repeated(repeated, t)
        places = np.cumsum(fresh) - 1
        notes.append(f"{repeated} of {t.size} samples {MERGED}: merged into their weighted mean")
        t = t[fresh]
    if t.size < 2:
        raise ValueError(
            f"expected at least 2 time stamps, received {t.size}: one sample is no series; check the file, or record "
            "more."
        )
    if (grid := rounded_grid(t, stamps.resolution)) is not None:
        notes += moved_note(t, grid)
        shift, t = shift + float(grid[0]), grid - grid[0]
    if (step := even_step(t)) is not None:
        return Timeline(t.size, step, None, order, places, shift, tuple(notes))
    if (gridded := missing_stamps(t, stamps.resolution)) is not None:
        n = int(gridded[-1]) + 1
        notes.append(f"{n - t.size} of {n} time stamps of an even grid absent")
        places = gridded if places is None else gridded[places]
        return Timeline(n, float(t[-1]) / (n - 1), None, order, places, shift, tuple(notes))
    steps = np.diff(t)
    notes.append(
        f"uneven time stamps kept as they are: steps from {steps.min():.6g} to {steps.max():.6g} s"
    )
    return Timeline(t.size, float(np.median(steps)), t, order, places, shift, tuple(notes))


def _check_repeated(repeated: int, t: NDArray[np.float64]) -> None:
    """Refuses stamps that repeat so often that they are not the times of single samples."""
    if repeated > max(LARGEST_REPEATED_SHARE * t.size, 1):
        i = int(np.argmax(np.diff(t) <= 0))
        raise ValueError(
            f"expected a time stamp of its own for each sample, received {repeated} of {t.size} that repeat another "
            f"one (first {t[i]:.9g} s after the first stamp); if they lack digits, leave them aside: time='none' with "
            "dt (on the command line --time none --dt SECONDS); if the table holds several series, write each to a "
            "file of its own."
        )
