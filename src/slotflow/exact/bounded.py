r"""Fits of components whose amplitudes are held back, where the likelihood alone has no maximum.

The tones of an unresolved pair can cancel each other with ever larger amplitudes. Under a Gaussian prior of c that has
the size of the prior's largest amplitude the maximum is bounded, and so is its covariance along what the data do not
see (`signal/gauss_newton.py`, "Bound").
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.exact.mode import Mode, reordered
from slotflow.signal.gauss_newton import LARGEST_MOVE, Bound, Climb, State, climb
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior

__all__ = ["bounded_modes"]

STEPS = 40
"""Steps of a fit."""


def bounded_modes(statistics: Likelihood, prior: Prior, starts: Tensor) -> list[Mode]:
    """Maxima from given places with amplitudes held back.

    Args:
        statistics: Of one signal.
        prior: Gives the largest amplitude and the band.
        starts: Places in Hz, (B, K).
    """
    waveform, (size, k) = statistics.waveform, starts.shape
    several = statistics.take(torch.zeros(size, dtype=torch.int64))
    pull, reach = _precisions(statistics, prior, k)
    none = torch.zeros(size, dtype=torch.float64)
    known = None if prior.known_sigma is None else none + prior.known_sigma**2
    z = torch.zeros(size, k, waveform.coordinates, dtype=torch.float64)
    waveform.place_in_z(z)[:] = starts
    start = State.at(several, z, torch.ones_like(starts, dtype=torch.bool), over=none.bool())
    start.damping = none + 1.0
    bound = Bound(torch.from_numpy(pull), torch.from_numpy(reach))
    end = climb(several, start, Climb(STEPS, 0.0, known, none, bound))
    found = []
    for i in range(size):
        tones, rss = end.z[i].numpy(), float(end.rss[i])
        place = waveform.place_in_z(tones)
        level = rss / several.n if known is None else float(known[i])
        with np.errstate(divide="ignore", invalid="ignore"):  # nothing is left of noiseless data
            curvature = end.matrix[i].numpy() / level + np.diag(pull + reach)
        order = np.argsort(place)
        covariance = reordered(np.linalg.inv(curvature), order)
        inside = (place > prior.frequency[0]) & (place < prior.frequency[1])
        if np.isfinite(covariance).all() and np.isfinite(tones).all() and inside.all():
            found.append(Mode(tones[order], rss, covariance, True, waveform))
    return found


def _precisions(statistics: Likelihood, prior: Prior, k: int) -> tuple[Array, Array]:
    """Precisions of the Gaussian, and of a step, of each coordinate of k components, (K·Z,) each."""
    waveform = statistics.waveform
    shapes, parts = len(waveform.shape), waveform.coordinates - len(waveform.shape)
    wide = [LARGEST_MOVE * scale for scale in waveform.scales(1 / statistics.bin)]
    pull = np.tile([0.0] * shapes + [prior.amplitude[1] ** -2] * parts, k)
    reach = np.tile([step**-2 for step in wide] + [0.0] * parts, k)
    return pull, reach
