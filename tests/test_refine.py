"""From the network's answer to the exact posterior."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within

from slotflow import Grid, Observation, Posterior, Prior, SlotFlow, simulate
from slotflow.exact import judged
from slotflow.exact.refine import RefinedPosterior, unvisited
from slotflow.posterior.birth import BirthProposal
from slotflow.posterior.whiteness import Check
from slotflow.show.plots import plot_posterior
from slotflow.signal.bounds import crb_covariance

LONG, SHORT = Grid(3000, 0.1), Grid(5120, 1 / 512)


@pytest.fixture(scope="module")
def model(zoom: SlotFlow) -> SlotFlow:
    """The default model, which all tests share."""
    return zoom


def signal(theta: list[list[float]], sigma: float, seed: int) -> Observation:
    """Given tones in noise on the paper's grids."""
    rng = np.random.default_rng(seed)
    streams = [
        sum(a * np.cos(2 * np.pi * f * g.times + p) for a, p, f in theta)
        + rng.normal(scale=sigma, size=g.n)
        for g in (LONG, SHORT)
    ]
    return Observation.from_arrays(streams[0], LONG.dt, streams[1], SHORT.dt)


@pytest.fixture(scope="module")
def pair(model: SlotFlow) -> tuple[Posterior, RefinedPosterior]:
    """Two tones 1.2 bins apart, before and after."""
    obs = signal([[1.0, 1.0, 2.7], [0.8, 2.0, 2.704]], 1.0, 5)
    post = model.infer(obs, prior=Prior(k_min=0, min_separation=0.0), refine=False)
    return post, post.refine(max_seconds=300)  # so long that no budget decides what is done


def test_exact_answers_agree_with_the_network_on_resolved_tones(model: SlotFlow) -> None:
    batch = simulate(Prior(), 3, LONG, SHORT, mode="physical", seed=4)
    for i in range(3):
        exact = model.infer(batch.observation(i), prior=Prior(), max_seconds=300)
        post = exact.amortized
        assert exact.k_map == post.k_map == int(batch.k[i])
        assert exact.verdict.status == "exact"
        assert post.verdict.status == "approximate"
        assert exact.ess > 0.9
        a, b = post.sample(2000), exact.sample(2000)
        assert_same_tones(a[..., 2], b[..., 2])
        sd = b[..., 2].std(0)
        with pytest.raises(
            AssertionError
        ):  # the controls: half a standard deviation off, and 30 % too wide
            assert_same_tones(a[..., 2] + 0.5 * sd, b[..., 2])
        with pytest.raises(AssertionError):
            assert_same_tones(a[..., 2].mean(0) + 1.3 * (a[..., 2] - a[..., 2].mean(0)), b[..., 2])


def assert_same_tones(a: np.ndarray, b: np.ndarray) -> None:
    """Medians and widths of frequencies, (n, K) each, agree within Monte-Carlo error and what a network may be off.

    The median of n Gaussian draws has the standard error 1.2533 sd/√n and their width 1/√2n, relative. The network is
    allowed a tenth of a standard deviation in its centre and 5 % in its width.
    """
    n, sd = len(a), b.std(0)
    centre = (np.median(a, 0) - np.median(b, 0)) / sd
    assert_within(centre, 0.0, 1.2533 * np.sqrt(2 / n) + 0.1 / 5)
    assert_within(a.std(0) / sd, 1.0, np.sqrt(1 / n) + 0.05 / 5)


def test_draws_are_joint(pair: tuple[Posterior, RefinedPosterior]) -> None:
    """Frequencies of a close pair correlate as the Fisher matrix says; the network's slots (control) do not."""
    post, exact = pair
    assert exact.k_map == 2
    theta = torch.tensor([[[1.0, 1.0, 2.7], [0.8, 2.0, 2.704]]], dtype=torch.float64)
    covariance = crb_covariance(theta, torch.ones(1).double(), (LONG, SHORT))[0].numpy()
    expected = covariance[2, 5] / np.sqrt(covariance[2, 2] * covariance[5, 5])
    assert abs(expected) > 0.3

    def correlation(draws: np.ndarray) -> float:
        return float(np.corrcoef(draws[:, 0, 2], draws[:, 1, 2])[0, 1])

    assert abs(correlation(exact.sample(4000, 2)) - expected) < 0.15
    assert abs(correlation(post.sample(4000, 2))) < 0.1


def test_the_density_belongs_to_the_draws(pair: tuple[Posterior, RefinedPosterior]) -> None:
    """E[q/p] over draws of p is 1 for the normalized density q of a Gaussian fit to them."""
    exact = pair[1]
    draws = exact.sample(4000, 2, seed=3)
    flat = draws.reshape(4000, 6)
    mean, covariance = flat.mean(0), np.cov(flat.T)
    unit = np.linalg.cholesky(covariance * 0.8)  # narrower than p: bounded ratios
    white = np.linalg.solve(unit, (flat - mean).T)
    log_q = -0.5 * (white**2).sum(0) - np.log(np.diag(unit)).sum() - 3 * np.log(2 * np.pi)
    log_p = (
        exact.log_prob(draws) - np.log(exact.k_probs[2]) + np.log(2)
    )  # 2! labellings, one is drawn
    ratio = np.exp(log_q - log_p)
    error = ratio.std() / np.sqrt(exact.ess * len(ratio))
    assert abs(ratio.mean() - 1) < 5 * error + 0.05
    assert abs(ratio.mean() / 2 - 1) > 5 * error + 0.05  # a factor of two would be seen


