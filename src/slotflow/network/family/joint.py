r"""Joint fits of K components of any classes to B records at once: amplitudes by least squares, Gauss–Newton for all.

With noise of the variance 1 the log-likelihood is −|x − m|². In the slots' own coordinates (`units.py`) the model's
derivatives are

.. math:: ∂m/∂f = c\, g_f\, b , \qquad ∂m/∂\Re c = b\, e^{iφ}, \quad ∂m/∂\Im c = i b\, e^{iφ} , \qquad
          ∂m/∂ξ_d = c\, g_d\, b

(times ξ_d where the coordinate is its logarithm), φ = arg c. A step solves H Δ = d with H = 2 Re J†J and d = 2 Re
J†(x − m), damped, shortened to what each coordinate may move, and kept within the prior's bounds. It is taken where the
residual falls. The inverse of H is the joint bound.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from slotflow.network.family.bounds import Bounds
from slotflow.network.family.units import Instants, Units

__all__ = ["Fit", "Slots", "amplitudes", "joint_fit", "residual"]

RIDGE = 1e-2
"""Share of a component's energy that holds amplitudes back while components are not in their places."""
LARGEST_MOVE = 0.5
"""Largest change of a place in one step, in bins."""
LARGEST_SHARE = 0.1
"""Largest change of another shape in one step, as a share of its outer range."""
DAMPING = 1e-3
"""First damping of a step in units of the diagonal; tenfold after a step that is refused."""
FLOOR = 1e-5
"""What is added to the unit diagonal of H before it is inverted."""


class Slots(NamedTuple):
    """K slots of B records."""

    raw: Tensor
    """Raw coordinates, (B, K, D)."""
    kind: Tensor
    """Classes, (B, K), int64."""
    c: Tensor
    """Complex amplitudes, (B, K); 0 where there is no slot."""
    mask: Tensor
    """Which slots exist, (B, K), bool."""


class Fit(NamedTuple):
    """Slots at the end of a joint fit."""

    slots: Slots
    """Where they are."""
    rss: Tensor
    """|x − m|², (B,)."""
    covariance: Tensor
    """Joint bound of each slot's own coordinates, (B, K, Z, Z), float64; the unit matrix for what is empty."""
    log_det: Tensor
    """Logarithm of the determinant of the joint bound of all coordinates, (B,), float64."""
    step: Tensor
    """The step that a further iteration would take, (B, K, Z)."""


def residual(x: Tensor, times: Instants, units: Units, slots: Slots) -> Tensor:
    """X − m, (B, n)."""
    b = times.basis(units.xi(slots.raw, slots.kind), slots.kind)
    return x - torch.einsum("bk,bkn->bn", slots.c * slots.mask, b)


@torch.no_grad()
def amplitudes(x: Tensor, times: Instants, units: Units, slots: Slots) -> Slots:
    """The slots with the amplitudes that fit best, held back a little.

    Args:
        x: Records, (B, n).
        times: Their instants.
        units: The classes.
        slots: Shapes; their amplitudes are not looked at.
    """
    mask = slots.mask
    b = times.basis(units.xi(slots.raw, slots.kind), slots.kind) * mask[..., None]
    gram = torch.einsum("bkn,bln->bkl", b.conj(), b)
    d = torch.einsum("bkn,bn->bk", b.conj(), x)
    own = gram.diagonal(dim1=1, dim2=2).real
    gram = gram + torch.diag_embed(RIDGE * own + (~mask).float()).to(gram.dtype)
    solved = torch.linalg.solve_ex(gram, d)[0]
    return slots._replace(c=torch.where(mask & solved.isfinite(), solved, 0.0))


@torch.no_grad()
def joint_fit(
    x: Tensor, times: Instants, units: Units, slots: Slots, bounds: Bounds, steps: int
) -> Fit:
    """Gauss–Newton steps of all slots together.

    Args:
        x: Records, (B, n).
        times: Their instants.
        units: The classes.
        slots: Where to start.
        bounds: Of the shapes, (B, ·).
        steps: How many steps.
    """
    problem = _Problem(x, times, units, slots, bounds)
    damping = torch.full((len(x),), DAMPING, device=x.device, dtype=torch.float64)
    at = problem.at(units.own_raw(slots.raw, slots.kind), torch.where(slots.mask, slots.c, 0.0))
    for _ in range(steps):
        trial = problem.at(*problem.moved(at, problem.system(at).step(damping)))
        better = trial.rss <= at.rss
        at = _At(
            torch.where(better[:, None, None], trial.own, at.own),
            torch.where(better[:, None], trial.c, at.c),
            torch.where(better[:, None, None], trial.b, at.b),
            torch.where(better[:, None], trial.left, at.left),
            torch.where(better, trial.rss, at.rss),
        )
        damping = torch.where(better, 0.1 * damping, 10 * damping)
    found = slots._replace(raw=units.with_own(slots.raw, slots.kind, at.own), c=at.c)
    return Fit(found, at.rss, *problem.system(at).bound())


class _At(NamedTuple):
    """A point of B fits."""

    own: Tensor
    """Raw coordinates of the parameters that each class has, (B, K, E)."""
    c: Tensor
    """Amplitudes, (B, K)."""
    b: Tensor
    """Functions of time, (B, K, n)."""
    left: Tensor
    """What they leave of the records, (B, n)."""
    rss: Tensor
    """Its energy, (B,)."""


