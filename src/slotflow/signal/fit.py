r"""Joint Gauss–Newton from given tones to the maximum of the likelihood, and the Gaussian there.

**Step.** In z = (f, Re c, Im c) of all K tones, c referred to the long stream's mid-time (`likelihood.py`), with the
residual x − m and the Jacobian J of m, the damped Gauss–Newton step solves

.. math:: (J^T J + λ\, \mathrm{diag}\, J^T J)\, Δz = J^T (x - m) .

It is solved in units in which JᵀJ has a unit diagonal (`systems.py`). A tone whose frequency would move by more than
half a bin 1/T has its own three steps shortened.

**Control.** λ is each signal's own: a trial that does not raise RSS is taken and λ falls, any other is refused and λ
grows. The decrement Jᵀ(x − m)·Δz/s², s² = σ² or RSS/n, at λ = 0 is twice the gain in log L that is left to expect, and
its root the distance to the maximum in posterior standard deviations; below `TOLERANCE` the fit has converged.

**Failure.** `converged` is False where the start is not finite, two tones start or end in one place or an amplitude is
zero (JᵀJ is singular there, or A is below the floor of σ), a frequency leaves (0, Nyquist) of the long stream or
strays from its start by more than `max_shift` bins, no step lowers RSS any more, or the iterations run out.

**Mismatch.** A maximum that was reached may be a local one (a side lobe, a peak of the noise) or one at which the
Gaussian is a poor picture (an unresolved pair). Either shows in the curvature H of −log L, which the Fisher matrix F =
JᵀJ/σ² should equal. With the Cholesky factor F = C Cᵀ and the displacement d = ε C⁻ᵀ1, ε of a standard deviation along
every axis of the Gaussian, the slope changes by −H d and

.. math:: e = 1 - C^{-1} H d / ε = (I - C^{-1} H C^{-T})\, 1

vanishes if H = F; `mismatch` is its largest entry. It is of the order of 1/SNR for resolved tones; at 1 an undamped
Gauss–Newton step would no longer approach the maximum. `reliable` asks for less than `LARGEST_MISMATCH`. Whether the
residual is white is another question, which RSS/(n σ²) begins to answer.

**Noise level.** With σ unknown its maximum is σ² = RSS/n. σ is never taken below `SIGMA_FLOOR` × rms of the data, where
float32 rounds: without a floor the likelihood of noiseless data would have no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from slotflow.signal.likelihood import Statistics, from_complex, to_complex
from slotflow.signal.single import from_complex_one, to_complex_one
from slotflow.signal.single_fit import (
    FIRST_DAMPING,
    LARGEST_DAMPING,
    LARGEST_MOVE,
    ROUNDING,
    amplitudes_one,
    climb_one,
    covariance_one,
)
from slotflow.signal.systems import factorize, solve, theta_covariance

__all__ = ["Laplace", "fit", "gauss_newton_step", "linear_amplitudes"]

TOLERANCE = 1e-8
"""Decrement below which a fit has converged: 1e-4 posterior standard deviations from the maximum."""
SIGMA_FLOOR = 1e-6
"""Smallest σ in units of the data's root mean square."""
DISPLACEMENT = 0.1
"""ε, in posterior standard deviations."""
LARGEST_MISMATCH = 0.5
"""Mismatch from which on the Gaussian is not to be relied on."""
FEW = 8
"""Signals up to which NumPy, one after the other, is faster than torch on all of them."""
CHANGING = ("frequency", "c", "rss", "slope", "matrix", "iterations", "converged")
"""What a fit changes for good."""


@dataclass(frozen=True, eq=False)
class Laplace:
    """Maximum of the likelihood of B signals, and its Gaussian approximation."""

    theta: Tensor
    """(A, φ in [0, 2π), f), (B, K, 3), float64; zeros where there is no tone or the start was not finite."""
    sigma: Tensor
    """Noise level, given or at its maximum, (B,)."""
    covariance: Tensor
    """Of (A, φ, f) of the first tone, then the second, …, (B, 3K, 3K); zeros where there is no tone or no fit."""
    log_likelihood: Tensor
    """At theta and sigma, (B,)."""
    rss: Tensor
    """Residual sum of squares at theta, (B,)."""
    iterations: Tensor
    """Gauss–Newton steps tried, (B,), int64."""
    converged: Tensor
    """Whether theta is a maximum with an invertible Fisher matrix, (B,), bool."""
    mismatch: Tensor
    """How far the curvature is from the Fisher matrix, relative, (B,); inf: not converged, NaN: not asked for."""

    @property
    def reliable(self) -> Tensor:
        """Whether the fit converged and its Gaussian describes the likelihood around it, (B,), bool."""
        return self.converged & (self.mismatch < LARGEST_MISMATCH)


