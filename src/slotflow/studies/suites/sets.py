"""The test sets, and the loop that analyses them in batches and keeps a few numbers per tone.

Every set is drawn in physical mode with both streams and analysed under the prior that it was drawn from. Seeds lie
between those left to users and those of training, so that no model has seen a signal of these sets. Draws of one batch
are summarised on the device and forgotten: memory does not grow with the number of signals but for the summaries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from slotflow.core.seeds import EVALUATION_SEED, RandomStream, stream_seed
from slotflow.data.sampling import Grid
from slotflow.signal.bounds import crb_std
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation, simulate
from slotflow.studies.measures.cardinality import top_label
from slotflow.studies.measures.parameters import SIZE, WAVEFORM
from slotflow.studies.measures.tones import ToneSummary, midpoint, summarise

__all__ = [
    "GRIDS",
    "SETS",
    "Analyser",
    "AnalysisLike",
    "SetResult",
    "SignalSet",
    "SlotsLike",
    "batches",
    "default_batch",
    "posterior_seed",
    "run_set",
    "suite_seed",
]

GRIDS = (Grid(3000, 0.1), Grid(5120, 1 / 512))
"""Sampling of the long and the short stream."""
SEED_LIMIT = 2**28
"""The suite's own seeds end here."""
MEMORY = {"cuda": 2**29, "cpu": 2**27}
"""Bytes that the draws of one batch may take; sorting them takes a few times as much."""


# ---------------------------------------------------------------------- what a model must offer


class SlotsLike(Protocol):
    """Posteriors of the slots of B signals, for a given K of each."""

    @property
    def mask(self) -> Tensor:
        """Which slots exist, (B, K), bool."""

    def sample(self, n: int, seed: int) -> Tensor:
        """Draws of (A, φ, f), (B, n, K, P), float64."""


class AnalysisLike(Protocol):
    """Posterior of B signals."""

    @property
    def k_probs(self) -> Tensor:
        """q(K | x), (B, k_max + 1), index = K."""

    def slots(self, k: Tensor | None = None) -> SlotsLike:
        """Slots for K = k, (B,), int64, on the CPU; for the most probable K if None."""


@runtime_checkable
class Analyser(Protocol):
    """Anything that can be evaluated: a network, or an exact posterior in a test."""

    def analyse(self, simulation: Simulation, prior: Prior, /) -> AnalysisLike:
        """Posterior of every signal of a batch under a prior."""


# ---------------------------------------------------------------------- the sets


@dataclass(frozen=True)
class SignalSet:
    """Where the signals of a set come from, and what is asked about them."""

    number: int
    """Tells the seeds of the sets apart; never reused."""
    prior: Prior
    """What the signals are drawn from and analysed under."""
    k: int | None = None
    """A fixed number of tones instead of draws from p(K)."""
    tones: bool = True
    """Whether the tones at the true K are compared with the truth."""
    catalogue: bool = False
    """Whether the tones at the most probable K are wanted as well."""


NOMINAL = Prior()
SETS = {
    "nominal": SignalSet(0, NOMINAL),
    "k1": SignalSet(1, NOMINAL, k=1),
    "k2": SignalSet(2, NOMINAL, k=2),
    "k5": SignalSet(3, NOMINAL, k=5),
    "k10": SignalSet(4, NOMINAL, k=10),
    "stress": SignalSet(5, Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0)), catalogue=True),
    "frontier": SignalSet(6, Prior(k_min=5, min_separation=0.0, sigma=(1.0, 2.0))),
    "noise": SignalSet(7, Prior(k_min=0), k=0, tones=False),
}
"""The sets by name; the order is that of the evaluation."""


# ---------------------------------------------------------------------- the loop


@dataclass(frozen=True, eq=False)
class SetResult:
    """What is kept of a set of n signals, on the CPU."""

    k: Tensor
    """True K, (n,), int64."""
    k_probs: Tensor
    """q(K | x), (n, k_max + 1), float64."""
    sigma: Tensor
    """True noise level, (n,), float64."""
    theta: Tensor
    """True components, (n, K, P), float64."""
    tones: ToneSummary | None
    """Posterior at the true K against the truth, (n, K, P) each."""
    bound: Tensor | None
    """Joint Cramér–Rao bound at the truth, (n, K, P)."""
    catalogue: Tensor | None
    """Medians of the frequencies at the most probable K, (n, K), the first k_map of each signal."""
    seconds: float
    """Wall time of simulation, analysis and summaries."""

    @property
    def n(self) -> int:
        """Number of signals."""
        return len(self.k)

    @property
    def k_map(self) -> Tensor:
        """Most probable K, (n,)."""
        return top_label(self.k_probs)[0]

    @property
    def exact(self) -> Tensor:
        """Whether the most probable K is the true one, (n,), bool."""
        return self.k_map == self.k

    @property
    def mask(self) -> Tensor:
        """Which true tones exist, (n, K), bool."""
        return torch.arange(self.theta.shape[1]) < self.k[:, None]


