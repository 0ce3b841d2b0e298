"""Labels of components: the same whatever the order in the draws, right where sorting is wrong, and across K."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from posterior_helpers import gaussian_posterior, shuffled
from scipy.optimize import linear_sum_assignment
from statistics_helpers import assert_within

from slotflow.posterior.alignment import align, existence, relabel
from slotflow.posterior.draws import Draws
from slotflow.posterior.matching import GATE, Reference, match

Array = NDArray[np.float64]

BIN = 1 / 300


def draws_around(f: list[float], width: list[float], n: int, seed: int) -> Array:
    """Draws whose amplitude names their component: 1, 2, …; its frequency is Gaussian."""
    rng = np.random.default_rng(seed)
    theta = np.zeros((n, len(f), 3))
    theta[..., 0] = np.arange(1, len(f) + 1)
    theta[..., 2] = np.array(f) + np.array(width) * rng.standard_normal((n, len(f)))
    return theta


def test_relabel_sorts_what_is_apart(seed: int) -> None:
    theta = draws_around([2.9, 2.6, 2.75], [1e-4] * 3, 300, seed)
    named, source, reference = relabel(theta, BIN)
    assert (named[..., 0] == [2, 3, 1]).all() and (source == [1, 2, 0]).all()
    np.testing.assert_allclose(reference.frequency, [2.6, 2.75, 2.9], atol=1e-4)
    np.testing.assert_array_equal(np.take_along_axis(theta, source[..., None], 1), named)


@pytest.mark.parametrize("resolution", [BIN, 0.0])
def test_relabel_follows_a_broad_component_across_a_narrow_one(
    resolution: float, seed: int
) -> None:
    """Sorting mixes the two; the rule does not, but where the broad one comes within the narrow one's width."""
    n = 2000
    theta = draws_around([2.70, 2.72, 2.9], [0.02, 1e-5, 1e-4], n, seed)
    named, _, reference = relabel(theta, resolution)
    wrong = (named[..., 0] != [1, 2, 3]).any(1).mean()
    assert wrong < 0.01
    ranked = np.take_along_axis(theta, np.argsort(theta[..., 2], axis=1)[..., None], 1)
    assert (ranked[..., 0] != [1, 2, 3]).any(1).mean() > 0.1  # the control: sorting
    assert reference.width[0] == pytest.approx(0.02, rel=0.1)
    assert reference.width[1] < 2e-3


def test_relabel_is_not_led_by_a_second_mode(seed: int) -> None:
    """In 40 % of the draws the last tone is elsewhere, below another one, whose place in the order it takes."""
    theta = draws_around([2.55, 2.72, 2.9], [1e-4] * 3, 1000, seed)
    theta[:400, 2, 2] -= 0.3  # 2.6 instead
    named, _, reference = relabel(theta, BIN)
    assert (named[..., 0] == [1, 2, 3]).all()
    np.testing.assert_allclose(reference.frequency[:2], [2.55, 2.72], atol=1e-4)


@pytest.mark.parametrize("bins", [2.5, 3.0, 4.5, 8.0])
def test_relabel_leaves_alone_what_a_second_mode_jumps_over(bins: float, seed: int) -> None:
    """A tone is below another one or above it, a few bins away: the other one stays the same component."""
    theta = draws_around([2.7, 2.7 - bins * BIN], [1e-4] * 2, 1000, seed)
    theta[:400, 1, 2] += 2.2 * bins * BIN
    named, _, reference = relabel(theta, BIN)
    assert (named[..., 0] == [2, 1]).all()
    assert reference.width[1] < BIN < reference.width[0]


@pytest.mark.parametrize("width", [1e-4, 0.02])
def test_the_order_in_the_draws_does_not_matter(width: float, seed: int) -> None:
    theta = draws_around([2.70, 2.72, 2.9, 2.91], [width, 1e-4, 1e-4, 2e-3], 600, seed)
    expected = relabel(theta, BIN)
    other = shuffled(theta, seed + 1)
    found = relabel(other, BIN)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[2], expected[2])
    assert not np.array_equal(other, theta)  # the control: without labels the draws differ


def test_match_equals_brute_force(seed: int) -> None:
    """Every draw gets the cheapest pairs of all there are."""
    rng = np.random.default_rng(seed)
    reference = Reference(np.array([1.0, 1.3, 2.0, 2.1]), np.array([0.02, 0.3, 0.05, 0.2]))
    for k in (1, 2, 3, 4):
        f = rng.uniform(0.5, 2.6, (60, k))
        labels = match(f, reference, complete=True)
        assert all(len(set(row)) == k for row in labels.tolist())
        for row, chosen in zip(f, labels, strict=True):
            pairs = itertools.permutations(range(4), k)
            costs = {p: price(row, p, reference) for p in pairs}
            assert costs[tuple(chosen.tolist())] == pytest.approx(min(costs.values()), abs=1e-6)


