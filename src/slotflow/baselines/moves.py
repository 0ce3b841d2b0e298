r"""Prior and moves of a reversible-jump sampler, in the coordinates z of the waveform.

A state is a row of L places, some of which hold a tone. `places`, (…, L), says which, and z, (…, L, Z), holds the
tones: the frequency f and the complex amplitude c at the reference time τ, as in `exact/target.py`. Nothing in z is
periodic, and given the frequencies the likelihood is a Gaussian of the amplitudes. All axes before L are temperatures
and walkers.

**Within the model.** Let t̄ be the mean and s² the variance of all sampling times. The data determine the complex
amplitude at t̄ to σ√(2/n') in either part, and independently of it f to σ√2/(2π A s √n'). So one step changes both by
multiples of these scales over √β, where β is the inverse temperature: f' = f + δ, c' = c e^{2πiδ(τ−t̄)} + ε. The inverse
step has −δ and an ε of the same size. The scale of δ is proportional to 1/A, which the step changes, so the step is not
quite symmetric; the Hastings ratio accounts for that.
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

__all__ = ["RANDOM_WALK_SCALE", "Anew", "FisherSteps", "Jump", "Mask", "StatePrior"]

Mask = NDArray[np.bool_]
RANDOM_WALK_SCALE = 2.38
"""Best size of a random step in d dimensions, in standard deviations of a Gaussian target, times √d."""
SMALL_STEPS, SMALL_STEP = 0.2, 0.3
"""Share of the steps that are smaller than the best size, and their size in units of it."""
LARGEST_STEP = 0.3
"""Largest scale of a step of c, in units of the prior's largest amplitude."""


