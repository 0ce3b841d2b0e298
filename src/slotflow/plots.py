"""Pictures: the public names of `slotflow.show.plots`."""

from slotflow.show.plots import *  # noqa: F403
from slotflow.show.plots import __all__ as __all__
