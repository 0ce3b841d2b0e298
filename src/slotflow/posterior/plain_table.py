"""A table of components as plain values: what records hold, and what a data frame is made of where one is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INDEX", "PlainTable"]

INDEX = "component"
"""Name of the numbers of components, counted from 1."""


@dataclass(frozen=True)
class PlainTable:
    """The table of `Posterior.summary` of one signal."""

    columns: list[str]
    """Names of the columns."""
    rows: list[dict[str, Any]]
    """The values of each component by the names of the columns, its number before them."""
    words: dict[str, Any] = field(default_factory=dict)
    """What is said of the table as a whole: ``verdict``, ``phase_at``, and ``upper_limit`` where there is one."""

    @classmethod
    def of(cls, frame: pd.DataFrame) -> PlainTable:
        """A data frame as plain values."""
        rows: list[Any] = frame.reset_index().to_dict(orient="records")
        return cls(
            [str(name) for name in frame.columns], rows, {str(k): v for k, v in frame.attrs.items()}
        )

    def frame(self) -> pd.DataFrame:
        """The same as a data frame."""
        import pandas as pd

        index = pd.RangeIndex(1, len(self.rows) + 1, name=INDEX)
        values = {name: [row[name] for row in self.rows] for name in self.columns}
        found = pd.DataFrame(values, index, self.columns)
        found.attrs = {name: value for name, value in self.words.items()}
        return found
