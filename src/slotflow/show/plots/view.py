"""What the panels of one picture show: a posterior, draws of its most probable K, the truth and the band."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.posterior.display import ZERO, Epoch, display_unit, epoch_of
from slotflow.posterior.moments import class_shares
from slotflow.posterior.summaries import Mode, components, place_modes
from slotflow.signal.waveforms import Classes, Waveform

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["Band", "Float", "View", "match_truth", "true_components"]

Float = NDArray[np.float64]
Band = tuple[float, float]

DRAWS = 2000
MOST_ROWS = 20
"""Components that have a row of their own at most."""
BINS_AROUND = 20
"""Bins on either side of the components that a spectrum shows if no band is known."""


@dataclass(frozen=True)
class View:
    """What the panels of a picture show."""

    post: Posterior
    draws: Float
    """Components of the most probable K in the order of their places, (n, K, P)."""
    existence: Float
    """Probability of each component, (K,)."""
    truth: Float | None
    """True components, (L, P), where they are known."""
    band: Band
    """Frequencies in Hz."""
    unit: FrequencyUnit = HERTZ
    """In which frequencies are shown."""
    epoch: Epoch = ZERO
    """The instant that phases refer to where they are shown."""

    @classmethod
    def of(
        cls,
        post: Posterior,
        truth: ArrayLike | None = None,
        band: Band | None = None,
        frequency_unit: str | None = None,
        phase_at: str | float = "auto",
    ) -> View:
        """The view of a posterior.

        Args:
            post: The posterior.
            truth: True components, (L, P), where they are known.
            band: Frequencies in Hz; by default the prior's, or those around the components.
            frequency_unit: Unit of the frequencies; by default that which goes with the data's times.
            phase_at: The instant that phases refer to, as in `Posterior.summary`.
        """
        draws, _, existence = components(post, post.k_map, DRAWS, 0)
        known = true_components(post, truth)
        band = _band(post, draws, known, band)
        unit, epoch = display_unit(post, frequency_unit), epoch_of(post, phase_at)
        return cls(post, draws, existence, known, band, unit, epoch)

    @property
    def shown(self) -> Float:
        """The draws with phases at the instant that is shown, (n, K, P)."""
        return self.epoch.shift(self.draws, self.waveform)

    @property
    def shown_truth(self) -> Float | None:
        """The same of the truth, (L, P)."""
        return None if self.truth is None else self.epoch.shift(self.truth, self.waveform)

    @cached_property
    def modes(self) -> list[list[Mode]]:
        """Where each component may be, the most probable place first; several places for aliases."""
        cores = [row.core for row in self.post.window_rows]
        return place_modes(self.draws, self.post.resolution, self.waveform, cores)

    @property
    def waveform(self) -> Waveform:
        """What the components are."""
        return self.post.waveform

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes that components may be of; empty where there are none."""
        return self.waveform.class_names if isinstance(self.waveform, Classes) else ()

    @cached_property
    def kinds(self) -> list[int]:
        """Number of the likeliest class of each component, (K,); 0 where there are no classes."""
        if not isinstance(self.waveform, Classes):
            return [0] * self.count
        return [int(shares.argmax()) for shares in class_shares(self.draws, self.waveform)]

    @property
    def count(self) -> int:
        """Number of components K."""
        return int(self.draws.shape[1])

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Which components have a row of their own where each is shown: all, or the strongest of many."""
        if self.count <= MOST_ROWS:
            return np.arange(self.count)
        size = np.median(self.draws[..., self.waveform.amplitude_columns[0]], axis=0)
        return np.sort(np.argsort(-size, kind="stable")[:MOST_ROWS])

    @property
    def ends(self) -> Band:
        """Frequencies in Hz that a picture of the band shows: a little more than the band, but none without meaning."""
        margin = 0.05 * (self.band[1] - self.band[0])
        low = self.band[0] - margin
        is_complex = self.post.has_data and self.post.observation.is_complex
        return low if is_complex or self.band[0] < 0 else max(low, 0.0), self.band[1] + margin


def true_components(post: Posterior, truth: ArrayLike | None) -> Float | None:
    """True components as an array, (L, P); None stays None."""
    if truth is None:
        return None
    return np.asarray(truth, dtype=np.float64).reshape(-1, post.waveform.size)


def match_truth(waveform: Waveform, draws: Float, truth: Float | None) -> Float:
    """The true component that lies nearest to each inferred one, each of them used once.

    Args:
        waveform: What the components are.
        draws: (n, K, P).
        truth: (L, P), or None.

    Returns:
        (K, P); rows of NaN where there is none.
    """
    from scipy.optimize import linear_sum_assignment

    matched = np.full(draws.shape[1:], np.nan)
    if truth is not None:
        places = np.median(waveform.place_of(draws), axis=0)
        cost = np.abs(places[:, None] - waveform.place_of(truth)[None, :])
        rows, columns = linear_sum_assignment(cost)
        matched[rows] = truth[columns]
    return matched


def _band(post: Posterior, draws: Float, truth: Float | None, band: Band | None) -> Band:
    """The stated band or the prior's, widened to hold all components; without one, their surroundings."""
    waveform = post.waveform
    f = waveform.of(draws, "frequency").ravel()
    if truth is not None:
        f = np.concatenate([f, waveform.of(truth, "frequency")])
    if band is None and post.prior is not None:
        band = post.prior.frequency
    if band is not None:
        low, high = band
        return float(f.min(initial=low)), float(f.max(initial=high))
    highest = post.observation.long.nyquist if post.has_data else np.inf
    if not f.size:
        highest = highest if np.isfinite(highest) else 1.0
        return -highest if post.has_data and post.observation.is_complex else 0.0, highest
    margin = BINS_AROUND * post.resolution or 0.1 * float(np.ptp(f)) or 0.01 * abs(float(f[0]))
    lowest = -highest if post.has_data and post.observation.is_complex else 0.0
    return max(lowest, float(f.min()) - margin), min(highest, float(f.max()) + margin)
