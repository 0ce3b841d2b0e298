"""Nothing stated, or a part of the prior: what is assumed, where it comes from, and that windows are chosen inside."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Grid, Observation, Posterior, Prior, SlotFlow, simulate
from slotflow.infer.assume import assume
from slotflow.infer.offsets import without_offsets
from slotflow.infer.request import DataRequest
from slotflow.infer.statement import Statement
from slotflow.posterior.assumed import DATA, MODEL, STATED, WEAK, Assumed

PUBLISHED = Grid(3000, 300 / 2999)
"""The published test grid: linspace(0, 300, 3000), over which 2.5–3 Hz are 150.05 bins."""
N, DT = 3000, 0.1


def tones(*components: tuple[float, float, float], noise: float, seed: int, n: int = N) -> Any:
    """An observation of tones (A, φ, f) in white noise."""
    t = DT * np.arange(n)
    x = noise * np.random.default_rng(seed).standard_normal(n)
    for a, phi, f in components:
        x += a * np.cos(2 * np.pi * f * t + phi)
    return Observation.from_arrays(x, DT)


# --- the weak prior --------------------------------------------------------------------------------


def test_the_paper_prior_is_the_default_of_each_field() -> None:
    paper = Prior.paper()
    assert paper == Prior() and (paper.k_min, paper.k_max) == (1, 10)
    assert (paper.amplitude, paper.frequency) == ((0.5, 1.5), (2.5, 3.0))
    assert (paper.min_separation, paper.sigma) == (0.01, (0.0, 1.5))


def test_stress_signals_without_a_prior(zoom: SlotFlow, seed: int) -> None:
    """Crowded and noisy beyond the paper's prior: right and exact; benchmarks/weak.py has forty of them."""
    config = zoom.config
    prior = Prior(k_min=5, k_max=10, min_separation=0.004, sigma=(1.0, 2.0))
    sim = simulate(prior, 2, config.long, config.short, mode="physical", seed=seed)
    for i in range(2):
        post = zoom.infer(sim.observation(i), max_seconds=600)
        assert post.k_map == int(sim.k[i]) and post.verdict.status == "exact", post.verdict
        assert post.assumed is not None and post.prior == post.assumed.prior
        assert post.prior.min_separation == 0 and post.prior.k_min == 0
        low, high = post.prior.amplitude
        assert low < float(sim.components(i)[:, 0].min())
        assert high > float(sim.components(i)[:, 0].max())
        assert post.prior.sigma[1] > float(sim.sigma[i])


def test_each_part_comes_from_somewhere(zoom: SlotFlow) -> None:
    obs = tones((1.0, 0.3, 2.7), noise=0.5, seed=0)
    found, same, *_ = assume(zoom, obs, Statement())
    assert same is obs and found.prior.frequency == zoom.config.prior.frequency
    weak = {"min_separation": WEAK, "k": WEAK}
    assert found.sources == {"frequency": MODEL, "amplitude": DATA, "sigma": DATA} | weak
    moved, *_ = assume(zoom, tones((1.0, 0.3, 1.2), noise=0.5, seed=0), Statement())
    assert moved.sources["frequency"] == DATA and moved.band is not None
    low, high = moved.prior.frequency
    assert low < 1.2 < high and "which holds the strongest peak, at 1.2" in str(moved)
    part, *_ = assume(
        zoom, obs, Statement.of({"band": (2.6, 2.9), "k_max": 3, "sigma": (0.5, 0.5)})
    )
    assert part.prior.frequency == (2.6, 2.9) and (part.prior.k_min, part.prior.k_max) == (0, 3)
    assert part.prior.known_sigma == 0.5 and part.sources["k"] == STATED
    assert part.prior.amplitude == found.prior.amplitude
    whole, *_ = assume(zoom, obs, Statement.of(Prior.paper()))
    assert whole.prior == Prior.paper() and set(whole.sources.values()) == {STATED}
    edge, *_ = assume(zoom, obs, Statement(lowest_frequency=2.65))
    assert edge.prior.frequency == pytest.approx((2.65, 3.15))