def suite_seed(number: int, batch: int, seed: int) -> int:
    """Seed of one batch of one set.

    Args:
        number: The set's number, below 256.
        batch: Which batch, below 2²⁴.
        seed: The user's choice, below 2²⁸.
    """
    if not 0 <= seed < SEED_LIMIT:
        raise ValueError(f"expected a seed from 0 to {SEED_LIMIT - 1}, received {seed}.")
    return EVALUATION_SEED + (seed << 32) + (number << 24) + batch


def default_batch(device: torch.device, draws: int, k_max: int) -> int:
    """Signals that are analysed together: as many as the memory of their draws allows, within reason."""
    kind = "cuda" if device.type == "cuda" else "cpu"
    fits = MEMORY[kind] // (draws * k_max * SIZE * 8)
    return max(1, min(fits, {"cuda": 2000, "cpu": 500}[kind]))


def batches(
    signals: SignalSet,
    n: int,
    batch: int,
    seed: int,
    device: torch.device,
    grids: tuple[Grid, Grid | None] = GRIDS,
) -> Iterator[Simulation]:
    """The signals of a set, the same for the same arguments.

    Args:
        signals: The set.
        n: Number of signals.
        batch: Signals per batch; the last one may have fewer.
        seed: The user's seed.
        device: Where to simulate.
        grids: Long and short grid.
    """
    for i, start in enumerate(range(0, n, batch)):
        yield simulate(
            signals.prior,
            min(batch, n - start),
            *grids,
            mode="physical",
            seed=suite_seed(signals.number, i, seed),
            k=signals.k,
            device=device,
        )


@torch.no_grad()
def run_set(
    model: Analyser,
    signals: SignalSet,
    n: int,
    *,
    draws: int = 500,
    batch: int | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    grids: tuple[Grid, Grid | None] = GRIDS,
    advance: Callable[[int], None] | None = None,
) -> SetResult:
    """Analyses a set.

    Args:
        model: What to evaluate.
        signals: The set.
        n: Number of signals.
        draws: Draws per slot.
        batch: Signals per batch; None: as the device's memory allows.
        seed: The same seed gives the same signals on the same device.
        device: Where the signals are simulated and summarised; the model's own device.
        grids: Long and short grid.
        advance: Called with the number of signals after each batch.
    """
    if n < 1 or draws < 2:
        raise ValueError(f"expected n >= 1 signals and draws >= 2, received {n} and {draws}.")
    device = torch.device(device)
    batch = batch or default_batch(device, draws, signals.prior.k_max)
    start = time.perf_counter()
    parts: dict[str, list[Tensor]] = {
        name: [] for name in ("k", "k_probs", "sigma", "theta", "bound", "catalogue")
    }
    tones: list[ToneSummary] = []
    for sim in batches(signals, n, batch, seed, device, grids):
        draw_seed = posterior_seed(sim.seed)
        analysis = model.analyse(sim, signals.prior)
        if signals.tones:
            slots = analysis.slots(sim.k)
            sample = slots.sample(draws, draw_seed)
            tones.append(summarise(sample, sim.theta, slots.mask, draw_seed + 1).cpu())
            parts["bound"].append(crb_std(sim.theta, sim.sigma, sim.grids, sim.mask).cpu())
            del sample
        if signals.catalogue:
            parts["catalogue"].append(_frequencies(analysis.slots(), draws, draw_seed + 2).cpu())
        parts["k"].append(sim.k)
        parts["k_probs"].append(analysis.k_probs.double().cpu())
        parts["sigma"].append(sim.sigma.cpu())
        parts["theta"].append(sim.theta.cpu())
        _check_finite(parts["k_probs"][-1], tones[-1] if tones else None, sim.seed)
        if advance is not None:
            advance(len(sim.k))
    whole = {name: torch.cat(values) if values else None for name, values in parts.items()}
    k, k_probs, sigma, theta = (torch.cat(parts[n]) for n in ("k", "k_probs", "sigma", "theta"))
    return SetResult(
        k,
        k_probs,
        sigma,
        theta,
        ToneSummary.cat(tones) if tones else None,
        whole["bound"],
        whole["catalogue"],
        time.perf_counter() - start,
    )


def posterior_seed(seed: int) -> int:
    """Seed of the draws from the posteriors of the signals of a seed, 62 bits."""
    return stream_seed(seed, RandomStream.POSTERIOR_DRAWS) >> 2


def _frequencies(slots: SlotsLike, draws: int, seed: int) -> Tensor:
    """Median frequency of each slot, (B, K), existing slots first."""
    median = midpoint(WAVEFORM.place_of(slots.sample(draws, seed)))
    order = (~slots.mask).long().argsort(dim=-1, stable=True)
    return median.gather(1, order)


def _check_finite(k_probs: Tensor, tones: ToneSummary | None, seed: int) -> None:
    """Stops an evaluation whose figures would mean nothing."""
    values = [k_probs] if tones is None else [k_probs, tones.median, tones.sd]
    if not all(bool(value.isfinite().all()) for value in values):
        raise ValueError(
            f"expected finite probabilities and draws, received NaN or infinity in the batch of seed {seed}; "
            "check the model's weights."
        )
