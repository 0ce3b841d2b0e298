"""What the default network sees: spectra of known tones and of noise, and the numbers that go with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from statistics_helpers import assert_mean, assert_within
from tone_helpers import LONG, SHORT, model, to_complex
from torch import Tensor

from slotflow import Grid, Observation, Prior
from slotflow.data.noise_level import GUARD_BINS
from slotflow.network.config import ZoomConfig
from slotflow.network.zoom.spectrum import (
    CONDITIONS,
    MIN_NOISE_BINS,
    NOISE_FLOOR,
    SHORT_STEP,
    SignalBatch,
    Spectrum,
    noise_level,
    spectrum,
)

SIZES = ZoomConfig()
GRIDS = [
    LONG,
    Grid(2999, 0.1),
    Grid(3001, 0.05, -7.3),
    Grid(6000, 0.05),
    Grid(1234, 1e-3, 5.0),
    Grid(777, 2.0, 1e3),
]


def in_bins(grid: Grid, low: float, high: float, **options: Any) -> Prior:
    """A prior whose band lies between two bins of a grid."""
    options = {"min_separation": 0.0} | options
    return Prior(frequency=(low / grid.duration, high / grid.duration), **options)


def seen(
    series: list[Tensor], grids: list[Grid], prior: Prior, first: int, **options: Any
) -> Spectrum:
    options = {"ratios": [1.0] * len(grids), "dtype": torch.float64} | options
    batch = prior.batch(len(series[0]), "cpu")
    signals = SignalBatch(series, grids, options.pop("ratios"))
    return spectrum(signals, batch, SIZES, first, options.pop("sigma", None), options.pop("dtype"))


def white(n: int, grid: Grid, seed: int) -> Tensor:
    """Noise of level one, (n, N), float64."""
    return torch.randn(
        n, grid.n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def kernel(x: Tensor, n: int) -> Tensor:
    """D(x) = sin πx / (n sin πx/n)."""
    return torch.sinc(x) / torch.sinc(x / n)


# ---------------------------------------------------------------- tones


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("offset", [0.0, 0.25, 0.4999])
def test_a_tone_is_its_amplitude_times_the_kernel(grid: Grid, offset: float) -> None:
    """Z_j = c D(f_j T − fT), and the tone's own mirror at −f, to the precision of float64."""
    low = grid.n // 4
    first = low - SIZES.margin
    tone = torch.tensor([[[1.3, 0.7, (low + 33 + offset) / grid.duration]]], dtype=torch.float64)
    view = seen([model(tone, grid)], [grid], in_bins(grid, low, low + 100), first)
    frequency, c = (x[0, 0] for x in to_complex(tone, grid.mid_time))
    index = 2 * first + torch.arange(2 * SIZES.view_bins)
    bins = 0.5 * index.double()
    at = frequency * grid.duration
    expected = c * kernel(bins - at, grid.n) + c.conj() * kernel(bins + at, grid.n)
    expected = torch.where(index <= grid.n, expected, 0.0) / 1.5  # in units of the largest A
    z = torch.complex(view.z[0, 0], view.z[0, 1])
    # The phase 2πft of the reference itself is rounded at ft ~ 1e3 cycles.
    assert (z - expected).abs().max() < 1e-11
    assert (z.abs()[index <= grid.n].max() - 1.3 / 1.5).abs() < 0.1  # the tone is in the window


def test_single_precision(seed: int) -> None:
    """float32 data and a float32 view differ from float64 by their rounding."""
    tone = torch.tensor([[[1.0, 2.0, 2.7], [0.6, 5.0, 2.71]]], dtype=torch.float64)
    x = model(tone, LONG) + 0.1 * white(1, LONG, seed)
    prior, first = Prior(), 730
    exact = seen([x], [LONG], prior, first)
    rounded = seen([x.float()], [LONG], prior, first, dtype=torch.float32)
    assert rounded.z.dtype == rounded.noise.dtype == rounded.conditions.dtype == torch.float32
    assert rounded.band.dtype == rounded.sigma.dtype == rounded.largest.dtype == torch.float64
    assert (rounded.z - exact.z).abs().max() < 2e-6
    assert rounded.sigma == pytest.approx(exact.sigma, rel=1e-5)


