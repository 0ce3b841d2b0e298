r"""Every slot as every class: how much each explains, and Laplace's evidence of each.

What the other slots leave of the data, demodulated by the slot's own carrier and averaged in segments, is a short
record around zero frequency, on which a fit of one component costs little. From the slot's present shape each class is
fitted to it, and

.. math:: \ln Z_c = G_c + \tfrac12 \ln \det Σ_c + \tfrac{Z_c}{2} \ln 2π - \ln V_c
          - \ln \left( 2π |c_c|^2 \ln \frac{ρ_{hi}}{ρ_{lo}} \right) - \ln C ,

G_c being its gain in log-likelihood, Σ_c the bound of its Z_c coordinates, V_c the extent of its shapes under the
prior, followed by the prior of a complex amplitude whose modulus is log-uniform, and by that of the class. Where
components do not overlap, this is the posterior of the class, and the evidence for a component against none; the
network has only to correct it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from slotflow.network.family.bounds import Bounds
from slotflow.network.family.joint import Slots, amplitudes, joint_fit, residual
from slotflow.network.family.units import Units

__all__ = ["Hypotheses", "hypotheses"]

STEPS = 3
"""Gauss–Newton steps of each fit."""
EXCLUDED = -15.0
"""Smallest logarithm of a class's share."""


class Hypotheses(NamedTuple):
    """K slots of B signals, each as every one of C classes."""

    raw: Tensor
    """Fitted raw coordinates, (B, K, C, D)."""
    gain: Tensor
    """Gain in log-likelihood over no component, (B, K, C)."""
    log_z: Tensor
    """ln Z_c, (B, K, C), relative to no component; very small for classes that may not be."""

    @property
    def log_odds(self) -> Tensor:
        """Logarithm of each class's share, not below `EXCLUDED`, (B, K, C)."""
        return self.log_z.log_softmax(-1).clamp_min(EXCLUDED)


@torch.no_grad()
def hypotheses(x: Tensor, units: Units, slots: Slots, bounds: Bounds) -> Hypotheses:
    """Tries every slot as every class.

    Args:
        x: Records, (B, N).
        units: The classes.
        slots: The slots after a joint fit.
        bounds: The priors.
    """
    size, k = slots.kind.shape
    classes, n = units.classes, units.coarse.n
    xi = units.xi(slots.raw, slots.kind)
    own = residual(x, units.fine, units, slots)[:, None]
    own = own + slots.c[..., None] * units.fine.basis(
        xi, slots.kind
    )  # the data less the other slots
    width = units.fine.n // n
    short = (own * units.fine.carrier(xi, slots.kind).conj()).view(size, k, n, width).sum(-1)
    short = (
        short / math.sqrt(width) * units.coarse.carrier(xi, slots.kind)
    )  # back at its frequency, noise 1
    raw, kind, told = _starts(units, slots, bounds)
    records = short[:, :, None].expand(-1, -1, classes, -1).reshape(-1, n)
    mask = slots.mask[:, :, None].expand(-1, -1, classes).reshape(-1, 1)
    start = Slots(raw.reshape(-1, 1, raw.shape[-1]), kind.reshape(-1, 1), mask.to(x.dtype), mask)
    start = amplitudes(records, units.coarse, units, start)
    fit = joint_fit(records, units.coarse, units, start, told, STEPS)
    energy = records.abs().square().sum(-1)
    shape = (size, k, classes)
    gain = (energy - fit.rss).view(shape).nan_to_num(0.0).clamp_min(0.0)
    volume = bounds.volume[:, None, None] * units.present  # (B, 1, C, D)
    spread = 0.5 * fit.log_det.float().view(shape)
    modulus = (fit.slots.c[:, 0].abs() / math.sqrt(width)).clamp_min(1e-3).log().view(shape)
    scale = 2 * math.log(math.sqrt(width))  # c of the short record is larger by √width
    log_z = gain + spread - scale + 0.5 * units.widths * math.log(2 * math.pi) - volume.sum(-1)
    ratio = (bounds.gain[:, 1] / bounds.gain[:, 0]).log().clamp_min(1e-3)
    kinds = bounds.allowed.sum(-1)
    log_z = log_z - 2 * modulus - (2 * math.pi * ratio * kinds).log()[:, None, None]
    log_z = torch.where(bounds.allowed[:, None], log_z, log_z.amin(-1, keepdim=True) - 1e3)
    return Hypotheses(fit.slots.raw.view(*shape, -1), gain, log_z.nan_to_num(-1e3))


def _starts(units: Units, slots: Slots, bounds: Bounds) -> tuple[Tensor, Tensor, Bounds]:
    """Where each class starts, (B, K, C, D), the classes, (B, K, C), and bounds of each of the BKC records.

    A class keeps what the slot's present class has too; other shapes begin at the value that makes them harmless: a
    drift of 0, and a decay to about a twentieth.
    """
    size, k = slots.kind.shape
    classes = units.classes
    kind = torch.arange(classes, device=slots.kind.device).expand(size, k, -1)
    harmless = torch.where(units.positive, math.log(3.0), 0.0)
    low, high = bounds.low[:, None], bounds.high[:, None]
    shared = units.present[slots.kind]  # what the slot has
    raw = torch.where(shared, slots.raw, harmless.expand_as(slots.raw)).maximum(low).minimum(high)
    rows = torch.arange(size, device=raw.device).repeat_interleave(k * classes)
    told = Bounds(*(part[rows] for part in bounds))
    return raw[:, :, None].expand(-1, -1, classes, -1), kind, told
