"""What a suite can be asked for: sizes, seeds and the names of its parts. Nothing here waits for torch.

The command line shows these in its help; the parts themselves are in `sets.py` and `exact/parts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXACT_DRAWS", "EXACT_GROUPS", "MODEL_PARTS", "SEED_LIMIT", "SPEED", "Sizes"]

SEED_LIMIT = 2**28
"""The seeds that a user can choose end here."""
SPEED = "speed"
"""The part of the model suite that has no signals of its own."""
MODEL_PARTS = ("nominal", "k1", "k2", "k5", "k10", "stress", "frontier", "noise", SPEED)
"""Parts of the model suite: its sets, and the speed."""
EXACT_GROUPS = (
    "nominal", "stress", "frontier", "weak", "evidence", "correlation", "misfit", "time", "eryn",
)  # fmt: skip
"""Groups of parts of the exact suite."""
EXACT_DRAWS = 2000
"""Weighted draws of each order in the exact suite."""


@dataclass(frozen=True)
class Sizes:
    """How much is drawn and analysed."""

    n: int = 10_000
    """Signals of each set."""
    draws: int = 500
    """Draws per slot."""
    n_classical: int = 2000
    """Signals of the frontier that the classical estimator analyses too; 0: none."""
    batch: int | None = None
    """Signals per batch; None: as many as the device's memory allows."""

    def __post_init__(self) -> None:
        if self.n < 1 or self.draws < 2:
            raise ValueError(
                f"expected n >= 1 signals and draws >= 2, received {self.n} and {self.draws}."
            )
