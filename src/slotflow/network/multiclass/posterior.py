r"""The answer for several classes: how many components of each kind, and where they are.

.. math:: q(n, Θ \mid x) = q(n \mid x) \prod_c \prod_{k=1}^{K_c} q_c(θ_{ck} \mid x, k)

given the numbers n = (K_1, …, K_C). Slots are independent of each other given n, as in the paper.

It is a `Posterior` whose waveform is a `Classes`: draws have the columns of all classes and the class itself. What it
knows beyond that is q(n | x) in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.data.observation import Observation
from slotflow.network.multiclass.mixed import MixedSlots
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["ClassDraws", "ClassPosterior"]


@dataclass(frozen=True, eq=False)
class ClassDraws:
    """Draws of mixtures of C classes."""

    counts: NDArray[np.int64]
    """Components of each class in each draw, (n, C)."""
    theta: Mapping[str, Array]
    """θ of each class by its name, (n, largest K_c, P_c); NaN beyond the components that a draw has."""


class ClassPosterior(Posterior):
    """Posterior over the numbers of components of each class and their parameters.

    Args:
        mixed: q(n | x) and the densities of each class's components.
        observation: The data behind it.
        noise_std: Estimate of σ.
        method: Where the posterior comes from.
        prior: The prior it was found under.
    """

    def __init__(
        self,
        mixed: MixedSlots,
        observation: Observation,
        noise_std: float,
        method: str,
        prior: Prior | None = None,
    ) -> None:
        k_probs = np.bincount(mixed.tables.sum(1), mixed.probs)
        super().__init__(k_probs, mixed, observation, noise_std, None, method=method, prior=prior)
        self.mixed = mixed
        self.waveform = mixed.waveform
        self.classes = mixed.waveform.class_names

    def __repr__(self) -> str:
        words = ", ".join(f"{k} {name}" for name, k in self.most_probable.items())
        return f"ClassPosterior({self.method}, {words}, p={self.mixed.probs.max():.3f})"

    @property
    def count_table(self) -> tuple[NDArray[np.int64], Array]:
        """Every n, (R, C), and q(n | x), (R,)."""
        return self.mixed.tables, self.mixed.probs

    @property
    def most_probable(self) -> dict[str, int]:
        """The most probable numbers of components, by class."""
        return self.how_many(1)[0][0]

    def how_many(self, top: int = 5) -> list[tuple[dict[str, int], float]]:
        """The most probable numbers of components of each kind, with their probabilities, in falling order."""
        tables, probs = self.count_table
        order = np.argsort(-probs, kind="stable")[:top]
        named = [dict(zip(self.classes, tables[i].tolist(), strict=True)) for i in order]
        return list(zip(named, probs[order].tolist(), strict=True))

    def count_probs(self, name: str) -> Array:
        """q(K_c | x), the number of components of one class, (k_max + 1,), index = K_c."""
        self._check_class(name)
        tables, probs = self.count_table
        column = tables[:, self.classes.index(name)]
        found: Array = np.bincount(column, probs, self.k_max + 1).astype(np.float64)
        return found

    def sample_classes(
        self, n: int, seed: int = 0, counts: Mapping[str, int] | None = None
    ) -> ClassDraws:
        """Draws of the joint posterior class by class, or of the components given their numbers.

        Args:
            n: Number of draws.
            seed: Their seed.
            counts: Numbers of each class, 0 for those that are not named; None draws them from q(n | x).
        """
        if n < 1:
            raise ValueError(f"sample_classes expects n >= 1 draws, received {n}.")
        seed, (tables, probs) = stream_seed(seed, RandomStream.POSTERIOR_DRAWS), self.count_table
        if counts is None:
            numbers = tables[np.random.default_rng(seed).choice(len(probs), n, p=probs)]
        else:
            numbers = np.tile(tables[self._row(counts)], (n, 1))
        return ClassDraws(numbers, self.mixed.draw_classes(numbers, seed))

    def refine(self, **options: Any) -> Posterior:
        """Refused: the exact step that begins from a network's answer knows tones alone."""
        raise ValueError(
            f"expected a posterior of tones to refine, received {self.method!r} of {', '.join(self.classes)}, which no "
            "exact step begins from; the default model answers exactly: infer(observation, prior=Prior(classes=...))."
        )

    def _check_class(self, name: str) -> None:
        """Refuses a class that the model does not know."""
        if name not in self.classes:
            raise ValueError(f"expected a class of {self.classes}, received {name!r}.")

    def _row(self, counts: Mapping[str, int]) -> int:
        """The row of the tables that holds numbers of components."""
        for name in counts:
            self._check_class(name)
        tables = self.mixed.tables
        found = np.flatnonzero((tables == [counts.get(name, 0) for name in self.classes]).all(1))
        if not len(found):
            k = tables.sum(1)
            raise ValueError(
                f"expected numbers of components that sum to {k.min()}..{k.max()}, which the model was trained on, "
                f"received {dict(counts)}."
            )
        return int(found[0])
