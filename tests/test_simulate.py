"""The simulator: phases without loss, noise shared where instants coincide, seeds, shapes and errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from statistics_helpers import assert_mean, assert_same_law, assert_within

from slotflow import Grid, Prior, simulate
from slotflow.signal.mixture import MixturePart, PriorMixture
from slotflow.signal.simulation import Simulation, coincident, tones

Array = NDArray[np.float64]
LONG, SHORT = Grid(3000, 0.1), Grid(5120, 1 / 512)
STEP = {LONG.dt: Fraction(1, 10), SHORT.dt: Fraction(1, 512)}
NOISY = Prior(sigma=(0.5, 1.5))
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]


def reference(theta: Array, times: Array) -> Array:
    """Plain float64 sum of cosines of (K, 3) at times (N,); good to 1e-11 rad at 300 s."""
    amplitude, phase, frequency = theta.T[..., None]
    return np.sum(amplitude * np.cos(2 * np.pi * frequency * times + phase), axis=0)


# ---------------------------------------------------------------------- phases


def exact_phase(f: float, phi: float, grid: Grid, last: int) -> Array:
    """Phases of the grid's last samples: f·t in whole numbers, reduced to one turn before rounding."""
    indices = range(grid.n - last, grid.n)
    turns = [Fraction(f) * STEP[grid.dt] * i % 1 for i in indices]
    return 2 * np.pi * np.array([float(turn) for turn in turns]) + phi


def naive(theta: torch.Tensor, grid: Grid) -> torch.Tensor:
    """What the simulator must not do: the whole phase in float32."""
    amplitude, phase, frequency = theta.float().unbind(-1)
    t = torch.as_tensor(grid.times).float()
    angle = 2 * math.pi * frequency[..., None] * t + phase[..., None]
    return (amplitude[..., None] * angle.cos()).sum(dim=1)


def check_phases(
    make: Callable[[torch.Tensor, Grid], torch.Tensor], grid: Grid, seed: int, device: str
) -> None:
    """Asserts a phase error below 1e-6 rad at the end of the grid, for 50 tones of unit amplitude."""
    rng = np.random.default_rng(seed)
    theta = np.stack([np.ones(50), rng.uniform(0, 2 * np.pi, 50), rng.uniform(2.5, 3.0, 50)], -1)
    x = make(torch.as_tensor(theta, device=device)[:, None], grid)
    assert x.shape == (50, grid.n) and x.dtype == torch.float32
    last = 100
    for own, (_, phi, f) in zip(x[:, -last:].double().cpu().numpy(), theta, strict=True):
        angle = exact_phase(f, phi, grid, last)
        basis = np.stack([np.cos(angle), -np.sin(angle)], axis=1)
        (a, b), *_ = np.linalg.lstsq(basis, own, rcond=None)
        assert abs(math.atan2(b, a)) < 1e-6
        assert abs(math.hypot(a, b) - 1) < 1e-6
        assert np.abs(own - np.cos(angle)).max() < 1e-6  # and so at every single sample


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grid", [LONG, SHORT], ids=["long", "short"])
def test_phase_error_is_below_a_microradian(grid: Grid, device: str, seed: int):
    check_phases(tones, grid, seed, device)


def test_the_phase_check_rejects_float32_phases(seed: int):
    with pytest.raises(AssertionError):
        check_phases(naive, LONG, seed, "cpu")


@pytest.mark.parametrize("grid", [LONG, SHORT], ids=["long", "short"])
def test_mixtures_equal_the_float64_sum(grid: Grid, seed: int):
    theta = simulate(Prior(), 20, Grid(1, 1.0), seed=seed, k=10).theta
    x = tones(theta, grid).numpy()
    for own, truth in zip(x, theta.numpy(), strict=True):
        # Sums reach 15, where one unit in the last place of float32 is 9.5e-7.
        np.testing.assert_allclose(own, reference(truth, grid.times), rtol=0, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 2999, 3000, 3001, 4096])
@pytest.mark.parametrize("t0", [0.0, 250.05, -12.3])
def test_any_length_and_start(n: int, t0: float, seed: int):
    grid = Grid(n, 0.1, t0)
    theta = simulate(Prior(), 3, grid, seed=seed, k=4).theta
    x = tones(theta, grid)
    assert x.shape == (3, n) and x.is_contiguous()
    for own, truth in zip(x.numpy(), theta.numpy(), strict=True):
        np.testing.assert_allclose(own, reference(truth, grid.times), rtol=0, atol=1e-6)


