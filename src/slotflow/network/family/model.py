r"""The network for several classes as its user sees it (preset `family`).

**Noise level.** The network reads data in units of their noise. Where the level is unknown, the bins that no component
can occupy tell it at first, and what the slots leave of the data tells it better; the network then looks again.

**Loudness.** It is told that ρ is log-uniform from 5 to 40, or to 400 where the data are louder, whatever the prior
says of amplitudes. Its count is carried over to the prior (`carried.py`), and its draws are cut to the prior's bounds.
The exact step, which follows unless the network is asked alone, answers under the prior.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.network.cardinality import k_posterior, under_k_prior
from slotflow.network.config import ModelConfig
from slotflow.network.family.alone import slots_alone
from slotflow.network.family.batches import taken
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.carried import carried
from slotflow.network.family.densities import FamilySlots
from slotflow.network.family.network import FamilyParts, Pass
from slotflow.network.family.record import Record, bounds_of, record_of
from slotflow.network.family.slot_choices import NEGLIGIBLE, Signal
from slotflow.network.family.slots import Begun, Seen
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
        return self.answers([observation], [prior], k_prior)[0]

    def answers(
        self,
        observations: Sequence[Observation],
        priors: Sequence[Prior],
        k_prior: KPrior | None = None,
    ) -> list[ClassPosterior]:
        """The network's posteriors of several observations, all of which go through it together.

        Args:
            observations: What was measured, each as `reads` asks for.
            priors: The prior of each.
            k_prior: Prior over K instead of theirs.
        """
        self._check_read(observations, priors)
        with self._evaluating():
            records, found = self._looked(observations, priors)
            probs = self._k_probs(found, priors, k_prior)
            signals = self._begun(found, records, priors, probs)
            return [
                ClassPosterior(
                    FamilySlots(signal, carried(signal, p)),
                    observation,
                    signal.record.level,
                    f"slotflow:{self.config.name}",
                    under_k_prior(signal.prior, k_prior, self.config.prior),
                )
                for signal, p, observation in zip(signals, probs, observations, strict=True)
            ]

    def _check_read(self, observations: Sequence[Observation], priors: Sequence[Prior]) -> None:
        """Refuses observations that the network cannot read; those of one prior and one grid are looked at once."""
        fine: set[tuple[int, Grid]] = set()
        for observation, prior in zip(observations, priors, strict=True):
            is_single = len(observation.channels) == 1 and observation.long.is_even
            if is_single and (id(prior), observation.long.grid) in fine:
                continue
            if why := self.reads(observation, prior):
                raise ValueError(
                    f"the model {self.config.name!r} alone cannot answer here: {why}; leave the exact step on "
                    "(method='exact')."
                )
            fine.add((id(prior), observation.long.grid))

    def _k_probs(self, found: Pass, priors: Sequence[Prior], k_prior: KPrior | None) -> Array:
        """q(K | x) under the priors over K, (B, k_max + 1)."""
        rows = []
        for logits, prior in zip(found.logits, priors, strict=True):
            stated = np.pad(prior.k_probs_full, (0, self.k_max - prior.k_max))
            own = stated if k_prior is None else k_prior
            rows.append(k_posterior(logits[None], self.config.prior, own)[0].cpu().numpy())
        return np.stack(rows)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Without gradients, in the mode of evaluation."""
        training = self.training
        self.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            self.train(training)

    def _begun(
        self, found: Pass, records: Sequence[Record], priors: Sequence[Prior], probs: Array
    ) -> list[Signal]:
        """Each signal of a pass, with the slots of all plausible K, probs being q(K | x), (B, k_max + 1).

        Where several K are plausible the slots are finished as well, under their most probable classes: their evidences
        are to be carried over to the prior.
        """
        signals = [
            Signal(self.parts, taken(found, slice(i, i + 1)), record, prior)
            for i, (record, prior) in enumerate(zip(records, priors, strict=True))
        ]
        for k in range(1, probs.shape[1]):
            own = np.flatnonzero(probs[:, k] > NEGLIGIBLE)
            if not len(own):
                continue
            index = torch.from_numpy(own).to(self.device)
            begun = self.parts.given(taken(found, index), torch.full_like(index, k))
            for place, i in enumerate(own):
                signals[i].begin(k, taken(begun, slice(place, place + 1)))
            unsure = np.flatnonzero((probs[own] > NEGLIGIBLE).sum(1) > 1)
            if len(unsure):
                chosen = torch.from_numpy(unsure).to(self.device)
                seen = taken(found.seen, index[chosen])
                self._finish(k, [signals[i] for i in own[unsure]], seen, taken(begun, chosen))
        return signals

    def _finish(self, k: int, signals: Sequence[Signal], seen: Seen, begun: Begun) -> None:
        """Finishes K slots of several signals at once, under their most probable classes."""
        kinds = np.stack([signal.choices(k).kinds[0] for signal in signals])  # (B, K)
        wide = np.pad(kinds, ((0, 0), (0, self.k_max - k)))
        units, kind = self.parts.units, torch.from_numpy(wide).to(self.device)
        done = self.parts.slots.finish(units, seen, begun, kind)
        alone = slots_alone(units, done, [signal.record for signal in signals], k)
        for i, signal in enumerate(signals):
            signal.finished[tuple(kinds[i].tolist())] = taken(done, slice(i, i + 1))
            signal.known_alone[k] = alone[i]

    def _looked(
        self, observations: Sequence[Observation], priors: Sequence[Prior]
    ) -> tuple[list[Record], Pass]:
        """The records in units of their noise, and the pass."""
        records = []
        for observation, prior in zip(observations, priors, strict=True):
            record = record_of(observation.long, prior, self.parts.units)
            assert record is not None
            records.append(record)
        found = self._pass(records, priors)
        fit = found.slots.fit
        used = self.parts.units.used(fit.slots.kind) & fit.slots.mask[..., None]
        n = self.parts.units.fine.n
        free = n - 0.5 * used.sum((1, 2))
        ratios = (fit.rss.clamp_min(1e-12) / free).sqrt().double().cpu().numpy()
        open_level = np.array(
            [not p.known_sigma and o.long.n >= n for o, p in zip(observations, priors, strict=True)]
        )
        again = open_level & (np.abs(ratios - 1) > CHANGED)
        if again.any():
            records = [
                record.rescaled(float(ratio)) if changed else record
                for record, ratio, changed in zip(records, ratios, again, strict=True)
            ]
            found = self._pass(records, priors)
        return records, found

    def _pass(self, records: Sequence[Record], priors: Sequence[Prior]) -> Pass:
        """One look at some records."""
        parts = self.parts
        x = torch.from_numpy(np.stack([record.x.astype(np.complex64) for record in records]))
        x = x.to(self.device)
        loudest = parts.filters.gains(x).amax((1, 2)).sqrt().tolist()
        low, high = self.config.gain
        told, known = [], dict[tuple[int, float, float], Bounds]()
        for record, prior, loud in zip(records, priors, loudest, strict=True):
            most = high * parts.sizes.loudest if loud > LOUD * high else high
            key = id(prior), record.duration, most
            if key not in known:
                known[key] = bounds_of(record, prior, parts.units, parts.outer, (low, most))[0]
            told.append(known[key])
        bounds = Bounds(*(torch.cat(part) for part in zip(*told, strict=True)))
        return self.analyse(x, bounds)

    def starts(self, observation: Observation, prior: Prior) -> list[list[tuple[int, Array]]]:
        """Sets of components for the exact step: class of the prior and shape in its units, of each plausible K.

        Empty where the network cannot read the data.
        """
        record = record_of(observation.long, prior, self.parts.units)
        half = 0.5 * (prior.frequency[1] - prior.frequency[0]) * observation.long.duration
        if record is None or 2 * half > 1.01 * self.widest_band:
            return []
        with self._evaluating():
            (record,), found = self._looked([observation], [prior])
            probs = found.logits[0].softmax(-1).cpu().numpy()
            signal = Signal(self.parts, found, record, prior)
            order = [int(k) for k in np.argsort(-probs) if k > 0 and probs[k] > PLAUSIBLE]
            return [one for k in order if k <= prior.k_max for one in _sets(signal, k)]


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
