r"""Draws and densities of one signal's components behind a posterior whose waveform is a `Classes`.

Given K, every slot k has its class probabilities q(c_k | x), and under a choice of all classes a joint fit and a flow:

.. math:: q(Θ, c_1, \dots, c_K \mid K, x) = \prod_k q(c_k \mid x)\, q_{c_k}(θ_k \mid x, c_1, \dots, c_K) .

From it follow the numbers of each class, q(n | K, x), and draws given them. The density of a labelled tuple is the sum
over all choices and over all orders of the slots, divided by K!; a component and a slot of different classes exclude
each other. Draws outside the prior's amplitudes, shapes and band
are drawn again.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.network.family.coordinates import from_coordinates, log_volume, to_coordinates
from slotflow.network.family.record import ClassMap
from slotflow.network.family.slot_choices import NEGLIGIBLE, Choices, Signal
from slotflow.network.family.slots import Finished
from slotflow.network.multiclass.counts import count_tables
from slotflow.network.multiclass.mixed import MixedSlots
from slotflow.posterior.tuples import log_permanent
from slotflow.signal.waveforms import Classes

__all__ = ["FamilySlots"]

REDRAWS = 50
"""Times that draws outside the prior are drawn again; what is outside then is kept as it is."""
MASS_DRAWS = 1024
"""Draws from which the mass inside the prior is estimated."""


class FamilySlots(MixedSlots):
    """Slots of one signal.

    Args:
        signal: The signal, its pass and its record.
        k_probs: q(K | x), (k_max + 1,).
    """

    def __init__(self, signal: Signal, k_probs: Array) -> None:
        prior = signal.prior
        assert isinstance(prior.waveform, Classes)
        waveform = prior.waveform.on(signal.record.start, signal.record.reference)
        tables = count_tables(0, len(k_probs) - 1, len(signal.record.maps)).numpy()
        self.signal = signal
        super().__init__(tables, self._table_probs(tables, k_probs), {}, waveform)

    def _table_probs(self, tables: NDArray[np.int64], k_probs: Array) -> Array:
        """q(n | x), (R,)."""
        own = [one.kind for one in self.signal.record.maps]
        found = np.zeros(len(tables))
        for k in np.flatnonzero(k_probs > NEGLIGIBLE):
            kinds, shares = self.signal.choices(int(k))
            numbers = np.stack([(kinds == kind).sum(1) for kind in own], 1)
            for row, p in zip(numbers, shares, strict=True):
                found[(tables == row).all(1)] += k_probs[k] * p
        probs: Array = found / found.sum()
        return probs

    def draw_classes(self, numbers: NDArray[np.int64], seed: int) -> dict[str, Array]:
        """Components given their numbers, (n, C): (n, largest K_c, P_c) by class, NaN beyond a draw's components."""
        maps, names = self.signal.record.maps, self.waveform.class_names
        generator = torch.Generator(device=self._device).manual_seed(seed)
        rng = np.random.default_rng(seed)
        found = {
            name: np.full(
                (len(numbers), int(numbers[:, i].max(initial=0)), one.member.size), np.nan
            )
            for i, (name, one) in enumerate(zip(names, maps, strict=True))
        }
        for row in np.unique(numbers, axis=0):
            draws = np.flatnonzero((numbers == row).all(1))
            kinds, probs = self._choices_of(row)
            picked = rng.choice(len(kinds), len(draws), p=probs)
            for choice in np.unique(picked):
                own = draws[picked == choice]
                columns = self._drawn(kinds[choice], len(own), generator)
                for name, one in zip(names, maps, strict=True):
                    slots = np.flatnonzero(kinds[choice] == one.kind)
                    for place, slot in enumerate(slots):
                        found[name][own, place] = columns[slot]
        return found

    def _choices_of(self, numbers: NDArray[np.int64]) -> Choices:
        """Choices with given numbers of each class, (C,); one of them at least."""
        k = int(numbers.sum())
        kinds, probs = self.signal.choices(k)
        own = [one.kind for one in self.signal.record.maps]
        same = np.stack([(kinds == kind).sum(1) for kind in own], 1)
        chosen = (same == numbers).all(1)
        if not chosen.any():  # too rare to be kept: the slots in their order
            return Choices(np.repeat(own, numbers)[None], np.ones(1))
        return Choices(kinds[chosen], probs[chosen] / probs[chosen].sum())

    @torch.inference_mode()
    def _drawn(self, kinds: NDArray[np.int64], n: int, generator: torch.Generator) -> list[Array]:
        """N draws of θ of each slot under a choice of classes, (n, P_c) each."""
        slots = self.signal.slots(kinds)
        found = []
        for slot, kind in enumerate(kinds):
            theta = self._theta(slots, slot, self._map(kind), self._z(slots, slot, n, generator))
            for _ in range(REDRAWS):
                outside = np.flatnonzero(~self._inside(self._map(kind), theta))
                if not len(outside):
                    break
                z = self._z(slots, slot, len(outside), generator)
                theta[outside] = self._theta(slots, slot, self._map(kind), z)
            found.append(theta)
        return found

    @torch.inference_mode()
    def _z(self, slots: Finished, slot: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of a slot's coordinates, (n, Z_c)."""
        kind = int(slots.fit.slots.kind[0, slot])
        flow = self.signal.parts.flow(kind)
        return flow.draw(flow.project(slots.y[0, slot : slot + 1]), n, generator).squeeze(1)

    @torch.inference_mode()
    def _theta(self, slots: Finished, slot: int, one: ClassMap, z: Tensor) -> Array:
        """The user's parameters, (n, P_c), of coordinates of a slot, (n, Z_c)."""
        units = self.signal.parts.units
        mine = _slot(slots, slot)
        wide = torch.zeros(len(z), 1, 1, units.coordinates, dtype=torch.float64, device=z.device)
        wide[:, 0, 0, : z.shape[-1]] = z
        raw, c = from_coordinates(units, mine, wide)
        xi = units.values(raw)[:, 0, 0][:, units.own[one.kind]].cpu().numpy()
        return one.theta(xi, c[:, 0, 0].cpu().numpy(), self.signal.record.reference)

    def _inside(self, one: ClassMap, theta: Array) -> NDArray[np.bool_]:
        """Whether amplitude, place and shapes are in the prior's ranges, (n, P_c) to (n,)."""
        prior = self.signal.prior
        inside = np.ones(len(theta), dtype=np.bool_)
        place, amplitude = one.member.place_of(theta), one.member.of(theta, "amplitude")
        for value, (low, high) in ((place, prior.frequency), (amplitude, prior.amplitude)):
            inside &= (value >= low) & (value <= high)
        for name, law in one.member.ranges.items():
            value = one.member.of(theta, name)
            inside = inside & (value >= law.low) & (value <= law.high)
        return inside

    def _map(self, kind: int) -> ClassMap:
        """The map of a class of the network."""
        return next(one for one in self.signal.record.maps if one.kind == kind)

    @property
    def _device(self) -> torch.device:
        return self.signal.answer.logits.device

    def joint_log_prob(self, theta: Array) -> Array:
        """Log density of labelled tuples given K, (n, k, P) to (n,)."""
        n, k = theta.shape[:2]
        kinds, probs = self.signal.choices(k)
        class_of = self.waveform.class_of(theta).astype(int)  # the user's numbers
        own_kinds = np.array([one.kind for one in self.signal.record.maps])
        rows = []
        for choice, p in zip(kinds, probs, strict=True):
            matrix = np.full((n, k, k), -math.inf)  # slot, component
            for slot, kind in enumerate(choice):
                i = int(np.flatnonzero(own_kinds == kind)[0])
                draws, components = np.nonzero(class_of == i)
                own = self.waveform.members_theta(i, theta[draws, components])
                matrix[draws, slot, components] = self._log_prob(choice, slot, own)
            log_p = np.full(n, -math.inf)
            possible = (np.sort(own_kinds[class_of], 1) == np.sort(choice)).all(1)
            if possible.any():
                log_p[possible] = log_permanent(matrix[possible]) if k else 0.0
            rows.append(log_p + math.log(p))
        total: Array = log_sum_exp(np.stack(rows), 0) - math.lgamma(k + 1)
        return total

    @torch.inference_mode()
    def _log_prob(self, kinds: NDArray[np.int64], slot: int, theta: Array) -> Array:
        """Log density of a slot's component, (n, P_c) to (n,), per unit of the user's parameters."""
        if not len(theta):
            return np.zeros(0)
        slots, one = self.signal.slots(kinds), self._map(int(kinds[slot]))
        units, reference = self.signal.parts.units, self.signal.record.reference
        user, c = one.member.split(theta, reference)
        xi, c = one.to_network(user, c[..., 0])
        columns = units.own[one.kind][: len(one.member.shape)]
        wide = torch.ones(len(xi), units.shapes, dtype=torch.float64, device=self._device)
        wide[:, columns] = torch.from_numpy(xi).to(self._device)
        raw = units.raw(wide)[:, None, None]
        mine = _slot(slots, slot)
        z = to_coordinates(units, mine, raw, torch.from_numpy(c).to(self._device)[:, None, None])
        flow = self.signal.parts.flow(one.kind)
        size = units.sizes[one.kind]
        log_q = flow.log_prob(flow.project(mine.y[0]), z[:, 0, :, :size].float())[:, 0]
        log_q = log_q.double() - log_volume(mine)[0, 0]
        positive = units.positive[columns]
        log_q = log_q - torch.where(positive, wide[:, columns].log(), 0.0).sum(-1)
        jacobian = np.linalg.slogdet(one.member.inverse_jacobian(theta, reference))[1]
        scale = -np.linalg.slogdet(one.matrix)[1] - 2 * (xi @ one.log_slope + one.log_offset).real
        drawn = self._z(
            slots, slot, MASS_DRAWS, torch.Generator(device=self._device).manual_seed(0)
        )
        mass = self._inside(one, self._theta(slots, slot, one, drawn)).mean()
        log_p = log_q.cpu().numpy() + jacobian + scale - math.log(max(mass, 1 / MASS_DRAWS))
        return np.where(self._inside(one, theta), log_p, -math.inf)

    @torch.inference_mode()
    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the constraints, under the most probable classes."""
        if not k:
            return 0.0
        kinds = self.signal.choices(k).kinds[0]
        slots, generator = self.signal.slots(kinds), torch.Generator(device=self._device)
        generator.manual_seed(0)
        shares = []
        for slot, kind in enumerate(kinds):
            one = self._map(int(kind))
            theta = self._theta(slots, slot, one, self._z(slots, slot, MASS_DRAWS, generator))
            shares.append(1 - self._inside(one, theta).mean())
        return float(np.mean(shares))


def _slot(slots: Finished, slot: int) -> Finished:
    """One slot of one signal, with the axes of a batch."""
    own = slots.fit.slots
    one = own._replace(
        raw=own.raw[:, slot : slot + 1],
        kind=own.kind[:, slot : slot + 1],
        c=own.c[:, slot : slot + 1],
        mask=own.mask[:, slot : slot + 1],
    )
    return slots._replace(
        fit=slots.fit._replace(slots=one),
        factor=slots.factor[:, slot : slot + 1],
        y=slots.y[:, slot : slot + 1],
    )