def test_no_components_give_zeros():
    assert torch.all(tones(torch.zeros(2, 0, 3, dtype=torch.float64), Grid(7, 0.1)) == 0)
    assert torch.all(tones(torch.zeros(2, 3, 3, dtype=torch.float64), Grid(7, 0.1)) == 0)


# ---------------------------------------------------------------------- two modes


def noise(sim: Simulation) -> tuple[Array, Array]:
    """Noise of both streams in units of σ, (n, N) and (n, M)."""
    assert sim.short is not None
    scale = sim.sigma[:, None].numpy()
    long, short = (tones(sim.theta, grid).numpy() for grid in sim.grids if grid is not None)
    return (sim.long.numpy() - long) / scale, (sim.short.numpy() - short) / scale


def check_shared_noise(long: Array, short: Array) -> None:
    """Asserts that the streams share the noise at the 20 coincident instants and nowhere else.

    Args:
        long: Noise of unit variance, shape (n, N).
        short: Noise of unit variance, shape (n, M).
    """
    n = len(long)
    correlation = long.T.astype(np.float32) @ short.astype(np.float32) / n  # (N, M)
    # The instants meet every half second: after 5 long and after 256 short samples.
    meet = np.arange(20)
    np.testing.assert_allclose(long[:, 5 * meet], short[:, 256 * meet], rtol=0, atol=1e-5)
    correlation[5 * meet, 256 * meet] = 0
    # 1.5e7 products of independent Gaussians, standard error 1/√n each: chance reaches 5.5, not 8.
    assert np.abs(correlation).max() < 8 / math.sqrt(n)


def on_the_master_grid(n: int, seed: int) -> tuple[Array, Array]:
    """Noise of both streams by the definition: one white series at 2,560 Hz, looked at twice."""
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((n, 25_600), dtype=np.float32)  # 10 s
    rest = rng.standard_normal((n, LONG.n - 100), dtype=np.float32)  # the long stream goes on alone
    return np.concatenate([start[:, ::256], rest], axis=1), start[:, ::5]


def test_physical_streams_share_the_noise_of_one_master_grid(seed: int):
    n = 400
    long, short = noise(simulate(NOISY, n, LONG, SHORT, mode="physical", seed=seed))
    check_shared_noise(long, short)
    master = on_the_master_grid(n, seed)
    check_shared_noise(*master)
    for ours, theirs in zip((long, short), master, strict=True):
        assert_mean((ours**2).ravel(), 1.0)
        assert_mean(ours.ravel(), 0.0)
        assert_same_law(ours[:, ::50].ravel(), theirs[:, ::50].ravel())


def test_the_shared_noise_check_rejects_wrong_noise(seed: int):
    n = 400
    long, short = noise(simulate(NOISY, n, LONG, SHORT, mode="analytic", seed=seed))
    with pytest.raises(AssertionError):  # nothing is shared
        check_shared_noise(long, short)
    long, short = on_the_master_grid(n, seed)
    short[:, 77] = long[:, 2000]
    with pytest.raises(AssertionError):  # too much is shared
        check_shared_noise(long, short)


def test_analytic_streams_share_nothing(seed: int):
    n = 2000
    long, short = noise(simulate(NOISY, n, Grid(100, 0.1), SHORT, mode="analytic", seed=seed))
    meet = np.arange(20)
    assert_mean(long[:, 5 * meet] * short[:, 256 * meet], 0.0)


def test_signals_of_both_streams_are_samples_of_the_master_grid(seed: int):
    sim = simulate(Prior(), 2, LONG, SHORT, mode="physical", seed=seed, k=10)
    for theta in sim.theta:
        master = reference(theta.numpy(), np.arange(768_000) / 2560)  # 300 s at 2,560 Hz
        long, short = tones(theta[None], LONG)[0], tones(theta[None], SHORT)[0]
        np.testing.assert_allclose(long, master[::256], rtol=0, atol=1e-6)
        np.testing.assert_allclose(short, master[:25_600:5], rtol=0, atol=1e-6)


def test_coincident_instants():
    i, j = coincident(LONG, SHORT)
    np.testing.assert_array_equal(i, 5 * np.arange(20))
    np.testing.assert_array_equal(j, 256 * np.arange(20))


