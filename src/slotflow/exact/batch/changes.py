"""Whether tones of many signals drift, decay or are modulated: the score tests of `directed/scores.py` at once.

Formulas and limits are those of `directed/`, which judges a single signal and is the test of this module. A signal with
an alarm, or with tones that one changing component may stand in for, is left to it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from slotflow.core import linear
from slotflow.core.arrays import Array
from slotflow.exact.directed.alternatives import CLOSE, SINGLE, TOGETHER
from slotflow.exact.directed.groups import LINK, clusters, may_be_one
from slotflow.exact.directed.scores import ALL, DIRECTIONS, KNOWN, REACH, STEP, STRONG, extension
from slotflow.signal.likelihood import Statistics

__all__ = ["score_tests", "steady"]


def steady(statistics: Statistics, z: Tensor) -> NDArray[np.bool_]:
    """Whether nothing is to be said of how tones change, (B,), for tones z, (B, K, Z), sorted by place."""
    places = statistics.waveform.place_in_z(z).cpu().numpy()
    chi_square, tested, freedom = score_tests(statistics, z)
    gaps = np.diff(places, axis=-1, prepend=-np.inf, append=np.inf) / statistics.bin
    asked = tested & (np.minimum(gaps[:, 1:], gaps[:, :-1]) > CLOSE)
    dof = np.array([len(one) for one in DIRECTIONS.values()])
    p = special.fdtrc(dof, np.maximum(freedom - dof, 1), chi_square / dof)  # (B, K, kinds)
    count = asked.sum(-1)
    tests = np.maximum(len(dof) * count, 1)
    smallest = np.where(asked[..., None], p, 1.0).min((-2, -1))
    calm: NDArray[np.bool_] = smallest >= SINGLE / tests
    total = np.where(asked[..., None], chi_square, 0.0).sum(1)  # (B, kinds)
    together = special.chdtrc(np.maximum(dof * count[:, None], 1), total)
    calm &= (count < 2) | (together >= TOGETHER / len(DIRECTIONS)).all(-1)
    linked = (np.diff(places, axis=-1) < LINK * statistics.bin).any(-1)
    for i in np.flatnonzero(calm & linked):
        found = clusters(places[i], statistics.bin)
        calm[i] = not any(may_be_one(one, places[i], statistics.bin) for one in found)
    return calm


def score_tests(statistics: Statistics, z: Tensor) -> tuple[Array, NDArray[np.bool_], int]:
    """What each kind of change would explain of the residual, in units of the noise's variance.

    Args:
        statistics: Of B signals.
        z: The tones, (B, K, Z).

    Returns:
        χ², (B, K, kinds), which tones are strong enough for such a test, (B, K), and the degrees of freedom left.
    """
    xi, c = statistics.waveform.unpack(z)
    (batch, k), beside = c.shape[:2], torch.arange(-REACH, REACH + 1, device=z.device)
    around = xi + STEP * statistics.bin * beside  # (B, K, J)
    gram, data = statistics.amplitude_systems(around.reshape(batch, -1, 1))
    fitted = torch.where(beside == 0, c, 0.0).reshape(batch, -1)
    row = torch.cat([fitted.real, fitted.imag], -1)
    left = data - (gram @ row[..., None])[..., 0]
    rss = statistics.energy - (row * (data + left)).sum(-1)
    freedom = statistics.n - len(KNOWN) * (k + statistics.removed)
    variance = rss / freedom
    known, own = _rows(c[..., 0], KNOWN), _rows(c[..., 0], ALL)
    by_known = known @ gram
    inner = by_known @ known.mT  # (B, 3K, 3K)
    energy = inner.diagonal(dim1=-2, dim2=-1)[:, :: len(KNOWN)]
    snr = c[..., 0].abs() * (energy / variance[:, None]).sqrt()
    right = torch.cat([by_known @ own.mT, known @ left[..., None]], -1)
    solved = linear.solve(inner, right)
    cross = own @ by_known.mT
    matrix = own @ gram @ own.mT - cross @ solved[..., :-1]
    slope = (own @ left[..., None] - cross @ solved[..., -1:])[..., 0].reshape(batch, k, len(ALL))
    blocks = matrix.reshape(batch, k, len(ALL), k, len(ALL)).diagonal(dim1=1, dim2=3)
    blocks = blocks.movedim(-1, 1)  # (B, K, 7, 7)
    found, first = [], 0
    for directions in DIRECTIONS.values():
        part = slice(first, first + len(directions))
        first += len(directions)
        x = linear.solve(blocks[..., part, part], slope[..., part, None])[..., 0]
        found.append((slope[..., part] * x).sum(-1))
    chi_square = torch.stack(found, -1).clamp_min(0.0) / variance[:, None, None]
    return chi_square.cpu().numpy(), (snr > STRONG).cpu().numpy(), freedom


def _rows(c: Tensor, directions: tuple[tuple[int, complex], ...]) -> Tensor:
    """Directions of all tones as sums of the tones around them, (B, K·directions, 2KJ), for amplitudes (B, K)."""
    (batch, k), sums = c.shape, torch.as_tensor(extension(), device=c.device)
    degrees = [degree for degree, _ in directions]
    factors = torch.tensor([complex(factor) for _, factor in directions], device=c.device)
    phase = c / c.abs().clamp_min(1e-300)
    each = phase[:, :, None, None] * factors.to(c)[:, None] * sums[degrees]  # (B, K, R, J)
    table = torch.zeros(batch, k, len(directions), k, sums.shape[1], device=c.device).to(c)
    tone = torch.arange(k, device=c.device)
    table[:, tone, :, tone] = each.movedim(1, 0)
    flat = table.reshape(batch, k * len(directions), -1)
    return torch.cat([flat.real, flat.imag], -1)
