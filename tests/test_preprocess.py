"""A first look at a series: offset and trend with their errors, gaps, and the band that is proposed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray
from statistics_helpers import assert_mean, assert_within

from slotflow import Channel, Stream
from slotflow.data.preprocess import FEWEST_BINS, describe, detrend, fill_gaps, strongest_band
from slotflow.data.trend import without_line
from slotflow.network.config import Config
from slotflow.network.zoom.model import FEWEST_BINS as OF_THE_MODEL

Array = NDArray[np.float64]

N, DT = 3000, 0.1
T = DT * np.arange(N)


def noise(seed: int, n: int = N) -> Array:
    """White noise of standard deviation 1."""
    return np.random.default_rng(seed).normal(size=n)


# --- Describing and detrending --------------------------------------------------------------------


def test_description(seed: int) -> None:
    x = 4 + 0.05 * (T - T.mean()) + 2 * np.cos(2 * np.pi * 2.7 * T) + noise(seed)
    stream = Stream(x, DT, 7.0, t_ref=1e9, unit="V", notes=("said",), filled=((3, 4), (9, 9)))
    found = describe(stream)
    assert (found.n, found.dt, found.t0, found.t_ref) == (N, DT, 7.0, 1e9)
    assert (found.rate, found.span) == (pytest.approx(10.0), pytest.approx(300.0))
    assert (found.unit, found.filled_count, found.notes) == ("V", 3, ("said",))
    assert found.rms == pytest.approx(np.std(x), rel=1e-12)
    assert_within(found.offset, 4.0, found.offset / found.offset_sigmas)
    assert_within(found.trend, 0.05, found.trend / found.trend_sigmas)
    # The median of M independent exponentials has the error 1/√M, σ² ln 2 being its mean; σ half of the relative one.
    independent = N / 2 / (1 + 2 * (4 / 9 + 1 / 36))
    assert_within(found.noise, 1.0, 0.5 / np.log(2) / np.sqrt(independent))
    assert "3,000 samples × 0.1 s = 300 s, 10 samples per second" in str(found)
    assert "said" in str(found) and "3 of 3,000 samples were missing" in str(found)
    assert any(f"a linear trend of {found.trend:.4g}" in warning for warning in found.warnings)


def test_errors_of_offset_and_trend(seed: int) -> None:
    """Over many series of noise, both are standard normal in units of their errors."""
    found = [describe(Stream(noise(seed + i, 500), DT)) for i in range(400)]
    for name in ("offset_sigmas", "trend_sigmas"):
        z = np.array([getattr(one, name) for one in found])
        assert_mean(z, 0.0)
        assert_mean(z**2, 1.0)
        assert np.all(np.abs(z) < 5)
    assert not any(one.warnings for one in found)


def test_a_tone_is_no_trend(seed: int) -> None:
    """In an unweighted fit, the control, a tone of ten cycles is one."""
    phases = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    tones = [10 * np.cos(2 * np.pi * 10.3 / 300 * T + p) + noise(seed) for p in phases]
    assert all(abs(describe(Stream(x, DT)).trend_sigmas) < 5 for x in tones)
    u = T - T.mean()
    slopes = [u @ x / (u @ u) for x in tones]
    assert max(np.abs(slopes)) * np.sqrt(u @ u) > 5


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 5, 400])
def test_detrend_is_least_squares(order: int, n: int, seed: int) -> None:
    """Against NumPy's own polynomial fit; a fit through as many points as it has coefficients leaves nothing."""
    t = DT * np.arange(n)
    x = noise(seed, n) + 3e4 - 20 * t + 0.3 * t**2 - 0.01 * t**3
    flat = detrend(Stream(x, DT), order)
    fitted = np.polynomial.Polynomial.fit(t, x, min(order, n - 1))(t)
    np.testing.assert_allclose(flat.values, x - fitted, atol=1e-7)
    assert n > order + 1 or np.abs(flat.values).max() < 1e-7


def test_detrend_keeps_the_rest_and_says_what_it_did(seed: int) -> None:
    x = noise(seed)
    ramp = Stream(x + 3 + 0.2 * T, DT, 5.0, sigma=1.0, t_ref=2.0, unit="V")
    flat = detrend(ramp, 1)
    slope, _ = np.polyfit(T, ramp.values, 1)
    offset = ramp.values.mean()
    said = f"offset {offset:.6g} and trend {slope:.6g} per second subtracted (least squares)"
    assert flat.notes == (said,)
    assert (flat.t0, flat.sigma, flat.t_ref, flat.unit) == (5.0, 1.0, 2.0, "V")
    assert detrend(ramp).notes == (f"offset {offset:.6g} subtracted (least squares)",)
    assert detrend(ramp, 3).notes[0].startswith("cubic with offset")
    for order in (-1, 4):
        with pytest.raises(ValueError, match=rf"order from 0 .* to 3 .*, received {order}"):
            detrend(ramp, order)


