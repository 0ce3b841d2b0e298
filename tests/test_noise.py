"""Noise models: filters whiten what they are made for, nodes integrate, and the choice follows the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import fft, signal, special

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.network.config import Config
from slotflow.noise import ar, choose_noise, local, parse_noise, power_law, psd, white
from slotflow.signal.noise.ar import ar_noise
from slotflow.signal.noise.background import background_of
from slotflow.signal.noise.burg import best_order, partial_autocorrelations
from slotflow.signal.noise.colour import whiteness_of
from slotflow.signal.noise.filters import (
    gain,
    partial_of_taps,
    taps_of_partial,
    taps_of_power,
    whitened,
)
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.noise.outliers import without_outliers
from slotflow.signal.noise.series import Series, series_of
from slotflow.signal.simulation import simulate

STEP = 0.1
WIDE, NARROW = (0.01, 4.9), (1.0, 1.5)


def autoregressive(n: int, taps: list[float], rng: np.random.Generator) -> Array:
    """Samples of noise that a filter whitens, (n,)."""
    return np.asarray(signal.lfilter([1.0], taps, rng.standard_normal(n + 800))[800:])


def red(n: int, knee: float, exponent: float, rng: np.random.Generator) -> Array:
    """Samples of red noise above a white floor of level 1 at a step of 0.1 s, (n,)."""
    f = fft.rfftfreq(8 * n, STEP)
    f[0] = f[1]
    shaped = fft.rfft(rng.standard_normal(8 * n)) * np.sqrt(1 + (f / knee) ** -exponent)
    return np.asarray(fft.irfft(shaped)[:n])


def tones(t: Array, f: Array, amplitude: float, rng: np.random.Generator) -> Array:
    """A sum of tones of equal amplitudes."""
    phases = rng.uniform(0, 2 * np.pi, len(f))
    return amplitude * np.cos(2 * np.pi * np.multiply.outer(t, f) + phases).sum(1)


def as_series(x: Array, dt: float = STEP) -> Series:
    """Samples as the noise's builders see them."""
    return series_of(Channel(x, dt))


def chosen(x: Array, band: tuple[float, float], dt: float = STEP) -> NoiseModel:
    """What `auto` makes of samples."""
    return choose_noise(Observation(Channel(x, dt)), "auto", band)


# ---------------------------------------------------------------------- filters


@pytest.mark.parametrize("partial", [[0.9], [0.6, -0.5, 0.3], [0.5j, -0.2 + 0.3j]])
def test_taps_and_partial_autocorrelations_are_the_same(partial: list[complex]) -> None:
    taps = taps_of_partial(np.array(partial))
    assert np.allclose(partial_of_taps(taps), partial)
    assert np.abs(np.roots(taps)).max() < 1  # stationary


