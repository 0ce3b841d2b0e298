"""Tones that drift, decay or are modulated are named in the verdict on tones; steady tones are not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from slotflow import Grid, Observation, Posterior, Prior, SlotFlow
from slotflow.core.arrays import Array
from slotflow.exact.directed.alternatives import _alarms, _lasting
from slotflow.exact.directed.envelopes import CHIRP, DAMPED, Component, periodic
from slotflow.exact.directed.groups import clusters, may_be_one, runs, stand_in
from slotflow.exact.directed.scores import DIRECTIONS, scores
from slotflow.exact.directed.slow import Slow
from slotflow.exact.orders import Orders
from slotflow.posterior.alternative import Alternative
from slotflow.posterior.named import with_alternatives
from slotflow.posterior.verdict import Verdict
from slotflow.show.advice import remedies
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Likelihood, Statistics
from slotflow.signal.likelihood.compressed import compressed_around
from slotflow.signal.model import noise_free

GRID = Grid(1000, 0.1)
BAND = (2.5, 3.0)
S = np.linspace(-1, 1, GRID.n)


def changed(kind: str, amplitude: float, frequency: float) -> Array:
    """A component that changes over the record, (N,)."""
    angle, envelope = (
        2 * np.pi * frequency * (GRID.times - GRID.times.mean()) + 0.3,
        np.ones(GRID.n),
    )
    if kind == "drift":
        angle = angle + 0.25 * math.pi * 1.0 * S**2
    elif kind == "growth":
        envelope = np.exp(-0.5 * (S + 1))
    elif kind == "modulation":
        envelope = 1 + 0.3 * np.cos(math.pi * 1.2 * S + 1)
    series: Array = amplitude * envelope * np.cos(angle)
    return series


def fitted(x: Array, start: Array) -> tuple[Likelihood, Array]:
    """The likelihood of a series and the coordinates of the tones that fit it from a start, (K, Z)."""
    likelihood = Statistics.from_arrays([torch.as_tensor(x)[None]], [GRID])
    theta = fit(likelihood, torch.as_tensor(start)[None]).theta[0].numpy()
    return likelihood, np.asarray(likelihood.to_z(theta))


def test_scores_of_tones_have_their_law(seed: int) -> None:
    """P-values of steady tones are uniform (Kolmogorov and Smirnov, at 1e-4); those of drifting ones are small."""
    rng, found = np.random.default_rng(seed), dict[str, list[float]]()
    truth = np.array([[1.0, 1.0, 2.6], [0.8, 2.0, 2.63], [1.2, 3.0, 2.81]])
    clean = noise_free(truth, GRID)
    for _ in range(150):
        likelihood, z = fitted(clean + rng.standard_normal(GRID.n), truth)
        for score in scores(likelihood, z, np.ones(3, dtype=bool)):
            found.setdefault(score.kind, []).append(score.p_value)
    assert set(found) == set(DIRECTIONS)
    for values in found.values():
        assert stats.kstest(values, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("kind", ["drift", "growth", "modulation"])
def test_scores_see_what_changes(kind: str, seed: int) -> None:
    """The change has an SNR of 6 or more, so that its own test is the smallest p-value of all."""
    rng = np.random.default_rng(seed)
    x = changed(kind, 3.0, 2.7) + rng.standard_normal(GRID.n)
    likelihood, z = fitted(x, np.array([[3.0, 0.0, 2.7]]))
    best = min(scores(likelihood, z, np.ones(1, dtype=bool)), key=lambda score: score.p_value)
    assert best.kind == kind and best.p_value < 1e-6
    if kind == "growth":
        assert best.slopes[0] == pytest.approx(-0.5, abs=0.15)


def slow_of(x: Array, places: list[float]) -> Slow:
    """Slowly changing components around some frequencies of a series."""
    observation = Observation.from_arrays(values=x, dt=GRID.dt)
    likelihood = Statistics.from_observation(observation)
    around = [(f - 2 * likelihood.bin, f + 2 * likelihood.bin) for f in places]
    prior = Prior(k_min=0, amplitude=(0.1, 5.0), frequency=BAND, min_separation=0.0)
    return Slow(compressed_around(likelihood, observation, around, 5.0), prior, likelihood)


def test_data_around_places_far_apart() -> None:
    """Instants are chosen so that no place is an alias of another: RSS is that of the samples."""
    truth = np.array([[1.5, 1.0, 2.55], [1.0, 2.0, 2.88]])
    x = noise_free(truth, GRID) + 0.1 * np.random.default_rng(1).standard_normal(GRID.n)
    likelihood, z = fitted(x, truth)
    slow = slow_of(x, [2.55, 2.88])
    xi, c = likelihood.waveform.unpack(z)
    tones = [Component(float(f), complex(a)) for f, a in zip(xi[:, 0], c[:, 0], strict=True)]
    theta = torch.from_numpy(likelihood.to_theta(z))[None]
    assert slow.data.rss(slow.total(tones)) == pytest.approx(float(likelihood.rss(theta)), rel=1e-3)


@pytest.mark.parametrize(("kind", "envelope"), [("drift", CHIRP), ("growth", DAMPED)])
def test_a_changing_component_is_fitted(kind: str, envelope: object, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slow = slow_of(changed(kind, 3.0, 2.7) + 0.1 * rng.standard_normal(GRID.n), [2.7])
    assert envelope in (CHIRP, DAMPED)
    chosen = CHIRP if kind == "drift" else DAMPED
    start = Component(2.7, 3.0 + 0.0j, chosen, np.zeros(1))
    found = slow.fit([start])
    assert found is not None
    truth = math.pi / 6 if kind == "drift" else -0.5
    assert found.components[0].x[0] == pytest.approx(truth, abs=0.02)
    assert found.rss == pytest.approx(0.01 * GRID.n, rel=0.2)


def test_one_component_stands_in_for_a_cluster() -> None:
    """Three tones that are a modulated one exactly: carrier and sidebands."""
    slow = slow_of(np.random.default_rng(0).standard_normal(GRID.n), [2.7])
    bin = slow.bin
    tones = [
        Component(2.7 - 2 * bin, 0.1 + 0j),
        Component(2.7, 1.0 + 0j),
        Component(2.7 + 2 * bin, 0.1 + 0j),
    ]
    one = stand_in(slow, tones, periodic(2.0))
    assert one.frequency == pytest.approx(2.7, abs=0.02 * bin)
    assert np.abs(slow.total([one]) - slow.total(tones)).max() < 0.05


def test_clusters_and_their_parts() -> None:
    places = np.array([1.0, 1.01, 1.02, 1.2, 1.5])
    assert clusters(places, 0.01) == [(0, 1, 2)]
    assert list(runs((0, 1, 2), places, 0.01)) == [(0, 1, 2), (0, 1), (1, 2)]
    assert clusters(np.zeros(0), 0.01) == []
    assert may_be_one((0, 1, 2), places, 0.01)
    assert not may_be_one((0, 1), np.array([1.0, 1.028]), 0.01)  # neighbours, but resolved


def test_words_and_status() -> None:
    exact = Verdict("exact", "the residual is white noise")
    one = Alternative("chirp", (2.551, 2.553), math.log(4e5))
    named = with_alternatives(exact, [one])
    assert named.status == "approximate" and named.alternatives == (one,)
    assert "a chirp instead of 2 tones from 2.551 to 2.553 Hz: odds 400000 : 1" in named.reason
    assert "--classes tone,chirp" in named.reason
    assert with_alternatives(exact, []) is exact
    assert with_alternatives(Verdict("misfit", "peak"), [one]).status == "misfit"


def test_an_alarm_lasts_unless_a_further_tone_explains_it(seed: int) -> None:
    """Beside a plausible tone far away the tone still decays; with a close companion it is not tested by itself."""
    rng = np.random.default_rng(seed)
    x = changed("growth", 3.0, 2.7) + rng.standard_normal(GRID.n)
    likelihood, z = fitted(x, np.array([[3.0, 0.0, 2.7]]))
    alarms = _alarms(scores(likelihood, z, np.ones(1, dtype=bool)))
    assert alarms and alarms[0].kind == "growth"
    places, probs = np.array([2.7]), np.array([0.0, 0.8, 0.2])
    for other, lasts in ((2.9, True), (2.7 + 0.4 / 100, False)):
        _, more = fitted(x, np.array([[2.0, 0.3, 2.7], [0.5, 1.0, other]]))
        fits = {2: np.asarray(likelihood.to_theta(more))}
        none = np.full(3, -np.inf)
        orders = Orders(none, none, probs, {}, fits, 0.0)
        assert bool(_lasting(alarms, places, likelihood, orders)) == lasts
        alone = Orders(none, none, np.array([0.0, 1.0, 0.0]), {}, fits, 0.0)
        assert _lasting(alarms, places, likelihood, alone) == alarms


@pytest.fixture(scope="module")
def drifting(zoom: SlotFlow) -> Posterior:
    """The answer for tones to one that drifts by a bin, beside a steady one."""
    rng = np.random.default_rng(3)
    t = np.arange(3000) * 0.1
    u = t - t.mean()
    x = 1.2 * np.cos(2 * np.pi * 2.7 * u + np.pi * (u / 300) ** 2) + np.cos(2 * np.pi * 2.85 * u)
    observation = Observation.from_arrays(values=x + rng.standard_normal(3000), dt=0.1)
    return zoom.infer(observation, prior={"frequency": BAND}, max_seconds=20)


def test_a_drift_is_named(drifting: Posterior, tmp_path: Path) -> None:
    verdict = drifting.verdict
    assert verdict.status == "approximate"
    assert "chirp" in [one.kind for one in verdict.alternatives]
    assert all(abs(f - 2.7) < 0.03 for one in verdict.alternatives for f in one.places)
    assert "--classes tone,chirp" in remedies(drifting)[0]
    path = tmp_path / "posterior.nc"
    drifting.save(path)
    assert Posterior.load(path).verdict.alternatives == verdict.alternatives


def test_steady_tones_are_not_named(zoom: SlotFlow) -> None:
    """The control: a close pair and a single tone, all of them steady."""
    rng = np.random.default_rng(4)
    t = np.arange(3000) * 0.1
    tones = ((1.2, 2.7), (0.9, 2.7 + 0.9 / 300), (1.0, 2.85))
    x = sum(a * np.cos(2 * np.pi * f * t + a) for a, f in tones) + rng.standard_normal(3000)
    post = zoom.infer(Observation.from_arrays(values=x, dt=0.1), prior={"frequency": BAND})
    assert post.verdict.status == "exact" and post.k_map == 3
    assert post.verdict.alternatives == ()