@pytest.mark.parametrize("cycles", [3.0, 4.3, 8.0])
def test_a_line_beside_a_tone_leaves_the_tone_alone(cycles: float) -> None:
    """Least squares, the control, takes a part of it: up to 6/(π c)² of its amplitude."""
    tone = np.sin(2 * np.pi * cycles * (T / 300 - 0.5))
    both = Stream(tone + 40 + 0.3 * T, DT)
    basis = np.stack([tone, np.cos(2 * np.pi * cycles * (T / 300 - 0.5))], 1)
    hann, plain = (
        np.linalg.lstsq(basis, rest.values, rcond=None)[0][0]
        for rest in (without_line(both), detrend(both, 1))
    )
    assert abs(hann - 1) < 0.4 * abs(plain - 1)
    assert abs(plain - 1) > 0.5 * 6 * (np.cos(np.pi * cycles) / (np.pi * cycles)) ** 2
    level = without_line(Stream(tone + 40, DT), 0)
    assert level.notes == ("offset 40 subtracted (Hann-weighted fit)",)
    np.testing.assert_allclose(level.values, tone, atol=1e-3)


def test_a_removed_trend_is_not_reported_again(seed: int) -> None:
    """A tone of few cycles shifts the fit; what that leaves is no reason to fit once more."""
    x = noise(seed) + 50 * np.sin(2 * np.pi * 3 / 300 * T) + 0.3 * T
    assert any("linear trend" in warning for warning in describe(Stream(x, DT)).warnings)
    assert any("linear trend" in one for one in describe(detrend(Stream(x, DT), 0)).warnings)
    rest = describe(detrend(Stream(x, DT), 1))
    assert abs(rest.trend_sigmas) > 5 and rest.warnings == []
    assert describe(Stream(x, DT, trend=1)).warnings == []


@pytest.mark.parametrize("values", [[3.0], [1.0, 2.0], [0.0] * 50, [1e308, -1e308] * 40])
def test_any_series_is_described(values: list[float]) -> None:
    found = describe(Stream(values, DT))
    numbers = [v for v in dataclasses.asdict(found).values() if isinstance(v, float)]
    assert np.isfinite(numbers).all()


# --- Filling --------------------------------------------------------------------------------------


def test_filling() -> None:
    x = np.arange(40.0)
    x[[0, 10, 11, 39]] = [np.nan, np.inf, -np.inf, np.nan]
    line, gaps = fill_gaps(x, "linear")
    assert gaps == ((0, 0), (10, 11), (39, 39))
    np.testing.assert_allclose(line[1:39], np.arange(1.0, 39.0))
    assert (line[0], line[39]) == (1.0, 38.0)  # nothing to join: the nearest
    mean, _ = fill_gaps(x, "mean")
    np.testing.assert_allclose(mean[[0, 10, 11, 39]], x[np.isfinite(x)].mean())
    assert np.isnan(x[0])  # the caller's array is left alone
    whole, none = fill_gaps([1.0, 2.0])
    assert none == () and whole.tolist() == [1.0, 2.0]


def test_filling_has_limits() -> None:
    x = np.zeros(200)
    x[20:31] = np.nan
    with pytest.raises(ValueError, match=r"at most 10 samples, received one of 11 .samples 20–30"):
        fill_gaps(x)
    assert fill_gaps(x, max_gap=11)[1] == ((20, 30),)
    x[::8] = np.nan
    with pytest.raises(ValueError, match="at most 10% of the samples"):
        fill_gaps(x, max_gap=20)
    with pytest.raises(ValueError, match="one of linear, mean, received 'spline'"):
        fill_gaps(x, "spline")
    with pytest.raises(ValueError, match=r"shape \(n,\)"):
        fill_gaps([[1.0]])


# --- The strongest band ---------------------------------------------------------------------------


def fits_the_model(stream: Stream, low: float, high: float) -> bool:
    """Whether the default network takes this band."""
    sizes = Config.from_preset("zoom").model.zoom
    assert sizes is not None
    width = (high - low) * stream.duration
    return OF_THE_MODEL <= width <= sizes.bins and 0 < low < high <= stream.nyquist


def test_widths_agree_with_the_model() -> None:
    assert FEWEST_BINS == OF_THE_MODEL


@pytest.mark.parametrize("f", [0.02, 0.4, 2.7, 4.99])
def test_band_holds_the_tone_whatever_the_offset(f: float, seed: int) -> None:
    x = 0.5 * np.cos(2 * np.pi * f * T + 1) + noise(seed)
    for extra in (0.0, 1e4 + 30 * T):
        stream = Stream(x + extra, DT)
        band = strongest_band(stream)
        assert band.significant and band.low <= f <= band.high
        assert band.peak == pytest.approx(f, abs=1 / 300)
        assert fits_the_model(stream, *band.edges)
        assert (band.high - band.low) * 300 > 145
        low, high = map(float, band.name.split(":"))
        assert (low, high) == band.edges


