"""The public API: building, loading, inferring, and refusing what does not fit."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within

import slotflow
from slotflow import (
    Observation,
    Posterior,
    Posteriors,
    Prior,
    Simulation,
    SlotFlow,
    Stream,
    simulate,
)
from slotflow.network.config import Config, LossConfig
from slotflow.network.model import DEFAULT, pretrained_names
from slotflow.network.paper.loss import PaperLoss

LONG, SHORT = (getattr(Config.from_preset("debug").model, name) for name in ("long", "short"))


@pytest.fixture(scope="module")
def signals(debug_config: Config, base_seed: int) -> Simulation:
    model = debug_config.model
    return simulate(model.prior, 24, model.long, model.short, mode="physical", seed=base_seed + 7)


@pytest.fixture(scope="module")
def observations(signals: Simulation) -> list[Observation]:
    return [signals.observation(i) for i in range(24)]


@pytest.fixture
def own_model(debug_model: SlotFlow) -> SlotFlow:
    """A copy that a test may move, cast or train."""
    return copy.deepcopy(debug_model)


def same(a: Posterior, b: Posterior, atol: float) -> None:
    """Asserts that two posteriors agree in K, noise, draws and densities."""
    np.testing.assert_allclose(a.k_probs, b.k_probs, atol=atol)
    assert a.noise_std == pytest.approx(b.noise_std, abs=atol)
    theta = a.sample(20, k=2)
    np.testing.assert_allclose(a.log_prob(theta), b.log_prob(theta), atol=100 * atol)


# ---------------------------------------------------------------- names and behaviour


def test_names_of_the_package() -> None:
    for name in ("Observation", "Posterior", "Prior", "SlotFlow", "Stream", "simulate"):
        assert name in slotflow.__all__ and hasattr(slotflow, name)
    assert slotflow.__version__.count(".") == 2


def test_api_from_end_to_end(debug_model: SlotFlow, signals: Simulation) -> None:
    x, y = signals.long[0].numpy(), signals.short[0].numpy()
    obs = Observation.from_arrays(long=x, dt_long=LONG.dt, short=y, dt_short=SHORT.dt)
    post = debug_model.infer(obs, refine=False)
    assert isinstance(post, Posterior)
    assert post.k_probs.shape == (4,) and post.k_probs.sum() == pytest.approx(1.0, abs=1e-12)
    assert post.k_probs[0] == 0.0
    assert post.k_map == post.k_probs.argmax()
    draws = post.sample(100, k=None, seed=0)
    assert draws.shape == (100, post.k_map, 3)
    assert np.isfinite(post.log_prob(draws)).all()
    assert isinstance(post.log_prob(draws[0]), float)
    theta, k = post.sample_joint(100, seed=0)
    assert theta.shape == (100, 3, 3) and k.shape == (100,)
    assert len(post.summary()) == post.k_map
    assert isinstance(post.noise_std, float) and post.noise_std > 0
    assert 0 <= post.constrained_fraction() <= 1
    assert post.observation is obs
    assert "debug" in post.method
    posts = debug_model.infer([obs, obs], refine=False)
    assert isinstance(posts, Posteriors) and len(posts) == 2


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_any_k_can_be_asked_for(k: int, debug_model: SlotFlow, signals: Simulation) -> None:
    post = debug_model.infer(signals.observation(0), refine=False)
    draws = post.sample(50, k=k)
    assert draws.shape == (50, k, 3)
    assert post.log_prob(draws).shape == (50,)
    assert len(post.summary(k=k, n=50)) == k


def test_untrained_paper_preset() -> None:
    model = SlotFlow.from_preset("paper")
    config = Config.from_preset("paper").model
    assert model.config == config
    assert model.n_parameters == sum(p.numel() for p in model.parameters()) > 0
    obs = simulate(config.prior, 1, config.long, config.short).observation(0)
    post = model.infer(obs, refine=False)
    assert post.k_probs.shape == (11,) and post.k_probs.sum() == pytest.approx(1.0)
    assert post.sample(5, k=10).shape == (5, 10, 3)
    assert post.noise_std_error is not None  # no noise encoder: from outside the band


def test_trained_weights_count_and_measure(
    debug_model: SlotFlow, debug_config: Config, base_seed: int
) -> None:
    """K and σ are far better than a draw from the prior would be."""
    model, n = debug_config.model, 256
    sim = simulate(model.prior, n, model.long, model.short, mode="physical", seed=base_seed + 11)
    posts = debug_model.infer([sim.observation(i) for i in range(n)], refine=False)
    k = sim.k.numpy()
    right = np.mean([p.k_map == truth for p, truth in zip(posts, k, strict=True)])
    assert right > 0.97 - 5 * math.sqrt(0.97 * 0.03 / n)  # what the README says, less five sigma
    assert np.mean([p.k_probs[truth] for p, truth in zip(posts, k, strict=True)]) > 0.9
    noise = np.array([p.noise_std for p in posts])
    assert np.corrcoef(noise, sim.sigma.numpy())[0, 1] > 0.8


@pytest.mark.parametrize(
    ("parameter", "prior_sd"), [(0, 1 / 12**0.5), (1, math.pi / 3**0.5), (2, 0.5 / 12**0.5)]
)
def test_trained_posteriors_are_narrow_and_cover(
    parameter: int, prior_sd: float, debug_model: SlotFlow, debug_config: Config, base_seed: int
) -> None:
    """K = 1: far narrower than the prior, and 90 % intervals that hold the truth about as often as they say.

    The network is small: its coverage may be off by 6 % beside the Monte-Carlo error, but intervals of a third
    of the width, the control, must fail.
    """
    model, n = debug_config.model, 400
    sim = simulate(model.prior, n, model.long, model.short, seed=base_seed + 5, k=1)
    draws = np.stack(
        [
            p.sample(400, k=1)[:, 0]
            for p in debug_model.infer([sim.observation(i) for i in range(n)], refine=False)
        ]
    )
    x, truth = draws[..., parameter], sim.theta[:, 0, parameter].numpy()[:, None]
    if parameter == 1:  # around the circular mean
        centre = np.angle(np.exp(1j * x).mean(axis=1, keepdims=True))
        x, truth = (np.mod(v - centre + math.pi, 2 * math.pi) - math.pi for v in (x, truth))
    assert np.median(x.std(axis=1)) < prior_sd / 4
    low, middle, high = np.quantile(x, [0.05, 0.5, 0.95], axis=1)[..., None]
    tolerance = 0.06 + 4 * math.sqrt(0.9 * 0.1 / n)
    covered = np.mean((low <= truth) & (truth <= high))
    assert abs(covered - 0.9) < tolerance
    thin = np.mean((truth - middle > (low - middle) / 3) & (truth - middle < (high - middle) / 3))
    assert abs(thin - 0.9) > tolerance


# ---------------------------------------------------------------- one, many, again


def test_list_equals_one_by_one(debug_model: SlotFlow, observations: list[Observation]) -> None:
    together = debug_model.infer(observations[:6], refine=False)
    for post, obs in zip(together, observations[:6], strict=True):
        same(post, debug_model.infer(obs, refine=False), atol=1e-5)
        assert post.observation is obs


@pytest.mark.parametrize("batch_size", [1, 5, 24, 1000])
def test_batch_size_does_not_matter(
    batch_size: int, debug_model: SlotFlow, observations: list[Observation]
) -> None:
    base = debug_model.infer(observations, refine=False)
    for a, b in zip(
        base, debug_model.infer(observations, batch_size=batch_size, refine=False), strict=True
    ):
        np.testing.assert_allclose(a.k_probs, b.k_probs, atol=1e-5)
        assert a.noise_std == pytest.approx(b.noise_std, abs=1e-5)


def test_sequences_of_any_kind(debug_model: SlotFlow, observations: list[Observation]) -> None:
    assert debug_model.infer([], refine=False) == []
    assert len(debug_model.infer(tuple(observations[:2]), refine=False)) == 2
    assert len(debug_model.infer((obs for obs in observations[:2]), refine=False)) == 2


def test_inference_leaves_the_model_as_it_was(
    own_model: SlotFlow, observations: list[Observation]
) -> None:
    before = {name: t.clone() for name, t in own_model.state_dict().items()}
    own_model.train()
    own_model.infer(observations[:2], refine=False)
    assert own_model.training
    own_model.eval().infer(observations[0], refine=False)
    assert not own_model.training
    for name, t in own_model.state_dict().items():
        assert torch.equal(t, before[name]), name


def test_training_mode_survives_an_error(
    own_model: SlotFlow, observations: list[Observation]
) -> None:
    own_model.train()
    with pytest.raises(ValueError, match="k_prior"):
        own_model.infer(observations[0], k_prior=[0, -1, 1, 1], refine=False)
    with pytest.raises(ValueError, match="threads"):
        own_model.infer(observations[0], threads=0, refine=False)
    assert own_model.training


# ---------------------------------------------------------------- the prior over K


def test_k_prior_equals_bayes_rule(debug_model: SlotFlow, observations: list[Observation]) -> None:
    base = debug_model.infer(observations[:4], refine=False)
    weights = np.array([0, 0.7, 0.2, 0.1])
    moved = debug_model.infer(observations[:4], k_prior=weights, refine=False)
    for a, b in zip(base, moved, strict=True):
        expected = a.k_probs * weights  # p_train is uniform
        np.testing.assert_allclose(b.k_probs, expected / expected.sum(), atol=1e-6)
    only = debug_model.infer(observations[0], k_prior={3: 1}, refine=False)
    assert only.k_probs.tolist() == [0, 0, 0, 1] and only.k_map == 3


def test_k_prior_with_a_non_uniform_training_prior(seed: int) -> None:
    torch.manual_seed(seed)
    config = Config.from_preset("debug").model
    uniform = SlotFlow(config)
    skewed = SlotFlow(
        Config.from_dict(
            {"model": {**plain(config), "prior": {"k_max": 3, "k_probs": [6, 3, 1]}}}
        ).model
    )
    skewed.load_state_dict(uniform.state_dict())
    obs = simulate(config.prior, 1, config.long, config.short, seed=seed).observation(0)
    base = uniform.infer(obs, refine=False).k_probs
    np.testing.assert_allclose(skewed.infer(obs, refine=False).k_probs, base, atol=1e-6)
    flat = skewed.infer(obs, k_prior=[0, 1, 1, 1], refine=False).k_probs
    expected = base / np.array([1, 0.6, 0.3, 0.1])
    np.testing.assert_allclose(flat, expected / expected.sum(), atol=1e-6)


def plain(config: Any) -> dict[str, Any]:
    data: dict[str, Any] = Config(config).to_dict()["model"]
    return data


# ---------------------------------------------------------------- device, type, threads


def test_double_precision(own_model: SlotFlow, observations: list[Observation]) -> None:
    single = own_model.infer(observations[:3], refine=False)
    double = own_model.infer(observations[:3], dtype=torch.float64, refine=False)
    assert own_model.dtype == torch.float64
    for a, b in zip(single, double, strict=True):
        same(b, a, atol=1e-4)  # the earlier posterior still works, too
    assert own_model.infer(observations[0], dtype=torch.float32, refine=False).k_probs.shape == (4,)
    assert own_model.dtype == torch.float32


def test_model_can_be_trained_after_inference(
    own_model: SlotFlow, observations: list[Observation], signals: Simulation
) -> None:
    own_model.infer(observations[0], dtype=torch.float64, refine=False)
    own_model.infer(observations[0], dtype=torch.float32, device="cpu", refine=False)
    PaperLoss(own_model, LossConfig())(signals)["loss"].backward()
    assert all(p.grad is not None for p in own_model.parameters())


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_device(device: Any, own_model: SlotFlow, observations: list[Observation]) -> None:
    post = own_model.infer(observations[0], device=device, refine=False)
    assert own_model.device == torch.device("cpu")
    assert np.isfinite(post.sample(5)).all()


def test_threads_hold_during_the_call_only(
    own_model: SlotFlow, observations: list[Observation]
) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    own_model.encoder.register_forward_hook(lambda *args: seen.append(torch.get_num_threads()))
    own_model.infer(observations[0], threads=2, refine=False)
    own_model.infer(observations[0], refine=False)
    assert seen == [2, before]
    assert torch.get_num_threads() == before


# ---------------------------------------------------------------- loading and saving


def test_default_is_embedded() -> None:
    assert DEFAULT in pretrained_names()
    default, named = SlotFlow.from_pretrained(), SlotFlow.from_pretrained(DEFAULT)
    assert default.config == named.config and not default.training
    for a, b in zip(default.parameters(), named.parameters(), strict=True):
        assert torch.equal(a, b)


def test_save_and_load(
    debug_model: SlotFlow, observations: list[Observation], tmp_path: Path
) -> None:
    debug_model.save(tmp_path / "model.safetensors", {"note": "test"})
    base = debug_model.infer(observations[0], refine=False)
    for source in (tmp_path, tmp_path / "model.safetensors", str(tmp_path / "model.safetensors")):
        loaded = SlotFlow.from_pretrained(source, device="cpu", dtype=torch.float32)
        assert loaded.config == debug_model.config
        post = loaded.infer(observations[0], refine=False)
        np.testing.assert_array_equal(post.k_probs, base.k_probs)
        np.testing.assert_array_equal(post.sample(5, seed=1), base.sample(5, seed=1))


def test_load_in_double_precision() -> None:
    assert SlotFlow.from_pretrained(dtype=torch.float64).dtype == torch.float64


# ---------------------------------------------------------------- refusals


def stream_pair(
    long_n: int = LONG.n,
    long_dt: float = LONG.dt,
    short_n: int = SHORT.n,
    short_dt: float = SHORT.dt,
) -> Observation:
    return Observation.from_arrays(np.zeros(long_n), long_dt, np.zeros(short_n), short_dt)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (stream_pair(long_n=127), "expects 128 samples in the long stream, received 127"),
        (stream_pair(short_n=256), "expects 64 samples in the short stream, received 256"),
        (
            stream_pair(long_dt=0.2),
            r"expects a step of 0\.15625 s in the long stream, received 0\.2 s",
        ),
        (stream_pair(long_dt=1.001 * LONG.dt), "expects a step of .* received"),
        (stream_pair(short_dt=1 / 100), r"expects a step of .* short stream, received 0\.01 s"),
        (
            Observation.from_arrays(np.zeros(LONG.n), LONG.dt),
            "needs a short stream of 64 samples .* received none; give short=",
        ),
        (
            Observation.from_arrays(
                np.zeros(LONG.n), LONG.dt, np.zeros(SHORT.n), SHORT.dt, t0_long=5.0
            ),
            "expects the long stream to start at t0 = 0 s, received 5 s",
        ),
    ],
)
def test_observations_that_do_not_fit(
    obs: Observation, message: str, debug_model: SlotFlow
) -> None:
    with pytest.raises(ValueError, match=message):
        debug_model.infer(obs, refine=False)
    with pytest.raises(ValueError, match=message):
        debug_model.infer([stream_pair(), obs], refine=False)


def test_rounding_of_the_step_is_forgiven(debug_model: SlotFlow) -> None:
    assert debug_model.infer(
        stream_pair(long_dt=LONG.dt * (1 + 1e-9)), refine=False
    ).k_probs.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (3, "int"),
        (None, "NoneType"),
        (np.zeros(512), "float64"),
        ([np.zeros(512)], "ndarray"),
        (Stream(np.zeros(512), 0.1), "Channel"),
        ("data.csv", "str"),
    ],
)
def test_wrong_types(wrong: Any, name: str, debug_model: SlotFlow) -> None:
    with pytest.raises(ValueError, match=f"expected .*Observation.* received {name}"):
        debug_model.infer(wrong, refine=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": torch.float16}, "expected dtype .* received torch.float16"),
        ({"threads": 0}, "expected threads >= 1, received 0"),
        ({"k_prior": [1, 1]}, "expected 4 numbers.*received"),
        ({"k_prior": [0, 0, 0, 0]}, "not all zero.*received"),
        ({"k_prior": [1, 1, 1, 1]}, "K = 0"),
    ],
)
def test_wrong_options(
    options: dict[str, Any], message: str, own_model: SlotFlow, observations: list[Observation]
) -> None:
    with pytest.raises(ValueError, match=message):
        own_model.infer(observations[0], **options, refine=False)


def test_wrong_batch_size(debug_model: SlotFlow, observations: list[Observation]) -> None:
    with pytest.raises(ValueError, match="batch_size >= 1, received 0"):
        debug_model.infer(observations[:2], batch_size=0, refine=False)


def test_k_out_of_range(debug_model: SlotFlow, observations: list[Observation]) -> None:
    post = debug_model.infer(observations[0], refine=False)
    for k in (-1, 4):
        with pytest.raises(ValueError, match=rf"expected .*0\.\.3, received {k}"):
            post.sample(3, k=k)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a preset of .* received 'nothing'"):
        SlotFlow.from_preset("nothing")
    for source in ("nothing", tmp_path, tmp_path / "model.safetensors"):
        with pytest.raises(ValueError, match=r"expected .* found nothing"):
            SlotFlow.from_pretrained(source)
    with pytest.raises(ValueError, match="expected dtype"):
        SlotFlow.from_pretrained(dtype=torch.bfloat16)


def test_prior_without_components_is_refused_by_this_architecture() -> None:
    data = plain(Config.from_preset("debug").model)
    data["prior"]["k_min"] = 0
    with pytest.raises(ValueError, match="k_min >= 1"):
        Config.from_dict({"model": data})


def test_noise_error_comes_with_the_estimate_from_outside_the_band(seed: int) -> None:
    """Without a noise encoder σ is measured outside the band, with an error that is honest."""
    data = plain(Config.from_preset("debug").model)
    data["encoder"]["noise"] = False
    model = SlotFlow(Config.from_dict({"model": data}).model)
    config = model.config
    sim = simulate(Prior(k_max=3, sigma=(0.5, 1.0)), 50, config.long, config.short, seed=seed)
    posts = model.infer([sim.observation(i) for i in range(50)], refine=False)
    pulls = [(p.noise_std - s) / p.noise_std_error for p, s in zip(posts, sim.sigma, strict=True)]
    assert_within(np.mean(pulls), 0.0, 1 / math.sqrt(50))
    assert 0.5 < np.std(pulls) < 2.0


def test_data_that_overflow_are_refused(debug_model: SlotFlow) -> None:
    obs = Observation.from_arrays(np.full(LONG.n, 1e39), LONG.dt, np.zeros(SHORT.n), SHORT.dt)
    with pytest.raises(ValueError, match=r"received values up to 1e\+39, which overflow; rescale"):
        debug_model.infer([stream_pair(), obs], refine=False)


@pytest.mark.parametrize("device", ["abacus", "cuda:77"])
def test_devices_that_do_not_exist(device: str, debug_model: SlotFlow) -> None:
    with pytest.raises(ValueError, match="expected a device of this machine"):
        debug_model.infer(stream_pair(), device=device, refine=False)


def test_arguments_are_checked_before_the_data(debug_model: SlotFlow) -> None:
    with pytest.raises(ValueError, match="batch_size >= 1"):
        debug_model.infer(stream_pair(), batch_size=0, refine=False)
    with pytest.raises(ValueError, match="k_prior must be finite, not negative"):
        debug_model.infer([], k_prior=[0, -1, 1, 1], refine=False)
    with pytest.raises(ValueError, match=r"whole number .*received 1\.5"):
        debug_model.infer(stream_pair(), refine=False).sample(1.5)  # type: ignore[arg-type]
