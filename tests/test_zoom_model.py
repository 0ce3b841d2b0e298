"""The default model: its API, the prior it is told, and one signal alone or among many."""

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
from tone_helpers import LONG, SHORT, statistics_of
from zoom_helpers import TWO, assert_same_answer, moments, observe

from slotflow import Grid, Observation, Posterior, Prior, SlotFlow, simulate
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.fit import fit

NOMINAL = Prior(k_min=0, sigma=(0.1, 1.0))


@pytest.fixture(scope="module")
def model(zoom: ZoomSlotFlow) -> ZoomSlotFlow:
    """The default model, which all tests share."""
    return zoom


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
    post = model.infer(obs, prior=model.config.prior, refine=False)
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
    post = model.infer(observe(TWO, LONG, SHORT, 0.3, seed), prior=model.config.prior, refine=False)
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
    post = model.infer(obs, prior=model.config.prior, refine=False)
    assert post.k_map == 0 and post.k_probs[0] > 0.9
    assert post.sample(5).shape == (5, 0, 3) and len(post.summary(n=5)) == 0
    assert post.log_prob(np.zeros((0, 3))) == pytest.approx(math.log(post.k_probs[0]))
    theta, k = post.sample_joint(20)
    assert np.isnan(theta[k == 0]).all()
    assert_within(post.noise_std, 1.0, 1 / math.sqrt(2 * (LONG.n + SHORT.n)))
    assert post.sample(5, k=1).shape == (5, 1, 3)


@pytest.mark.parametrize("values", [np.zeros(LONG.n), np.full(LONG.n, 3.0)])
def test_data_without_noise_or_with_an_offset(model: ZoomSlotFlow, values: NDArray[Any]) -> None:
    """Nothing breaks, and a mean that tones and noise do not have is named."""
    warned = (
        pytest.warns(UserWarning, match="subtract the offset") if values.any() else nullcontext()
    )
    with warned:
        post = model.infer(
            Observation.from_arrays(values, LONG.dt), prior=model.config.prior, refine=False
        )
    assert np.isfinite(post.k_probs).all() and math.isfinite(post.noise_std)
    assert np.isfinite(post.sample(5, k=2)).all()


def test_a_line_alone_is_refused(model: ZoomSlotFlow) -> None:
    with pytest.raises(ValueError, match="nothing but rounding is left"):
        model.infer(
            Observation.from_arrays(1e-3 * np.arange(3000), LONG.dt),
            prior=model.config.prior,
            refine=False,
        )


def test_clean_tones(model: ZoomSlotFlow, seed: int) -> None:
    """σ of 1e-4: a thousandth of the smallest amplitude's bound, still counted and measured."""
    post = model.infer(
        observe(TWO, LONG, SHORT, 1e-4, seed), prior=model.config.prior, refine=False
    )
    assert post.k_map == 2
    centre, sd = moments(post, 2)
    np.testing.assert_allclose(centre[:, 2], TWO[0, :, 2], atol=1e-6)
    assert (sd[:, 2] < 1e-6).all() and np.isfinite(np.asarray(post.log_prob(post.sample(5)))).all()


def test_copies_and_pickles(model: ZoomSlotFlow, seed: int) -> None:
    obs = observe(TWO, LONG, None, 0.3, seed)
    base = model.infer(obs, prior=model.config.prior, refine=False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is ZoomSlotFlow
        np.testing.assert_array_equal(
            other.infer(obs, prior=other.config.prior, refine=False).k_probs, base.k_probs
        )


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
    best = fit(statistics_of(sim), sim.theta[:, :1])
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
    assert model.infer([], prior=model.config.prior, refine=False) == []


def test_double_precision(model: ZoomSlotFlow, seed: int) -> None:
    """float32 networks are within 1 % of a posterior sd of float64 ones."""
    obs = observe(TWO, LONG, SHORT, 0.5, seed)
    own = copy.deepcopy(model)
    single = own.infer(obs, prior=own.config.prior, refine=False)
    centre, sd = moments(single, 2, 20_000)
    double = own.infer(obs, prior=own.config.prior, dtype=torch.float64, refine=False)
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
    single = own.infer(observe(TWO, LONG, SHORT, 0.5, seed), prior=own.config.prior, refine=False)
    own.infer([], prior=own.config.prior, dtype=torch.float64, refine=False)
    assert single.sample(5).shape == single.sample(5, k=2).shape == (5, 2, 3)
    assert single.sample(5, k=3).shape == (5, 3, 3)


def test_threads_and_modes(model: ZoomSlotFlow, seed: int) -> None:
    obs = observe(TWO, LONG, SHORT, 0.5, seed)
    own, before = copy.deepcopy(model), torch.get_num_threads()
    seen: list[int] = []
    own.encoder.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    own.train()
    two = own.infer(obs, prior=own.config.prior, threads=2, refine=False)
    one = own.infer(obs, prior=own.config.prior, threads=1, refine=False)
    assert seen == [2, 1] and torch.get_num_threads() == before and own.training
    assert_same_answer(one, two, 2, tolerance=1e-3)
    for name, value in model.state_dict().items():
        assert torch.equal(own.state_dict()[name], value)
