r"""The posterior p(K, Θ | x): probabilities of K, draws, densities, summaries, files.

Given K, slot k has a density q_k(θ) of its own and the draws of different slots are independent (paper, eq. 9). As a
statement about labelled tuples it is symmetrized over the K! ways to assign components to slots (theorem 4.1):

.. math::
    q(\theta_1, \dots, \theta_K, K \mid x)
    = q(K \mid x) \, \frac{1}{K!} \sum_{\pi \in S_K} \prod_k q_{\pi(k)}(\theta_k) ,

a matrix permanent. All its terms are positive, so the recursion over subsets, P(S ∪ {i}) += P(S) q_i(θ_{|S|+1}), is
stable in logarithms and costs K 2^K instead of K!.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.priors import Prior
from slotflow.streams import Observation
from slotflow.summaries import PARAMETERS, correlation, dataset, summarize

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from slotflow.exact.birth import BirthProposal
    from slotflow.exact.refine import RefinedPosterior
    from slotflow.exact.verdict import Verdict

__all__ = ["PARAMETERS", "CentredSlots", "JointSlots", "Posterior", "Slots", "log_permanent"]


class Slots(Protocol):
    """The per-slot densities behind a Posterior."""

    k_max: int

    def sample(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Draws, (n, k, 3)."""

    def log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of component j under slot i, (n, k, 3) to (n, k, k), index (draw, i, j)."""

    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the constraints."""


@runtime_checkable
class CentredSlots(Slots, Protocol):
    """Densities that know their components' places without a draw."""

    def centres(self, k: int) -> NDArray[np.float64]:
        """Best estimate of k components, (k, 3)."""


