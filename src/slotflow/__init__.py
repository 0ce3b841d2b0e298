"""SlotFlow: how many sinusoids are in the data, and the posterior of each.

Names are imported when they are first used, so that what needs no network (`slotflow --version`, the completion of
commands) does not wait for torch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "Config": "config",
    "Grid": "config",
    "Observation": "streams",
    "Posterior": "posterior",
    "Prior": "priors",
    "Simulation": "simulate",
    "SlotFlow": "model",
    "Stream": "streams",
    "simulate": "simulate",
}
"""Where each name is defined."""


def __getattr__(name: str) -> Any:
    """A public name, imported now and kept."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, imported or not, for completion in an interpreter."""
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This package: the function `simulate` keeps its name when the module of the same name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "simulate" and isinstance(value, ModuleType):
            value = value.simulate
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
