r"""The answer of the search alone, for windows for which there is no time.

The tones that the search found in and around a core are fitted together, and the Gaussian around the fit, with the
noise level of the floor at the core, stands for the posterior. The number of tones is what the search says: it was not
compared with any other, and the verdict is "approximate" and says so.
"""

from __future__ import annotations

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.draws import Draws
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict
from slotflow.signal.evidence import gaussian_draws
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior

__all__ = ["NOT_EXAMINED", "SearchedPosterior", "searched_posterior"]

NOT_EXAMINED = (
    "found by the search and fitted, not sampled: the time budget ended; raise max_seconds"
)
"""Why the answer of the search alone is approximate."""
DRAWS = 500
"""Draws of the Gaussian."""
STEPS = 10
"""Gauss–Newton steps of the fit."""


class SearchedPosterior(Posterior):
    """Tones of a window as the search found them, with the Gaussian around their fit.

    Args:
        observation: The data of the window.
        prior: That of the window.
        theta: The fit, sorted by place, (k, P).
        draws: Of the Gaussian, (n, k, P).
        level: Noise level at the window.
    """

    slots: Draws

    def __init__(
        self, observation: Observation, prior: Prior, theta: Array, draws: Array, level: float
    ) -> None:
        k = len(theta)
        k_max = max(prior.k_max, k)
        slots = Draws(k_max, {k: draws}, {k: np.full(len(draws), level)})
        probs = (np.arange(k_max + 1) == k).astype(np.float64)
        super().__init__(probs, slots, observation, level, None, "search", prior)
        self._fit = theta

    @property
    def verdict(self) -> Verdict:
        """Approximate: nothing was sampled."""
        return Verdict("approximate", NOT_EXAMINED)

    def known_fit(self, k: int) -> Array | None:
        """The fit; None for any other number of tones."""
        return self._fit if k == len(self._fit) else None

    def best_fit(self, k: int | None = None) -> Array:
        """The fit, (k, P), whatever number of tones is asked for."""
        return self._fit


def searched_posterior(
    observation: Observation, likelihood: Likelihood, prior: Prior, theta: Array, level: float
) -> SearchedPosterior:
    """The posterior of a window as far as the search knows it.

    Args:
        observation: The data without the tones far from the window.
        likelihood: Of these data.
        prior: That of the window.
        theta: Tones that the search found in the window, (k, P).
        level: Noise level at the window, in the data's units.
    """
    waveform = likelihood.waveform
    if not len(theta):
        none = np.zeros((DRAWS, 0, waveform.size))
        return SearchedPosterior(observation, prior, theta, none, level)
    found = fit(
        likelihood,
        torch.from_numpy(waveform.sorted(theta)[None].copy()),
        max_iterations=STEPS,
        curvature=False,
    )
    noise = torch.randn(
        DRAWS,
        waveform.size * len(theta),
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    )
    scale = (level / float(found.sigma[0])) ** 2
    draws = gaussian_draws(found.theta, scale * found.covariance, noise)[0].numpy()
    return SearchedPosterior(
        observation, prior, found.theta[0].numpy(), waveform.sorted(draws), level
    )
