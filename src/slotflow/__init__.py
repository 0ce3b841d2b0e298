"""SlotFlow: how many sinusoids are in the data, and the posterior of each."""

from slotflow.config import Config, Grid
from slotflow.model import SlotFlow
from slotflow.posterior import Posterior
from slotflow.priors import Prior
from slotflow.simulate import Simulation, simulate
from slotflow.streams import Observation, Stream

__version__ = "0.1.0"

__all__ = [
    "Config",
    "Grid",
    "Observation",
    "Posterior",
    "Prior",
    "Simulation",
    "SlotFlow",
    "Stream",
    "__version__",
    "simulate",
]
