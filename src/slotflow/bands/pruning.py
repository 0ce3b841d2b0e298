r"""Tones that the data do not need: a weak one is left out, or two become one, as long as that costs little.

A search that adds peaks one after another may describe two tones closer than a bin by three, or leave one behind that
the others have made superfluous when all of them were fitted. With JᵀJ of all tones at their maximum, leaving tone k
out raises the sum of squares by about c_k Σ_kk⁻¹ c_k, with Σ_kk the block of (JᵀJ)⁻¹ that belongs to its complex
amplitude. Tones for which this is small are tried, the weakest first: the tones around are refitted without it, or with
one tone for it and its nearest neighbour, on data without all tones farther away. The simpler set stays if

.. math:: \tfrac12 ( RSS' - RSS ) < z σ² ,

σ² being the noise level there and z the power over the noise that a new tone would need.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.bands.fisher import joint_covariance
from slotflow.bands.spectrum_fit import STRAY, SpectrumFit
from slotflow.core.arrays import Array
from slotflow.signal.fit import fit, linear_amplitudes
from slotflow.signal.likelihood import Likelihood

__all__ = ["prune"]

WORTH_TRYING = 4.0
"""A tone is tried if the quadratic estimate of its loss is at most so many times what a tone must be worth."""
REACH = 4.0
"""Distance in bins up to which tones are refitted when one is left out."""
UNRESOLVED = 1.0
"""Distance in bins below which two tones may be one."""
TRIAL_STEPS = 10
"""Gauss–Newton steps of a trial."""
SAME_PLACE = 0.01
"""Distance in bins within which a tone that was tried in vain is not tried again."""


def prune(tones: SpectrumFit, reach: float = REACH) -> None:
    """Takes out the tones that the data do not need, as far as time allows.

    Args:
        tones: At their joint maximum; they are there again afterwards.
        reach: Bins around a tone within which others are refitted.
    """
    if not len(tones.theta) or tones.out_of_time:
        return
    tones.spectra()  # brings the level up to date
    rss = tones.rss
    changed, needed = False, np.zeros(0)
    while len(tones.theta) and not tones.out_of_time:
        simpler = None
        for i in _doubtful(tones, needed):
            simpler = _without(tones, i, rss, reach)
            if simpler is not None or tones.out_of_time:
                break
            needed = np.append(needed, tones.places[_pair(tones, i)])
        if simpler is None:
            break
        found, rss = simpler
        tones.theta, changed = tones.waveform.sorted(found), True
    if changed and not tones.out_of_time:
        tones.settle()


def _doubtful(tones: SpectrumFit, tried: Array) -> list[int]:
    """Tones that may be left out, the weakest first; those at places where that was tried in vain are passed over."""
    needed = tones.cost * _noise(tones)
    loss = 0.5 * _losses(tones)
    ranked = np.argsort(loss / needed, kind="stable")
    apart = np.abs(tones.places[:, None] - tried[None, :]).min(1, initial=np.inf)
    doubtful = (loss < WORTH_TRYING * needed) & (apart > SAME_PLACE * tones.likelihood.bin)
    return [int(i) for i in ranked if doubtful[i]]


def _noise(tones: SpectrumFit) -> Array:
    """σ² at each tone, (K,)."""
    found: Array = np.interp(tones.places, tones.frequencies, tones.level) ** 2
    return found


def _losses(tones: SpectrumFit) -> Array:
    """By how much the sum of squares grows, to second order, without each of the tones, (K,)."""
    waveform, k = tones.waveform, len(tones.theta)
    z, covariance = (
        tones.likelihood.to_z(tones.theta),
        joint_covariance(tones.likelihood, tones.theta),
    )
    first, size, every = len(waveform.shape), waveform.coordinates, np.arange(k)
    blocks = covariance.reshape(k, size, k, size)[every, first:, every, first:]
    c = z[:, first:]
    losses: Array = np.einsum("ki,kij,kj->k", c, np.linalg.inv(blocks), c)
    return losses


def _without(tones: SpectrumFit, i: int, rss: float, reach: float) -> tuple[Array, float] | None:
    """All tones but the i-th, or with one for it and its neighbour, and their sum of squares; None if it is needed.

    Args:
        tones: All of them.
        i: Which is in doubt.
        rss: Sum of squares that all of them leave.
        reach: Bins around it within which others are refitted.
    """
    places, best = tones.places, None
    near = np.abs(places - places[i]) < reach * tones.likelihood.bin
    rest = tones.without(tones.theta[~near])
    most = rss + 2 * tones.cost * float(_noise(tones)[i])
    for start in _simpler(tones, i, near):
        found, left = _fitted(rest, start)
        if left < most and np.isfinite(found).all():
            best, most = found, left
    return None if best is None else (np.concatenate([tones.theta[~near], best]), most)


def _pair(tones: SpectrumFit, i: int) -> list[int]:
    """The i-th tone, and its neighbour if the two may be one."""
    places, every = tones.places, np.arange(len(tones.places))
    distance = np.where(every == i, np.inf, np.abs(places - places[i]))
    j = int(distance.argmin())
    return [i, j] if distance[j] < UNRESOLVED * tones.likelihood.bin else [i]


def _simpler(tones: SpectrumFit, i: int, near: NDArray[np.bool_]) -> list[Array]:
    """Places to start from with one tone less around the i-th, (k − 1,) each."""
    places, pair, every = tones.places, _pair(tones, i), np.arange(len(tones.places))
    starts = [places[near & (every != i)]]
    if len(pair) > 1:
        weight = tones.waveform.of(tones.theta[pair], "amplitude")
        middle = float((weight * places[pair]).sum() / weight.sum())
        starts.append(np.sort(np.append(places[near & ~np.isin(every, pair)], middle)))
    return starts


def _fitted(rest: Likelihood, places: Array) -> tuple[Array, float]:
    """Tones fitted from some places, (k, P), and the sum of squares that they leave."""
    if not len(places):
        return np.zeros((0, rest.waveform.size)), float(rest.energy[0])
    start = linear_amplitudes(rest, torch.from_numpy(places[None].copy()))
    found = fit(rest, start, max_iterations=TRIAL_STEPS, max_shift=STRAY, curvature=False)
    return found.theta[0].numpy(), float(found.rss[0])
