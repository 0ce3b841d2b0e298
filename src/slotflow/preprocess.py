"""Looking at data and cutting them to a band: public names of `slotflow.data.preprocess` and `slotflow.data.narrow`."""

from slotflow.data.narrow import narrow
from slotflow.data.preprocess import *  # noqa: F403
from slotflow.data.preprocess import __all__ as _looking

__all__ = [*_looking, "narrow"]
