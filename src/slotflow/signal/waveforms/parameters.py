"""One parameter of a component: its name, its symbol, its unit, and of what kind it is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DATA_UNIT", "Parameter"]

DATA_UNIT = "data"
"""Unit of a parameter that is measured in whatever the samples are."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a component, as a person reads it."""

    name: str
    """In tables and files."""
    symbol: str
    """In formulas and pictures."""
    unit: str
    """Of its values; `DATA_UNIT` for that of the samples."""
    circular: bool = False
    """Whether it is an angle in [0, 2π), whose mean is taken on the circle."""
    categorical: bool = False
    """Whether it is the number of a kind, which has neither mean nor error."""
