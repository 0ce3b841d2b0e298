r"""The answer of the search alone, for windows for which there is no time.

The tones that the search found and fitted in and around a core, and the Gaussian around that fit with the noise level
of the floor at the core, stand for the posterior. The number of tones is what the search says: it was not
compared with any other, and the verdict is "approximate" and says so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.draws import Draws
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["NO_TIME", "WORSE", "SearchedPosterior", "Unexamined", "searched_posterior"]

NO_TIME = "the time budget ended; raise max_seconds"
"""Why most windows are not sampled that are not."""
WORSE = "what was sampled in the time it had explains less of the data; raise max_seconds"
"""Why a window was sampled in vain."""
DRAWS = 500
"""Draws of the Gaussian."""


class Unexamined(NamedTuple):
    """A window that was not sampled."""

    level: float
    """Noise level there, in the data's units."""
    why: str
    """Why it was not sampled, in words."""
    reference: float
    """Instant that complex amplitudes refer to, in seconds."""


class SearchedPosterior(Posterior):
    """Tones of a window as the search found them, with the Gaussian around their fit.

    Args:
        observation: The data of the window.
        prior: That of the window.
        theta: The fit, sorted by place, (k, P).
        draws: Of the Gaussian, (n, k, P), tone by tone in the order of the fit.
        case: Noise level at the window, and why it was not sampled.
    """

    slots: Draws

    def __init__(
        self, observation: Observation, prior: Prior, theta: Array, draws: Array, case: Unexamined
    ) -> None:
        k = len(theta)
        k_max = max(prior.k_max, k)
        slots = Draws(k_max, {k: TONE.sorted(draws)}, {k: np.full(len(draws), case.level)})
        probs = (np.arange(k_max + 1) == k).astype(np.float64)
        super().__init__(probs, slots, observation, case.level, None, "search", prior)
        self._fit, self._why, self._draws = theta, case.why, draws

    @property
    def verdict(self) -> Verdict:
        """Approximate: nothing was sampled."""
        return Verdict("approximate", f"found by the search and fitted, not sampled: {self._why}")

    def draws_of(self, core: tuple[float, float]) -> Array:
        """Draws of the tones whose fit lies in a core, (n, j, P), wherever the draws themselves lie.

        The errors of unresolved tones reach beyond narrow cores; each tone still belongs to one window.

        Args:
            core: Lower and upper edge in Hz.
        """
        place = TONE.place_of(self._fit)
        return self._draws[:, (place >= core[0]) & (place < core[1])]

    def known_fit(self, k: int) -> Array | None:
        """The fit; None for any other number of tones."""
        return self._fit if k == len(self._fit) else None

    def best_fit(self, k: int | None = None) -> Array:
        """The fit, (k, P), whatever number of tones is asked for."""
        return self._fit


def searched_posterior(
    observation: Observation, prior: Prior, theta: Array, inverse: Array, case: Unexamined
) -> SearchedPosterior:
    """The posterior of a window as far as the search knows it.

    Args:
        observation: The data.
        prior: That of the window.
        theta: Tones that the search found in the window, sorted by place, (k, P).
        inverse: Covariance of their coordinates for σ = 1, with all other tones unknown, (k·Z, k·Z).
        case: Noise level at the window, and why it is not sampled.
    """
    if not len(theta):
        none = np.zeros((DRAWS, 0, TONE.size))
        return SearchedPosterior(observation, prior, theta, none, case)
    z = TONE.to_z(theta, case.reference)
    scale = np.sqrt(np.diag(inverse))
    values, vectors = np.linalg.eigh(inverse / (scale * scale[:, None]))
    factor = scale[:, None] * (vectors * np.sqrt(np.maximum(values, 0.0)))
    normal = np.random.default_rng(0).standard_normal((DRAWS, len(inverse)))
    around = z + case.level * (normal @ factor.T).reshape(DRAWS, *z.shape)
    return SearchedPosterior(observation, prior, theta, TONE.to_theta(around, case.reference), case)
