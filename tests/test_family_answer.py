"""From an observation to the family network's record and back: units, draws, densities, who answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from family_helpers import small_model

from slotflow import Channel, Grid, Observation, Prior
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.densities import FamilySlots
from slotflow.network.family.record import bounds_of, record_of
from slotflow.network.multiclass.posterior import ClassPosterior
from slotflow.signal.simulation_classes import unit_classes
from slotflow.waveforms import Chirp, Damped, Tone

MODEL = small_model()
UNITS = MODEL.parts.units
SHAPES = {"tone": [], "chirp": [25.0], "damped": [4.0]}
"""Further shapes of a component of each class, in units of the record: ḟT², γT."""


def prior_for(grid: Grid, band: tuple[float, float], **changes: Any) -> Prior:
    stated: dict[str, Any] = {
        "k_min": 0,
        "k_max": 6,
        "classes": unit_classes(grid.duration),
        "frequency": (band[0] / grid.duration, band[1] / grid.duration),
        "min_separation": 0.0,
        "amplitude": (0.1, 10.0),
        "amplitude_law": "loguniform",
        "sigma": (1.0, 1.0),
    }
    return Prior(**(stated | changes))


def component(prior: Prior, grid: Grid, name: str) -> tuple[np.ndarray, np.ndarray]:
    """θ of a component of a class, (P_c,), and its function of time, complex, (n,)."""
    member = prior.waveform.on(grid.t0, grid.mid_time).members[name]
    powers = {"chirp": grid.duration**2, "damped": grid.duration}
    extra = [value / powers[name] for value in SHAPES[name]]
    theta = np.array([1.3, 0.7, prior.frequency[0] + 50.3 / grid.duration, *extra])
    xi, c = member.split(theta[None], grid.mid_time)
    return theta, c[0, 0] * member.basis(grid.times - grid.mid_time, xi)[0, 0]


def observation(values: np.ndarray, grid: Grid) -> Observation:
    return Observation([Channel(values, dt=grid.dt, t0=grid.t0, trend=-1)])


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    ("grid", "band", "is_complex", "allowed"),
    [
        (Grid(512, 1.0), (-60.0, 60.0), True, 1e-10),
        (Grid(700, 0.01, 3.0), (20.0, 140.0), True, 1e-3),
        (Grid(3000, 0.1), (300.0, 400.0), False, 1e-2),
    ],
)
def test_a_component_is_the_same_in_both_units(
    name: str, grid: Grid, band: tuple[float, float], is_complex: bool, allowed: float
) -> None:
    prior = prior_for(grid, band)
    theta, values = component(prior, grid, name)
    record = record_of(observation(values if is_complex else values.real, grid).long, prior, UNITS)
    assert record is not None
    (one,) = (m for m in record.maps if m.member.name == name)
    xi, c = one.to_network(*(np.asarray(v) for v in one.member.split(theta[None], grid.mid_time)))
    xi, c = xi, c[..., 0] if c.ndim > 1 else c
    wide = torch.ones(1, UNITS.shapes, dtype=torch.float64)
    wide[:, UNITS.own[one.kind][: len(one.member.shape)]] = torch.from_numpy(xi)
    kind = torch.tensor([one.kind])
    b = UNITS.fine.basis(UNITS.xi(UNITS.raw(wide).float(), kind), kind)[0].numpy()
    left = record.x - complex(c.ravel()[0]) * b
    assert (np.abs(left) ** 2).sum() < allowed * (np.abs(record.x) ** 2).sum()
    assert xi[0, 1:] == pytest.approx(SHAPES[name])
    back, c_back = one.to_user(xi, c)
    assert one.member.join(back, c_back.reshape(1, 1), grid.mid_time)[0] == pytest.approx(theta)


def test_what_the_network_is_told() -> None:
    grid = Grid(1024, 0.5)
    classes = {"decay": Damped(rate=(4.0 / 512, 8.0 / 512)), "tone": Tone()}
    prior = prior_for(grid, (10.0, 50.0), classes=classes)
    record = record_of(observation(np.ones(1024) + 0j, grid).long, prior, UNITS)
    assert record is not None
    bounds, whole = bounds_of(record, prior, UNITS, MODEL.parts.outer, (5.0, 40.0))
    assert whole and isinstance(bounds, Bounds)
    assert bounds.allowed.tolist() == [[True, False, True]]
    rate = UNITS.names.index("rate")
    assert bounds.high[0, 0] == pytest.approx(20.0)
    assert bounds.low[0, rate].exp() == pytest.approx(4.0)
    assert bounds.high[0, rate].exp() == pytest.approx(8.0)


def answered(k: int = 1) -> tuple[ClassPosterior, FamilySlots]:
    grid = Grid(512, 1.0)
    prior = prior_for(grid, (-50.0, 50.0))
    rng = np.random.default_rng(0)
    values = sum(component(prior, grid, name)[1] for name in list(SHAPES)[:k])
    noise = rng.normal(size=512) + 1j * rng.normal(size=512)
    post = MODEL.infer(observation(values + noise, grid), prior=prior, method="network")
    assert isinstance(post, ClassPosterior) and isinstance(post.slots, FamilySlots)
    return post, post.slots


def test_draws_and_counts_agree() -> None:
    post, slots = answered()
    tables, probs = post.count_table
    assert probs.sum() == pytest.approx(1.0)
    assert np.bincount(tables.sum(1), probs) == pytest.approx(post.k_probs)
    k = 2
    theta = post.sample(400, k=k, seed=1)
    assert theta.shape == (400, k, post.waveform.size) and np.isfinite(theta).all()
    kinds = post.waveform.class_of(theta).astype(int)
    numbers = np.stack([(kinds == i).sum(1) for i in range(3)], 1)
    given = slots.given_k(k)
    for row in np.flatnonzero(given > 0.02):
        share = (numbers == tables[row]).all(1).mean()
        error = math.sqrt(given[row] * (1 - given[row]) / 400)
        assert abs(share - given[row]) < 4.5 * error
    assert np.array_equal(post.sample(400, k=k, seed=1), theta)


def test_the_density_is_that_of_the_draws() -> None:
    """Densities of coordinates and of the user's parameters differ by the derivatives of one by the other."""
    _, slots = answered()
    kinds = slots.signal.choices(1).kinds[0]
    finished, one = slots.signal.slots(kinds), slots._map(int(kinds[0]))
    size, step = UNITS.sizes[one.kind], 1e-3
    z = torch.full((1, size), 0.3, dtype=torch.float64)
    moved = torch.cat(
        [
            z,
            *(
                z + sign * step * torch.eye(size).double()[i]
                for i in range(size)
                for sign in (1, -1)
            ),
        ]
    )
    with torch.inference_mode():
        theta = slots._theta(finished, 0, one, moved)
        flow = MODEL.parts.flow(one.kind)
        log_z = float(flow.log_prob(flow.project(finished.y[0, :1]), z.float()))
    slopes = (theta[1::2] - theta[2::2]) / (2 * step)
    log_theta = log_z - np.linalg.slogdet(slopes)[1]
    raw = slots._log_prob(kinds, 0, theta[:1])[0]
    drawn = slots._z(finished, 0, 1024, torch.Generator().manual_seed(0))
    mass = slots._inside(one, slots._theta(finished, 0, one, drawn)).mean()
    if np.isfinite(raw):
        assert raw == pytest.approx(log_theta - math.log(mass), abs=0.02)


