"""Streams and observations: bookkeeping, the noise level with its standard error, and every bad input."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from statistics_helpers import assert_mean, assert_within

from slotflow import Channel, Observation, Observations, Stream
from slotflow.data.gaps import even_step, missing_stamps, rounded_grid
from slotflow.data.noise_level import GUARD_BINS, median_power, periodogram, power_outside

Array = NDArray[np.float64]
BAND = (2.5, 3.0)


# ---------------------------------------------------------------------- bookkeeping


def test_stream_properties():
    stream = Stream(np.arange(5), 0.25, t0=2.0, sigma=0.5)
    assert (stream.n, stream.duration, stream.nyquist, stream.sigma) == (5, 1.25, 2.0, 0.5)
    np.testing.assert_array_equal(stream.times, [2.0, 2.25, 2.5, 2.75, 3.0])
    assert stream.values.dtype == np.float64


@pytest.mark.parametrize(
    "values", [[1, 2], (1.0, 2.0), np.float32([1, 2]), np.int8([1, 2]), [True, False]]
)
def test_stream_takes_any_real_numbers(values: Any):
    np.testing.assert_array_equal(Stream(values, 1.0).values, np.asarray(values, dtype=float))


def test_stream_keeps_its_own_copy():
    values = np.zeros(4)
    stream = Stream(values, 1.0)
    values[0] = 7
    assert stream.values[0] == 0


@pytest.mark.parametrize("t0", [0.0, -3.5, 1.7e9])
def test_time_stamps_have_a_step(t0: float):
    t = t0 + np.arange(2000) / 512
    dt = even_step(t)
    assert dt == pytest.approx(1 / 512, rel=1e-6)
    np.testing.assert_allclose(Stream(np.ones(2000), dt, t0).times, t, rtol=0, atol=1e-3 / 512)


def test_printed_stamps_have_a_step():
    assert even_step(np.round(np.arange(1000) * 0.1, 5)) == pytest.approx(0.1)


def test_from_arrays():
    x, y = np.arange(6.0), np.arange(4.0)
    one = Observation.from_arrays(x, 0.1, t0_long=5.0)
    assert one.short is None and one.long.t0 == 5.0 and one.long.n == 6
    two = Observation.from_arrays(
        long=x, dt_long=0.1, short=y, dt_short=1 / 512, t0_long=1.0, t0_short=2.0
    )
    assert two.short is not None
    assert (two.short.n, two.short.dt, two.short.t0, two.long.t0) == (4, 1 / 512, 2.0, 1.0)
    np.testing.assert_array_equal(two.long.values, x)
    np.testing.assert_array_equal(two.short.values, y)


# ---------------------------------------------------------------------- noise level

SIGMA = 0.7


def no_tones(t: Array) -> Array:
    """Noise alone."""
    return np.zeros_like(t)


def strong_tones(t: Array) -> Array:
    """Tones on the band's edges and inside it, up to 70 times the noise, on a constant of 20."""
    parts = [
        a * np.cos(2 * np.pi * f * t + a) for a, f in [(50, 2.5), (20, 2.613), (1, 2.7), (50, 3.0)]
    ]
    return 20 + np.sum(parts, axis=0)


def noise_levels(
    n: int, tones: Callable[[Array], Array], seed: int, estimate: Callable[[Array], Any], draws: int
) -> Array:
    """Estimates of many noise draws, (draws, ...)."""
    rng = np.random.default_rng(seed)
    signal = tones(0.1 * np.arange(n))
    return np.array([estimate(signal + SIGMA * rng.standard_normal(n)) for _ in range(draws)])


def ours(x: Array) -> tuple[float, float]:
    """The estimator under test."""
    return Observation.from_arrays(x, 0.1).noise_level(BAND)


@pytest.mark.parametrize("tones", [no_tones, strong_tones])
@pytest.mark.parametrize("n", [512, 1001, 3000])
def test_noise_level_and_its_error_are_right(n: int, tones: Callable[[Array], Array], seed: int):
    draws = 2000
    sigma, error = noise_levels(n, tones, seed, ours, draws).T
    assert_mean(sigma**2, SIGMA**2)
    # The error bar is that of the scatter, whose own relative error is 1/√(2·draws).
    score = (sigma - SIGMA) / error
    assert_within(score.std(), 1.0, 1 / math.sqrt(2 * draws))
    assert_within(np.mean(np.abs(score) < 1.96), 0.95, math.sqrt(0.95 * 0.05 / draws))


