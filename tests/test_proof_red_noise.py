"""Bands in red noise: the noise has the density that it says, and tones come from the prior that is stated."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow.studies.proof.red_noise import SAMPLES, density, draw_red_band, red_series, stated


@pytest.mark.parametrize("kind", ["ar", "power_law"])
def test_density_of_the_noise(kind: str, seed: int) -> None:
    """The mean periodogram of Hann-weighted pieces, away from the lowest frequencies, which leak."""
    rng, pieces = np.random.default_rng(seed), 200
    window = np.hanning(SAMPLES)
    window /= np.sqrt((window**2).sum())
    series = np.stack([red_series(kind, SAMPLES, rng) for _ in range(pieces)])
    power = (np.abs(np.fft.rfft(window * series)) ** 2).mean(0)
    bins = np.arange(20, 480, 5)
    ratio = power[bins] / density(kind, bins / SAMPLES)
    # Each is a mean of 200 exponentials; 92 of them, five standard errors, and 2 % for the curvature of the density.
    assert np.abs(ratio - 1).max() < 5 / pieces**0.5 + 0.02
    other = density("ar" if kind == "power_law" else "power_law", bins / SAMPLES)
    assert np.abs(power[bins] / other - 1).max() > 1  # the control


def test_bands_are_those_of_the_prior(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        band = draw_red_band("ar", rng)
        f = band.prior.frequency
        assert len(band.values) == SAMPLES and np.isfinite(band.values).all()
        place = band.truth[:, 2]
        assert ((place >= f[0]) & (place <= f[1])).all() and (np.diff(place) >= 0.0015).all()
        assert "sigma" not in stated(band.prior)
