"""The methods whose properties are measured, each under the name that it has in `cost/methods.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotflow.data.observation import Observation
from slotflow.exact.refined import RefinedPosterior
from slotflow.network.model import SlotFlow
from slotflow.posterior.posterior import Posterior
from slotflow.studies.paper.cost.methods import SAMPLERS, Method, load, published
from slotflow.studies.paper.result import Data

__all__ = ["EXACT_SECONDS", "SET_NUMBER", "Found", "Methods", "load_methods"]

SET_NUMBER = 86
"""Number of the signals, as that of a test set."""
EXACT_SECONDS = 60.0
"""Budget of an exact step, which takes a small part of it."""

Found = dict[str, Data]
"""What was measured of each method, by its name."""


@dataclass(frozen=True)
class Methods:
    """The methods whose properties are measured."""

    model: SlotFlow
    """The default network, which proposes to the exact step as well, on the CPU."""
    untrained: SlotFlow
    """Preset `paper` with random weights."""
    samplers: Mapping[str, Method]
    """RJMCMC, SMC and the classical estimator, as far as they are installed."""

    def networks(self) -> dict[str, SlotFlow]:
        """The two networks by the name of their method."""
        return {"network": self.model, "paper": self.untrained}

    def posteriors(self, exact: RefinedPosterior, observation: Observation) -> dict[str, Posterior]:
        """The exact answer, the network's answer behind it, and that of the untrained network."""
        untrained = self.untrained.infer(observation, refine=False)
        return {"exact": exact, "network": exact.amortized, "paper": untrained}


def load_methods(model: SlotFlow, names: Sequence[str], small: bool) -> Methods:
    """The methods, with samplers that run for as long as the size of the study asks."""
    effective, particles = (500.0, 320) if small else (2000.0, 1000)
    samplers = {
        name: load(name, effective=effective, particles=particles)
        for name in (*SAMPLERS, "classical")
        if name in names
    }
    return Methods(model, published(), samplers)