def test_uneven_times_show_more_than_their_median_step(zoom: SlotFlow, seed: int) -> None:
    """Controls: a record with more bins than are looked at unasked, and times that are nearly even."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 1000, 150))
    x = 2 * np.cos(2 * np.pi * 0.31 * t + 1) + rng.normal(size=150)
    post = zoom.infer(Observation.from_arrays(values=x, times=t))
    assert post.observation.long.nyquist < 0.2 < 0.31 < post.prior.frequency[1]
    assert post.k_map == 1 and post.best_fit()[0, 2] == pytest.approx(0.31, abs=2e-4)
    low, high = post.prior.amplitude
    assert low < post.best_fit()[0, 0] < high  # although each window has bounds of its own
    many = np.sort(rng.uniform(0, 1000, 900))
    found, *_ = assume(zoom, Observation.from_arrays(values=np.cos(many), times=many), Statement())
    assert found.bins < 1300 and "were not looked for" in found.warnings[0]
    stated = Statement.of({"band": (0.01, 3.0)})
    wide, *_ = assume(zoom, Observation.from_arrays(values=np.cos(many), times=many), stated)
    assert not wide.warnings
    even = np.arange(150.0) + rng.uniform(-0.1, 0.1, 150)
    near, *_ = assume(zoom, Observation.from_arrays(values=x, times=even), Statement())
    assert not near.warnings


def test_the_offset_of_complex_samples_is_said_to_be_a_tone(zoom: SlotFlow, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(1000, 2)) @ [1, 1j]

    def words(offset: complex, **asked: Any) -> tuple[str, ...]:
        obs = Observation([Channel(z + offset, dt=1e-3)])
        request = DataRequest(noise="white", **asked)
        return assume(zoom, obs, Statement.of({"band": (-20, 20)}), request=request)[0].warnings

    assert "counts as a tone at zero frequency" in words(0.5 + 0.3j)[0]
    assert not words(0.0) and not words(0.5 + 0.3j, trend=0)


def test_models_of_one_prior_keep_it(debug_model: SlotFlow) -> None:
    config = debug_model.config
    sim = simulate(config.prior, 1, config.long, config.short, seed=1)
    post = debug_model.infer(sim.observation(0), method="network")
    assert post.assumed is not None and post.assumed.prior == config.prior
    assert set(post.assumed.sources.values()) == {MODEL}


def test_what_cannot_be_stated() -> None:
    with pytest.raises(ValueError, match=r"expected some of frequency, .*received 'bands'"):
        Statement.of({"bands": (1, 2)})
    with pytest.raises(ValueError, match="received list"):
        Statement.of([1, 2])  # type: ignore[arg-type]


def test_units_carry_over(zoom: SlotFlow) -> None:
    """The same data in other units have the same prior in these units."""
    x = tones((1.0, 0.3, 2.7), (0.4, 1.0, 2.9), noise=0.3, seed=3).long.values
    found = [
        assume(zoom, Observation.from_arrays(s * x, DT), Statement())[0].prior for s in (1, 1e-20)
    ]
    for name in ("amplitude", "sigma"):
        one, other = (np.array(getattr(prior, name)) for prior in found)
        np.testing.assert_allclose(other, 1e-20 * one, rtol=1e-9)


def test_noise_without_an_outside(zoom: SlotFlow) -> None:
    """Where the band is all there is, noise comes from the median of the spectrum: tones and offsets are none."""
    obs = tones((3.0, 0.3, 2.0), (2.0, 1.0, 1.1), noise=0.4, seed=3, n=300)
    shifted = Observation.from_arrays(obs.long.values + 100.0, DT)
    for one in (obs, shifted):
        found, rest, *_ = assume(zoom, one, Statement(frequency=(0.2, 5.0)))
        assert math.isnan(rest.noise_level((0.2, 5.0))[0])
        low, high = found.prior.amplitude
        assert low < 5 * 1.3 * 0.4 * math.sqrt(2 / 300) and 3.0 < high < 8.0
        assert 0.4 < found.prior.sigma[1] < 4.0


# --- offsets ---------------------------------------------------------------------------------------


def test_offsets_that_stand_out_are_subtracted() -> None:
    obs = tones((1.0, 0.3, 2.7), noise=0.5, seed=0)
    assert without_offsets(obs, 2.5) is obs
    line = 3.0 + 0.01 * DT * np.arange(N)
    moved = Observation.from_arrays(obs.long.values + line, DT)
    rest = without_offsets(moved, 2.5)
    assert "trend" in rest.long.notes[-1]
    np.testing.assert_allclose(rest.long.values, obs.long.values, atol=0.1)
    assert without_offsets(moved, 2.0 / (N * DT)) is moved  # a tone of two cycles could be meant


# --- windows ---------------------------------------------------------------------------------------


def test_the_published_grid_is_one_window(zoom: SlotFlow, seed: int) -> None:
    """150.05 bins are answered as 150 are: counts, and errors of f, of 60 signals on each grid."""
    prior = Prior(k_min=1, k_max=10, min_separation=0.004, sigma=(0.0, 2.0))
    stated = dataclasses.replace(zoom.config.prior, min_separation=0.004, sigma=(0.0, 2.0))
    median, right = {}, {}
    for grid in (PUBLISHED, zoom.config.long):
        sim = simulate(prior, 60, grid, zoom.config.short, mode="physical", seed=seed)
        posts = zoom.infer([sim.observation(i) for i in range(60)], prior=stated, method="network")
        errors: list[float] = []
        for i, post in enumerate(posts):
            assert not post.assumed.in_windows
            if post.k_map == int(sim.k[i]):
                found = np.sort(post.waveform.place_of(post.best_fit(post.k_map)))
                truth = np.sort(post.waveform.place_of(sim.components(i)))
                errors += list(np.abs(found - truth) / (1 / grid.duration))
        right[grid.duration], median[grid.duration] = (
            sum(p.k_map == int(k) for p, k in zip(posts, sim.k, strict=True)),
            float(np.median(errors)),
        )
    (odd, even), (error, usual) = right.values(), median.values()
    assert odd >= 58 and even >= 58  # of 60; the network's own rate of errors is below 1 %
    assert error == pytest.approx(usual, rel=5 * 1.25 * math.sqrt(2 / 330))  # medians of 330 errors


def test_a_wide_band_is_cut_into_windows(zoom: SlotFlow, seed: int) -> None:
    obs = tones((1.0, 0.3, 1.2), (0.8, 1.0, 2.7), noise=0.5, seed=seed)
    stated = {"frequency": (0.9, 2.95), "min_separation": 0.01}
    post = zoom.infer(obs, prior=stated, max_seconds=600)
    assert post.assumed is not None and post.assumed.in_windows and "windows" in post.method
    assert post.k_map == 2 and post.verdict.status == "exact"
    assert "in each window" in str(post.assumed)
    own = ("amplitude", "sigma")  # what each window takes from its own data
    alias = zoom.infer_band(obs, post.assumed.prior, derived=own, max_seconds=600)
    np.testing.assert_allclose(alias.k_probs, post.k_probs, atol=1e-9)


def test_more_tones_than_the_network_can_count(zoom: SlotFlow, seed: int) -> None:
    """Fifteen tones in one window, their number not stated: windows find them; a stated k_max is kept to."""
    rng = np.random.default_rng(seed)
    places = 2.51 + 0.033 * np.arange(15)
    obs = tones(*((1.0, p, f) for p, f in zip(rng.uniform(0, 6, 15), places, strict=True)),
                noise=0.3, seed=seed)  # fmt: skip
    post = zoom.infer(obs, prior={"min_separation": 0.01}, max_seconds=600)
    assert post.assumed is not None and post.assumed.in_windows and post.k_map == 15
    stated = zoom.infer(obs, prior={"k_max": 10, "min_separation": 0.01}, method="network")
    assert stated.assumed is not None and not stated.assumed.in_windows and stated.k_map <= 10
    more = zoom.infer(obs, prior={"k_max": 20, "min_separation": 0.01}, method="network")
    assert more.assumed is not None and more.assumed.in_windows and more.k_max <= 20


@pytest.mark.parametrize("bins", [6.0, 2.0])
def test_narrow_bands_are_answered_by_the_exact_step(
    zoom: SlotFlow, seed: int, bins: float
) -> None:
    """The network looks at ten bins, the posterior stays in the stated band."""
    center = 2.7
    band = (center - bins / 2 / (N * DT), center + bins / 2 / (N * DT))
    obs = tones((1.0, 0.3, center + 0.2 / (N * DT)), noise=0.5, seed=seed)
    prior = Prior(
        k_min=0, k_max=2, frequency=band, amplitude=(0.2, 3.0), min_separation=0.0, sigma=(0, 2)
    )
    post = zoom.infer(obs, prior=prior, max_seconds=600)
    assert post.k_map == 1 and post.verdict.status == "exact", post.verdict
    draws = post.sample(500)
    assert (draws[..., 2] >= band[0]).all() and (draws[..., 2] <= band[1]).all()
    wide = zoom.infer(obs, prior=dataclasses.replace(prior, frequency=(2.6, 2.8)), max_seconds=600)
    for name in ("amplitude_median", "frequency_median"):
        sd = float(wide.summary()[name.replace("median", "sd")].iloc[0])
        assert abs(post.summary()[name].iloc[0] - wide.summary()[name].iloc[0]) < 0.3 * sd
    with pytest.raises(ValueError, match="at least 10 bins"):
        zoom.infer(obs, prior=prior, method="network")


# --- methods, and what a result carries --------------------------------------------------------------


def test_methods_by_their_names(zoom: SlotFlow) -> None:
    obs = tones((1.0, 0.3, 2.7), noise=0.5, seed=0)
    prior = Prior(k_min=0, k_max=2, frequency=(2.65, 2.75))
    network = zoom.infer(obs, prior=prior, method="network")
    assert network.verdict.status == "approximate" and "slotflow" in network.method
    np.testing.assert_array_equal(
        network.k_probs, zoom.infer(obs, prior=prior, refine=False).k_probs
    )
    classical = zoom.infer(obs, prior=prior, method="classical")
    exact = zoom.infer(obs, prior=prior)
    assert classical.method == "classical" and classical.k_map == exact.k_map == 1
    assert classical.assumed is not None and classical.prior == prior
    for wrong, message in (
        ({"method": "guess"}, "expected method to be one of exact, network"),
        ({"method": "exact", "sampler": {}}, "sampler= holds arguments of the methods"),
        ({"method": "smc", "refine": False}, "refine=False asks for the network's answer alone"),
    ):
        with pytest.raises(ValueError, match=message):
            zoom.infer(obs, prior=prior, **wrong)  # type: ignore[arg-type]


def test_what_was_assumed_is_in_the_file(zoom: SlotFlow, tmp_path: Path) -> None:
    post = zoom.infer(tones((1.0, 0.3, 1.2), noise=0.5, seed=0), method="network")
    post.save(tmp_path / "post.nc", n=20)
    back = Posterior.load(tmp_path / "post.nc")
    assert back.assumed == post.assumed and back.prior == post.prior
    assert post.assumed is not None
    assert Assumed.from_record(post.assumed.record()) == post.assumed


def test_answers_do_not_depend_on_the_batch(zoom: SlotFlow, seed: int) -> None:
    """Alone and among others: the same assumptions, and the odds of counts that matter to seven digits.

    An order of a probability near 1e-4 may be sampled in one case and looked at more closely in the other: there
    the sampler decides how well it must be known.
    """
    batch = [tones((a, 0.3, 2.7), (0.7, 1.0, 2.8), noise=0.4, seed=seed + i)
             for i, a in enumerate((0.5, 1.0, 2.0))]  # fmt: skip
    together = zoom.infer(batch, max_seconds=600)
    for one, post in zip(batch, together, strict=True):
        alone = zoom.infer(one, max_seconds=600)
        assert alone.assumed == post.assumed
        np.testing.assert_allclose(alone.k_probs, post.k_probs, rtol=0, atol=1e-4)
        odds = [p[p > 1e-3] / p[p > 1e-3].sum() for p in (alone.k_probs, post.k_probs)]
        np.testing.assert_allclose(*odds, rtol=0, atol=1e-7)


# --- what is asked wrongly ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"frequency": 1}, "frequency as two finite bounds"),
        ({"frequency": (1, math.nan)}, "frequency as two finite bounds"),
        ({"frequency": ("low", "high")}, "frequency as two finite bounds"),
        ({"amplitude": "12"}, "amplitude as two finite bounds"),
        ({"amplitude": 3.0}, "amplitude as two finite bounds"),
        ({"sigma": "quiet"}, "sigma as two finite bounds"),
        ({"k_max": 2.5}, "whole numbers"),
        ({"min_separation": "small"}, "min_separation"),
        ({"k_probs": [1, 2]}, "k_prior, received 'k_probs'"),
    ],
)
def test_a_prior_that_is_none_is_named(zoom: SlotFlow, stated: Any, words: str) -> None:
    obs = tones((1.0, 0.3, 2.7), noise=0.5, seed=0, n=300)
    with pytest.raises(ValueError, match=words):
        zoom.infer(obs, prior={"frequency": (2.0, 3.0)} | stated)


def test_a_mapping_says_what_a_prior_file_may(zoom: SlotFlow) -> None:
    """One number for a known noise level, and p(K)."""
    obs = tones((1.0, 0.3, 2.7), noise=0.5, seed=0, n=300)
    told = {"frequency": (2.0, 3.0), "sigma": 0.5, "k_prior": {0: 0.25, 1: 0.75}}
    post = zoom.infer(obs, prior=told)
    assert post.prior is not None and post.prior.sigma == (0.5, 0.5)
    assert post.k_probs[2:].max() == 0
    assert Prior(sigma=0.5).sigma == (0.5, 0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="received both"):
        zoom.infer(obs, prior=told, k_prior={1: 1.0})


def test_bounds_of_k_beside_its_prior(zoom: SlotFlow) -> None:
    """They may say the same, or less; one that contradicts is not dropped silently."""
    obs = tones((1.0, 0.3, 2.7), noise=0.5, seed=0, n=300)
    band, even = {"frequency": (2.0, 3.0)}, [1.0] * 4 + [0.0] * 7
    for beside, k in (({"k_max": 2}, 3), ({"k_min": 1}, 0)):
        with pytest.raises(ValueError, match=f"weight to K = {k} beside {next(iter(beside))}"):
            zoom.infer(obs, prior=band | beside, k_prior=even)
    post = zoom.infer(obs, prior=band | {"k_min": 0, "k_max": 5}, k_prior=even, refine=False)
    assert post.k_probs[4:].max() == 0 < post.k_probs[:4].min()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"batch_size": 1.5}, "expected batch_size >= 1, received 1.5; give a whole number"),
        ({"threads": 1.5}, "expected threads >= 1, received 1.5"),
        ({"seed": -1}, "expected seed >= 0, received -1"),
        ({"max_seconds": -1.0, "method": "network"}, "expected max_seconds >= 0, received -1"),
        ({"max_seconds": math.nan, "method": "classical"}, "expected max_seconds >= 0"),
    ],
)
def test_numbers_that_make_no_sense(zoom: SlotFlow, option: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        zoom.infer([], **option)  # type: ignore[call-overload]


def test_an_unknown_keyword_is_named(zoom: SlotFlow) -> None:
    obs = tones((1.0, 0.3, 2.7), noise=0.5, seed=0, n=300)
    with pytest.raises(ValueError, match=r"max_seconds, .*received 'max_second'"):
        zoom.infer(obs, max_second=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("level", [0.0, 3.0])
def test_constant_data_are_refused_without_a_prior(zoom: SlotFlow, level: float) -> None:
    with pytest.raises(ValueError, match="expected a series that varies"):
        zoom.infer(Observation.from_arrays(np.full(300, level), DT))
