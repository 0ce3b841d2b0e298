"""Simulated signals as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.files import PathLike, atomic_path
from slotflow.data.channel import Channel
from slotflow.signal.simulation import Simulation
from slotflow.signal.simulation_like import SimulatedObservation
from slotflow.signal.waveforms import TONE

__all__ = ["write_observations", "write_simulation"]


def write_simulation(path: PathLike, simulation: Simulation) -> None:
    """Writes simulated signals with their truth to one NPZ file.

    The arrays, for n signals: ``long`` (n, N) and ``short`` (n, M) float32, ``dt_long``,
    ``dt_short``, ``t0_long`` and ``t0_short`` in seconds, and the truth: ``k`` (n,), ``theta``
    (n, K_max, 3) with amplitude, phase and frequency padded by zeros, ``sigma`` (n,),
    ``snr_db`` (n,), and for coloured noise its shape parameters ``noise_shape`` (n, d).

    Args:
        path: File to write; its suffix must be .npz.
        simulation: The signals.
    """
    _check_name(path)
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
    if simulation.noise_values is not None:
        arrays["noise_shape"] = simulation.noise_values
    with atomic_path(path) as temporary:
        np.savez(temporary, **arrays)


def write_observations(path: PathLike, simulated: Sequence[SimulatedObservation]) -> None:
    """Writes signals of one or two channels at any times with their truth to one NPZ file.

    The arrays of `write_simulation`, but in double precision, real or complex; NaN stands for samples that are missing
    on an even grid. A text ``waveform`` says what components are that are no tones. Uneven times are
    ``time`` (N,), in seconds, instead of a step, and errors ``long_error`` (n, N).

    Args:
        path: File to write; its suffix must be .npz.
        simulated: The signals, sampled alike.
    """
    _check_name(path)
    template = simulated[0].observation
    if len(template.channels) > 2 or (template.short is not None and not template.short.is_even):
        raise ValueError(
            f"{path}: expected one channel, or two of which the second is even, received {len(template.channels)}; "
            "use slotflow.simulate_like and write the channels to files of their own."
        )
    most = max(len(one.theta) for one in simulated)
    waveform = simulated[0].waveform
    theta = np.zeros((len(simulated), most, waveform.size))
    for i, one in enumerate(simulated):
        theta[i, : len(one.theta)] = one.theta
    arrays: dict[str, Any] = {
        "k": np.array([len(one.theta) for one in simulated]),
        "theta": theta,
        "sigma": np.array([one.sigma for one in simulated]),
    }
    if waveform != TONE:
        arrays["waveform"] = np.array(waveform.text)
    if simulated[0].noise_values:
        arrays["noise_shape"] = np.array([one.noise_values for one in simulated])
    for s, role in enumerate(("long", "short")[: len(template.channels)]):
        channels = [one.observation.channels[s] for one in simulated]
        arrays |= _sampled(role, channels)
    with atomic_path(path) as temporary:
        np.savez(temporary, **arrays)


def _check_name(path: PathLike) -> None:
    """Refuses names of other formats."""
    if Path(path).suffix.lower() != ".npz":
        raise ValueError(f"{path}: expected a file name that ends in .npz; rename it.")


def _sampled(role: str, channels: Sequence[Channel]) -> dict[str, Any]:
    """The arrays of one channel of all signals."""
    first = channels[0]
    values = np.stack([channel.values for channel in channels])
    place = np.rint((first.times - first.times[0]) / first.step)
    even = np.abs(first.times - first.times[0] - place * first.step).max() <= 1e-3 * first.step
    if even and first.errors is None:
        grid = np.full((len(values), int(place[-1]) + 1), np.nan, dtype=values.dtype)
        grid[:, place.astype(np.int64)] = values
        return {role: grid, f"dt_{role}": first.step, f"t0_{role}": float(first.times[0])}
    found: dict[str, Any] = {role: values, "time": first.times}
    if first.errors is not None:
        found[f"{role}_error"] = np.broadcast_to(first.errors, values.shape)
    return found
