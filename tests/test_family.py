"""The exact posterior of other waveforms and of several classes: derivatives, densities, evidence, whole answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Observation, Posterior, Prior, SlotFlow
from slotflow.exact.family.layout import Layout
from slotflow.exact.family.newcomers import Newcomer, Response
from slotflow.exact.family.pencil import poles, series
from slotflow.exact.family.posterior import family_posterior
from slotflow.exact.family.proposals import Births
from slotflow.exact.family.sample import sample_layouts
from slotflow.exact.family.search import Mode, Search
from slotflow.exact.family.straight import Straight
from slotflow.signal.likelihood import likelihood_of
from slotflow.signal.likelihood.compressed import compressed
from slotflow.signal.noise.choice import choose_noise
from slotflow.signal.simulation_like import simulate_like
from slotflow.signal.waveforms import Classes, Waveform
from slotflow.waveforms import Chirp, Damped, Harmonic, Tone

N, DT, BAND = 240, 0.5, (0.3, 0.55)
T = N * DT
CHIRP, DAMPED = Chirp((-1e-3, 1e-3)), Damped((0.02, 0.2), law="loguniform")
MEMBERS: dict[str, Waveform] = {"tone": Tone(), "chirp": CHIRP, "damped": DAMPED}


def prior_of(waveform: Waveform, **changes: Any) -> Prior:
    stated: dict[str, Any] = {
        "frequency": BAND,
        "min_separation": 0.0,
        "sigma": (1.0, 1.0),
        "k_min": 0,
        "k_max": 3,
        "amplitude": (0.5, 3.0),
        "waveform": waveform,
    }
    return Prior(**(stated | changes))


def template(kind: type = np.float64) -> Observation:
    return Observation([Channel(np.zeros(N, dtype=kind), dt=DT, t0=4.0, trend=-1)])


def searched(observation: Observation, prior: Prior, run: bool = True) -> Search:
    long = observation.long
    waveform = prior.waveform.on(float(long.times[0]), long.mid_time)
    every = waveform.occupied(prior.frequency, long.duration)
    hull = (min(low for low, _ in every), max(high for _, high in every))
    likelihood = likelihood_of(observation, None, hull)
    nodes = compressed(likelihood, observation, waveform, prior.frequency)
    search = Search(nodes, prior, waveform, likelihood.reference, long.duration)
    if run:
        search.run()
    return search


def row(seed: int) -> tuple[Layout, Any]:
    """Two damped tones, a chirp and a tone, each class sorted."""
    layout = Layout(Classes(**MEMBERS).on(4.0, 60.0), 60.0, (1, 1, 2))
    rng = np.random.default_rng(seed)
    z = 0.5 + rng.random(layout.size)
    for column, member, d in layout.shape_columns():
        law = member.ranges.get(member.shape[d])
        z[column] = BAND[0] + 0.2 * rng.random() if law is None else law.draw(rng.random())
    return layout, layout.row(layout.parts(z))


def test_derivatives_of_the_model(seed: int) -> None:
    layout, z = row(seed)
    t, weights = np.linspace(-60.0, 60.0, 80), np.random.default_rng(seed).standard_normal(80)
    slopes, bends = layout.slopes(z, t), layout.bends(z, t, weights.astype(np.complex128))
    scale = 1e-6 * np.maximum(np.abs(z), 1e-3)
    for i in range(layout.size):
        step = np.zeros(layout.size)
        step[i] = scale[i]
        numeric = (layout.model((z + step)[None], t) - layout.model((z - step)[None], t))[0]
        numeric = numeric / (2 * scale[i])
        size = np.abs(slopes[i]).max()
        np.testing.assert_allclose(slopes[i], numeric, atol=1e-4 * size)
        change = (layout.slopes(z + step, t) - layout.slopes(z - step, t)) / (2 * scale[i])
        expected = (change @ weights).real
        assert np.abs(bends[i] - expected).max() < 1e-3 * (np.abs(expected).max() + 1)


def test_straight_coordinates(seed: int) -> None:
    """There and back again; the determinant is that of differences."""
    layout, z = row(seed)
    straight = Straight(layout, z, T)
    rng = np.random.default_rng(seed)
    other = z * (1 + 0.02 * rng.standard_normal(layout.size))
    u, log_det = straight.to(other[None])
    np.testing.assert_allclose(straight.back(u)[0], other, rtol=1e-9)
    steps = 1e-6 * np.maximum(np.abs(other), 1e-3)
    jacobian = np.stack(
        [
            (straight.to((other + e)[None])[0] - straight.to((other - e)[None])[0])[0] / (2 * h)
            for h, e in zip(steps, np.diag(steps), strict=True)
        ],
        -1,
    )
    assert abs(np.linalg.slogdet(jacobian)[1] - log_det[0]) < 1e-5
    at_centre = np.stack(
        [
            (straight.to((z + e)[None])[0] - straight.to((z - e)[None])[0])[0] / (2 * h)
            for h, e in zip(steps, np.diag(steps), strict=True)
        ],
        -1,
    )
    back, _ = straight.slopes()
    np.testing.assert_allclose(back @ at_centre, np.eye(layout.size), atol=2e-3)


@pytest.mark.parametrize("new", [1, 2])
def test_births_are_normalized(new: int, seed: int) -> None:
    """The mean of p/q over draws of q is one for a density p inside its reach."""
    prior = prior_of(CHIRP)
    observation = simulate_like(template(), prior, k=0, seed=seed)[0].observation
    search, rng = searched(observation, prior), np.random.default_rng(seed)
    others = search.found[(0,)][0]
    response = Response(others, search.nodes[0], 20.0)  # of noise that hides everything
    law = Newcomer(search.banks[0], response, prior, rng)
    births, n = Births(others, [(0, law)] * new), 20_000
    z = births.sample(n, rng)
    parts = z.reshape(n, new, 4)
    assert (np.diff(parts[..., 0], axis=1) > 0).all()
    size = np.hypot(parts[..., 2], parts[..., 3])
    inside = ((size > 0.6) & (size < 1.5)).all(1)
    volume = (BAND[1] - BAND[0]) * 2e-3 * math.pi * (1.5**2 - 0.6**2)
    density = math.factorial(new) / volume**new
    ratio = np.where(inside, density * np.exp(-births.log_prob(z)), 0.0)
    error = float(ratio.std()) / math.sqrt(n)
    assert error < 0.1 and abs(float(ratio.mean()) - 1) < 5 * error


def beside_a_decay(rng: np.random.Generator) -> tuple[Search, Mode, Newcomer]:
    """The maximum of a strong decaying line, and the law of a second one beside it."""
    prior, t = prior_of(DAMPED, amplitude=(0.2, 6.0)), template().long.times
    x = 5.0 * np.exp(-0.05 * (t - 4.0)) * np.cos(2 * np.pi * 0.42 * t) + rng.standard_normal(N)
    search = searched(Observation([Channel(x, dt=DT, t0=4.0, trend=-1)]), prior)
    mode = search.found[(1,)][0]
    response = Response(mode, search.nodes[0], 1.0)
    return search, mode, Newcomer(search.banks[0], response, prior, rng)


def test_others_give_way_to_a_newcomer(seed: int) -> None:
    """Beside a decaying line, a second one near it: draws that give way explain the data, others do not."""
    search, mode, law = beside_a_decay(np.random.default_rng(seed))
    near = np.array([[0.421, 0.06, 1.5, 0.5]])
    _, moved = law.density(near)
    rows = [np.concatenate([mode.around.straight.back(mode.around.mean + d)[0], near[0]])
            for d in (moved, np.zeros_like(moved))]  # fmt: skip
    rss = search.target((2,)).rss(np.stack(rows))
    assert rss[0] - mode.fit.rss < 10 < 20 < rss[1] - mode.fit.rss


def test_births_have_a_density_wherever_they_draw(seed: int) -> None:
    """A newcomer takes nearly all that a line has: the line may then be hundreds of its errors away."""
    _, mode, law = beside_a_decay(np.random.default_rng(seed))
    births, error = Births(mode, [(0, law)]), math.sqrt(mode.around.covariance[0, 0])
    u = mode.around.mean.copy()
    u[0] += 2 * error
    u[2:] *= 0.003
    line, new = mode.around.straight.back(u[None]), mode.fit.z[None] * [1.0, 1.0, 0.99, 0.99]
    assert line[0, 0] - mode.fit.z[0] > 300 * error
    density, moved = law.density(new)
    expected = density + births.others.log_prob(line, moved)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(births.log_prob(np.concatenate([new, line], 1)), expected)


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
@pytest.mark.parametrize("waveform", [CHIRP, DAMPED], ids=lambda w: w.name)
def test_evidence_against_a_sum_over_everything(waveform: Waveform, kind: type, seed: int) -> None:
    """ln Z of one clear component, by a sum of the likelihood that is written out over a grid around its maximum."""
    prior = prior_of(waveform, amplitude=(0.5, 4.0))
    here, t = waveform.on(4.0, template().long.mid_time), template().long.times
    tau = template().long.mid_time
    theta = np.array([[2.2, 1.0, 0.41, 2e-4 if waveform is CHIRP else 0.05]])
    xi, c = here.split(theta, tau)
    rng = np.random.default_rng(seed)
    x = (c[..., None] * here.basis(t - tau, xi)).sum((0, 1)) + rng.standard_normal(N)
    x = x + 1j * rng.standard_normal(N) if kind is np.complex128 else x.real
    search = searched(Observation([Channel(x, dt=DT, t0=4.0, trend=-1)]), prior)
    found = sample_layouts(search, rng, 4000, 60).results[(1,)]
    assert found.ess > 0.4 and found.pareto_k < 0.7
    z, weights = here.to_z(found.theta, tau)[:, 0], np.exp(found.log_weights)
    mean, root = weights @ z, np.linalg.cholesky(np.cov(z.T, aweights=weights))
    axis = np.linspace(-6.5, 6.5, 16)
    grid = np.stack(np.meshgrid(*[axis] * 4, indexing="ij"), -1).reshape(-1, 4)
    grid = mean + grid[(grid**2).sum(-1) < 7.0**2] @ root.T
    log_p = _written_out(here, prior, x, t - tau, grid)
    cell = 4 * math.log(axis[1] - axis[0]) + float(np.log(np.diag(root)).sum())
    expected = np.logaddexp.reduce(log_p) + cell
    # The grid's own error, beside that of the draws, is far below a hundredth.
    assert abs(found.log_evidence - expected) < 5 * found.log_evidence_error + 0.01
    assert abs(found.log_evidence - expected + math.log(2)) > 0.5  # the control


def _written_out(waveform: Waveform, prior: Prior, x: Any, t: Any, z: Any) -> Any:
    """Log of prior times likelihood of one component, σ = 1, at coordinates (n, 4); (n,)."""
    xi, c = z[:, :2], z[:, 2] + 1j * z[:, 3]
    log_p = np.zeros(len(z))
    for first in range(0, len(z), 4096):
        part = slice(first, first + 4096)
        model = c[part, None] * waveform.basis(t, xi[part, None])[:, 0, 0]
        left = np.abs(x - (model if np.iscomplexobj(x) else model.real)) ** 2
        log_p[part] = -0.5 * left.sum(-1)
    log_p -= 0.5 * len(x) * (2 if np.iscomplexobj(x) else 1) * math.log(2 * math.pi)
    low, high = prior.amplitude
    log_p += waveform.ranges[waveform.shape[1]].log_prob(xi[:, 1]) - math.log(BAND[1] - BAND[0])
    return log_p - np.log(2 * math.pi * (high - low) * np.abs(c))


TRUTH = {
    "tone": [1.0, 0.4, 0.33],
    "chirp": [1.2, 2.0, 0.41, 6e-4],
    "damped": [2.5, 5.0, 0.5, 0.04],
}


@pytest.fixture(scope="module")
def mixed() -> tuple[Observation, Any]:
    """One component of each class, clear and apart."""
    classes = Classes(**MEMBERS)
    theta = np.concatenate(
        [classes.own_theta(i, np.array([values])) for i, values in enumerate(TRUTH.values())]
    )
    observation = template()
    waveform = classes.on(float(observation.long.times[0]), observation.long.mid_time)
    tau = observation.long.mid_time
    xi, c = waveform.split(theta, tau)
    clean = (c[..., None] * waveform.basis(observation.long.times - tau, xi)).real.sum((0, 1))
    noise = 0.5 * np.random.default_rng(5).standard_normal(N)
    return Observation([Channel(clean + noise, dt=DT, t0=4.0)]), theta


def test_one_of_each_kind(zoom: SlotFlow, mixed: tuple[Observation, Any], tmp_path: Path) -> None:
    observation, theta = mixed
    prior = Prior(
        classes=MEMBERS, frequency=BAND, amplitude=(0.2, 5.0), sigma=(0.0, 2.0), k_min=0, k_max=4,
        min_separation=0.0,
    )  # fmt: skip
    post: Any = zoom.infer(observation, prior=prior, max_seconds=60)
    assert post.k_map == 3 and post.verdict.status == "exact"
    assert next(iter(post.counts_probs())) == (1, 1, 1)
    assert abs(sum(post.counts_probs().values()) - 1) < 1e-9
    frame = post.summary(phase_at="zero")
    assert frame["class"].tolist() == ["tone", "chirp", "damped"]
    assert (frame["class_probability"] > 0.9).all()
    assert frame["drift_median"].isna().tolist() == [True, False, True]
    np.testing.assert_allclose(post.class_probs.sum(1), 1.0)
    for column, name in enumerate(post.waveform.names[:-1]):
        away = np.abs(frame[f"{name}_median"] - theta[:, column]) / frame[f"{name}_sd"]
        assert not (away > 5).any(), name  # NaN where a class lacks it
    rest = post.residual()[0]
    assert abs(rest.std() / post.noise_std - 1) < 0.1
    post.save(tmp_path / "a.nc", n=500)
    read = Posterior.load(tmp_path / "a.nc")
    assert read.waveform == post.waveform and read.prior == prior
    assert read.summary()["class"].tolist() == frame["class"].tolist()
    assert abs(read.residual()[0].std() / rest.std() - 1) < 0.05
    catalogue = post.to_catalogue(n=300)
    assert {"class", "class_probability", "rate_median"} <= set(catalogue.columns)


def test_tones_that_drift_are_chirps(zoom: SlotFlow, seed: int) -> None:
    """A tone of a drift of two bins is one chirp, not several tones; one without drift is a tone."""
    t = DT * np.arange(N)
    noise = 0.5 * np.random.default_rng(seed).standard_normal((2, N))
    prior = Prior(
        classes={"tone": Tone(), "chirp": CHIRP}, frequency=BAND, amplitude=(0.2, 5.0), sigma=(0.0, 2.0),
        k_min=0, k_max=4, min_separation=0.0,
    )  # fmt: skip
    for drift, counts, part in ((2 / T**2, (0, 1), noise[0]), (0.0, (1, 0), noise[1])):
        phase = 2 * math.pi * (0.41 * t + 0.5 * drift * (t - t.mean()) ** 2)
        post: Any = zoom.infer(
            Observation([Channel(1.5 * np.cos(phase) + part, dt=DT)]), prior=prior, max_seconds=60
        )
        assert next(iter(post.counts_probs())) == counts


def test_harmonics(zoom: SlotFlow, seed: int) -> None:
    """A fundamental with two harmonics, from what the data show alone but for the band."""
    prior = prior_of(Harmonic(3), frequency=(0.2, 0.3), sigma=(0.5, 0.5), amplitude=(0.3, 2.0))
    made = simulate_like(template(), prior, k=1, seed=seed)[0]
    post = zoom.infer(
        made.observation, prior={"frequency": (0.2, 0.3), "waveform": Harmonic(3)}, max_seconds=60
    )
    frame = post.summary(phase_at="zero")
    assert post.k_map == 1 and post.verdict.status == "exact"
    for column, name in enumerate(post.waveform.names):
        away = frame[f"{name}_median"][1] - made.theta[0, column]
        if "phase" in name:
            away = np.remainder(away + math.pi, 2 * math.pi) - math.pi
        assert abs(away) < 5 * frame[f"{name}_sd"][1]


def test_refusals(zoom: SlotFlow, mixed: tuple[Observation, Any]) -> None:
    observation, _ = mixed
    with pytest.raises(ValueError, match="'classical' knows only tones"):
        zoom.infer(observation, prior=prior_of(CHIRP), method="classical")
    with pytest.raises(ValueError, match="stay between 0 and 1 Hz"):
        zoom.infer(observation, prior=prior_of(Chirp((-0.1, 0.1))))
    post = zoom.infer(observation, prior=prior_of(CHIRP), max_seconds=1)
    with pytest.raises(ValueError, match="expected components of several classes"):
        _ = post.class_probs


def test_components_that_do_not_show(seed: int) -> None:
    """One and two further components that the data cannot show are drawn well."""
    wide = Damped((0.02, 0.5), law="loguniform")
    prior = prior_of(wide, amplitude=(0.05, 5.0), amplitude_law="loguniform")
    t, rng = template().long.times, np.random.default_rng(seed)
    x = 4.0 * np.exp(-0.05 * (t - 4.0)) * np.cos(2 * np.pi * 0.42 * t) + rng.standard_normal(N)
    search = searched(Observation([Channel(x, dt=DT, t0=4.0, trend=-1)]), prior)
    sampled = sample_layouts(search, rng, 2000, 60)
    assert sampled.k_probs[2] > 0.1 and sampled.k_probs[3] > 0.01
    for k, least in ((1, 0.6), (2, 0.3), (3, 0.1)):
        assert sampled.results[(k,)].ess > least, k
        assert sampled.results[(k,)].pareto_k < 0.7


def test_poles_of_decaying_tones(seed: int) -> None:
    """Two lines closer than their widths are found at once; noise alone gives other poles."""
    observation = template(np.complex128)
    rng, t = np.random.default_rng(seed), observation.long.times - 4.0
    noise = 0.05 * (rng.standard_normal(N) + 1j * rng.standard_normal(N))
    clean = np.exp((2j * np.pi * 0.40 - 0.05) * t) - np.exp((2j * np.pi * 0.41 - 0.05) * t)
    expected = np.array([[0.40, 0.05], [0.41, 0.05]])
    for x, near in ((clean + noise, True), (noise, False)):
        search = searched(
            Observation([Channel(x, dt=DT, t0=4.0, trend=-1)]), prior_of(DAMPED), run=False
        )
        data = search.nodes[0]
        found = poles(series(data), data.times, 0.425, 4)[1]
        found = found[np.argsort(found[:, 0])]
        assert (np.abs(found - expected).max() < 0.01) == near


def test_proposed_sets_are_fitted(seed: int) -> None:
    """A set of components from outside leads to the maximum of its classes."""
    prior = prior_of(Classes(**MEMBERS))
    made = simulate_like(template(), prior_of(CHIRP), k=1, seed=seed)[0]
    search = searched(made.observation, prior, run=False)
    start = made.theta[0, 2:] * np.array([1.0005, 1.02])
    search.propose([[], [(1, start)], [(1, start)] * 9])
    assert set(search.found) == {(0, 0, 0), (0, 1, 0)}
    found = search.found[0, 1, 0][0]
    assert found.log_evidence > search.found[0, 0, 0][0].log_evidence
    away = np.abs(found.fit.z[:2] - made.theta[0, 2:])
    assert (away < 0.3 * np.array(CHIRP.scales(T))).all()


def test_noise_of_an_unknown_shape(seed: int) -> None:
    """Under autoregressive noise: well drawn over all values of its shape, which the result tells."""
    rng = np.random.default_rng(seed)
    e, x = rng.standard_normal(N), np.zeros(N)
    for i in range(N):
        x[i] = e[i] + 0.6 * (x[i - 1] if i else 0.0)
    t = template().long.times
    x += 4.0 * np.exp(-0.03 * (t - 4.0)) * np.cos(2 * np.pi * 0.42 * t)
    observation = Observation([Channel(x, dt=DT, t0=4.0, trend=-1)])
    prior = prior_of(DAMPED, sigma=(0.0, 4.0), amplitude=(0.5, 8.0), k_max=2)
    post = family_posterior(observation, prior, choose_noise(observation, "ar(1)", BAND))
    assert post.k_map == 1 and post.analysed.sampled.results[(1,)].ess > 0.6
    assert post.noise is not None and post.noise.name == "ar(1)"
    (estimate,) = post.noise.shape.values()
    assert abs(estimate.mean - 0.6) < 4 * estimate.sd and estimate.sd < 0.15
    assert abs(post.noise.level.mean - 1) < 0.2


def test_rows_of_components(seed: int) -> None:
    """From coordinates to θ and back."""
    layout, z = row(seed)
    np.testing.assert_allclose(layout.of_theta(layout.theta(z[None])), z[None], rtol=1e-9)
