r"""What one tone less and one tone more are worth at most, for B signals: where both are excluded, K is settled.

**One less** is `assembly.without_weakest` for all signals. **One more**, at f with the amplitude A, changes ln L by
λ(A|M| − ½A²ν) at the best phase (`proposals/births.py`): M(f) is the residual's matched filter, ν(f) what is left of
the tone's energy once the others have adapted. The mean over the prior, which is what Z_{K+1}/Z_K is but for K + 1, is
no more than the largest value,

.. math:: \ln \frac{Z_{K+1}}{Z_K} \le \ln(K + 1) + \max_{f,\, A} λ\big(A |M(f)| - \tfrac12 A^2 ν(f)\big) .

f runs over `CELLS_PER_BIN` points a bin. Between the points of a spectrum that is oversampled four times |M| is at most
1/cos(π/8) times as large as at them (Ehlich and Zeller 1964), and it is taken to be.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slotflow.exact.batch.fits import Fits
from slotflow.exact.batch.levels import Levels
from slotflow.exact.proposals.assembly import LINEAR, gain_without_one
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior

__all__ = ["one_less", "one_more"]

CELLS_PER_BIN = 4
BETWEEN = 1 / math.cos(math.pi / (2 * CELLS_PER_BIN))
"""By how much a spectrum may be larger between the points than at them."""
CERTAINLY = 4.0
"""Standard deviations of a frequency that are allowed for where a cell is too close to a tone."""


def one_less(fits: Fits, levels: Levels, prior: Prior) -> Tensor:
    """A generous estimate of ln Z_{K−1}/Z_K, (B,)."""
    k = fits.z.shape[1]
    rise = LINEAR * fits.strength * levels.variance(fits.rss)[:, None]
    rss = torch.cat([fits.rss[:, None] + rise, fits.rss[:, None]], 1)
    log_l = levels.log_likelihood(rss, k)
    waveform = prior.waveform
    amplitude = waveform.moduli(fits.z).clamp(*prior.amplitude)  # (B, K, 1)
    places = torch.full_like(amplitude, prior.frequency[0])
    alone = waveform.without_phase(places, amplitude)[..., None, :]  # (B, K, 1, P)
    density = prior.log_prob_theta(alone) - amplitude[..., 0].log()
    gain: Tensor = gain_without_one(log_l[:, :-1] - log_l[:, -1:], density, fits.blocks)
    return gain


def one_more(statistics: Statistics, fits: Fits, levels: Levels, prior: Prior) -> Tensor:
    """An upper bound of ln Z_{K+1}/Z_K, (B,); −inf where there is no room for a further tone."""
    (batch, k), (low, high) = fits.places.shape, prior.frequency
    cells = max(math.ceil((high - low) / statistics.bin * CELLS_PER_BIN), 64)
    f = torch.linspace(low, high, cells + 1, dtype=torch.float64, device=fits.z.device)
    xi = f.expand(batch, -1)[..., None]  # (B, G, 1)
    precision, energy = levels.precision(fits.rss)[:, None], statistics.weight_at(f)
    matched = statistics.matched_alike(f)
    model, adapted = _of_the_others(statistics, fits, xi) if k else (0 * matched, 0.0)
    rest = (matched - model).abs()
    left = torch.maximum(0.5 * energy - 0.5 * precision * adapted, 1e-3 * energy)  # ν
    pull, weight = BETWEEN * precision * rest, precision * left
    amplitude = (pull / weight).clamp(*prior.amplitude)
    gain = amplitude * (pull - 0.5 * weight * amplitude)
    if k and prior.min_separation > 0:
        step = (high - low) / cells
        room = (prior.min_separation - CERTAINLY * fits.spread - step).clamp_min(0.0)
        shut = ((f[:, None] - fits.places[:, None]).abs() < room[:, None]).any(-1)
        gain = gain.masked_fill(shut, -math.inf)
    bound: Tensor = gain.amax(-1) + math.log(k + 1)
    return bound


def _of_the_others(statistics: Statistics, fits: Fits, xi: Tensor) -> tuple[Tensor, Tensor]:
    """What K ≥ 1 tones leave to a further one at frequencies (B, G, 1).

    Returns:
        Their own matched filter there, and by how much the energy of the further tone falls as they adapt to it, in
        units of σ², (B, G) each.
    """
    coupling = statistics.coupling(xi, fits.z)  # (B, G, 2, K·Z)
    batch, free = len(xi), torch.zeros_like(fits.z)
    first = len(statistics.waveform.shape)
    free[..., first:] = fits.z[..., first:]  # the model is linear in the amplitudes
    model = (coupling @ free.reshape(batch, 1, -1, 1))[..., 0]  # (B, G, 2)
    flat = coupling.reshape(batch, -1, coupling.shape[-1])  # (B, 2G, K·Z)
    adapted = torch.einsum("bgd,bgd->bg", flat @ fits.covariance, flat).reshape(batch, -1, 2)
    return torch.complex(model[..., 0], model[..., 1]), adapted.sum(-1)