def test_band_holds_the_richest_stretch(seed: int) -> None:
    """Three tones outweigh one that is stronger than each of them; they lie in the middle."""
    tones = [(0.5, 1.0), (3.0, 0.7), (3.1, 0.7), (3.2, 0.7)]
    x = sum(a * np.cos(2 * np.pi * f * T) for f, a in tones) + noise(seed)
    band = strongest_band(Stream(x, DT))
    assert band.low < 3.0 and band.high > 3.2
    assert 0.5 * (band.low + band.high) == pytest.approx(3.1, abs=2 / 300)


def test_noise_alone_is_not_significant(seed: int) -> None:
    """At a false alarm of 0.1 %, 100 series of noise show one in a tenth of the cases; 6 never."""
    found = [strongest_band(Stream(noise(seed + i, 1000), DT)) for i in range(100)]
    assert sum(band.significant for band in found) < 6
    assert all(0 < band.low < band.high <= 5 for band in found)


@pytest.mark.parametrize("n", [34, 35, 60, 61, 299, 300, 301, 5000])
@pytest.mark.parametrize("dt", [1e-6, 0.37, 1.0, 86400.0])
def test_band_fits_any_length_and_rate(n: int, dt: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    f = draw.uniform(0.05, 0.49)
    x = np.cos(2 * np.pi * f * np.arange(n)) + 0.1 * draw.normal(size=n)
    stream = Stream(x, dt)
    band = strongest_band(stream)
    assert fits_the_model(stream, *band.edges)


def test_band_of_clean_and_empty_series() -> None:
    clean = strongest_band(Stream(np.cos(2 * np.pi * 2.7 * T), DT))
    assert 0.5 * (clean.low + clean.high) == pytest.approx(2.7, abs=3 / 300)
    empty = strongest_band(Stream(np.zeros(N), DT))
    assert not empty.significant and empty.snr == 0
    with pytest.raises(ValueError, match="at least 34 samples to find a band in, received 33"):
        strongest_band(Stream(np.zeros(33), DT))
    with pytest.raises(ValueError, match="bins >= 13"):
        strongest_band(Stream(np.zeros(N), DT), bins=5)
    narrow = strongest_band(Stream(np.cos(2 * np.pi * 2.7 * T), DT), bins=20)
    assert 15 < (narrow.high - narrow.low) * 300 < 20


# --- Any times ------------------------------------------------------------------------------------


def test_series_at_any_times_are_described(seed: int) -> None:
    """Noise level, offset, slope and spectrum of uneven, incomplete and complex series, to their errors."""
    draw = np.random.default_rng(seed)
    n, sigma = 3000, 0.7
    t = np.sort(draw.uniform(0, 300, n))
    x = 5 + 0.02 * (t - 150) + 0.3 * np.cos(2 * np.pi * 1.3 * t) + sigma * draw.normal(size=n)
    uneven = Channel(x, times=t)
    gaps = Channel(
        np.where(np.abs(T - 100) < 20, np.nan, 5 + noise(seed) + np.cos(2 * np.pi * 1.3 * T)), DT
    )
    complex_samples = Channel(
        3 + np.exp(2j * np.pi * 1.3 * T) + noise(seed) + 1j * noise(seed + 1), DT
    )
    for channel, level in ((uneven, sigma), (gaps, 1.0), (complex_samples, 1.0)):
        found = describe(channel)
        assert found.noise == pytest.approx(level, rel=0.15), found
        assert found.n == channel.n and str(found)
    assert describe(uneven).offset == pytest.approx(5, abs=5 * 2 * sigma / n**0.5)
    assert describe(uneven).trend == pytest.approx(0.02, abs=5 * 2 * 12**0.5 * sigma / n**0.5 / 300)
    assert describe(complex_samples).offset == pytest.approx(3, abs=0.2)
    assert "missing" in str(describe(gaps)) and not describe(gaps).even
    for channel in (uneven, gaps):
        band = strongest_band(channel)
        assert band.low < 1.3 < band.high and band.peak == pytest.approx(1.3, abs=0.02)
    with pytest.raises(ValueError, match="a real series"):
        strongest_band(complex_samples)


def test_detrending_at_uneven_times_with_errors(seed: int) -> None:
    draw = np.random.default_rng(seed)
    t = np.sort(draw.uniform(0, 300, 500))
    errors = draw.uniform(0.5, 5.0, 500)
    line = 7 - 0.05 * t
    rest = detrend(Channel(line, times=t, errors=errors), 1)
    np.testing.assert_allclose(rest.values, 0, atol=1e-10)
    bump = np.where(np.arange(500) == 40, 1000.0, 0.0)  # of a sample that hardly counts
    heavy = np.where(np.arange(500) == 40, 1e6, 1.0)
    rest = detrend(Channel(line + bump, times=t, errors=heavy), 1)
    np.testing.assert_allclose(np.delete(rest.values, 40), 0, atol=1e-6)
