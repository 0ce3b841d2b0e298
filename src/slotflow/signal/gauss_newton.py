r"""Joint Gauss–Newton: the one way in which a set of components climbs to a maximum of the likelihood.

**Step.** In z = (ξ, Re c, Im c) of all K components, c referred to τ, with the residual x − m and the Jacobian J of m,
the damped step solves

.. math:: (J^T J + λ\, \mathrm{diag}\, J^T J)\, Δz = J^T (x - m)

in units in which JᵀJ has a unit diagonal (`systems.py`). A component whose shape would move by more than half a bin has
its own step shortened.

**Control.** λ is each signal's own: a trial that does not raise RSS is taken and λ falls, any other is refused and λ
grows. The decrement Jᵀ(x − m)·Δz/s², s² = σ² or RSS/n, at λ = 0 is twice the gain in log L that is left to expect, and
its root the distance to the maximum in posterior standard deviations; below a tolerance the climb has converged. The
damped decrement never exceeds the undamped one, so that the system at λ = 0 is solved only where the damped one is
small already.

**Bound.** Two unresolved components can cancel each other with ever larger amplitudes. Under a Gaussian of z of the
precisions `pull` the maximum is bounded: s² pull is added to JᵀJ, −s² pull z to the slope, and zᵀ pull z to what is to
fall. Damping is then by fixed precisions λ `reach` instead of by shares of JᵀJ.

Written once for NumPy arrays and torch tensors: one signal at a time in NumPy, batches in torch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from slotflow.core.arrays import namespace
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.systems import System, factorize, free_unknowns

__all__ = ["LARGEST_MOVE", "Bound", "Climb", "State", "climb", "shortened"]

LARGEST_MOVE = 0.5
"""Largest change of a shape in one step, in its bins."""
FIRST_DAMPING = 1e-3
"""λ of the first step."""
LARGEST_DAMPING = 1e9
"""λ beyond which a climb gives up."""
BOUNDED_DAMPING = (1e-2, 1e8)
"""Smallest and largest λ under a bound."""
ROUNDING = 2e-13
"""Accuracy of RSS in units of the data's energy: a rise within it does not count."""
CHANGING = ("z", "rss", "slope", "matrix", "damping", "iterations", "converged", "done")
"""What a climb changes of its state."""
STILL = 1e-6
"""Fall of what is minimized under a bound, in units of σ², that is none."""


@dataclass(frozen=True)
class Bound:
    """A Gaussian that holds amplitudes back, and how steps under it are damped."""

    pull: Any
    """Precision of the Gaussian of each coordinate around 0, (K·Z,)."""
    reach: Any
    """Precision that is added for λ = 1, (K·Z,)."""


@dataclass(frozen=True)
class Climb:
    """When a climb ends, and what it knows of the noise."""

    max_iterations: int
    """Steps at most."""
    tolerance: float
    """Decrement below which a signal has converged."""
    variance: Any
    """σ², (B,); RSS/n if None."""
    floor: Any
    """Smallest σ², (B,)."""
    bound: Bound | None = None
    """What holds amplitudes back, if anything does."""

    def take(self, rows: Any) -> Climb:
        """The same for some of the signals."""
        variance = None if self.variance is None else self.variance[rows]
        return Climb(self.max_iterations, self.tolerance, variance, self.floor[rows], self.bound)


@dataclass(eq=False)
class State:
    """Where B climbs stand."""

    z: Any
    """Coordinates, (B, K, Z)."""
    rss: Any
    """Residual sum of squares, (B,)."""
    slope: Any
    """Jᵀ(x − m), (B, K·Z)."""
    matrix: Any
    """JᵀJ, (B, K·Z, K·Z)."""
    free: Any
    """Which coordinates are unknown, (B, K·Z), bool."""
    damping: Any
    """λ, (B,)."""
    iterations: Any
    """Steps tried, (B,), int64."""
    converged: Any
    """Whether the maximum is reached, (B,), bool."""
    done: Any
    """Whether the climb has ended, (B,), bool."""

    @classmethod
    def at(cls, statistics: Likelihood, z: Any, mask: Any, over: Any = None) -> State:
        """The start of climbs.

        Args:
            statistics: Of B signals.
            z: Where they start, (B, K, Z).
            mask: Which components exist, (B, K), bool.
            over: Which signals are not to climb, (B,), bool; None: those whose system is singular.
        """
        xp, equations = namespace(z), statistics.equations(*statistics.waveform.unpack(z))
        free = free_unknowns(statistics.waveform, mask)
        rss = statistics.energy + equations.gain
        done = ~factorize(equations.matrix, free).regular if over is None else over
        return cls(
            z=z,
            rss=rss,
            slope=equations.slope,
            matrix=equations.matrix,
            free=free,
            damping=xp.full_like(rss, FIRST_DAMPING),
            iterations=xp.zeros_like(rss, dtype=xp.int64),
            converged=xp.zeros_like(done),
            done=done,
        )

    def take(self, rows: Any) -> State:
        """Some of the climbs."""
        return State(**{field.name: getattr(self, field.name)[rows] for field in fields(State)})


