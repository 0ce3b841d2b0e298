r"""The maximum of the likelihood near given components, and the Gaussian there.

The climb itself is `gauss_newton.py`; here are its start, the question whether its end counts, and what is said of it.

**Failure.** `converged` is False where the start is not finite, two components start or end in one place or an
amplitude is zero (JᵀJ is singular there, or A is below the floor of σ), a frequency leaves (0, Nyquist) of the long
stream or strays from its start by more than `max_shift` bins, no step lowers RSS any more, or the iterations run out.

**Mismatch.** A maximum that was reached may be a local one (a side lobe, a peak of the noise) or one at which the
Gaussian is a poor picture (an unresolved pair). Either shows in the curvature H of −log L, which the Fisher matrix F =
JᵀJ/σ² should equal. With the Cholesky factor F = C Cᵀ and the displacement d = ε C⁻ᵀ1, ε of a standard deviation along
every axis of the Gaussian, the slope changes by −H d and

.. math:: e = 1 - C^{-1} H d / ε = (I - C^{-1} H C^{-T})\, 1

vanishes if H = F; `mismatch` is its largest entry. It is of the order of 1/SNR for resolved tones; at 1 an undamped
Gauss–Newton step would no longer approach the maximum. Whether the residual is white is another question, which
RSS/(n σ²) begins to answer.

**Noise level.** With σ unknown its maximum is σ² = RSS/n. σ is never taken below `SIGMA_FLOOR` × rms of the data, where
float32 rounds: without a floor the likelihood of noiseless data would have no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from slotflow.core.arrays import namespace
from slotflow.signal.gauss_newton import Climb, State, climb
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.systems import System, factorize, free_unknowns, theta_covariance

__all__ = ["TOLERANCE", "Laplace", "fit", "linear_amplitudes"]

TOLERANCE = 1e-8
"""Decrement below which a fit has converged: 1e-4 posterior standard deviations from the maximum."""
SIGMA_FLOOR = 1e-6
"""Smallest σ in units of the data's root mean square."""
DISPLACEMENT = 0.1
"""ε, in posterior standard deviations."""
FEW_SIGNALS = 8
"""Signals up to which NumPy, one after the other, is faster than torch on all of them."""


@dataclass(frozen=True, eq=False)
class Laplace:
    """Maximum of the likelihood of B signals, and its Gaussian approximation."""

    theta: Tensor
    """Components, (B, K, P), float64; zeros where there is none or the start was not finite."""
    sigma: Tensor
    """Noise level, given or at its maximum, (B,)."""
    covariance: Tensor
    """Of the parameters of the first component, then the second, …, (B, K·P, K·P); zeros where there is no fit."""
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


@dataclass(frozen=True)
class _Rules:
    """What a fit may do, and what is asked of it."""

    max_iterations: int
    max_shift: float
    tolerance: float
    curvature: bool


@torch.no_grad()
def fit(
    statistics: Likelihood,
    theta: Tensor,
    mask: Tensor | None = None,
    sigma: Tensor | None = None,
    *,
    max_iterations: int = 50,
    max_shift: float = 1.0,
    tolerance: float = TOLERANCE,
    curvature: bool = True,
) -> Laplace:
    """Climbs from given components to the maximum of the likelihood.

    Args:
        statistics: Of B signals.
        theta: Starting values, (B, K, P).
        mask: Which components exist, (B, K), bool; None: all.
        sigma: Known noise level, (B,); None: σ² = RSS/n.
        max_iterations: Steps at most.
        max_shift: How far a place (the frequency of a tone) may end from its start, in bins 1/T of the long stream.
        tolerance: Decrement below which a fit has converged.
        curvature: Whether to compare the curvature with the Fisher matrix; if not, mismatch is NaN.
    """
    mask = _full_mask(theta) if mask is None else mask
    rules = _Rules(max_iterations, max_shift, tolerance, curvature)
    sigma = None if sigma is None else sigma.double()
    theta = theta.detach().double()
    if theta.shape[1] == 0:
        return _no_components(statistics, theta, sigma)
    if not _in_numpy(statistics, theta, mask):
        return _fitted(statistics, theta, mask, sigma, rules)
    parts = []
    for rows in _portions(statistics, len(theta)):
        some = statistics.take(rows).in_numpy
        level = None if sigma is None else sigma[rows].numpy()
        found = _fitted(some, theta[rows].numpy(), mask[rows].numpy(), level, rules)
        parts.append({name: torch.as_tensor(value) for name, value in vars(found).items()})
    names = [field.name for field in fields(Laplace)]
    return Laplace(**{name: _together([part[name] for part in parts]) for name in names})


def _fitted(statistics: Likelihood, theta: Any, mask: Any, sigma: Any, rules: _Rules) -> Laplace:
    """`fit` in the library that its arguments belong to."""
    xp, waveform, reference = namespace(theta), statistics.waveform, statistics.reference
    n, energy = statistics.n, statistics.energy
    floor = xp.clip(SIGMA_FLOOR**2 * energy / n, torch.finfo(torch.float64).tiny, None)
    usable = (xp.isfinite(theta) | ~mask[..., None]).all(-1).all(-1)
    given = usable[:, None, None] & mask[..., None]
    xi, c = waveform.split(xp.where(given, theta, 0.0), reference)
    start = State.at(statistics, waveform.pack(xi, c), mask)
    start.done |= ~usable
    options = Climb(
        rules.max_iterations, rules.tolerance, None if sigma is None else sigma**2, floor
    )
    end = climb(statistics, start, options)
    xi_end, c_end = waveform.unpack(end.z)
    converged = end.converged & _sensible(statistics, xi, xi_end, c_end, floor, mask, rules)
    level = xp.sqrt(xp.maximum(floor, end.rss / n if sigma is None else sigma**2))
    system = factorize(end.matrix, end.free)
    covariance = theta_covariance(waveform, system.inverse(), end.z, level, reference)
    mismatch = xp.full_like(end.rss, math.nan)
    if rules.curvature:
        mismatch = _mismatch(statistics, end, system, DISPLACEMENT * level[:, None])
    keep = converged[:, None, None]
    return Laplace(
        theta=xp.where(mask[..., None], waveform.join(xi_end, c_end, reference), 0.0),
        sigma=level,
        covariance=xp.where(keep, covariance, 0.0),
        log_likelihood=statistics.log_likelihood_of_rss(end.rss, level),
        rss=end.rss,
        iterations=end.iterations,
        converged=converged,
        mismatch=xp.where(converged, mismatch, math.inf),
    )