def test_the_origin_of_time_does_not_matter(seed: int) -> None:
    x = white(2, LONG, seed)
    prior = Prior()
    views = [seen([x], [Grid(LONG.n, LONG.dt, t0)], prior, 730) for t0 in (0.0, -12.3, 1.7e9)]
    for view in views[1:]:
        assert torch.equal(view.z, views[0].z)
        assert torch.equal(view.conditions, views[0].conditions)


def test_nothing_is_seen_below_zero_and_beyond_nyquist(seed: int) -> None:
    grid = Grid(300, 1.0)
    x = white(3, grid, seed) + 4.0
    low = seen([x], [grid], in_bins(grid, 5, 60), first=-15).z
    assert (low[..., :30] == 0).all() and (low[..., 30:330].abs().amax((0, 1)) > 0).all()
    high = seen([x], [grid], in_bins(grid, 60, 140), first=40).z
    beyond = torch.arange(80, 80 + high.shape[-1]) > grid.n  # half-bins above N/2 bins
    assert beyond.any() and (high[..., beyond] == 0).all()
    assert (high[..., ~beyond].abs().amax((0, 1)) > 0).all()


def test_time_and_amplitude_carry_no_unit(seed: int) -> None:
    """Stretched by s and scaled by a: the same view, but for σ and the largest amplitude in the data's units."""
    x, y = white(2, LONG, seed), white(2, SHORT, seed + 1)
    base = seen([x, y], [LONG, SHORT], Prior(), 730)
    s, a = 37.0, 1e-3
    grids = [Grid(g.n, g.dt * s) for g in (LONG, SHORT)]
    prior = Prior(
        frequency=(2.5 / s, 3.0 / s), min_separation=0.01 / s, amplitude=(0.5 * a, 1.5 * a)
    )
    other = seen([a * x, a * y], grids, prior, 730)
    for name in ("z", "noise", "short", "short_noise", "inside", "conditions", "band"):
        assert torch.allclose(getattr(other, name), getattr(base, name), rtol=1e-9, atol=1e-9), name
    assert torch.allclose(other.sigma, a * base.sigma, rtol=1e-9)
    assert torch.allclose(other.largest, a * base.largest, rtol=1e-9)


# ---------------------------------------------------------------- noise


def test_noise_per_quadrature(seed: int) -> None:
    """Re and Im of Z at whole bins have the variance that the view states; 10 % more would show."""
    n, sigma = 300, 0.7
    level = torch.full((n,), sigma, dtype=torch.float64)
    view = seen(
        [sigma * white(n, LONG, seed), 2 * sigma * white(n, SHORT, seed + 1)],
        [LONG, SHORT],
        Prior(),
        730,
        sigma=level,
        ratios=[1.0, 2.0],
    )
    assert torch.equal(view.sigma, level)
    squares = (view.z[..., ::2] ** 2).flatten(2).mean(-1).numpy()  # (n, 2), independent bins
    assert_mean(squares, float(view.noise[0]) ** 2)
    with pytest.raises(AssertionError):
        assert_mean(squares, (1.05 * float(view.noise[0])) ** 2)
    short = (view.short**2).mean((1, 2)).numpy()  # signals are independent, places are not
    assert_mean(short, float(view.short_noise[0]) ** 2)
    with pytest.raises(AssertionError):
        assert_mean(short, (0.5 * float(view.short_noise[0])) ** 2)