@runtime_checkable
class JointSlots(Slots, Protocol):
    """Densities of components that are not independent of each other."""

    def joint_log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of labelled tuples given K, (n, k, 3) to (n,)."""


class Posterior:
    """Posterior over the number of components and their parameters.

    Args:
        k_probs: q(K | x), (K_max + 1,), index = K.
        slots: Densities of the components.
        observation: The data behind it.
        noise_std: Estimate of σ.
        noise_std_error: Its standard error, where there is one.
        method: Where the posterior comes from.
        prior: The prior it was found under, where it is known.
    """

    def __init__(
        self,
        k_probs: ArrayLike,
        slots: Slots,
        observation: Observation,
        noise_std: float,
        noise_std_error: float | None,
        method: str,
        prior: Prior | None = None,
    ) -> None:
        self.k_probs: NDArray[np.float64] = np.asarray(k_probs, dtype=np.float64)
        self.slots = slots
        self.observation = observation
        self.noise_std = noise_std
        self.noise_std_error = noise_std_error
        self.method = method
        self.prior = prior

    def __repr__(self) -> str:
        return f"Posterior({self.method}, k_map={self.k_map}, p={self.k_probs[self.k_map]:.3f})"

    @property
    def k_max(self) -> int:
        """Largest K."""
        return self.k_probs.size - 1

    @property
    def k_map(self) -> int:
        """Most probable K."""
        return int(self.k_probs.argmax())

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted: of an amortized one, "approximate"."""
        from slotflow.exact.verdict import judge

        return judge((), refined=False)

    def refine(
        self,
        *,
        prior: Prior | None = None,
        draws: int = 2000,
        seed: int = 0,
        max_seconds: float = 10.0,
    ) -> RefinedPosterior:
        """The exact posterior that this one approximates, with evidence, effective sample size and a verdict.

        `model.infer` does it already unless it is told `refine=False`.

        Args:
            prior: The prior to answer under; None: the one that this posterior was found under.
            draws: Weighted draws of each K, at least 100.
            seed: Of everything random.
            max_seconds: Time budget; no further K is begun after it, and the verdict says so.
        """
        from slotflow.exact.refine import refine

        return refine(self, prior=prior, draws=draws, seed=seed, max_seconds=max_seconds)

    def as_eryn_proposal(self, k: int | None = None, n: int = 2000, seed: int = 0) -> BirthProposal:
        """A proposal of single components with `rvs` and `logpdf`, for Eryn's reversible-jump moves.

        Args:
            k: Number of components to propose from; k_map if None.
            n: Draws behind it.
            seed: Of the draws.
        """
        from slotflow.exact.birth import BirthProposal

        if self.prior is None:
            raise ValueError(f"the posterior by {self.method!r} does not know its prior; give one.")
        return BirthProposal(self.sample(n, k, seed), self.prior, seed=seed)

    def sample(self, n: int, k: int | None = None, seed: int = 0) -> NDArray[np.float64]:
        """Draws Θ given K.

        Args:
            n: Number of draws.
            k: Number of components; k_map if None.
            seed: The same seed gives the same draws.

        Returns:
            (A, φ in [0, 2π), f in Hz), (n, k, 3); column i belongs to slot i.
        """
        if n != int(n) or n < 0:
            raise ValueError(f"sample expects a whole number n >= 0 of draws, received {n}.")
        return self.slots.sample(n, self._k(k), seed)

    def sample_joint(self, n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Draws (K, Θ).

        Returns:
            (A, φ, f), (n, K_max, 3), NaN where a draw has no such component, and K of each draw, (n,).
        """
        plan = self._plan(n, seed)
        theta = np.full((n, self.k_max, 3), np.nan)
        counts = np.zeros(n, dtype=np.int64)
        for k, rows, k_seed in plan:
            theta[rows, :k], counts[rows] = self.slots.sample(rows.size, k, k_seed), k
        return theta, counts

    def _plan(self, n: int, seed: int) -> list[tuple[int, NDArray[np.int64], int]]:
        """Which of n joint draws have K components, and the seed of their Θ: (K, rows, seed) for each K."""
        if n != int(n) or n < 0:
            raise ValueError(f"sample_joint expects a whole number n >= 0 of draws, received {n}.")
        rng = np.random.default_rng(seed)
        counts = rng.choice(self.k_probs.size, size=n, p=self.k_probs / self.k_probs.sum())
        plan = [(int(k), np.flatnonzero(counts == k)) for k in np.unique(counts)]
        return [(k, rows, int(rng.integers(2**31))) for k, rows in plan]

    def log_prob(self, theta: ArrayLike) -> NDArray[np.float64] | float:
        """Log q(K, Θ | x) of labelled tuples per unit of (A, rad, Hz), symmetrized over slots.

        Args:
            theta: (A, φ, f), (k, 3) or (n, k, 3); φ is taken modulo 2π. k = 0 is an empty tuple.

        Returns:
            A float or (n,); −inf outside the constraints.
        """
        array = np.asarray(theta, dtype=np.float64)
        if array.ndim not in (2, 3) or array.shape[-1] != 3:
            raise ValueError(
                f"log_prob expects theta as (k, 3) or (n, k, 3), received {array.shape}."
            )
        batch = array if array.ndim == 3 else array[None]
        k = self._k(batch.shape[1])
        if self.k_probs[k] == 0:
            total = np.full(len(batch), -np.inf)
        elif isinstance(self.slots, JointSlots):
            total = math.log(self.k_probs[k]) + self.slots.joint_log_prob(batch)
        else:
            log_q = math.log(self.k_probs[k]) - math.lgamma(k + 1)
            total = log_q + log_permanent(self.slots.log_prob(batch))
        return total if array.ndim == 3 else float(total[0])

    def constrained_fraction(self, k: int | None = None) -> float:
        """Share of the raw draws for k components that broke A > 0 or the band and was drawn again."""
        return self.slots.constrained_fraction(self._k(k))

    def summary(self, k: int | None = None, n: int = 2000, seed: int = 0) -> pd.DataFrame:
        """One row per component: median, sd, 5 % and 95 % of each parameter, and the verdict.

        The verdict's word is a column, its reason is in the table's `attrs["verdict"]`. Phases are summarized around
        their circular mean; their 5 % point may exceed the 95 % one where the interval crosses 0.

        Args:
            k: Number of components; k_map if None.
            n: Draws to summarize.
            seed: Seed of the draws.
        """
        if n < 1:
            raise ValueError(f"summary expects n >= 1 draws, received {n}.")
        return summarize(self.sample(n, k, seed), str(self.verdict))

    def correlation(
        self, k: int | None = None, n: int = 4000, seed: int = 0
    ) -> NDArray[np.float64]:
        """Posterior correlations of all parameters given K, components in the order of their frequencies.

        The slots of an amortized posterior are independent of each other; those of a refined one are not.

        Args:
            k: Number of components; k_map if None.
            n: Draws behind it: an entry has a standard error of about 1/√n.
            seed: Seed of the draws.

        Returns:
            (3k, 3k), rows and columns A₁, φ₁, f₁, A₂, …
        """
        if n < 2:
            raise ValueError(f"correlation expects n >= 2 draws, received {n}.")
        return correlation(self.sample(n, k, seed))

    def to_dataset(self, n: int = 1000, seed: int = 0) -> xr.Dataset:
        """Equally weighted joint draws, p(K | x) and the verdict as an xarray Dataset with units."""
        return dataset(self, n, seed)

    def extra_variables(self, n: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Further variables and attributes of `to_dataset`."""
        return {}, {}

    def save(self, path: str | Path, n: int = 1000, seed: int = 0) -> None:
        """Writes `to_dataset` to a NetCDF file, atomically."""
        from slotflow.io import atomic_path

        with atomic_path(path) as temporary:
            self.to_dataset(n, seed).to_netcdf(temporary, engine="h5netcdf")

    def _k(self, k: int | None) -> int:
        if k is None:
            return self.k_map
        if k not in range(self.k_max + 1):
            raise ValueError(
                f"expected a whole number of components in 0..{self.k_max}, received {k!r}."
            )
        return int(k)


def log_permanent(log_matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of Σ_π Π_j exp(M[π(j), j]) for matrices of log entries.

    Args:
        log_matrix: (n, k, k), −inf allowed.

    Returns:
        (n,).
    """
    n, k = log_matrix.shape[:2]
    subsets = np.arange(2**k)
    sizes = np.array([bin(s).count("1") for s in subsets])
    total = np.full((2**k, n), -np.inf)
    total[0] = 0.0
    for j in range(k):
        before = subsets[sizes == j]
        for i in range(k):
            free = before[(before >> i) & 1 == 0]
            after = free | (1 << i)
            total[after] = np.logaddexp(total[after], total[free] + log_matrix[:, i, j])
    result: NDArray[np.float64] = total[-1]
    return result