def _no_components(statistics: Likelihood, theta: Tensor, sigma: Tensor | None) -> Laplace:
    """The fit of noise alone; theta is (B, 0, P)."""
    rss, n = statistics.energy.clone(), statistics.n
    floor = (SIGMA_FLOOR**2 * rss / n).clamp_min(torch.finfo(torch.float64).tiny)
    level = floor.maximum(rss / n if sigma is None else sigma**2).sqrt()
    return Laplace(
        theta=theta.new_zeros(len(rss), 0, statistics.waveform.size),
        sigma=level,
        covariance=rss.new_zeros(len(rss), 0, 0),
        log_likelihood=statistics.log_likelihood_of_rss(rss, level),
        rss=rss,
        iterations=torch.zeros_like(rss, dtype=torch.int64),
        converged=torch.ones_like(rss, dtype=torch.bool),
        mismatch=torch.zeros_like(rss),
    )


def _sensible(
    statistics: Likelihood, start: Any, xi: Any, c: Any, floor: Any, mask: Any, rules: _Rules
) -> Any:
    """Whether all components ended in the band that the long stream resolves, near their starts and alive, (B,)."""
    xp, (low, high) = namespace(xi), statistics.limits
    place = statistics.waveform.shape.index(statistics.waveform.place)
    here, there = xi[..., place], start[..., place]
    inside = (here > low) & (here < high)
    near = xp.abs(here - there) * statistics.duration <= rules.max_shift
    alive = (xp.abs(c) ** 2 > floor[:, None, None]).all(-1)
    return ((inside & near & alive) | ~mask).all(-1)


def _mismatch(statistics: Likelihood, end: State, system: System, size: Any) -> Any:
    """Largest entry of e of the module's docstring, (B,), for a displacement of size ε σ, (B, 1)."""
    xp, waveform = namespace(size), statistics.waveform
    away = system.colour(xp.ones_like(system.scale)) * size
    moved = waveform.unpack(end.z + away.reshape(end.z.shape))
    change = statistics.equations(*moved).slope - end.slope
    e = xp.abs(1 + system.whiten(change) / size)
    e = xp.where(system.scale > 0, e, 0.0)
    return xp.amax(e, -1)


@torch.no_grad()
def linear_amplitudes(statistics: Likelihood, places: Tensor, mask: Tensor | None = None) -> Tensor:
    """Best amplitudes and phases of components at given shapes, a linear problem.

    Args:
        statistics: Of B signals.
        places: Shapes, (B, K) where there is one shape parameter (the frequency of a tone), or (B, K, D).
        mask: Which components exist, (B, K), bool; None: all.

    Returns:
        θ, (B, K, P), zeros outside the mask. Where components coincide, each is fitted alone.
    """
    xi = (places if places.ndim == 3 else places[..., None]).detach().double()
    mask = _full_mask(xi) if mask is None else mask
    if not _in_numpy(statistics, xi, mask):
        found: Tensor = _amplitudes(statistics, xi, mask)
        return found
    parts = []
    for rows in _portions(statistics, len(xi)):
        some = statistics.take(rows).in_numpy
        parts.append(torch.from_numpy(_amplitudes(some, xi[rows].numpy(), mask[rows].numpy())))
    return _together(parts)


def _amplitudes(statistics: Likelihood, xi: Any, mask: Any) -> Any:
    """`linear_amplitudes` in the library that its arguments belong to."""
    xp, waveform = namespace(xi), statistics.waveform
    xi = xp.where(mask[..., None], xi, 0.0)
    none = xp.concat([xi[..., :1] * 0j] * waveform.amplitudes, -1)  # (B, K, M)
    equations = statistics.equations(xi, none)
    system = factorize(equations.matrix, free_unknowns(waveform, mask, linear=True))
    step = system.solve(equations.slope).reshape(*mask.shape, waveform.coordinates)
    theta = waveform.to_theta(
        xp.concat([xi, step[..., len(waveform.shape) :]], -1), statistics.reference
    )
    return xp.where(mask[..., None], theta, 0.0)


def _in_numpy(statistics: Likelihood, values: Tensor, mask: Tensor) -> bool:
    """Whether NumPy fits the signals: few of them or one with many starts, on the CPU, with all components present."""
    return (
        (len(values) <= FEW_SIGNALS or statistics.repeats)
        and values.shape[1] > 0
        and values.device.type == statistics.energy.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and bool(mask.all())
    )


def _portions(statistics: Likelihood, count: int) -> list[Tensor]:
    """Which of some signals NumPy takes together: all starts of one signal, and each signal by itself."""
    every = torch.arange(count)
    return [every] if statistics.repeats else list(every[:, None])


def _together(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _full_mask(values: Tensor) -> Tensor:
    return torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
