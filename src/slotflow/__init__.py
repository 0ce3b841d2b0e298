"""SlotFlow: how many sinusoids are in the data, and the posterior of each.

Names are imported when they are first used, so that what needs no network (`slotflow --version`, the completion of
commands) does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slotflow.core.later import answer_with
from slotflow.core.version import __version__

if TYPE_CHECKING:
    from slotflow.data.channel import Channel, Stream
    from slotflow.data.gain import FreeGain
    from slotflow.data.observation import Observation
    from slotflow.data.observations import Observations
    from slotflow.data.sampling import Grid
    from slotflow.many.catalogue import Catalogue, catalogue
    from slotflow.network.config import Config
    from slotflow.network.model import SlotFlow
    from slotflow.posterior.many import Posteriors
    from slotflow.posterior.posterior import Posterior
    from slotflow.signal.prior import Prior
    from slotflow.signal.simulation import Simulation, simulate
    from slotflow.signal.simulation_like import simulate_like

__all__ = [
    "Catalogue",
    "Channel",
    "Config",
    "FreeGain",
    "Grid",
    "Observation",
    "Observations",
    "Posterior",
    "Posteriors",
    "Prior",
    "Simulation",
    "SlotFlow",
    "Stream",
    "__version__",
    "catalogue",
    "simulate",
    "simulate_like",
]

_MODULES = {
    "Catalogue": "many.catalogue",
    "Channel": "data.channel",
    "Config": "network.config",
    "FreeGain": "data.gain",
    "Grid": "data.sampling",
    "Observation": "data.observation",
    "Observations": "data.observations",
    "Posterior": "posterior.posterior",
    "Posteriors": "posterior.many",
    "Prior": "signal.prior",
    "Simulation": "signal.simulation",
    "SlotFlow": "network.model",
    "Stream": "data.channel",
    "catalogue": "many.catalogue",
    "simulate": "signal.simulation",
    "simulate_like": "signal.simulation_like",
}
"""Where each name is defined."""

answer_with(
    {
        "read_observation": "slotflow.data.read.files:read_observation",
        "load_posterior": "slotflow.posterior.loaded:load",
        "dataset_of_many": "slotflow.posterior.many_file:dataset_of_many",
        "write_many": "slotflow.posterior.many_file:write_many",
        "load_many": "slotflow.posterior.many_file:load_many",
        "infer": "slotflow.infer.each:posteriors",
        "infer_many": "slotflow.infer.together:posteriors_together",
        "network_class": "slotflow.network.build:network_class",
        "load_pretrained": "slotflow.network.build:load_pretrained",
        "infer_band": "slotflow.bands.windows:infer_band",
        "baseline": "slotflow.baselines.methods:baseline",
        "refine": "slotflow.exact.refine:refine",
        "plot": "slotflow.show.plots.family:plot",
        "report": "slotflow.show.report.report:write_report",
    }
)


def __getattr__(name: str) -> Any:
    """A public name, imported now and kept."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, imported or not, for completion in an interpreter."""
    return sorted(__all__)
