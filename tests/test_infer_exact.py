"""`model.infer` with its exact step: what it gives by default, which priors it takes, and how it fails."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from slotflow import Grid, Observation, Posterior, Prior, SlotFlow, simulate
from slotflow.cli import app
from slotflow.exact.refine import RefinedPosterior
from slotflow.signal.noise import SMALLEST_LEVEL
from slotflow.signal.simulation_file import write_simulation

LONG = Grid(3000, 0.1)
PLENTY = 300.0
"""Seconds: so many that no budget decides what is done."""
LITTLE = 0.2
"""Seconds, where the verdict does not depend on them."""


@pytest.fixture(scope="module")
def model(zoom: SlotFlow) -> SlotFlow:
    """The default model, which all tests share."""
    return zoom


@pytest.fixture(scope="module")
def debug() -> SlotFlow:
    return SlotFlow.from_pretrained("debug")


def long_only(theta: list[list[float]], sigma: float, seed: int, scale: float = 1.0) -> Observation:
    """Given tones (A, φ, f) in noise, in other units if asked for."""
    t = LONG.times
    x = np.random.default_rng(seed).normal(scale=sigma, size=LONG.n) if sigma else 0.0 * t
    for a, p, f in theta:
        x = x + a * np.cos(2 * np.pi * f * t + p)
    return Observation.from_arrays(scale * x, LONG.dt)


ONE = [[1.0, 1.0, 2.7]]

# ---------------------------------------------------------------------- what infer gives


def test_infer_refines_unless_told_not_to(model: SlotFlow) -> None:
    obs = long_only(ONE, 0.5, 0)
    exact = model.infer(obs, prior=model.config.prior, max_seconds=PLENTY)
    fast = model.infer(obs, prior=model.config.prior, refine=False)
    assert type(exact) is RefinedPosterior and type(fast) is Posterior
    assert (exact.verdict.status, fast.verdict.status) == ("exact", "approximate")
    assert fast.verdict.reason == "amortized only, not checked against the likelihood"
    np.testing.assert_array_equal(exact.amortized.k_probs, fast.k_probs)
    again = fast.refine(max_seconds=PLENTY)
    np.testing.assert_array_equal(again.sample(5), exact.sample(5))
    other = model.infer(obs, prior=model.config.prior, max_seconds=PLENTY, seed=1, draws=500)
    assert not np.array_equal(other.sample(5), exact.sample(5))
    assert len(other.weighted().weights) < len(exact.weighted().weights)


def test_a_list_is_answered_as_one_by_one(debug: SlotFlow) -> None:
    c = debug.config
    sim = simulate(c.prior, 3, c.long, c.short, mode="physical", seed=5)
    observations = [sim.observation(i) for i in range(3)]
    together = debug.infer(observations, max_seconds=PLENTY, batch_size=2)
    for post, obs in zip(together, observations, strict=True):
        alone = debug.infer(obs, max_seconds=PLENTY)
        assert isinstance(post, RefinedPosterior)
        np.testing.assert_allclose(post.k_probs, alone.k_probs, atol=1e-3)
        assert post.k_map == alone.k_map


def test_answers_come_one_by_one(debug: SlotFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is checked at the call; nothing is refined before it is asked for."""
    c = debug.config
    sim = simulate(c.prior, 2, c.long, c.short, mode="physical", seed=5)
    observations = [sim.observation(i) for i in range(2)]
    done: list[int] = []

    def refined(post: Posterior, **options: Any) -> Posterior:
        done.append(options["draws"])
        return post

    monkeypatch.setattr(Posterior, "refine", refined)
    each = debug.infer_each(observations, draws=300)
    assert isinstance(each, Iterator) and done == []
    next(each)
    assert done == [300]
    assert len(list(each)) == 1 and done == [300, 300]
    for wrong in ({"draws": 3}, {"max_seconds": -1.0}, {"threads": 0}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="expect"):
            debug.infer_each(observations, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="128 samples in the long stream"):
        debug.infer_each([*observations, long_only(ONE, 1.0, 0)])


