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
        phi = self._polynomials(away)  # (B, n, K, P)
        phi = torch.cat([c.real[..., None] * phi, c.imag[..., None] * phi], -2).flatten(-2)
        seen = torch.baddbmm(self.data[:, None], phi, self.gram, beta=-2.0)  # φG − 2d
        return torch.einsum("bnd,bnd->bn", seen, phi)

    def systems(self, away: Tensor) -> tuple[Tensor, Tensor]:
        """Normal equations of the amplitudes, (B, m, 2K, 2K) and (B, m, 2K), at f − f̂ in Hz, (B, m, K)."""
        t, (batch, m, k) = self._polynomials(away), away.shape
        data = torch.einsum("bmkp,bakp->bmak", t, self.data.reshape(batch, 2, k, TERMS))
        table = self.gram.reshape(batch, 2 * k * TERMS, 2, k, TERMS)
        half = torch.einsum("bxckp,bmkp->bmxck", table, t).reshape(batch, m, 2, k, TERMS, 2 * k)
        gram = torch.einsum("bmakpx,bmkp->bmakx", half, t)
        return gram.reshape(batch, m, 2 * k, 2 * k), data.reshape(batch, m, 2 * k)

    def _polynomials(self, away: Tensor) -> Tensor:
        """T_p of (f − f̂)/r, (..., K) to (..., K, P)."""
        x = away / self.reach[:, None]
        found = [torch.ones_like(x), x]
        for _ in range(2, TERMS):
            found.append(2 * x * found[-1] - found[-2])
        return torch.stack(found, -1)


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