@pytest.mark.parametrize("is_complex", [False, True])
def test_taps_of_an_autoregressive_spectrum_are_its_own(is_complex: bool) -> None:
    partial = np.array([0.5 + 0.4j, -0.3]) if is_complex else np.array([0.7, -0.4])
    taps = taps_of_partial(partial)
    found, level = taps_of_power(
        lambda f: 4 / np.abs(gain(taps, STEP, f)) ** 2,
        STEP,
        2000,
        is_complex=is_complex,
        longest=40,
    )
    assert len(found) == len(taps)
    assert np.allclose(found, taps, atol=1e-4)
    assert level == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize(
    ("knee", "exponent", "within"), [(0.1, 2.0, 0.012), (1.0, 2.0, 0.012), (0.5, 1.0, 0.04)]
)
def test_filters_of_a_power_law_whiten_it(knee: float, exponent: float, within: float) -> None:
    """Flat beyond the lowest bins; odd exponents want infinitely many taps. A short filter fails."""
    n = 3000
    f = np.linspace(20 / (n * STEP), 0.5 / STEP, 4000)
    s = 1 + (f / knee) ** -exponent

    def power(f: Array) -> Array:
        return np.asarray(1 + (np.abs(f) / knee) ** -exponent)

    def off(taps: Array, level: float) -> float:
        return float(np.abs(s * np.abs(gain(taps, STEP, f)) ** 2 / level**2 - 1).max())

    taps, level = taps_of_power(power, STEP, n, longest=n // 12)
    assert off(taps, level) < within
    assert off(*taps_of_power(power, STEP, n, longest=n, order=len(taps) // 8)) > 2 * within


def test_filtered_noise_has_a_flat_spectrum() -> None:
    """Means of 40 spectra in 20 pieces: within 4.5 standard errors of their common mean with the filter only."""
    rng = np.random.default_rng(1)
    taps = taps_of_partial(np.array([0.8, -0.5]))
    total = {"filtered": np.zeros(20), "raw": np.zeros(20)}
    for _ in range(40):
        x = autoregressive(2002, list(taps), rng)
        for name, y in (("filtered", whitened(x, taps, [slice(0, 2002)])), ("raw", x[2:])):
            power = np.abs(np.fft.rfft(y)) ** 2 / len(y)
            total[name] += power[1:-1][:980].reshape(20, -1).mean(1) / 40
    error = 1 / math.sqrt(40 * 49)
    assert np.abs(total["filtered"] - 1).max() < 4.5 * error
    assert np.abs(total["raw"] - 1).max() > 10 * error


def test_filters_restart_after_gaps() -> None:
    rng = np.random.default_rng(2)
    x = autoregressive(3000, [1, -0.9], rng)
    x[1000:1200] = np.nan
    series = as_series(x)
    assert [s.stop - s.start for s in series.stretches] == [1000, 1800]
    assert series.filtered(np.array([1, -0.9])).n == 2798
    r = partial_autocorrelations(series, 1)[0]
    assert r == pytest.approx(0.9, abs=4.5 * math.sqrt(0.19 / 2800))
    closed = partial_autocorrelations(as_series(x[~np.isnan(x)]), 1)[0]
    assert closed != pytest.approx(r, abs=1e-9)  # a filter across the gap is another one


def test_orders_are_found() -> None:
    rng = np.random.default_rng(3)
    for taps in ([1.0], [1, -0.5], [1, -0.9, 0.4], [1, -0.5, 0.2, -0.4]):
        partial = partial_autocorrelations(as_series(autoregressive(1500, taps, rng)), 8)
        assert best_order(partial, 1500) == len(taps) - 1


# ---------------------------------------------------------------------- nodes


def log_rss(x: Array, taps: Array) -> float:
    """−(n/2) ln RSS of samples given the first p of them."""
    left = np.convolve(x, taps, mode="valid")
    return float(-0.5 * len(left) * np.log((np.abs(left) ** 2).sum()))


def summed(model: NoiseModel, x: Array, reals: int = 1) -> float:
    """Logarithm of the sum over nodes of weight and likelihood."""
    each = [node.log_weight + reals * log_rss(x, node.channels[0].taps) for node in model.nodes]
    return float(special.logsumexp(each))


@pytest.mark.parametrize(("n", "phi"), [(98, 0.75), (40, 0.2), (3000, 0.9)])
def test_nodes_of_one_coefficient_integrate(n: int, phi: float) -> None:
    series = as_series(autoregressive(n, [1, -phi], np.random.default_rng(n)), 1.0)
    model = ar_noise([[series]], 1)
    r = np.linspace(-1, 1, 8001)[1:-1]
    brute = [log_rss(series.values, np.array([1, -one])) for one in r]
    expected = special.logsumexp(brute) + math.log((r[1] - r[0]) / 2)
    assert summed(model, series.values) == pytest.approx(expected, abs=0.02)
    assert len(model.nodes) <= 12
    assert summed(NoiseModel("half", model.nodes[::2]), series.values) < expected - 0.1


def test_nodes_of_two_coefficients_integrate() -> None:
    taps = taps_of_partial(np.array([0.6, -0.5]))
    series = as_series(autoregressive(300, list(taps), np.random.default_rng(5)), 1.0)
    model = ar_noise([[series]], 2)
    r = np.linspace(-1, 1, 161)[1:-1]
    brute = [log_rss(series.values, taps_of_partial(np.array([a, b]))) for a in r for b in r]
    expected = special.logsumexp(brute) + 2 * math.log((r[1] - r[0]) / 2)
    assert summed(model, series.values) == pytest.approx(expected, abs=0.02)
    assert model.parameters == ("φ1", "φ2")
    assert len(model.nodes) <= 30


def test_nodes_of_a_complex_coefficient_integrate() -> None:
    rng = np.random.default_rng(6)
    noise = rng.standard_normal(900) + 1j * rng.standard_normal(900)
    x = signal.lfilter([1], [1, -0.6 * np.exp(0.7j)], noise)[500:]
    series = as_series(x, 1.0)
    model = ar_noise([[series]], 1)
    r = np.linspace(-1, 1, 101)
    brute = [
        2 * log_rss(series.values, np.array([1, -(a + 1j * b)]))
        for a in r
        for b in r
        if a * a + b * b < 1
    ]
    expected = special.logsumexp(brute) + math.log((r[1] - r[0]) ** 2 / np.pi)
    assert summed(model, series.values, 2) == pytest.approx(expected, abs=0.05)


def test_many_coefficients_are_integrated_roughly() -> None:
    """Sixteen points against two thousand of another sequence."""
    series = as_series(autoregressive(500, [1, -0.5, 0.2, -0.4], np.random.default_rng(7)), 1.0)
    model = ar_noise([[series]], 3)
    rng = np.random.default_rng(0)
    z = np.arctanh(partial_autocorrelations(series, 3)) + 0.07 * rng.standard_normal((2000, 3))
    middle = np.arctanh(partial_autocorrelations(series, 3))
    log_q = (-0.5 * ((z - middle) / 0.07) ** 2 - math.log(0.07 * math.sqrt(2 * np.pi))).sum(1)
    log_p = np.log(0.5 / np.cosh(z) ** 2).sum(1)
    each = [log_rss(series.values, taps_of_partial(np.tanh(one))) for one in z]
    expected = special.logsumexp(np.array(each) + log_p - log_q) - math.log(2000)
    assert summed(model, series.values) == pytest.approx(expected, abs=0.25)


def test_a_power_law_finds_its_numbers() -> None:
    for knee, exponent, n in ((0.02, 2.0, 3000), (1.0, 2.0, 3000)):
        x = red(n, knee, exponent, np.random.default_rng(8))
        model = choose_noise(Observation(Channel(x, STEP)), "power_law", WIDE)
        found = model.nodes[0].values
        assert math.log(found[0] / knee) == pytest.approx(0, abs=0.5)
        assert found[1] == pytest.approx(exponent, abs=0.5)
        assert (model.nodes[0].channels[0].modes is not None) == (knee < 0.5)
        assert len({len(node.channels[0].taps) for node in model.nodes}) == 1


def test_modes_are_the_covariance_of_a_power_law() -> None:
    """C(0) − C(τ) for lags of a twentieth to a third of the record; a tenth less power fails."""
    n, knee = 200, 0.2
    x = red(n, knee, 2.0, np.random.default_rng(9))
    model = choose_noise(Observation(Channel(x, STEP)), power_law(knee, 2.0), WIDE)
    modes = model.nodes[0].channels[0].modes
    assert modes is not None
    lag = STEP * np.arange(1, 60)
    found = (
        modes.variances * (1 - np.cos(2 * np.pi * np.multiply.outer(lag, modes.frequencies)))
    ).sum(1)
    f = np.arange(1, 16 * 64 * n) / (16 * 128 * n * STEP)
    s = (f / knee) ** -2.0 * (1 - np.cos(2 * np.pi * np.multiply.outer(lag, f)))
    exact = 2 * STEP * (f[1] - f[0]) * s.sum(1)
    assert np.abs(found / exact - 1)[10:].max() < 0.05
    assert np.abs(0.9 * found / exact - 1)[10:].max() > 0.05


# ---------------------------------------------------------------------- lines and tests of whiteness


def test_lines_are_taken_off_to_the_noise() -> None:
    rng = np.random.default_rng(10)
    t = STEP * np.arange(3000)
    f = np.array([0.7, 1.1, 1.104, 1.3, 2.9])  # two of them 1.2 bins apart
    x = autoregressive(3000, [1, -0.9], rng) + tones(t, f, 3.0, rng)
    found = background_of(as_series(x), 30)
    assert found.order == 1
    assert found.variance == pytest.approx(1, abs=4.5 * math.sqrt(2 / 3000))
    places = np.array([line.frequency for line in found.lines])
    assert all(np.abs(places - one).min() < 0.3 / 300 for one in f)


def test_whiteness_has_the_p_values_that_it_says() -> None:
    """Of 200 white series with a line, about one in a hundred falls below 0.01; of red ones all do."""
    rng = np.random.default_rng(11)
    t = STEP * np.arange(400)
    p = []
    for _ in range(200):
        x = rng.standard_normal(400) + tones(t, np.array([rng.uniform(0.5, 4)]), 1.0, rng)
        found = background_of(as_series(x), 0)
        p.append(whiteness_of(found.rest, found.lines, NARROW).p_value)
    assert (np.array(p) < 0.01).sum() <= 8  # 2 expected; 5 standard deviations
    red_ones = [
        whiteness_of(as_series(autoregressive(400, [1, -0.5], rng)), (), NARROW).p_value
        for _ in range(20)
    ]
    assert max(red_ones) < 1e-3


# ---------------------------------------------------------------------- the choice


def test_the_choice_stays_white() -> None:
    rng = np.random.default_rng(12)
    t = STEP * np.arange(3000)
    for _ in range(6):
        noise = 0.5 * rng.standard_normal(3000)
        assert chosen(noise, NARROW).is_white
        assert chosen(noise + tones(t, rng.uniform(1, 1.5, 8), 1.5, rng), NARROW).is_white
        assert chosen(noise + tones(t, rng.uniform(0.1, 4.5, 12), 1.5, rng), WIDE).is_white
    names = [chosen(rng.standard_normal(98), (0.02, 0.5), 1.0).name for _ in range(40)]
    assert names.count("white") >= 37


def test_two_streams_of_white_noise_stay_white_and_alike() -> None:
    """The short stream resolves no tone of the band; what it holds of them is no noise."""
    config = Config.from_preset("zoom").model
    sim = simulate(config.prior, 12, config.long, config.short, mode="physical", seed=5)
    for i in range(12):
        observation = sim.observation(i)
        assert choose_noise(observation, "auto", config.prior.frequency).is_white
        nodes = choose_noise(observation, "local", config.prior.frequency).nodes
        assert nodes[0].channels[1].ratio == 1.0


def test_short_red_series_are_autoregressive() -> None:
    rng = np.random.default_rng(13)
    for _ in range(20):
        model = chosen(autoregressive(98, [1, -0.75], rng), (0.02, 0.5), 1.0)
        assert model.name.startswith("ar(")
        assert "correlate" in model.words or "odds" in model.words


def test_red_noise_is_coloured_as_a_whole_and_local_in_a_band() -> None:
    rng = np.random.default_rng(14)
    for make in (lambda: autoregressive(3000, [1, -0.9], rng), lambda: red(3000, 0.5, 2.0, rng)):
        x = make()
        band = chosen(x, NARROW)
        assert band.local
        assert band.name == "local"
        assert len(band.nodes[0].channels[0].taps) > 1
        assert not chosen(x, WIDE).is_white


def test_local_noise_lists_lines_that_leak() -> None:
    rng = np.random.default_rng(15)
    t = STEP * np.arange(3000)
    x = autoregressive(3000, [1, -0.9], rng) + 30 * np.cos(2 * np.pi * 2.5 * t)
    model = choose_noise(Observation(Channel(x, STEP)), local(), NARROW)
    lines = model.nodes[0].channels[0].lines
    assert len(lines) == 1
    assert lines[0] == pytest.approx(2.5, abs=1e-4)
    inside = choose_noise(Observation(Channel(x, STEP)), local(), (2.0, 3.0))
    assert inside.nodes[0].channels[0].lines == ()


def test_the_filter_of_local_noise_does_not_follow_resolved_peaks() -> None:
    """A tone that wanders over some forty bins is no line, and must not become a resonance of the noise."""
    rng = np.random.default_rng(17)
    t = STEP * np.arange(3000)
    wander = np.cumsum(rng.standard_normal(3000)) * 0.06
    x = rng.standard_normal(3000) + 6 * np.cos(2 * np.pi * 2.0 * t + wander)
    model = choose_noise(Observation(Channel(x, STEP)), "local", (1.5, 2.5))
    noise = model.nodes[0].channels[0]
    at, beside = np.abs(gain(noise.taps, STEP, np.array([2.0, 3.5]))) ** -2.0
    assert at < 25 * beside
    partial = partial_autocorrelations(as_series(x), 48)
    at, beside = np.abs(gain(taps_of_partial(partial), STEP, np.array([2.0, 3.5]))) ** -2.0
    assert at > 100 * beside  # a plain fit follows it


def test_the_level_of_local_noise_is_that_of_the_band() -> None:
    rng = np.random.default_rng(16)
    x = autoregressive(6000, [1, -0.9], rng)
    model = choose_noise(Observation(Channel(x, STEP)), "local", NARROW)
    noise = model.nodes[0].channels[0]
    f = np.linspace(*NARROW, 50)
    power = 1 / np.abs(1 - 0.9 * np.exp(-2j * np.pi * f * STEP)) ** 2
    left = whitened(x, noise.taps, [slice(0, 6000)]).std() / noise.ratio
    assert left == pytest.approx(math.sqrt(power.mean()), rel=0.05)


# ---------------------------------------------------------------------- what can be said


def test_noise_is_stated_in_short() -> None:
    assert parse_noise("white").kind == white().kind == "white"
    assert parse_noise("ar(2)").order == ar(2).order == 2
    assert parse_noise("ar").order is None
    assert parse_noise("ar(0.9)").coefficients == (0.9,)
    assert parse_noise("power_law(0.01, 2)").shape == (0.01, 2.0)
    assert parse_noise(local()).kind == "local"
    for wrong in ("pink", "ar(x)", "power_law(1)", "ar(0)"):
        with pytest.raises(ValueError, match="expected"):
            parse_noise(wrong)


def test_a_density_gives_the_noise_absolutely(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """White noise of level 3 at a step of 0.1 s has the density 2·9·0.1 per Hz."""
    f = np.linspace(0, 5, 11)
    path = tmp_path / "density.csv"
    path.write_text("# Hz, power per Hz\n" + "\n".join(f"{one},1.8" for one in f))
    observation = Observation(Channel(np.zeros(1000), STEP))
    for source in (path, (f, np.full(11, 1.8)), lambda f: np.full(np.shape(f), 1.8)):
        model = choose_noise(observation, psd(source), WIDE)
        assert model.nodes[0].channels[0].ratio == pytest.approx(3.0, rel=1e-6)
    assert choose_noise(observation, str(path), WIDE).name == "psd"
    with pytest.raises(ValueError, match="above 0"):
        psd((f, f))


def test_known_coefficients_are_taken() -> None:
    observation = Observation(Channel(np.random.default_rng(0).standard_normal(100), STEP))
    model = choose_noise(observation, ar(coefficients=[0.5, -0.2]), WIDE)
    assert np.allclose(model.nodes[0].channels[0].taps, [1, -0.5, 0.2])
    with pytest.raises(ValueError, match="stationary"):
        choose_noise(observation, ar(coefficients=[1.1]), WIDE)


def test_filters_are_refused_at_uneven_times() -> None:
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 100, 200))
    observation = Observation(Channel(rng.standard_normal(200), times=t))
    with pytest.raises(ValueError, match="power_law"):
        choose_noise(observation, ar(1), WIDE)
    with_errors = Observation(Channel(np.ones(200), STEP, errors=np.ones(200)))
    with pytest.raises(ValueError, match="errors"):
        choose_noise(with_errors, ar(1), WIDE)


# ---------------------------------------------------------------------- outliers


@pytest.mark.parametrize("taps", [[1.0], [1.0, -0.9]])
def test_outliers_are_dropped_and_said(taps: list[float]) -> None:
    rng = np.random.default_rng(20)
    t = STEP * np.arange(3000)
    x = autoregressive(3000, taps, rng) + tones(t, np.array([1.2]), 4.0, rng)
    assert without_outliers(Observation(Channel(x, STEP))).long.n == 3000
    spoiled = rng.choice(np.arange(20, 2980), 15, replace=False)
    x[spoiled] += 12 * rng.choice([-1, 1], 15)
    clean = without_outliers(Observation(Channel(x, STEP))).long
    assert not np.isin(spoiled, np.rint(clean.times / STEP)).any()
    assert clean.n >= 3000 - 15 - 2
    assert clean.missing == 3000 - clean.n
    assert f"{clean.missing} outliers" in clean.notes[-1]


def test_outliers_of_errors_are_judged_by_their_errors() -> None:
    rng = np.random.default_rng(21)
    errors = np.where(np.arange(500) % 2, 1.0, 10.0)
    x = errors * rng.standard_normal(500)
    x[101], x[200] = 20.0, 25.0  # of an error of 1, and of 10
    clean = without_outliers(Observation(Channel(x, STEP, errors=errors))).long
    assert 20.0 not in clean.values
    assert 25.0 in clean.values


def test_data_full_of_outliers_are_refused() -> None:
    rng = np.random.default_rng(22)
    with pytest.raises(ValueError, match="rare"):
        without_outliers(Observation(Channel(rng.standard_cauchy(2000), STEP)))
