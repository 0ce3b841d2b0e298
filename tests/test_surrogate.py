"""Series that stand in for data which a network cannot read: tones are where they are said to be, noise stays white."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow.network.surrogate import surrogate


def spectrum_peak(x: np.ndarray, dt: float) -> float:
    power = np.abs(np.fft.rfft(np.hanning(len(x)) * x, 16 * len(x)))
    return float(power.argmax() / (16 * len(x) * dt))


def test_gaps_are_zeros() -> None:
    t = 5.0 + 0.1 * np.delete(np.arange(1000), np.r_[100:250, 700])
    found = surrogate(t, np.cos(2 * np.pi * 1.3 * t), 0.1, (1.0, 2.0))
    assert found is not None and found.shift == 0 and found.observation.is_plain
    x = found.observation.long.values
    assert len(x) == 1000 and not x[100:250].any() and x[99] != 0
    assert spectrum_peak(x, 0.1) == pytest.approx(1.3, abs=0.005)
    rng = np.random.default_rng(0)
    assert surrogate(np.sort(rng.uniform(0, 100, 1000)), np.ones(1000), 0.1, (1.0, 2.0)) is None
    assert surrogate(0.1 * np.r_[0:100, 900:1000], np.ones(200), 0.1, (1.0, 2.0)) is None


@pytest.mark.parametrize("f", [-0.44, -0.03, 0.0, 0.21, 0.5, 0.58])
@pytest.mark.parametrize("n", [400, 401])
def test_complex_tones_keep_their_places(f: float, n: int) -> None:
    t = 3.0 + np.arange(n)
    x = 1.5 * np.exp(1j * (2 * np.pi * f * t + 0.4))
    for band in ((f - 0.1, f + 0.3), (f - 0.35, f + 0.05)):
        found = surrogate(t, x, 1.0, band)
        assert found is not None
        series = found.observation.long
        peak = spectrum_peak(series.values, series.dt)
        assert found.places(np.array(peak)) == pytest.approx(f, abs=2e-4)
        assert 0 < found.band(band)[0] < found.band(band)[1] < series.nyquist
        assert np.sqrt(2 * np.mean(series.values**2)) == pytest.approx(1.5, rel=0.02)


def test_noise_stays_white(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 4096))
    found = surrogate(np.arange(4096.0), x[0] + 1j * x[1], 1.0, (-0.5, 0.5))
    assert found is not None
    y = found.observation.long.values
    power = np.abs(np.fft.rfft(y)[1:-1]) ** 2
    quarters = [part.mean() for part in np.array_split(power, 4)]
    assert np.ptp(quarters) / np.mean(quarters) < 6 / np.sqrt(len(power) / 4)
