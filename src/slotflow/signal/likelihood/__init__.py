"""The likelihood of components in data: one object that fits, samplers, networks, bounds and limits ask.

- `base`: what such an object answers (`Likelihood`).
- `products`: from inner products of basis functions to the normal equations, for any waveform.
- `even`: tones on even grids in white noise (`even_data`), from closed forms (`kernels`), Fourier moments of the data
  (`folded`) and a table of them (`table`).
- `statistics`: the data of such signals (`Statistics`), the fast path.
- `general`: tones in samples at any times, real or complex, in noise of any shape (`GeneralTones`), from sums
  (`summed`) that are smooth functions of frequency (`curves`) over filtered samples (`samples`, `projection`).
- `free_gains`: the same where the gains of some channels are free (`FreeGains`); `integrated_gains`: with the
  amplitudes in those channels integrated out (`IntegratedGains`).
- `observed`: which of these an observation takes (`likelihood_of`).
- `dense`: any times, any noise covariance, any waveform, written out: what the others are tested against.
"""

from slotflow.signal.likelihood.base import Likelihood
from slotflow.signal.likelihood.free_gains import FreeGains
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.integrated_gains import IntegratedGains
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.signal.likelihood.products import Equations, Products
from slotflow.signal.likelihood.statistics import Statistics

__all__ = [
    "Equations",
    "FreeGains",
    "GeneralTones",
    "IntegratedGains",
    "Likelihood",
    "Products",
    "Statistics",
    "likelihood_of",
]