@pytest.mark.parametrize(
    ("long", "short", "count"),
    [
        (Grid(100, 0.1), Grid(100, 0.1), 100),
        (Grid(100, 0.1, 5.0), Grid(1000, 0.01, 4.0), 90),
        (Grid(100, 0.1, 0.05), Grid(100, 0.1), 0),
        (Grid(10, 0.1), Grid(10, 0.1, 100.0), 0),
        (Grid(10, 0.1, 100.0), Grid(10, 0.1), 0),
        (LONG, Grid(5120, 1 / 512, 0.0001), 0),
        (Grid(3000, 0.1, 1.7e9), Grid(5120, 1 / 512, 1.7e9), 20),  # times that count from an epoch
        (Grid(1, 0.1), Grid(1, 0.001), 1),
    ],
)
def test_coincident_instants_of_other_grids(long: Grid, short: Grid, count: int):
    i, j = coincident(long, short)
    assert len(i) == len(j) == count == len(set(j.tolist()))
    np.testing.assert_allclose(long.times[i], short.times[j], rtol=0, atol=1e-6)


def test_physical_mode_with_a_later_start(seed: int):
    long, short = Grid(200, 0.1, 7.0), Grid(512, 1 / 512, 7.5)
    sim = simulate(NOISY, 5, long, short, mode="physical", seed=seed)
    assert sim.short is not None
    np.testing.assert_allclose(sim.long[:, 5], sim.short[:, 0], rtol=0, atol=5e-6)
    assert not np.allclose(sim.long[:, 6], sim.short[:, 1], atol=1e-3)


# ---------------------------------------------------------------------- the batch


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["analytic", "physical"])
def test_shapes_types_and_seeds(mode: str, device: str, seed: int):
    def draw(seed: int) -> Simulation:
        return simulate(
            Prior(), 8, Grid(300, 0.1), Grid(512, 1 / 512), mode=mode, seed=seed, device=device
        )

    a, b, c = draw(seed), draw(seed), draw(seed + 1)
    assert a.long.shape == (8, 300) and a.short is not None and a.short.shape == (8, 512)
    assert a.long.dtype == a.short.dtype == torch.float32
    assert a.k.shape == (8,) and a.k.dtype == torch.int64
    assert a.theta.shape == (8, 10, 3) and a.theta.dtype == torch.float64
    assert a.sigma.shape == (8,) and a.sigma.dtype == torch.float64
    assert a.mask.shape == (8, 10) and torch.equal(a.mask.sum(1).cpu(), a.k)
    for name in ("k", "theta", "sigma", "long", "short"):
        # Counts stay with the host, which decides by them.
        assert getattr(a, name).device.type == ("cpu" if name == "k" else device)
        assert torch.equal(getattr(a, name), getattr(b, name)), name
        assert not torch.equal(getattr(a, name), getattr(c, name)), name


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    simulate(Prior(), 2, Grid(10, 0.1), Grid(10, 0.01))
    assert torch.equal(before, torch.get_rng_state())


def test_without_a_short_stream(seed: int):
    sim = simulate(Prior(), 3, Grid(50, 0.1), seed=seed)
    assert sim.short is None
    assert sim.observation(0).short is None
    both = simulate(Prior(), 3, Grid(50, 0.1), Grid(20, 0.01), seed=seed)
    assert torch.equal(sim.long, both.long)


@pytest.mark.parametrize("k", [0, 1, 4, 10])
def test_fixed_k(k: int, seed: int):
    sim = simulate(Prior(), 20, Grid(16, 0.1), seed=seed, k=k)
    assert torch.all(sim.k == k)
    assert all(sim.components(i).shape == (k, 3) for i in range(20))
    assert torch.all((sim.theta[..., 0] > 0).sum(1) == k)


def test_draws_come_from_the_prior(seed: int):
    prior = Prior(k_min=2, k_max=4, min_separation=0.02, sigma=(1.0, 2.0), k_probs=(1, 0, 1))
    sim = simulate(prior, 500, Grid(4, 0.1), seed=seed)
    assert set(sim.k.tolist()) == {2, 4}
    for i in range(500):
        assert torch.isfinite(prior.log_prob_theta(sim.components(i)))
    assert torch.all(torch.isfinite(prior.log_prob_sigma(sim.sigma)))


def test_snr_is_the_papers(seed: int):
    sim = simulate(Prior(), 50, Grid(4, 0.1), seed=seed)
    snr = sim.snr_db()
    assert snr.shape == (50,)
    for i in range(50):
        power = sum(a**2 for a in sim.components(i)[:, 0]) / 2
        expected = 10 * math.log10(power / float(sim.sigma[i]) ** 2)
        assert snr[i].item() == pytest.approx(expected, abs=1e-10)


def test_snr_is_what_the_data_show(seed: int):
    prior = Prior(k_max=5, sigma=(0.5, 1.5))
    sim = simulate(prior, 20, Grid(200_000, 0.1), seed=seed)
    signal = tones(sim.theta, Grid(200_000, 0.1)).double()
    rest = sim.long.double() - signal
    measured = 10 * torch.log10((signal**2).mean(1) / (rest**2).mean(1))
    # 0.014 dB is the noise power's standard error; tones 0.01 Hz apart overlap by as much at most.
    np.testing.assert_allclose(measured, sim.snr_db(), rtol=0, atol=0.1)