# ---------------------------------------------------------------------- priors


def test_a_log_uniform_amplitude(model: SlotFlow) -> None:
    """The exact step knows the law: draws of A follow 1/A against those of the uniform one."""
    obs = long_only([[0.25, 1.0, 2.7]], 2.0, 3)  # its SNR is about five
    flat = Prior(k_max=1, amplitude=(0.05, 1.5), sigma=(0.5, 3.0))
    law = Prior(k_max=1, amplitude=(0.05, 1.5), sigma=(0.5, 3.0), amplitude_law="loguniform")
    uniform, log = (model.infer(obs, prior=p, max_seconds=PLENTY, draws=4000) for p in (flat, law))
    assert log.prior == law and log.amortized.prior == flat
    a, b = uniform.sample(4000)[:, 0, 0], log.sample(4000)[:, 0, 0]
    expected = 1 / np.mean(1 / a)  # mean of A under weights 1/A
    error = a.std() / np.sqrt(min(uniform.ess, log.ess) * 4000)
    assert abs(b.mean() - expected) < 5 * np.sqrt(2) * error
    assert abs(a.mean() - expected) > 5 * np.sqrt(2) * error  # the laws can be told apart
    with pytest.raises(ValueError, match="leave refine=True, whose exact step knows that law"):
        model.infer(obs, prior=law, refine=False)


def test_a_network_of_one_prior_is_a_start_for_others(debug: SlotFlow) -> None:
    c = debug.config
    obs = simulate(c.prior, 1, c.long, c.short, mode="physical", seed=5, k=1).observation(0)
    wide = Prior(k_max=2, amplitude=(0.1, 3.0), sigma=(0.0, 3.0))
    post = debug.infer(obs, prior=wide, max_seconds=PLENTY)
    assert post.prior == wide and post.verdict.status == "exact"
    assert post.k_probs.shape == (4,) and post.k_map == 1
    assert post.sample(4000)[..., 0].max() < 3
    with pytest.raises(ValueError, match="let the exact step follow"):
        debug.infer(obs, prior=wide, refine=False)
    for other in (Prior(k_max=3, frequency=(2.0, 3.0)), Prior(k_max=4)):
        with pytest.raises(ValueError, match="the prior of its training only"):
            debug.infer(obs, prior=other)


def test_p_of_k_is_as_long_as_the_network_knows(model: SlotFlow) -> None:
    post = model.infer(long_only(ONE, 0.5, 0), prior=Prior(k_max=3), max_seconds=PLENTY)
    assert post.k_probs.shape == (11,) and post.k_probs[4:].sum() == 0
    assert post.log_prob(np.zeros((5, 3))) == -np.inf
    one = model.infer(
        long_only(ONE, 0.5, 0), prior=model.config.prior, k_prior={1: 1.0}, max_seconds=PLENTY
    )
    np.testing.assert_allclose(one.k_probs, np.eye(11)[1])


# ---------------------------------------------------------------------- how it fails


def check(post: RefinedPosterior, status: str, *words: str) -> None:
    """A verdict, and that the rest of the result can be used."""
    assert post.verdict.status == status, post.verdict
    for word in words:
        assert word in post.verdict.reason
    assert post.k_probs.sum() == pytest.approx(1)
    assert np.isfinite(post.sample(20)).all()
    assert len(post.summary()) == post.k_map
    assert len(post.residual()[0]) == LONG.n
    assert np.isfinite(post.noise_std)
    post.to_dataset(10)


def test_more_tones_than_k_max(model: SlotFlow) -> None:
    tones = [[1.0, float(i), 2.52 + 0.032 * i] for i in range(14)]
    post = model.infer(long_only(tones, 1.0, 1), prior=model.config.prior, max_seconds=PLENTY)
    check(post, "misfit", "there may be more tones than K_max (p(K = K_max) = 1.00)")