class StatePrior:
    """Log prior of states, p(K) p(Θ | K) Π 1/A of labelled tones; 1/A is the Jacobian |∂θ/∂z| of a tone.

    Args:
        prior: The prior. Every K between the smallest and the largest possible one must be possible.
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
        # Eryn assumes that the log prior of an empty state is 0.
        self.constant -= self.constant[0] if self.k_min == 0 else 0.0

    def __call__(self, z: Array, places: Mask) -> Array:
        """Log prior, (…,), of tones z, (…, L, Z), at places, (…, L)."""
        (a_low, a_high), (f_low, f_high) = self.prior.amplitude, self.prior.frequency
        frequency = TONE.place_in_z(z)
        amplitude = np.where(places, TONE.moduli(z).squeeze(-1), 1.0)
        f = np.where(places, frequency, f_low)
        inside = (amplitude >= a_low) & (amplitude <= a_high) & (f >= f_low) & (f <= f_high)
        good = (inside | ~places).all(-1)
        if self.prior.min_separation > 0 and places.shape[-1] > 1:
            # Empty places are put above the band, so far apart that they break no rule.
            beyond = f_high + (1 + np.arange(places.shape[-1])) * 2 * self.prior.min_separation
            f = np.sort(np.where(places, frequency, beyond), -1)
            good &= (np.diff(f, axis=-1) >= self.prior.min_separation).all(-1)
        power = 2.0 if self.log_law else 1.0
        log_prior = self.constant[places.sum(-1)] - power * np.log(
            np.maximum(amplitude, 1e-300)
        ).sum(-1)
        result: Array = np.where(good, log_prior, -np.inf)
        return result

    def sample(self, n: int, seed: int, reference: float) -> tuple[Array, Mask]:
        """Draws of n states: z, (n, L, Z), and places, (n, L)."""
        import torch

        from slotflow.core.seeds import spread_seed

        generator = torch.Generator().manual_seed(spread_seed(seed))
        k = self.prior.sample_k(n, generator)
        theta = self.prior.sample_theta(k, generator).numpy()[:, : self.k_max]
        places = np.arange(self.k_max) < k.numpy()[:, None]
        theta[~places, TONE.column(TONE.place)] = 2 * self.prior.frequency[1]  # behind the tones
        return TONE.to_z(TONE.sorted(theta), reference), places


class FisherSteps:
    """Random steps of one tone or of all tones, at the scale of the Fisher information.

    Args:
        table: The likelihood.
        prior: Gives the bounds of A, which limit the steps.
        sigma: Rough noise level; tuning `scale` corrects for its error.
        every: Whether all tones move at once.
    """

    def __init__(self, table: Tabulated, prior: Prior, sigma: float, every: bool) -> None:
        self.every, self.waveform = every, table.waveform
        # Mean and variance of all sampling times, counted from the reference time.
        total, first, second = table.statistics.window(np.zeros(()), powers=3).real
        middle = float(first / total)
        variance = float(second / total) - middle**2
        self.turn = -2 * math.pi * middle
        self.unit_c = sigma * math.sqrt(2 / table.weight)
        self.per_f = 1 / (2 * math.pi * math.sqrt(variance))
        """Scale of f in units of unit_c/A."""
        self.most_c = LARGEST_STEP * prior.amplitude[1]
        self.scale = np.ones(1)
        """Factor on the steps at each temperature, (temperatures,); a sampler tunes it while it warms up."""

    def __call__(self, z: Array, places: Mask, betas: Array, rng: Any) -> tuple[Array, Array]:
        """New z and the log of the Hastings ratio, (T, W).

        Args:
            z: Tones, (T, W, L, Z).
            places: Which places hold a tone, (T, W, L).
            betas: Inverse temperatures, (T,).
            rng: Source of randomness.
        """
        moved = places if self.every else _choose(places, rng)
        unit = np.minimum(self.unit_c / np.sqrt(np.maximum(betas, 1e-12)), self.most_c)
        dimension = z.shape[-1] * np.maximum(moved.sum(-1), 1)
        size = (unit * self.scale)[:, None] * RANDOM_WALK_SCALE / np.sqrt(dimension)
        size = np.where(rng.random(size.shape) < SMALL_STEPS, SMALL_STEP, 1.0) * size  # (T, W)
        at = np.nonzero(moved)  # m tones in all
        size, (f, c) = size[at[:2]], self.waveform.simple(z[at])  # (m,) each
        normal = rng.standard_normal((z.shape[-1], len(size)))
        amplitude = np.maximum(np.abs(c), 1e-12)
        step = size * self.per_f / amplitude * normal[0]
        turned = c * np.exp(1j * self.turn * step) + size * (normal[1] + 1j * normal[2])
        ratio = np.maximum(np.abs(turned), 1e-12) / amplitude
        new = z.copy()
        new[at] = self.waveform.from_simple(f + step, turned)
        hastings = np.zeros(places.shape)
        hastings[at] = np.log(ratio) - 0.5 * normal[0] ** 2 * (ratio**2 - 1)
        result: Array = hastings.sum(-1)
        return new, result


class Anew:
    """Draws one tone anew from the births, so that it may go anywhere.

    Args:
        births: Density of the new tone.
    """

    def __init__(self, births: Births) -> None:
        self.births, self.scale = births, np.ones(1)

    def __call__(self, z: Array, places: Mask, betas: Array, rng: Any) -> tuple[Array, Array]:
        """New z and the log of the Hastings ratio, (T, W); the arguments are those of `FisherSteps`."""
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
        k_max: Largest number of tones.
    """

    def __init__(self, births: Births, k_min: int, k_max: int) -> None:
        self.births, self.k_min, self.k_max = births, k_min, k_max

    def __call__(self, z: Array, places: Mask, rng: Any) -> tuple[Array, Mask, Array]:
        """New z, (T, W, L, Z), new places, (T, W, L), and what the births contribute to the log Hastings ratio, (T, W).

        A birth takes any of the empty places, and any of the tones dies, with equal probability. Eryn itself corrects
        for the smallest and the largest K, from which only one kind of jump is possible.
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
    """One of the taken places of each state at random, (…, L); no place where none is taken."""
    score = np.where(places, rng.random(places.shape), -1.0)
    chosen: Mask = (np.arange(places.shape[-1]) == score.argmax(-1)[..., None]) & places
    return chosen