@torch.no_grad()
def gauss_newton_step(
    statistics: Statistics,
    theta: Tensor,
    mask: Tensor | None,
    sigma: Tensor,
    damping: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """One joint step of all tones on all streams; finite wherever the input is, and free of gradients.

    Args:
        statistics: Of B signals.
        theta: Where to start, (A, φ, f), shape (B, K, 3).
        mask: Which tones exist, shape (B, K), bool; None: all.
        sigma: Noise level, shape (B,).
        damping: λ ≥ 0; the covariance includes it.

    Returns:
        The new theta, shape (B, K, 3), zeros outside the mask, and the covariance of (A, φ, f), shape (B, 3K, 3K), from
        the Fisher matrix at the old theta. Where that is singular, theta is returned as it came and the covariance is
        that of each parameter with all others known (0 for a frequency whose amplitude is 0).
    """
    mask = _full_mask(theta) if mask is None else mask
    frequency, c = to_complex(theta, statistics.reference, mask)
    _, slope, matrix = statistics.normal_equations(frequency, c)
    scale, factor, regular = factorize(matrix, mask, torch.full_like(sigma, damping))
    step = solve(scale, factor, slope) * regular[:, None]
    move_f, move_c = _limited(step, statistics)
    new = from_complex(frequency + move_f, c + move_c, statistics.reference)
    covariance = theta_covariance(scale, factor, c, mask, sigma, statistics.reference)
    new = torch.where(regular[:, None, None], new, theta.double())
    return torch.where(mask[..., None], new, 0.0), covariance


@torch.no_grad()
def fit(
    statistics: Statistics,
    theta: Tensor,
    mask: Tensor | None = None,
    sigma: Tensor | None = None,
    *,
    max_iterations: int = 50,
    max_shift: float = 1.0,
    tolerance: float = TOLERANCE,
    curvature: bool = True,
) -> Laplace:
    """Climbs from given tones to the maximum of the likelihood.

    Args:
        statistics: Of B signals.
        theta: Starting values (A, φ, f), shape (B, K, 3).
        mask: Which tones exist, shape (B, K), bool; None: all.
        sigma: Known noise level, shape (B,); None: σ² = RSS/n.
        max_iterations: Steps at most.
        max_shift: How far a frequency may end from its start, in bins 1/T of the long stream.
        tolerance: Decrement below which a fit has converged.
        curvature: Whether to compare the curvature with the Fisher matrix; if not, mismatch is NaN.
    """
    mask = _full_mask(theta) if mask is None else mask
    grid, n = statistics.grids[0], statistics.n
    floor = (SIGMA_FLOOR**2 * statistics.energy / n).clamp_min(torch.finfo(torch.float64).tiny)

    if theta.shape[1] == 0:
        return _no_tones(statistics, sigma, floor)
    alone = _singles(statistics, theta, mask)
    if alone and bool(theta.isfinite().all()):
        levels = [None] * len(alone) if sigma is None else list(sigma)
        limits = (max_iterations, max_shift, tolerance, curvature)
        fits = [
            _fit_one(one, theta[i : i + 1], levels[i], float(floor[i]), *limits)
            for i, one in enumerate(alone)
        ]
        return fits[0] if len(fits) == 1 else _joined(fits)
    usable = (theta.isfinite() | ~mask[..., None]).all(-1).all(-1)
    theta = torch.where(usable[:, None, None] & mask[..., None], theta.double(), 0.0)
    start, c = to_complex(theta, statistics.reference, mask)
    rss, slope, matrix = statistics.normal_equations(start, c)
    _, _, regular = factorize(matrix, mask, torch.zeros_like(rss))
    state = {
        "frequency": start.clone(),
        "c": c,
        "rss": rss,
        "slope": slope,
        "matrix": matrix,
        "damping": torch.full_like(rss, FIRST_DAMPING),
        "iterations": torch.zeros_like(rss, dtype=torch.int64),
        "converged": torch.zeros_like(usable),
        "done": ~(usable & regular),
        "mask": mask,
        "floor": floor,
        "variance": torch.zeros_like(rss) if sigma is None else sigma.double() ** 2,
    }
    _climb(statistics, state, sigma is None, max_iterations, tolerance)
    frequency, c, rss = state["frequency"], state["c"], state["rss"]
    inside = (frequency > 0) & (frequency < 0.5 / grid.dt)
    near = (frequency - start).abs() * grid.duration <= max_shift
    alive = c.abs() ** 2 > floor[:, None]
    converged = state["converged"] & ((inside & near & alive) | ~mask).all(-1)
    level = floor.maximum(rss / n if sigma is None else sigma.double() ** 2).sqrt()
    scale, factor, _ = factorize(state["matrix"], mask, torch.zeros_like(rss))
    covariance = theta_covariance(scale, factor, c, mask, level, statistics.reference)
    mismatch = torch.full_like(rss, math.nan)
    if curvature:
        mismatch = _mismatch(statistics, state, scale, factor, DISPLACEMENT * level[:, None])
    result = from_complex(frequency, c, statistics.reference)
    return Laplace(
        theta=torch.where(mask[..., None], result, 0.0),
        sigma=level,
        covariance=torch.where(converged[:, None, None], covariance, 0.0),
        log_likelihood=statistics.log_likelihood_of_rss(rss, level),
        rss=rss,
        iterations=state["iterations"],
        converged=converged,
        mismatch=torch.where(converged, mismatch, math.inf),
    )


def _singles(statistics: Statistics, values: Tensor, mask: Tensor) -> list[Statistics]:
    """Each signal by itself, if there are few and NumPy may fit them all; else none.

    Args:
        statistics: Of B signals.
        values: Theta or frequencies, shape (B, K, …).
        mask: Which tones exist, shape (B, K), bool.
    """
    if len(values) > FEW or values.device.type != "cpu" or not bool(mask.all()):
        return []
    alone = [statistics.take(torch.tensor([i])) for i in range(len(values))]
    possible = all(one.is_single(values[i : i + 1]) for i, one in enumerate(alone))
    return alone if possible else []


def _joined(fits: list[Laplace]) -> Laplace:
    """Several fits as one."""
    return Laplace(
        **{f.name: torch.cat([getattr(x, f.name) for x in fits]) for f in fields(Laplace)}
    )


def _no_tones(statistics: Statistics, sigma: Tensor | None, floor: Tensor) -> Laplace:
    """The fit of noise alone, with σ² above a floor, shape (B,)."""
    rss = statistics.energy.clone()
    level = floor.maximum(rss / statistics.n if sigma is None else sigma.double() ** 2).sqrt()
    return Laplace(
        theta=rss.new_zeros(len(rss), 0, 3),
        sigma=level,
        covariance=rss.new_zeros(len(rss), 0, 0),
        log_likelihood=statistics.log_likelihood_of_rss(rss, level),
        rss=rss,
        iterations=torch.zeros_like(rss, dtype=torch.int64),
        converged=torch.ones_like(rss, dtype=torch.bool),
        mismatch=torch.zeros_like(rss),
    )


def _climb(
    statistics: Statistics,
    state: dict[str, Tensor],
    profiled: bool,
    max_iterations: int,
    tolerance: float,
) -> None:
    """Iterates on the state of B signals, in place, until all are done; the stragglers go on by themselves."""
    n, done = statistics.n, state["done"]
    zero = torch.zeros_like(state["rss"])
    while True:
        variance = state["floor"].maximum(state["rss"] / n if profiled else state["variance"])
        scale, factor, regular = factorize(state["matrix"], state["mask"], zero)
        decrement = (solve(scale, factor, state["slope"]) * state["slope"]).sum(-1) / variance
        state["converged"] |= ~done & regular & (decrement < tolerance)
        done |= state["converged"] | (state["iterations"] >= max_iterations)
        done |= state["damping"] > LARGEST_DAMPING
        left = int((~done).sum())
        if left == 0:
            return
        if left <= len(done) // 2:
            part = {name: value[~done] for name, value in state.items()}
            _climb(statistics.take(~done), part, profiled, max_iterations, tolerance)
            index = (~done).nonzero().squeeze(-1)
            for name in CHANGING:
                state[name][index] = part[name]
            return
        state["iterations"] += (~done).long()
        scale, factor, regular = factorize(state["matrix"], state["mask"], state["damping"])
        move_f, move_c = _limited(solve(scale, factor, state["slope"]), statistics)
        trial = {"frequency": state["frequency"] + move_f, "c": state["c"] + move_c}
        trial["rss"], trial["slope"], trial["matrix"] = statistics.normal_equations(
            trial["frequency"], trial["c"]
        )
        better = regular & (trial["rss"] <= state["rss"] + ROUNDING * statistics.energy) & ~done
        for name, value in trial.items():
            chosen = better.view(-1, *[1] * (value.ndim - 1))
            state[name] = torch.where(chosen, value, state[name])
        damping = state["damping"]
        state["damping"] = torch.where(better, damping * 0.03, damping * 8 + 1e-6)


def _fit_one(
    statistics: Statistics,
    theta: Tensor,
    sigma: Tensor | None,
    floor: float,
    max_iterations: int,
    max_shift: float,
    tolerance: float,
    curvature: bool,
) -> Laplace:
    """`fit` of one signal with all tones present, in NumPy; arguments as there, floor being that of σ²."""
    single, grid, n = statistics.single, statistics.grids[0], statistics.n
    start, c = to_complex_one(theta[0].detach().numpy(), statistics.reference)
    known = None if sigma is None else float(sigma.double()) ** 2
    end = climb_one(
        single, float(statistics.energy), n, start, c, known, floor, max_iterations, tolerance
    )
    inside = (end.frequency > 0) & (end.frequency < 0.5 / grid.dt)
    near = np.abs(end.frequency - start) * grid.duration <= max_shift
    alive = np.abs(end.c) ** 2 > floor
    converged = end.converged and bool((inside & near & alive).all())
    level = math.sqrt(max(floor, end.rss / n if known is None else known))
    covariance, mismatch = np.zeros_like(end.matrix), math.inf
    if converged:
        covariance, mismatch = covariance_one(
            single, end, level, DISPLACEMENT if curvature else None, statistics.reference
        )
    rss, level_ = (torch.tensor([value], dtype=torch.float64) for value in (end.rss, level))
    result = from_complex_one(end.frequency, end.c, statistics.reference)
    return Laplace(
        theta=torch.from_numpy(result)[None],
        sigma=level_,
        covariance=torch.from_numpy(covariance)[None],
        log_likelihood=statistics.log_likelihood_of_rss(rss, level_),
        rss=rss,
        iterations=torch.tensor([end.iterations]),
        converged=torch.tensor([converged]),
        mismatch=torch.tensor([mismatch], dtype=torch.float64),
    )


def _mismatch(
    statistics: Statistics, state: dict[str, Tensor], scale: Tensor, factor: Tensor, size: Tensor
) -> Tensor:
    """Largest entry of e of the module's docstring, shape (B,), for a displacement of size ε σ, shape (B, 1)."""
    ones = torch.ones_like(scale)[..., None]
    d = torch.linalg.solve_triangular(factor.mT, ones, upper=True).squeeze(-1) * scale * size
    frequency, c = (
        state["frequency"] + d[:, 0::3],
        state["c"] + torch.complex(d[:, 1::3], d[:, 2::3]),
    )
    _, slope, _ = statistics.normal_equations(frequency, c)
    change = ((slope - state["slope"]) * scale)[..., None]
    e = 1 + torch.linalg.solve_triangular(factor, change, upper=False).squeeze(-1) / size
    e = torch.where(scale > 0, e.abs(), 0.0)
    return torch.nn.functional.pad(e, (0, 1)).amax(-1)  # padded: there may be no tone at all


@torch.no_grad()
def linear_amplitudes(
    statistics: Statistics, frequency: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Best amplitudes and phases of tones at given frequencies, a linear problem.

    Args:
        statistics: Of B signals.
        frequency: In Hz, shape (B, K).
        mask: Which tones exist, shape (B, K), bool; None: all.

    Returns:
        (A, φ, f), shape (B, K, 3), zeros outside the mask. Where frequencies coincide, each tone is fitted alone.
    """
    frequency = frequency.double()
    mask = torch.ones_like(frequency, dtype=torch.bool) if mask is None else mask
    alone = _singles(statistics, frequency, mask)
    if alone:
        f = frequency.detach().numpy()
        rows = [
            from_complex_one(f[i], amplitudes_one(one.single, f[i]), statistics.reference)
            for i, one in enumerate(alone)
        ]
        return torch.from_numpy(np.stack(rows))
    frequency = torch.where(mask, frequency, 0.0)
    zero = torch.zeros_like(frequency)
    _, slope, matrix = statistics.normal_equations(frequency, torch.complex(zero, zero))
    scale, factor, _ = factorize(matrix, mask, torch.zeros_like(statistics.energy), linear=True)
    step = solve(scale, factor, slope).reshape(*frequency.shape, 3)
    theta = from_complex(frequency, torch.complex(step[..., 1], step[..., 2]), statistics.reference)
    return torch.where(mask[..., None], theta, 0.0)


def _full_mask(theta: Tensor) -> Tensor:
    return torch.ones(theta.shape[:-1], dtype=torch.bool, device=theta.device)


def _limited(step: Tensor, statistics: Statistics) -> tuple[Tensor, Tensor]:
    """Splits Δz, shape (B, 3K), into changes of f and c, shape (B, K) each, none of f above the limit."""
    f, re, im = (step[:, i::3] for i in range(3))
    limit = LARGEST_MOVE / statistics.grids[0].duration
    shrink = (limit / f.abs().clamp_min(limit)).clamp(max=1.0)
    return f * shrink, torch.complex(re * shrink, im * shrink)
