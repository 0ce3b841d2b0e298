"""Noise models: what is assumed of the noise, integrated out of the likelihood, one file each.

- `base`: what a noise model answers.
- `white`: one level for all samples, unknown between bounds or known.
"""

from slotflow.signal.noise.base import Noise
from slotflow.signal.noise.white import SMALLEST_LEVEL, WhiteNoise

__all__ = ["SMALLEST_LEVEL", "Noise", "WhiteNoise"]
