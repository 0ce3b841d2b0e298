"""The default model: its API, its symmetries, the data it takes and refuses, and a look at its quality."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from statistics_helpers import assert_within
from tone_helpers import LONG, SHORT, phase_error
from torch import Tensor

from slotflow import Grid, Observation, Posterior, Prior, Simulation, SlotFlow, Stream, simulate
from slotflow.analysis import Analysis
from slotflow.evaluate import crb_std
from slotflow.exact import Statistics, fit
from slotflow.exact.kernels import mid_time
from slotflow.simulate import tones
from slotflow.zoom import ZoomSlotFlow

NOMINAL = Prior(k_min=0, sigma=(0.1, 1.0))
TWO = torch.tensor([[[1.0, 1.0, 2.62], [0.8, 4.0, 2.81]]], dtype=torch.float64)
"""Two resolved tones."""


@pytest.fixture(scope="module")
def model() -> ZoomSlotFlow:
    return cast(ZoomSlotFlow, SlotFlow.from_pretrained())


def white(grid: Grid, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(grid.n)


def observe(
    theta: Tensor, long: Grid, short: Grid | None, sigma: float, seed: int, scale: float = 1.0
) -> Observation:
    """Tones (1, K, 3) in noise, times a scale, in float64."""
    streams = []
    for i, grid in enumerate((long, short)):
        if grid is not None:
            x = tones(theta, grid)[0].double().numpy() + sigma * white(grid, seed + i)
            streams.append(Stream(scale * x, grid.dt, grid.t0))
    return Observation(*streams)


def moments(post: Posterior, k: int, n: int = 1500) -> tuple[NDArray[Any], NDArray[Any]]:
    """Median and standard deviation of (A, φ, f) of each slot, (k, 3) each; phases around their circular mean."""
    draws = post.sample(n, k=k, seed=1)
    centre = np.angle(np.exp(1j * draws[..., 1]).mean(0))
    draws[..., 1] = phase_error(draws[..., 1] - centre)
    middle = np.median(draws, axis=0)
    middle[:, 1] += centre
    return middle, draws.std(axis=0)


def assert_same_answer(
    a: Posterior, b: Posterior, k: int, change: Any = None, tolerance: float = 0.01
) -> None:
    """Posterior b is what `change` makes of a: centres in units of the sd, log sd, and q(K).

    Args:
        a: A posterior.
        b: That of the transformed data.
        k: Number of tones to compare.
        change: Takes medians and sds of a, (k, 3) each, to those expected of b.
        tolerance: Largest difference of centres in sds, of the log of the sds, and of the probabilities.
    """
    (centre_a, sd_a), (centre_b, sd_b) = moments(a, k), moments(b, k)
    if change is not None:
        centre_a, sd_a = change(centre_a, sd_a)
    error = centre_b - centre_a
    error[:, 1] = phase_error(error[:, 1])
    assert np.abs(error / sd_a).max() < tolerance
    assert np.abs(np.log(sd_b / sd_a)).max() < tolerance
    np.testing.assert_allclose(b.k_probs, a.k_probs, atol=tolerance)


# ---------------------------------------------------------------- the API


def test_is_the_default(model: ZoomSlotFlow) -> None:
    assert isinstance(model, ZoomSlotFlow) and model.config.name == "zoom"
    assert not model.training and model.k_max == 10
    assert isinstance(SlotFlow.from_preset("zoom"), ZoomSlotFlow)


@pytest.mark.parametrize("short", [SHORT, None])
def test_posterior_from_end_to_end(
    model: ZoomSlotFlow, short: Grid | None, tmp_path: Path, seed: int
) -> None:
    obs = observe(TWO, LONG, short, 0.3, seed)
    post = model.infer(obs, refine=False)
    assert isinstance(post, Posterior) and post.observation is obs and "zoom" in post.method
    assert post.k_probs.shape == (11,) and post.k_probs.sum() == pytest.approx(1.0, abs=1e-12)
    assert post.k_map == 2 and post.k_probs[2] > 0.99
    draws = post.sample(100)
    assert draws.shape == (100, 2, 3) and draws.dtype == np.float64
    assert np.array_equal(draws, post.sample(100, seed=0))
    assert not np.array_equal(draws, post.sample(100, seed=1))
    density = post.log_prob(draws)
    assert isinstance(density, np.ndarray) and np.isfinite(density).all()
    np.testing.assert_allclose(post.log_prob(draws[:, ::-1]), density, rtol=1e-9)  # symmetrized
    turned = draws + np.array([0, 2 * np.pi, 0])
    np.testing.assert_allclose(post.log_prob(turned), density, rtol=1e-6)
    assert post.log_prob(draws[0]) == pytest.approx(density[0])
    theta, k = post.sample_joint(50)
    assert theta.shape == (50, 10, 3) and (np.isfinite(theta[..., 0]).sum(1) == k).all()
    frame = post.summary()
    np.testing.assert_allclose(frame["frequency_median"], TWO[0, :, 2], atol=1e-3)
    np.testing.assert_allclose(frame["amplitude_median"], TWO[0, :, 0], atol=0.1)
    assert 0 <= post.constrained_fraction() < 0.01
    samples = (0 if short is None else short.n) + LONG.n
    assert post.noise_std_error == pytest.approx(post.noise_std / math.sqrt(2 * samples))
    assert_within(post.noise_std, 0.3, post.noise_std_error)
    post.save(tmp_path / "p.nc", n=20)
    import xarray as xr

    with xr.open_dataset(tmp_path / "p.nc", engine="h5netcdf") as saved:
        np.testing.assert_allclose(saved["k_probs"], post.k_probs)
        assert saved["frequency"].shape == (20, 10)


def test_any_k_can_be_asked_for(model: ZoomSlotFlow, seed: int) -> None:
    post = model.infer(observe(TWO, LONG, SHORT, 0.3, seed), refine=False)
    for k in range(11):
        draws = post.sample(4, k=k)
        assert draws.shape == (4, k, 3) and np.isfinite(draws).all()
        assert np.asarray(post.log_prob(draws)).shape == (4,)
        assert len(post.summary(k=k, n=10)) == k
    with pytest.raises(ValueError, match=r"0\.\.10, received 11"):
        post.sample(1, k=11)


def test_pure_noise(model: ZoomSlotFlow, seed: int) -> None:
    """K = 0: no slot, empty draws, and log q(0) as the density of the empty tuple."""
    obs = observe(TWO[:, :0], LONG, SHORT, 1.0, seed)
    post = model.infer(obs, refine=False)
    assert post.k_map == 0 and post.k_probs[0] > 0.9
    assert post.sample(5).shape == (5, 0, 3) and len(post.summary(n=5)) == 0
    assert post.log_prob(np.zeros((0, 3))) == pytest.approx(math.log(post.k_probs[0]))
    theta, k = post.sample_joint(20)
    assert np.isnan(theta[k == 0]).all()
    assert_within(post.noise_std, 1.0, 1 / math.sqrt(2 * (LONG.n + SHORT.n)))
    assert post.sample(5, k=1).shape == (5, 1, 3)


@pytest.mark.parametrize("values", [np.zeros(LONG.n), np.full(LONG.n, 3.0), 1e-3 * np.arange(3000)])
def test_data_without_noise_or_with_a_trend(model: ZoomSlotFlow, values: NDArray[Any]) -> None:
    """Nothing breaks, and a mean that tones and noise do not have is named."""
    warned = (
        pytest.warns(UserWarning, match="subtract the offset") if values.any() else nullcontext()
    )
    with warned:
        post = model.infer(Observation.from_arrays(values, LONG.dt), refine=False)
    assert np.isfinite(post.k_probs).all() and math.isfinite(post.noise_std)
    assert np.isfinite(post.sample(5, k=2)).all()


def test_clean_tones(model: ZoomSlotFlow, seed: int) -> None:
    """σ of 1e-4: a thousandth of the smallest amplitude's bound, still counted and measured."""
    post = model.infer(observe(TWO, LONG, SHORT, 1e-4, seed), refine=False)
    assert post.k_map == 2
    centre, sd = moments(post, 2)
    np.testing.assert_allclose(centre[:, 2], TWO[0, :, 2], atol=1e-6)
    assert (sd[:, 2] < 1e-6).all() and np.isfinite(np.asarray(post.log_prob(post.sample(5)))).all()


