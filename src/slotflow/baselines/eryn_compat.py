"""Eryn as we use it, with the precautions that version 1.2 needs.

- Its module `ensemble` calls `np.in1d`, which NumPy 2.4 removed. That module, and no other, is given the function.
- It exchanges temperatures with `np.random`, which is seeded for the time of a run and then put back as it was.
- Its docstrings hold escapes that newer Python versions warn of when they compile them.
- It takes an empty state's log prior for 0 (`StatePrior` does too), and its periodic parameters ignore integer keys
  (our coordinates have none to wrap).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from slotflow.core.packages import without_announcements

__all__ = ["load_eryn", "seeded"]


def load_eryn() -> SimpleNamespace:
    """The parts of Eryn that are used: EnsembleSampler, State, MHMove and ReversibleJumpMove."""
    try:
        with without_announcements():
            warnings.simplefilter("ignore", (SyntaxWarning, DeprecationWarning))
            from eryn import ensemble
            from eryn.moves import MHMove, ReversibleJumpMove
            from eryn.state import State
    except ImportError as error:
        raise ImportError(
            "reversible-jump MCMC needs Eryn, which is not installed; pip install 'slotflow[baselines]'."
        ) from error
    if not hasattr(ensemble.np, "in1d"):
        ensemble.np = _NumpyWithIn1d()
    return SimpleNamespace(
        EnsembleSampler=ensemble.EnsembleSampler,
        State=State,
        MHMove=MHMove,
        ReversibleJumpMove=ReversibleJumpMove,
    )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds `np.random`, which Eryn draws from, and puts it back as it was."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


class _NumpyWithIn1d:
    """NumPy with the function that Eryn 1.2 still calls."""

    in1d = staticmethod(np.isin)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)
