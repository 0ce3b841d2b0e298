"""Many posteriors at once: a sequence like a list, and arrays over the signals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotflow import Observations, Posteriors, SlotFlow, simulate

N = 5


@pytest.fixture(scope="module")
def posts(debug_model: SlotFlow) -> Posteriors:
    config = debug_model.config
    sim = simulate(config.prior, N, config.long, config.short, seed=4)
    return debug_model.infer([sim.observation(i) for i in range(N)], refine=False)


def test_it_is_a_sequence(posts: Posteriors) -> None:
    assert (
        isinstance(posts, Posteriors) and len(posts) == N and repr(posts) == "Posteriors(5 signals)"
    )
    assert [post.k_map for post in posts] == [posts[i].k_map for i in range(N)]
    assert posts[-1] is posts[N - 1] and posts.index(posts[2]) == 2
    some = posts[1:3]
    assert isinstance(some, Posteriors) and list(some) == [posts[1], posts[2]]
    assert posts == list(posts) and posts != list(posts)[:-1] and posts != 3
    assert Posteriors() == [] and next(reversed(posts)) is posts[-1]
    with pytest.raises(IndexError):
        posts[N]


@pytest.mark.parametrize("places", [[0, 3], np.array([0, 3]), np.array([1, 0, 0, 1, 0]) > 0])
def test_some_of_them_by_places_or_truth_values(posts: Posteriors, places: Any) -> None:
    some = posts[places]
    assert isinstance(some, Posteriors) and list(some) == [posts[0], posts[3]]
    np.testing.assert_array_equal(some.k_probs, posts.k_probs[[0, 3]])
    np.testing.assert_array_equal(some.sample(3)[1], posts.sample(3)[1][[0, 3]])
    assert (
        len(posts[[]]) == 0 and posts[np.int64(3)] is posts[3] and list(posts[[-1]]) == [posts[4]]
    )


@pytest.mark.parametrize(
    ("places", "kind"),
    [([True], ValueError), ("first", ValueError), (1.0, ValueError), ([7], IndexError)],
)
def test_places_that_are_none_are_named(
    posts: Posteriors, places: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="expected"):
        posts[places]


def test_observations_by_places_or_truth_values() -> None:
    many = Observations.from_arrays(np.arange(12.0).reshape(3, 4), dt=1.0)
    for places in ([0, 2], np.array([True, False, True])):
        some = many[places]
        assert isinstance(some, Observations)
        np.testing.assert_array_equal(some[1].long.values, many[2].long.values)


def test_arrays_over_signals(posts: Posteriors) -> None:
    k_max = posts[0].k_max
    assert posts.k_probs.shape == (N, k_max + 1)
    np.testing.assert_allclose(posts.k_probs.sum(1), 1)
    np.testing.assert_array_equal(posts.k_map, posts.k_probs.argmax(1))
    assert [v.status for v in posts.verdicts] == ["approximate"] * N
    theta, counts = posts.sample(30, seed=2)
    size = posts[0].waveform.size
    assert theta.shape == (N, 30, k_max, size) and counts.shape == (N, 30)
    np.testing.assert_array_equal(np.isfinite(theta).all(-1).sum(-1), counts)
    for i, post in enumerate(posts):
        one, k = post.sample_joint(30, seed=2)
        np.testing.assert_array_equal(theta[i], one)
        np.testing.assert_array_equal(counts[i], k)


def test_a_table_of_all_components(posts: Posteriors) -> None:
    table = posts.summary(n=100)
    assert list(table.index.names) == ["signal", "component"] and len(table) == posts.k_map.sum()
    for i, post in enumerate(posts):
        if post.k_map:
            alone = post.summary(n=100)
            np.testing.assert_array_equal(table.loc[i].to_numpy(), alone.to_numpy())
    assert len(Posteriors().summary()) == 0


def test_posteriors_of_different_sizes(posts: Posteriors, zoom: SlotFlow) -> None:
    """Those of another network know more components: rows are padded with zeros and NaN."""
    config = zoom.config
    sim = simulate(config.prior, 1, config.long, config.short, seed=1, k=2)
    wide = zoom.infer(sim.observation(0), prior=config.prior, method="network")
    mixed = Posteriors([posts[0], wide])
    assert mixed.k_max == wide.k_max > posts.k_max
    np.testing.assert_array_equal(mixed.k_probs[0, posts.k_max + 1 :], 0)
    theta, counts = mixed.sample(10)
    assert theta.shape[:3] == (2, 10, wide.k_max) and np.isnan(theta[0, :, posts.k_max :]).all()
    assert (counts[1] <= wide.k_max).all()


def test_none() -> None:
    empty = Posteriors()
    assert empty.k_probs.shape == (0, 1) and empty.k_map.shape == (0,) and empty.verdicts == []
    theta, counts = empty.sample(3)
    assert theta.shape[:2] == (0, 3) and counts.shape == (0, 3)
