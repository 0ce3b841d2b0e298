"""What a user says of the data beside the prior: their noise, their trend, their outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slotflow.data.channel import HIGHEST_TREND
from slotflow.data.observation import Observation
from slotflow.signal.noise.outliers import without_outliers

__all__ = ["DataRequest", "offset_words", "prepared", "with_channels"]

STANDS_OUT = 5.0
"""Mean of complex samples, in units of what their scatter lets it be, from which on it is an offset."""
OUTLIERS = (None, "clip")
"""What can be done about outliers."""


@dataclass(frozen=True)
class DataRequest:
    """How the data are to be understood."""

    noise: Any = "auto"
    """"auto", "white", "local", or what `slotflow.noise` builds."""
    outliers: str | None = None
    """None, or "clip": samples far outside the residual's distribution are dropped, counted and said."""
    trend: int | None = None
    """Order of the polynomial that is marginalized; None: an offset, and a slope where one stands out."""

    def __post_init__(self) -> None:
        if self.outliers not in OUTLIERS:
            raise ValueError(f"expected outliers to be None or 'clip', received {self.outliers!r}.")
        if self.trend is not None and self.trend not in range(-1, HIGHEST_TREND + 1):
            raise ValueError(
                f"expected trend as the order of a polynomial, −1 (none), 0 (an offset) up to {HIGHEST_TREND}, "
                f"received {self.trend!r}."
            )


def prepared(observation: Observation, request: DataRequest) -> Observation:
    """The observation with the trend that is asked for, and without outliers where they are to be clipped.

    A tone at zero frequency is a tone in complex data: no offset is taken out of them unless it is asked for.

    Args:
        observation: The data.
        request: What is asked for.
    """
    if request.outliers == "clip":
        observation = without_outliers(observation)
    order = request.trend
    if order is None and observation.is_complex:
        order = -1 if all(channel.trend == 0 for channel in observation.channels) else None
    if order is None or all(channel.trend == order for channel in observation.channels):
        return observation
    return with_channels(observation, [replace(c, trend=order) for c in observation.channels])


def offset_words(observation: Observation, band: tuple[float, float]) -> str:
    """Says that the offset of complex data counts as a tone, where there is one and nothing was asked of it."""
    channel = observation.long
    if not channel.is_complex or channel.trend >= 0 or not band[0] <= 0 <= band[1]:
        return ""
    scatter = float(np.std(channel.values)) / np.sqrt(channel.n)
    if abs(np.mean(channel.values)) < STANDS_OUT * scatter:
        return ""
    return (
        "the offset of complex samples counts as a tone at zero frequency; to have it integrated out instead, state "
        "--trend 0 (trend=0)"
    )


def with_channels(observation: Observation, channels: Sequence[Any]) -> Observation:
    """The same observation with other channels."""
    return Observation(list(channels), removed=observation.removed)
