"""The posterior p(K, Θ | x): probabilities of K, draws, densities, tables, files and pictures.

The class is a front: densities of tuples are in `tuples`, labels of components in `alignment`, tables in `summaries`
and `export`, upper limits in `limits`, files in `posterior_file` and `loaded`, pictures in `plots/`, pages in `report`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.core.later import later
from slotflow.data.observation import Observation
from slotflow.posterior.summaries import PARAMETERS, correlation, summary
from slotflow.posterior.tuples import CentredSlots, JointSlots, Slots, log_permanent
from slotflow.signal.prior import Prior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from slotflow.posterior.alignment import Alignment
    from slotflow.posterior.birth import BirthProposal
    from slotflow.posterior.limits import UpperLimit
    from slotflow.posterior.loaded import LoadedPosterior
    from slotflow.posterior.verdict import Verdict

__all__ = ["PARAMETERS", "CentredSlots", "JointSlots", "Posterior", "Slots", "log_permanent"]


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
    def has_data(self) -> bool:
        """Whether `observation` is there; it may be missing from a file."""
        return True

    @property
    def unit(self) -> str:
        """Unit of the data, empty if unknown."""
        return self.observation.long.unit

    @property
    def t_ref(self) -> float:
        """The instant on the data's clock that phases refer to, in seconds."""
        return self.observation.t_ref

    @property
    def resolution(self) -> float:
        """1/T of the long stream in Hz; 0 if it is not known."""
        return 1 / self.observation.long.duration

    @property
    def filled_samples(self) -> int:
        """How many samples of the data were no measurements."""
        return sum(b - a + 1 for s in self.observation.channels for a, b in s.filled)

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted: of an amortized one, "approximate"."""
        from slotflow.posterior.verdict import judge

        return judge((), refined=False)

    def refine(
        self,
        *,
        prior: Prior | None = None,
        draws: int = 2000,
        seed: int = 0,
        max_seconds: float = 10.0,
    ) -> Posterior:
        """The exact posterior that this one approximates, with evidence, effective sample size and a verdict.

        `model.infer` does it already unless it is told `refine=False`.

        Args:
            prior: The prior to answer under; None: the one that this posterior was found under.
            draws: Weighted draws of each K, at least 100.
            seed: Of everything random.
            max_seconds: Time budget; no further K is begun after it, and the verdict says so.
        """
        refined: Posterior = later("refine")(
            self, prior=prior, draws=draws, seed=seed, max_seconds=max_seconds
        )
        return refined

    def as_eryn_proposal(self, k: int | None = None, n: int = 2000, seed: int = 0) -> BirthProposal:
        """A proposal of single components with `rvs` and `logpdf`, for Eryn's reversible-jump moves.

        Args:
            k: Number of components to propose from; k_map if None.
            n: Draws behind it.
            seed: Of the draws.
        """
        from slotflow.posterior.birth import BirthProposal

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
        """One row per component given K: existence, median, sd, 5 % and 95 % of each parameter, and the verdict.

        `existence` is the probability that the component is there, whatever K is (`alignment.py`). The verdict's word
        is a column, its reason is in `attrs["verdict"]`; `attrs["upper_limit"]` has the limits on amplitude where
        K = 0 is likely. Phases are summarized around their circular mean; their 5 % point may exceed the 95 % one
        where the interval crosses 0.

        Args:
            k: Number of components; k_map if None.
            n: Draws to summarize.
            seed: Seed of the draws.
        """
        if n < 1:
            raise ValueError(f"summary expects n >= 1 draws, received {n}.")
        return summary(self, self._k(k), n, seed)

    def aligned(self, n: int = 2000, seed: int = 0) -> Alignment:
        """Joint draws over all K whose columns are components, the same in all draws, with their existence."""
        from slotflow.posterior.alignment import align

        return align(*self.sample_joint(n, seed), self.k_probs, self.resolution)

    def upper_limit(
        self, frequency: ArrayLike | None = None, credibility: float = 0.95
    ) -> UpperLimit | None:
        """The largest credible amplitude of a lone tone at each frequency; None unless p(K = 0 | x) > 0.1.

        Args:
            frequency: In Hz, (m,); by default four per bin over the prior's band.
            credibility: Probability of a smaller amplitude.
        """
        from slotflow.posterior.limits import upper_limit

        return upper_limit(self, frequency, credibility)

    def residual(self) -> list[NDArray[np.float64]]:
        """Each stream's data minus the best draw of the most probable K, over the stream's noise ratio, (N_s,)."""
        from slotflow.posterior.residual import best_draw, residual

        return residual(self, best_draw(self))

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
        return correlation(self.sample(n, k, seed), self.resolution)

    def plot(
        self, kind: str = "overview", path: str | Path | None = None, **options: Any
    ) -> Figure:
        """A picture: overview, data, spectrum, k, components, corner, residual or correlation.

        Args:
            kind: Which one.
            path: File to write it to as well: .png, .svg or .pdf.
            **options: Of that picture (`plots/`), such as `truth=`, `band=`, `component=` or `other=`.
        """
        figure: Figure = later("plot")(self, kind, path, **options)
        return figure

    def report(self, path: str | Path, **options: Any) -> None:
        """Writes a page of HTML that needs no other file: verdict, tables, pictures, tests, prior, data.

        Args:
            path: File to write: .html or .htm.
            **options: `source`, `settings`, `warnings` and `seed` of `slotflow.show.report.report.write_report`.
        """
        later("report")(self, path, **options)

    def to_dataframe(self, n: int = 1000, seed: int = 0) -> pd.DataFrame:
        """One row per draw and component of joint draws, with the component's label and existence."""
        from slotflow.posterior.export import to_dataframe

        return to_dataframe(self, n, seed)

    def to_catalogue(
        self, path: str | Path | None = None, n: int = 4000, seed: int = 0
    ) -> pd.DataFrame:
        """One row per component over all K: existence, medians, intervals, covariance; to .csv or .parquet as well."""
        from slotflow.posterior.export import to_catalogue

        return to_catalogue(self, path, n, seed)

    def to_arviz(self, n: int = 1000, seed: int = 0) -> Any:
        """ArviZ's InferenceData (before 1.0) or DataTree of joint draws, NaN where a draw lacks a component."""
        from slotflow.posterior.export import to_arviz

        return to_arviz(self, n, seed)

    def to_eryn(self, n: int = 1000, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Joint draws as Eryn keeps them: coords (n, K_max, 3), inds (n, K_max), nleaves (n,)."""
        from slotflow.posterior.export import to_eryn

        return to_eryn(self, n, seed)

    def to_dataset(self, n: int = 1000, seed: int = 0) -> xr.Dataset:
        """Equally weighted joint draws, p(K | x), data and verdict as an xarray Dataset with units."""
        from slotflow.posterior.file import dataset

        return dataset(self, n, seed)

    def extra_variables(self, n: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Further variables and attributes of `to_dataset`."""
        return {}, {}

    def save(self, path: str | Path, n: int = 1000, seed: int = 0) -> None:
        """Writes `to_dataset` to a NetCDF file, whole or not at all."""
        from slotflow.posterior.file import write

        write(self, path, n, seed)

    @staticmethod
    def load(path: str | Path) -> LoadedPosterior:
        """Reads what `save` wrote, of any method and version; no weights are needed, nothing is executed."""
        from slotflow.posterior.loaded import load

        return load(path)

    def _k(self, k: int | None) -> int:
        if k is None:
            return self.k_map
        if k not in range(self.k_max + 1):
            raise ValueError(
                f"expected a whole number of components in 0..{self.k_max}, received {k!r}."
            )
        return int(k)
