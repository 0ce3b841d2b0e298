"""Bands wider than the model's window: every tone once, the total K, calibrated frequencies, honest verdicts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from slotflow import SlotFlow
from slotflow.bands.analysis import Question
from slotflow.bands.core_draws import CoreDraws, Window, inside, without
from slotflow.bands.layout import MARGIN, cut
from slotflow.bands.noise import window_noise
from slotflow.bands.posterior import BandPosterior, of_core
from slotflow.bands.windows import infer_band, needs_windows
from slotflow.data.observation import Observation
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Check, DrawQuality, Verdict, judge
from slotflow.show.report import sections as report_sections
from slotflow.signal.prior import Prior

N, DT = 3000, 0.1
T = N * DT
BINS = 500
BAND = (1.2, 1.2 + BINS / T)
PRIOR = Prior(k_min=0, k_max=10, frequency=BAND, sigma=(0, 2.0))


@pytest.fixture(scope="module")
def model(zoom: ZoomSlotFlow) -> ZoomSlotFlow:
    """The default model, which all tests share."""
    return zoom


def band_signal(
    seed: int, k: int = 14, sigma: float = 0.8, short: bool = False
) -> tuple[Observation, np.ndarray]:
    """Tones at least 4 bins apart over 500 bins, in noise."""
    rng = np.random.default_rng(seed)
    bins = np.sort(rng.uniform(0, BINS - 4 * (k - 1), k)) + 4 * np.arange(k)
    f = BAND[0] + np.sort(bins) / T
    a, phi = rng.uniform(0.5, 1.5, f.size), rng.uniform(0, 2 * np.pi, f.size)
    theta = np.stack([a, phi, f], -1)

    def series(t: np.ndarray) -> np.ndarray:
        clean = (a * np.cos(2 * np.pi * np.outer(t, f) + phi)).sum(1)
        return np.asarray(clean + sigma * rng.standard_normal(t.size))

    x, y = series(DT * np.arange(N)), series(np.arange(5120) / 512)
    if short:
        return Observation.from_arrays(x, DT, y, 1 / 512), theta
    return Observation.from_arrays(x, DT), theta


def pulls(post: Posterior, theta: np.ndarray) -> np.ndarray:
    """Errors of the frequencies in posterior standard deviations, (k,)."""
    f = post.sample(1000)[..., 2]
    return np.asarray((f.mean(0) - theta[:, 2]) / f.std(0))


def calibrated(found: np.ndarray) -> bool:
    """Whether the mean square of independent pulls is 1 within 4.5 standard errors of it."""
    return bool(abs((found**2).mean() - 1) < 4.5 * np.sqrt(2 / found.size))


def test_every_tone_once_and_calibrated(model: ZoomSlotFlow, seed: int) -> None:
    found = []
    for i in range(4):
        obs, theta = band_signal(seed + i)
        post = infer_band(model, obs, PRIOR, max_seconds=120)
        assert post.verdict.status == "exact", post.verdict
        assert post.k_map == len(theta) and post.k_probs[post.k_map] > 0.9
        cores = [w.core for w in post.windows]
        assert all(any(a <= f < b for a, b in cores) for f in theta[:, 2])
        empty = sum(region.high - region.low for region in post.empty_regions)
        assert empty + sum(b - a for a, b in cores) == pytest.approx(BAND[1] - BAND[0])
        assert all(region.amplitude < 0.5 for region in post.empty_regions)
        found.append(pulls(post, theta))
    together = np.concatenate(found)
    assert calibrated(together) and not calibrated(2 * together)  # the control: widths halved


def test_both_streams_and_the_network_alone(model: ZoomSlotFlow, seed: int) -> None:
    obs, theta = band_signal(seed, short=True)
    post = infer_band(model, obs, PRIOR, max_seconds=120)
    assert post.k_map == len(theta) and post.verdict.status == "exact", post.verdict
    assert calibrated(pulls(post, theta))
    assert np.std(post.residual()[1]) == pytest.approx(0.8, rel=0.1)
    fast = infer_band(model, obs, PRIOR, refine=False)
    assert fast.verdict.status == "approximate" and "amortized only" in fast.verdict.reason
    assert fast.k_map == len(theta)


def test_a_crowded_band_on_both_streams(model: ZoomSlotFlow, seed: int) -> None:
    """More tones in any wide window than the model knows: narrower ones, and none is lost or invented."""
    rng, gap, k = np.random.default_rng(seed), 2.0, 36
    low, high = 1.2, 1.2 + 300 / T
    f = low + (np.sort(rng.uniform(0, 300 - gap * (k - 1), k)) + gap * np.arange(k)) / T
    a, phi = rng.uniform(0.6, 1.4, k), rng.uniform(0, 2 * np.pi, k)
    series = [
        (a * np.cos(2 * np.pi * np.outer(t, f) + phi)).sum(1) + 0.5 * rng.standard_normal(t.size)
        for t in (DT * np.arange(N), np.arange(5120) / 512)
    ]
    obs = Observation.from_arrays(series[0], DT, series[1], 1 / 512)
    prior = dataclasses.replace(PRIOR, frequency=(low, high), min_separation=1 / T)
    post = infer_band(model, obs, prior, max_seconds=120)
    assert post.k_map == k and post.verdict.status == "exact", post.verdict
    assert max(w.posterior.k_map for w in post.windows) < 10
    found = pulls(post, np.stack([a, phi, f], -1))
    assert calibrated(found) and not calibrated(2 * found)


def test_a_band_without_noise_bins(model: ZoomSlotFlow, seed: int) -> None:
    """The whole spectrum is the band."""
    rng, n = np.random.default_rng(seed), 1000
    f = np.array([0.31, 0.9, 1.55, 1.71, 2.4, 3.3, 4.7])
    t = DT * np.arange(n)
    x = np.cos(2 * np.pi * np.outer(t, f) + rng.uniform(0, 6, f.size)).sum(1)
    obs = Observation.from_arrays(x + 0.5 * rng.standard_normal(n), DT)
    prior = dataclasses.replace(PRIOR, frequency=(0.1, 4.99))
    post = infer_band(model, obs, prior, refine=False)
    assert post.k_map == f.size
    assert np.abs(np.sort(post.best_fit()[:, 2]) - f).max() < 0.2 / (n * DT)  # a fifth of a bin


def test_noise_alone(model: ZoomSlotFlow, seed: int) -> None:
    """One window where a tone is least unlikely, and the rest of the band searched."""
    x = np.random.default_rng(seed).standard_normal(N)
    prior = dataclasses.replace(PRIOR, amplitude=(0.1, 2.0))
    post = infer_band(model, Observation.from_arrays(x, DT), prior)
    assert post.k_map == 0 and len(post.windows) == 1 and post.verdict.status == "exact"
    # Any tone of the band lies in the window with the probability of its share of the band.
    window = post.windows[0].posterior.prior
    assert window is not None and window.k_probs is not None
    share = (window.frequency[1] - window.frequency[0]) / (BAND[1] - BAND[0])
    assert window.k_probs[1] / window.k_probs[0] == pytest.approx(share)


def test_a_budget_that_ends(model: ZoomSlotFlow, seed: int) -> None:
    """What there is no time for keeps the search's answer, and the verdict says so."""
    post = infer_band(model, band_signal(seed)[0], PRIOR, max_seconds=0.0)
    assert post.verdict.status == "approximate"
    assert "the time budget ended" in post.verdict.reason