@pytest.mark.parametrize("grids", [(LONG, None), (LONG, SHORT), (Grid(2001, 0.1), None)], ids=str)
def test_noise_level_is_unbiased(grids: tuple[Grid, Grid | None], seed: int) -> None:
    """σ² has the right mean with tones in the band; with the same tones outside the stated band it has not."""
    n, sigma = 300, 0.3
    present = [g for g in grids if g is not None]
    ratios = [1.0, 3.0][: len(present)]
    tones = torch.tensor([[[1.5, 1.0, 2.52], [1.0, 2.0, 2.98]]], dtype=torch.float64)
    series = [
        model(tones, g) + sigma * r * white(n, g, seed + i)
        for i, (g, r) in enumerate(zip(present, ratios, strict=True))
    ]
    full = torch.fft.rfft(series[0], n=2 * present[0].n)
    estimate = noise_level(SignalBatch(series, present, ratios), Prior().batch(n, "cpu"), full)
    assert estimate.dtype == torch.float64
    # A tone 12 bins away leaks 1e-5 of its power; the tones hold some thousand times the noise's.
    assert_within(
        (estimate**2).mean(), sigma**2, (estimate**2).std() / math.sqrt(n) + 2e-4 * sigma**2
    )
    elsewhere = Prior(frequency=(3.2, 3.7)).batch(n, "cpu")
    wrong = noise_level(SignalBatch(series, present, ratios), elsewhere, full)
    assert (wrong > 1.5 * sigma).all()


