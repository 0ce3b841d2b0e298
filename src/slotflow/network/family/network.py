"""The parts of the network of preset `family`, and a pass through them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.config import ModelConfig
from slotflow.network.family.bounds import Bounds, conditions, outer_bounds
from slotflow.network.family.closer import closer_slots
from slotflow.network.family.encoder import Encoded, Encoder
from slotflow.network.family.joint import residual
from slotflow.network.family.places import Places, propose
from slotflow.network.family.recount import Recount, SignalNumbers, slot_map
from slotflow.network.family.slots import Begun, Finished, Seen, SlotRounds, kept
from slotflow.network.family.units import Units
from slotflow.network.family.view import Filters, channels, view_of
from slotflow.network.zoom.bound import BoundFlow
from slotflow.signal.waveforms import Classes

__all__ = ["FamilyParts", "Pass"]

PASSES = 2
"""Times that slots are looked at again for a place that explains more."""
SMALLER = 0.5
"""How much smaller the residual must be for a second beginning to count."""


class Pass(NamedTuple):
    """What a pass makes of B signals with K slots."""

    seen: Seen
    """The signals."""
    first: Encoded
    """The first encoder's word."""
    places: Places
    """All places of the heat map, the most probable first."""
    begun: Begun
    """Slots before the decision on their classes."""
    slots: Finished
    """Slots under the most probable classes."""
    second: Encoded
    """The second encoder's word."""
    logits: Tensor
    """Of K, (B, k_max + 1)."""


class FamilyParts(nn.Module):
    """All that is trained.

    Args:
        config: What to build; its `family` part must be there.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.family is not None and isinstance(config.prior.waveform, Classes)
        sizes = self.sizes = config.family
        self.config, self.k_max = config, config.prior.k_max
        self.units = units = Units(config.prior.waveform, config.long.n, sizes.coarse)
        for name, edge in outer_bounds(units, config.prior, config.gain, 1)._asdict().items():
            self.register_buffer(f"outer_{name}", edge.clone(), persistent=False)
        bins = int(2 * config.prior.frequency[1]) + 2 * sizes.margin
        self.filters = Filters(units, sizes, bins)
        told = units.classes + 2 * units.shapes + 2
        inputs, outputs = channels(self.filters, units), (bins, units.classes, units.shapes)
        self.encoder = Encoder(sizes, inputs, outputs, sizes.layers, told, self.k_max)
        self.slots = SlotRounds(sizes, units, told)
        self.look = Encoder(sizes, inputs + 1, outputs, sizes.second_layers, told, self.k_max)
        self.before = nn.Linear(sizes.width, sizes.width)
        self.recount = Recount(sizes, told, self.k_max)
        self.flows = nn.ModuleList(
            BoundFlow(sizes.slot_width, config.flow, size) for size in units.sizes
        )

    def flow(self, kind: int) -> BoundFlow:
        """The flow of a class."""
        flow = self.flows[kind]
        assert isinstance(flow, BoundFlow)
        return flow

    @property
    def outer(self) -> Bounds:
        """The widest bounds, (1, ·)."""
        return Bounds(*(self.get_buffer(f"outer_{name}") for name in Bounds._fields))

    def features(self, x: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
        """What the first encoder reads of records (B, N): features and conditions."""
        return view_of(x, self.filters, self.units, bounds), conditions(bounds, self.outer)

    @torch.no_grad()
    def residual_features(self, seen: Seen, slots: Finished) -> Tensor:
        """What the second encoder reads: the view of what slots leave, and where they are, (B, L, channels + 1)."""
        left = residual(seen.x, self.units.fine, self.units, slots.fit.slots)
        view = view_of(left, self.filters, self.units, seen.bounds)
        return torch.cat([view, slot_map(self.units, slots.fit.slots, self.filters.half_bins)], -1)

    def run(self, x: Tensor, bounds: Bounds, k: Tensor | None = None) -> Pass:
        """A pass without gradients.

        Args:
            x: Records, (B, N), complex64, in units of their noise.
            bounds: The priors.
            k: Number of slots of each signal, (B,); None: the first count's.
        """
        features, told = self.features(x, bounds)
        first = self.encoder(features, told)
        seen = Seen(x, first.tokens.float(), told, bounds, self.outer)
        places = propose(first.heat, bounds, seen.outer, self.k_max)
        number = first.logits.argmax(-1) if k is None else k
        mask = torch.arange(self.k_max, device=x.device) < number[:, None]
        begun, slots = self.fitted(seen, places, mask)
        second = self.look(self.residual_features(seen, slots), told, self.before(first.tokens))
        logits = self.recount(SignalNumbers(first, second, told), slots, mask)
        return Pass(seen, first, places, begun, slots, second, logits)

    def given(self, answer: Pass, k: Tensor) -> Begun:
        """Slots before the decision on their classes, given their number, (B,).

        They start where the slots of the pass did, those on a component first, and then where the second heat map
        shows what is missing.
        """
        seen, mask = answer.seen, answer.slots.fit.slots.mask
        first = answer.places.first(mask)
        more = propose(answer.second.heat, seen.bounds, seen.outer, self.k_max)
        p = torch.where(mask, 2 + answer.slots.real.sigmoid(), -1.0)
        every = Places(*(torch.cat(pair, 1) for pair in zip(first, more, strict=True)))
        order = torch.cat([p, more.p], 1).argsort(1, descending=True)[:, : self.k_max]
        wanted = torch.arange(self.k_max, device=mask.device) < k[:, None]
        return self.begun(seen, every.take(order).first(wanted), wanted)

    def fitted(self, seen: Seen, places: Places, mask: Tensor) -> tuple[Begun, Finished]:
        """The first places of a mask, (B, K), as slots of their most probable classes."""
        begun = self.begun(seen, places.first(mask), mask)
        return begun, self.slots.finish(self.units, seen, begun, begun.logits.argmax(-1))

    def begun(self, seen: Seen, places: Places, mask: Tensor) -> Begun:
        """Slots before the decision on their classes.

        They begin at their places, and a second time from where filters explain more; of the two the one whose
        residual is smaller is kept.
        """
        first = self.slots.begin(self.units, seen, places, mask)
        slots = closer_slots(
            seen.x, self.units, self.filters, first.fit, seen.bounds, PASSES, self.sizes.steps
        )
        moved = (slots.raw != first.fit.slots.raw).any(-1).any(-1)
        if slots.raw.device.type == "cpu" and not moved.any():
            return first
        starts = Places(slots.raw, slots.kind, torch.ones_like(slots.raw[..., 0])).first(mask)
        again = self.slots.begin(self.units, seen, starts, mask)
        return kept(moved & (again.fit.rss < first.fit.rss - SMALLER), again, first)
