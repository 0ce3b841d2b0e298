"""The default model on other data: samplings, noise levels, a second stream, and what it refuses."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within
from tone_helpers import LONG, SHORT, phase_error
from zoom_helpers import TWO, moments, observe, spread, white

from slotflow import Grid, Observation, Prior, Stream, simulate
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.bounds import crb_std
from slotflow.signal.simulation import tones


@pytest.fixture(scope="module")
def model(zoom: ZoomSlotFlow) -> ZoomSlotFlow:
    """The default model, which all tests share."""
    return zoom


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
    a = model.infer(observe(TWO, LONG, None, 0.5, seed), prior=model.config.prior, refine=False)
    fast = observe(TWO, Grid(6000, 0.05), None, 0.5 * math.sqrt(2), seed)
    b = model.infer(fast, prior=model.config.prior, refine=False)
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
        (
            LONG,
            Prior(frequency=(2.5, 3.01)),
            r"153 bins.*windows|at most 150 bins.*is 153\.0; narrow",
        ),
        (
            LONG,
            Prior(k_max=2, frequency=(2.5, 2.53)),
            "at least 10 bins.*which is 9; .*measure longer",
        ),
        (
            Grid(150, 0.1),
            Prior(),
            r"at least 10 bins.*T = 15 s, which is 7\.5; .*measure longer",
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
    post = model.infer(obs, prior=model.config.prior, refine=False)
    assert post.k_map == 2
    assert_within(post.noise_std, 0.3, 0.3 / math.sqrt(2 * (LONG.n + SHORT.n)))
    sd, sigma = moments(post, 2)[1], torch.tensor([0.3])
    bound = crb_std(TWO, sigma, [LONG, SHORT], ratios=[1.0, 3.0])[0].numpy()
    assert np.abs(np.log(sd / bound)).max() < 0.1
    equal = crb_std(TWO, sigma, [LONG, SHORT])[0].numpy()
    assert np.abs(np.log(sd / equal)).max() > 0.1  # the control
