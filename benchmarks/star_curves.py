"""Simulated light curves of pulsating stars in eclipsing binaries, with the eclipses taken away.

The hundred light curves accompany STAR SHADOW (https://github.com/LucIJspeert/star_shadow, ``star_shadow/data``):
Kepler's half-hour cadence, a year with 26 gaps or a month with one, 1 to 99 pulsations each, white noise of sd 0.0025.
Three of them hold no usable numbers.

The tables of the publication state every pulsation, a sin(2π(f t + φ)) with t from the first sample. What remains after
subtracting them is the light curve of the binary, and noise. It is folded with the published period and a spline is
fitted to it, with knots one or two cadences apart in eclipses and a few elsewhere. That curve is subtracted from the
flux; pulsations and noise remain. The third column of the files is not used: it is no standard deviation.

``python benchmarks/star_curves.py FOLDER SMALL`` writes what remains, and the published pulsations, into a folder of
small files (NPZ), which is read like the original.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import LSQUnivariateSpline

__all__ = ["Star", "binary", "copied", "load", "names", "samples"]

OUT_OF_ECLIPSE_KNOTS = 16
FEWEST_ORBITS, SAMPLES_OF_A_KNOT, MOST_KNOTS = 10, 30, 4
"""Orbits from which on there is a knot in every cadence of an eclipse, samples for each knot, and knots at most."""
LARGEST_FLUX = 10.0
"""In units of the median flux; beyond, a file is damaged."""
Array = np.ndarray


@dataclass(frozen=True)
class Star:
    """One light curve without its eclipses.

    Attributes:
        name: Of the file.
        times: (n,) in days from the middle of the record.
        flux: (n,).
        truth: (K, 3), A, φ and f of the published pulsations.
    """

    name: str
    times: Array
    flux: Array
    truth: Array


def names(folder: Path) -> list[str]:
    """Names of the light curves in a folder, in order."""
    return sorted({path.stem for end in ("dat", "npz") for path in folder.glob(f"sim_*_lc.{end}")})


def samples(folder: Path, name: str) -> int:
    """Size of a light curve's file, which grows with the number of its samples."""
    small = folder / f"{name}.npz"
    return (small if small.exists() else folder / f"{name}.dat").stat().st_size


def load(folder: Path, name: str) -> Star | None:
    """One light curve without its eclipses; None where the file holds no numbers."""
    small = folder / f"{name}.npz"
    if not small.exists():
        return _prepared(folder, name)
    with np.load(small) as stored:
        return Star(name, stored["times"], stored["flux"], stored["truth"])


def copied(folder: Path, small: Path) -> int:
    """Writes the light curves of a folder without their eclipses into another one; how many there are."""
    small.mkdir(parents=True, exist_ok=True)
    stars = [star for name in names(folder) if (star := load(folder, name)) is not None]
    for star in stars:
        arrays = {"times": star.times, "flux": star.flux, "truth": star.truth}
        np.savez_compressed(small / f"{star.name}.npz", **arrays)
    return len(stars)


def _prepared(folder: Path, name: str) -> Star | None:
    """Reads one light curve of the publication and takes its eclipses away."""
    t, flux, _ = np.loadtxt(folder / f"{name}.dat", unpack=True)
    table = np.atleast_2d(
        np.loadtxt(folder / "pulse_data" / f"{name}_pulse_info.dat", delimiter=",")
    )
    if not np.isfinite(flux).all() or np.abs(flux).max() > LARGEST_FLUX or table.shape[1] != 3:
        return None
    f, a, phi = table.T
    pulsations = (a * np.sin(2 * np.pi * (np.outer(t, f) + phi))).sum(1)
    period = _period(folder, name)
    rest = flux - pulsations
    mid = (t[0] + t[-1]) / 2
    phase = np.mod(2 * np.pi * (phi + f * mid) - np.pi / 2, 2 * np.pi)
    return Star(name, t - mid, flux - binary(t, rest, period), np.stack([a, phase, f], 1))


def _period(folder: Path, name: str) -> float:
    rows = (folder / "sim_parameters.csv").read_text("utf-8").splitlines()
    column = rows[0].split(",").index("period")
    return next(
        float(cells[column])
        for cells in (row.split(",") for row in rows[1:])
        if cells[1] == name.removesuffix("_lc")
    )


def binary(t: Array, rest: Array, period: float) -> Array:
    """The light curve of the binary alone, by a spline in orbital phase.

    Args:
        t: (n,) in days.
        rest: Flux without pulsations, (n,).
        period: Of the orbit, in days.

    Returns:
        The curve at the same times, (n,).
    """
    phase = np.mod(t / period, 1.0)
    order = np.argsort(phase, kind="stable")
    x, y = phase[order], rest[order]
    cadence = float(np.median(np.diff(t))) / period
    fine = _fine_knots(np.flatnonzero(eclipsed(x, y, cadence)), (t[-1] - t[0]) / period) * cadence
    knots = np.unique(np.concatenate([fine, np.linspace(0, 1, OUT_OF_ECLIPSE_KNOTS + 1)]))
    # the fit overlaps itself by a few knots, so that the curve closes
    near = 3 / OUT_OF_ECLIPSE_KNOTS
    before, after = x > 1 - near, x < near
    x = np.concatenate([x[before] - 1, x, x[after] + 1])
    y = np.concatenate([y[before], y, y[after]])
    knots = np.concatenate([knots[knots > 1 - near] - 1, knots, knots[knots < near] + 1])
    knots = np.unique(knots[(knots > x[0]) & (knots < x[-1])])
    held = np.diff(np.searchsorted(x, np.concatenate([x[:1], knots]))) > 1
    strictly_rising = x + 1e-12 * np.arange(len(x))
    return np.asarray(LSQUnivariateSpline(strictly_rising, y, knots[held], k=3)(phase))


def _fine_knots(bins: Array, orbits: float) -> Array:
    """Knots in eclipses, in cadences of orbital phase: the more orbits fill a cadence, the finer.

    Args:
        bins: Cadences of orbital phase in which the star is eclipsed, (m,).
        orbits: How many were observed, the number of samples in each cadence of phase.
    """
    if orbits < FEWEST_ORBITS:
        return bins[::2] + 0.5
    parts = int(np.clip(orbits / SAMPLES_OF_A_KNOT, 1, MOST_KNOTS))
    return (bins[:, None] + (np.arange(parts) + 0.5) / parts).ravel()


def eclipsed(x: Array, y: Array, width: float) -> Array:
    """Bins of orbital phase in which the star is eclipsed, (bins,).

    Args:
        x: Phases in [0, 1), (n,).
        y: Flux without pulsations, (n,).
        width: Of a bin.
    """
    bins = (x / width).astype(int)
    count = np.maximum(np.bincount(bins), 1)
    mean = np.bincount(bins, weights=y) / count
    sigma = 1.4826 * np.median(np.abs(y - mean[bins]))
    ordinary = 2 * np.median(np.abs(mean - np.median(mean)))
    deep = np.median(y) - mean > 4 * sigma / np.sqrt(count) + ordinary
    return np.convolve(deep, np.ones(5), "same") > 0


if __name__ == "__main__":
    print(copied(Path(sys.argv[1]), Path(sys.argv[2])), "light curves")
