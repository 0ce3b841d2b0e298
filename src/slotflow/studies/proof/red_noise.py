r"""Bands of tones in red noise, and what is kept of an answer.

**Noise.** Either AR(1), x_t = 0.9 x_{t−1} + ε_t, or white noise plus 1/f², with the two-sided density

.. math:: S(f) = 1 + (f / f_{knee})^{-2},

in units of the sampling rate. It is made in the frequency domain on a series eight times as long, of which a piece is
cut out, so that nothing is periodic and power below 1/T leaks as it does in measured series. Neither the package's
simulator nor its filters are used.

**Bands.** A band of `WIDTH` bins at a random place holds K tones, K uniform on 0..5, drawn from the prior that the
analysis states: amplitudes uniform between 6 and 40 times √(2 S/N), the standard deviation of an amplitude in noise of
the density S in the middle of the band, and frequencies at least 1.5 bins apart. The noise is not stated, nor is its
level.

**Short series.** AR(1) noise with 0.75 and 98 samples, no tone, nothing stated: what a textbook series looks like.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.signal import lfilter

from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed
from slotflow.data.sampling import Grid
from slotflow.posterior.posterior import Posterior
from slotflow.signal.model import noise_free
from slotflow.signal.prior import Prior
from slotflow.studies.measures.parameters import SIZE
from slotflow.studies.measures.tones import summarise
from slotflow.studies.tasks import Record

__all__ = ["RedBand", "draw_red_band", "measured", "power_law_series", "red_series", "stated"]

SAMPLES = 1000
CORRELATION = 0.9
KNEE = 0.05
"""Where 1/f² noise and white noise are alike, in cycles per sample."""
WIDTH = 40.0
"""Of a band, in bins."""
LOWEST, HIGHEST = 10.0, 400.0
"""Bins between which bands begin."""
WEAKEST, STRONGEST = 6.0, 40.0
"""Bounds of the amplitudes in units of their noise."""
MOST_TONES = 5
SEPARATION = 1.5
"""Smallest distance of two tones, in bins."""
SETTLED = 1000
"""Samples that AR noise is given to forget where it began."""
LONGER = 8
"""Length of the series that 1/f² noise is cut from, in units of the piece."""
RANKED_DRAWS = 500
"""Equally weighted draws that the truth is compared with."""


@dataclass(frozen=True, eq=False)
class RedBand:
    """A series with its truth."""

    values: Array
    """(N,), one sample a second."""
    truth: Array
    """Components, (K, P), sorted by place."""
    prior: Prior
    """What the tones were drawn from; its noise level is not that of the data."""


def red_series(
    kind: str, n: int, rng: np.random.Generator, correlation: float = CORRELATION
) -> Array:
    """Red noise, (n,): "ar" or "power_law"."""
    if kind == "power_law":
        return power_law_series(n, rng)
    noise = rng.standard_normal(n + SETTLED)
    red: Array = lfilter([1.0], [1.0, -correlation], noise)[SETTLED:]
    return red


def power_law_series(n: int, rng: np.random.Generator) -> Array:
    """White noise plus 1/f² noise, (n,)."""
    size = LONGER * n
    f = np.fft.rfftfreq(size).astype(np.float64)
    f[0] = f[1]
    white = np.fft.rfft(rng.standard_normal(size))
    whole = np.fft.irfft(white * np.sqrt(density("power_law", f)), size)
    start = int(rng.integers(size - n))
    return whole[start : start + n]


def density(kind: str, f: Array) -> Array:
    """Two-sided power spectral density at frequencies in cycles per sample; 1 for white noise of level 1."""
    if kind == "power_law":
        return 1 + (KNEE / f) ** 2
    found: Array = 1 / np.abs(1 - CORRELATION * np.exp(-2j * np.pi * f)) ** 2
    return found


def draw_red_band(kind: str, rng: np.random.Generator) -> RedBand:
    """One band of tones in red noise of a kind."""
    low = rng.uniform(LOWEST, HIGHEST) / SAMPLES
    band = (low, low + WIDTH / SAMPLES)
    level = float(density(kind, np.array([np.mean(band)]))[0])
    unit = math.sqrt(2 * level / SAMPLES)
    prior = Prior(
        k_min=0,
        k_max=MOST_TONES,
        amplitude=(WEAKEST * unit, STRONGEST * unit),
        frequency=band,
        min_separation=SEPARATION / SAMPLES,
    )
    generator = torch.Generator().manual_seed(spread_seed(int(rng.integers(2**62))))
    k = int(rng.integers(MOST_TONES + 1))
    truth: Array = prior.sample_theta(torch.tensor([k]), generator)[0, :k].numpy()
    clean = noise_free(truth, Grid(SAMPLES, 1.0)) if k else np.zeros(SAMPLES)
    return RedBand(clean + red_series(kind, SAMPLES, rng), truth, prior)


def stated(prior: Prior) -> dict[str, object]:
    """What is stated of a prior: all of it but the noise level."""
    names = ("k_min", "k_max", "amplitude", "frequency", "min_separation")
    return {name: getattr(prior, name) for name in names}


def measured(post: Posterior, truth: Array, seed: int) -> Record:
    """What is kept of an answer: p(K), the verdict, and the levels of the truth among draws at the true K.

    Args:
        post: The answer.
        truth: True components, (K, P), sorted by place.
        seed: Of the draws.
    """
    k, levels = len(truth), np.ones((len(truth), SIZE))
    if k and k <= post.k_max and post.k_probs[k] > 1e-6:
        draws: NDArray[np.float64] = post.sample(RANKED_DRAWS, k, seed)
        mask = torch.ones(1, k, dtype=torch.bool)
        both = torch.from_numpy(draws)[None], torch.from_numpy(truth)[None]
        levels = summarise(*both, mask, seed).level[0].numpy()
    noise = getattr(post, "noise", None)
    return {
        "k": k,
        "k_probs": post.k_probs.tolist(),
        "levels": levels.tolist(),
        "status": post.verdict.status,
        "reason": post.verdict.reason,
        "noise": str(getattr(noise, "name", "")),
        "proposed_by": str(getattr(post, "proposed_by", "")),
    }
