"""The methods whose properties are measured, each under the name that it has in `cost/methods.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotflow.data.observation import Observation
from slotflow.exact.refined import RefinedPosterior
from slotflow.network.model import SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.posterior.posterior import Posterior
from slotflow.studies.answers import proposer_for
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
    """The network that is measured, on the CPU."""
    untrained: SlotFlow | None
    """Preset `paper` with random weights; None where the network itself is the paper's."""
    samplers: Mapping[str, Method]
    """RJMCMC, SMC and the classical estimator, as far as they are installed."""
    proposer: SlotFlow | None = None
    """The network behind the exact posterior that all are compared with; None: the one that is measured."""

    @property
    def yardstick(self) -> SlotFlow:
        """The network behind the exact posterior that all are compared with."""
        return self.model if self.proposer is None else self.proposer

    def networks(self) -> dict[str, SlotFlow]:
        """The networks by the name of their method."""
        own = {"network": self.model}
        return own if self.untrained is None else own | {"paper": self.untrained}

    def posteriors(self, exact: RefinedPosterior, observation: Observation) -> dict[str, Posterior]:
        """The exact answer, the network's answer behind it, and that of the untrained network, if there is one."""
        own = exact.amortized
        if self.proposer is not None:  # under the prior of its training
            own = self.model.infer(observation, refine=False)
        answers: dict[str, Posterior] = {"exact": exact, "network": own}
        if self.untrained is not None:
            answers["paper"] = self.untrained.infer(observation, refine=False)
        return answers


def load_methods(model: SlotFlow, names: Sequence[str], small: bool) -> Methods:
    """The methods, with samplers that run for as long as the size of the study asks."""
    effective, particles = (500.0, 320) if small else (2000.0, 1000)
    samplers = {
        name: load(name, effective=effective, particles=particles)
        for name in (*SAMPLERS, "classical")
        if name in names
    }
    if isinstance(model, PaperSlotFlow):
        return Methods(model, None, samplers, proposer_for(model))
    return Methods(model, published(), samplers)