def without_window(x: Array) -> tuple[float, float]:
    """A wrong estimator: the plain periodogram, into which the tones leak from afar."""
    power = np.abs(np.fft.rfft(x - x.mean())) ** 2 / x.size
    f = np.fft.rfftfreq(x.size, 0.1)
    outside = (f < 2.46) | (f > 3.04)
    return float(np.sqrt(power[outside].mean())), math.nan


def with_the_wrong_band(x: Array) -> tuple[float, float]:
    """A wrong use: the tones are not in the band that is left out."""
    return Observation.from_arrays(x, 0.1).noise_level((1.0, 1.5))


@pytest.mark.parametrize("wrong", [without_window, with_the_wrong_band])
def test_the_noise_check_rejects_wrong_estimators(
    wrong: Callable[[Array], tuple[float, float]], seed: int
):
    sigma = noise_levels(3000, strong_tones, seed, wrong, 200)[:, 0]
    with pytest.raises(AssertionError):
        assert_mean(sigma**2, SIGMA**2)


@pytest.mark.parametrize("n", [64, 65, 1000])
def test_power_outside_is_the_same_for_arrays_and_tensors(n: int, seed: int):
    """Each signal of a batch with its own band, and the definition in the time domain."""
    x = np.random.default_rng(seed).standard_normal((3, n))
    low, high = np.array([10.2, 14.0, 2.5]), np.array([12.0, 14.5, 40.0])
    power, count = power_outside(np.fft.rfft(x), n, low, high)
    tensors = [torch.from_numpy(a) for a in (x, low, high)]
    other, bins = power_outside(torch.fft.rfft(tensors[0]), n, *tensors[1:])
    np.testing.assert_allclose(other.numpy(), power, rtol=1e-12)
    np.testing.assert_array_equal(bins.numpy(), count)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)
    spectrum = np.abs(np.fft.rfft(window * x)) ** 2 / (window**2).sum()
    m = np.arange(spectrum.shape[1])
    for i in range(3):
        outside = (m < low[i] - GUARD_BINS) | (m > high[i] + GUARD_BINS)
        outside &= (m >= 3) & (m < m[-1])
        assert count[i] == outside.sum()
        np.testing.assert_allclose(power[i], spectrum[i, outside].sum(), rtol=1e-10)


def test_the_median_is_hardly_moved_by_tones(seed: int):
    """In contrast to the mean, which is the control."""
    t = np.arange(4000)
    noise = np.random.default_rng(seed).standard_normal(t.size)
    tones = sum(5 * np.cos(2 * np.pi * f * t) for f in (0.1, 0.21, 0.33))
    clean, power = periodogram(noise), periodogram(noise + tones)
    error = 1 / math.log(2) / math.sqrt(t.size / 2 / (1 + 2 * (4 / 9 + 1 / 36)))
    assert_within(float(median_power(power)), 1.0, error)
    assert float(median_power(power)) == pytest.approx(float(median_power(clean)), rel=0.02)
    assert power.mean() > 10 * clean.mean()


def test_noise_level_scales_with_the_data(seed: int):
    x = np.random.default_rng(seed).standard_normal(1000)
    sigma, error = ours(x)
    np.testing.assert_allclose(ours(1e-6 * x), (1e-6 * sigma, 1e-6 * error), rtol=1e-9)
    np.testing.assert_allclose(ours(x + 5.0), (sigma, error), rtol=1e-9)


@pytest.mark.parametrize(("n", "band"), [(1, BAND), (2, BAND), (20, BAND), (3000, (0.0, 5.0))])
def test_noise_level_says_when_it_cannot_tell(n: int, band: tuple[float, float]):
    sigma, error = Observation.from_arrays(np.arange(float(n)), 0.1).noise_level(band)
    assert math.isnan(sigma) and math.isnan(error)


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([math.nan, math.nan], "received 2 that are all missing"),
        ([math.inf, 1.0], "finite samples"),
        ([1.0, -math.inf, math.nan], "finite samples"),
        (["1.0", "x"], "numbers, received the type"),
        ([b"1.0"], "numbers, received the type"),
        ([None, 1.0], "numbers, received the type object"),
        ([[1.0, 2.0]], r"one series of shape \(n,\), received shape \(1, 2\)"),
        (3.0, r"received shape \(\)"),
        ([], "at least one sample"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "numbers, received the type"),
    ],
)
def test_bad_values_are_refused(values: Any, message: str):
    for build in (
        lambda: Stream(values, 0.1),
        lambda: Observation.from_arrays(values, 0.1),
        lambda: Observation.from_arrays([1.0], 0.1, short=values, dt_short=0.1),
    ):
        with pytest.raises(ValueError, match=message):
            build()