def climb(statistics: Likelihood, state: State, options: Climb) -> State:
    """Takes steps until all signals are done; the stragglers of a batch go on by themselves.

    Args:
        statistics: Of B signals.
        state: Where they start; changed.
        options: When to end.
    """
    xp, waveform, bound = namespace(state.z), statistics.waveform, options.bound
    while True:
        level = options.variance if options.variance is not None else state.rss / statistics.n
        variance = xp.maximum(options.floor, level)
        system, slope = _damped(state, bound, variance)
        step = system.solve(slope)
        if bound is None:
            _note_converged(state, system, step, options.tolerance * variance)
        state.done |= state.converged | (state.iterations >= options.max_iterations)
        state.done |= state.damping > LARGEST_DAMPING
        left = int((~state.done).sum())
        if left == 0:
            return state
        if left <= len(state.done) // 2 and bound is None:
            rows = ~state.done
            rest = climb(statistics.take(rows), state.take(rows), options.take(rows))
            for name in CHANGING:
                getattr(state, name)[rows] = getattr(rest, name)
            return state
        state.iterations += ~state.done
        step = step.reshape(state.z.shape)
        z = state.z + shortened(step, statistics, LARGEST_MOVE, all_alike=bound is not None)
        trial = statistics.equations(*waveform.unpack(z))
        rss = statistics.energy + trial.gain
        if bound is None:
            better = (
                system.regular & (rss <= state.rss + ROUNDING * statistics.energy) & ~state.done
            )
            state.damping = xp.where(better, state.damping * 0.03, state.damping * 8 + 1e-6)
        else:
            pulled = bound.pull * (z**2 - state.z**2).reshape(slope.shape)
            change = (rss - state.rss) / variance + pulled.sum(-1)
            better = change <= 0
            damping = xp.where(better, state.damping * 0.3, state.damping * 10)
            state.damping = xp.clip(damping, *BOUNDED_DAMPING)
            if bool((~better | (change > -STILL)).all()):
                state.done |= True
        _keep(state, better, z=z, rss=rss, slope=trial.slope, matrix=trial.matrix)


def _damped(state: State, bound: Bound | None, variance: Any) -> tuple[System, Any]:
    """The damped system of the next step and its right-hand side, (B, K·Z)."""
    if bound is None:
        return factorize(state.matrix, state.free, state.damping), state.slope
    ridge = variance[:, None] * (bound.pull + bound.reach * state.damping[:, None])
    slope = state.slope - variance[:, None] * bound.pull * state.z.reshape(state.slope.shape)
    return factorize(state.matrix + _diagonal(ridge), state.free), slope


def _note_converged(state: State, system: System, step: Any, limit: Any) -> None:
    """Notes which signals have an undamped decrement below a limit, (B,), given their damped step."""
    small = ~state.done & system.regular & ((step * state.slope).sum(-1) < limit)
    if small.any():
        plain = factorize(state.matrix, state.free)
        decrement = (plain.solve(state.slope) * state.slope).sum(-1)
        state.converged |= small & plain.regular & (decrement < limit)


def shortened(step: Any, statistics: Likelihood, largest: float, all_alike: bool = False) -> Any:
    """Steps Δz, (B, K, Z), none of which moves a shape by more than `largest` of its bins.

    Args:
        step: The steps.
        statistics: Gives the bins.
        largest: In bins.
        all_alike: Whether all components of a signal are shortened like the one that moves furthest, or each by itself.
    """
    xp, waveform = namespace(step), statistics.waveform
    share: Any = None
    for d, scale in enumerate(waveform.scales(statistics.duration)):
        limit = largest * scale
        own = limit / xp.clip(xp.abs(step[..., d : d + 1]), limit, None)  # (B, K, 1)
        share = own if share is None else xp.minimum(share, own)
    if all_alike:
        share = (
            share.amin(-2, keepdim=True)
            if isinstance(share, Tensor)
            else share.min(-2, keepdims=True)
        )
    return step * share


def _keep(state: State, better: Any, **trial: Any) -> None:
    """Takes over the trials of some signals."""
    if bool(better.all()):
        for name, value in trial.items():
            setattr(state, name, value)
    elif bool(better.any()):
        xp = namespace(better)
        for name, value in trial.items():
            chosen = better.reshape(-1, *[1] * (value.ndim - 1))
            setattr(state, name, xp.where(chosen, value, getattr(state, name)))


def _diagonal(values: Any) -> Any:
    """Diagonal matrices, (B, d, d), of (B, d)."""
    if isinstance(values, Tensor):
        return torch.diag_embed(values)
    matrix = values[..., None] * 0.0 + values[:, None] * 0.0
    matrix.reshape(len(values), -1)[:, :: values.shape[1] + 1] = values
    return matrix
