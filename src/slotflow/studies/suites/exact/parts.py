r"""What the exact suite asks of one signal: from a part's name and an index to a record of plain values.

Every signal has a seed of its own, so that any one can be analysed again, by any process, in any order.

**Levels.** Draws at the true K are compared with the truth. For each parameter u is the level of `tones.py`, and so for
σ. For the joint posterior, with R of n draws of a higher density than the truth's, h = (R + v)/(n + 1), v uniform: the
smallest region of the highest density that holds the truth has the probability h, which is uniform too. If the true K
has no draws, the truth is outside of every region: u = h = 1.

**Weak tones.** The network is not trained for a log-uniform amplitude. Its answer under the uniform law with the same
bounds is a place to start from; prior and evidence are those of the log-uniform law.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.baselines.ensemble import ChainOptions
from slotflow.data.observation import Observation
from slotflow.exact.refine import RefinedPosterior
from slotflow.exact.tempering import Tempering
from slotflow.network.model import SlotFlow
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation, simulate
from slotflow.studies.answers import exact_answer
from slotflow.studies.measures.parameters import SIZE, WAVEFORM
from slotflow.studies.measures.tones import summarise
from slotflow.studies.suites.exact.misfits import KINDS
from slotflow.studies.suites.sets import GRIDS, NOMINAL, SETS, suite_seed
from slotflow.studies.suites.signals import in_fresh_noise
from slotflow.studies.suites.sizes import EXACT_DRAWS
from slotflow.studies.tasks import Record

__all__ = ["PARTS", "Part", "Settings", "draw_signal", "measure", "pair_signal", "solve"]

RANKED_DRAWS = 1000
"""Equally weighted draws that the truth is compared with."""
LONG_SAMPLING = Tempering(particles=4096, islands=16, sweeps=6, max_seconds=300.0)
"""The independent estimate."""
PAIR_SAMPLING = Tempering(particles=16_384, islands=8, sweeps=10, max_seconds=600.0)
"""The independent posterior of a pair, for its correlations."""
CHAIN = ChainOptions(temperatures=2, hottest=2.3, effective=5000.0, max_seconds=120.0)
"""Eryn's run: long enough for its rate of effective draws to be known."""
PAIR_DISTANCE = 1.2
"""Distance of the pair in bins 1/T."""


@dataclass(frozen=True)
class Part:
    """One part of the suite."""

    number: int
    """Tells the seeds of the parts apart, and from those of the sets; never reused."""
    prior: Prior
    """What signals are drawn from and analysed under."""
    n: int
    """Signals that the targets ask for."""
    ks: tuple[int, ...] = ()
    """Numbers of tones in turn; none: drawn from p(K)."""
    kind: str = "posterior"
    """What is asked: "posterior", "evidence", "correlation", "misfit", "time", "batch" or "eryn"."""


WEAK_PRIOR = Prior(
    k_min=0,
    k_max=6,
    amplitude=(0.05, 1.5),
    min_separation=0.004,
    sigma=(0.5, 2.0),
    amplitude_law="loguniform",
)
PAIR_PRIOR = Prior(k_min=1, k_max=3, min_separation=0.0, sigma=(0.5, 1.5))
PARTS: dict[str, Part] = {
    "nominal": Part(16, NOMINAL, 2000),
    "stress": Part(17, SETS["stress"].prior, 2000),
    "frontier": Part(18, SETS["frontier"].prior, 500),
    "weak": Part(19, WEAK_PRIOR, 500),
    "evidence": Part(20, NOMINAL, 20, ks=(1, 2, 3, 4), kind="evidence"),
    "correlation": Part(21, PAIR_PRIOR, 5, ks=(2,), kind="correlation"),
    **{kind: Part(24 + i, NOMINAL, 200, kind="misfit") for i, kind in enumerate(KINDS)},
    "time": Part(22, NOMINAL, 20, ks=(9,), kind="time"),
    "batch": Part(23, NOMINAL, 256, kind="batch"),
    "eryn": Part(40, NOMINAL, 5, ks=(3,), kind="eryn"),
}
"""The parts by name, in their order."""


