r"""Does the model explain the data? Tests of what it leaves.

The residual of K components that explain the data, whitened as the noise model says, is white Gaussian noise of one
level. Each test has a p-value under that hypothesis; the verdict (`verdict.py`) compares the smallest of the m
p-values with false_alarm/m. Which tests can be made depends on the data: short series are too short for some, uneven
ones have no Fourier grid, and where the noise is local only its band counts.

- `left`: what is left of each channel, and what the fit has taken from it.
- `laws`: one test, and the laws behind p-values.
- `spectrum`: peaks, level, colour (`uneven` where times are); `lags`: correlations from sample to sample, in the band
  and outside.
- `samples`: steadiness, shape, repeats, levels.
- `made`: `check_residual`, which makes the tests that the data allow.

**constant**: a stream of one value only is no measurement, and no other test is made. **rounding**: if nothing is
left but rounding, the stated level alone is tested.
"""

from slotflow.posterior.whiteness.laws import Check, peak_probability
from slotflow.posterior.whiteness.made import check_residual, colour_doubts

__all__ = ["Check", "check_residual", "colour_doubts", "peak_probability"]