def test_the_density_knows_no_order() -> None:
    post, slots = answered(2)
    theta = post.sample(20, k=2, seed=3)
    first = slots.joint_log_prob(theta)
    assert np.isfinite(first).all()
    assert slots.joint_log_prob(theta[:, ::-1]) == pytest.approx(first, abs=1e-3)
    assert slots.joint_log_prob(np.zeros((1, 0, post.waveform.size))) == pytest.approx([0.0])


def test_the_exact_step_begins_where_the_network_ends() -> None:
    grid = Grid(512, 1.0)
    prior = prior_for(grid, (-50.0, 50.0), k_max=2)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=512) + 1j * rng.normal(size=512)
    obs = observation(component(prior, grid, "chirp")[1] + noise, grid)
    post = MODEL.infer(obs, prior=prior, draws=300, max_seconds=60.0)
    assert post.proposed_by == "family and classical"
    assert post.k_map == 1 and post.summary(n=200)["class"][1] == "chirp"


@pytest.mark.parametrize(
    ("changes", "band", "words"),
    [
        ({}, (-70.0, 70.0), "bounds"),
        ({"k_max": 9}, (-50.0, 50.0), "up to 6"),
        (
            {"classes": {"a": Chirp(drift=(-1e-4, 0)), "b": Chirp(drift=(0, 1e-4))}},
            (-50.0, 50.0),
            "one of each",
        ),
    ],
)
def test_what_it_cannot_answer_alone_is_said(
    changes: dict[str, Any], band: tuple[float, float], words: str
) -> None:
    grid = Grid(512, 1.0)
    obs = observation(np.random.default_rng(2).normal(size=512) + 0j, grid)
    with pytest.raises(ValueError, match=words):
        MODEL.infer(obs, prior=prior_for(grid, band, **changes), method="network")


def test_tones_and_other_precisions_are_refused() -> None:
    grid = Grid(512, 1.0)
    obs = observation(np.random.default_rng(2).normal(size=512), grid)
    with pytest.raises(ValueError, match="zoom"):
        MODEL.infer(obs, prior=Prior(frequency=(0.1, 0.2), k_max=3), method="network")
    with pytest.raises(ValueError, match="float32"):
        MODEL.infer(obs, prior=prior_for(grid, (100.0, 150.0)), dtype=torch.float64)


def test_many_observations_go_through_the_network_together() -> None:
    rng = np.random.default_rng(0)
    grids = [Grid(512, 1.0), Grid(512, 1.0), Grid(700, 0.5)]
    priors = [prior_for(grid, (-60, 60), sigma=(0.0, 5.0)) for grid in grids]
    observations = []
    for grid, prior, name in zip(grids, priors, SHAPES, strict=True):
        noise = rng.normal(size=(2, grid.n)) * math.sqrt(0.5)
        series = component(prior, grid, name)[1] + noise[0] + 1j * noise[1]
        observations.append(Observation([Channel(series, dt=grid.dt, trend=-1)]))
    together = MODEL.answers(observations, priors)
    for post, observation, prior in zip(together, observations, priors, strict=True):
        alone = MODEL.answer(observation, prior)
        # Slots of an untrained network lie upon each other, and rounding decides where their fit ends.
        np.testing.assert_allclose(post.k_probs, alone.k_probs, atol=0.02)
        np.testing.assert_allclose(post.noise_std, alone.noise_std, rtol=1e-4)
        k = int(alone.k_map)
        assert post.sample(5, k, seed=1).shape == alone.sample(5, k, seed=1).shape
    same = MODEL.infer(observations[:2], prior=priors[0], method="network")
    np.testing.assert_allclose(same[1].k_probs, together[1].k_probs, atol=0.02)
    assert abs(same[0].k_probs - together[1].k_probs).max() > 0.05  # negative control
