"""Results without components have tables, files, pictures and reports, whatever the band."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from posterior_helpers import GaussianSlots

from slotflow import Channel, Observation, Posterior, Prior
from slotflow.show.plots.family import KINDS

RNG = np.random.default_rng(0)
STEPS = np.arange(200.0)
BANDS = {
    "from zero": (STEPS, (0.0, 0.1), False),
    "below the first bin": (STEPS, (0.0, 0.004), False),
    "around the circle": (STEPS, (0.45, 0.55), True),
    "uneven": (np.sort(RNG.uniform(0, 200, 200)), (0.9, 1.1), False),
    "mostly missing": (np.sort(RNG.choice(STEPS, 60, replace=False)), (0.3, 0.4), False),
}
"""Times, a band that touches zero or goes on beyond the Nyquist frequency (of the median step), complex samples."""


def noise_alone(
    times: NDArray[np.float64], band: tuple[float, float], is_complex: bool
) -> Posterior:
    """Gaussians around a tone that is in doubt, beside noise alone."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(times.size)
    values = x + 1j * rng.standard_normal(times.size) if is_complex else x
    tone = GaussianSlots([[0.2, 1.0, np.mean(band)]], [0.02, 0.1, 0.01 * np.ptp(band)])
    data, prior = Observation(Channel(values, times=times)), Prior(0, 1, frequency=band)
    return Posterior([0.9, 0.1], tone, data, 1.0, 0.05, "gaussian", prior)


@pytest.mark.parametrize("name", BANDS)
def test_noise_alone_in_any_band(name: str, tmp_path: Path) -> None:
    times, band, is_complex = BANDS[name]
    post = noise_alone(times, band, is_complex)
    assert name.startswith(("from", "below")) or band[1] > post.observation.long.nyquist
    limit = post.upper_limit()
    assert limit is not None and np.isfinite(limit.amplitude).all() and (limit.amplitude > 0).all()
    lowest = band[0] if is_complex else max(band[0], 1 / post.observation.long.duration)
    assert limit.frequency[0] == pytest.approx(min(lowest, band[1]))
    assert limit.frequency[-1] == band[1]
    assert len(post.summary()) == 0 and post.summary().attrs["upper_limit"] == limit.record()
    post.save(tmp_path / "a.nc")
    read = Posterior.load(tmp_path / "a.nc")
    again = read.upper_limit()
    assert again is not None
    np.testing.assert_allclose(again.amplitude, limit.amplitude, rtol=1e-6)
    for kind in KINDS:
        post.plot(kind)
    read.plot("overview")
    post.report(tmp_path / "a.html")