def test_labels_do_not_matter_to_the_density(pair: tuple[Posterior, RefinedPosterior]) -> None:
    draws = pair[1].sample(5, 2)
    np.testing.assert_allclose(
        pair[1].log_prob(draws), pair[1].log_prob(draws[:, ::-1]), rtol=0, atol=1e-6
    )


def test_same_seed_same_answer(pair: tuple[Posterior, RefinedPosterior]) -> None:
    post, exact = pair
    again = post.refine(max_seconds=300)
    np.testing.assert_array_equal(again.k_probs, exact.k_probs)
    np.testing.assert_array_equal(again.sample(10), exact.sample(10))
    assert not np.array_equal(post.refine(seed=1, max_seconds=300).sample(10), exact.sample(10))


def test_noise_level_and_residual(pair: tuple[Posterior, RefinedPosterior]) -> None:
    exact = pair[1]
    assert abs(exact.noise_std - 1) < 5 * (exact.noise_std_error or 0)
    assert abs(exact.sample_sigma(1000).std() / (exact.noise_std_error or 1) - 1) < 0.2
    rest = exact.residual()
    assert [len(x) for x in rest] == [LONG.n, SHORT.n]
    assert abs(np.concatenate(rest).std() - 1) < 0.05


def test_pure_noise(model: SlotFlow) -> None:
    post = model.infer(signal([], 1.0, 6), prior=Prior(k_min=0))
    assert post.k_map == 0
    assert post.sample(7).shape == (7, 0, 3)
    assert post.verdict.status == "exact"


def test_a_tone_outside_the_band_is_a_misfit_of_white_noise(model: SlotFlow) -> None:
    obs = signal([[1.0, 1.0, 2.7], [1.0, 0.3, 3.6]], 0.5, 7)
    assert model.infer(obs, prior=Prior(k_min=0), noise="white").verdict.status == "misfit"


def test_errors_say_what_to_do(pair: tuple[Posterior, RefinedPosterior]) -> None:
    post, exact = pair
    with pytest.raises(ValueError, match="at least 100 weighted draws, received draws=99"):
        post.refine(draws=99)
    for seconds in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="expected max_seconds >= 0"):
            post.refine(max_seconds=seconds)
    with pytest.raises(ValueError, match=r"received k_max = 11; lower it"):
        post.refine(prior=Prior(k_max=11))
    stranger = copy.copy(post)
    stranger.prior = None
    with pytest.raises(ValueError, match="does not know its prior"):
        stranger.refine()
    for ask in (exact.weighted, lambda k: exact.sample_sigma(3, k)):
        with pytest.raises(ValueError, match="received 9; the verdict says why: exact"):
            ask(9)
    with pytest.raises(ValueError, match=r"components in 0\.\.10, received 11"):
        exact.residual(11)


def test_every_k_has_a_residual(model: SlotFlow) -> None:
    """A K that was excluded without a fit is fitted when it is asked for; of too many tones, what the prior allows."""
    tones = [[1.0, 1.0, 2.55], [0.8, 2.0, 2.7], [0.6, 0.5, 2.9]]
    obs = signal(tones, 0.5, 8)
    exact = model.infer(obs, prior=Prior(k_min=0), max_seconds=300)
    assert exact.k_map == 3 and 1 not in exact.orders.fits
    left = [sum(float((x**2).sum()) for x in exact.residual(k)) for k in range(5)]
    for k in range(4):  # the strongest tones are those that are fitted
        rest = [s.values for s in obs.channels]
        for a, p, f in tones[:k]:
            rest = [
                x - a * np.cos(2 * np.pi * f * s.times + p)
                for x, s in zip(rest, obs.channels, strict=True)
            ]
        # In the ten seconds of the short stream a fit takes some of the others' power as well.
        assert left[k] == pytest.approx(sum((x**2).sum() for x in rest), rel=0.03)
        assert len(exact.best_fit(k)) == k
    assert left[4] <= left[3]