def test_noise_scales_with_sigma(seed: int):
    grid, other = Grid(3000, 0.1), Prior(sigma=(1.0, 3.0))
    a = simulate(NOISY, 10, grid, seed=seed)
    b = simulate(other, 10, grid, seed=seed)  # twice the noise, everything else the same
    assert torch.equal(a.theta, b.theta)
    np.testing.assert_allclose(b.sigma, 2 * a.sigma, rtol=1e-14)
    signal = tones(a.theta, grid)
    np.testing.assert_allclose(b.long - signal, 2 * (a.long - signal), rtol=0, atol=1e-5)
    assert_mean((((a.long - signal) / a.sigma[:, None]) ** 2).ravel(), 1.0)


def test_observations_and_components(seed: int):
    long, short = Grid(100, 0.1, 3.0), Grid(64, 0.01, -1.0)
    sim = simulate(Prior(), 4, long, short, seed=seed)
    observation = sim.observation(2)
    assert observation.short is not None and sim.short is not None
    for stream, grid in ((observation.long, long), (observation.short, short)):
        assert (stream.n, stream.dt, stream.t0) == (grid.n, grid.dt, grid.t0)
    np.testing.assert_array_equal(observation.long.values, sim.long[2])
    np.testing.assert_array_equal(observation.short.values, sim.short[2])
    truth = sim.components(2)
    assert truth.shape == (int(sim.k[2]), 3) and np.all(np.diff(truth[:, 2]) >= 0.01)


# ---------------------------------------------------------------------- one prior for each signal


MIXTURE = PriorMixture(
    (
        MixturePart(1.0, (0.0, 0.02), (0.1, 0.5), (0.3, 1.0), (0.5, 2.0)),
        MixturePart(2.0, (0.01, 0.01), (0.5, 0.5), (1.0, 1.0), (0.0, 1.5)),
    )
)


def test_the_batch_tells_what_it_was_drawn_under(seed: int):
    prior = Prior(k_min=0, k_probs=tuple(range(1, 12)), amplitude=(0.3, 1.7))
    sim = simulate(prior, 6, Grid(16, 0.1), seed=seed)
    assert sim.prior is not None and len(sim.prior) == 6
    assert (sim.prior.k_min, sim.prior.k_probs) == (0, prior.k_probs)
    assert sim.prior.amplitude.tolist() == [[0.3, 1.7]] * 6


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_of_equal_priors_gives_the_same_signals(device: str, seed: int):
    prior = Prior(min_separation=0.013, amplitude=(0.3, 1.7))
    one = simulate(prior, 50, Grid(64, 0.1), Grid(64, 0.01), seed=seed, device=device)
    # From the CPU as well: simulate takes the bounds where it computes.
    many = simulate(prior.batch(50), 50, Grid(64, 0.1), Grid(64, 0.01), seed=seed, device=device)
    for name in ("k", "theta", "sigma", "long", "short"):
        assert torch.equal(getattr(one, name), getattr(many, name)), name
    assert many.prior is not None and many.prior.device.type == device


@pytest.mark.parametrize("device", DEVICES)
def test_signals_of_a_mixture_obey_their_own_priors(device: str, seed: int):
    base, n = Prior(k_min=0, sigma=(0.0, 9.0)), 400
    sim = simulate(base, n, LONG, SHORT, seed=seed, device=device, mixture=MIXTURE)
    assert sim.prior is not None and sim.prior.device == sim.theta.device
    batch, theta, sigma = sim.prior.to("cpu"), sim.theta.cpu(), sim.sigma.cpu()
    assert len(batch.frequency.unique(dim=0)) > 50, "the bands vary"
    for i in range(n):
        own = Prior(
            k_min=0,
            amplitude=tuple(batch.amplitude[i].tolist()),
            frequency=tuple(batch.frequency[i].tolist()),
            min_separation=batch.min_separation[i].item() * (1 - 1e-9),
            sigma=tuple(batch.sigma[i].tolist()),
        )
        assert torch.isfinite(own.log_prob_theta(theta[i, : sim.k[i]]))
        assert torch.isfinite(own.log_prob_sigma(sigma[i]))
    noise_long = (sim.long - tones(sim.theta, LONG)).cpu() / sigma[:, None]
    assert_mean((noise_long**2).ravel(), 1.0)