class _Problem:
    """B fits whose classes do not change: what depends on the classes alone is looked up once."""

    def __init__(
        self, x: Tensor, times: Instants, units: Units, slots: Slots, bounds: Bounds
    ) -> None:
        kind, mask = slots.kind, slots.mask
        index = units.own[kind]  # (B, K, E)
        safe = index.clamp_min(0)
        self.x, self.mask = x, mask
        self.there = (index >= 0) & mask[..., None]
        self.positive = units.positive[safe]
        self.used = units.used(kind) & mask[..., None]  # (B, K, Z)
        self.slopes = times.slopes[kind].unbind(2)  # (B, K, n) each
        low, high = (edge[:, None].expand_as(slots.raw) for edge in (bounds.low, bounds.high))
        self.low, self.high = low.gather(-1, safe), high.gather(-1, safe)
        span = (LARGEST_SHARE * (self.high - self.low)).clamp_min(1e-3)
        place = torch.arange(index.shape[-1], device=index.device) == 0
        self.reach = torch.where(place, LARGEST_MOVE, span)

    def at(self, own: Tensor, c: Tensor) -> _At:
        """The point of own raw coordinates, (B, K, E), and amplitudes, (B, K)."""
        values = self.values(own).unbind(-1)
        exponent = values[0][..., None] * self.slopes[0]
        for value, slope in zip(values[1:], self.slopes[1:], strict=True):
            exponent = exponent + value[..., None] * slope
        b = torch.exp(exponent)
        left = self.x - torch.einsum("bk,bkn->bn", c, b)
        return _At(own, c, b, left, torch.view_as_real(left).square().sum((1, 2)))

    def values(self, own: Tensor) -> Tensor:
        """ξ of own raw coordinates, (B, K, E)."""
        return torch.where(self.positive, torch.exp(own * self.positive), own)

    def system(self, at: _At) -> _System:
        """The normal equations at a point."""
        turned = at.b * (_phase(at.c) * self.mask)[..., None]
        own = at.c[..., None] * at.b
        factor = torch.where(self.positive, self.values(at.own), 1.0) * self.there
        slopes = [
            own * (slope * share[..., None])
            for slope, share in zip(self.slopes, factor.unbind(-1), strict=True)
        ]
        jacobian = torch.stack([slopes[0], turned, 1j * turned, *slopes[1:]], 2)  # (B, K, Z, n)
        flat = torch.view_as_real(jacobian).flatten(-2).flatten(1, 2)  # (B, KZ, 2n)
        slope = flat @ torch.view_as_real(at.left).flatten(-2)[..., None]
        return _System(2 * (flat @ flat.mT).double(), 2 * slope.double(), self.used)

    def moved(self, at: _At, move: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates and amplitudes after a step, (B, K, Z), shortened and within the bounds."""
        place, along, across, rest = move.tensor_split((1, 2, 3), -1)
        shapes = torch.cat([place, rest], -1)
        turn = torch.complex(along[..., 0], across[..., 0])
        ratio = (shapes / self.reach).abs().amax(-1).maximum(0.5 * turn.abs() / (at.c.abs() + 0.5))
        shorter = 1 / ratio.clamp_min(1.0)
        own = (at.own + shorter[..., None] * shapes).maximum(self.low).minimum(self.high)
        return own, at.c + shorter * turn * _phase(at.c) * self.mask


class _System(NamedTuple):
    """Normal equations of B records with K slots of Z coordinates."""

    hessian: Tensor
    """H, (B, KZ, KZ), float64."""
    slope: Tensor
    """d, (B, KZ, 1), float64."""
    used: Tensor
    """Which coordinates there are, (B, K, Z), bool."""

    def step(self, damping: Tensor) -> Tensor:
        """The step, (B, K, Z), damped by a share of the diagonal, (B,)."""
        factor, scale = self._factor(damping)
        solved = torch.cholesky_solve(self.slope * scale[..., None], factor)[..., 0] * scale
        return solved.nan_to_num(0.0, 0.0, 0.0).view(self.used.shape).float()

    def bound(self) -> tuple[Tensor, Tensor, Tensor]:
        """The slots' blocks of H⁻¹, (B, K, Z, Z), ln det H⁻¹, (B,), both float64, and the undamped step, (B, K, Z)."""
        factor, scale = self._factor(None)
        eye = torch.eye(factor.shape[-1], device=factor.device, dtype=factor.dtype)
        inverse = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        inverse = inverse.nan_to_num(0.0, 0.0, 0.0) * scale[:, None]
        step = (inverse.mT @ (inverse @ self.slope))[..., 0]
        by_slot = inverse.mT.reshape(*self.used.shape, -1)  # rows of each slot, (B, K, Z, KZ)
        root = factor.diagonal(dim1=1, dim2=2).nan_to_num(1.0).clamp_min(1e-12)
        log_det = 2 * (scale.log() - root.log()).sum(-1)
        return by_slot @ by_slot.mT, log_det, step.view(self.used.shape).float()

    def _factor(self, damping: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cholesky factor of H in units in which its diagonal is 1, (B, KZ, KZ), and the units, (B, KZ)."""
        used = self.used.flatten(1)
        diagonal = self.hessian.diagonal(dim1=1, dim2=2)
        scale = torch.where(used, diagonal.clamp_min(1e-12), 1.0).rsqrt()
        unit = self.hessian * scale[:, :, None] * scale[:, None]
        extra = (~used).double() + FLOOR
        if damping is not None:
            extra = extra + damping[:, None]
        return torch.linalg.cholesky_ex(unit + torch.diag_embed(extra))[0], scale


def _phase(c: Tensor) -> Tensor:
    """The phasor of c; 1 where c is 0."""
    size = c.abs()
    return torch.where(size > 0, c / size.clamp_min(1e-12), 1.0)
