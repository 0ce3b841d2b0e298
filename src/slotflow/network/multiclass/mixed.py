r"""Components of several classes in one table: draws and densities behind a Posterior whose waveform is a `Classes`.

Given K, the numbers n = (K_1, …, K_C) of each class are drawn from q(n | K, x) and then each class's components from
its own slots. The density of a labelled tuple is that of the set it belongs to, divided by the K! orders of the set:

.. math:: q(θ_1, \dots, θ_K \mid K, x) = \frac{q(n \mid K, x)}{K!} \prod_c \sum_{π \in S_{K_c}} \prod_{k=1}^{K_c}
          q_c(θ_{cπ(k)} \mid x, k) ,

with one permanent for each class (`slotflow.posterior.tuples`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed
from slotflow.network.multiclass.densities import ClassSlotDensities
from slotflow.posterior.tuples import log_permanent
from slotflow.signal.waveforms import Classes

__all__ = ["MixedSlots"]


class MixedSlots:
    """Slots of several classes.

    Args:
        tables: Every n, (R, C).
        probs: q(n | x), (R,).
        slots: Densities of each class's components, by the name of the class.
        waveform: The classes, settled on the record, in the order of the slots.
    """

    def __init__(
        self,
        tables: NDArray[np.int64],
        probs: Array,
        slots: Mapping[str, ClassSlotDensities],
        waveform: Classes,
    ) -> None:
        self.tables, self.probs, self.classes, self.waveform = tables, probs, dict(slots), waveform
        self.k_max = int(tables.sum(1).max())

    def given_k(self, k: int) -> Array:
        """q(n | K, x), (R,); all zero if K is impossible."""
        chosen = np.where(self.tables.sum(1) == k, self.probs, 0.0)
        return chosen / (chosen.sum() or 1.0)

    def draw_classes(self, numbers: NDArray[np.int64], seed: int) -> dict[str, Array]:
        """Components given their numbers, (n, C): (n, largest K_c, P_c) by class, NaN beyond a draw's components."""
        found = {}
        for i, (name, slots) in enumerate(self.classes.items()):
            k = int(numbers[:, i].max(initial=0))
            drawn = slots.sample(len(numbers), k, spread_seed(seed + i) % 2**63)
            absent = np.arange(k) >= numbers[:, i, None]  # (n, k)
            found[name] = np.where(absent[..., None], np.nan, drawn)
        return found

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws of θ in the columns of all classes, (n, k, P), class after class."""
        if n == 0 or k == 0:
            return np.zeros((n, k, self.waveform.size))
        p = self.given_k(k)
        if not p.any():
            raise ValueError(f"expected a number of components that may be, received {k}.")
        rng = np.random.default_rng(seed)
        numbers = self.tables[rng.choice(len(p), n, p=p)]
        drawn = self.draw_classes(numbers, seed)
        rows = [self.waveform.own_theta(i, theta) for i, theta in enumerate(drawn.values())]
        every = np.concatenate(rows, 1)  # (n, Σ largest K_c, P), of which k of each draw are there
        there = np.isfinite(self.waveform.place_of(every))
        found: Array = every[there].reshape(n, k, -1)
        return found

    def joint_log_prob(self, theta: Array) -> Array:
        """Log density of labelled tuples given K, (n, k, P) to (n,)."""
        k = theta.shape[1]
        kind = self.waveform.class_of(theta)  # (n, k)
        numbers = np.stack([(kind == i).sum(1) for i in range(len(self.classes))], 1)
        row = (self.tables[None] == numbers[:, None]).all(-1)  # (n, R)
        with np.errstate(divide="ignore"):
            total: Array = np.log(row @ self.given_k(k)) - math.lgamma(k + 1)
        for i, slots in enumerate(self.classes.values()):
            for size in np.unique(numbers[:, i]):
                draws = np.flatnonzero(numbers[:, i] == size)
                if size:
                    own = self.waveform.members_theta(i, theta[draws][kind[draws] == i])
                    matrix = slots.log_prob(own.reshape(len(draws), size, -1))
                    total[draws] += log_permanent(matrix)
        return total

    def log_prob(self, theta: Array) -> Array:
        """Refused: the classes of slots depend on each other."""
        raise ValueError(
            "slots of several classes have no densities of their own; ask for joint_log_prob."
        )

    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the constraints, over the classes by how often they are drawn."""
        expected = self.given_k(k) @ self.tables  # components of each class
        if not expected.sum():
            return 0.0
        shares = [slots.constrained_fraction(k) for slots in self.classes.values()]
        return float(expected @ np.array(shares) / expected.sum())
