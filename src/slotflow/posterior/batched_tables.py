"""Tables of components of many signals at once: what `summaries` makes of one posterior, for a batch.

In most signals nothing has to be decided: the sorted places of all draws keep to ranges that do not overlap, each
within a bin, and one K has nearly all the probability. A component is then a rank, for all these signals at once. The
others are named one by one, by the same rule (`alignment`), from draws that were made together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.posterior.alignment import align, existence, order_suffices, relabel
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.combinations import find_combinations, may_combine
from slotflow.posterior.display import Epoch
from slotflow.posterior.export import aligned_table
from slotflow.posterior.matching import Labels, match
from slotflow.posterior.moments import moments
from slotflow.posterior.plain_table import INDEX, PlainTable
from slotflow.posterior.summaries import EXISTENCE_DRAWS, NEGLIGIBLE_ELSEWHERE

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "catalogue_table",
    "component_table",
    "plain_tables",
    "summary_table",
    "with_all_combinations",
]

COMBINATION = ("combination", "combination_chance")
"""Columns that only some signals have: which components are harmonics or combinations of others."""
NUMBERS_AT_ONCE = 2**22
"""Parameters of draws that are held at a time."""


class Named(NamedTuple):
    """Draws of S signals of k components, with the same labels in all draws of a signal."""

    draws: Array
    """(S, n, k, P)."""
    slots: NDArray[np.int64]
    """Where `Posterior.sample` had a component most often, (S, k)."""
    existence: Array
    """Probability that a component is there, whatever K is, (S, k)."""


def summary_table(batch: Batched, rows: Rows, n: int, seed: int, epoch: Epoch) -> pd.DataFrame:
    """The tables of `Posterior.summary` of some signals as one; the index is (signal, component).

    Args:
        batch: The posteriors.
        rows: Which of them, (S,).
        n: Draws to summarize.
        seed: Their seed.
        epoch: The instant that phases refer to.
    """
    table = component_table(batch, rows, n, seed, epoch)
    status = np.array([verdict.status for verdict in batch.verdicts(rows)], dtype=object)
    table["verdict"] = status[table.index.get_level_values("signal")]
    return with_all_combinations(table, batch, rows)


def plain_tables(batch: Batched, rows: Rows, n: int, seed: int, epoch: Epoch) -> list[PlainTable]:
    """The same as one table of plain values for each signal, as `Posterior.summary` gives it, but for limits."""
    table = summary_table(batch, rows, n, seed, epoch)
    ends = np.searchsorted(table.index.get_level_values("signal"), np.arange(len(rows) + 1))
    labels = [name for name in COMBINATION if name in table]
    plain = [str(name) for name in table.columns if name not in labels]
    labelled = table[labels[0]].notna().to_numpy() if labels else np.zeros(len(table), dtype=bool)
    values = {name: table[name].tolist() for name in (*plain, *labels)}
    tables = []
    for i, verdict in enumerate(batch.verdicts(rows)):
        first, last = int(ends[i]), int(ends[i + 1])
        names = [*plain, *labels] if labelled[first:last].any() else plain
        own = zip(
            range(1, last - first + 1), *(values[name][first:last] for name in names), strict=True
        )
        found = [dict(zip((INDEX, *names), row, strict=True)) for row in own]
        tables.append(PlainTable(names, found, {"verdict": str(verdict), "phase_at": epoch.words}))
    return tables


def catalogue_table(batch: Batched, rows: Rows, n: int, seed: int, epoch: Epoch) -> pd.DataFrame:
    """The tables of `Posterior.to_catalogue` of some signals as one; the index is (signal, component).

    Args:
        batch: The posteriors.
        rows: Which of them, (S,).
        n: Joint draws of each.
        seed: Their seed.
        epoch: The instant that phases refer to.
    """
    import pandas as pd

    tables = {}
    for some in _chunks(np.arange(len(rows)), n * batch.k_max * batch.waveform.size):
        theta, counts = batch.sample_joint(rows[some], n, seed)
        for i, own, k in zip(some.tolist(), theta, counts, strict=True):
            probs = batch.k_probs[rows[i]]
            found = align(own, k, probs, batch.resolution, waveform=batch.waveform)
            tables[i] = aligned_table(found, batch.waveform, epoch)
    for i, verdict in enumerate(batch.verdicts(rows)):
        tables[i]["verdict"] = verdict.status
    return with_all_combinations(pd.concat(tables, names=["signal"]), batch, rows)


def with_all_combinations(table: pd.DataFrame, batch: Batched, rows: Rows) -> pd.DataFrame:
    """The table of many signals with the columns that `with_combinations` adds to those of some of them.

    Args:
        table: As `component_table` gives it.
        batch: The posteriors.
        rows: Which of them.
    """
    if "amplitude_median" not in table:
        return table
    names = [f"{batch.waveform.place}_median", f"{batch.waveform.place}_sd", "amplitude_median"]
    places, errors, amplitudes = (table[name].to_numpy() for name in names)
    signals, starts, sizes = np.unique(
        table.index.get_level_values("signal"), return_index=True, return_counts=True
    )
    labels = np.full(len(table), np.nan, dtype=object)
    chances = np.full(len(table), np.nan)
    for k in np.unique(sizes[sizes > 1]).tolist():
        mine = np.flatnonzero(sizes == k)
        at = starts[mine, None] + np.arange(k)  # (S, k)
        for i in np.flatnonzero(may_combine(places[at], errors[at], batch.resolution)).tolist():
            own = at[i]
            prior = batch.prior_of(int(rows[signals[mine[i]]]))
            found = find_combinations(
                places[own],
                errors[own],
                amplitudes[own],
                band=(places[own].min(), places[own].max()) if prior is None else prior.frequency,
                resolution=batch.resolution,
            )
            if found:
                labels[own] = ""
            for one in found:
                labels[own[one.component]], chances[own[one.component]] = one.label, one.chance
    if np.isfinite(chances).any():
        return table.assign(combination=labels, combination_chance=chances)
    return table


def component_table(batch: Batched, rows: Rows, n: int, seed: int, epoch: Epoch) -> pd.DataFrame:
    """One row per component of the most probable K of each signal: slot, existence and moments.

    Args:
        batch: The posteriors.
        rows: Which of them, (S,).
        n: Draws to summarize.
        seed: Their seed.
        epoch: The instant that phases refer to.

    Returns:
        Columns as those of `summary`, but for the verdict; the index is (signal, component), signals counted among the
        rows.
    """
    import pandas as pd

    counts = batch.k_probs[rows].argmax(1)
    frames = []
    for k in np.unique(counts[counts > 0]).tolist():
        for some in _chunks(np.flatnonzero(counts == k), n * k * batch.waveform.size):
            named = _named(batch, rows[some], k, n, seed)
            columns: dict[str, Any] = {
                "slot": named.slots.ravel(),
                "existence": named.existence.ravel(),
            }
            flat = np.moveaxis(named.draws, 0, 1).reshape(n, len(some) * k, -1)
            columns |= moments(epoch.shift(flat, batch.waveform), batch.waveform)
            index = [np.repeat(some, k), np.tile(np.arange(1, k + 1), len(some))]
            frames.append(
                pd.DataFrame(
                    columns, pd.MultiIndex.from_arrays(index, names=["signal", "component"])
                )
            )
    if frames:
        return pd.concat(frames).sort_index()
    columns = moments(np.zeros((1, 0, batch.waveform.size)), batch.waveform)
    nothing = pd.MultiIndex.from_arrays(
        [np.zeros(0, dtype=np.int64)] * 2, names=["signal", "component"]
    )
    slots = {"slot": np.zeros(0, dtype=np.int64), "existence": np.zeros(0)}
    return pd.DataFrame(slots | columns, nothing)


def _chunks(signals: Rows, numbers: int) -> Iterator[Rows]:
    """Signals in pieces whose draws are held together."""
    size = max(1, NUMBERS_AT_ONCE // max(numbers, 1))
    return (signals[first : first + size] for first in range(0, len(signals), size))


def _named(batch: Batched, rows: Rows, k: int, n: int, seed: int) -> Named:
    """Components of signals that all have k of them, as `summaries.components` names those of one."""
    full = np.full(len(rows), k), np.full(len(rows), n), np.full(len(rows), seed)
    draws = batch.draws(rows, *full)
    places = batch.waveform.place_of(draws)  # (S, n, k)
    order = np.argsort(places, axis=2, kind="stable")
    probs = batch.k_probs[rows]
    easy = order_suffices(np.take_along_axis(places, order, 2), batch.resolution)
    certain = 1 - probs[:, k] <= NEGLIGIBLE_ELSEWHERE
    named = np.take_along_axis(draws, order[..., None], 2)
    source: Labels = np.asarray(order, dtype=np.int64)
    exists = np.minimum(np.repeat(probs[:, k, None], k, axis=1), 1.0)
    undecided = np.flatnonzero(~(easy & certain))
    joint, joint_counts = _joint(batch, rows, undecided[~certain[undecided]], n, seed)
    at = np.cumsum(~certain) - 1  # where the joint draws of an uncertain signal are
    for i in undecided.tolist():
        named[i], source[i], reference = relabel(draws[i], batch.resolution, batch.waveform)
        theta, counts = named[i], np.full(n, k)
        if not certain[i]:
            theta, counts = joint[at[i]], joint_counts[at[i]]
        labels = match(batch.waveform.place_of(theta), reference)
        exists[i] = existence(labels, counts, probs[i], k)
    often = np.stack([(source == slot).sum(1) for slot in range(k)], -1)  # (S, k, slots)
    return Named(named, often.argmax(-1), exists)


def _joint(
    batch: Batched, rows: Rows, uncertain: Rows, n: int, seed: int
) -> tuple[Array, NDArray[np.int64]]:
    """Joint draws of the signals of uncertain K."""
    if not uncertain.size:
        return np.zeros((0, 0, 0, 0)), np.zeros((0, 0), dtype=np.int64)
    return batch.sample_joint(rows[uncertain], min(n, EXISTENCE_DRAWS), seed)
