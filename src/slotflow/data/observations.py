"""Many observations that are sampled alike, as arrays: what a batch needs, without an object for each signal."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from slotflow.core.chosen import Several, several
from slotflow.data.arrays import as_array, as_numpy, is_tensor
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation, stated_levels

__all__ = ["Observations"]


class Observations(Sequence[Observation]):
    """A sequence of n observations on the same grids; `observations[i]` is one of them, a slice is some of them.

    Example::

        many = Observations.from_arrays(values, dt=0.1)  # one signal per row
        posteriors = model.infer(many, prior=prior, refine=False)

    Args:
        series: Samples of each channel, (n, N) for each: NumPy arrays, or torch tensors on any device. NaN is a missing
            sample.
        like: One channel for each of them, which says how it was sampled; its values do not count.
    """

    def __init__(self, series: Sequence[Any], like: Sequence[Channel]) -> None:
        if len(series) != len(like) or not series:
            raise ValueError(
                f"expected as many arrays as channels, at least one, received {len(series)} and {len(like)}."
            )
        for values, channel in zip(series, like, strict=True):
            if values.ndim != 2 or values.shape[1] != channel.n or len(values) != len(series[0]):
                raise ValueError(
                    f"expected samples of shape ({len(series[0])}, {channel.n}), one signal per row, received "
                    f"{tuple(values.shape)}; give all channels the same number of rows."
                )
        self.series, self.like = tuple(series), tuple(like)

    @classmethod
    def from_arrays(
        cls,
        values: ArrayLike,
        dt: float,
        short: ArrayLike | None = None,
        dt_short: float | None = None,
        *,
        t0: float = 0.0,
        t0_short: float = 0.0,
        sigma: float | None = None,
        sigma_short: float | None = None,
    ) -> Observations:
        """Builds them from arrays with one signal per row.

        Args:
            values: Samples of the long stream, (n, N), real.
            dt: Its sampling step in seconds.
            short: Samples of the short stream, (n, M), if there is one.
            dt_short: Its sampling step in seconds.
            t0: Time of the long stream's first sample in seconds.
            t0_short: Time of the short stream's first sample in seconds.
            sigma: Noise standard deviation per sample of the long stream, if known; see :class:`Channel`.
            sigma_short: The same of the short stream, if it differs.
        """
        levels = stated_levels(sigma, sigma_short, short is not None)
        first = _rows(values, "values")
        channels = [Channel(np.zeros(first.shape[1]), dt, t0, levels[0])]
        if short is None:
            return cls([first], channels)
        if dt_short is None:
            raise ValueError("a short stream needs its sampling step: give dt_short in seconds.")
        second = _rows(short, "short")
        channels.append(Channel(np.zeros(second.shape[1]), dt_short, t0_short, levels[1]))
        return cls([first, second], channels)

    @overload
    def __getitem__(self, index: int) -> Observation: ...

    @overload
    def __getitem__(self, index: Several) -> Observations: ...

    def __getitem__(self, index: int | Several) -> Observation | Observations:
        """One observation, or some of them: a slice, a list of places, or an array of places or of truth values."""
        if (chosen := several(index, len(self))) is not None:
            return Observations([values[chosen] for values in self.series], self.like)
        place = operator.index(index)  # type: ignore[arg-type]
        if not -len(self) <= place < len(self):
            raise IndexError(f"expected a signal in 0..{len(self) - 1}, received {place}.")
        pairs = zip(self.like, self.series, strict=True)
        try:
            return Observation(
                [dataclasses.replace(channel, values=as_numpy(x[place])) for channel, x in pairs]
            )
        except ValueError as error:
            raise ValueError(f"signal {place}: {error}") from error

    def check(self) -> None:
        """Refuses signals that no channel can hold: samples that are all missing, or infinite ones."""
        finite = np.ones(len(self), dtype=np.bool_)
        with np.errstate(all="ignore"):
            for values in self.series:  # a sum is no number where a sample is none
                finite &= np.isfinite(as_numpy(values.sum(1)))
        for place in np.flatnonzero(~finite):
            self[int(place)]

    def __len__(self) -> int:
        return len(self.series[0])

    def __iter__(self) -> Iterator[Observation]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        sizes = " and ".join(f"{channel.n:,}" for channel in self.like)
        return f"Observations({len(self)} signals of {sizes} samples)"


def _rows(values: Any, name: str) -> Any:
    """An array or a tensor with one signal per row, of floating-point numbers."""
    x = values.detach() if is_tensor(values) else as_array(values)
    kind = "c" if isinstance(x, np.ndarray) and x.dtype.kind not in "fiub" else "f"
    if x.ndim != 2 or kind == "c" or 0 in x.shape[1:]:
        raise ValueError(
            f"{name}: expected real numbers of the shape (signals, samples), received {x.dtype} of the shape "
            f"{tuple(x.shape)}; give one signal per row."
        )
    if isinstance(x, np.ndarray) and x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float64)
    return x