def test_noise_level_is_that_of_the_observation(seed: int) -> None:
    """One long stream: the same estimate as `Observation.noise_level` makes."""
    x = white(4, LONG, seed) + 0.3
    signals = SignalBatch([x], [LONG], [1.0])
    level = noise_level(signals, Prior().batch(4, "cpu"), torch.fft.rfft(x, n=2 * LONG.n))
    expected = [
        Observation.from_arrays(row.numpy(), LONG.dt).noise_level((2.5, 3.0))[0] for row in x
    ]
    np.testing.assert_allclose(level.numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("count", [0, MIN_NOISE_BINS - 1, MIN_NOISE_BINS, MIN_NOISE_BINS + 5])
def test_too_few_bins_outside(count: int, seed: int) -> None:
    """NaN below the limit, a number from it on; in the view as well."""
    grid = Grid(400, 1.0)
    high = grid.n // 2 - 1 - GUARD_BINS - count  # so many bins lie above band and guard
    x = white(2, grid, seed)
    prior = in_bins(grid, 10, high)
    level = noise_level(
        SignalBatch([x], [grid], [1.0]), prior.batch(2, "cpu"), torch.fft.rfft(x, n=800)
    )
    assert level.isnan().all() == (count < MIN_NOISE_BINS)
    view = seen([x], [grid], prior, -10)
    assert view.sigma.isnan().all() == (count < MIN_NOISE_BINS)
    assert view.z.isfinite().all()
    given = seen([x], [grid], prior, -10, sigma=torch.ones(2, dtype=torch.float64))
    assert given.noise.isfinite().all() and given.conditions.isfinite().all()


def test_noiseless_data_have_a_floor() -> None:
    view = seen([torch.zeros(1, LONG.n)], [LONG], Prior(amplitude=(1.0, 4.0)), 730)
    assert float(view.sigma) == pytest.approx(4 * NOISE_FLOOR)
    assert view.conditions.isfinite().all() and (view.z == 0).all()


# ---------------------------------------------------------------- band and conditions


def test_band_and_inside() -> None:
    prior = in_bins(LONG, 760.25, 850.75)
    view = seen([torch.ones(1, LONG.n)], [LONG], prior, 740)
    np.testing.assert_allclose(view.band.numpy(), [[20.25, 110.75]], atol=1e-9)
    position = torch.arange(2 * SIZES.view_bins) / 2
    inside = view.inside[0]
    assert (inside[(position >= 20.75) & (position <= 110.25)] == 1).all()
    assert (inside[(position < 19.75) | (position > 111.25)] == 0).all()
    np.testing.assert_allclose(inside[[40, 41, 221, 222]], [0.25, 0.75, 0.75, 0.25], atol=1e-9)


def test_conditions_tell_prior_noise_and_short_stream(seed: int) -> None:
    """Each change of what is known moves the numbers that stand for it, and no others."""
    x, y = white(1, LONG, seed), white(1, SHORT, seed)
    sigma = torch.ones(1, dtype=torch.float64)

    def told(prior: Prior, series: list[Tensor], grids: list[Grid], level: Tensor) -> Tensor:
        conditions = seen(series, grids, prior, 730, sigma=level).conditions
        assert conditions.shape == (1, CONDITIONS)
        return conditions[0]

    base = told(Prior(), [x, y], [LONG, SHORT], sigma)
    alone = told(Prior(), [x], [LONG], sigma)
    assert torch.equal(base[:7], alone[:7]) and (alone[7:] == 0).all() and base[7] == 1
    assert base[8] == pytest.approx(SHORT.duration / LONG.duration)
    assert base[9] == pytest.approx((SHORT.mid_time - LONG.mid_time) / LONG.duration)
    for prior, level, moved in [
        (Prior(min_separation=0.004), sigma, {1, 2, 3}),
        (Prior(amplitude=(0.2, 1.5)), sigma, {4, 5}),
        (Prior(frequency=(2.5, 2.8)), sigma, {6}),
        (Prior(), 2 * sigma, {0, 5, 10}),
    ]:
        other = told(prior, [x, y], [LONG, SHORT], level)
        assert set(torch.nonzero(other != base).flatten().tolist()) == moved
    # Beyond eight bins a minimum separation makes no difference to resolved tones.
    wide, wider = (told(Prior(k_max=2, min_separation=s), [x], [LONG], sigma) for s in (0.03, 0.2))
    assert torch.equal(wide, wider)


# ---------------------------------------------------------------- short stream


@pytest.mark.parametrize("grid", [SHORT, Grid(501, 0.02, 140.0), Grid(64, 0.15, 7.7)], ids=str)
def test_short_stream_about_its_own_mid_time(grid: Grid, seed: int) -> None:
    """The sum written out, at every tenth bin of the window; 0 at its own Nyquist frequency and beyond."""
    y = white(2, grid, seed)
    view = seen([white(2, LONG, seed), y], [LONG, grid], Prior(), 730)
    places = SHORT_STEP * torch.arange(SIZES.view_bins // SHORT_STEP).double()
    f = (730 + places) / LONG.duration
    u = torch.as_tensor(grid.times) - grid.mid_time
    wave = torch.exp(-2j * math.pi * f[:, None] * u)  # (S, M)
    expected = 2 / grid.n * (y[:, None] * wave).sum(-1) / 1.5
    expected = torch.where(f < 0.5 / grid.dt, expected, 0.0)
    found = torch.complex(view.short[:, 0], view.short[:, 1])
    assert (found - expected).abs().max() < 1e-11
    assert view.short_noise[0] == pytest.approx(float(view.sigma[0]) / 1.5 * math.sqrt(2 / grid.n))


def test_without_a_short_stream(seed: int) -> None:
    view = seen([white(3, LONG, seed)], [LONG], Prior(), 730)
    assert view.short.shape == (3, 2, SIZES.view_bins // SHORT_STEP)
    assert (view.short == 0).all() and (view.short_noise == 1).all()
    assert (view.conditions[:, 7:] == 0).all()


def test_take(seed: int) -> None:
    series = [white(5, LONG, seed), white(5, SHORT, seed)]
    view = seen(series, [LONG, SHORT], Prior(), 730)
    part = view.take(slice(1, 3))
    alone = seen([x[1:3] for x in series], [LONG, SHORT], Prior(), 730)
    assert part.first == view.first == 730
    for name in view._fields[:-1]:
        assert torch.allclose(getattr(part, name), getattr(alone, name), rtol=1e-12), name
