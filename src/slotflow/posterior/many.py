"""The posteriors of many observations: a sequence of them, with arrays over the signals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Posteriors"]


class Posteriors(Sequence[Posterior]):
    """The posteriors of n observations, in their order; `posteriors[i]` is one of them, a slice is some of them.

    K_max is the largest number of components that any of the n posteriors knows.

    Args:
        posts: The posteriors.
    """

    def __init__(self, posts: Iterable[Posterior] = ()) -> None:
        self._posts = list(posts)

    # ------------------------------------------------------------------ a sequence

    @overload
    def __getitem__(self, index: int) -> Posterior: ...

    @overload
    def __getitem__(self, index: slice) -> Posteriors: ...

    def __getitem__(self, index: int | slice) -> Posterior | Posteriors:
        """One posterior, or some of them."""
        return Posteriors(self._posts[index]) if isinstance(index, slice) else self._posts[index]

    def __len__(self) -> int:
        return len(self._posts)

    def __iter__(self) -> Iterator[Posterior]:
        return iter(self._posts)

    def __eq__(self, other: object) -> bool:
        """Whether the other is a sequence of the same posteriors, a plain list included."""
        if not isinstance(other, Posteriors | list | tuple):
            return NotImplemented
        return self._posts == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Posteriors({len(self)} signals)"

    # ------------------------------------------------------------------ arrays over signals

    @property
    def k_max(self) -> int:
        """Largest K that any of the posteriors knows; 0 if there are none."""
        return max((post.k_max for post in self._posts), default=0)

    @property
    def k_probs(self) -> Array:
        """p(K | x) of each signal, (n, K_max + 1); 0 for a K that a posterior does not know."""
        probs = np.zeros((len(self), self.k_max + 1))
        for row, post in zip(probs, self._posts, strict=True):
            row[: post.k_max + 1] = post.k_probs
        return probs

    @property
    def k_map(self) -> NDArray[np.int64]:
        """Most probable K of each signal, (n,)."""
        return np.array([post.k_map for post in self._posts], dtype=np.int64)

    @property
    def verdicts(self) -> list[Verdict]:
        """How far each result can be trusted; `[v.status for v in posteriors.verdicts]` are the words."""
        return [post.verdict for post in self._posts]

    def sample(self, n: int, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
        """Joint draws (K, Θ) of every signal.

        Args:
            n: Draws of each signal.
            seed: The same seed gives the same draws, of each signal those of `Posterior.sample_joint`.

        Returns:
            Θ, (signals, n, K_max, P), NaN where a draw has no such component, and K of each draw, (signals, n).
        """
        size = self._posts[0].waveform.size if self._posts else 0
        theta = np.full((len(self), n, self.k_max, size), np.nan)
        counts = np.zeros((len(self), n), dtype=np.int64)
        for i, post in enumerate(self._posts):
            theta[i, :, : post.k_max], counts[i] = post.sample_joint(n, seed)
        return theta, counts

    def summary(self, n: int = 2000, seed: int = 0) -> pd.DataFrame:
        """One row per component of each signal's most probable K; the index is (signal, component).

        Signals without a component have no row: `k_map` and `verdicts` tell of all.

        Args:
            n: Draws to summarize.
            seed: Of these draws.
        """
        import pandas as pd

        tables = [post.summary(n=n, seed=seed) for post in self._posts]
        if not tables:
            return pd.DataFrame(
                index=pd.MultiIndex.from_arrays([[], []], names=["signal", "component"])
            )
        for table in tables:
            table.attrs.clear()  # words about one signal
        return pd.concat(tables, keys=range(len(tables)), names=["signal"])