def test_the_whole_result(pair: tuple[Posterior, RefinedPosterior], tmp_path: Path) -> None:
    """Weights, correlations, summary, file and picture belong to the same draws."""
    import xarray as xr

    exact = pair[1]
    theta, sigma, log_weights = exact.weighted()
    assert theta.shape == (len(sigma), 2, 3) and log_weights.shape == sigma.shape
    weights = exact.weighted().weights
    assert weights.sum() == pytest.approx(1)
    mean = (weights[:, None] * theta[..., 2]).sum(0)
    draws = exact.sample(4000)
    error = draws[..., 2].std(0) / np.sqrt(exact.ess * len(theta))
    assert np.all(np.abs(draws[..., 2].mean(0) - mean) < 5 * error)
    matrix = exact.correlation(n=4000)
    assert matrix.shape == (6, 6)
    expected = np.corrcoef(draws[:, 0, 2], draws[:, 1, 2])[0, 1]
    assert matrix[2, 5] == pytest.approx(expected) and matrix[5, 2] == matrix[2, 5]
    assert exact.log_evidence.shape == (11, 2) and exact.k_probs.shape == (11,)
    assert exact.log_evidence[2, 1] < 0.2 and exact.log_evidence[9, 0] == -np.inf
    assert "RefinedPosterior(" in repr(exact) and exact.verdict.status in repr(exact)
    frame = exact.summary()
    assert set(frame["verdict"]) == {exact.verdict.status}
    assert frame.attrs["verdict"] == str(exact.verdict)
    exact.save(tmp_path / "a.nc", n=500, seed=3)
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as file:
        assert file.attrs["verdict"] == exact.verdict.status
        assert file.attrs["verdict_reason"] == exact.verdict.reason
        assert file.attrs["ess"] == pytest.approx(exact.ess)
        np.testing.assert_array_equal(file["log_evidence"], exact.log_evidence[:, 0])
        np.testing.assert_array_equal(file["amplitude"], exact.sample_joint(500, 3)[0][..., 0])
        levels = file["sigma"].values[file["k"].values == 2]
        assert np.isfinite(levels).all() and abs(levels.mean() - exact.noise_std) < 0.01
    plot_posterior(exact)


@pytest.mark.parametrize("scale", [1.0, 1.2])
def test_birth_proposal_is_normalized(
    pair: tuple[Posterior, RefinedPosterior], scale: float
) -> None:
    """∫ g = 1 by importance sampling from a wider proposal; a density that is off by a fifth (the control) is not."""
    prior = Prior(k_min=0, min_separation=0.0)
    draws = pair[1].sample(2000, 2)
    proposal, wider = BirthProposal(draws, prior, 0.1), BirthProposal(draws, prior, 0.3, widen=3.0)
    x = wider.rvs(40_000)
    ratio = scale * np.exp(proposal.logpdf(x) - wider.logpdf(x))
    error = ratio.std() / np.sqrt(ratio.size)
    assert (abs(ratio.mean() - 1) < 5 * error) == (scale == 1.0)


def test_birth_proposal_has_the_shape_that_eryn_asks_for(
    pair: tuple[Posterior, RefinedPosterior],
) -> None:
    proposal = pair[1].as_eryn_proposal()
    x = proposal.rvs(size=(4, 5))
    assert x.shape == (4, 5, 3)
    assert proposal.logpdf(x).shape == (4, 5)
    assert np.isfinite(proposal.logpdf(x)).all()
    assert proposal.logpdf(np.array([0.1, 0.0, 2.7])) == -np.inf  # A below the prior's bound
    near = np.abs(x.reshape(-1, 3)[:, 2, None] - [2.7, 2.704]).min(-1) < 0.001
    assert near.mean() > 0.5


def test_birth_proposal_without_components_is_the_prior() -> None:
    prior = Prior(k_min=0)
    proposal = BirthProposal(np.zeros((10, 0, 3)), prior)
    expected = -np.log(1.0 * 2 * np.pi * 0.5)
    np.testing.assert_allclose(proposal.logpdf(proposal.rvs(5)), expected)


def test_an_order_that_was_not_reached_is_named(pair: tuple[Posterior, RefinedPosterior]) -> None:
    """A search that ended beside a plausible K is not called exact."""
    orders, prior = pair[1].orders, Prior(k_min=0, min_separation=0.0)
    assert unvisited(orders, prior) == []
    cut = orders.log_evidence.copy()
    cut[3] = -np.inf
    seen = {k: method for k, method in orders.methods.items() if k != 3}
    short = dataclasses.replace(orders, log_evidence=cut, methods=seen)
    assert unvisited(short, prior) == [3]
    assert unvisited(short, Prior(k_min=0, k_max=2)) == []
    assert unvisited(dataclasses.replace(orders, log_evidence=cut), prior) == []  # looked at, Z = 0


def test_a_misfit_is_judged_again_in_the_same_way(
    pair: tuple[Posterior, RefinedPosterior], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a rate at which the tests of the residual pass, every other doubt still counts."""
    failed = (Check("neighbours", 1e-5, "the noise is not white"),)
    monkeypatch.setattr(judged, "check_residual", lambda *_: failed)
    found = pair[0].refine(draws=200, max_seconds=300)
    assert found.verdict.status == "misfit" and found.verdict.standing is not None
    assert found.verdict_at(1e-4).standing == found.verdict.standing
    assert found.verdict_at(1e-6).status == "exact"
    assert pickle.loads(pickle.dumps(found)).verdict_at(1e-6) == found.verdict_at(1e-6)
    monkeypatch.setattr(judged, "slow_noise_doubt", lambda *_: "a tone may be slow noise")
    doubted = found.verdict_at(1e-6)
    assert doubted.status == "approximate" and "slow noise" in doubted.reason
