"""The loop that analyses a set in batches and keeps a few numbers per tone.

Draws of one batch are summarised on the device and forgotten: memory does not grow with the number of signals except
for the summaries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.data.sampling import Grid
from slotflow.network.matching import match_square
from slotflow.signal.bounds import crb_std
from slotflow.signal.simulation import Simulation
from slotflow.studies.measures.cardinality import top_label
from slotflow.studies.measures.parameters import WAVEFORM
from slotflow.studies.measures.tones import (
    ToneSummary,
    midpoint,
    summarise,
    summarise_slots,
)
from slotflow.studies.suites.analyser import Analyser, NoiseEstimate, PairedSlots, SlotsLike
from slotflow.studies.suites.sets import GRIDS, SignalSet, batches, default_batch, posterior_seed
from slotflow.studies.suites.sizes import Sizes

__all__ = ["SetResult", "matched_components", "run_set"]


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
    """Posterior at the true K against the truth, both in the order of f, (n, K, P) each."""
    bound: Tensor | None
    """Joint Cramér–Rao bound at the truth, (n, K, P)."""
    catalogue: Tensor | None
    """Medians of the frequencies at the most probable K, (n, K), the first k_map of each signal."""
    seconds: float
    """Wall time of simulation, analysis and summaries."""
    slot_tones: ToneSummary | None = None
    """Posterior of the slot that takes each component, as the paper has it, (n, K, P) each; None where slots have no
    densities to be matched by."""
    sigma_estimate: Tensor | None = None
    """Noise level by the network's own pathway, (n,), float64; None where it has none."""

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


class _Parts:
    """What has been kept of the batches so far, on the CPU."""

    def __init__(self) -> None:
        self.tensors: dict[str, list[Tensor]] = {}
        self.tones: list[ToneSummary] = []
        self.slot_tones: list[ToneSummary] = []

    def add(self, **tensors: Tensor) -> None:
        """Keeps tensors of one more batch, (B, ...) each."""
        for name, value in tensors.items():
            self.tensors.setdefault(name, []).append(value.cpu())

    def result(self, seconds: float) -> SetResult:
        """All batches as one."""
        whole = {name: torch.cat(values) for name, values in self.tensors.items()}
        return SetResult(
            k=whole["k"],
            k_probs=whole["k_probs"],
            sigma=whole["sigma"],
            theta=whole["theta"],
            tones=ToneSummary.cat(self.tones) if self.tones else None,
            bound=whole.get("bound"),
            catalogue=whole.get("catalogue"),
            seconds=seconds,
            slot_tones=ToneSummary.cat(self.slot_tones) if self.slot_tones else None,
            sigma_estimate=whole.get("sigma_estimate"),
        )


@torch.no_grad()
def run_set(
    model: Analyser,
    signals: SignalSet,
    sizes: Sizes,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    grids: tuple[Grid, Grid | None] = GRIDS,
    advance: Callable[[int], None] | None = None,
) -> SetResult:
    """Analyses a set.

    Args:
        model: What to evaluate.
        signals: The set.
        sizes: Signals, draws per slot, and signals per batch.
        seed: The same seed gives the same signals on the same device.
        device: Where the signals are simulated and summarised; the model's own device.
        grids: Long and short grid.
        advance: Called with the number of signals after each batch.
    """
    device = torch.device(device)
    batch = sizes.batch or default_batch(device, sizes.draws, signals.prior.k_max)
    start, parts = time.perf_counter(), _Parts()
    for sim in batches(signals, sizes.n, batch, seed, device, grids):
        _analyse(model, signals, sim, sizes.draws, parts)
        if advance is not None:
            advance(len(sim.k))
    return parts.result(time.perf_counter() - start)


def _analyse(
    model: Analyser, signals: SignalSet, sim: Simulation, draws: int, parts: _Parts
) -> None:
    """Analyses one batch and keeps its summaries."""
    seed, analysis = posterior_seed(sim.seed), model.analyse(sim, signals.prior)
    found: ToneSummary | None = None
    if signals.tones:
        slots = analysis.slots(sim.k)
        sample = slots.sample(draws, seed)
        found = summarise(sample, sim.theta, slots.mask, seed + 1).cpu()
        if isinstance(slots, PairedSlots):
            component = matched_components(slots, sim)
            own = summarise_slots(sample, sim.theta, component, sim.mask, seed + 1)
            parts.slot_tones.append(own.cpu())
        del sample  # the largest tensor of all, before the next one is drawn
        parts.tones.append(found)
        parts.add(bound=crb_std(sim.theta, sim.sigma, sim.grids, sim.mask))
    if signals.catalogue:
        parts.add(catalogue=_frequencies(analysis.slots(), draws, seed + 2))
    if isinstance(analysis, NoiseEstimate) and analysis.sigma_estimate is not None:
        parts.add(sigma_estimate=analysis.sigma_estimate.double())
    k_probs = analysis.k_probs.double()
    _check_finite(k_probs, found, sim.seed)
    parts.add(k=sim.k, k_probs=k_probs, sigma=sim.sigma, theta=sim.theta)


def matched_components(slots: PairedSlots, sim: Simulation) -> Tensor:
    """The component that each slot takes at the cheapest assignment by density, (B, K_max), int64, on the CPU."""
    log_prob = slots.pair_log_prob(sim.theta)
    missing = sim.theta.shape[1] - log_prob.shape[1]  # slots that no signal of the batch has
    cost = torch.nn.functional.pad(-log_prob, (0, 0, 0, missing))
    return match_square(
        cost, sim.k.cpu(), torch.ones(len(sim.k), dtype=torch.bool, device=cost.device)
    )


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
