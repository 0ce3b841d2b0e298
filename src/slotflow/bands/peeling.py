r"""The noise level of a band, and the tones that stand out of it, one after the other.

With the matched filter D(f) = Σ b̄ x and twice the energy W(f) of a tone of unit amplitude under the noise's inner
product (`Likelihood.overlap`), |D|²/W of noise alone is exponential with the mean σ², so that its median over the
band tells σ. Tones raise it: in a narrow band by their side lobes, and in any band where few samples lie at random
times, since the power of a tone is then spread over all frequencies. There the floor of the search (`search.py`) is
made of tones, and it finds none of them. What stands out is therefore taken away first: what the search finds, then
the highest peak as long as noise would hardly be as high, each time above a lower floor.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from slotflow.bands.search import search_spectrum
from slotflow.core.arrays import Array
from slotflow.data.noise_level import median_power
from slotflow.signal.fit import fit, linear_amplitudes
from slotflow.signal.likelihood import Likelihood

__all__ = ["Peeled", "energies", "level_of", "peeled", "powers"]

Bounds = tuple[float, float]

CHANCE, MOST_PEELED = 0.05, 20
"""Chance that noise has so high a peak, and tones in all, up to which the highest ones are taken away."""
LOOK = 1.0
"""Seconds of the search for tones that stand out."""
PER_BIN = 2
"""Points of a spectrum per bin."""
MOST_POINTS = 200_000
"""Points of a spectrum at most."""


class Peeled(NamedTuple):
    """What stands out of a band, and what it leaves."""

    theta: Array
    """The tones, (K, P)."""
    places: Array
    """Their frequencies in Hz in order, (K,)."""
    level: float
    """Noise level σ without them."""


def peeled(likelihood: Likelihood, band: Bounds) -> Peeled:
    """The tones that stand out of a band, and the noise level that they leave.

    Args:
        likelihood: Of one signal.
        band: Frequencies in Hz that may hold tones.
    """
    tones, left = _fitted(likelihood, search_spectrum(likelihood, band, max_seconds=LOOK).theta)
    f, energy = energies(likelihood, band)
    highest = math.log(len(f) / PER_BIN / CHANCE)  # of so many bins of noise, with this chance
    power = powers(left, f, energy)
    while len(tones) < MOST_PEELED and power.max() > highest * median_power(power):
        place = torch.from_numpy(f[None, [int(power.argmax())]])
        new = linear_amplitudes(left, place)[0].numpy()
        tones, left = _fitted(likelihood, np.concatenate([tones, new]))
        power = powers(left, f, energy)
    return Peeled(tones, np.sort(likelihood.waveform.place_of(tones)), _level(power))


def level_of(likelihood: Likelihood, band: Bounds) -> float:
    """The noise level that the median of a band's spectrum tells, tones and all.

    Args:
        likelihood: Of one signal.
        band: Frequencies in Hz that may hold tones.
    """
    return _level(powers(likelihood, *energies(likelihood, band)))


def energies(likelihood: Likelihood, band: Bounds) -> tuple[Array, Array]:
    """Points of a band's spectrum at which tones are seen, and W(f) there, (F,) each."""
    low, high = band
    points = min(2 + math.ceil(PER_BIN * (high - low) / likelihood.bin), MOST_POINTS)
    f = np.linspace(low, high, points)
    energy = np.maximum(likelihood.weight_at(f), 1e-300)
    seen = energy > 1e-3 * energy.max()  # nuisances may take all of a tone
    return f[seen], energy[seen]


def powers(likelihood: Likelihood, f: Array, energy: Array) -> Array:
    """|D|²/W at frequencies f, with the energies W, (F,) each."""
    power: Array = np.abs(likelihood.matched(f[None, :, None])[0, :, 0]) ** 2 / energy
    return power


def _level(power: Array) -> float:
    """The noise level by the median of |D|²/W, (F,)."""
    return math.sqrt(float(median_power(power)))


def _fitted(likelihood: Likelihood, tones: Array) -> tuple[Array, Likelihood]:
    """Tones (K, P), fitted together where the fit converges, and the likelihood of what they leave."""
    if not len(tones):
        return tones, likelihood
    best = fit(likelihood, torch.from_numpy(tones[None].copy()))  # the search fits roughly
    if bool(best.converged):
        tones = best.theta[0].numpy()
    left: Likelihood = likelihood.less(likelihood.to_z(tones))
    return tones, left
