r"""The answer for several classes: how many components of each kind, and where they are.

.. math:: q(n, Θ \mid x) = q(n \mid x) \prod_c \prod_{k=1}^{K_c} q_c(θ_{ck} \mid x, k)

given the numbers n = (K_1, …, K_C). Slots are independent of each other given n, as in the paper; as a statement about
labelled components the product of a class is symmetrized over the K_c! ways to assign its components to its slots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.seeds import RandomStream, spread_seed, stream_seed
from slotflow.data.observation import Observation
from slotflow.network.multiclass.densities import ClassSlotDensities
from slotflow.posterior.summaries import moments
from slotflow.posterior.tuples import log_permanent
from slotflow.signal.waveforms import Waveform

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassDraws", "ClassPosterior"]


@dataclass(frozen=True, eq=False)
class ClassDraws:
    """Draws of mixtures of C classes."""

    counts: NDArray[np.int64]
    """Components of each class in each draw, (n, C)."""
    theta: Mapping[str, Array]
    """θ of each class by its name, (n, largest K_c, P_c); NaN beyond the components that a draw has."""


class ClassPosterior:
    """Posterior over the numbers of components of each class and their parameters.

    Args:
        tables: Every n, (R, C).
        probs: q(n | x), (R,).
        slots: Densities of each class's components, by the name of the class.
        observation: The data behind it.
        method: Where the posterior comes from.
    """

    def __init__(
        self,
        tables: NDArray[np.int64],
        probs: Array,
        slots: Mapping[str, ClassSlotDensities],
        observation: Observation,
        method: str,
    ) -> None:
        self.tables, self.probs, self.slots = tables, probs, dict(slots)
        self.observation, self.method = observation, method
        self.classes = tuple(self.slots)

    def __repr__(self) -> str:
        words = ", ".join(f"{k} {name}" for name, k in self.most_probable.items())
        return f"ClassPosterior({self.method}, {words}, p={self.probs.max():.3f})"

    # ------------------------------------------------------------------ how many

    @property
    def most_probable(self) -> dict[str, int]:
        """The most probable numbers of components, by class."""
        return self._named(int(self.probs.argmax()))

    def how_many(self, top: int = 5) -> list[tuple[dict[str, int], float]]:
        """The most probable numbers of components of each kind, with their probabilities, in falling order."""
        order = np.argsort(-self.probs, kind="stable")[:top]
        return [(self._named(int(i)), float(self.probs[i])) for i in order]

    @property
    def k_probs(self) -> Array:
        """q(K | x), the number of components of any class, (k_max + 1,), index = K."""
        found: Array = np.bincount(self.tables.sum(1), self.probs).astype(np.float64)
        return found

    def count_probs(self, name: str) -> Array:
        """q(K_c | x), the number of components of one class, (k_max + 1,), index = K_c."""
        column = self.tables[:, self.classes.index(self._known(name))]
        found: Array = np.bincount(column, self.probs, len(self.k_probs)).astype(np.float64)
        return found

    # ------------------------------------------------------------------ where

    def waveform(self, name: str) -> Waveform:
        """The waveform of a class, which names the columns of its θ."""
        return self.slots[self._known(name)].target.waveform

    def sample(self, n: int, seed: int = 0, counts: Mapping[str, int] | None = None) -> ClassDraws:
        """Draws of the joint posterior, or of the components given their numbers.

        Args:
            n: Number of draws.
            seed: Their seed.
            counts: Numbers of each class, 0 for those that are not named; None draws them from q(n | x).
        """
        if n < 1:
            raise ValueError(f"sample expects n >= 1 draws, received {n}.")
        seed = stream_seed(seed, RandomStream.POSTERIOR_DRAWS)
        if counts is None:
            rng = np.random.default_rng(seed)
            numbers = self.tables[rng.choice(len(self.probs), n, p=self.probs)]
        else:
            numbers = np.tile(self.tables[self._row(counts)], (n, 1))
        theta = {}
        for i, (name, slots) in enumerate(self.slots.items()):
            k = int(numbers[:, i].max())
            drawn = slots.sample(n, k, spread_seed(seed + i) % 2**63)
            absent = np.arange(k) >= numbers[:, i, None]  # (n, k)
            theta[name] = np.where(absent[..., None], np.nan, drawn)
        return ClassDraws(numbers, theta)

    def log_prob(self, components: Mapping[str, Array]) -> float:
        """Log density of one mixture, per unit of its parameters.

        Args:
            components: θ of each class by its name, (K_c, P_c); a class without components may be left out.
        """
        counts = {name: len(theta) for name, theta in components.items()}
        with np.errstate(divide="ignore"):
            total = float(np.log(self.probs[self._row(counts)]))
        for name, theta in components.items():
            matrix = self.slots[name].log_prob(np.asarray(theta, dtype=np.float64)[None])
            total += float(log_permanent(matrix)[0]) - math.lgamma(len(theta) + 1)
        return total

    def summary(
        self, counts: Mapping[str, int] | None = None, n: int = 2000, seed: int = 0
    ) -> pd.DataFrame:
        """One row per component: class, existence, then median, sd, 5 % and 95 % of each parameter.

        The i-th component of a class, in the order of places, exists with the probability that the class has i or more.
        Parameters that a class lacks are NaN.

        Args:
            counts: Numbers of each class; the most probable ones if None.
            n: Draws to summarize.
            seed: Their seed.
        """
        import pandas as pd

        counts = self.most_probable if counts is None else counts
        draws = self.sample(n, seed, counts)
        frames = []
        for name, theta in draws.theta.items():
            if not theta.shape[1]:
                continue
            waveform, k = self.waveform(name), theta.shape[1]
            at_least = self.count_probs(name)[::-1].cumsum()[::-1]  # q(K_c >= i), index = i
            columns = {"class": [name] * k, "existence": at_least[1 : k + 1]}
            frames.append(pd.DataFrame(columns | moments(waveform.sorted(theta), waveform)))
        if not frames:
            return pd.DataFrame({"class": [], "existence": []})
        frame = pd.concat(frames, ignore_index=True)
        frame.index = pd.RangeIndex(1, len(frame) + 1, name="component")
        return frame

    # ------------------------------------------------------------------ helpers

    def _named(self, row: int) -> dict[str, int]:
        """A row of the tables by the names of the classes."""
        return dict(zip(self.classes, self.tables[row].tolist(), strict=True))

    def _known(self, name: str) -> str:
        """A name of a class, if it is one."""
        if name not in self.slots:
            raise ValueError(f"expected a class of {self.classes}, received {name!r}.")
        return name

    def _row(self, counts: Mapping[str, int]) -> int:
        """The row of the tables that holds numbers of components."""
        for name in counts:
            self._known(name)
        wanted = [counts.get(name, 0) for name in self.classes]
        found = np.flatnonzero((self.tables == wanted).all(1))
        if not len(found):
            k = self.tables.sum(1)
            raise ValueError(
                f"expected numbers of components that sum to {k.min()}..{k.max()}, which the model was trained on, "
                f"received {dict(counts)}."
            )
        return int(found[0])
