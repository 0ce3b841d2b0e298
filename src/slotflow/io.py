"""Reading files: the public names of `slotflow.data.read`."""

from slotflow.core.files import atomic_path
from slotflow.data.read.files import find_files, read, read_observation, read_observations
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import open_signals
from slotflow.signal.simulation_file import write_simulation

__all__ = [
    "ReadOptions",
    "atomic_path",
    "find_files",
    "open_signals",
    "read",
    "read_observation",
    "read_observations",
    "write_simulation",
]
