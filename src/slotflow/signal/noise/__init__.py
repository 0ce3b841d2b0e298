"""What is assumed of the noise: its level, which is integrated out, and its shape, which makes it white.

- `base`, `white`: one level for all samples, unknown between bounds or known.
- `model`: the shape of the noise as nodes, each of which whitens the channels.
- `stated`: what a person can say; `choice`: from that, or from tests of the data, to a model.
- `ar`, `power_law`, `psd`, `local`: the models, one file each; `quadrature`: where their nodes lie.
- `draws`: random noise of every kind.
- `outliers`: samples that no noise explains, dropped.
- `series`, `background`, `burg`, `filters`, `colour`: samples without lines, and filters that whiten them.
"""

from slotflow.signal.noise.base import Noise
from slotflow.signal.noise.white import SMALLEST_LEVEL, WhiteNoise

__all__ = ["SMALLEST_LEVEL", "Noise", "WhiteNoise"]
