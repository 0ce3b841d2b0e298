"""Draws of a posterior as tables: one row per component, and correlations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.posterior.alignment import existence, relabel
from slotflow.posterior.combinations import find_combinations
from slotflow.posterior.contract import Result
from slotflow.posterior.display import Epoch
from slotflow.posterior.matching import Labels, match
from slotflow.posterior.moments import STATISTICS, class_shares, moments, unwrapped
from slotflow.signal.waveforms import TONE, Classes, Waveform

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Mode",
    "class_probs",
    "components",
    "correlation",
    "covariance_names",
    "frequency_columns",
    "in_unit",
    "place_modes",
    "summary",
    "with_combinations",
]

EXISTENCE_DRAWS = 500
"""Joint draws behind the existence probabilities of a summary, at most."""
NEGLIGIBLE_ELSEWHERE = 1e-3
"""Probability of all other K together below which they are not asked whether a component exists."""
MODES_APART = 0.5
"""Bins without a draw that separate two modes of a component's place."""
SMALLEST_MODE = 0.02
"""Share of the draws from which on a mode is named."""


def components(post: Result, k: int, n: int, seed: int) -> tuple[Array, Labels, Array]:
    """Components given K in the order of their frequencies, with the same labels in all draws.

    Returns:
        Draws, (n, k, P); the column of `Posterior.sample` in which each was, (n, k); existence, (k,).
    """
    draws, source, reference = relabel(post.sample(n, k, seed), post.resolution, post.waveform)
    theta, counts = draws, np.full(n, k)
    if k > 0 and 1 - post.k_probs[k] > NEGLIGIBLE_ELSEWHERE:
        theta, counts = post.sample_joint(min(n, EXISTENCE_DRAWS), seed)
    labels = match(post.waveform.place_of(theta), reference)
    return draws, source, existence(labels, counts, post.k_probs, k)


def summary(post: Result, k: int, n: int, seed: int, epoch: Epoch | None = None) -> pd.DataFrame:
    """The table of `Posterior.summary`, frequencies in Hz.

    Its column `slot` is where `Posterior.sample` had a component most often.

    Args:
        post: The posterior.
        k: Number of components.
        n: Draws to summarize.
        seed: Their seed.
        epoch: The instant that phases refer to; t = 0 if None.
    """
    import pandas as pd

    epoch = Epoch(0.0, post.t_ref) if epoch is None else epoch
    draws, source, exists = components(post, k, n, seed)
    slots = np.array([np.bincount(column).argmax() for column in source.T], dtype=np.int64)
    columns: dict[str, Any] = {"slot": slots, "existence": exists}
    columns |= moments(epoch.shift(draws, post.waveform), post.waveform)
    frame = pd.DataFrame(columns)
    frame.index = pd.RangeIndex(1, k + 1, name="component")
    verdict = post.verdict
    frame["verdict"] = pd.Series([verdict.status] * k, frame.index, dtype=str)
    frame.attrs["verdict"] = str(verdict)
    frame.attrs["phase_at"] = epoch.words
    limit = post.upper_limit()
    if limit is not None:
        frame.attrs["upper_limit"] = limit.record()
    return frame


def class_probs(post: Result, k: int, n: int, seed: int) -> pd.DataFrame:
    """The table of `Posterior.class_probs`: a row for each component given K, a column for each class."""
    import pandas as pd

    waveform = post.waveform
    if not isinstance(waveform, Classes):
        raise ValueError(
            f"expected components of several classes, received a posterior of {waveform.text}; state them in "
            "the prior: Prior(classes={...})."
        )
    shares = class_shares(components(post, k, n, seed)[0], waveform)
    index = pd.RangeIndex(1, k + 1, name="component")
    return pd.DataFrame(shares, index, list(waveform.class_names))


def with_combinations(frame: pd.DataFrame, post: Result) -> pd.DataFrame:
    """A table of components with a column for those that are harmonics or combinations of others, if there are any.

    The columns `combination` ("2f1", empty for most) and `combination_chance` (the probability that an unrelated
    component would match as well) are those of `Posterior.combinations`, from the medians and sds of the table.

    Args:
        frame: As `summary` and `to_catalogue` have it, frequencies in Hz, components in the order of their places.
        post: The posterior.
    """
    place = post.waveform.place
    if len(frame) < 2 or "amplitude_median" not in frame:
        return frame
    places = frame[f"{place}_median"].to_numpy()
    found = find_combinations(
        places,
        frame[f"{place}_sd"].to_numpy(),
        frame["amplitude_median"].to_numpy(),
        band=(places.min(), places.max()) if post.prior is None else post.prior.frequency,
        resolution=post.resolution,
    )
    if not found:
        return frame
    labels = {one.component: one for one in found}
    texts = [labels[i].label if i in labels else "" for i in range(len(frame))]
    chances = [labels[i].chance if i in labels else np.nan for i in range(len(frame))]
    return frame.assign(combination=texts, combination_chance=chances)


