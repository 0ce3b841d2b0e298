"""The posterior p(K, Θ | x) as users hold it: a result with tables, files, pictures and exports as methods.

What it answers is in `facts` and `contract`; tables are in `summaries`, exports in `export`, files in `file` and
`loaded`, labels of components in `alignment`, upper limits in `limits`. Pictures and pages belong to the room `show`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.later import later
from slotflow.posterior.combinations import Combination, find_combinations
from slotflow.posterior.contract import Result
from slotflow.posterior.display import display_unit, epoch_of
from slotflow.posterior.summaries import (
    class_probs,
    correlation,
    in_unit,
    summary,
    with_combinations,
)
from slotflow.posterior.tuples import SampledSlots
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from slotflow.posterior.birth import BirthProposal

__all__ = ["Posterior"]

CLASS_DRAWS = 2000
"""Draws behind the probabilities of classes, those of a summary."""


class Posterior(Result):
    """Posterior over the number of components and their parameters.

    Args:
        k_probs: p(K | x), (K_max + 1,), index = K.
        slots: Densities of the components.
        observation: The data behind it.
        noise_std: Estimate of σ.
        noise_std_error: Its standard error, where there is one.
        method: Where the posterior comes from.
        prior: The prior it was found under, where it is known.
    """

    _amortized: Posterior | None = None
    """The network's answer behind a refined posterior."""

    def __repr__(self) -> str:
        return f"Posterior({self.method}, k_map={self.k_map}, p={self.k_probs[self.k_map]:.3f})"

    # ------------------------------------------------------------------ other posteriors

    @property
    def amortized(self) -> Posterior:
        """The network's answer that this one came from; for a network's answer, the answer itself.

        Samplers, the classical estimator, wide bands and files do not hold one, and refuse.
        """
        if self._amortized is not None:
            return self._amortized
        if isinstance(self.slots, SampledSlots) or self.window_rows:
            raise ValueError(
                f"the posterior by {self.method!r} does not hold a network's answer; ask the model for one: "
                "model.infer(observation, refine=False)."
            )
        return self

    def refine(
        self,
        *,
        prior: Prior | None = None,
        draws: int = 2000,
        seed: int = 0,
        max_seconds: float = 10.0,
        noise: NoiseModel | None = None,
    ) -> Posterior:
        """The exact posterior that this one approximates, with evidence, effective sample size and a verdict.

        `model.infer` does this already unless it is told `refine=False`.

        Args:
            prior: The prior to answer under; None: the one that this posterior was found under.
            draws: Weighted draws of each K, at least 100; a K below 5 % may have a quarter.
            seed: Of everything random.
            max_seconds: Time budget; no further K is begun after it, and the verdict says so.
            noise: White noise, with words that say why it was assumed; `model.infer` knows other noise.
        """
        self._data()
        if self.window_rows:
            raise ValueError(
                "expected a posterior of one window, received one of several: the exact step runs window by window; "
                "call model.infer on the whole band with refine=True."
            )
        refined: Posterior = later("refine")(
            self, prior=prior, draws=draws, seed=seed, max_seconds=max_seconds, noise=noise
        )
        if prior is None:
            refined.assumed = self.assumed
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
            raise ValueError(
                f"the posterior by {self.method!r} does not know its prior; set post.prior first."
            )
        draws = self.sample(n, k, seed)
        return BirthProposal(draws, self.prior, seed=seed, waveform=self.waveform)

    @staticmethod
    def load(path: str | Path) -> Posterior:
        """Reads what `save` wrote, by any method and version; no weights are needed, nothing is executed."""
        found: Posterior = later("load_posterior")(path)
        return found

    # ------------------------------------------------------------------ tables

    def summary(
        self,
        k: int | None = None,
        n: int = 2000,
        seed: int = 0,
        *,
        frequency_unit: str = "Hz",
        phase_at: str | float = "auto",
    ) -> pd.DataFrame:
        """One row per component given K: existence, median, sd, 5 % and 95 % of each parameter, and the verdict.

        `existence` is the probability that the component is there, whatever K is (`alignment.py`). The verdict's word
        is a column, its reason is in `attrs["verdict"]`; `attrs["upper_limit"]` has the limits on amplitude where
        K = 0 is likely. Components that are harmonics or combinations of others have a label in the column
        `combination`, if there are any (`combinations`). Phases are summarized around their circular mean; their 5 %
        point may exceed the 95 % one where the interval crosses 0.

        Args:
            k: Number of components; k_map if None.
            n: Draws to summarize.
            seed: Seed of the draws.
            frequency_unit: Unit of the frequencies, such as "c/d" or "1/yr"; columns in another unit than Hz carry it
                in their names: ``frequency_median [c/d]``.
            phase_at: The instant that phases refer to: "zero" (t = 0), "mid", "start", a time on the data's clock in
                seconds, or "auto": t = 0 if it lies in or near the record, otherwise mid-series.
                `attrs["phase_at"]` says which.
        """
        if n < 1:
            raise ValueError(f"summary expects n >= 1 draws, received {n}.")
        frame = summary(self, self._k(k), n, seed, epoch_of(self, phase_at))
        frame = with_combinations(frame, self)
        return in_unit(frame, display_unit(self, frequency_unit), self.waveform)

    @property
    def class_probs(self) -> pd.DataFrame:
        """Probability of each class of each component, for priors with several classes: rows as those of `summary`."""
        return class_probs(self, self.k_map, CLASS_DRAWS, 0)

    def correlation(self, k: int | None = None, n: int = 4000, seed: int = 0) -> Array:
        """Posterior correlations of all parameters given K, components in the order of their frequencies.

        The slots of an amortized posterior are independent of each other; those of a refined one are not.

        Args:
            k: Number of components; k_map if None.
            n: Draws behind it: an entry has a standard error of about 1/√n.
            seed: Seed of the draws.

        Returns:
            (P k, P k), for tones rows and columns A₁, φ₁, f₁, A₂, …
        """
        if n < 2:
            raise ValueError(f"correlation expects n >= 2 draws, received {n}.")
        return correlation(self.sample(n, k, seed), self.resolution, self.waveform)

    def combinations(
        self, k: int | None = None, n: int = 2000, seed: int = 0, accidental: float = 0.01
    ) -> tuple[Combination, ...]:
        """Components that are multiples, sums or differences of others, with the probability of that by chance.

        Args:
            k: Number of components; k_map if None.
            n: Draws behind places and errors.
            seed: Of the draws.
            accidental: Probability by chance above which a component gets no label.
        """
        k = self._k(k)
        if k < 2:
            return ()
        theta = self.waveform.sorted(self.sample(n, k, seed))
        places = self.waveform.place_of(theta)
        band = (float(places.min()), float(places.max()))
        return find_combinations(
            np.median(places, 0),
            places.std(0),
            np.median(self.waveform.of(theta, "amplitude"), 0),
            band=band if self.prior is None else self.prior.frequency,
            resolution=self.resolution,
            accidental=accidental,
        )

    # ------------------------------------------------------------------ pictures and pages

    def plot(
        self, kind: str = "overview", path: str | Path | None = None, **options: Any
    ) -> Figure:
        """A picture: overview, data, spectrum, k, components, corner, residual or correlation.

        Args:
            kind: Which one.
            path: File to write it to as well: .png, .svg or .pdf.
            **options: Options of that picture (`show/plots/`), such as `truth=`, `band=`, `component=` or `other=`.
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

    # ------------------------------------------------------------------ exports and files

    def to_dataframe(self, n: int = 1000, seed: int = 0) -> pd.DataFrame:
        """One row per draw and component of joint draws, with the component's label and existence."""
        from slotflow.posterior.export import to_dataframe

        return to_dataframe(self, n, seed)

    def to_catalogue(
        self,
        path: str | Path | None = None,
        n: int = 4000,
        seed: int = 0,
        *,
        frequency_unit: str = "Hz",
        phase_at: str | float = "auto",
    ) -> pd.DataFrame:
        """One row per component over all K: existence, medians, intervals, covariance; to .csv or .parquet as well.

        Args:
            path: File to write; none if None.
            n: Joint draws.
            seed: Their seed.
            frequency_unit: As of `summary`.
            phase_at: As of `summary`.
        """
        from slotflow.posterior.export import check_catalogue, to_catalogue, write_catalogue

        if path is not None:
            check_catalogue(path)
        frame = to_catalogue(self, n, seed, epoch_of(self, phase_at))
        frame = with_combinations(frame, self)
        frame = in_unit(frame, display_unit(self, frequency_unit), self.waveform)
        if path is not None:
            write_catalogue(frame, path)
        return frame

    def to_arviz(self, n: int = 1000, seed: int = 0) -> Any:
        """ArviZ's InferenceData (before 1.0) or DataTree of joint draws, NaN where a draw lacks a component."""
        from slotflow.posterior.export import to_arviz

        return to_arviz(self, n, seed)

    def to_eryn(self, n: int = 1000, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Joint draws as Eryn keeps them: coords (n, K_max, P), inds (n, K_max), nleaves (n,)."""
        from slotflow.posterior.export import to_eryn

        return to_eryn(self, n, seed)

    def to_dataset(self, n: int = 1000, seed: int = 0) -> xr.Dataset:
        """Equally weighted joint draws, p(K | x), data and verdict as an xarray Dataset with units."""
        from slotflow.posterior.file import dataset

        return dataset(self, n, seed)

    def save(self, path: str | Path, n: int = 1000, seed: int = 0) -> None:
        """Writes `to_dataset` to a NetCDF file, whole or not at all."""
        from slotflow.posterior.file import write

        write(self, path, n, seed)
