"""An observation: the channels in which the same signals were measured."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from slotflow.core.later import later
from slotflow.data.channel import Channel, as_series
from slotflow.data.noise_level import level_outside

__all__ = ["Observation", "as_list", "stated_levels"]

MOST_CHANNELS = 2
"""Channels that the networks can read together."""


class Observation:
    """What was measured of one sky: one channel, or two that see the same signals.

    Args:
        long: The channel that resolves frequencies, or a sequence of all channels, that one first.
        short: A shorter, more finely sampled channel, if there is one.
        removed: Tones that were fitted to the data and taken out of them, such as those of other windows of a wide
            band; the likelihood of σ and its tests count the degrees of freedom that went with them.
    """

    def __init__(
        self,
        long: Channel | Sequence[Channel],
        short: Channel | None = None,
        *,
        removed: int = 0,
    ) -> None:
        several = tuple(long) if isinstance(long, Sequence) else (long,)
        self.channels: tuple[Channel, ...] = several if short is None else (*several, short)
        self.removed = removed
        for channel in self.channels:
            if not isinstance(channel, Channel):
                raise ValueError(
                    f"expected Channels, received {type(channel).__name__}; build one with Channel(values, dt), or the "
                    "observation with Observation.from_arrays."
                )
        if not 1 <= len(self.channels) <= MOST_CHANNELS:
            raise ValueError(
                f"expected one or two channels, received {len(self.channels)}; analyse more than two in pairs."
            )
        for channel in self.channels[1:]:
            if channel.t_ref != self.t_ref:
                raise ValueError(
                    f"both streams must count time from one instant, received t_ref = {self.t_ref} s (long) and "
                    f"{channel.t_ref} s (short); read them together, or give both the same t_ref."
                )

    @classmethod
    def from_arrays(
        cls,
        long: ArrayLike,
        dt_long: float,
        short: ArrayLike | None = None,
        dt_short: float | None = None,
        t0_long: float = 0.0,
        t0_short: float = 0.0,
        sigma_long: float | None = None,
        sigma_short: float | None = None,
    ) -> Observation:
        """Builds an observation from plain arrays.

        Args:
            long: Samples of the long stream, shape (N,).
            dt_long: Its sampling step in seconds.
            short: Samples of the short stream, shape (M,), or None.
            dt_short: Its sampling step in seconds.
            t0_long: Time of the long stream's first sample.
            t0_short: Time of the short stream's first sample.
            sigma_long: Noise standard deviation per sample of the long stream, if known; see :class:`Channel`.
            sigma_short: The same of the short stream, if it differs.
        """
        levels = stated_levels(sigma_long, sigma_short, short is not None)
        first = Channel(as_series(long), dt_long, t0_long, levels[0])
        if short is None:
            return cls(first)
        if dt_short is None:
            raise ValueError("a short stream needs its sampling step: give dt_short in seconds.")
        return cls(first, Channel(as_series(short), dt_short, t0_short, levels[1]))

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], dt: float | None = None, **options: Any
    ) -> Observation:
        """Reads a file: CSV, TSV, NPY, NPZ, HDF5, NetCDF, WAV, or a text table on standard input (``-``).

        Args:
            path: File of the long stream, or of both.
            dt: Sampling step of the long stream in seconds, if the file does not tell.
            **options: Further fields of :class:`slotflow.io.ReadOptions`: ``short_path``, ``dt_short``, ``column``,
                ``dataset``, ``time``, ``time_unit``, ``t_ref``, ``fill``, ``max_gap``, ``detrend``, ``sigma``,
                ``sigma_short``.
        """
        found: Observation = later("read_observation")(path, dt, **options)
        return found

    @property
    def t_ref(self) -> float:
        """The instant on the file's clock that phases refer to, in seconds."""
        return self.long.t_ref

    @property
    def long(self) -> Channel:
        """The channel that resolves frequencies."""
        return self.channels[0]

    @property
    def short(self) -> Channel | None:
        """The second channel, if there is one."""
        return self.channels[1] if len(self.channels) > 1 else None

    @property
    def streams(self) -> tuple[Channel, ...]:
        """The channels, by their name of version 0.1."""
        return self.channels

    def noise_level(self, band: tuple[float, float]) -> tuple[float, float]:
        """Estimates σ from the long stream's power outside the band (see :mod:`slotflow.data.noise_level`).

        Args:
            band: Frequencies in Hz that may hold tones.

        Returns:
            The estimate and its standard error; (nan, nan) if fewer than 8 bins lie outside.
        """
        return level_outside(self.long.values, self.long.duration, band)


def as_list(observation: Observation | Iterable[Observation]) -> list[Observation]:
    """One observation or several as a list, refusing anything else."""
    if isinstance(observation, Observation):
        return [observation]
    if not isinstance(observation, Iterable):
        raise ValueError(
            f"expected an Observation or a sequence of them, received {type(observation).__name__}; "
            "build one with Observation.from_arrays."
        )
    several = list(observation)
    for i, one in enumerate(several):
        if not isinstance(one, Observation):
            raise ValueError(
                f"expected Observations, received {type(one).__name__} at position {i}; build one with "
                "Observation.from_arrays."
            )
    return several


def stated_levels(
    long: float | None, short: float | None, has_short: bool
) -> tuple[float | None, float | None]:
    """Noise levels of the long and of the short stream; that of the short one is the long one's if not stated.

    Args:
        long: Stated level of the long stream, if any.
        short: Stated level of the short stream, if any.
        has_short: Whether there is a short stream.
    """
    if short is not None and long is None:
        raise ValueError(
            f"the noise level of the short stream ({short:g}) counts beside that of the long one, received that one "
            "alone; state both (on the command line --sigma and --sigma-short)."
        )
    if short is not None and not has_short:
        raise ValueError(
            f"expected a short stream for the stated noise level of {short:g}, received none; drop that level (on the "
            "command line --sigma-short) or give the short stream too."
        )
    return long, long if short is None else short