class Mode(NamedTuple):
    """One of the places where a component may be."""

    probability: float
    """Share of the draws."""
    median: float
    """Of the place."""
    sd: float
    """Of the place."""


def place_modes(
    draws: Array,
    resolution: float,
    waveform: Waveform = TONE,
    cores: Sequence[tuple[float, float]] = (),
) -> list[list[Mode]]:
    """Where each component may be, the most probable place first.

    Draws of a place (the frequency of a tone) that are apart by more than half a bin without any draw between them
    belong to different modes: aliases of an uneven sampling, above all. Modes of less than `SMALLEST_MODE` are left
    out. A tone in the core of another window is another component, which stands in for one that a draw lacks.

    Args:
        draws: Parameters of the components, (n, k, P).
        resolution: 1/T in Hz; 0 if it is not known, which gives one mode each.
        waveform: Says which parameter is the place.
        cores: Lower and upper edges of the windows of a band, if there are any.
    """
    found = []
    for place in np.sort(waveform.place_of(draws), axis=0).T:
        middle = float(np.median(place))
        for low, high in cores:
            if low <= middle < high:
                place = place[(place >= low) & (place < high)]
        cuts = np.flatnonzero(np.diff(place) > MODES_APART * (resolution or np.inf)) + 1
        parts = [part for part in np.split(place, cuts) if part.size >= SMALLEST_MODE * place.size]
        modes = [
            Mode(part.size / place.size, float(np.median(part)), float(part.std()))
            for part in parts or [place]
        ]
        found.append(sorted(modes, reverse=True))
    return found


def in_unit(frame: pd.DataFrame, unit: FrequencyUnit, waveform: Waveform) -> pd.DataFrame:
    """A table of components with its frequencies in another unit, which the names of their columns then tell.

    Args:
        frame: Columns as `summary` and `to_catalogue` have them, frequencies in Hz.
        unit: Another unit; in Hz, the table stays as it is.
        waveform: Names the parameters and knows which of them are frequencies.
    """
    if unit.name == HERTZ.name:
        return frame
    powers = frequency_columns(waveform)
    scaled = {name: powers[name] for name in frame.columns if name in powers}
    found = frame.assign(**{name: frame[name] * unit.factor**n for name, n in scaled.items()})
    found = found.rename(columns={name: f"{name} [{unit.name}]" for name in scaled})
    found.attrs = dict(frame.attrs)
    return found


def frequency_columns(waveform: Waveform) -> dict[str, int]:
    """The columns of tables that are frequencies, with the power of Hz in which they are: 2 for a variance."""
    powers = {p.name: int(p.unit == HERTZ.name) for p in waveform.measured}
    columns = {f"{name}_{what}": power for name, power in powers.items() for what in STATISTICS}
    pairs = combinations_with_replacement(powers.values(), 2)
    columns |= {name: sum(p) for name, p in zip(covariance_names(waveform), pairs, strict=True)}
    return {name: power for name, power in columns.items() if power}


def covariance_names(waveform: Waveform) -> list[str]:
    """Columns of a catalogue that hold the upper triangle of the covariance matrix, row by row."""
    names = [p.name for p in waveform.measured]
    return [f"cov_{a}_{b}" for a, b in combinations_with_replacement(names, 2)]


def correlation(draws: Array, resolution: float = 0.0, waveform: Waveform = TONE) -> Array:
    """Correlations of all parameters, components in the order of their places; of tones (A₁, φ₁, f₁, A₂, …).

    Args:
        draws: Parameters of the components, (n, k, P), n >= 2, components in any order.
        resolution: 1/T in Hz; 0 if it is not known.
        waveform: Says what the parameters are.

    Returns:
        (P k, P k); 0 between parameters of which one does not vary.
    """
    n, k, size = draws.shape
    if k == 0:
        return np.zeros((0, 0))
    named = relabel(draws, resolution, waveform)[0]
    aligned = unwrapped(named, waveform)[0].reshape(n, size * k)
    centred = aligned - aligned.mean(0)
    scale = np.sqrt((centred**2).sum(0))
    unit = centred / np.where(scale > 0, scale, 1.0)
    matrix: Array = np.clip(unit.T @ unit, -1, 1)
    np.fill_diagonal(matrix, 1.0)
    return matrix
