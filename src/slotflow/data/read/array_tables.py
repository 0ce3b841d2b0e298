"""Arrays that are tables: time stamps and series in the columns, or the rows, of one array.

An array of a few columns, of which the first one rises, is a table. So is one of two or three rows, if nothing else
tells the step.
"""

from __future__ import annotations

import numpy as np

from slotflow.data.read.companions import candidates
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import SHORTEST_SIGNAL, Table
from slotflow.data.read.timestamps import RATES, STEPS

__all__ = ["as_columns"]

FEW_COLUMNS, FEW_ROWS = range(2, SHORTEST_SIGNAL), (2, 3)
"""Columns of an array that is a table, and rows of one that lies on its side."""


def as_columns(table: Table, role: str, options: ReadOptions) -> Table:
    """A table whose only array, or the one that the caller names, holds time stamps and series as its columns.

    Args:
        table: The arrays of the file.
        role: ``long`` or ``short``.
        options: What the caller says about this series.

    Returns:
        Those columns; the table itself where there are none.
    """
    if table.columns:
        return table
    series = candidates(table)
    named = str(options.dataset or "").strip("/") or (series[0] if len(series) == 1 else "")
    if named not in table.names or options.time is not None:
        return table
    count, size = table.shape(named)
    timed = options.dt is not None or table.step is not None
    timed = timed or table.find(named, role, *STEPS, *RATES) is not None
    timed = timed or table.time_of(named, role) is not None
    upright = size in FEW_COLUMNS and count > SHORTEST_SIGNAL
    lying = count in FEW_ROWS and size > SHORTEST_SIGNAL and not timed
    if not (upright or lying):
        return table
    values = table.get(named)
    values = values.T if lying else values
    if values.dtype.kind not in "fiu" or not (np.diff(values[:, 0].astype(np.float64)) > 0).all():
        return table
    names = [f"column {j + 1}" for j in range(values.shape[1])]
    columns = dict(zip(names, values.T, strict=True))
    kind = "rows" if lying else "columns"
    notes = (*table.notes, f"the {kind} of {named!r} taken as a table, the first as time stamps")
    return Table(names, columns.__getitem__, True, names[1:], names[0], notes=notes)