@pytest.mark.parametrize("dt", [0.0, -0.1, math.nan, math.inf])
def test_bad_steps_are_refused(dt: float):
    with pytest.raises(ValueError, match=f"dt must be a positive number of seconds, received {dt}"):
        Stream([1.0], dt)
    with pytest.raises(ValueError, match="dt must be a positive"):
        Observation.from_arrays([1.0], 0.1, short=[1.0], dt_short=dt)


@pytest.mark.parametrize("t0", [math.nan, -math.inf])
def test_bad_starts_are_refused(t0: float):
    with pytest.raises(ValueError, match="t0 must be finite"):
        Stream([1.0], 0.1, t0)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf])
def test_bad_noise_levels_are_refused(sigma: float):
    with pytest.raises(ValueError, match="sigma must be a positive number or None"):
        Stream([1.0], 0.1, sigma=sigma)


def test_short_stream_needs_its_step():
    with pytest.raises(ValueError, match="give dt_short"):
        Observation.from_arrays([1.0], 0.1, short=[1.0])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, 1.0, 1.0, 2.0], "must increase, but sample 2 is at 1 s after 1 s"),
        ([0.0, 2.0, 1.0, 3.0], "must increase, but sample 2"),
        ([3.0, 2.0, 1.0, 0.0], "must increase, but sample 1"),
        ([0.0, 1.0, math.nan, 3.0], "times must be finite"),
    ],
)
def test_bad_times_are_refused(times: Any, message: str):
    with pytest.raises(ValueError, match=message):
        Stream(np.ones(4), times=np.array(times))


def test_even_steps_are_told_from_others():
    assert even_step(np.array([0.0, 1.0, 2.0, 3.0005])) == pytest.approx(3.0005 / 3)
    for times in ([0.0, 1.0, 2.0, 3.02], [0.0, 1.0, 2.0, 4.0], [0.0]):
        assert even_step(np.array(times)) is None
    t = 0.1 * np.arange(3000)
    assert even_step(t) == pytest.approx(0.1)
    t[1500:] += 0.05
    assert even_step(t) is None


# ---------------------------------------------------------------------- what a reader adds


def test_streams_must_share_their_reference():
    long, short = Stream(np.ones(4), 0.1, t_ref=5.0), Stream(np.ones(4), 0.01)
    assert Observation(long).t_ref == 5.0
    with pytest.raises(ValueError, match=r"t_ref = 5\.0 s \(the first\) and 0\.0 s"):
        Observation(long, short)
    with pytest.raises(ValueError, match="t_ref must be finite"):
        Stream(np.ones(4), 0.1, t_ref=math.nan)


def test_stamps_with_holes_are_told_from_uneven_ones():
    kept = np.delete(np.arange(50), [20, 21, 40])
    t = kept.astype(float)
    np.testing.assert_array_equal(missing_stamps(t), kept)
    assert missing_stamps(np.arange(50.0)) is None
    rounded = np.round(kept / 512, 5)  # a printed step is off by 0.2 %, and the gap lasts 400 steps
    far = np.concatenate([rounded, np.round((kept + 450) / 512, 5), np.arange(500, 1600) / 512])
    places = missing_stamps(far, 1e-5)
    np.testing.assert_array_equal(places, np.rint(512 * far))
    t[5] += 0.4
    assert missing_stamps(t) is None


def test_spans_that_overflow_are_refused():
    for dt in (1e308, 5e-324):
        with pytest.raises(ValueError, match="must be finite"):
            Stream(np.ones(9), dt)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], np.arange(4.0), "data.csv", None])
def test_an_observation_is_made_of_channels(wrong: object):
    with pytest.raises(ValueError, match=r"expected Channels, received .*from_arrays"):
        Observation(wrong)  # type: ignore[arg-type]


def test_any_number_of_channels_but_none():
    one = Stream(np.zeros(4), 1.0)
    assert len(Observation([one, one, one]).channels) == 3
    with pytest.raises(ValueError, match="at least one channel"):
        Observation([])
    with pytest.raises(ValueError, match="all real or all complex"):
        Observation([one, Stream(np.zeros(4, complex), 1.0)])


def test_missing_samples_are_dropped_and_counted():
    """NaN is a missing sample: what is left keeps its times, and is no longer even."""
    channel = Channel([1.0, math.nan, 2.0, 3.0], 0.5, 10.0)
    assert channel.missing == 1
    assert not channel.is_even
    np.testing.assert_allclose(channel.times, [10.0, 11.0, 11.5])
    with pytest.raises(ValueError, match="expected an even series"):
        _ = channel.grid
    again = dataclasses.replace(channel, values=2 * channel.values)
    np.testing.assert_allclose(again.times, channel.times)
    assert again.missing == 1


