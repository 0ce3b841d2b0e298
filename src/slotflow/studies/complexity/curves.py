"""Loss against N for each K, as tables and pictures read it from what was put together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slotflow.studies.complexity.learners import LEARNERS, Learner
from slotflow.studies.complexity.least import Least, least_size
from slotflow.studies.frame.study import Data
from slotflow.studies.measures.means import mean_and_error

__all__ = ["Curve", "Curves", "curves_of"]


@dataclass(frozen=True)
class Curve:
    """Loss against N at one K."""

    sizes: list[int]
    """N, rising."""
    loss: list[float]
    """Means over seeds."""
    errors: list[float | None]
    """Their standard errors; None where there is one seed."""
    by_seed: list[list[float]]
    """The same of each seed."""

    def least(self, target: float) -> Least:
        """The least training set of the mean curve."""
        return least_size(self.sizes, self.loss, target)

    def least_error(self, target: float) -> float | None:
        """Standard error of the least N over seeds; None unless several seeds have one inside the range."""
        found = [least_size(self.sizes, losses, target) for losses in self.by_seed]
        inside = [one.size for one in found if one.size is not None and not one.at_most]
        if len(inside) < len(found) or len(inside) < 2:
            return None
        return mean_and_error(inside)[1]

    def rises(self) -> int:
        """How often the loss rises from one N to the next by more than two standard errors, or at all with one seed."""
        steps = np.diff(self.loss)
        errors = np.array([0.0 if error is None else error for error in self.errors])
        return int((steps > 2 * np.hypot(errors[1:], errors[:-1])).sum())


@dataclass(frozen=True)
class Curves:
    """All K of one network."""

    name: str
    """The network, with its measure if that is not the loss."""
    learner: Learner
    by_count: dict[int, Curve]
    """The curve of each K, rising."""
    facts: Data
    is_loss: bool = True
    """Whether this is the loss, which the paper's statements are about, and not the score."""

    @property
    def target(self) -> float:
        """What is to be reached: the network's loss, or a density above 1."""
        return self.learner.target if self.is_loss else 0.0

    def least(self) -> dict[int, Least]:
        """The least training set of each K."""
        return {k: curve.least(self.target) for k, curve in self.by_count.items()}


def curves_of(data: Data) -> list[Curves]:
    """Losses of all networks, and scores where they were measured."""
    found = []
    for name, facts in data.items():
        counts = facts["counts"].items()
        losses = {int(k): _curve(one, "loss") for k, one in counts}
        found.append(Curves(name, LEARNERS[name], losses, facts))
        if LEARNERS[name].scored:
            scores = {int(k): _curve(one, "score") for k, one in counts}
            found.append(Curves(f"{name}, score", LEARNERS[name], scores, facts, is_loss=False))
    return found


def _curve(one: Data, key: str) -> Curve:
    """One of the curves of a K."""
    means, errors = zip(*one[key], strict=True)
    by_seed = one["losses" if key == "loss" else "scores"]
    return Curve(one["sizes"], list(means), list(errors), by_seed)
