"""Batches as arrays: the same posteriors, draws and order as one by one, whatever stands among the signals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from slotflow import Observation, Observations, Posteriors, Prior, Simulation, SlotFlow, simulate
from slotflow.core.devices import in_halves
from slotflow.data.trend import fit_line, line_filters, sample_numbers
from slotflow.infer.screen import needs_no_look
from slotflow.network.zoom.posteriors import ROWS_AT_ONCE, ZoomPosteriors
from slotflow.posterior.batched_tables import plain_tables, with_all_combinations
from slotflow.posterior.combinations import may_combine
from slotflow.posterior.display import epoch_of
from slotflow.posterior.plain_table import PlainTable
from slotflow.posterior.plan import joint_plan

N = 12
NOISY = Prior(amplitude=(0.1, 0.6), sigma=(0.5, 1.5))
"""A prior of weak tones in strong noise: K is uncertain, and draws meet the bounds."""


@pytest.fixture(scope="module")
def signals(zoom: SlotFlow) -> Simulation:
    return simulate(NOISY, N, zoom.config.long, zoom.config.short, seed=7)


@pytest.fixture(scope="module")
def many(zoom: SlotFlow, signals: Simulation) -> Observations:
    short = zoom.config.short
    return Observations.from_arrays(signals.long, zoom.config.long.dt, signals.short, short.dt)


@pytest.fixture(scope="module")
def posts(zoom: SlotFlow, many: Observations) -> Posteriors:
    return zoom.infer(many, prior=NOISY, refine=False, batch_size=5)


def _parts(posts: Posteriors) -> list[type]:
    return [type(part) for part, _, _ in posts.batches()]


def test_draws_of_a_batch_are_those_of_each_signal_alone(
    zoom: SlotFlow, signals: Simulation, posts: Posteriors
) -> None:
    assert _parts(posts) == [ZoomPosteriors] * 3  # 5, 5 and 2
    theta, counts = posts.sample(60, seed=3)
    assert (posts.k_probs.max(1) < 0.98).any()  # else nothing is shown of several K
    low, high = NOISY.amplitude
    amplitudes = posts[0].waveform.of(theta, "amplitude")
    assert np.nanmin(amplitudes) >= low and np.nanmax(amplitudes) <= high
    for i in range(N):
        alone = zoom.infer(signals.observation(i), prior=NOISY, refine=False)
        np.testing.assert_allclose(posts.k_probs[i], alone.k_probs, atol=1e-6)
        assert alone.noise_std == pytest.approx(posts.noise_std[i])
        for one in (posts[i], alone):
            draws, k = one.sample_joint(60, seed=3)
            np.testing.assert_array_equal(k, counts[i])
            np.testing.assert_allclose(draws, theta[i], rtol=1e-3, atol=2e-3)
    other = posts.sample(60, seed=4)[0]
    assert not np.allclose(np.nan_to_num(other), np.nan_to_num(theta))


def test_chunks_of_draws_change_nothing(posts: Posteriors, monkeypatch: pytest.MonkeyPatch) -> None:
    theta = posts.sample(20)[0]
    monkeypatch.setitem(ROWS_AT_ONCE, "cpu", 30)
    np.testing.assert_allclose(posts.sample(20)[0], theta, rtol=1e-3, atol=2e-3)


def test_posteriors_are_made_once_and_slices_share_them(posts: Posteriors) -> None:
    assert posts[7] is posts[7] is posts[5:][2]
    assert posts[7].assumed is not None and posts[7].prior is not None
    backwards = posts[::-1]
    np.testing.assert_array_equal(backwards.k_map, posts.k_map[::-1])
    np.testing.assert_array_equal(backwards.sample(5)[1], posts.sample(5)[1][::-1])
    assert [v.status for v in posts.verdicts] == ["approximate"] * N


def test_signals_that_need_a_look_keep_their_place(zoom: SlotFlow, signals: Simulation) -> None:
    """One with an offset and one on another grid stand among the others, each answered as alone."""
    several = [signals.observation(i) for i in range(4)]
    long = several[1].long
    several[1] = Observation.from_arrays(long.values + 3.0, long.dt)
    several[2] = Observation.from_arrays(several[2].long.values + 2.0, long.dt)
    found = zoom.infer(several, prior=NOISY, refine=False)
    assert _parts(found).count(ZoomPosteriors) == 1 and len(_parts(found)) == 3
    for post, one in zip(found, several, strict=True):
        alone = zoom.infer(one, prior=NOISY, refine=False)
        np.testing.assert_allclose(post.k_probs, alone.k_probs, atol=1e-6)
        notes = [channel.notes for channel in post.observation.channels]
        assert notes == [channel.notes for channel in alone.observation.channels]
    assert found[1].observation.long.notes and not found[0].observation.long.notes
    with pytest.raises(ValueError, match="size of the prior"):
        zoom.infer(
            [*several, Observation.from_arrays(1e30 * long.values, 0.1)], prior=NOISY, refine=False
        )


def test_the_screen_sees_what_a_look_would_find() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 400))
    u = sample_numbers(400)
    line, error = fit_line(x[0], u)
    np.testing.assert_allclose(line_filters(u) @ x[0], line, rtol=1e-9)
    x[1] += 8 * error[0]
    x[2] += 8 * error[1] * u
    x[3, 5] = np.nan
    x[4] = 2.0
    x[5] *= 1e20
    passed = needs_no_look([torch.as_tensor(x)], 1.0)
    assert passed.tolist() == [True, False, False, False, False, False]


def test_what_depends_on_the_samples_is_answered_one_by_one(
    zoom: SlotFlow, many: Observations
) -> None:
    found = zoom.infer(many[:2], prior={"frequency": NOISY.frequency}, refine=False)
    assert not any(part is ZoomPosteriors for part in _parts(found))
    assert found[0].assumed is not None and found[0].prior != found[1].prior
    stated = {name: getattr(NOISY, name) for name in ("frequency", "amplitude", "sigma")}
    assert _parts(zoom.infer(many[:2], prior=stated, refine=False)) == [ZoomPosteriors]


def test_a_plan_is_that_of_a_lone_generator() -> None:
    """The rule of one signal: K by `Generator.choice`, then a seed for each K that was drawn."""
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(6, 0.3), size=40)
    plan = joint_plan(probs, 30, seed=9)
    for row, counts, seeds in zip(probs, plan.counts, plan.seeds, strict=True):
        own = np.random.default_rng(9)
        expected = own.choice(6, size=30, p=row / row.sum())
        np.testing.assert_array_equal(counts, expected)
        for k in np.unique(expected):
            assert seeds[k] == own.integers(2**31)


def test_rows_in_any_order_of_memory(zoom: SlotFlow, signals: Simulation) -> None:
    """What torch cannot share: strides below 0, and arrays that may not be written to."""
    dt, own = zoom.config.long.dt, np.asarray(signals.long)[:4]
    fixed = own.copy()
    fixed.setflags(write=False)
    expected = zoom.infer(Observations.from_arrays(own, dt), prior=NOISY, refine=False).k_probs
    backwards = own[::-1, ::-1].copy()[::-1, ::-1]
    assert backwards.strides[0] < 0
    for rows in (backwards, fixed):
        found = zoom.infer(Observations.from_arrays(rows, dt), prior=NOISY, refine=False)
        np.testing.assert_allclose(found.k_probs, expected, atol=1e-6)


def test_observations_are_a_sequence(many: Observations, signals: Simulation) -> None:
    assert len(many) == N and repr(many) == "Observations(12 signals of 3,000 and 5,120 samples)"
    one, alone = many[-1], signals.observation(N - 1)
    for channel, other in zip(one.channels, alone.channels, strict=True):
        np.testing.assert_array_equal(channel.values, other.values)
        assert channel.grid == other.grid
    assert len(many[2:5]) == 3 and len(list(many[:2])) == 2
    with pytest.raises(IndexError, match="signal"):
        many[N]
    values = np.zeros((3, 50))
    with pytest.raises(ValueError, match="signals, samples"):
        Observations.from_arrays(values[0], 0.1)
    with pytest.raises(ValueError, match="same number of rows"):
        Observations.from_arrays(values, 0.1, values[:2], 0.01)
    with pytest.raises(ValueError, match="dt_short"):
        Observations.from_arrays(values, 0.1, values)
    with pytest.raises(ValueError, match="real numbers"):
        Observations.from_arrays(values * 1j, 0.1)


def test_work_is_halved_where_memory_is_short() -> None:
    def work(items: np.ndarray) -> int:
        if len(items) > 3:
            raise torch.OutOfMemoryError("too much")
        return int(items.sum())

    found = list(in_halves(work, np.arange(10)))
    np.testing.assert_array_equal(np.concatenate([items for items, _ in found]), np.arange(10))
    assert sum(total for _, total in found) == 45 and len(found) == 4

    def never(items: np.ndarray) -> int:
        raise torch.OutOfMemoryError("too much")

    with pytest.raises(torch.OutOfMemoryError):
        list(in_halves(never, np.arange(2)))


def _equal_tables(one: pd.DataFrame, other: pd.DataFrame) -> None:
    assert list(one.columns) == list(other.columns) and one.index.equals(other.index)
    for name in one.columns:
        if one[name].dtype.kind == "f":
            np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=2e-3)
        else:
            assert one[name].fillna("-").tolist() == other[name].fillna("-").tolist()


@pytest.mark.parametrize("prior", [NOISY, Prior()])
def test_tables_of_a_batch_are_those_of_each_signal(zoom: SlotFlow, prior: Prior) -> None:
    """Weak tones, whose order does not name them and whose K is uncertain, and strong ones."""
    sim = simulate(prior, 6, zoom.config.long, zoom.config.short, seed=3)
    many = Observations.from_arrays(sim.long, zoom.config.long.dt, sim.short, zoom.config.short.dt)
    posts = zoom.infer(many, prior=prior, refine=False)
    singles = {i: post.summary(n=200, seed=1) for i, post in enumerate(posts)}
    table = posts.summary(n=200, seed=1)
    _equal_tables(table, pd.concat(singles, names=["signal"]))
    catalogues = {i: post.to_catalogue(n=150, seed=1) for i, post in enumerate(posts)}
    _equal_tables(posts.to_catalogue(n=150, seed=1), pd.concat(catalogues, names=["signal"]))
    part, rows, _ = next(posts.batches())
    assert isinstance(part, ZoomPosteriors)
    apart = plain_tables(part, rows, 200, 1, epoch_of(posts[0]))
    for i, plain in enumerate(apart):
        one = plain.frame()
        _equal_tables(one, singles[i])
        assert one.attrs["verdict"] == singles[i].attrs["verdict"]
        assert PlainTable.of(one) == plain


def test_harmonics_are_labelled_in_a_table_of_many(posts: Posteriors) -> None:
    part, rows, _ = next(posts.batches())
    assert isinstance(part, ZoomPosteriors)
    places = np.array([2.6, 2.7, 2.8, 2.6, 2.7, 2.83])
    index = pd.MultiIndex.from_product([[0, 1], [1, 2, 3]], names=["signal", "component"])
    table = pd.DataFrame({"frequency_median": places, "frequency_sd": 1e-6}, index)
    table["amplitude_median"] = [3.0, 2.0, 1.0, 3.0, 2.0, 1.0]
    found = with_all_combinations(table, part, rows[:2])
    assert found["combination"].iloc[:3].tolist() == ["", "", "2f2-f1"]
    assert found["combination"].iloc[3:].isna().all()
    maybe = may_combine(places.reshape(2, 3), np.full((2, 3), 1e-6), part.resolution)
    assert maybe.tolist() == [True, False]


def test_many_posteriors_in_one_file(posts: Posteriors, zoom: SlotFlow, tmp_path: Path) -> None:
    file = tmp_path / "many.nc"
    posts.save(file, n=40, seed=2)
    back = Posteriors.load(file)
    assert len(back) == N
    np.testing.assert_allclose(back.k_probs, posts.k_probs)
    np.testing.assert_allclose(back.noise_std, posts.noise_std)
    theta, counts = posts.sample(40, seed=2)
    np.testing.assert_array_equal(back.sample(40)[0], theta)
    np.testing.assert_array_equal(back[3].sample_joint(40)[1], counts[3])
    assert [v.status for v in back.verdicts] == [v.status for v in posts.verdicts]
    one = back[3]
    assert one.prior == NOISY and one.method == posts[3].method and not one.has_data
    assert one.resolution == pytest.approx(posts[3].resolution)
    assert one.noise_std_error == pytest.approx(posts[3].noise_std_error)
    assert len(back[:2].summary(n=20)) == back.k_map[:2].sum()
    posts[0].save(tmp_path / "one.nc")
    with pytest.raises(ValueError, match="file of one"):
        Posteriors.load(tmp_path / "one.nc")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="damaged"):
        Posteriors.load(file)
    with pytest.raises(ValueError, match="at least one"):
        Posteriors().save(file)


def test_a_file_of_many_that_is_written_again_loses_nothing(
    zoom: SlotFlow, posts: Posteriors, tmp_path: Path
) -> None:
    """Signals of several methods, one of them without evidences."""
    quiet = simulate(Prior.paper(), 1, zoom.config.long, None, seed=3, k=1).observation(0)
    exact = zoom.infer(quiet, prior=Prior.paper())
    Posteriors([exact, posts[0]]).save(tmp_path / "a.nc", n=20)
    first = Posteriors.load(tmp_path / "a.nc")
    first.save(tmp_path / "b.nc", n=20)
    first[1:].save(tmp_path / "c.nc", n=20)
    before, after = first.to_dataset(20), Posteriors.load(tmp_path / "b.nc").to_dataset(20)
    assert np.isfinite(before["log_evidence"].values[0]).any() and before["ess"].values[0] > 0
    assert before["method"].values[0] != before["method"].values[1]
    xr.testing.assert_identical(after, before)
    one, other = Posteriors.load(tmp_path / "c.nc")[0], first[1]
    assert (one.method, one.prior) == (other.method, other.prior)
