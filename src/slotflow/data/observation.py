"""An observation: the channels in which the same signals were measured."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from slotflow.core.later import later
from slotflow.data.arrays import as_numpy
from slotflow.data.channel import Channel, as_series
from slotflow.data.noise_level import level_outside

__all__ = ["Observation", "as_list", "stated_levels"]


class Observation:
    """What was measured of one sky: one channel, or several that see the same signals.

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
        if not self.channels:
            raise ValueError("expected at least one channel, received none.")
        for channel in self.channels[1:]:
            if channel.t_ref != self.t_ref:
                raise ValueError(
                    f"all channels must count time from one instant, received t_ref = {self.t_ref} s (the first) and "
                    f"{channel.t_ref} s; read them together, or give all of them the same t_ref."
                )
            if channel.is_complex != self.is_complex:
                raise ValueError(
                    "expected channels that are all real or all complex, received both kinds; give the real ones as "
                    "complex numbers, or analyse them apart."
                )
        self._check_free_gains()

    def _check_free_gains(self) -> None:
        """Refuses a first channel of a free gain, and free channels that cannot be told apart."""
        if not any(channel.has_free_gain for channel in self.channels):
            return
        if self.long.has_free_gain:
            raise ValueError(
                "expected a known gain of the first channel, in which amplitudes are measured, received gain='free'; "
                "put a channel of a known gain (1 if nothing is known of any) first."
            )
        names = self.free_names
        if len(set(names)) < len(names):
            raise ValueError(
                f"expected names that tell channels of a free gain apart, received {', '.join(names)}; give each a "
                "name= of its own."
            )

    @classmethod
    def from_arrays(
        cls,
        long: ArrayLike | None = None,
        dt_long: float | None = None,
        short: ArrayLike | None = None,
        dt_short: float | None = None,
        t0_long: float = 0.0,
        t0_short: float = 0.0,
        sigma_long: float | None = None,
        sigma_short: float | None = None,
        *,
        values: ArrayLike | None = None,
        times: ArrayLike | None = None,
        errors: ArrayLike | None = None,
        dt: float | None = None,
    ) -> Observation:
        """Builds an observation from plain arrays.

        Example::

            Observation.from_arrays(values=x, dt=0.1)  # an even series
            Observation.from_arrays(values=x, times=t, errors=e)  # any times; NaN in x is a missing sample

        Args:
            long: Samples of the long stream, shape (N,), real or complex; `values` is another word for it.
            dt_long: Its sampling step in seconds; `dt` is another word for it.
            short: Samples of the short stream, shape (M,), or None.
            dt_short: Its sampling step in seconds.
            t0_long: Time of the long stream's first sample.
            t0_short: Time of the short stream's first sample.
            sigma_long: Noise standard deviation per sample of the long stream, if known; see :class:`Channel`.
            sigma_short: The same of the short stream, if it differs.
            values: Samples, shape (N,).
            times: Time stamps, shape (N,), instead of a step: seconds, or dates; see :class:`Channel`.
            errors: Standard deviation of each sample's noise, shape (N,); see :class:`Channel`.
            dt: Sampling step in seconds.
        """
        samples = _one_of("values", values, "long", long)
        step = None if dt is None and dt_long is None else _one_of("dt", dt, "dt_long", dt_long)
        if (step is None) == (times is None):
            raise ValueError(
                "expected the sampling step (dt=) or the time stamps (times=) of the samples, received "
                f"{'neither' if step is None else 'both'}; give one of them."
            )
        levels = stated_levels(sigma_long, sigma_short, short is not None)
        first = Channel(
            as_series(samples),
            math.nan if step is None else step,
            t0_long,
            levels[0],
            times=None if times is None else as_numpy(times),  # type: ignore[arg-type]
            errors=None if errors is None else as_numpy(errors),
        )
        if short is None:
            return cls(first)
        if dt_short is None:
            raise ValueError("a short stream needs its sampling step: give dt_short in seconds.")
        return cls(first, Channel(as_series(short), dt_short, t0_short, levels[1]))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        dt: float | None = None,
        **options: Any,
    ) -> Observation:
        """Reads a file: text tables, NPY, NPZ, HDF5, NetCDF, WAV, FITS, MATLAB, or standard input (``-``).

        Args:
            path: File of the long stream, or of both; several files, such as the sectors of a star, are joined into
                one series.
            dt: Sampling step of the long stream in seconds, if the file does not tell.
            **options: Further fields of :class:`slotflow.io.ReadOptions`, such as ``column``, ``dataset``, ``time``,
                ``time_unit``, ``t_ref``, ``errors``, ``complex``, ``missing``, ``trend``, ``short_path``, ``sigma``.
        """
        found: Observation = later("read_observation")(path, dt, **options)
        return found

    @property
    def t_ref(self) -> float:
        """The instant on the file's clock that phases refer to, in seconds."""
        return self.long.t_ref

    @property
    def is_complex(self) -> bool:
        """Whether the samples are complex."""
        return self.channels[0].is_complex

    @property
    def is_plain(self) -> bool:
        """Whether the samples are real, even and complete, in one or two channels, with nothing else known of them."""
        return len(self.channels) <= 2 and all(
            channel.is_even
            and not channel.is_complex
            and channel.errors is None
            and channel.segments is None
            and channel.gain == 1
            for channel in self.channels
        )

    @property
    def gain_names(self) -> tuple[str, ...]:
        """For each channel "" where its gain is known, and else what its amplitudes and phases are called after."""
        second = "short" if len(self.channels) == 2 else "2"
        return tuple(
            (channel.name or (second if s == 1 else f"{s + 1}")) if channel.has_free_gain else ""
            for s, channel in enumerate(self.channels)
        )

    @property
    def free_names(self) -> tuple[str, ...]:
        """Names of the channels of a free gain."""
        return tuple(name for name in self.gain_names if name)

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
        if self.is_complex or not self.long.is_even:
            return math.nan, math.nan
        return level_outside(self.long.values, self.long.duration, band)


def _one_of(name: str, value: Any, other: str, other_value: Any) -> Any:
    """The one of two arguments that is given."""
    if (value is None) == (other_value is None):
        received = "neither" if value is None else "both"
        raise ValueError(f"expected {name}= or {other}=, received {received}; give one of them.")
    return other_value if value is None else value


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
                "Observation.from_arrays, or all of them from arrays with one signal per row with "
                "Observations.from_arrays."
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
            f"the noise level of the short stream ({short:g}) counts beside that of the long one, received only "
            "that one; state both (on the command line --sigma and --sigma-short)."
        )
    if short is not None and not has_short:
        raise ValueError(
            f"expected a short stream for the stated noise level of {short:g}, received none; drop that level (on the "
            "command line --sigma-short) or give the short stream too."
        )
    return long, long if short is None else short
