"""What is assumed of the noise: its level, which is integrated out, and its shape, which makes it white.

- `base`, `white`: one level for all samples, unknown between bounds or known.
- `model`: the shape of the noise as nodes, each of which whitens the channels.
- `stated`: what a person can say; `choice`: from that to a model, by the tests of `tested` where nothing is said, which
  look at `versions` of the data.
- `ar`, `power_law` (with `red_whitening`), `psd`, `local`: the models; `quadrature`: where their nodes lie.
- `draws`: random noise of every kind.
- `outliers`: samples that no noise explains, dropped.
- `series`, `lines`, `background`, `burg`, `filters`, `colour`: samples without lines, and filters that whiten them.
"""

from slotflow.signal.noise.base import Noise
from slotflow.signal.noise.white import SMALLEST_LEVEL, WhiteNoise

__all__ = ["SMALLEST_LEVEL", "Noise", "WhiteNoise"]
