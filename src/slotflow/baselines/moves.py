r"""Prior and moves of a reversible-jump sampler, in the coordinates z = (f, Re c, Im c).

A state is a row of L places, some of which hold a tone. `places` (…, L) says which, and z, (…, L, 3), holds the tones,
with c referred to the long stream's mid-time τ as in `exact/target.py`: nothing in z is periodic, and given the
frequencies the likelihood is a Gaussian of the c. All axes before L are temperatures and walkers.

**Within the model**, with t̄ the mean and s² the variance of all sampling times, a tone's c referred to t̄ is known to
σ√(2/n') in either part and independently of that f to σ√2/(2π A s √n'). So one step changes both by multiples of these
over √β, β being the inverse temperature: f' = f + δ, c' = c e^{2πiδ(τ−t̄)} + ξ. The inverse step has −δ and a ξ of the
same size; since the scale of δ goes as 1/A it is not quite symmetric, and the Hastings ratio says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.baselines.births import Births
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Anew", "FisherSteps", "Jump", "Mask", "StatePrior"]

Mask = NDArray[np.bool_]


class StatePrior:
    """Log prior of states, p(K) p(Θ | K) Π 1/A of labelled tones.

    Args:
        prior: The prior. Each K between the first and the last possible one must be possible.
    """

    def __init__(self, prior: Prior) -> None:
        self.prior, possible = prior, np.flatnonzero(prior.k_probs_full > 0)
        self.k_min, self.k_max = int(possible[0]), int(possible[-1])
        if len(possible) != self.k_max - self.k_min + 1:
            raise ValueError(
                f"expected a prior over K without gaps, so that births and deaths reach every K, received "
                f"k_probs = {prior.k_probs}."
            )
        (a_low, a_high), (f_low, f_high) = prior.amplitude, prior.frequency
        self.log_law = prior.amplitude_law == "loguniform"
        spread = math.log(a_high / a_low) if self.log_law else a_high - a_low
        k = np.arange(self.k_max + 1)
        room = f_high - f_low - np.maximum(k - 1, 0) * prior.min_separation
        with np.errstate(divide="ignore"):
            log_k = np.log(prior.k_probs_full[: self.k_max + 1])
        self.constant = log_k - k * (np.log(room) + math.log(2 * math.pi) + math.log(spread))
        # Eryn takes the log prior of an empty state for 0.
        self.constant -= self.constant[0] if self.k_min == 0 else 0.0

    def __call__(self, z: Array, places: Mask) -> Array:
        """Log prior, (…,), of z, (…, L, 3), at places, (…, L)."""
        (a_low, a_high), (f_low, f_high) = self.prior.amplitude, self.prior.frequency
        place = TONE.place_in_z(z)
        amplitude = np.where(places, TONE.moduli(z)[..., 0], 1.0)
        f = np.where(places, place, f_low)
        inside = (amplitude >= a_low) & (amplitude <= a_high) & (f >= f_low) & (f <= f_high)
        good = (inside | ~places).all(-1)
        if self.prior.min_separation > 0 and places.shape[-1] > 1:
            # Empty places go above the band, as far from each other as need be.
            beyond = f_high + (1 + np.arange(places.shape[-1])) * 2 * self.prior.min_separation
            f = np.sort(np.where(places, place, beyond), -1)
            good &= (np.diff(f, axis=-1) >= self.prior.min_separation).all(-1)
        power = 2.0 if self.log_law else 1.0
        log_prior = self.constant[places.sum(-1)] - power * np.log(
            np.maximum(amplitude, 1e-300)
        ).sum(-1)
        result: Array = np.where(good, log_prior, -np.inf)
        return result

    def sample(self, n: int, seed: int, reference: float) -> tuple[Array, Mask]:
        """States of n walkers, z (n, L, 3) and places (n, L)."""
        import torch

        from slotflow.core.seeds import spread_seed

        generator = torch.Generator().manual_seed(spread_seed(seed))
        k = self.prior.sample_k(n, generator)
        theta = self.prior.sample_theta(k, generator).numpy()[:, : self.k_max]
        places = np.arange(self.k_max) < k.numpy()[:, None]
        theta[~places, 2] = 2 * self.prior.frequency[1]  # sorted behind the tones
        return TONE.to_z(TONE.sorted(theta), reference), places


class FisherSteps:
    """Random steps of one tone or of all, at the scale of the Fisher information.

    Args:
        table: Of the likelihood.
        prior: Bounds, for the largest steps.
        sigma: Rough noise level; `scale` takes care of the rest.
        every: Whether all tones move at once.
    """

    def __init__(self, table: Tabulated, prior: Prior, sigma: float, every: bool) -> None:
        self.every = every
        # Mean and variance of all sampling times, counted from the reference time.
        total, first, second = table.statistics.window(np.zeros(()), powers=3).real
        middle = float(first / total)
        variance = float(second / total) - middle**2
        self.turn = -2 * math.pi * middle
        self.unit_c = sigma * math.sqrt(2 / table.weight)
        self.per_f = 1 / (2 * math.pi * math.sqrt(variance))
        """Scale of f in units of unit_c/A."""
        self.most_c = 0.3 * prior.amplitude[1]
        self.scale = np.ones(1)
        """Factor on the steps at each temperature, (temperatures,); a sampler tunes it while it warms up."""

    def __call__(self, z: Array, places: Mask, betas: Array, rng: Any) -> tuple[Array, Array]:
        """New z and the log of the Hastings ratio, (T, W).

        Args:
            z: (T, W, L, 3).
            places: (T, W, L).
            betas: Inverse temperatures, (T,).
            rng: Source of randomness.
        """
        moved = places if self.every else _choose(places, rng)
        unit = np.minimum(self.unit_c / np.sqrt(np.maximum(betas, 1e-12)), self.most_c)
        size = (
            (unit * self.scale)[:, None]
            * 2.38
            / np.sqrt(z.shape[-1] * np.maximum(moved.sum(-1), 1))
        )
        size = np.where(rng.random(size.shape) < 0.2, 0.3, 1.0) * size  # (T, W)
        at = np.nonzero(moved)  # m tones in all
        size, (f, c) = size[at[:2]], TONE.simple(z[at])  # (m,) each
        normal = rng.standard_normal((3, len(size)))
        amplitude = np.maximum(np.abs(c), 1e-12)
        step = size * self.per_f / amplitude * normal[0]
        turned = c * np.exp(1j * self.turn * step) + size * (normal[1] + 1j * normal[2])
        ratio = np.maximum(np.abs(turned), 1e-12) / amplitude
        new = z.copy()
        new[at] = TONE.from_simple(f + step, turned)
        hastings = np.zeros(places.shape)
        hastings[at] = np.log(ratio) - 0.5 * normal[0] ** 2 * (ratio**2 - 1)
        result: Array = hastings.sum(-1)
        return new, result


class Anew:
    """One tone is drawn anew from the births: it may go anywhere.

    Args:
        births: Density of a tone.
    """

    def __init__(self, births: Births) -> None:
        self.births, self.scale = births, np.ones(1)

    def __call__(self, z: Array, places: Mask, betas: Array, rng: Any) -> tuple[Array, Array]:
        """New z and the log of the Hastings ratio, (T, W); arguments as of `FisherSteps`."""
        moved = _choose(places, rng)
        new, old = z.copy(), z[moved]
        drawn = self.births.sample(len(old), rng)
        new[moved] = drawn
        hastings = np.zeros(places.shape[:-1])
        hastings[moved.any(-1)] = self.births.log_prob(old) - self.births.log_prob(drawn)
        return new, hastings


class Jump:
    """Birth or death of one tone.

    Args:
        births: Density of the tones that are born.
        k_min: Smallest number of tones.
        k_max: Largest.
    """

    def __init__(self, births: Births, k_min: int, k_max: int) -> None:
        self.births, self.k_min, self.k_max = births, k_min, k_max

    def __call__(self, z: Array, places: Mask, rng: Any) -> tuple[Array, Mask, Array]:
        """New z, (T, W, L, 3), new places, (T, W, L), and the births' density in the Hastings ratio, (T, W).

        The place of a birth and the tone that dies are equally probable among those there are; Eryn itself corrects
        for the ends, from which there is one way only.
        """
        count = places.sum(-1)
        born = rng.random(count.shape) < 0.5
        born = ((born & (count < self.k_max)) | (count == self.k_min)) & (self.k_min < self.k_max)
        die = ~born & (count > self.k_min)
        new, there, factors = z.copy(), places.copy(), np.zeros(count.shape)
        added = _choose(~places, rng) & born[..., None]
        removed = _choose(places, rng) & die[..., None]
        drawn = self.births.sample(int(added.sum()), rng)
        new[added] = drawn
        factors[born] -= self.births.log_prob(drawn)
        factors[die] += self.births.log_prob(z[removed])
        there[added], there[removed] = True, False
        return new, there, factors


def _choose(places: Mask, rng: Any) -> Mask:
    """One of the places that are taken, at random, (…, L); none where there is none."""
    score = np.where(places, rng.random(places.shape), -1.0)
    chosen: Mask = (np.arange(places.shape[-1]) == score.argmax(-1)[..., None]) & places
    return chosen
