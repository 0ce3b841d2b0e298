r"""Pairs of tones at a given distance, and how well slots tell them apart (paper, section 4.4).

Of a pair θ_1, θ_2 at the distance Δf, with a network's slots q_1, q_2 given K = 2:

- **Distance** D = ‖μ_1 − μ_2‖² / σ² of the two tones (`slotflow.studies.theory.distinguishability`): what definition
  4.1 can mean.
- **Counted**: whether K = 2 is most probable.
- **Separated**: whether each slot has a component of its own, that is, whether the median frequencies of the slots,
  matched to the components, lie within Δf/4 of them. Slots that collapse onto one component, or onto the middle of
  the two, do not.
- **Slot distinguishability**: of a draw (θ_a, θ_b) from the two slots, the probability of the right labelling given the
  densities, q_1(θ_a) q_2(θ_b) / (q_1(θ_a) q_2(θ_b) + q_1(θ_b) q_2(θ_a)), on average. It is 1 for slots that do not
  overlap and 1/2 for slots that are the same.

All distances of a round share amplitudes, phases at mid-time, noise level and noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit

from slotflow.core.arrays import Array
from slotflow.data.sampling import Grid
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.studies.measures.matching import assign
from slotflow.studies.measures.parameters import WAVEFORM
from slotflow.studies.suites.signals import in_fresh_noise
from slotflow.studies.theory.distinguishability import distance

__all__ = ["Told", "draw_pairs", "pair_distance", "told_apart"]

NEAR = 0.25
"""Largest distance of a slot from its component, in distances of the two components."""


@dataclass(frozen=True)
class Told:
    """What a network makes of one pair."""

    counted: bool
    separated: bool
    labelled: float
    """Slot distinguishability, 1/2 to 1."""


def draw_pairs(
    prior: Prior, grids: tuple[Grid, Grid], distances: Sequence[float], seed: int
) -> list[Simulation]:
    """One pair at several distances, a batch of one signal for each.

    Args:
        prior: Amplitudes, band and noise level are drawn from it.
        grids: Long and short grid.
        distances: Δf in bins of the long stream's 1/T.
        seed: The same seed gives the same pairs and the same noise.
    """
    rng = np.random.default_rng(seed)
    amplitude, mid_phase = rng.uniform(*prior.amplitude, 2), rng.uniform(0, 2 * np.pi, 2)
    duration, mid = grids[0].duration, grids[0].mid_time
    widest = max(distances) / duration
    low, high = prior.frequency
    centre = rng.uniform(low + widest, high - widest)
    half = np.asarray(distances)[:, None] * np.array([-0.5, 0.5]) / duration
    frequency = centre + half  # (n, 2)
    values = {
        "amplitude": np.broadcast_to(amplitude, frequency.shape),
        "phase": np.remainder(mid_phase - 2 * np.pi * frequency * mid, 2 * np.pi),
        WAVEFORM.place: frequency,
    }
    theta = np.stack([values[parameter.name] for parameter in WAVEFORM.parameters], -1)
    sigma = torch.tensor([rng.uniform(*prior.sigma)], dtype=torch.float64)
    noise_seed = int(rng.integers(2**31))
    return [in_fresh_noise(torch.from_numpy(one[None]), sigma, noise_seed, grids) for one in theta]


def pair_distance(pair: Simulation) -> float:
    """D of the two tones of a pair."""
    first, second = pair.theta[0]
    grids = [grid for grid in pair.grids if grid is not None]
    return distance(first[None], second[None], float(pair.sigma[0]), grids)


def told_apart(post: Posterior, truth: Array, draws: int, seed: int) -> Told:
    """What a network's answer says of a pair.

    Args:
        post: The answer, with slots.
        truth: The two components, (2, P).
        draws: Draws of each slot.
        seed: Of the draws.
    """
    theta = post.sample(draws, 2, seed)  # (n, 2, P)
    place, true = np.median(WAVEFORM.place_of(theta), 0), WAVEFORM.place_of(truth)
    own = true[assign(place[None], true[None])[0]]
    apart = bool((np.abs(place - own) < NEAR * abs(true[1] - true[0])).all())
    log_q = post.slots.log_prob(theta)  # (n, slot, component)
    right = log_q[:, 0, 0] + log_q[:, 1, 1] - log_q[:, 0, 1] - log_q[:, 1, 0]
    return Told(post.k_map == 2, apart, float(expit(right).mean()))