def test_even_times_are_as_good_as_a_step():
    t = 3.0 + 0.25 * np.arange(50)
    channel = Channel(np.ones(50), times=t)
    assert channel.is_even
    assert channel.dt == pytest.approx(0.25)
    assert channel.t0 == 3.0
    uneven = Channel(np.ones(50), times=t + 0.05 * np.sin(np.arange(50)))
    assert not uneven.is_even
    assert uneven.duration == pytest.approx(12.5, rel=0.01)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"times": np.arange(3.0)}, "one time for each of 4"),
        ({"times": np.array([0.0, 2.0, 1.0, 3.0])}, "times must increase"),
        ({"dt": 1.0, "errors": np.ones(3)}, "one error for each of 4"),
        ({"dt": 1.0, "errors": np.array([1.0, 0.0, 1.0, 1.0])}, "an error above 0"),
        ({"dt": 1.0, "segments": np.zeros(2, int)}, "one segment for each of 4"),
        ({"dt": 1.0, "trend": 4}, "trend of order"),
        ({"dt": 1.0, "trend": 1.5}, "trend of order"),
        ({"dt": 1.0, "trend": None}, "trend of order"),
        ({"dt": 1.0, "gain": 0.0}, "finite gain other than 0"),
        ({"dt": 1.0, "gain": None}, "a gain as a number or 'free', received None"),
        ({"dt": 1.0, "segments": np.array([0, 0, 1, 1.5])}, "a whole number as the segment"),
        ({"dt": 1.0, "segments": np.array([0, 0, 1, np.nan])}, "a whole number as the segment"),
        ({"dt": 1.0, "errors": np.full(4, 1e-160)}, "errors between 1e-100 and 1e[+]100"),
        ({"dt": 1.0, "errors": np.full(4, 1e160)}, "errors between 1e-100 and 1e[+]100"),
        ({"dt": 1.0, "errors": np.array([1, 1, 1, 1e-8])}, "more than a factor 1e[+]06"),
    ],
)
def test_bad_descriptions_of_samples_are_refused(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Channel(np.ones(4), **fields)


def test_arrays_by_either_name():
    t = np.array([0.0, 1.0, 2.5, 3.0])
    obs = Observation.from_arrays(values=np.ones(4), times=t, errors=np.ones(4))
    assert not obs.is_plain
    assert Observation.from_arrays(values=np.ones(4), dt=0.1).is_plain
    assert Observation.from_arrays(values=np.ones(4) * 1j, dt=0.1).is_complex
    for wrong in ({"values": t}, {"values": t, "dt": 1.0, "times": t}, {"dt": 1.0}):
        with pytest.raises(ValueError, match="give one of them"):
            Observation.from_arrays(**wrong)


def test_an_error_may_be_as_large_as_it_likes():
    """As files mark samples that were hardly measured; only one that is far too small outweighs all others."""
    channel = Channel(np.ones(4), 1.0, errors=np.array([1e-5, 1.0, 1.0, 1e30]))
    assert channel.errors is not None and channel.errors.max() == 1e30


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.complex128])
def test_masked_samples_are_missing(kind: Any):
    values = np.ma.masked_equal(np.array([1, 2, -9999, 4, 5, 6], dtype=kind), -9999)
    channel = Channel(values, 0.1)
    assert channel.missing == 1 and channel.values.tolist() == [1, 2, 4, 5, 6]
    if kind is not np.complex128:
        many = Observations.from_arrays(np.ma.stack([values, values]), dt=0.1)
        assert many[1].long.missing == 1


@pytest.mark.parametrize("kind", ["f8", "M8[s]", "m8[s]"])
def test_masked_times_are_refused(kind: str):
    times: Any = np.ma.masked_array(np.arange(4).astype(kind), mask=[0, 0, 1, 0])
    with pytest.raises(ValueError, match=r"times must be (finite|known), received 1"):
        Channel(np.ones(4), times=times)


# ---------------------------------------------------------------------- stamps that are dates, or of few digits


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_dates_are_seconds_after_the_first(unit: str):
    dates = np.datetime64("2024-01-01T00:00:00.5") + 100 * np.arange(50).astype("timedelta64[ms]")
    channel = Channel(np.arange(50), times=dates.astype(f"datetime64[{unit}]"))  # type: ignore[arg-type]
    assert channel.is_even
    assert channel.dt == pytest.approx(0.1)
    assert (channel.t0, channel.t_ref) == (0.0, 1704067200.5)


def test_dates_count_from_a_stated_instant():
    dates = np.datetime64("2024-01-01") + np.arange(50).astype("timedelta64[s]")
    channel = Channel(np.arange(50), times=dates, t_ref=1704067190.0)  # type: ignore[arg-type]
    assert (channel.t0, channel.t_ref) == (10.0, 1704067190.0)


