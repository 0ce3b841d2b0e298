"""The classical methods by their names, as `SlotFlow.infer` asks for them."""

from __future__ import annotations

from typing import Any

from slotflow.data.observation import Observation
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["baseline"]


def baseline(
    method: str, observation: Observation, prior: Prior, *, seed: int = 0, **options: Any
) -> Posterior:
    """The posterior of one observation by a classical method.

    Args:
        method: "classical" (matching pursuit and Laplace's approximation), "rjmcmc" or "smc".
        observation: What was measured.
        prior: What is known beforehand.
        seed: Seed of all random numbers; the classical search uses none.
        **options: Further arguments of `slotflow.baselines.rjmcmc.rjmcmc` or `slotflow.baselines.smc.smc`.
    """
    if method == "classical":
        from slotflow.baselines.laplace_posterior import classical_posterior

        return classical_posterior(observation, prior, **options)
    if method == "rjmcmc":
        from slotflow.baselines.rjmcmc import rjmcmc

        return rjmcmc(observation, prior, seed=seed, **options)
    from slotflow.baselines.smc import smc

    return smc(observation, prior, seed=seed, **options)
