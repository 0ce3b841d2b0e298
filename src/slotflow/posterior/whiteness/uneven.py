r"""Tests in frequency of a residual at uneven times.

There is no set of frequencies at which white noise has independent Fourier coefficients. Peaks need none: their law is
that of a continuous curve (`laws.py`). For the **tilt** of noise that is known in its band only, the mean power at bins
in the lower half of the band is compared with that in the upper half. Let K_jk be the correlation of the coefficients
at bins j and k, from the sampling alone; a mean of m powers has the variance Σ|K_jk|²/m² of its square, and counts for
2m²/Σ|K_jk|² degrees of freedom in an F law. Bins that the fit has emptied are left out.
"""

from __future__ import annotations

import numpy as np

from slotflow.core.arrays import Array
from slotflow.posterior.whiteness.laws import Check, f_test
from slotflow.posterior.whiteness.left import Left
from slotflow.posterior.whiteness.spectrum import Level, peaks
from slotflow.signal.likelihood import GeneralTones, Likelihood

__all__ = ["uneven_checks"]

EMPTIED = 1.5
"""Bins around a component that its fit has emptied."""
FEWEST, MOST = 8, 400
"""Bins in half a band that are compared: too few say nothing, and more are thinned out."""


def uneven_checks(
    likelihood: Likelihood, theta: Array, left: Left, band: tuple[float, float]
) -> list[Check]:
    """Tests in frequency of what components leave; in the band alone where the noise is local.

    Args:
        likelihood: Of one signal.
        theta: The components, (K, P).
        left: What they leave of the first channel.
        band: Frequencies in Hz that may hold components.
    """
    if not (isinstance(likelihood, GeneralTones) and likelihood.local):
        return peaks(left, band, Level(max(left.variance, 1e-300), left.dof, False))
    rest = likelihood.less(likelihood.to_z(theta))
    dof = max(likelihood.n - likelihood.waveform.coordinates * len(theta), 1)
    level = Level(max(float(rest.energy[0]) / dof, 1e-300), dof, False)
    found = [check for check in peaks(left, band, level) if check.name == "peak in the band"]
    return found + _tilt(rest, likelihood.waveform.place_of(theta), band)


def _tilt(rest: GeneralTones, places: Array, band: tuple[float, float]) -> list[Check]:
    """The mean power in the lower half of a band against that in the upper half."""
    f = np.arange(band[0], band[1], max(rest.bin, (band[1] - band[0]) / (2 * MOST)))
    away = np.abs(f[:, None] - np.asarray(places)).min(1, initial=np.inf) > EMPTIED * rest.bin
    f = f[away]
    means, dofs = [], []
    for half in np.array_split(f, 2):
        if len(half) < FEWEST:
            return []
        weight = rest.weight_at(half)
        power = np.abs(np.asarray(rest.matched(half[None, :, None])))[0, :, 0] ** 2 / weight
        overlap = rest.overlap(half[:, None, None], half[None, :, None])[..., 0, 0]
        shared = float((np.abs(overlap) ** 2 / (weight[:, None] * weight)).sum())
        means.append(float(power.mean()))
        dofs.append(2 * len(half) ** 2 / shared)
    ratio = means[0] / max(means[1], 1e-300)
    words = f"the lower half of the band holds {ratio:.2f} times the noise of the upper half"
    return [Check("colour", f_test(ratio, dofs[0], dofs[1]), words, size=ratio)]
