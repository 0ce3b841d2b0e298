"""Reading files: the public names of `slotflow.data.read`."""

from slotflow.core.files import atomic_path
from slotflow.data.read.files import find_files, read_observation, read_observations, read_stream
from slotflow.signal.simulation_file import write_simulation

__all__ = [
    "atomic_path",
    "find_files",
    "read_observation",
    "read_observations",
    "read_stream",
    "write_simulation",
]
