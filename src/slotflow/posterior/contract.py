"""What every posterior p(K, Θ | x) answers, whatever method it comes from: draws, densities, fits and limits.

`Result` is the contract. A method that has something overrides the method; asked for what a method does not have, it
raises a ValueError that says where to get it. Tables, exports and files are written for a `Result` and never ask which
class they were given. `Posterior` (`posterior.py`) is the front that users hold: a `Result` with tables, files,
pictures and exports as methods.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.alignment import Alignment, align
from slotflow.posterior.draws import WeightedDraws
from slotflow.posterior.facts import Facts
from slotflow.posterior.plan import joint_plan
from slotflow.posterior.tuples import CentredSlots, JointSlots, SampledSlots, log_permanent
from slotflow.signal.model import without_components
from slotflow.signal.waveforms import Waveform
from slotflow.signal.waveforms.several import SeveralAmplitudes
from slotflow.signal.waveforms.single import SingleAmplitude

if TYPE_CHECKING:
    from slotflow.posterior.limits import UpperLimit
    from slotflow.signal.likelihood import Likelihood

__all__ = ["Result", "centre_of"]

FIT_DRAWS = 2000
"""Draws among which the one that fits best is chosen."""
OTHER_WAVEFORMS = (SingleAmplitude, SeveralAmplitudes)
"""Waveforms whose components are subtracted sample by sample, since likelihoods know tones."""
CENTRE_DRAWS = 200
"""Draws behind the centres of components whose densities do not know them."""


class Result(Facts):
    """Posterior over the number of components and their parameters, with draws from it."""

    # ------------------------------------------------------------------ draws and densities

    def sample(self, n: int, k: int | None = None, seed: int = 0) -> Array:
        """Draws Θ given K.

        Args:
            n: Number of draws.
            k: Number of components; k_map if None. Of a K that was excluded without being sampled (`sampled`), draws
                are the network's, which know no minimum separation.
            seed: The same seed gives the same draws.

        Returns:
            The parameters that `waveform` names, (n, k, P), of tones (A, φ in [0, 2π), f in Hz); column i belongs to
            slot i.
        """
        _check_number(n, "sample")
        return self.slots.sample(n, self._k(k), seed)

    def sample_joint(self, n: int, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
        """Draws (K, Θ).

        Returns:
            Θ, (n, K_max, P), NaN where a draw has no such component, and K of each draw, (n,).
        """
        plan = self._plan(n, seed)
        theta = np.full((n, self.k_max, self.waveform.size), np.nan)
        counts = np.zeros(n, dtype=np.int64)
        for k, rows, k_seed in plan:
            theta[rows, :k], counts[rows] = self.slots.sample(rows.size, k, k_seed), k
        return theta, counts

    def sampled(self, k: int) -> bool:
        """Whether there are draws of k components from the posterior itself, not from what it started from."""
        return self.slots.sampled(k) if isinstance(self.slots, SampledSlots) else True

    @property
    def has_sigma(self) -> bool:
        """Whether there are draws of the noise level."""
        return isinstance(self.slots, SampledSlots)

    def sample_sigma(self, n: int, k: int | None = None, seed: int = 0) -> Array:
        """Draws of the noise level, (n,); they belong to those of `sample` with the same seed.

        Args:
            n: Number of draws.
            k: Number of components; k_map if None. A K that was not sampled is refused.
            seed: The same seed gives the same draws.
        """
        if not isinstance(self.slots, SampledSlots):
            raise ValueError(
                f"the posterior by {self.method!r} has an estimate of the noise level, noise_std, but no draws of it; "
                "the exact step, RJMCMC, SMC and the classical estimator have some."
            )
        return self.slots.sample_sigma(n, self._sampled(k), seed)

    def joint_sigma(self, n: int, seed: int = 0) -> Array:
        """Noise levels of the draws that `sample_joint` gives for the same seed, (n,); NaN where there is none."""
        plan = self._plan(n, seed)
        sigma = np.full(n, np.nan)
        if self.has_sigma:
            for k, rows, k_seed in plan:
                if self.sampled(k):
                    sigma[rows] = self.sample_sigma(rows.size, k, k_seed)
        return sigma

    def weighted(self, k: int | None = None) -> WeightedDraws:
        """Draws as they were weighted: theta (n, k, P), sigma (n,), log_weights (n,) and weights (n,).

        Args:
            k: Number of components; k_map if None. A K that was not sampled is refused.
        """
        raise ValueError(
            f"the posterior by {self.method!r} has no weighted draws; sample(n) gives equally weighted ones. "
            "Weighted ones come from the exact step of a single band."
        )

    def log_prob(self, theta: ArrayLike) -> Array | float:
        """Log p(K, Θ | x) of labelled tuples per unit of the parameters (A, rad, Hz), symmetrized over slots.

        Args:
            theta: (k, P) or (n, k, P); angles are taken modulo 2π. k = 0 is an empty tuple.

        Returns:
            A float or (n,); −inf outside the constraints.
        """
        array, size = np.asarray(theta, dtype=np.float64), self.waveform.size
        if array.ndim not in (2, 3) or array.shape[-1] != size:
            raise ValueError(
                f"log_prob expects theta as (k, {size}) or (n, k, {size}), received {array.shape}."
            )
        batch = array if array.ndim == 3 else array[None]
        k = self._k(batch.shape[1])
        if self.k_probs[k] == 0:
            total = np.full(len(batch), -np.inf)
        elif isinstance(self.slots, JointSlots):
            total = math.log(self.k_probs[k]) + self.slots.joint_log_prob(batch)
        else:
            log_q = math.log(self.k_probs[k]) - math.lgamma(k + 1)
            total = log_q + log_permanent(self.slots.log_prob(batch))
        return total if array.ndim == 3 else float(total[0])

    def constrained_fraction(self, k: int | None = None) -> float:
        """Share of the raw draws for k components that broke A > 0 or the band and were drawn again."""
        return self.slots.constrained_fraction(self._k(k))

    def aligned(self, n: int = 2000, seed: int = 0) -> Alignment:
        """Joint draws over all K whose columns are components, the same in all draws, with their existence."""
        theta, counts = self.sample_joint(n, seed)
        return align(theta, counts, self.k_probs, self.resolution, waveform=self.waveform)

    # ------------------------------------------------------------------ fits

    def statistics(self) -> Likelihood:
        """The likelihood of the data, which fits, residuals and tests ask; refused where a file lacks the data.

        The noise is that of `noise_model`.
        """
        return self._likelihood_of(self._data())

    def _likelihood_of(self, data: Observation) -> Likelihood:
        """The likelihood of tones in data, under the noise of this posterior."""
        from slotflow.signal.likelihood import Statistics
        from slotflow.signal.likelihood.observed import likelihood_of

        noise = self.noise_model
        if data.is_plain and noise is None:
            return Statistics.from_observation(data)
        highest = data.long.nyquist
        band = (-highest if data.is_complex else 0.0, highest)
        return likelihood_of(data, noise, band if self.prior is None else self.prior.frequency)

    def centres(self, k: int | None = None, seed: int = 0) -> Array:
        """Where k components are, (k, P): what the slots say, or else medians of draws, circular means of angles.

        Args:
            k: Number of components; k_map if None.
            seed: Of the draws.
        """
        k = self._k(k)
        if isinstance(self.slots, CentredSlots):
            return self.slots.centres(k)
        return centre_of(self.sample(CENTRE_DRAWS, k, seed), self.waveform)

    def known_fit(self, k: int) -> Array | None:
        """The best fit of k components, (k, P), where the method has found one already; None otherwise."""
        return None

    def best_fit(self, k: int | None = None) -> Array:
        """The parameters of largest likelihood that are known for k components, (k, P).

        A method that fits gives the maximum of the likelihood; for any other this is the best of 2000 draws.

        Args:
            k: Number of components; k_map if None.
        """
        from slotflow.posterior.residual import best_draw, best_draw_by_samples

        if isinstance(self.waveform, OTHER_WAVEFORMS):
            draws = self.sample(CENTRE_DRAWS, k)
            return best_draw_by_samples(draws, self._data(), self.waveform)
        return best_draw(self.sample(FIT_DRAWS, k), self.statistics())

    def residual(self, k: int | None = None) -> list[Array]:
        """Each stream's data minus the best fit, over the stream's noise ratio, (N_s,).

        Args:
            k: Number of components of the fit, as in `best_fit`; k_map if None.
        """
        from slotflow.posterior.residual import residual

        if isinstance(self.waveform, OTHER_WAVEFORMS):
            rest = self._likelihood_of(
                without_components(self._data(), self.best_fit(k), self.waveform)
            )
            return rest.residuals(np.zeros((0, rest.waveform.coordinates)))
        return residual(self.statistics(), self.best_fit(k))

    def upper_limit(
        self, frequency: ArrayLike | None = None, credibility: float = 0.95
    ) -> UpperLimit | None:
        """The largest credible amplitude of a lone tone at each frequency; None unless p(K = 0 | x) > 0.1.

        Args:
            frequency: In Hz, (m,); by default four per bin over the prior's band.
            credibility: Probability of a smaller amplitude.
        """
        from slotflow.posterior.limits import upper_limit

        if not self.has_data:
            return None
        return upper_limit(
            self.observation,
            self.prior,
            self.noise_std,
            float(self.k_probs[0]),
            frequency,
            credibility,
            self.statistics(),
        )

    # ------------------------------------------------------------------ helpers

    def _plan(self, n: int, seed: int) -> list[tuple[int, NDArray[np.int64], int]]:
        """Which of n joint draws have K components, and the seed of their Θ: (K, rows, seed) for each K."""
        _check_number(n, "sample_joint")
        counts, _, seeds = (one[0] for one in joint_plan(self.k_probs[None], n, seed))
        return [
            (int(k), np.flatnonzero(counts == k), int(seeds[k])) for k in np.unique(counts).tolist()
        ]

    def _sampled(self, k: int | None) -> int:
        """The same, refused where it was not sampled."""
        k = self._k(k)
        if not self.sampled(k):
            have = [j for j in range(self.k_max + 1) if self.sampled(j)]
            raise ValueError(
                f"expected a number of components that was sampled, one of {have}, received {k}; "
                f"the verdict says why: {self.verdict}."
            )
        return k


def centre_of(draws: Array, waveform: Waveform) -> Array:
    """Medians over draws, (n, k, P) to (k, P), with circular means in [0, 2π) of angles."""
    middle: Array = np.median(draws, axis=0).reshape(draws.shape[1:])
    for i, parameter in enumerate(waveform.parameters):
        if parameter.circular:
            middle[:, i] = np.mod(np.angle(np.exp(1j * draws[..., i]).mean(0)), 2 * np.pi)
    return middle


def _check_number(n: int, caller: str) -> None:
    """Refuses a number of draws that is none."""
    if n != int(n) or n < 0:
        raise ValueError(f"{caller} expects a whole number n >= 0 of draws, received {n}.")