@pytest.mark.parametrize(("sigma", "bounds"), [(5.0, (0.0, 1.5)), (0.3, (1.0, 2.0))])
def test_noise_that_the_prior_excludes(
    model: SlotFlow, sigma: float, bounds: tuple[float, float]
) -> None:
    prior = Prior(k_min=0, sigma=bounds)
    post = model.infer(long_only([], sigma, 2), prior=prior)
    check(post, "misfit", "noise level of", "widen Prior.sigma", "the network's, not checked")
    assert post.ess == 0 and np.all(post.log_evidence[:, 0] == -np.inf)
    with pytest.raises(ValueError, match="the verdict says why: misfit"):
        post.weighted()
    wider = model.infer(long_only([], sigma, 2), prior=Prior(k_min=0, sigma=(0.0, 10.0)))
    assert wider.verdict.status == "exact"  # the control


def test_data_in_other_units_than_the_prior(model: SlotFlow) -> None:
    """Far below the smallest σ that is considered."""
    small = Prior(amplitude=(5e-22, 1.5e-21))
    post = model.infer(long_only(ONE, 0.5, 2, scale=1e-21), prior=small)
    check(post, "misfit", "state Prior.sigma in the data's units")
    right = Prior(amplitude=(5e-22, 1.5e-21), sigma=(0.0, 1.5e-21))
    assert model.infer(long_only(ONE, 0.5, 2, scale=1e-21), prior=right).verdict.status == "exact"


def test_a_prior_that_excludes_the_tone(model: SlotFlow) -> None:
    """Its amplitude: no draw has any weight. Its band: something is left outside."""
    strong = long_only([[6.0, 1.0, 2.7]], 1.0, 3)
    post = model.infer(strong, prior=Prior(k_max=1), max_seconds=LITTLE)
    check(post, "misfit", "the strongest peak in the band has the amplitude", "above the assumed")
    elsewhere = Prior(k_min=0, k_max=3, frequency=(1.0, 1.4))
    post = model.infer(long_only(ONE, 0.5, 3), prior=elsewhere, max_seconds=LITTLE, noise="white")
    check(post, "misfit", "a peak outside the band at 2.7 Hz")
    post = model.infer(long_only(ONE, 0.5, 3), prior=elsewhere)
    assert post.k_map == 0 and post.verdict.status == "exact", post.verdict
    assert post.noise is not None and post.noise.name == "local"


def test_constant_data(model: SlotFlow) -> None:
    for value in (0.0, 3.0, 1e6):
        obs = Observation.from_arrays(np.full(LONG.n, value), LONG.dt)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the offset
            post = model.infer(obs, prior=model.config.prior, max_seconds=LITTLE)
        check(post, "misfit", "the long stream is constant")


def test_tones_without_noise(model: SlotFlow) -> None:
    """The noise level has a floor, so that the evidence has a limit."""
    post = model.infer(long_only(ONE, 0.0, 0), prior=Prior(k_max=2), max_seconds=LITTLE)
    check(post, "approximate", "nothing is left of the data but rounding", "smallest σ")
    assert post.weighted().sigma.min() >= SMALLEST_LEVEL * 1.5
    assert np.isfinite(post.log_evidence[1, 0])


def test_no_time(model: SlotFlow) -> None:
    """One K is sampled in any case, and the verdict names the one that was not looked at."""
    obs = long_only(ONE, 0.5, 0)
    post = model.infer(obs, prior=model.config.prior, max_seconds=0)
    check(post, "approximate", "the time budget ended before K = ", "raise max_seconds")
    assert post.k_map == 1 and post.ess > 0.5
    assert (
        model.infer(obs, prior=model.config.prior, max_seconds=float("inf")).verdict.status
        == "exact"
    )


