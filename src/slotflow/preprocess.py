"""Looking at data: the public names of `slotflow.data.preprocess`."""

from slotflow.data.preprocess import *  # noqa: F403
from slotflow.data.preprocess import __all__ as __all__
