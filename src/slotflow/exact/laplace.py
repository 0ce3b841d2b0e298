r"""Joint Gauss–Newton from given tones to the maximum of the likelihood, and the Gaussian there.

**Step.** In z = (f, Re c, Im c) of all K tones, c referred to the long stream's mid-time (`likelihood.py`), with the
residual x − m and the Jacobian J of m, the damped Gauss–Newton step solves

.. math:: (J^T J + λ\, \mathrm{diag}\, J^T J)\, Δz = J^T (x - m) .

It is solved in units in which JᵀJ has a unit diagonal, so that hertz and amplitudes never meet in one matrix: a single
tone on the long stream gives the identity there, and only overlap between tones makes the system ill conditioned. A
tone whose frequency would move by more than half a bin 1/T has its own three steps shortened.

**Control.** λ is each signal's own: a trial that does not raise RSS is taken and λ falls, any other is refused and λ
grows. The decrement Jᵀ(x − m)·Δz/s², s² = σ² or RSS/n, at λ = 0 is twice the gain in log L that is left to expect, and
its root the distance to the maximum in posterior standard deviations; below `TOLERANCE` the fit has converged.

**Failure.** `converged` is False where the start is not finite, two tones fall together or an amplitude vanishes (JᵀJ
is singular, or A is below the floor of σ), a frequency leaves (0, Nyquist) of the long stream or strays from its start
by more than `max_shift` bins, or the iterations run out. A maximum that was reached may be a local one (a side lobe, a
peak of the noise): whether the residual is white is another question, which RSS/(n σ²) begins to answer.

**Covariance.** Σ_z = σ² (JᵀJ)⁻¹, the inverse Fisher matrix, is carried to θ = (A, φ, f) by A = |c|, φ = arg c − 2πfτ:

.. math:: dA = (\Re c\, d\Re c + \Im c\, d\Im c)/A, \quad dφ = (\Re c\, d\Im c - \Im c\, d\Re c)/A^2 - 2πτ\, df .

With σ unknown its maximum is σ² = RSS/n. σ is never taken below `SIGMA_FLOOR` × rms of the data, where float32
rounds: without a floor the likelihood of noiseless data would have no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.exact.likelihood import Statistics, from_complex, to_complex

__all__ = ["Laplace", "fit", "gauss_newton_step", "linear_amplitudes"]

TOLERANCE = 1e-8
"""Decrement below which a fit has converged: 1e-4 posterior standard deviations from the maximum."""
SIGMA_FLOOR = 1e-6
"""Smallest σ in units of the data's root mean square."""
LARGEST_MOVE = 0.5
"""Largest change of a frequency in one step, in bins 1/T of the long stream."""
FIRST_DAMPING = 1e-3
"""λ of a fit's first step."""
ROUNDING = 2e-13
"""Accuracy of RSS in units of the data's energy: a rise within it does not count."""
CHANGING = ("frequency", "c", "rss", "slope", "matrix", "iterations", "converged")
"""What a fit changes for good."""
SINGULAR = 1e-13
"""A scaled system whose smallest pivot falls below this is singular."""


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
        damping: λ ≥ 0.

    Returns:
        The new theta, shape (B, K, 3), zeros outside the mask, and the covariance of (A, φ, f), shape (B, 3K, 3K), from
        the Fisher matrix at the old theta. Where that is singular, theta is returned as it came and the covariance is
        that of each parameter with all others known (0 for a frequency whose amplitude is 0).
    """
    mask = _full_mask(theta) if mask is None else mask
    frequency, c = to_complex(theta, statistics.reference, mask)
    _, slope, matrix = statistics.normal_equations(frequency, c)
    scale, factor, regular = _factorize(matrix, mask, torch.full_like(sigma, damping))
    step = _solve(scale, factor, slope) * regular[:, None]
    move_f, move_c = _limited(step, statistics)
    new = from_complex(frequency + move_f, c + move_c, statistics.reference)
    covariance = _covariance(scale, factor, c, mask, sigma, statistics.reference)
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
) -> Laplace:
    """Climbs from given tones to the maximum of the likelihood.

    Args:
        statistics: Of B signals.
        theta: Starting values (A, φ, f), shape (B, K, 3).
        mask: Which tones exist, shape (B, K), bool; None: all.
        sigma: Known noise level, shape (B,); None: σ² = RSS/n.
        max_iterations: Steps at most.
        max_shift: How far a frequency may end from its start, in bins 1/T of the long stream.
    """
    mask = _full_mask(theta) if mask is None else mask
    grid, n = statistics.grids[0], statistics.n
    floor = (SIGMA_FLOOR**2 * statistics.energy / n).clamp_min(torch.finfo(torch.float64).tiny)

    usable = (theta.isfinite() | ~mask[..., None]).all(-1).all(-1)
    theta = torch.where(usable[:, None, None] & mask[..., None], theta.double(), 0.0)
    start, c = to_complex(theta, statistics.reference, mask)
    rss, slope, matrix = statistics.normal_equations(start, c)
    state = {
        "frequency": start.clone(),
        "c": c,
        "rss": rss,
        "slope": slope,
        "matrix": matrix,
        "damping": torch.full_like(rss, FIRST_DAMPING),
        "iterations": torch.zeros_like(rss, dtype=torch.int64),
        "converged": torch.zeros_like(usable),
        "done": ~usable,
        "mask": mask,
        "floor": floor,
        "variance": torch.zeros_like(rss) if sigma is None else sigma.double() ** 2,
    }
    _climb(statistics, state, profiled=sigma is None, max_iterations=max_iterations)
    frequency, c, rss = state["frequency"], state["c"], state["rss"]
    inside = (frequency > 0) & (frequency < 0.5 / grid.dt)
    near = (frequency - start).abs() * grid.duration <= max_shift
    alive = c.abs() ** 2 > floor[:, None]
    converged = state["converged"] & ((inside & near & alive) | ~mask).all(-1)
    level = floor.maximum(rss / n if sigma is None else sigma.double() ** 2).sqrt()
    scale, factor, _ = _factorize(state["matrix"], mask, torch.zeros_like(rss))
    covariance = _covariance(scale, factor, c, mask, level, statistics.reference)
    result = from_complex(frequency, c, statistics.reference)
    return Laplace(
        theta=torch.where(mask[..., None], result, 0.0),
        sigma=level,
        covariance=torch.where(converged[:, None, None], covariance, 0.0),
        log_likelihood=statistics.log_likelihood_of_rss(rss, level),
        rss=rss,
        iterations=state["iterations"],
        converged=converged,
    )


def _climb(
    statistics: Statistics, state: dict[str, Tensor], profiled: bool, max_iterations: int
) -> None:
    """Iterates on the state of B signals, in place, until all are done; the stragglers go on by themselves."""
    n, done = statistics.n, state["done"]
    zero = torch.zeros_like(state["rss"])
    while True:
        variance = state["floor"].maximum(state["rss"] / n if profiled else state["variance"])
        scale, factor, regular = _factorize(state["matrix"], state["mask"], zero)
        decrement = (_solve(scale, factor, state["slope"]) * state["slope"]).sum(-1) / variance
        state["converged"] |= ~done & regular & (decrement < TOLERANCE)
        done |= state["converged"] | (state["iterations"] >= max_iterations)
        left = int((~done).sum())
        if left == 0:
            return
        if left <= len(done) // 2:
            part = {name: value[~done] for name, value in state.items()}
            _climb(statistics.take(~done), part, profiled, max_iterations)
            index = (~done).nonzero().squeeze(-1)
            for name in CHANGING:
                state[name][index] = part[name]
            return
        state["iterations"] += (~done).long()
        scale, factor, regular = _factorize(state["matrix"], state["mask"], state["damping"])
        move_f, move_c = _limited(_solve(scale, factor, state["slope"]), statistics)
        trial = {"frequency": state["frequency"] + move_f, "c": state["c"] + move_c}
        trial["rss"], trial["slope"], trial["matrix"] = statistics.normal_equations(
            trial["frequency"], trial["c"]
        )
        better = regular & (trial["rss"] <= state["rss"] + ROUNDING * statistics.energy) & ~done
        for name, value in trial.items():
            chosen = better.view(-1, *[1] * (value.ndim - 1))
            state[name] = torch.where(chosen, value, state[name])
        damping = state["damping"]
        state["damping"] = torch.where(better, damping * 0.03, damping * 8 + 1e-6).clamp(max=1e12)


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
    frequency = torch.where(mask, frequency, 0.0)
    zero = torch.zeros_like(frequency)
    _, slope, matrix = statistics.normal_equations(frequency, torch.complex(zero, zero))
    scale, factor, _ = _factorize(matrix, mask, torch.zeros_like(statistics.energy), linear=True)
    step = _solve(scale, factor, slope).reshape(*frequency.shape, 3)
    theta = from_complex(frequency, torch.complex(step[..., 1], step[..., 2]), statistics.reference)
    return torch.where(mask[..., None], theta, 0.0)


def _full_mask(theta: Tensor) -> Tensor:
    return torch.ones(theta.shape[:-1], dtype=torch.bool, device=theta.device)


def _factorize(
    matrix: Tensor, mask: Tensor, damping: Tensor, linear: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Scales JᵀJ, shape (B, 3K, 3K), to a unit diagonal, adds λ, shape (B,), and factorizes.

    Returns:
        The scale of each unknown, shape (B, 3K), 0 for those that are held (absent tones; the frequencies if linear);
        the lower Cholesky factor, shape (B, 3K, 3K), the identity where the system is singular; whether it is regular,
        shape (B,), bool.
    """
    free = mask[..., None].expand(-1, -1, 3)
    if linear:
        free = free & torch.tensor([False, True, True], device=mask.device)
    free = free.flatten(1)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    positive = (diagonal > 0) & diagonal.isfinite()
    scale = torch.where(free & positive, diagonal, 1.0).rsqrt() * (free & positive)
    eye = torch.eye(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
    held = (~(free & positive)).double()
    system = matrix.nan_to_num() * scale[:, :, None] * scale[:, None, :]
    system = system + eye * (held + damping[:, None])[:, None, :]
    factor, info = torch.linalg.cholesky_ex(system)
    pivots = factor.diagonal(dim1=-2, dim2=-1) ** 2
    sound = (info == 0) & (pivots > SINGULAR).all(-1)
    factor = torch.where(sound[:, None, None], factor, eye)
    return scale, factor, sound & (positive | ~free).all(-1)


def _solve(scale: Tensor, factor: Tensor, slope: Tensor) -> Tensor:
    """Δz, shape (B, 3K), for Jᵀ(x − m) of the same shape."""
    scaled = torch.cholesky_solve((slope * scale)[..., None], factor)
    return scaled.squeeze(-1) * scale


def _limited(step: Tensor, statistics: Statistics) -> tuple[Tensor, Tensor]:
    """Splits Δz, shape (B, 3K), into changes of f and c, shape (B, K) each, none of f above the limit."""
    f, re, im = (step[:, i::3] for i in range(3))
    limit = LARGEST_MOVE / statistics.grids[0].duration
    shrink = (limit / f.abs().clamp_min(limit)).clamp(max=1.0)
    return f * shrink, torch.complex(re * shrink, im * shrink)


def _covariance(
    scale: Tensor, factor: Tensor, c: Tensor, mask: Tensor, sigma: Tensor, reference: float
) -> Tensor:
    """Covariance of (A, φ, f), shape (B, 3K, 3K), from the factorized JᵀJ."""
    inverse = torch.cholesky_inverse(factor) * scale[:, :, None] * scale[:, None, :]
    amplitude = torch.where(c.abs() > 0, c.abs(), 1.0)
    a, b = c.real / amplitude, c.imag / amplitude
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    rows = [
        torch.stack([zero, a, b], -1),
        torch.stack([-2 * math.pi * reference * one, -b / amplitude, a / amplitude], -1),
        torch.stack([one, zero, zero], -1),
    ]
    # (B, K, 3, 3): d(A, φ, f)/d(f, Re c, Im c)
    block = torch.stack(rows, -2) * (mask * sigma.double()[:, None])[..., None, None]
    batch, k = mask.shape
    covariance = (block @ inverse.view(batch, k, 3, 3 * k)).view(batch, 3 * k, k, 3)
    covariance = (covariance.transpose(1, 2) @ block.mT).transpose(1, 2)  # (B, 3K, K, 3)
    covariance = covariance.reshape(batch, 3 * k, 3 * k)
    return 0.5 * (covariance + covariance.mT)
