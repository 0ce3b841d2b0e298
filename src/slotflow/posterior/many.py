"""The posteriors of many observations: a sequence of them, with arrays over the signals.

A method that answers many signals at once hands over its arrays (`Batched`); whatever is asked of all signals is then
computed for the batch, and the posterior of one signal is made when it is asked for. Other methods hand over single
posteriors. Both kinds may stand in one sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.chosen import Several, several
from slotflow.core.later import later
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.batched_tables import catalogue_table, summary_table
from slotflow.posterior.display import Epoch, epoch_of
from slotflow.posterior.export import check_catalogue, write_catalogue
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Posteriors"]

Part = Batched | Posterior
"""Several posteriors as arrays, or one."""


class Posteriors(Sequence[Posterior]):
    """The posteriors of n observations, in their order; `posteriors[i]` is one of them, a slice is some of them.

    K_max is the largest number of components that any of the n posteriors knows.

    Args:
        parts: The posteriors, single ones or several as arrays.
        order: For each of the parts' signals, in the order of the parts, its place in the sequence, (n,); None: as
            they come.
    """

    def __init__(
        self, parts: Iterable[Part] = (), order: Sequence[int] | Rows | None = None
    ) -> None:
        self._parts = list(parts)
        sizes = [len(part) if isinstance(part, Batched) else 1 for part in self._parts]
        part = np.repeat(np.arange(len(sizes)), sizes)
        row = np.concatenate([np.arange(size) for size in sizes] or [np.zeros(0, dtype=np.int64)])
        self._at = np.stack([part, row], 1).astype(np.int64)
        """Part and row of each signal, (n, 2)."""
        if order is not None:
            self._at = self._at[np.argsort(np.asarray(order, dtype=np.int64), kind="stable")]
        self._made: dict[tuple[int, int], Posterior] = {}
        """Posteriors of single signals that have been asked for."""

    # ------------------------------------------------------------------ a sequence

    @overload
    def __getitem__(self, index: int) -> Posterior: ...

    @overload
    def __getitem__(self, index: Several) -> Posteriors: ...

    def __getitem__(self, index: int | Several) -> Posterior | Posteriors:
        """One posterior, or some of them: a slice, a list of places, or an array of places or of truth values."""
        if (chosen := several(index, len(self))) is not None:
            some = Posteriors()
            some._parts, some._at, some._made = self._parts, self._at[chosen], self._made
            return some
        part, row = self._at[index].tolist()
        owner = self._parts[part]
        if isinstance(owner, Posterior):
            return owner
        if (part, row) not in self._made:
            self._made[part, row] = owner.one(row)
        return self._made[part, row]

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[Posterior]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether the other is a sequence of the same posteriors, a plain list included."""
        if not isinstance(other, Posteriors | list | tuple):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Posteriors({len(self)} signals)"

    def batches(self) -> Iterator[tuple[Part, Rows, Rows]]:
        """The parts with something in this sequence: each with its rows and their places in the sequence."""
        ordered = np.argsort(self._at[:, 0], kind="stable")
        cuts = np.flatnonzero(np.diff(self._at[ordered, 0])) + 1
        for places in np.split(ordered, cuts) if len(ordered) else []:
            yield self._parts[self._at[places[0], 0]], self._at[places, 1], places

    # ------------------------------------------------------------------ arrays over signals

    @property
    def k_max(self) -> int:
        """Largest K that any of the posteriors knows; 0 if there are none."""
        return max((part.k_max for part, _, _ in self.batches()), default=0)

    @property
    def k_probs(self) -> Array:
        """p(K | x) of each signal, (n, K_max + 1); 0 for a K that a posterior does not know."""
        probs = np.zeros((len(self), self.k_max + 1))
        for part, rows, places in self.batches():
            probs[places, : part.k_max + 1] = np.atleast_2d(part.k_probs)[rows]
        return probs

    @property
    def k_map(self) -> NDArray[np.int64]:
        """Most probable K of each signal, (n,)."""
        return np.asarray(self.k_probs.argmax(1), dtype=np.int64)

    @property
    def noise_std(self) -> Array:
        """Estimate of σ of each signal, (n,)."""
        sigma = np.zeros(len(self))
        for part, rows, places in self.batches():
            sigma[places] = np.atleast_1d(part.noise_std)[rows]
        return sigma

    @property
    def verdicts(self) -> list[Verdict]:
        """How far each result can be trusted; `[v.status for v in posteriors.verdicts]` are the words."""
        found: list[Any] = [None] * len(self)
        for part, rows, places in self.batches():
            one = [part.verdict] if isinstance(part, Posterior) else part.verdicts(rows)
            for place, verdict in zip(places.tolist(), one, strict=True):
                found[place] = verdict
        return found

    def sample(self, n: int, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
        """Joint draws (K, Θ) of every signal.

        Args:
            n: Draws of each signal.
            seed: The same seed gives the same draws, of each signal those of `Posterior.sample_joint`.

        Returns:
            Θ, (signals, n, K_max, P), NaN where a draw has no such component, and K of each draw, (signals, n).
        """
        size = max((part.waveform.size for part, _, _ in self.batches()), default=0)
        theta = np.empty((len(self), n, self.k_max, size))
        counts = np.zeros((len(self), n), dtype=np.int64)
        for part, rows, places in self.batches():
            shape = (part.k_max, part.waveform.size)
            whole = shape == theta.shape[2:]
            if isinstance(part, Batched) and whole and (np.diff(places) == 1).all():
                own = theta[places[0] : places[-1] + 1]  # written to at once
                counts[places] = part.sample_joint(rows, n, seed, out=own)[1]
                continue
            theta[places] = np.nan
            if isinstance(part, Posterior):
                found, counts[places] = part.sample_joint(n, seed)
            else:
                found, counts[places] = part.sample_joint(rows, n, seed)
            theta[places, :, : shape[0], : shape[1]] = found
        return theta, counts

    def summary(self, n: int = 2000, seed: int = 0) -> pd.DataFrame:
        """One row per component of each signal's most probable K; the index is (signal, component).

        Signals without a component have no row: `k_map` and `verdicts` tell of all.

        Args:
            n: Draws to summarize.
            seed: Of these draws.
        """
        if n < 1:
            raise ValueError(f"summary expects n >= 1 draws, received {n}.")
        return self._table(
            lambda post: post.summary(n=n, seed=seed),
            lambda batch, rows, epoch: summary_table(batch, rows, n, seed, epoch),
        )

    def to_catalogue(
        self, path: str | Path | None = None, n: int = 4000, seed: int = 0
    ) -> pd.DataFrame:
        """One row per component over all K of each signal, as `Posterior.to_catalogue` has them.

        Args:
            path: File to write, .csv or .parquet; none if None.
            n: Joint draws of each signal.
            seed: Their seed.

        Returns:
            The table; its index is (signal, component).
        """
        if n < 1:
            raise ValueError(f"to_catalogue expects n >= 1 draws, received {n}.")
        if path is not None:
            check_catalogue(path)
        frame = self._table(
            lambda post: post.to_catalogue(n=n, seed=seed),
            lambda batch, rows, epoch: catalogue_table(batch, rows, n, seed, epoch),
        )
        if path is not None:
            write_catalogue(frame, path)
        return frame

    def _table(
        self,
        of_one: Callable[[Posterior], pd.DataFrame],
        of_batch: Callable[[Batched, Rows, Epoch], pd.DataFrame],
    ) -> pd.DataFrame:
        """One table of all signals.

        Args:
            of_one: The table of one posterior; its index is the component.
            of_batch: That of some signals of a batch; its index is (signal, component).
        """
        import pandas as pd

        tables = []
        for part, rows, places in self.batches():
            if isinstance(part, Posterior):
                table = pd.concat({0: of_one(part)}, names=["signal"])
            else:
                table = of_batch(part, rows, epoch_of(part.one(int(rows[0]))))
            table.attrs.clear()  # words about one signal
            signal = places[table.index.get_level_values(0)]
            component = table.index.get_level_values(1)
            table.index = pd.MultiIndex.from_arrays([signal, component], names=table.index.names)
            tables.append(table)
        if not tables:
            nothing = pd.MultiIndex.from_arrays([[], []], names=["signal", "component"])
            return pd.DataFrame(index=nothing)
        return pd.concat(tables).sort_index()

    # ------------------------------------------------------------------ files

    def to_dataset(self, n: int = 100, seed: int = 0) -> xr.Dataset:
        """Joint draws, p(K | x), noise levels, evidences, verdicts and priors of all signals as an xarray Dataset.

        Args:
            n: Draws of each signal.
            seed: Of these draws.
        """
        found: xr.Dataset = later("dataset_of_many")(self, n, seed)
        return found

    def save(self, path: str | Path, n: int = 100, seed: int = 0) -> None:
        """Writes `to_dataset` to one NetCDF file, whole or not at all."""
        later("write_many")(self, path, n, seed)

    @staticmethod
    def load(path: str | Path) -> Posteriors:
        """Reads what `save` wrote; no weights are needed, nothing is executed."""
        found: Posteriors = later("load_many")(path)
        return found