def test_a_fit_that_does_not_converge(model: SlotFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **options: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("slotflow.exact.refine.across_orders", fails)
    post = model.infer(long_only(ONE, 0.5, 0), prior=model.config.prior)
    check(post, "approximate", "have no solution (Singular matrix)", "the network's, not checked")
    np.testing.assert_array_equal(post.sample(10), post.amortized.sample(10))


# ---------------------------------------------------------------------- the command line


@pytest.fixture
def signals(tmp_path: Path, debug: SlotFlow) -> Path:
    """A file with three signals that the debug network was trained for."""
    c = debug.config
    sim = simulate(c.prior, 3, c.long, c.short, mode="physical", seed=5, k=1)
    write_simulation(tmp_path / "signals.npz", sim)
    return tmp_path / "signals.npz"


def command(*args: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args])


def test_the_command_refines(signals: Path) -> None:
    args = ("infer", signals, "--model", "debug", "--max-seconds", PLENTY)
    found = json.loads(command(*args, "--json").stdout)["signals"][0]
    assert found["verdict"]["status"] == "exact" and 0 < found["ess"] <= 1
    assert found["log_evidence"][0] == {"value": None, "error": None}  # the prior excludes it
    assert found["log_evidence"][1]["error"] < 0.1
    text = command(*args).stdout
    assert text.index("Verdict: exact") < text.index("p(K | x)") < text.index("Evidence of K = 1")
    fast = json.loads(command(*args, "--no-refine", "--json").stdout)["signals"][0]
    assert fast["verdict"]["status"] == "approximate"
    assert fast["ess"] is None and fast["log_evidence"] is None
    text = command(*args, "--no-refine").stdout
    assert "q(K | x)" in text and "Verdict: approximate: amortized only" in text


def test_ctrl_c_keeps_what_is_done(
    signals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    refine = Posterior.refine

    def interrupted(post: Posterior, **options: Any) -> RefinedPosterior:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return refine(post, **options)

    monkeypatch.setattr(Posterior, "refine", interrupted)
    out = tmp_path / "out"
    result = command("infer", signals, "--model", "debug", "--out", out)
    assert result.exit_code == 130
    assert f"1 of 3 signals were done and kept in {out}" in " ".join(result.output.split())
    assert "signals.npz" in result.stdout and "Verdict" in result.stdout
    assert [p.name for p in out.iterdir() if p.is_dir()] == ["signals-00000"]
    assert {p.name for p in (out / "signals-00000").iterdir()} == {"summary.csv", "posterior.nc"}


@pytest.mark.parametrize("allowed", [{0, 2, 3}, {0, 3}, {0, 2}])
def test_holes_in_the_prior_over_k(model: SlotFlow, allowed: set[int]) -> None:
    """Orders beyond one of p(K) = 0 are reached; p(K | x) is that of the evidences without the hole."""
    t = 0.1 * np.arange(3000)
    noise = np.random.default_rng(3).standard_normal(t.size)
    obs = Observation.from_arrays(0.12 * np.cos(2 * np.pi * 2.7 * t + 1) + noise, 0.1)
    prior = Prior(k_min=0, k_max=3, amplitude=(0.05, 1.5), sigma=(0, 2), frequency=(2.65, 2.75))
    full = model.infer(obs, prior=prior, max_seconds=PLENTY)
    assert full.log_evidence is not None and full.k_map == 1
    log_z, error = full.log_evidence[:4].T
    weights = np.exp(log_z - log_z.max()) * [float(k in allowed) for k in range(4)]
    expected = weights / weights.sum()
    post = model.infer(
        obs, prior=prior, k_prior=dict.fromkeys(sorted(allowed), 1.0), max_seconds=PLENTY
    )
    allowance = (
        5 * math.sqrt(2) * float(error[sorted(allowed)].max()) + 1e-6
    )  # of each log p(K | x)
    for k in range(4):
        if k not in allowed:
            assert post.k_probs[k] == 0
        else:
            assert abs(post.k_probs[k] - expected[k]) < allowance * expected[k]
    assert (
        post.k_probs[0] > 0.05 and post.verdict.status == "exact"
    )  # not excluded by its neighbour
