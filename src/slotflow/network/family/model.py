r"""The network for several classes as its user sees it (preset `family`).

**Noise level.** The network reads data in units of their noise. Where the level is unknown, the bins that no component
can occupy tell it at first, and what the slots leave of the data tells it better; the network then looks again.

**Loudness.** It is told that ρ is log-uniform from 5 to 40, or to 400 where the data are louder, whatever the prior
says of amplitudes. The exact step, which follows unless the network is asked alone, answers under the prior.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.network.cardinality import k_posterior, under_k_prior
from slotflow.network.config import ModelConfig
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.densities import FamilySlots, Signal
from slotflow.network.family.network import FamilyParts, Pass
from slotflow.network.family.record import Record, bounds_of, record_of
from slotflow.network.model import SlotFlow
from slotflow.network.multiclass.posterior import ClassPosterior
from slotflow.network.options import KPrior
from slotflow.signal.prior import Prior

__all__ = ["FamilySlotFlow"]

LOUD = 1.1
"""Ratio of the loudest filter to the largest trained gain at which components count as louder than usual."""
CHANGED = 0.01
"""Relative change of the noise level after which the network looks again."""
PLAUSIBLE = 1e-3
"""Probability of K from which on its slots are proposed to the exact step."""


class FamilySlotFlow(SlotFlow):
    """Mixtures of tones, chirps and damped tones under any prior within the bounds of its training.

    Args:
        config: What to build; its `family` part must be there.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.parts = FamilyParts(config)

    @property
    def widest_band(self) -> float:
        """Widest band in bins of 1/T."""
        low, high = self.config.prior.frequency
        return high - low

    def analyse(self, x: torch.Tensor, bounds: Bounds, k: torch.Tensor | None = None) -> Pass:
        """What the network makes of B records in units of their noise, (B, n), complex64, on its device."""
        with torch.inference_mode():
            return self.parts.run(x, bounds, k)

    def reads(self, observation: Observation, prior: Prior) -> str:
        """Why the network cannot answer for data under a prior; empty where it can."""
        if len(observation.channels) > 1 or not observation.long.is_even:
            return "it reads one even channel"
        record = record_of(observation.long, prior, self.parts.units)
        if record is None:
            known = ", ".join(member.name for member in self.parts.units.waveform.members.values())
            return f"it knows classes of {known}, one of each"
        if prior.k_max > self.k_max:
            return f"it knows up to {self.k_max} components"
        if not bounds_of(record, prior, self.parts.units, self.parts.outer, self.config.gain)[1]:
            edges = dict(zip(self.parts.units.names, zip(*self._edges(), strict=True), strict=True))
            return f"its bounds, in units of the record's length T, are {edges}"
        return ""

    def _start(self, prior: Prior, grid: Grid, refine: bool) -> Prior:
        raise ValueError(
            f"the model {self.config.name!r} answers for several classes: state Prior(classes=...); to analyse tones "
            "use the model `zoom`."
        )

    def _move(self, device: str | torch.device | None, dtype: torch.dtype | None) -> SlotFlow:
        if dtype not in (None, torch.float32):
            raise ValueError(
                f"the model {self.config.name!r} computes in float32, received dtype = {dtype}; leave it out."
            )
        return super()._move(device, None)

    def _edges(self) -> tuple[list[float], list[float]]:
        """The outer bounds of ξ, rounded."""
        units, outer = self.parts.units, self.parts.outer
        low, high = (units.values(edge[0]).cpu().numpy().round(2) for edge in outer[:2])
        return low.tolist(), high.tolist()

    def answer(
        self, observation: Observation, prior: Prior, k_prior: KPrior | None = None
    ) -> ClassPosterior:
        """The network's posterior, where `reads` has nothing to say."""
        if why := self.reads(observation, prior):
            raise ValueError(
                f"the model {self.config.name!r} alone cannot answer here: {why}; leave the exact step on "
                "(method='exact')."
            )
        training = self.training
        self.eval()
        try:
            return self._answer(observation, prior, k_prior)
        finally:
            self.train(training)

    @torch.inference_mode()
    def _answer(
        self, observation: Observation, prior: Prior, k_prior: KPrior | None
    ) -> ClassPosterior:
        record, found = self._looked(observation, prior)
        stated = np.pad(prior.k_probs_full, (0, self.k_max - prior.k_max))
        probs = k_posterior(found.logits, self.config.prior, stated if k_prior is None else k_prior)
        signal = Signal(self.parts, found, record, prior)
        slots = FamilySlots(signal, probs[0].cpu().numpy())
        return ClassPosterior(
            slots,
            observation,
            record.level,
            f"slotflow:{self.config.name}",
            under_k_prior(prior, k_prior, self.config.prior),
        )

    def _looked(self, observation: Observation, prior: Prior) -> tuple[Record, Pass]:
        """The record in units of its noise, and the pass."""
        record = record_of(observation.long, prior, self.parts.units)
        assert record is not None
        found = self._pass(record, prior)
        if not prior.known_sigma:
            fit = found.slots.fit
            used = self.parts.units.used(fit.slots.kind) & fit.slots.mask[..., None]
            free = self.parts.units.fine.n - 0.5 * float(used.sum())
            ratio = math.sqrt(max(float(fit.rss[0]), 1e-12) / free)
            if abs(ratio - 1) > CHANGED and observation.long.n >= self.parts.units.fine.n:
                record = record.rescaled(ratio)
                found = self._pass(record, prior)
        return record, found

    def _pass(self, record: Record, prior: Prior) -> Pass:
        """One look at a record."""
        parts = self.parts
        x = torch.from_numpy(record.x.astype(np.complex64))[None].to(self.device)
        loudest = math.sqrt(float(parts.filters.gains(x).max()))
        low, high = self.config.gain
        if loudest > LOUD * high:
            high = high * parts.sizes.loudest
        bounds, _ = bounds_of(record, prior, parts.units, parts.outer, (low, high))
        return self.analyse(x, bounds)

    @torch.inference_mode()
    def starts(self, observation: Observation, prior: Prior) -> list[list[tuple[int, Array]]]:
        """Sets of components for the exact step: class of the prior and shape in its units, of each plausible K.

        Empty where the network cannot read the data.
        """
        record = record_of(observation.long, prior, self.parts.units)
        half = 0.5 * (prior.frequency[1] - prior.frequency[0]) * observation.long.duration
        if record is None or 2 * half > 1.01 * self.widest_band:
            return []
        training = self.training
        self.eval()
        try:
            record, found = self._looked(observation, prior)
            probs = found.logits[0].softmax(-1).cpu().numpy()
            signal = Signal(self.parts, found, record, prior)
            order = [int(k) for k in np.argsort(-probs) if k > 0 and probs[k] > PLAUSIBLE]
            return [one for k in order if k <= prior.k_max for one in _sets(signal, k)]
        finally:
            self.train(training)


MOST_SETS = 3
"""Choices of classes that are proposed of each K."""


def _sets(signal: Signal, k: int) -> list[list[tuple[int, Array]]]:
    """Shapes of K slots under the most probable choices of their classes."""
    found = []
    for kinds in signal.choices(k).kinds[:MOST_SETS]:
        slots = signal.slots(kinds).fit.slots
        units = signal.parts.units
        values = units.values(slots.raw[0]).double().cpu().numpy()
        rows = []
        for slot, kind in enumerate(kinds):
            index = [one.kind for one in signal.record.maps].index(kind)
            one = signal.record.maps[index]
            xi = values[slot, units.own[kind].cpu().numpy()[: len(one.member.shape)]]
            rows.append((index, one.to_user(xi, np.ones((), dtype=np.complex128))[0]))
        found.append(rows)
    return found