def test_copies_and_pickles(model: ZoomSlotFlow, seed: int) -> None:
    obs = observe(TWO, LONG, None, 0.3, seed)
    base = model.infer(obs, refine=False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is ZoomSlotFlow
        np.testing.assert_array_equal(other.infer(obs, refine=False).k_probs, base.k_probs)


def test_analysis_is_what_infer_tells(model: ZoomSlotFlow, base_seed: int) -> None:
    sim = simulate(NOMINAL, 5, LONG, SHORT, seed=base_seed)
    answer = model.analyse(sim, NOMINAL)
    posts = model.infer([sim.observation(i) for i in range(5)], prior=NOMINAL, refine=False)
    assert answer.k_map.tolist() == [p.k_map for p in posts]
    np.testing.assert_allclose(answer.k_probs.numpy(), [p.k_probs for p in posts], atol=1e-4)
    np.testing.assert_allclose(answer.noise.numpy(), [p.noise_std for p in posts], rtol=1e-6)
    slots = answer.slots(sim.k)
    assert slots.mask.shape == (5, 10) and torch.equal(slots.mask.sum(1), sim.k)
    draws = slots.sample(7, seed=2)
    assert (
        draws.shape == (5, 7, 10, 3) and (draws[~slots.mask[:, None].expand(-1, 7, -1)] == 0).all()
    )
    centre = slots.slots.frequency  # slots stand in the order of their frequency at the start
    for row, k in enumerate(sim.k.tolist()):
        assert (centre[row, 1:k] > centre[row, : max(k - 1, 0)]).all()
    other = answer.slots(torch.tensor([1, 0, 3, 2, 10]))
    assert other.k.tolist() == [1, 0, 3, 2, 10] == other.mask.sum(1).tolist()


# ---------------------------------------------------------------- the prior


def test_k_prior_is_bayes_rule(model: ZoomSlotFlow, seed: int) -> None:
    """Overrides the prior's p(K), which itself acts relative to training's."""
    close = torch.tensor([[[1.0, 1.0, 2.62], [0.8, 4.0, 2.6208]]], dtype=torch.float64)
    free = Prior(k_min=0, min_separation=0.0, sigma=(0.1, 1.5))
    obs = observe(close, LONG, None, 1.0, seed)
    base = model.infer(obs, prior=free, refine=False).k_probs
    weights = np.array([1, 5, 2, 1, 1, 1, 1, 1, 1, 1, 3.0])
    expected = base * weights / (base * weights).sum()
    assert np.abs(expected - base).max() > 1e-4  # K is in doubt
    np.testing.assert_allclose(
        model.infer(obs, prior=free, k_prior=weights, refine=False).k_probs, expected, atol=1e-9
    )
    own = dataclasses.replace(free, k_probs=tuple(weights))
    np.testing.assert_allclose(
        model.infer(obs, prior=own, refine=False).k_probs, expected, atol=1e-9
    )
    both = model.infer(obs, prior=own, k_prior=np.ones(11), refine=False).k_probs
    np.testing.assert_allclose(both, base, atol=1e-9)
    only = model.infer(obs, prior=free, k_prior={3: 1.0}, refine=False)
    assert only.k_map == 3 and only.k_probs[3] == 1 and only.sample(3).shape == (3, 3, 3)


@pytest.mark.parametrize(("k_min", "k_max"), [(0, 3), (1, 1), (2, 5)])
def test_priors_with_fewer_components(
    k_min: int, k_max: int, model: ZoomSlotFlow, seed: int
) -> None:
    prior = Prior(k_min=k_min, k_max=k_max, sigma=(0.1, 1.0))
    post = model.infer(observe(TWO, LONG, SHORT, 0.3, seed), prior=prior, refine=False)
    allowed = np.arange(11)
    allowed = (allowed >= k_min) & (allowed <= k_max)
    assert (post.k_probs[~allowed] == 0).all() and post.k_probs[allowed].sum() == pytest.approx(1)
    assert post.k_map == min(max(2, k_min), k_max)
    _, k = post.sample_joint(20)
    assert allowed[k].all()
    sim = simulate(prior, 3, LONG, SHORT, seed=seed)
    slots = model.analyse(sim, prior).slots()
    assert slots.sample(4).shape == (3, 4, k_max, 3) and slots.mask.shape == (3, k_max)


def test_bounds_of_the_prior_are_kept(model: ZoomSlotFlow, seed: int) -> None:
    prior = Prior(k_min=0, k_max=4, amplitude=(0.95, 1.05), frequency=(2.6, 2.9), sigma=(0.1, 1.5))
    draws = model.infer(
        observe(TWO[:, :1], LONG, None, 1.5, seed), prior=prior, refine=False
    ).sample(2000, k=1)
    assert draws[..., 0].min() >= 0.95 and draws[..., 0].max() <= 1.05
    assert np.std(draws[..., 0]) > 0.01  # it is not held at an edge
    assert draws[..., 2].min() >= 2.6 and draws[..., 2].max() <= 2.9


@pytest.mark.parametrize("box", [(0.8, 1.2), (1.1, 1.5)])
def test_amplitudes_at_the_edges_of_the_prior(
    box: tuple[float, float], model: ZoomSlotFlow, base_seed: int
) -> None:
    """One tone: the posterior of A is the likelihood's Gaussian cut off by the box, a matter of 1D.

    Where that changes the sd by 10 % or more: means to 15 % of an sd and sds to 10 % (medians over signals; 2,000 draws
    give 2 % each). The Gaussian that is not cut off, the control, is neither.
    """
    prior = Prior(k_max=4, amplitude=box, sigma=(1.49, 1.5))
    sim = simulate(prior, 60, LONG, seed=base_seed + 3, k=1)
    draws = model.analyse(sim, prior).slots(sim.k).sample(2000)[:, :, 0, 0].numpy()
    best = fit(Statistics.from_simulation(sim), sim.theta[:, :1])
    centre, sd = best.theta[:, 0, 0].numpy(), best.covariance[:, 0, 0].sqrt().numpy()
    exact = stats.truncnorm((box[0] - centre) / sd, (box[1] - centre) / sd, centre, sd)

    cut = exact.std() < 0.9 * sd
    assert cut.sum() >= 5

    def check(law: Any) -> None:
        shift = (draws.mean(1) - law.mean()) / law.std()
        width = np.log(draws.std(1) / law.std())
        assert np.median(np.abs(shift[cut])) < 0.15 and np.median(np.abs(width[cut])) < 0.1

    check(exact)
    with pytest.raises(AssertionError):
        check(stats.norm(centre, sd))


# ---------------------------------------------------------------- one, many, again


def test_mixed_lists_equal_one_by_one(model: ZoomSlotFlow, base_seed: int) -> None:
    """Any sampling, with and without a short stream, in any order; float32 sums differ by 1e-3 sd at most."""
    odd = Grid(2250, 0.13, 3.0)
    other = Grid(6000, 0.05)
    layouts = [(LONG, SHORT), (LONG, None), (odd, None), (other, SHORT), (LONG, SHORT)]
    layouts += [(odd, Grid(700, 0.01, 100.0)), (LONG, None)]
    sims = [
        simulate(NOMINAL, 1, long, short, seed=base_seed + i, k=i)
        for i, (long, short) in enumerate(layouts)
    ]
    observations = [sim.observation(0) for sim in sims]
    together = model.infer(observations, prior=NOMINAL, refine=False)
    for i, (post, obs) in enumerate(zip(together, observations, strict=True)):
        alone = model.infer(obs, prior=NOMINAL, refine=False)
        assert post.observation is obs and post.k_map == i
        if i:
            assert_same_answer(alone, post, i, tolerance=1e-3)
        assert post.noise_std == pytest.approx(alone.noise_std, rel=1e-6)


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_batch_size_does_not_matter(batch_size: int, model: ZoomSlotFlow, base_seed: int) -> None:
    sim = simulate(NOMINAL, 6, LONG, SHORT, seed=base_seed + 1)
    observations = [sim.observation(i) for i in range(6)]
    base = model.infer(observations, prior=NOMINAL, batch_size=3, refine=False)
    again = model.infer(observations, prior=NOMINAL, batch_size=batch_size, refine=False)
    for a, b, k in zip(base, again, sim.k.tolist(), strict=True):
        assert a.k_map == b.k_map == k
        if k:
            assert_same_answer(a, b, k, tolerance=1e-3)
    assert model.infer([], refine=False) == []


def test_double_precision(model: ZoomSlotFlow, seed: int) -> None:
    """float32 networks are within 1 % of a posterior sd of float64 ones."""
    obs = observe(TWO, LONG, SHORT, 0.5, seed)
    own = copy.deepcopy(model)
    single = own.infer(obs, refine=False)
    centre, sd = moments(single, 2, 20_000)
    double = own.infer(obs, dtype=torch.float64, refine=False)
    assert own.dtype == torch.float64
    assert cast(Any, double.slots).analysis.view.z.dtype == torch.float64
    centre_2, sd_2 = moments(double, 2, 20_000)
    # The draws of the two types are different ones: five standard errors of a median beside the 1 %.
    tolerance = 0.01 + 5 * math.sqrt(2) * 1.2533 / math.sqrt(20_000)
    assert np.abs((centre - centre_2) / sd).max() < tolerance
    assert np.abs(np.log(sd / sd_2)).max() < tolerance
    np.testing.assert_allclose(single.k_probs, double.k_probs, atol=1e-4)


def test_earlier_posteriors_survive_a_change_of_type(model: ZoomSlotFlow, seed: int) -> None:
    own = copy.deepcopy(model)
    single = own.infer(observe(TWO, LONG, SHORT, 0.5, seed), refine=False)
    own.infer([], dtype=torch.float64, refine=False)
    assert single.sample(5).shape == single.sample(5, k=2).shape == (5, 2, 3)
    assert single.sample(5, k=3).shape == (5, 3, 3)


def test_threads_and_modes(model: ZoomSlotFlow, seed: int) -> None:
    obs = observe(TWO, LONG, SHORT, 0.5, seed)
    own, before = copy.deepcopy(model), torch.get_num_threads()
    seen: list[int] = []
    own.encoder.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    own.train()
    two = own.infer(obs, threads=2, refine=False)
    one = own.infer(obs, threads=1, refine=False)
    assert seen == [2, 1] and torch.get_num_threads() == before and own.training
    assert_same_answer(one, two, 2, tolerance=1e-3)
    for name, value in model.state_dict().items():
        assert torch.equal(own.state_dict()[name], value)


# ---------------------------------------------------------------- symmetries

CROWD = torch.tensor(
    [[[1.0, 1.0, 2.62], [0.8, 4.0, 2.63], [0.6, 2.0, 2.71], [1.4, 6.0, 2.7145], [0.5, 3.0, 2.95]]],
    dtype=torch.float64,
)
FREE = Prior(k_min=0, min_separation=0.0, sigma=(0.1, 2.0))


@pytest.mark.parametrize("s", [0.01, 3.7, 86_400.0])
def test_time_stretched(s: float, model: ZoomSlotFlow, seed: int) -> None:
    """The same numbers on a clock that is slower by s: frequencies over s, all else as it was (to 1 % of an sd)."""
    obs = observe(CROWD, LONG, SHORT, 0.8, seed)
    streams = [Stream(x.values, x.dt * s, x.t0 * s) for x in obs.streams]
    prior = dataclasses.replace(FREE, frequency=(2.5 / s, 3.0 / s))
    a, b = (
        model.infer(obs, prior=FREE, refine=False),
        model.infer(Observation(*streams), prior=prior, refine=False),
    )
    scale = np.array([1, 1, 1 / s])
    assert_same_answer(a, b, 5, lambda centre, sd: (centre * scale, sd * scale))
    with pytest.raises(AssertionError):  # the comparison sees a shift of a twentieth of an sd
        assert_same_answer(a, b, 5, lambda c, sd: ((c + 0.05 * sd) * scale, sd * scale))


@pytest.mark.parametrize("s", [1e-9, 0.3, 1e6])
def test_amplitude_scaled(s: float, model: ZoomSlotFlow, seed: int) -> None:
    """Data and bounds in other units: amplitudes and noise times s, all else as it was (to 1 % of an sd)."""
    obs = observe(CROWD, LONG, SHORT, 0.8, seed)
    streams = [Stream(s * x.values, x.dt, x.t0) for x in obs.streams]
    prior = dataclasses.replace(FREE, amplitude=(0.5 * s, 1.5 * s), sigma=(0.1 * s, 2.0 * s))
    a, b = (
        model.infer(obs, prior=FREE, refine=False),
        model.infer(Observation(*streams), prior=prior, refine=False),
    )
    scale = np.array([s, 1, 1])
    assert_same_answer(a, b, 5, lambda centre, sd: (centre * scale, sd * scale))
    assert b.noise_std == pytest.approx(s * a.noise_std, rel=1e-5)


@pytest.mark.parametrize("bins", [-300, -1, 37, 300])
def test_frequency_shifted_by_whole_bins(bins: int, model: ZoomSlotFlow, seed: int) -> None:
    """Tones and the noise beneath them moved along: the same answer, to what other noise leaks in.

    The noise is moved bin by bin. From bins that do not move along, at a distance of at least d ≈ 300 bins, a sinc's
    tail reaches the tones: √(Σ 1/(πd)²) ≈ 2 % of the noise, and about as much in sds; 10 % are allowed for the largest
    of fifteen. The noise level outside the band changes by 1 %.
    """
    shift = bins / LONG.duration
    noise, fresh = 0.8 * white(LONG, seed), 0.8 * white(LONG, seed + 9)
    old, new = (
        np.fft.rfft(noise),
        np.fft.rfft(fresh),
    )  # bins that nothing is moved to get noise of their own
    source = np.arange(1, LONG.n // 2)
    source = source[(source + bins >= 1) & (source + bins < LONG.n // 2)]
    turn = np.exp(-2j * np.pi * bins * (LONG.n - 1) / (2 * LONG.n))  # phases refer to mid-time
    new[source + bins] = old[source] * turn
    moved = np.fft.irfft(new, LONG.n)
    theta = CROWD.clone()
    theta[..., 2] += shift
    theta[..., 1] -= 2 * math.pi * shift * mid_time(LONG)  # the same phase at mid-time
    a = model.infer(
        Observation.from_arrays(tones(CROWD, LONG)[0].numpy() + noise, LONG.dt),
        prior=FREE,
        refine=False,
    )
    prior = dataclasses.replace(FREE, frequency=(2.5 + shift, 3.0 + shift))
    b = model.infer(
        Observation.from_arrays(tones(theta, LONG)[0].numpy() + moved, LONG.dt),
        prior=prior,
        refine=False,
    )

    def change(centre: NDArray[Any], sd: NDArray[Any]) -> Any:
        centre = centre + np.array([0, 0, shift])
        # φ at t = 0 from the phase at mid-time, whose uncertainty does not depend on where the band is.
        centre[:, 1] -= 2 * math.pi * shift * mid_time(LONG)
        return centre, sd

    assert_same_answer(a, b, 5, change, tolerance=0.1)


def test_origin_of_time(model: ZoomSlotFlow, seed: int) -> None:
    """Later by t0, as a label: A and f as they were, φ turned back by 2πf t0, with its uncertainty."""
    obs = observe(CROWD, LONG, SHORT, 0.8, seed)
    t0 = -mid_time(LONG)
    later = Observation(*(Stream(x.values, x.dt, x.t0 + t0) for x in obs.streams))
    a, b = model.infer(obs, prior=FREE, refine=False), model.infer(later, prior=FREE, refine=False)
    draws, other = a.sample(500, k=5), b.sample(500, k=5)
    np.testing.assert_allclose(other[..., [0, 2]], draws[..., [0, 2]], rtol=1e-9)
    turned = draws[..., 1] - 2 * np.pi * draws[..., 2] * t0
    assert np.abs(phase_error(other[..., 1] - turned)).max() < 1e-6
    np.testing.assert_allclose(b.k_probs, a.k_probs, atol=1e-9)
    epoch = Observation(*(Stream(x.values, x.dt, x.t0 + 1.7e9) for x in obs.streams))
    far = model.infer(epoch, prior=FREE, refine=False).sample(500, k=5)
    np.testing.assert_allclose(far[..., [0, 2]], draws[..., [0, 2]], rtol=1e-6)


# ---------------------------------------------------------------- other data


@pytest.mark.parametrize(
    ("long", "short", "band"),
    [
        (Grid(6000, 0.05), SHORT, (2.5, 3.0)),
        (Grid(2999, 0.1), Grid(4999, 1 / 500), (2.5, 3.0)),
        (Grid(1_000_000, 1e-4), None, (400.0, 401.5)),
        (Grid(501, 86_400.0), None, (1e-6, 4e-6)),
        (LONG, Grid(300, 0.1, 500.0), (2.5, 3.0)),  # a second stretch, later
        (LONG, None, (0.02, 0.5)),  # down to six bins above zero
        (LONG, None, (4.51, 4.99)),  # up to three bins below Nyquist
    ],
    ids=str,
)
def test_other_samplings(
    long: Grid, short: Grid | None, band: tuple[float, float], model: ZoomSlotFlow, seed: int
) -> None:
    """Three tones amid a band: counted, found within five bounds, sds within 10 % of the bound and twice σ's error."""
    width = band[1] - band[0]
    prior = Prior(k_min=0, k_max=5, frequency=band, min_separation=0.0, sigma=(0.1, 1.5))
    theta = torch.tensor([[[1.0, 1.0, 0.2], [0.8, 4.0, 0.5], [1.2, 2.0, 0.9]]]).double()
    theta[..., 2] = band[0] + width * theta[..., 2]
    sigma = 0.1 * math.sqrt(long.n / 500)
    post = model.infer(observe(theta, long, short, sigma, seed), prior=prior, refine=False)
    assert post.k_map == 3 and post.k_probs[3] > 0.9
    centre, sd = moments(post, 3)
    grids = [g for g in (long, short) if g is not None]
    bound = crb_std(theta, torch.tensor([sigma]), grids)[0].numpy()
    error = centre - theta[0].numpy()
    error[:, 1] = phase_error(error[:, 1])
    assert np.abs(error / bound).max() < 5
    assert np.abs(np.log(sd / bound)).max() < 0.1 + 2 / math.sqrt(2 * long.n)


def test_six_thousand_samples_give_the_same_tones(model: ZoomSlotFlow, seed: int) -> None:
    """20 Hz instead of 10 Hz over the same 300 s, with √2 times the noise: the same information, the same tones."""
    a = model.infer(observe(TWO, LONG, None, 0.5, seed), refine=False)
    fast = observe(TWO, Grid(6000, 0.05), None, 0.5 * math.sqrt(2), seed)
    b = model.infer(fast, refine=False)
    assert a.k_map == b.k_map == 2
    (centre, sd), (centre_2, sd_2) = moments(a, 2), moments(b, 2)
    error = centre - centre_2
    error[:, 1] = phase_error(error[:, 1])
    assert np.abs(error / (math.sqrt(2) * sd)).max() < 5  # independent noise
    assert np.abs(np.log(sd / sd_2)).max() < 0.1


@pytest.mark.parametrize("short", [False, True])
def test_noise_from_the_residual(short: bool, model: ZoomSlotFlow, seed: int) -> None:
    """Hardly a bin outside the band: σ comes from what the tones leave, within 4 standard errors and 10 %."""
    long = Grid(340, 1.0)
    prior = Prior(
        k_min=0, k_max=5, frequency=(12 / 340, 160 / 340), min_separation=0.0, sigma=(0.1, 2)
    )
    theta = torch.tensor([[[1.0, 1.0, 40.3], [0.8, 4.0, 90.0], [1.2, 2.0, 130.7]]]).double()
    theta[..., 2] /= 340
    for sigma in (0.02, 0.2, 0.7):
        obs = observe(theta, long, Grid(60, 0.7, 400.0) if short else None, sigma, seed)
        post = model.infer(obs, prior=prior, refine=False)
        assert post.k_map == 3
        assert abs(post.noise_std / sigma - 1) < 0.1 + 4 / math.sqrt(2 * long.n)
        np.testing.assert_allclose(
            np.sort(moments(post, 3)[0][:, 2]), theta[0, :, 2], atol=5 * sigma * 1.5e-3
        )
    quiet = model.infer(observe(theta[:, :0], long, None, 1.0, seed), prior=prior, refine=False)
    assert quiet.k_map == 0
    assert abs(quiet.noise_std - 1) < 0.1 + 4 / math.sqrt(2 * long.n)


@pytest.mark.parametrize(
    ("grid", "prior", "message"),
    [
        (
            LONG,
            Prior(frequency=(4.8, 5.1)),
            r"below the Nyquist frequency of 5 Hz, received 4\.8–5\.1",
        ),
        (LONG, Prior(frequency=(2.5, 3.01)), r"at most 150 bins of 1/T.*which is 153\.0; narrow"),
        (LONG, Prior(k_max=2, frequency=(2.5, 2.53)), "at least 10 bins.*which is 9.*too short"),
        (
            Grid(150, 0.1),
            Prior(),
            r"at least 10 bins.*T = 15 s, which is 7\.5; the series is too short",
        ),
        (LONG, Prior(k_max=12), "knows up to 10 components, the prior has k_max = 12"),
        (
            LONG,
            Prior(amplitude_law="loguniform"),
            "expects a uniform prior of A, received 'loguniform'",
        ),
    ],
)
def test_refusals(grid: Grid, prior: Prior, message: str, model: ZoomSlotFlow, seed: int) -> None:
    obs = observe(TWO[:, :0], grid, None, 1.0, seed)
    with pytest.raises(ValueError, match=message):
        model.infer(obs, prior=prior, refine=False)
    good = observe(TWO[:, :0], LONG, None, 1.0, seed)
    with pytest.raises(ValueError, match=message):
        model.infer([good, obs], prior=prior, refine=False)
    sim = simulate(Prior(k_min=0, k_max=1), 1, grid, seed=seed, k=0)
    with pytest.raises(ValueError, match=message):
        model.analyse(sim, prior)


def test_a_band_of_150_bins_passes_despite_rounding(model: ZoomSlotFlow, seed: int) -> None:
    for s in (1.0, 0.3, 7.0, 1 / 3):
        grid = Grid(3000, 0.1 * s)
        prior = Prior(frequency=(2.5 / s, 3.0 / s), min_separation=0.01 / s)
        assert (
            model.infer(
                observe(TWO[:, :0], grid, None, 1.0, seed), prior=prior, refine=False
            ).k_probs[0]
            == 0
        )


# ---------------------------------------------------------------- the short stream


def test_the_short_stream_narrows_as_the_bound_says(model: ZoomSlotFlow, base_seed: int) -> None:
    """sd without over sd with it: the ratio of the joint bounds, to 3 % in the median over tones."""
    prior = Prior(k_max=5, sigma=(0.3, 1.0))
    sim = simulate(prior, 40, LONG, SHORT, mode="physical", seed=base_seed + 2)
    alone = dataclasses.replace(sim, short=None, grids=(LONG, None))
    sds, bounds = [], []
    for one in (sim, alone):
        draws = model.analyse(one, prior).slots(sim.k).sample(400)
        sds.append(spread(draws)[sim.mask])
        bounds.append(crb_std(sim.theta, sim.sigma, one.grids, sim.mask)[sim.mask])
    found, expected = sds[1] / sds[0], bounds[1] / bounds[0]
    ratio = (found / expected).median(0).values
    assert (ratio - 1).abs().max() < 0.03, ratio
    gain = expected.median(0).values
    assert gain[1] > 1.5 and (gain > 1.1).all()  # it matters, most of all to φ
    assert (expected.median(0).values.log().abs() > 0.03).all()  # the control: no gain would fail


def test_streams_with_noise_levels_of_their_own(model: ZoomSlotFlow, seed: int) -> None:
    """A short stream three times as noisy that says so: widths are those of the joint bound with that ratio."""
    long = observe(TWO, LONG, None, 0.3, seed).long.values
    short = tones(TWO, SHORT)[0].double().numpy() + 0.9 * white(SHORT, seed + 1)
    obs = Observation(Stream(long, LONG.dt, sigma=0.3), Stream(short, SHORT.dt, sigma=0.9))
    post = model.infer(obs, refine=False)
    assert post.k_map == 2
    assert_within(post.noise_std, 0.3, 0.3 / math.sqrt(2 * (LONG.n + SHORT.n)))
    sd, sigma = moments(post, 2)[1], torch.tensor([0.3])
    bound = crb_std(TWO, sigma, [LONG, SHORT], ratios=[1.0, 3.0])[0].numpy()
    assert np.abs(np.log(sd / bound)).max() < 0.1
    equal = crb_std(TWO, sigma, [LONG, SHORT])[0].numpy()
    assert np.abs(np.log(sd / equal)).max() > 0.1  # the control


# ---------------------------------------------------------------- quality


def spread(draws: Tensor) -> Tensor:
    """Standard deviations of draws (B, n, K, 3), those of phases around their circular mean, (B, K, 3)."""
    draws = draws.clone()
    centre = (
        torch.polar(torch.ones_like(draws[..., 1]), draws[..., 1]).mean(1, keepdim=True).angle()
    )
    draws[..., 1] = torch.remainder(draws[..., 1] - centre + math.pi, 2 * math.pi) - math.pi
    return draws.std(1)


@dataclasses.dataclass(frozen=True)
class Answers:
    sim: Simulation
    analysis: Analysis
    draws: Tensor
    """At the true K, (B, n, K, 3)."""


SETS = {
    "nominal": Prior(sigma=(0.02, 1.5)),
    "stress": Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0)),
}
N = 150


@pytest.fixture(scope="module")
def answers(model: ZoomSlotFlow, base_seed: int) -> dict[str, Answers]:
    found = {}
    for i, (name, prior) in enumerate(SETS.items()):
        sim = simulate(prior, N, LONG, SHORT, mode="physical", seed=base_seed + 100 + i)
        analysis = model.analyse(sim, prior)
        found[name] = Answers(sim, analysis, analysis.slots(sim.k).sample(200))
    return found


@pytest.mark.parametrize("name", SETS)
def test_counts(name: str, answers: dict[str, Answers]) -> None:
    """Errors no more than an error rate of 1e-3 explains in one case of a million; shuffled truth fails."""
    sim, k = answers[name].sim, answers[name].analysis.k_map
    allowed = stats.binom.isf(1e-6, N, 1e-3)
    assert int((k != sim.k).sum()) <= allowed
    assert int((k != sim.k.roll(1)).sum()) > allowed


def ranks(one: Answers, truth: Tensor) -> NDArray[np.float64]:
    """Share of draws below the truth for each tone, both sorted by frequency, (tones, 3)."""
    mask = one.sim.mask
    key = torch.where(mask[:, None], one.draws[..., 2], math.inf)
    order = key.argsort(-1)[..., None].expand_as(one.draws)
    draws = one.draws.gather(2, order)
    error = draws - truth[:, None]
    error[..., 1] = torch.remainder(error[..., 1] + math.pi, 2 * math.pi) - math.pi
    share: NDArray[np.float64] = (error < 0).double().mean(1)[mask].numpy()
    return share


def covered(share: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    result: NDArray[np.float64] = (np.abs(share - 0.5) <= level / 2).mean(0)
    return result


@pytest.mark.parametrize("name", SETS)
def test_coverage(name: str, answers: dict[str, Answers]) -> None:
    """Central intervals at the true K hold the truth as often as they say; truths moved by an sd are noticed.

    Tones of a signal share its noise: the standard error counts signals, not tones, for what is common to them
    (twice that of independent tones).
    """
    one = answers[name]
    share, tones_ = ranks(one, one.sim.theta), int(one.sim.mask.sum())
    moved = ranks(one, one.sim.theta + spread(one.draws))
    for level in (0.5, 0.9):
        error = 2 * math.sqrt(level * (1 - level) / tones_)
        assert_within(covered(share, level), level, error + 0.005, sigmas=4)
        with pytest.raises(AssertionError):
            assert_within(covered(moved, level), level, error + 0.005, sigmas=4)


def test_widths_are_the_bound(answers: dict[str, Answers]) -> None:
    """Median sd over the joint Cramér–Rao bound within 3 %; over that of a σ 10 % larger it is not."""
    one = answers["nominal"]
    sd, mask = spread(one.draws)[one.sim.mask], one.sim.mask
    ratio = sd / crb_std(one.sim.theta, one.sim.sigma, one.sim.grids, mask)[mask]
    # 200 draws give an sd to 5 %, the median over some 800 tones to 0.2 %.
    assert (ratio.median(0).values - 1).abs().max() < 0.03, ratio.median(0).values
    wrong = sd / crb_std(one.sim.theta, 1.1 * one.sim.sigma, one.sim.grids, mask)[mask]
    assert (wrong.median(0).values - 1).abs().min() > 0.03


def test_noise_estimates(answers: dict[str, Answers]) -> None:
    """σ from the residual is unbiased, with the spread that 8,120 samples allow."""
    for one in answers.values():
        free = LONG.n + SHORT.n - 3 * one.sim.k
        pull = (one.analysis.noise / one.sim.sigma - 1) * (2 * free).sqrt()
        assert_within(pull.mean(), 0.0, 1 / math.sqrt(N))
        assert 0.7 < pull.std() < 1.3  # 5 standard errors of an sd from 150 numbers
