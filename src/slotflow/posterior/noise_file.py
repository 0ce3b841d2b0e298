"""The shape of the noise in a posterior's file, so that its residuals are whitened as they were in the analysis.

Of the values of the shape that were summed over, the file keeps the one that is most plausible beside the best fit: the
filter, noise ratio, red modes and lines outside the band of each channel. They are numbers in JSON, kept as bytes of
one variable, since an attribute of HDF5 has no room for long filters.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.signal.noise.model import ChannelNoise, Modes, NoiseModel, NoiseNode

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["noise_variables", "read_noise"]

NAME = "noise_model"
"""What a file calls the variable."""


def noise_variables(model: NoiseModel | None) -> dict[str, Any]:
    """The noise's shape as a variable of a file; none where the noise is white."""
    if model is None or model.is_white:
        return {}
    channels = [_record(channel) for channel in model.nodes[0].channels]
    text = json.dumps({"name": model.name, "local": model.local, "channels": channels})
    words = {"long_name": "how each channel was whitened, JSON in UTF-8"}
    return {NAME: (("noise_byte",), np.frombuffer(text.encode(), dtype=np.uint8), words)}


def read_noise(found: xr.Dataset) -> NoiseModel | None:
    """The noise's shape of a file; None where it was white, or where the file is older."""
    if NAME not in found:
        return None
    content = np.asarray(found[NAME].values, dtype=np.uint8).tobytes()
    record = json.loads(content.decode())
    node = NoiseNode(tuple(_channel(one) for one in record["channels"]))
    return NoiseModel(str(record["name"]), (node,), local=bool(record["local"]))


def _record(noise: ChannelNoise) -> dict[str, Any]:
    """The noise of one channel as plain values."""
    taps, modes = np.asarray(noise.taps), noise.modes
    return {
        "taps": [taps.real.tolist(), taps.imag.tolist() if np.iscomplexobj(taps) else None],
        "ratio": noise.ratio,
        "modes": modes and [modes.frequencies.tolist(), modes.variances.tolist()],
        "lines": list(noise.lines),
    }


def _channel(record: dict[str, Any]) -> ChannelNoise:
    """What `_record` gave."""
    real, imaginary = record["taps"]
    taps: Any = np.array(real, dtype=np.float64)
    if imaginary is not None:
        taps = taps + 1j * np.array(imaginary, dtype=np.float64)
    modes = record["modes"]
    return ChannelNoise(
        taps,
        float(record["ratio"]),
        modes and Modes(*(np.array(part, dtype=np.float64) for part in modes)),
        tuple(float(line) for line in record["lines"]),
    )
