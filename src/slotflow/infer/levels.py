"""Noise levels that nobody has stated: what the lines leave of each channel.

The likelihood integrates one noise level out, that of the first channel, and takes the others in units of it. Channels
of a free gain may count in other units, so that their levels are measured before the analysis
(`slotflow.infer.free_gains`). Others are taken to have one level, as two streams of one instrument have. Where the
residual of that answer refuses it, the ratios are measured in what the best fit leaves, and the analysis is made again
as if they had been stated; the common level is still integrated out.

A level is measured without the lines that are left beside the best fit. What a tone leaves in a channel of a wrong gain
is thus no noise of that channel, and `unexplained` keeps it from passing for explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.infer.call import Call, Case
from slotflow.infer.request import with_channels
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import FALSE_ALARM
from slotflow.signal.noise.background import background_of
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.noise.series import series_of
from slotflow.signal.noise.stated import parse_noise
from slotflow.signal.noise.versions import measured_level

__all__ = ["MEASURED", "levels_refused", "own_levels", "unexplained"]

MEASURED = "one level for all channels is refused; their ratios were estimated from the data"
"""What the noise of an answer says beside its own words."""
LEVELS_OPEN = ("auto", "white")
"""Noise whose levels nobody has stated, and that does not find them itself."""


def levels_refused(case: Case, post: Posterior) -> bool:
    """Whether the data refuse one noise level for all channels, which was assumed because nobody has stated any."""
    channels = case.given.channels
    if case.assumed.prior.known_sigma is not None or case.given.free_names:
        return False  # levels of channels of a free gain are measured before
    limit = FALSE_ALARM / max(len(post.verdict.checks), 1)
    return (
        any(_stated_level(channel) is None for channel in channels)
        and post.verdict.status == "misfit"
        and any(c.name.startswith("streams") and c.p_value < limit for c in post.verdict.checks)
    )


def own_levels(case: Case, post: Posterior, call: Call) -> Observation | None:
    """The data with a level of each channel in what an answer leaves of them; None where that is not asked for.

    Args:
        case: What was assumed.
        post: The answer under it.
        call: What is asked.
    """
    if not call.exact or isinstance(call.noise, NoiseModel):
        return None  # windows are told their noise: the whole band is answered again
    if parse_noise(call.noise).kind not in LEVELS_OPEN:
        return None
    given, tones = case.given.channels, post.best_fit()
    measured = [measured_level(c, tones, post.waveform) for c in case.observation.channels]
    if None in measured:
        return None
    found = [level for level in measured if level is not None]
    levels = _completed([_stated_level(channel) for channel in given], found)
    return with_channels(
        case.given, [replace(c, sigma=level) for c, level in zip(given, levels, strict=True)]
    )


def unexplained(post: Posterior) -> str:
    """A line of the band that the best fit leaves in another channel than the first, in words; empty if there is none.

    The first channel has tests of its own.
    """
    low, high = post.prior.frequency if post.prior is not None else (-np.inf, np.inf)
    tones = post.best_fit()
    for i, channel in enumerate(post.observation.channels[1:], 2):
        edge, is_folded = 1 / channel.duration, channel.is_complex or high > channel.nyquist
        for line in background_of(series_of(channel, tones, post.waveform), 0).lines:
            if is_folded or low - edge < line.frequency < high + edge:
                name = channel.name or f"channel {i}"
                return (
                    f"at noise levels of their own the channels do not agree: {name} has a line at "
                    f"{line.frequency:.5g} Hz that the tones do not explain; check its gain"
                )
    return ""


def _stated_level(channel: Channel) -> float | None:
    """The level of a channel that states one, or errors of its samples, which are in units of it."""
    return 1.0 if channel.sigma is None and channel.errors is not None else channel.sigma


def _completed(stated: Sequence[float | None], measured: Sequence[float]) -> list[float]:
    """Stated levels, and measured ones in their units where nothing is stated."""
    units = [known / found for known, found in zip(stated, measured, strict=True) if known]
    unit = units[0] if units else 1.0
    return [known or unit * found for known, found in zip(stated, measured, strict=True)]
