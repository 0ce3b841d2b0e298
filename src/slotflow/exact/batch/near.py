r"""RSS of many draws around the maxima of B signals: a quadratic form of a few numbers for each tone.

Draws of a clear tone stay within r = `REACH` standard deviations of its maximum f̂. There its oscillation is a short sum
of Chebyshev polynomials T_p in x = (f − f̂)/r,

.. math:: e^{2πi(f - \hat f)u} \approx \sum_{p<P} a_p(u)\, T_p(x), \qquad
          |\text{error}| \le \frac{2}{P!} \Big(\frac{π r T}{2}\Big)^P , \quad |u| \le T/2 ,

with the functions a_p that interpolate at the P Chebyshev nodes. So the model is linear in φ_kp = c_k T_p(x_k), and

.. math:: \mathrm{RSS} = \sum x^2 - 2\, d \cdot φ + φ \cdot G φ ,

G and d being those of tones at the nodes (`Likelihood.amplitude_systems`) under the transform from nodes to
polynomials. All draws of a signal are one product of matrices, however long the data; the first P Chebyshev polynomials
cost a few multiplications. An error ε of a tone's oscillation changes ln L by no more than about ε SNR², which is
bounded before anything is drawn (`error`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.core.chebyshev import nodes_and_transform
from slotflow.signal.likelihood import Statistics

__all__ = ["REACH", "Near", "error", "near"]

TERMS = 8
"""P, Chebyshev polynomials for each tone."""
REACH = 7.0
"""r in standard deviations of the frequency."""
CACHED = 2**21
"""Bytes of φ that the caches of a CPU hold."""


@dataclass(frozen=True, eq=False)
class Near:
    """What the likelihood of B signals is around K tones each."""

    reach: Tensor
    """r, in Hz, (B, K)."""
    gram: Tensor
    """G, (B, 2KP, 2KP): Re and Im, tones, polynomials."""
    data: Tensor
    """d, (B, 2KP)."""

    def gains(self, away: Tensor, c: Tensor) -> Tensor:
        """RSS minus the data's energy, (B, n), of draws f − f̂ in Hz and complex amplitudes, (B, n, K) each."""
        each = 8 * away.shape[1] * self.data.shape[1]  # bytes of φ of one signal
        if away.device.type != "cpu" or len(away) * each <= CACHED:
            return self._gains(away, c)
        size = max(CACHED // each, 1)
        pieces = [slice(first, first + size) for first in range(0, len(away), size)]
        return torch.cat([self.take(rows)._gains(away[rows], c[rows]) for rows in pieces])

    def take(self, rows: slice) -> Near:
        """The same of some of the signals."""
        return Near(self.reach[rows], self.gram[rows], self.data[rows])

    def _gains(self, away: Tensor, c: Tensor) -> Tensor:
        """`gains` of all signals at once."""
        t, (batch, n, k) = self._polynomials(away), away.shape
        phi = t.new_empty(
            batch, 2, k, TERMS, n
        )  # draws last, so that every operation is on long rows
        torch.mul(t, c.real.mT[:, :, None], out=phi[:, 0])
        torch.mul(t, c.imag.mT[:, :, None], out=phi[:, 1])
        phi = phi.reshape(batch, -1, n)
        seen = torch.baddbmm(self.data[..., None], self.gram, phi, beta=-2.0)  # Gφ − 2d
        return seen.mul_(phi).sum(1)

    def systems(self, away: Tensor) -> tuple[Tensor, Tensor]:
        """Normal equations of the amplitudes, (B, m, 2K, 2K) and (B, m, 2K), at f − f̂ in Hz, (B, m, K)."""
        t, (batch, m, k) = self._polynomials(away), away.shape
        data = self.data.reshape(batch, 2, k, 1, TERMS) @ t[:, None]  # (B, 2, K, 1, m)
        table = self.gram.reshape(batch, 2 * k * TERMS * 2, k, TERMS).swapaxes(1, 2)
        half = (table @ t).reshape(batch, k, 2, k, TERMS, 2, m)  # of the second tone, (B, K, …)
        gram = half[:, :, :, :, 0] * t[:, None, None, :, 0, None]
        for p in range(1, TERMS):
            gram.addcmul_(half[:, :, :, :, p], t[:, None, None, :, p, None])
        gram = gram.permute(0, 5, 2, 3, 4, 1)  # from (B, K, 2, K, 2, m)
        size = 2 * k
        data = data.reshape(batch, size, m).mT
        return gram.reshape(batch, m, size, size), data.contiguous()

    def _polynomials(self, away: Tensor) -> Tensor:
        """T_p of (f − f̂)/r, (B, n, K) to (B, K, P, n)."""
        x = away.mT / self.reach[..., None]
        found = x.new_empty(*x.shape[:2], TERMS, x.shape[2])
        found[:, :, 0], found[:, :, 1], double = 1.0, x, 2 * x
        for p in range(2, TERMS):
            torch.mul(double, found[:, :, p - 1], out=found[:, :, p])
            found[:, :, p] -= found[:, :, p - 2]
        return found


def near(statistics: Statistics, places: Tensor, spread: Tensor) -> Near:
    """The quadratic form around given tones.

    Args:
        statistics: Of B signals.
        places: f̂ in Hz, (B, K).
        spread: Standard deviations of the frequencies in Hz, (B, K).
    """
    (batch, k), reach = places.shape, REACH * spread
    points, transform = (
        torch.as_tensor(x, device=places.device) for x in nodes_and_transform(TERMS)
    )
    f = places[..., None] + reach[..., None] * points  # (B, K, P)
    gram, data = statistics.amplitude_systems(f.reshape(batch, k * TERMS, 1))
    data = data.reshape(batch, 2 * k, TERMS) @ transform.T
    gram = gram.reshape(batch, 2 * k * TERMS * 2 * k, TERMS) @ transform.T
    gram = transform @ gram.reshape(batch, 2 * k, TERMS, 2 * k * TERMS)
    size = 2 * k * TERMS
    return Near(reach, gram.reshape(batch, size, size), data.reshape(batch, size))


def error(statistics: Statistics, spread: Tensor, strength: Tensor) -> Tensor:
    """By how much ln L of a draw may be off, (B,), for standard deviations in Hz and squared SNRs of tones, (B, K)."""
    half_turn = 0.5 * math.pi * REACH * spread * statistics.span
    return (strength * 2 * half_turn**TERMS / math.factorial(TERMS)).amax(-1)
