r"""Where rows of components are drawn from: Gaussians around maxima, and further components beside the others.

**Births.** A weak component may be in many places, each of which is a maximum of its own, and several weak ones at
once. The new ones are drawn from their laws (`newcomers`), each for itself; the others from the Gaussian of a maximum
without them, moved by what they give way, u ~ N(û + Σ δ_j, C). All are put in their places among those of their
class, so that at a sorted row

.. math:: q(z) = \sum_{S} q_{others}(z_{\setminus S} \mid z_S) \prod_c n_c! \prod_{j ∈ S} q_{new}(z_j) ,

the sum running over all sets S with n_c components of each class. Others that are not sorted make a row that the target
excludes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.newcomers import Newcomer
from slotflow.exact.family.search import Mode
from slotflow.exact.family.straight import StraightGaussian

__all__ = ["Births", "gaussian_at"]

FAR = 100.0
"""Standard deviations of a place beyond which a Gaussian has no density."""


def gaussian_at(mode: Mode, widen: float = 1.0) -> StraightGaussian:
    """The Gaussian around a maximum, its standard deviations widened by a factor."""
    around = mode.around
    return StraightGaussian(around.straight, around.mean, around.covariance, widen)


class Births:
    """The components of a maximum, and further ones.

    Args:
        others: The maximum.
        new: The number of the class and the law of each further component; those of one class have one law.
    """

    def __init__(self, others: Mode, new: Sequence[tuple[int, Newcomer]]) -> None:
        self.others = gaussian_at(others)
        self.layout = others.target.layout
        self.laws = dict(new)
        columns = [
            c for c, member, d in self.layout.shape_columns() if member.shape[d] == member.place
        ]
        self._places = columns, np.sqrt(np.diag(others.around.covariance)[columns])
        self.numbers = {i: sum(j == i for j, _ in new) for i in self.laws}

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, d)."""
        new = {
            i: [law.sample(n, rng) for _ in range(self.numbers[i])] for i, law in self.laws.items()
        }
        moved = sum(given_way for every in new.values() for _, given_way in every)
        parts = self.layout.parts(self.others.sample(n, rng, moved))
        for i, every in new.items():
            parts[i] = self._joined(i, parts[i], np.stack([one for one, _ in every], 1))
        return _rows(parts)

    def _joined(self, i: int, old: Array, new: Array) -> Array:
        """Components of a class, (n, K_c, Z), with new ones in their places; unsorted ones stay as they are."""
        member = self.layout.members[i]
        joined = np.concatenate([old, new], 1)
        order = np.argsort(member.place_in_z(joined), axis=1)
        unsorted = ~(np.diff(member.place_in_z(old), axis=1) > 0).all(1)
        order[unsorted] = np.arange(joined.shape[1])
        return np.take_along_axis(joined, order[..., None], 1)

    def log_prob(self, z: Array) -> Array:
        """Log density at sorted rows, (n, d); shape (n,)."""
        parts = self._parts(z)
        alone = {
            i: [law.density(parts[i][:, j]) for j in range(parts[i].shape[1])]
            for i, law in self.laws.items()
        }
        choices = [combinations(range(parts[i].shape[1]), self.numbers[i]) for i in self.laws]
        ways = sum(math.lgamma(n + 1) for n in self.numbers.values())
        terms = []
        for chosen in product(*choices):
            new = [alone[i][j] for i, picked in zip(self.laws, chosen, strict=True) for j in picked]
            rest = list(parts)
            for i, picked in zip(self.laws, chosen, strict=True):
                rest[i] = np.delete(parts[i], picked, axis=1)
            u, log_det = self.others.straight.to(_rows(rest))
            moved: Array = np.sum([one for _, one in new], axis=0)
            near = np.flatnonzero(self._near(u - moved))
            term = np.full(len(z), -np.inf)
            term[near] = self.others.gaussian.log_prob_flat(u[near], moved[near])
            term[near] += log_det[near] + ways
            terms.append(term + np.sum([one for one, _ in new], axis=0))
        total: Array = log_sum_exp(np.stack(terms), axis=0)
        return total

    def _near(self, u: Array) -> NDArray[np.bool_]:
        """Whether all places of the others, of u less what they give way, (n, d), are where there is any density, (n,).

        The place itself does not tell: that of a component which gives way altogether is known as little as its
        amplitude is small.
        """
        places, sd = self._places
        return np.asarray((np.abs(u - self.others.gaussian.mean)[:, places] < FAR * sd).all(-1))

    def _parts(self, z: Array) -> list[Array]:
        """Coordinates of each class, (n, K_c, Z_c), of rows with the new ones."""
        found, first = [], 0
        for i, (count, member) in enumerate(
            zip(self.layout.counts, self.layout.members, strict=True)
        ):
            k = count + self.numbers.get(i, 0)
            last = first + k * member.coordinates
            found.append(z[:, first:last].reshape(len(z), k, member.coordinates))
            first = last
        return found


def _rows(parts: Sequence[Array]) -> Array:
    """Rows, (n, d), of the coordinates of each class, (n, K_c, Z_c); there may be none."""
    return np.concatenate(
        [part.reshape(len(part), part.shape[1] * part.shape[2]) for part in parts], -1
    )
