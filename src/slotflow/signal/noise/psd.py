r"""Noise of a given power spectral density.

A density is what instruments quote: power per hertz at frequencies from 0 on for real samples (one-sided), at
frequencies of both signs for complex ones. White noise of level σ (for complex samples: of each part) at a step dt has
the density 2σ²dt. The density gives the noise absolutely: with σ = 1 it is exactly as stated, and an unknown σ is a
factor common to all channels.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.noise.filters import taps_of_power
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode
from slotflow.signal.noise.series import Series

__all__ = ["Density", "density_of", "psd_noise", "read_density"]

LONGEST_FILTER = 1024
"""Highest order of a filter."""
Density = Callable[[Array], Array]
"""Power per hertz at frequencies in Hz."""


def density_of(source: Any) -> Density:
    """A power spectral density from what a person has of it.

    Args:
        source: A function of frequency; a pair of arrays (f, S); an array of two columns or two rows; or the path of a
            text file with two columns, frequency in Hz and density.
    """
    if callable(source):
        return lambda f: np.asarray(source(f), dtype=np.float64)
    if isinstance(source, (str, os.PathLike)):
        return read_density(source)
    table = np.asarray(source, dtype=np.float64)
    if table.ndim == 2 and table.shape[0] != 2 and table.shape[1] == 2:
        table = table.T
    if table.ndim != 2 or table.shape[0] != 2 or table.shape[1] < 2:
        raise ValueError(
            "expected a power spectral density as a function, a file of two columns or a pair of arrays (f, S), "
            f"received an array of shape {table.shape}."
        )
    return _interpolated(table[0], table[1])


def read_density(path: str | os.PathLike[str]) -> Density:
    """The density in a text file of two columns, separated by blanks or commas; # begins a comment."""
    if not Path(path).is_file():
        raise ValueError(f"{path}: expected a file with a power spectral density, found none.")
    text = Path(path).read_text(encoding="utf-8", errors="replace").replace(",", " ")
    try:
        table = np.loadtxt(text.splitlines(), ndmin=2)
    except ValueError as error:
        raise ValueError(
            f"{path}: expected two columns of numbers, frequency in Hz and power per Hz ({error})."
        ) from error
    if table.shape[1] != 2:
        raise ValueError(
            f"{path}: expected two columns, frequency in Hz and power per Hz, received {table.shape[1]}."
        )
    return _interpolated(table[:, 0], table[:, 1])


def _interpolated(f: Array, s: Array) -> Density:
    """Logarithmic interpolation between given values, constant beyond them."""
    order = np.argsort(f)
    f, s = f[order], s[order]
    if not (np.isfinite(f).all() and (np.diff(f) > 0).all()):
        raise ValueError(
            "expected frequencies that are finite and differ, received some that are not."
        )
    if not (np.isfinite(s).all() and (s > 0).all()):
        raise ValueError(
            "expected a power spectral density above 0 at every frequency, received values that are 0, negative or "
            "not finite; leave those rows out."
        )
    two_sided = bool(f[0] < 0)
    logarithm = np.log(s)

    def density(at: Array) -> Array:
        place = at if two_sided else np.abs(at)
        found: Array = np.exp(np.interp(place, f, logarithm))
        return found

    return density


def psd_noise(
    channels: Sequence[Series], densities: Sequence[Density], words: str = ""
) -> NoiseModel:
    """Noise of a given density in each channel.

    Args:
        channels: The series, whose samples are not looked at.
        densities: One for each channel, or one for all.
        words: Why this noise.
    """
    if len(densities) == 1:
        densities = [densities[0]] * len(channels)
    if len(densities) != len(channels):
        raise ValueError(
            f"expected one power spectral density or one for each of {len(channels)} channels, received "
            f"{len(densities)}."
        )
    found = []
    for series, density in zip(channels, densities, strict=True):
        if not series.can_be_filtered:
            raise ValueError(
                f"expected even samples without errors for a given power spectral density, received {series.n:,} at "
                "uneven times or with errors of their own; use noise='power_law' or noise='local'."
            )
        taps, level = taps_of_power(
            lambda f, d=density, s=series: d(f) / (2 * s.step),  # type: ignore[misc]
            series.step,
            series.n,
            is_complex=series.is_complex,
            longest=min(series.longest_filter, LONGEST_FILTER),
        )
        if not math.isfinite(level):
            raise ValueError("expected a finite power spectral density, received one that is not.")
        found.append(ChannelNoise(taps, level))
    return NoiseModel("psd", (NoiseNode(tuple(found)),), words=words)
