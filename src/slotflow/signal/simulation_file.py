"""Simulated signals as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.files import PathLike, atomic_path
from slotflow.signal.simulation import Simulation

__all__ = ["write_simulation"]


def write_simulation(path: PathLike, simulation: Simulation) -> None:
    """Writes simulated signals with their truth to one NPZ file.

    The arrays, for n signals: ``long`` (n, N) and ``short`` (n, M) float32, ``dt_long``,
    ``dt_short``, ``t0_long`` and ``t0_short`` in seconds, and the truth: ``k`` (n,), ``theta``
    (n, K_max, 3) with amplitude, phase and frequency padded by zeros, ``sigma`` (n,) and
    ``snr_db`` (n,).

    Args:
        path: File to write; its suffix must be .npz.
        simulation: The signals.
    """
    if Path(path).suffix.lower() != ".npz":
        raise ValueError(f"{path}: expected a file name that ends in .npz; rename it.")
    arrays: dict[str, Any] = {
        "k": simulation.k.numpy(),
        "theta": simulation.theta.cpu().numpy(),
        "sigma": simulation.sigma.cpu().numpy(),
        "snr_db": simulation.snr_db().cpu().numpy(),
    }
    values = simulation.long, simulation.short
    for role, grid, x in zip(("long", "short"), simulation.grids, values, strict=True):
        if grid is not None and x is not None:
            arrays |= {role: x.cpu().numpy(), f"dt_{role}": grid.dt, f"t0_{role}": grid.t0}
    with atomic_path(path) as temporary:
        np.savez(temporary, **arrays)
