"""What can be said about noise: the public names of `slotflow.signal.noise`.

Example::

    from slotflow.noise import ar, power_law, psd

    model.infer(observation, noise=ar(2))
    model.infer(observation, noise=psd("detector.txt"))
"""

from slotflow.signal.noise.choice import choose_noise
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.noise.outliers import without_outliers
from slotflow.signal.noise.stated import (
    StatedNoise,
    ar,
    auto,
    local,
    parse_noise,
    power_law,
    psd,
    white,
)

__all__ = [
    "NoiseModel",
    "StatedNoise",
    "ar",
    "auto",
    "choose_noise",
    "local",
    "parse_noise",
    "power_law",
    "psd",
    "white",
    "without_outliers",
]