def price(f: Array, components: tuple[int, ...], reference: Reference) -> float:
    """What pairs cost, by the definition in the module's docstring."""
    j = list(components)
    d = np.abs(f - reference.frequency[j]) / reference.width[j]
    near = d**2 + 2 * np.log(reference.width[j] / reference.width.max())
    return float(np.where(d <= GATE, near, GATE**2).sum())


def test_match_refuses_what_is_far(seed: int) -> None:
    reference = Reference(np.array([1.0, 2.0]), np.array([0.01, 0.01]))
    f = np.array([[1.04, 1.06], [1.06, 1.99], [np.nan, 2.0], [1.01, 1.0]])
    labels = match(f, reference)
    assert labels[:3].tolist() == [[0, -1], [-1, 1], [-1, 1]]
    assert sorted(labels[3].tolist()) == [-1, 0] and labels[3, 1] == 0  # the nearer of two
    assert match(f, reference, complete=True)[3].tolist() == [1, 0]
    assert match(np.zeros((0, 2)), reference).shape == (0, 2)
    assert (match(f, Reference(np.zeros(0), np.zeros(0))) == -1).all()


def test_match_in_pieces_equals_whole(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    theta = draws_around([2.70, 2.72, 2.9], [0.02, 1e-4, 1e-4], 200, seed)
    reference = relabel(theta, BIN)[2]
    whole = match(theta[..., 2], reference)
    monkeypatch.setattr("slotflow.posterior.matching.DISTANCES_AT_ONCE", 50)
    np.testing.assert_array_equal(match(theta[..., 2], reference), whole)


# ---------------------------------------------------------------- across K


def joint(seed: int, n: int = 3000) -> tuple[Array, NDArray[np.int64], Array]:
    """Draws of K = 2, 3, 4: component 2 is missing from K = 2, and the fourth is at 2.8 in half of its draws."""
    rng = np.random.default_rng(seed)
    counts = rng.choice([2, 3, 4], n, p=[0.3, 0.5, 0.2])
    tones = draws_around([2.55, 2.65, 2.9, 2.8], [1e-4] * 4, n, seed + 1)
    away = rng.random(n) < 0.5
    tones[away, 3, 2] = rng.uniform(2.5, 3.0, int(away.sum()))
    theta = np.full((n, 4, 3), np.nan)
    for i, k in enumerate(counts):
        chosen = {2: [0, 2], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[int(k)]
        theta[i, :k] = tones[i, rng.permutation(chosen)]
    return theta, counts, np.array([0, 0, 0.3, 0.5, 0.2])


def test_existence_across_k(seed: int) -> None:
    theta, counts, k_probs = joint(seed)
    found = align(theta, counts, k_probs, BIN)
    np.testing.assert_allclose(found.reference.frequency, [2.55, 2.65, 2.8, 2.9], atol=1e-3)
    n_four = int((counts == 4).sum())
    # A stray tone falls into a component's window of two bins by chance: 2 / 150 of the band each.
    error = 0.2 * np.sqrt(0.25 / n_four) + 0.2 * 0.5 * 2 / 150
    assert_within(found.existence, [1.0, 0.7, 0.1, 1.0], error)
    for j, name in enumerate((1, 2, 4, 3)):
        mine = found.theta[np.isfinite(found.theta[:, j, 2]), j, 0]
        assert (mine == name).mean() > 0.98
    strays = np.isfinite(theta[..., 2]) & (found.labels < 0)
    assert_within(strays.sum(), 0.5 * n_four, np.sqrt(0.25 * n_four) + 0.06 * n_four)
    assert (found.labels[np.isnan(theta[..., 2])] == -1).all()


def test_existence_takes_p_of_k_as_it_is_known(seed: int) -> None:
    """Not as often as the draws happen to have K; the control is the plain share of the draws."""
    theta, counts, _ = joint(seed)
    k_probs = np.array([0, 0, 0.6, 0.3, 0.1])
    found = align(theta, counts, k_probs, BIN)
    j = int(np.abs(found.reference.frequency - 2.65).argmin())
    assert found.existence[j] == pytest.approx(0.4, abs=0.01)
    assert np.isfinite(found.theta[:, j, 2]).mean() > 0.6


def test_tones_all_over_the_band_are_no_component(seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = np.full((2000, 1, 3), np.nan)
    theta[:900, 0] = np.stack([np.ones(900), np.ones(900), rng.uniform(2.5, 3, 900)], -1)
    counts = (np.arange(2000) < 900).astype(np.int64)
    found = align(theta, counts, np.array([0.55, 0.45]), BIN)
    assert found.existence.size == 0 and (found.labels == -1).all()
    theta[:900, 0, 2] = 2.7 + 1e-4 * rng.standard_normal(900)  # the control: in one place
    assert align(theta, counts, np.array([0.55, 0.45]), BIN).existence == pytest.approx([0.45])


def test_align_does_not_see_the_order(seed: int) -> None:
    theta, counts, k_probs = joint(seed, 600)
    mixed = theta.copy()
    for k in (2, 3, 4):
        mixed[counts == k, :k] = shuffled(theta[counts == k, :k], seed + k)
    one, two = align(theta, counts, k_probs, BIN), align(mixed, counts, k_probs, BIN)
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.existence, two.existence)


def test_nothing_and_no_draws() -> None:
    empty = align(np.zeros((5, 0, 3)), np.zeros(5, dtype=np.int64), np.ones(1), BIN)
    assert empty.theta.shape == (5, 0, 3)
    none = align(np.zeros((0, 2, 3)), np.zeros(0, dtype=np.int64), np.array([0.2, 0.5, 0.3]), BIN)
    assert none.theta.shape[0] == 0
    assert relabel(np.zeros((4, 0, 3)), BIN)[0].shape == (4, 0, 3)
    counts = np.zeros(0, dtype=np.int64)
    assert existence(np.zeros((0, 2), dtype=np.int64), counts, np.ones(3), 2).tolist() == [0, 0]


def test_a_hundred_components(seed: int) -> None:
    f = np.linspace(2.0, 5.0, 100).tolist()
    theta = shuffled(draws_around(f, [5e-4] * 100, 300, seed), seed)
    named, _, _ = relabel(theta, BIN)
    assert (named[..., 0] == np.arange(1, 101)).all()


def test_summary_catalogue_and_plots_use_it(seed: int) -> None:
    """A sampler whose labels switch gives the same tables as one that keeps them."""
    post = gaussian_posterior([0.0, 0.2, 0.5, 0.3], widths=[[0.05, 0.1, 0.02]] * 3)
    theta = {k: post.sample(400, k, seed) for k in (1, 2, 3)}
    sigma = {k: np.full(400, 0.3) for k in theta}
    tables = []
    for mixed in (False, True):
        draws = {k: shuffled(x, seed + k) if mixed else x for k, x in theta.items()}
        post.slots = Draws(3, draws, sigma)
        frame = post.summary(n=400)
        tables.append((frame.drop(columns="slot"), post.to_catalogue(n=400)))
    for one, two in zip(*tables, strict=True):
        assert one.equals(two)
    assert len(tables[0][1]) == 3
    exists = tables[0][1]["existence"]
    np.testing.assert_allclose(exists, [1.0, 0.8, 0.3], atol=0.01)  # some draws stray


@pytest.mark.parametrize("complete", [True, False])
def test_many_tones_are_matched_as_if_all_pairs_were_searched(complete: bool) -> None:
    """Pairs that have each other alone in reach are taken first; the sum of costs stays the smallest there is."""
    rng = np.random.default_rng(5)
    places = np.sort(rng.uniform(0, 60, 30))
    reference = Reference(places, rng.uniform(0.02, 0.3, 30))
    draws = np.sort(places + 0.4 * rng.standard_normal((40, 30)), axis=1)
    draws[::3, :4] = np.nan
    labels = match(draws, reference, complete=complete)
    narrow = 2 * np.log(reference.width / reference.width.max())
    competing = 0
    for f, found in zip(draws, labels, strict=True):
        distance = np.abs(f[:, None] - places) / reference.width
        present = np.flatnonzero(np.isfinite(f))
        inside = distance <= GATE
        cost = np.where(inside, distance**2 + narrow, GATE**2)[present]
        rows, columns = linear_sum_assignment(cost)
        every = found[present]
        mine = sum(cost[i, j] if j >= 0 else GATE**2 for i, j in enumerate(every))
        assert mine == pytest.approx(cost[rows, columns].sum(), abs=1e-6)
        competing += int((np.diff(np.sort(cost.argmin(1))) == 0).any())
    assert competing > 10  # otherwise nothing was decided


def test_components_far_apart_are_labelled_as_if_alone(seed: int) -> None:
    """Two crowds, each with overlapping components: together they get the labels that each has by itself."""
    left = draws_around([2.0, 2.004], [0.003, 0.003], 400, seed)
    right = draws_around([2.9, 2.903, 2.91], [0.002, 0.004, 0.001], 400, seed + 1)
    alone = [relabel(part, BIN)[0][..., 2] for part in (left, right)]
    together, _, reference = relabel(np.concatenate([right, left], 1), BIN)
    np.testing.assert_allclose(together[..., 2], np.concatenate(alone, 1))
    assert (np.diff(reference.frequency) > 0).all()