def test_it_is_a_posterior(model: ZoomSlotFlow, tmp_path: Path, seed: int) -> None:
    import xarray as xr

    obs, theta = band_signal(seed, k=6)
    post = model.infer_band(obs, PRIOR, refine=False, seed=1)
    assert needs_windows(model, obs, PRIOR) and f"{len(post.windows)} windows" in repr(post)
    assert post.sample(0).shape == (0, post.k_map, 3)
    draws = post.sample(50, seed=3)
    assert draws.shape == (50, len(theta), 3) and np.array_equal(draws, post.sample(50, seed=3))
    assert (np.diff(draws[..., 2], axis=1) > 0).all()
    assert len(post.summary(n=200)) == post.k_map and post.noise_std == pytest.approx(0.8, rel=0.1)
    post.save(tmp_path / "wide.nc", n=20)
    with xr.open_dataset(tmp_path / "wide.nc", engine="h5netcdf") as data:
        assert data.sizes["window"] == len(post.windows) and data.attrs["verdict"] == "approximate"
    with pytest.raises(ValueError, match=r"post\.windows"):
        post.log_prob(theta)
    with pytest.raises(ValueError, match="window by window"):
        post.refine()
    with pytest.raises(ValueError, match="the windows found possible"):
        post.sample(1, k=0)
    assert post.k_probs[post.k_max] > 0 and post.k_probs.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (dataclasses.replace(PRIOR, k_min=1), "expected k_min = 0, received 1"),
        (dataclasses.replace(PRIOR, frequency=(1.0, 6.0)), "below the Nyquist frequency of 5 Hz"),
        (dataclasses.replace(PRIOR, k_max=11, k_probs=(1.0,) * 12), r"or leave p\(K\) uniform"),
    ],
)
def test_refusals(model: ZoomSlotFlow, prior: Prior, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.infer(Observation.from_arrays(np.ones(N), DT), prior=prior)


def test_data_without_noise(model: ZoomSlotFlow) -> None:
    post = infer_band(model, Observation.from_arrays(np.zeros(N), DT), PRIOR, max_seconds=5)
    assert post.verdict.status == "misfit" and np.isfinite(post.k_probs).all()
    tone = np.cos(2 * np.pi * 2.0 * DT * np.arange(N))
    with pytest.raises(ValueError, match="1 tones leave nothing of the data but rounding"):
        infer_band(model, Observation.from_arrays(tone, DT), PRIOR)


@pytest.mark.parametrize("error", [ValueError, vars(torch.linalg)["LinAlgError"]])
def test_windows_that_fail_keep_the_answer_of_the_search(
    model: ZoomSlotFlow, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error("no solution")

    monkeypatch.setattr(Question, "ask", fails)
    x = 2 * np.cos(2 * np.pi * 0.2 * np.arange(600))
    x += np.random.default_rng(0).standard_normal(600)
    post = model.infer(Observation.from_arrays(values=x, dt=1.0), prior={"frequency": (0.05, 0.45)})
    assert post.k_map == 1 and "refused: no solution" in post.verdict.reason


def test_a_model_of_one_band_is_refused(debug_model: SlotFlow) -> None:
    with pytest.raises(ValueError, match="received 'debug'"):
        debug_model.infer_band(Observation.from_arrays(np.ones(N), DT), PRIOR)


def test_windows_lie_around_clusters() -> None:
    """Far clusters have cores of their own, crowded ones are cut at their widest gaps and have guards there."""
    obs = Observation.from_arrays(np.zeros(N), DT)
    crowd = 100.0 + np.array([0, 1, 2, 3, 4, 5, 15, 16, 17, 18, 19, 20, 21.0])
    places = BAND[0] + np.append(crowd, 400.0) / T
    layout = cut(obs, PRIOR, places)
    cores = (np.array(layout.cores) - BAND[0]) * T
    assert cores[0, 0] == pytest.approx(100 - MARGIN)
    assert cores[-1].tolist() == pytest.approx([400 - MARGIN, 400 + MARGIN])
    assert cores[0, 1] == pytest.approx(cores[1, 0])
    assert any(high == pytest.approx(110) for _, high in cores)  # the widest gap
    held = [((places >= a) & (places < b)).sum() for a, b in layout.cores]
    assert sum(held) == len(places) and max(held) < PRIOR.k_max
    gaps = [(a - BAND[0]) * T for edges in layout.gaps for a in edges]
    assert gaps == pytest.approx([0, 100 - MARGIN, cores[-2, 1], 400 - MARGIN, 400 + MARGIN, BINS])
    assert layout.prior_of(len(cores) - 1).frequency == layout.cores[-1]  # no neighbour, no guard
    first = layout.prior_of(0)
    assert first.frequency[0] == layout.cores[0][0]
    assert first.frequency[1] == pytest.approx(layout.cores[0][1] + layout.guard)


class Fixed:
    """Slots with the same tones in every draw, at given frequencies for each K."""

    k_max = 3

    def __init__(self, places: dict[int, list[float]], spread: float) -> None:
        self.places, self.spread = places, spread

    def sample(self, n: int, k: int, seed: int) -> np.ndarray:
        theta = np.ones((n, k, 3))
        noise = np.random.default_rng(seed).standard_normal((n, k))
        theta[..., 2] = np.array(self.places[k]) + self.spread * noise
        return theta

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def constrained_fraction(self, k: int) -> float:
        return 0.0


class Judged(Posterior):
    """A posterior that is called exact."""

    @property
    def verdict(self) -> Verdict:
        return Verdict("exact", "as stated")


def window(
    core: tuple[float, float],
    places: dict[int, list[float]],
    probs: list[float],
    spread: float,
    noise_error: float | None = 0.1,
) -> Window:
    """A window with known answers; its best fit is the most probable K's tones."""
    obs = Observation.from_arrays(np.random.default_rng(0).standard_normal(1000), 0.1)
    post = Judged(np.array(probs), Fixed(places, spread), obs, 1.0, noise_error, "test", PRIOR)
    fit = np.ones((post.k_map, 3))
    fit[:, 2] = places[post.k_map]
    return Window(core, post, fit, 20 / T)


def test_counts_are_convolved(seed: int) -> None:
    """Two windows; a tone in the guard of the first is not counted there."""
    left = window((1, 2), {0: [], 1: [1.5], 2: [1.5, 2.05]}, [0.0, 0.2, 0.8], 1e-6)
    right = window((2, 3), {0: [], 1: [2.05], 2: [2.05, 2.5]}, [0.0, 0.7, 0.3], 1e-6)
    slots = CoreDraws((left, right), 4, PRIOR)
    assert slots.counts[0] == pytest.approx([0, 1]) and slots.counts[1] == pytest.approx(
        [0, 0.7, 0.3]
    )
    assert slots.k_probs == pytest.approx([0, 0, 0.7, 0.3, 0])
    draws = slots.sample(200, 3, seed)
    assert np.allclose(draws[:, :, 2], [1.5, 2.05, 2.5], atol=1e-4)


def test_splits_of_a_total_follow_the_counts(seed: int) -> None:
    first = window((1, 2), {0: [], 1: [1.5]}, [0.25, 0.75], 1e-6)
    second = window((2, 3), {0: [], 1: [2.5]}, [0.5, 0.5], 1e-6)
    slots = CoreDraws((first, second), 2, PRIOR)
    assert slots.k_probs == pytest.approx([0.125, 0.5, 0.375])
    n = 4000
    lower = (slots.sample(n, 1, seed)[:, 0, 2] < 2).mean()  # 0.75·0.5 against 0.25·0.5
    assert abs(lower - 0.75) < 4.5 * np.sqrt(0.75 * 0.25 / n)


@pytest.mark.parametrize(
    ("place", "spread", "other", "status"),
    [
        (1.99, 1e-6, 1.99, "exact"),
        (1.9999, 1e-3, 1.9999, "approximate"),  # may lie on either side
        (1.99, 1e-6, None, "approximate"),  # the right window does not see it
    ],
)
def test_doubts_about_borders(
    place: float, spread: float, other: float | None, status: str
) -> None:
    left = window((1, 2), {0: [], 1: [place]}, [0, 1], spread)
    seen = [0, 1] if other is not None else [1, 0]
    right = window((2, 3), {0: [], 1: [other or 0.0]}, seen, spread)  # type: ignore[arg-type]
    prior = dataclasses.replace(PRIOR, frequency=(1, 3), k_max=2)
    post = BandPosterior(left.posterior.observation, prior, (left, right))
    assert post.verdict.status == status, post.verdict


class Refined(Judged):
    """A posterior whose tests of the residual have one small p-value."""

    p_value = 1.0

    @property
    def verdict(self) -> Verdict:
        checks = (Check("colour", self.p_value, "not white"),)
        return judge(checks, DrawQuality(0.9, 0.1))

    def verdict_at(self, false_alarm: float, within: tuple[float, float] | None = None) -> Verdict:
        return judge(self.verdict.checks, DrawQuality(0.9, 0.1), false_alarm=false_alarm)


@pytest.mark.parametrize(("p_value", "status"), [(4e-4, "exact"), (3e-4, "misfit")])
def test_false_alarms_of_all_windows_together(p_value: float, status: str) -> None:
    """Two windows and the band, each called a misfit below 1e-3: together below a third of that."""
    both = []
    for core, place in (((1.0, 2.0), 1.5), ((2.0, 3.0), 2.5)):
        one = window(core, {0: [], 1: [place]}, [0, 1], 1e-6)
        post = one.posterior
        refined = Refined(post.k_probs, post.slots, post.observation, 1.0, 0.1, "test", PRIOR)
        refined.p_value = p_value
        assert refined.verdict.status == "misfit"
        both.append(dataclasses.replace(one, posterior=refined))
    prior = dataclasses.replace(PRIOR, frequency=(1, 3), k_max=2)
    found = BandPosterior(both[0].posterior.observation, prior, tuple(both))
    assert found.verdict.status == status, found.verdict
    # Pages and files speak of the same verdicts as the band's own.
    assert [verdict.status for verdict in found.window_verdicts] == [status] * 2
    assert found.to_dataset(1).attrs["window_verdicts"] == f"{status}, {status}"
    table = report_sections.windows(found)
    assert table is not None
    assert [row[2] for row in table.rows] == [report_sections.verdict_badge(status)] * 2


def test_files_come_back(tmp_path: Path, seed: int) -> None:
    """A file of a band holds its windows, and a file of that file is the same."""
    import xarray as xr

    left = window((1, 2), {0: [], 1: [1.5]}, [0.25, 0.75], 1e-6)
    right = window((2, 3), {0: [], 1: [2.5]}, [0.0, 1.0], 1e-6)
    prior = dataclasses.replace(PRIOR, frequency=(1, 3), k_max=2)
    post = BandPosterior(left.posterior.observation, prior, (left, right))
    post.save(tmp_path / "a.nc", n=200, seed=seed)
    read = Posterior.load(tmp_path / "a.nc")
    assert read.verdict == post.verdict and read.prior == post.prior
    assert read.method == post.method and read.k_map == post.k_map == 2
    np.testing.assert_array_equal(read.k_probs, post.k_probs)
    for again, drawn in zip(read.sample_joint(200), post.sample_joint(200, seed), strict=True):
        np.testing.assert_array_equal(again, drawn)
    assert read.windows["core_low"].tolist() == [1, 2]
    assert read.windows["core_high"].tolist() == [2, 3]
    assert read.windows["core_k_map"].tolist() == [1, 1]
    assert len(read.summary()) == 2
    with pytest.raises(ValueError, match="window by window"):
        read.refine()
    read.save(tmp_path / "b.nc", n=200, seed=seed)
    with xr.open_dataset(tmp_path / "a.nc") as a, xr.open_dataset(tmp_path / "b.nc") as b:
        assert a.sizes["window"] == 2 and a.attrs["window_verdicts"] == "exact, exact"
        xr.testing.assert_identical(a.load(), b.load())
    left.posterior.save(tmp_path / "c.nc", n=20)  # the control: one window alone
    assert not Posterior.load(tmp_path / "c.nc").windows


@pytest.mark.parametrize(
    ("errors", "expected"), [((0.0, 0.0), 0.0), ((0.1, None), 0.1), ((None, None), None)]
)
def test_error_of_the_noise_level(
    errors: tuple[float | None, float | None], expected: float | None
) -> None:
    """The largest that is known: 0 where the level was stated, none where no window has one."""
    cores = ((1, 2), (2, 3))
    parts = [
        window(c, {1: [c[0] + 0.5]}, [0.0, 1.0], 1e-6, e)
        for c, e in zip(cores, errors, strict=True)
    ]
    prior = dataclasses.replace(PRIOR, frequency=(1, 3), k_max=2)
    post = BandPosterior(parts[0].posterior.observation, prior, tuple(parts))
    assert post.noise_std_error == expected


def test_the_noise_level_is_that_of_windows_that_were_sampled() -> None:
    """The others know a floor that is in other units where the noise is coloured."""
    cores, levels, errors = ((1, 2), (2, 3), (3, 4)), (0.2, 5.0, 5.0), (0.01, None, None)
    parts = []
    for core, level, error in zip(cores, levels, errors, strict=True):
        part = window(core, {1: [core[0] + 0.5]}, [0.0, 1.0], 1e-6, error)
        part.posterior.noise_std = level
        parts.append(part)
    prior = dataclasses.replace(PRIOR, frequency=(1, 4), k_max=2)
    post = BandPosterior(parts[0].posterior.observation, prior, tuple(parts))
    assert post.noise_std == 0.2
    for part in parts:
        part.posterior.noise_std_error = None
    assert BandPosterior(post.observation, prior, tuple(parts)).noise_std == 5.0


def test_best_fit_and_residual_of_a_band() -> None:
    """As of one window, but for the most probable number of tones only."""
    left = window((1, 2), {1: [1.5]}, [0.0, 1.0], 1e-6)
    right = window((2, 3), {1: [2.5]}, [0.0, 1.0], 1e-6)
    prior = dataclasses.replace(PRIOR, frequency=(1, 3), k_max=2)
    post = BandPosterior(left.posterior.observation, prior, (left, right))
    fit = post.best_fit()
    assert fit.shape == (2, 3) and fit[:, 2].tolist() == [left.fit[0, 2], right.fit[0, 2]]
    np.testing.assert_array_equal(post.best_fit(2), fit)
    rest = without(post.observation, fit).long.values
    np.testing.assert_allclose(post.residual()[0], rest, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(post.residual(k=2)[0], post.residual()[0])
    for ask in (post.best_fit, post.residual):
        with pytest.raises(
            ValueError, match=r"k_map = 2 or None, received k = 1: .* window by window"
        ):
            ask(1)


def test_subtraction_and_selection() -> None:
    t = DT * np.arange(N)
    obs = Observation.from_arrays(2 * np.cos(2 * np.pi * 1.3 * t + 0.4), DT)
    theta = np.array([[2.0, 0.4, 1.3]])
    assert np.abs(without(obs, theta).long.values).max() < 1e-9
    assert without(obs, theta[:0]) is obs
    both = np.array([[1, 0, 2.0], [1, 0, 1.0], [1, 0, 3.0]])
    assert inside(both, (1.0, 3.0))[:, 2].tolist() == [1.0, 2.0]


def test_a_peak_beside_the_core_is_no_misfit_of_the_core() -> None:
    """A window answers for its core: what is left in its guard leaves a doubt, what is left in its core is a misfit."""
    fine = Check("lags", 0.5, "")

    def judged(*checks: Check) -> str:
        verdict = Verdict("misfit", "the tones do not explain the data", (*checks, fine))
        return of_core(verdict, (1.0, 2.0), 1e-3).status

    beside = Check("peak in the band", 1e-9, "a peak", frequency=2.1, size=20.0)
    within = beside._replace(frequency=1.5)
    elsewhere = beside._replace(name="peak outside the band", frequency=7.0)
    assert judged(beside) == "approximate"
    assert judged(within) == judged(elsewhere) == "misfit"
    assert judged(beside, Check("colour", 1e-9, "not white")) == "misfit"
    assert judged() == "misfit"


def test_white_noise_of_windows_is_stated_only_if_somebody_stated_it() -> None:
    observation, _ = band_signal(0, k=1)
    for said, words in (("auto", "white: "), ("white", "white, as stated")):
        noise = window_noise(observation, said, BAND, np.zeros((0, 3))).of(BAND)
        assert noise.is_white and noise.words.startswith(words)
