"""Median, standard deviation and interval of each parameter of each component, from draws.

Angles are summarized around their circular means. Components of several classes (`Classes`) are summarized in two
steps: the share of the draws in which a component is of each class, and then the parameters over the draws in which it
is of its likeliest class; those that this class lacks are NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.signal.waveforms import TONE, Classes, Waveform

__all__ = ["STATISTICS", "class_shares", "moments", "of_likeliest_class", "own_names", "unwrapped"]

STATISTICS = ("median", "sd", "q05", "q95")
"""What a table says of each parameter."""


def unwrapped(draws: Array, waveform: Waveform = TONE) -> tuple[Array, Array]:
    """Draws with angles as distances in [−π, π) from their circular means, (n, k, P), and those means, (k, P).

    The means of parameters that are no angles are zero.
    """
    centre, shifted = np.zeros(draws.shape[1:]), draws.copy()
    for i, parameter in enumerate(waveform.parameters):
        if parameter.circular:
            centre[:, i] = np.angle(np.exp(1j * draws[..., i]).mean(axis=0))
            shifted[..., i] = np.mod(draws[..., i] - centre[:, i] + np.pi, 2 * np.pi) - np.pi
    return shifted, centre


def moments(draws: Array, waveform: Waveform = TONE) -> dict[str, NDArray[Any]]:
    """Median, sd, 5 % and 95 % of each parameter of each component, (k,) each.

    Components of several classes have the columns `class`, the name of the likeliest one, and `class_probability` too.

    Args:
        draws: Parameters of the components, (n, k, P), n >= 1.
        waveform: Names the parameters.
    """
    if isinstance(waveform, Classes):
        return _class_moments(draws, waveform)
    shifted, centre = unwrapped(draws, waveform)
    columns: dict[str, NDArray[Any]] = {}
    for i, parameter in enumerate(waveform.parameters):
        x = shifted[..., i]
        q05, q50, q95 = np.quantile(x, [0.05, 0.5, 0.95], axis=0)
        if parameter.circular:
            q05, q50, q95 = (np.mod(q + centre[:, i], 2 * np.pi) for q in (q05, q50, q95))
        found = zip(STATISTICS, (q50, x.std(axis=0), q05, q95), strict=True)
        columns |= {f"{parameter.name}_{what}": values for what, values in found}
    return columns


def class_shares(draws: Array, waveform: Classes) -> Array:
    """Share of the draws in which each component is of each class, (n, k, P) to (k, C); NaN is no draw."""
    kind = waveform.class_of(draws)  # (n, k)
    there = np.isfinite(kind)
    counts = [((kind == i) & there).sum(0) for i in range(len(waveform.class_names))]
    shares: Array = np.stack(counts, -1) / np.maximum(there.sum(0), 1)[:, None]
    return shares


def own_names(draws: Array, waveform: Waveform) -> list[tuple[str, ...]]:
    """Names of the quantities that each component has, by its likeliest class, of draws, (n, k, P)."""
    if not isinstance(waveform, Classes):
        return [tuple(p.name for p in waveform.measured)] * draws.shape[1]
    best = class_shares(draws, waveform).argmax(1)
    return [waveform.members[waveform.class_names[i]].names for i in best]


def of_likeliest_class(draws: Array, waveform: Waveform) -> Array:
    """The draws of one component in which it is of its likeliest class, (n, 1, P) to (m, 1, P); all without classes."""
    if not isinstance(waveform, Classes):
        return draws
    best = class_shares(draws, waveform)[0].argmax()
    chosen: Array = draws[waveform.class_of(draws)[:, 0] == best]
    return chosen


def _class_moments(draws: Array, waveform: Classes) -> dict[str, NDArray[Any]]:
    """The columns of `moments` for components of several classes."""
    shares, k = class_shares(draws, waveform), draws.shape[1]
    best = shares.argmax(1)
    names = np.array(waveform.class_names, dtype=object)
    columns: dict[str, NDArray[Any]] = {
        "class": names[best],
        "class_probability": shares[np.arange(k), best],
    }
    for parameter in waveform.measured:
        columns |= {f"{parameter.name}_{what}": np.full(k, np.nan) for what in STATISTICS}
    for j in range(k):
        member = waveform.members[names[best[j]]]
        own = waveform.members_theta(
            int(best[j]), of_likeliest_class(draws[:, j : j + 1], waveform)
        )
        for name, values in moments(own, member).items():
            columns[name][j] = values[0]
    return columns