@dataclass(frozen=True)
class Settings:
    """What the records depend on besides part and index."""

    model: str | None = None
    """Weights of the network, as `SlotFlow.from_pretrained` takes them."""
    seed: int = 0
    """The user's seed."""
    draws: int = EXACT_DRAWS
    """Weighted draws of each order."""
    max_seconds: float = 10.0
    """Time budget of one signal."""
    batch: int = 256
    """Signals of the timed batch."""
    long: Tempering = field(default_factory=lambda: LONG_SAMPLING)
    """The independent estimate of ln Z."""
    longer: Tempering = field(default_factory=lambda: PAIR_SAMPLING)
    """The independent posterior of a pair."""
    chain: ChainOptions = field(default_factory=lambda: CHAIN)
    """How Eryn is run."""


# ---------------------------------------------------------------------- signals and answers


def draw_signal(part: Part, index: int, seed: int) -> Simulation:
    """Signal `index` of a part, a batch of one."""
    k = part.ks[index % len(part.ks)] if part.ks else None
    number = suite_seed(part.number, index, seed)
    return simulate(part.prior, 1, *GRIDS, mode="physical", seed=number, k=k)


def pair_signal(part: Part, index: int, seed: int) -> Simulation:
    """Two tones at `PAIR_DISTANCE` bins from each other, the rest drawn from the prior."""
    drawn = draw_signal(part, index, seed)
    width = 1 / GRIDS[0].duration
    pair = torch.from_numpy(drawn.components(0))[None].clone()
    place = WAVEFORM.place_of(pair)
    place[:, 1] = place[:, 0] + PAIR_DISTANCE * width
    place -= (place[:, 1] - part.prior.frequency[1] + width).clamp_min(0)[:, None]
    return in_fresh_noise(pair, drawn.sigma, drawn.seed + 1)


def solve(
    model: SlotFlow, observation: Observation, prior: Prior, draws: int, seed: int, seconds: float
) -> RefinedPosterior:
    """The exact answer."""
    return exact_answer(model, observation, prior, draws=draws, seed=seed, max_seconds=seconds)


def measure(post: RefinedPosterior, truth: NDArray[np.float64], sigma: float, seed: int) -> Record:
    """What is kept of an exact answer.

    Args:
        post: The answer.
        truth: True components, (K, P), sorted by place.
        sigma: True noise level.
        seed: Of the draws.
    """
    k = len(truth)
    found = post.orders.results.get(k)
    drawn = found is not None and len(found.log_weights) > 0
    levels = np.ones((k, SIZE))
    joint: float | None = 1.0 if k else None
    noise = 1.0
    if drawn:
        v = np.random.default_rng([seed % 2**63, 1]).random(2).tolist()
        n = RANKED_DRAWS
        theta, sigmas = post.sample(n, k, seed), post.sample_sigma(n, k, seed)
        noise = (float((sigmas < sigma).sum()) + v[0]) / (n + 1)
        if k:
            mask = torch.ones(1, k, dtype=torch.bool)
            both = torch.from_numpy(theta)[None], torch.from_numpy(truth)[None]
            levels = summarise(*both, mask, seed).level[0].numpy()
            log_p = post.slots.joint_log_prob(np.concatenate([truth[None], theta]))
            joint = (float((log_p[1:] > log_p[0]).sum()) + v[1]) / (n + 1)
    checks = post.verdict.checks
    smallest = checks[0] if checks else None
    return {
        "k": k,
        "k_probs": post.k_probs.tolist(),
        "ess": found.ess if found is not None and drawn else 0.0,
        "method": post.orders.methods.get(k, "none"),
        "log_z": float(post.orders.log_evidence[k]),
        "log_z_error": float(post.orders.log_evidence_error[k]),
        "levels": levels.tolist(),
        "joint": joint,
        "sigma_level": noise,
        "status": post.verdict.status,
        "p": 1.0 if smallest is None else min(smallest.p_value * len(checks), 1.0),
        "check": "" if smallest is None else smallest.name,
        "seconds": post.orders.seconds,
    }
