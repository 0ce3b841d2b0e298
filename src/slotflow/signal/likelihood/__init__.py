"""The likelihood of components in data: one object that fits, samplers, networks, bounds and limits ask.

- `base`: what such an object answers (`Likelihood`).
- `products`: from inner products of basis functions to the normal equations, for any waveform.
- `even`: tones on even grids in white noise, from closed forms (`kernels`) and a table (`table`).
- `statistics`: the data of such signals (`Statistics`), the instance that the package uses.
- `dense`: any times, any noise covariance, any waveform, written out: what the others are tested against.
"""

from slotflow.signal.likelihood.base import Likelihood
from slotflow.signal.likelihood.products import Equations, Products
from slotflow.signal.likelihood.statistics import Statistics

__all__ = ["Equations", "Likelihood", "Products", "Statistics"]