@pytest.mark.parametrize("device", DEVICES)
def test_a_mixture_is_drawn_from_the_seed(device: str, seed: int):
    def draw(seed: int) -> Simulation:
        return simulate(Prior(), 40, Grid(16, 0.1), seed=seed, device=device, mixture=MIXTURE)

    a, b, c = draw(seed), draw(seed), draw(seed + 1)
    assert a.prior is not None and b.prior is not None and c.prior is not None
    assert torch.equal(a.long, b.long) and torch.equal(a.prior.frequency, b.prior.frequency)
    assert not torch.equal(a.prior.frequency, c.prior.frequency)
    # The priors have a seed of their own: what is drawn under them starts from the batch's as ever.
    again = simulate(a.prior, 40, Grid(16, 0.1), seed=seed, device=device)
    assert torch.equal(again.long, a.long)
    assert torch.equal(simulate(Prior(), 40, Grid(16, 0.1), seed=seed, device=device).k, a.k)


def test_bounds_are_independent_of_the_draws_under_them(seed: int):
    """With a seed in common, the same uniforms would make a signal's bounds and what is drawn under them."""
    wide = PriorMixture((MixturePart(1.0, (0.0, 0.1), (0.1, 0.5), (0.2, 0.6), (0.0, 1.0)),))
    sim = simulate(Prior(k_max=1), 5000, Grid(1, 0.1), seed=seed, k=1, mixture=wide)
    assert sim.prior is not None
    (lower, upper), theta = sim.prior.frequency.T, sim.theta[:, 0]
    low = sim.prior.amplitude[:, 0]
    bounds = [sim.prior.min_separation, low.log(), upper - lower, (lower + upper) / 2]
    draws = [
        (theta[:, 0] - low) / (1.5 - low),
        theta[:, 1],
        (theta[:, 2] - lower) / (upper - lower),
        sim.sigma,
    ]
    correlation = np.corrcoef(np.stack([x.numpy() for x in bounds + draws]))[:4, 4:]
    assert_within(correlation, 0.0, 1 / math.sqrt(5000))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_training_batch_never_waits_for_the_gpu():
    def draw(seed: int) -> Simulation:
        return simulate(Prior(), 32, LONG, SHORT, seed=seed, device="cuda", mixture=MIXTURE)

    draw(0)  # the first call loads libraries
    try:
        torch.cuda.set_sync_debug_mode("error")
        batch = draw(1)
        with pytest.raises(RuntimeError):  # the switch is on
            batch.sigma.sum().item()
    finally:
        torch.cuda.set_sync_debug_mode("default")


# ---------------------------------------------------------------------- settings outside


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_outside_changes_nothing(device: str, seed: int):
    def draw() -> torch.Tensor:
        return simulate(Prior(), 4, LONG, seed=seed, device=device).long

    plain = draw()
    with torch.autocast(device, dtype=torch.bfloat16):
        assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype == (
            torch.bfloat16
        )  # the switch is on
        assert torch.equal(draw(), plain)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_matmul_precision_outside_changes_nothing(precision: str, device: str, seed: int):
    plain = simulate(Prior(), 4, LONG, seed=seed, device=device).long
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        rounded = simulate(Prior(), 4, LONG, seed=seed, device=device).long
        assert torch.get_float32_matmul_precision() == precision, "the user's setting is kept"
        check_phases(tones, LONG, seed, device)
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(plain, rounded)


def test_newer_precision_switch_outside_is_accepted(seed: int):
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):  # torch before 2.9
        return
    plain = simulate(Prior(), 4, LONG, seed=seed).long
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        assert torch.equal(simulate(Prior(), 4, LONG, seed=seed).long, plain)
    finally:
        matmul.fp32_precision = before
    torch.get_float32_matmul_precision()  # raises if old and new switches disagree


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n >= 1 signals, received 0"),
        ({"n": -5}, "n >= 1 signals, received -5"),
        ({"mode": "exact"}, "mode of .*analytic.*physical.*received 'exact'"),
        ({"k": 11}, "0 <= k <= k_max = 10, received 11"),
        ({"k": -1}, "0 <= k <= k_max = 10, received -1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        simulate(Prior(), **{"n": 2, "long": Grid(8, 0.1), **arguments})


def test_a_batch_of_priors_has_one_for_each_signal():
    with pytest.raises(
        ValueError, match=r"number of signals of the PriorBatch, 3, received 2.*take"
    ):
        simulate(Prior().batch(3), 2, Grid(8, 0.1))


def test_a_mixture_varies_one_prior():
    with pytest.raises(ValueError, match=r"expects a Prior .*received a PriorBatch.*leave"):
        simulate(Prior().batch(2), 2, Grid(8, 0.1), mixture=MIXTURE)
