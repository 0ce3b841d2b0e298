"""Even sampling: the step of time stamps, and samples that are missing: where they are, and how to fill them.

Stamps with few digits (a text table, single precision) of an even series are not even: each is off by up to half its
last digit. Taken as they are, they spread the power of a tone over its images, and nothing in the residual need tell.
An even grid that explains all of them by their rounding is therefore what they were before it (`rounded_grid`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "LONGEST_GAP",
    "STEP_TOLERANCE",
    "check_times",
    "even_step",
    "fill_gaps",
    "last_digit",
    "missing_stamps",
    "moved_note",
    "rounded_grid",
    "runs",
]

STEP_TOLERANCE = 1e-3
"""Largest deviation of a time stamp from the even grid, as a share of the step."""
FINE_ROUNDING = 0.05
"""Share of the step up to which the last digit of a stamp may be off by one."""
COARSE_CLOCK, COARSE_CALENDAR = 0.85, 0.7
"""Largest share of the step that a last digit may be worth, below a second and from there on: coarser stamps may as
well be finer ones of which some are absent, as days are in a week of six."""
FEWEST_ROUNDED = 64
"""Stamps from which on coarse rounding is told from uneven times."""
NEGLIGIBLE = 1e-4
"""Share of a step by which the first stamp may be off without being moved."""
ROUNDED_RANGE = 1.2
"""Range of rounding errors over the last digit: 1, and what the fitted grid may be off."""
FILLS = ("linear", "mean")
LONGEST_GAP = 10
"""Longest run of missing samples that is filled unless the caller says more."""
LARGEST_FILLED_SHARE = 0.1
"""Largest share of a series that may be filled: an amplitude shrinks by about this share."""


def even_step(t: NDArray[np.float64]) -> float | None:
    """The step of rising time stamps (n,) in seconds that are even to 0.1 % of it; None where they are not."""
    if t.size < 2:
        return None
    dt = float((t[-1] - t[0]) / (t.size - 1))
    away = np.abs(t - (t[0] + dt * np.arange(t.size))).max()
    # A time stamp carries rounding of its own: allow what its digits cannot express.
    rounding = 4 * np.spacing(np.abs(t).max())
    return dt if away <= STEP_TOLERANCE * dt + rounding else None


def rounded_grid(t: NDArray[np.float64], resolution: float) -> NDArray[np.float64] | None:
    """The even grid (n,) that time stamps were rounded from, by least squares; None where they are even, or no such.

    Args:
        t: Time stamps in seconds, (n,), rising.
        resolution: What their last digit is worth, in seconds.
    """
    if resolution <= 0 or t.size < 3:
        return None
    i = np.arange(t.size) - 0.5 * (t.size - 1)
    step, middle = float(i @ (t - t[0]) / (i @ i)), float((t - t[0]).mean())
    away = t - t[0] - middle - step * i
    if np.abs(away).max() <= 1e-6 * step:
        return None
    fine = resolution <= FINE_ROUNDING * step and np.abs(away).max() <= resolution
    clock = resolution < 1
    coarse = (
        resolution <= (COARSE_CLOCK if clock else COARSE_CALENDAR) * step
        and t.size >= FEWEST_ROUNDED
        and np.ptp(away) <= ROUNDED_RANGE * resolution
        and (clock or missing_stamps(t) is None)
    )
    if not (fine or coarse):
        return None
    start = middle + step * float(i[0])
    start = float(t[0]) + (start if abs(start) > NEGLIGIBLE * step else 0.0)
    return np.asarray(start + step * (i - i[0]))


def moved_note(t: NDArray[np.float64], grid: NDArray[np.float64]) -> tuple[str, ...]:
    """What to say where time stamps (n,) were put on an even grid, if that has moved them by a share of the step."""
    moved = float(np.abs(t - grid).max())
    if moved <= FINE_ROUNDING * (grid[1] - grid[0]):
        return ()
    return (f"time stamps of few digits put on an even grid, moved by up to {moved:.2g} s",)


def last_digit(stamps: NDArray[Any]) -> float:
    """What the last binary digit of the largest time stamp is worth, by the type in which the stamps came."""
    largest = np.abs(stamps).max()
    if stamps.dtype.kind == "f" and stamps.dtype.itemsize < 8:
        return float(np.spacing(largest))
    return 2 * float(np.spacing(np.float64(largest)))


def missing_stamps(t: NDArray[np.float64], resolution: float = 0.0) -> NDArray[np.int64] | None:
    """Places (n,) of time stamps on an even grid from which some are missing, or None if that is not so.

    Args:
        t: Time stamps in seconds, (n,), rising, two or more.
        resolution: What their last digit is worth, in seconds: rounding moves a stamp by no more than that.
    """
    steps = np.diff(t)
    single = steps[steps < 1.5 * np.median(steps)]  # their mean has more digits than a printed step
    counts = np.rint(steps / single.mean())
    if counts.min() < 1 or not 2 * t.size > counts.sum() + 1 > t.size:
        return None  # even, or more than half of it absent
    places = np.concatenate([[0], np.cumsum(counts).astype(np.int64)])
    dt = (t[-1] - t[0]) / places[-1]
    tolerance = STEP_TOLERANCE * dt + resolution + 4 * np.spacing(np.abs(t).max())
    return places if np.abs(t - t[0] - dt * places).max() <= tolerance else None


def check_times(t: NDArray[np.float64]) -> None:
    """Refuses time stamps (n,) that are too few, missing or not in order."""
    if t.size < 2:
        raise ValueError(
            "expected at least 2 time stamps, received 1: one sample is no series; check the file, or record more."
        )
    if not np.isfinite(t).all():
        raise ValueError(
            f"times must be finite, received {int((~np.isfinite(t)).sum())} missing of {t.size}, the first at "
            f"index {int(np.argmin(np.isfinite(t)))}; drop the time stamps and give dt, or cut these samples."
        )
    steps = np.diff(t)
    if np.any(steps <= 0):
        i = int(np.argmax(steps <= 0))
        raise ValueError(
            f"times must increase, but sample {i + 1} is at {t[i + 1]:.9g} s after {t[i]:.9g} s; "
            "sort the series and remove repeated stamps; if they repeat for want of digits, leave them out and give "
            "dt (on the command line --dt)."
        )


def fill_gaps(
    values: ArrayLike, how: str = "linear", max_gap: int = LONGEST_GAP
) -> tuple[NDArray[Any], tuple[tuple[int, int], ...]]:
    """Fills samples that are not finite numbers.

    A filled sample is not a measurement, but the likelihood takes it for one: with a share q of the samples filled,
    amplitudes shrink by up to about q, and each gap leaves a trace in the residual. Therefore the number of filled
    samples is limited here, and every result carries a warning.

    Args:
        values: Samples, (n,), real or complex, NaN or infinite where missing.
        how: ``linear`` joins the neighbours of a gap by a line (at the ends of the series the nearest sample is
            repeated); ``mean`` takes the mean of all samples, which is zero once the mean has been removed.
        max_gap: Longest run of samples to fill.

    Returns:
        The series, (n,), and the first and last index of each run that was filled.
    """
    x = np.array(values)
    x = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if how not in FILLS:
        raise ValueError(f"expected fill to be one of {', '.join(FILLS)}, received {how!r}.")
    if x.ndim != 1:
        raise ValueError(f"expected one series of shape (n,), received shape {x.shape}.")
    bad = ~np.isfinite(x)
    gaps = runs(bad)
    if not gaps:
        return x, ()
    longest = max(gaps, key=lambda gap: gap[1] - gap[0])
    length = longest[1] - longest[0] + 1
    if length > max_gap:
        raise ValueError(
            f"expected gaps of at most {max_gap} samples, received one of {length} (samples {longest[0]}–"
            f"{longest[1]}, {len(gaps)} gap(s) in all); analyse the pieces beside it, or raise max_gap (on the "
            "command line --max-gap)."
        )
    if bad.sum() > LARGEST_FILLED_SHARE * x.size:
        raise ValueError(
            f"expected at most {LARGEST_FILLED_SHARE:.0%} of the samples to be missing, received {int(bad.sum())} of "
            f"{x.size}; choose a better part of the series."
        )
    known = np.flatnonzero(~bad)
    if how == "mean":
        scale = float(np.abs(x[known]).max()) or 1.0
        x[bad] = scale * np.mean(x[known] / scale)
    else:
        x[bad] = np.interp(np.flatnonzero(bad), known, x[known])
    return x, gaps


def runs(mask: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """First and last index of each run of true entries of a mask (n,)."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return tuple((int(a), int(b) - 1) for a, b in edges.reshape(-1, 2))
