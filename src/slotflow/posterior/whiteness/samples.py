r"""Tests of the residual sample by sample: steadiness, shape, repeats, levels.

- **steadiness**: the power in pieces of the series, the most deviant piece; the share of a piece has a beta law. A
  gap filled with zeros leaves the model's own power behind; a burst adds power.
- **shape**: third and fourth moments, each turned into a standard normal variable.
- **repeats**: so many samples in a row of exactly the same value, or so many equal to the largest or the smallest
  one, do not occur in continuous noise; they do where data are missing or clipped.
- **streams**: the noise level of another channel's residual against that of the first (F).
- **stated level**: instead of that, where the noise level is known, the power of each channel's residual against it:
  RSS_s/σ_s² is a χ² variable of the degrees of freedom that the fit has left.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array, Complex
from slotflow.posterior.whiteness.laws import (
    Check,
    any_of,
    chi_square_test,
    f_test,
    kurtosis_score,
    normal_test,
    share_test,
    skewness_score,
)
from slotflow.posterior.whiteness.left import Left

__all__ = ["repeats", "shape", "stated_level", "steadiness", "streams", "streams_name"]

PIECES = (10, 40)
"""Numbers of pieces into which the time series is cut."""
SMALLEST_PIECE = 16
"""Degrees of freedom of the smallest piece that is worth looking at."""
FEWEST_FOR_SHAPE = 200
"""Values whose third and fourth moments say something."""
RUN = 6
"""So many equal samples in a row are no noise."""
LEVELS = 64
"""Data of fewer distinct values are coarse, and repeats in them mean nothing."""


def steadiness(left: Left) -> list[Check]:
    """Tests of the residual's power over time."""
    checks, n, square = [], left.n, left.square
    whole = max(float(square.sum()), 1e-300)
    spent = np.zeros(n) if left.spent is None else left.spent
    for pieces in PIECES:
        if left.copies * n < SMALLEST_PIECE * pieces:
            continue
        sizes = n // pieces + (np.arange(pieces) < n % pieces)  # as equal as can be
        starts = np.cumsum(sizes) - sizes
        dof = np.maximum(left.copies * sizes - np.add.reduceat(spent, starts), 1.0)
        share = np.add.reduceat(square, starts) / whole  # of a part: a beta variable
        p = share_test(share, dof)
        worst = int(p.argmin())
        factor = share[worst] * dof.sum() / dof[worst]
        checks.append(
            Check(
                f"steadiness ({left.label}, {pieces})",
                any_of(float(p[worst]), pieces),
                f"{left.whose} residual has {factor:.2f} times its mean power in part {worst + 1} of {pieces}",
            )
        )
    return checks


def shape(left: Left) -> list[Check]:
    """Skewness and kurtosis of the residual."""
    values = left.reals
    n, spread = len(values), float(values.std())
    if n < FEWEST_FOR_SHAPE or spread == 0:
        return []
    unit = (values - values.mean()) / spread
    square = unit * unit
    skewness, kurtosis = float((square * unit).mean()), float((square * square).mean()) - 3
    return [
        Check(
            f"kurtosis ({left.label})",
            normal_test(kurtosis_score(kurtosis, n)),
            f"{left.whose} residual is not Gaussian (kurtosis {kurtosis:+.2f})",
            size=kurtosis,
        ),
        Check(
            f"skewness ({left.label})",
            normal_test(skewness_score(skewness, n)),
            f"{left.whose} residual is not Gaussian (skewness {skewness:+.2f})",
        ),
    ]


def repeats(values: Array | Complex, left: Left) -> Check:
    """Looks for samples of the data that are exactly equal, (n,).

    Args:
        values: The data as they were measured.
        left: What is left of them.
    """
    name, nothing = f"repeats ({left.label})", f"{left.who} has no suspicious repeats"
    edges = np.flatnonzero(np.append(values[1:] != values[:-1], True))
    longest = int(np.diff(edges, prepend=-1).max())
    if longest < RUN and not _extremes_repeat(values):
        return Check(name, 1.0, nothing)
    distinct, counts = np.unique(values, return_counts=True)
    if longest >= RUN and len(distinct) > LEVELS:
        end = int(edges[int(np.diff(edges, prepend=-1).argmax())])
        value = f", {values[end]:g}," if not np.iscomplexobj(values) else ""
        words = (
            f"{left.who} has the same value{value} {longest} times in a row (a gap, or a floor?)"
        )
        return Check(name, 0.0, words)
    if len(distinct) > LEVELS and not np.iscomplexobj(values):
        for i, next_one, word in ((0, 1, "smallest"), (-1, -2, "largest")):
            if counts[i] >= RUN and counts[i] >= 4 * counts[next_one]:
                return Check(
                    name,
                    0.0,
                    f"{left.who} has its {word} value {counts[i]} times (clipped?)",
                )
    return Check(name, 1.0, nothing)


def _extremes_repeat(values: Array | Complex) -> bool:
    """Whether the smallest or the largest of some samples occurs so often that data may be clipped."""
    if np.iscomplexobj(values):
        return False
    return any(int((values == end).sum()) >= RUN for end in (values.min(), values.max()))


def streams(first: Left, other: Left) -> Check:
    """Compares the noise levels of two channels' residuals."""
    ratio = other.variance / max(first.variance, 1e-300)
    its = "the long one's" if other.name == "short" else first.whose
    words = f"{other.whose} noise power is {ratio:.2f} times {its}"
    return Check(streams_name(other.name), f_test(ratio, other.dof, first.dof), words)


def streams_name(other: str) -> str:
    """The name of that test for another channel."""
    return "streams" if other == "short" else f"streams ({other})"


def stated_level(left: Left, sigma: float) -> list[Check]:
    """Compares a channel's residual, in units of its noise ratio, with the known noise level."""
    if left.dof <= 0:  # more parameters than samples
        return []
    power = float(left.square.sum()) / sigma**2
    return [
        Check(
            f"stated level ({left.label})",
            chi_square_test(power, left.dof),
            f"the scatter of {left.whose} residual is {math.sqrt(power / left.dof):.3g} times the stated level",
        )
    ]