@pytest.mark.parametrize(("unit", "step"), [("M", 30.4), ("Y", 365.2)])
def test_dates_of_months_and_years_are_their_first_instants(unit: str, step: float):
    dates: Any = np.datetime64("1990-01", unit) + np.arange(24)
    channel = Channel(np.arange(24), times=dates)
    assert channel.t_ref == 631152000.0 and not channel.is_even  # 1990-01-01
    assert np.diff(channel.times).mean() / 86400 == pytest.approx(step, abs=0.2)
    with pytest.raises(ValueError, match="durations of a fixed length"):
        Channel(np.arange(24), times=(dates - dates[0]))


def test_durations_are_seconds():
    times = (250 * np.arange(8)).astype("timedelta64[ms]")
    assert Channel(np.arange(8), times=times).dt == 0.25  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "times",
    [["2024-01-01", "2024-01-02"], np.array(["2024-01-01", "NaT"], "M8[s]"), [None, object()]],
)
def test_times_that_are_none_say_so(times: Any):
    with pytest.raises(ValueError, match="times must be"):
        Observation.from_arrays(values=[1.0, 2.0], times=times)


@pytest.mark.parametrize("start", [1e4, 3e5, 9e5])
def test_single_precision_times_are_put_on_their_grid(start: float):
    true = start + 0.1 * np.arange(4000)
    channel = Channel(np.ones(4000), times=true.astype(np.float32))  # type: ignore[arg-type]
    digit = float(np.spacing(np.float32(start)))
    assert channel.is_even
    # Rounding errors are uniform: the error of a fitted step is digit/√12 · √12/n^1.5, that of the middle digit/√(12n).
    assert channel.dt == pytest.approx(0.1, abs=5 * digit / 4000**1.5)
    assert channel.mid_time == pytest.approx(true.mean(), abs=5 * digit / math.sqrt(12 * 4000))


def test_single_precision_does_not_make_uneven_times_even():
    times = np.sort(np.random.default_rng(0).uniform(0, 100, 500)).astype(np.float32)
    channel = Channel(np.ones(500), times=times)  # type: ignore[arg-type]
    np.testing.assert_array_equal(channel.times, times)


@pytest.mark.parametrize(
    ("absent", "digit"),
    [([7], 0.01), ([35], 0.01), ([7, 20, 33], 0.01), ([7], 86400.0), (range(6, 140, 7), 86400.0)],
)
def test_an_absent_stamp_is_no_rounding(absent: list[int], digit: float):
    assert rounded_grid(digit * np.delete(np.arange(140.0), absent), digit) is None


@pytest.mark.parametrize("rate", [60.0, 48.0, 24.0, 80.0])
@pytest.mark.parametrize("rounding", [np.round, lambda x: np.floor(x + 1e-9)])
def test_coarse_rounding_is_undone(rate: float, rounding: Callable[[Array], Array]):
    true = np.arange(400) / rate
    grid = rounded_grid(rounding(true * 100) / 100, 0.01)
    assert grid is not None
    np.testing.assert_allclose(np.diff(grid), 1 / rate, rtol=0, atol=5 * 0.01 / 400**1.5)


@pytest.mark.parametrize(
    ("name", "value"), [("dt", "0.1 s"), ("t0", [1, 2]), ("sigma", "loud"), ("t_ref", "now")]
)
def test_what_is_no_number_is_named(name: str, value: Any):
    fields: dict[str, Any] = {"dt": 0.1, name: value}
    with pytest.raises(ValueError, match=f"{name} must be a number"):
        Channel(np.ones(4), **fields)


def test_a_step_of_half_precision_is_no_coarse_clock():
    channel = Channel(np.arange(200_000), np.float16(0.1))
    assert channel.duration == pytest.approx(200_000 * float(np.float16(0.1)))
    assert isinstance(channel.dt, float)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(4.0, requires_grad=True),
        torch.arange(4.0).to(torch.bfloat16),
        torch.arange(4.0).to(torch.complex64).conj(),
    ],
)
def test_tensors_of_any_kind_are_samples(tensor: torch.Tensor):
    channel = Observation.from_arrays(values=tensor, dt=1.0).long
    np.testing.assert_array_equal(channel.values, np.arange(4))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_tensors_of_any_kind_are_rows(kind: torch.dtype):
    rows = torch.ones(2, 4, requires_grad=True).to(kind)
    many = Observations.from_arrays(rows, dt=1.0)
    np.testing.assert_array_equal(many[1].long.values, np.ones(4))
