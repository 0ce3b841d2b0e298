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
    damping = torch.full((len(x),), DAMPING, device=x.device, dtype=torch.float64)
    left = residual(x, times, units, slots)
    rss = left.abs().square().sum(-1)
    for _ in range(steps):
        *_, move = _system(left, times, units, slots).solve(damping)
        trial = _moved(units, slots, move, bounds)
        rest = residual(x, times, units, trial)
        value = rest.abs().square().sum(-1)
        better = value <= rss
        slots = Slots(
            torch.where(better[:, None, None], trial.raw, slots.raw),
            slots.kind,
            torch.where(better[:, None], trial.c, slots.c),
            slots.mask,
        )
        left, rss = torch.where(better[:, None], rest, left), torch.where(better, value, rss)
        damping = torch.where(better, 0.1 * damping, 10 * damping)
    return Fit(slots, rss, *_system(left, times, units, slots).solve(None))


class _System(NamedTuple):
    """Normal equations of B records with K slots of Z coordinates."""

    hessian: Tensor
    """H, (B, KZ, KZ), float64."""
    slope: Tensor
    """d, (B, KZ), float64."""
    used: Tensor
    """Which coordinates there are, (B, K, Z), bool."""

    def solve(self, damping: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The slots' blocks of H⁻¹, (B, K, Z, Z), ln det H⁻¹, (B,), both float64, and the step, (B, K, Z), float32.

        Args:
            damping: Added to the diagonal in units in which that of H is 1, (B,); None for nothing but `FLOOR`.
        """
        used = self.used.flatten(1)
        diagonal = self.hessian.diagonal(dim1=1, dim2=2)
        scale = torch.where(used, diagonal.clamp_min(1e-12), 1.0).rsqrt()
        unit = self.hessian * scale[:, :, None] * scale[:, None]
        extra = (~used).double() + FLOOR
        if damping is not None:
            extra = extra + damping[:, None]
        factor = torch.linalg.cholesky_ex(unit + torch.diag_embed(extra))[0]
        eye = torch.eye(factor.shape[-1], device=factor.device, dtype=factor.dtype)
        inverse = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        inverse = inverse.nan_to_num(0.0, 0.0, 0.0) * scale[:, None]
        step = (inverse.mT @ (inverse @ self.slope[..., None]))[..., 0]
        by_slot = inverse.mT.reshape(*self.used.shape, -1)  # rows of each slot, (B, K, Z, KZ)
        root = factor.diagonal(dim1=1, dim2=2).nan_to_num(1.0).clamp_min(1e-12)
        log_det = 2 * (scale.log() - root.log()).sum(-1)
        return by_slot @ by_slot.mT, log_det, step.view(self.used.shape).float()


def _system(left: Tensor, times: Instants, units: Units, slots: Slots) -> _System:
    """The normal equations at the slots, given what they leave of the records, (B, n)."""
    raw, kind, c, mask = slots
    xi = units.xi(raw, kind)
    b = times.basis(xi, kind)
    phase = _phase(c)
    index = units.own[kind]  # (B, K, E)
    value = xi.gather(-1, index.clamp_min(0))
    factor = torch.where(units.positive[index.clamp_min(0)], value, 1.0)
    slopes = (c[..., None] * factor)[..., None] * times.slopes[kind] * b[:, :, None]
    turned = (b * phase[..., None])[:, :, None]
    used = units.used(kind) & mask[..., None]  # (B, K, Z)
    columns = [slopes[:, :, :1], turned, 1j * turned, slopes[:, :, 1:]]
    jacobian = torch.cat(columns, 2) * used[..., None]  # (B, K, Z, n)
    flat = torch.view_as_real(jacobian).flatten(-2).flatten(1, 2)  # (B, KZ, 2n)
    hessian = 2 * flat @ flat.mT
    slope = 2 * (flat @ torch.view_as_real(left).flatten(-2)[..., None])[..., 0]
    return _System(hessian.double(), slope.double(), used)


def _phase(c: Tensor) -> Tensor:
    """The phasor of c; 1 where c is 0."""
    size = c.abs()
    return torch.where(size > 0, c / size.clamp_min(1e-12), 1.0)


def _moved(units: Units, slots: Slots, move: Tensor, bounds: Bounds) -> Slots:
    """Slots after a step of their own coordinates, (B, K, Z), shortened and within the bounds."""
    raw, kind, c, mask = slots
    place, along, across, rest = move.tensor_split((1, 2, 3), -1)
    reach = (LARGEST_SHARE * (bounds.high - bounds.low)).clamp_min(1e-3)  # (B, D)
    index = units.own[kind]
    allowed = reach[:, None].expand_as(raw).gather(-1, index.clamp_min(0))[..., 1:]
    ratios = [place.abs() / LARGEST_MOVE, rest.abs() / allowed, (along.abs() + across.abs()) / 2]
    ratios[2] = ratios[2] / (c.abs()[..., None] + 0.5)
    shorter = 1 / torch.cat(ratios, -1).amax(-1, keepdim=True).clamp_min(1.0)
    own = units.own_raw(raw, kind) + shorter * torch.cat([place, rest], -1)
    moved = units.with_own(raw, kind, own)
    moved = moved.maximum(bounds.low[:, None]).minimum(bounds.high[:, None])
    turn = torch.complex(along[..., 0], across[..., 0]) * _phase(c)
    return Slots(moved, kind, torch.where(mask, c + shorter[..., 0] * turn, 0.0), mask)
