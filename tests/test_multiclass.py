"""The network of several classes: targets, posteriors, files, training and what it refuses."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from multiclass_helpers import CLASSES, LONG, SHORT, make_batch, make_model, small_config
from training_helpers import metrics, tiny
from typer.testing import CliRunner

from slotflow import Config, Observation, Posterior, Prior, SlotFlow
from slotflow.cli import app
from slotflow.network.multiclass.model import MulticlassSlotFlow
from slotflow.network.multiclass.posterior import ClassPosterior
from slotflow.train.loop import train
from slotflow.waveforms import Chirp, Damped, Harmonic, Tone


@pytest.fixture(scope="module")
def answer() -> ClassPosterior:
    """An answer of an untrained network, whose slots and classes differ."""
    model = make_model(11)
    found = model.infer(make_batch(model, 1, 11).observation(0))
    assert isinstance(found, ClassPosterior)
    return found


# ---------------------------------------------------------------- targets


def test_each_class_has_its_own_dimension(seed: int) -> None:
    model = make_model(seed)
    assert [target.dim for target in model.targets] == [4, 5, 5]
    assert [model.flow_of(name).dim for name in model.classes] == [4, 5, 5]


def test_coordinates_there_and_back(seed: int) -> None:
    model = make_model(seed)
    _, theta = make_batch(model, 300, seed).by_class()
    for target, own in zip(model.targets, theta, strict=True):
        y = target.encode(own)
        torch.testing.assert_close(target.decode(y), own, rtol=1e-10, atol=1e-10)
        for name, axis in target.axes.items():
            if name != target.waveform.place:  # which the config weights
                size = axis.encode(target.waveform.of(own, name)).abs().amax()
                assert 0.8 < size < 1.05, name  # energies vary a little with frequency and phase


def test_slopes_of_the_axes_are_derivatives(seed: int) -> None:
    model = make_model(seed)
    _, theta = make_batch(model, 40, seed).by_class()
    for target, own in zip(model.targets, theta, strict=True):
        jacobian = torch.func.vmap(torch.func.jacrev(target.encode))(own)  # (n, d, P)
        rows = [i for i in range(target.dim) if i not in (target.circle, target.circle + 1)]
        columns = [i for i, p in enumerate(target.waveform.parameters) if not p.circular]
        expected = torch.linalg.det(jacobian[:, rows][:, :, columns]).log()
        torch.testing.assert_close(target.log_slopes(own), expected)


# ---------------------------------------------------------------- the answer


def test_counts_of_an_answer_are_one_distribution(answer: ClassPosterior) -> None:
    tables, probs = answer.count_table
    assert probs.sum() == pytest.approx(1) and answer.k_probs.sum() == pytest.approx(1)
    mean = sum(answer.count_probs(name) @ np.arange(4) for name in answer.classes)
    assert mean == pytest.approx(answer.k_probs @ np.arange(4))
    top = answer.how_many(3)
    assert top[0][0] == answer.most_probable and top[0][1] == probs.max()
    assert [p for _, p in top] == sorted((p for _, p in top), reverse=True)
    assert len(answer.how_many(1000)) == len(tables)
    assert "chirp" in repr(answer)


def test_draws_follow_the_counts(answer: ClassPosterior, seed: int) -> None:
    n = 4000
    draws = answer.sample_classes(n, seed)
    for i, name in enumerate(answer.classes):
        p = answer.count_probs(name)
        share = np.bincount(draws.counts[:, i], minlength=len(p)) / n
        assert np.all(np.abs(share - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-9)
        theta, waveform = draws.theta[name], answer.mixed.waveform.members[name]
        assert theta.shape[0] == n and theta.shape[2] == waveform.size
        present = np.isfinite(theta).all(-1)
        np.testing.assert_array_equal(present.sum(1), draws.counts[:, i])
        assert np.isnan(theta[~present]).all()
        place = waveform.place_of(theta)[present]
        assert place.min() >= 2.0 and place.max() <= 3.0
        for parameter, law in waveform.ranges.items():
            values = waveform.of(theta, parameter)[present]
            assert values.min() >= law.low and values.max() <= law.high


def test_draws_given_the_counts(answer: ClassPosterior, seed: int) -> None:
    counts = {"tone": 1, "damped": 2}
    draws = answer.sample_classes(50, seed, counts)
    sizes = {name: theta.shape[1] for name, theta in draws.theta.items()}
    assert sizes == {"tone": 1, "chirp": 0, "damped": 2}
    assert all(np.isfinite(theta).all() for theta in draws.theta.values())
    again = answer.sample_classes(50, seed, counts)
    np.testing.assert_array_equal(draws.theta["damped"], again.theta["damped"])


def test_draws_of_all_classes_in_one_table(answer: ClassPosterior, seed: int) -> None:
    """Given K, classes come as often as q(n | K, x) says, and each component has the columns of its class alone."""
    n, k = 3000, 2
    theta, waveform = answer.sample(n, k, seed), answer.mixed.waveform
    kind = waveform.class_of(theta)
    tables, p = answer.mixed.tables, answer.mixed.given_k(k)
    for i, name in enumerate(answer.classes):
        expected, spread = p @ tables[:, i], math.sqrt(p @ tables[:, i] ** 2)
        assert (kind == i).sum(1).mean() == pytest.approx(expected, abs=5 * spread / math.sqrt(n))
        for parameter in ("drift", "rate"):
            own = parameter in waveform.members[name].ranges
            values = waveform.of(theta, parameter)[kind == i]
            assert (values != 0).all() if own else (values == 0).all()


@pytest.mark.parametrize("name", ["tone", "chirp", "damped"])
def test_density_of_one_component_is_normalized(answer: ClassPosterior, name: str) -> None:
    """E[u/q] over draws from q is 1 for a density u inside its support: the prior's, A in the middle of its range."""
    draws = answer.sample_classes(800, 5, {name: 1}).theta[name]
    waveform, index = answer.mixed.waveform.members[name], answer.classes.index(name)
    row = answer.mixed.waveform.own_theta(index, draws)
    total = answer.log_prob(row)
    log_q = total - math.log(answer.mixed.probs[answer._row({name: 1})])
    amplitude = waveform.of(draws, "amplitude")[:, 0]
    low, high = np.quantile(amplitude, [0.2, 0.8])
    log_u = -np.log(amplitude * math.log(high / low) * 2 * math.pi)  # the band is 1 Hz wide
    for parameter, law in waveform.ranges.items():
        log_u += law.log_prob(waveform.of(draws, parameter))[:, 0]
    inside = (amplitude >= low) & (amplitude <= high)
    ratio = np.where(inside, np.exp(log_u - log_q), 0.0)
    error = ratio.std() / math.sqrt(len(ratio))
    assert error < 0.1 and abs(ratio.mean() - 1) < 5 * error


def test_density_of_several_components_by_hand(answer: ClassPosterior, seed: int) -> None:
    """Two tones and a chirp, in any order: q(n) / 3! times the two ways to give tones to slots."""
    draws = answer.sample_classes(1, seed, {"tone": 2, "chirp": 1}).theta
    slots, waveform = answer.mixed.classes, answer.mixed.waveform
    tones, chirp = slots["tone"].log_prob(draws["tone"])[0], slots["chirp"].log_prob(draws["chirp"])
    ways = np.logaddexp(tones[0, 0] + tones[1, 1], tones[0, 1] + tones[1, 0])
    row = answer._row({"tone": 2, "chirp": 1})
    expected = math.log(answer.mixed.probs[row] / 6) + ways + chirp[0, 0, 0]
    parts = [waveform.own_theta(0, draws["tone"][0]), waveform.own_theta(1, draws["chirp"][0])]
    theta = np.concatenate(parts)
    for order in itertools.permutations(range(3)):
        assert answer.log_prob(theta[list(order)]) == pytest.approx(expected, abs=1e-9)


def test_what_a_posterior_can_do(answer: ClassPosterior, tmp_path: Path) -> None:
    assert 0 <= answer.constrained_fraction(2) < 1
    assert answer.verdict.status == "approximate"
    assert {"class", "drift", "rate"} <= set(answer.to_dataframe(20).columns)
    answer.save(tmp_path / "answer.nc", n=50)
    loaded = Posterior.load(tmp_path / "answer.nc")
    assert loaded.waveform.text == answer.waveform.text
    np.testing.assert_allclose(loaded.k_probs, answer.k_probs)


# ---------------------------------------------------------------- the network


def test_alone_as_in_a_batch(seed: int) -> None:
    model = make_model(seed)
    batch = make_batch(model, 5, seed)
    signals = [batch.observation(i) for i in range(5)]
    together = model.infer(signals)
    for one, post in zip(signals, together, strict=True):
        alone = model.infer(one)
        assert isinstance(alone, ClassPosterior) and isinstance(post, ClassPosterior)
        np.testing.assert_allclose(alone.mixed.probs, post.mixed.probs, atol=1e-12)
    assert len({float(p.k_probs[0]) for p in together}) == 5


def test_another_prior_over_k(seed: int) -> None:
    model = make_model(seed)
    obs = make_batch(model, 1, seed).observation(0)
    post, other = model.infer(obs), model.infer(obs, k_prior={1: 0.5, 2: 0.5})
    assert other.k_probs[[0, 3]].sum() == 0 and other.prior.k_max == 2
    ratio = other.k_probs[1] / other.k_probs[2]
    assert ratio == pytest.approx(post.k_probs[1] / post.k_probs[2])


def test_files(tmp_path: Path, seed: int) -> None:
    model = make_model(seed, dtype=torch.float32)
    model.save(tmp_path / "model.safetensors")
    loaded = SlotFlow.from_pretrained(tmp_path / "model.safetensors")
    assert isinstance(loaded, MulticlassSlotFlow) and loaded.config == model.config
    obs = make_batch(model, 1, seed).observation(0)
    np.testing.assert_array_equal(loaded.infer(obs).k_probs, model.infer(obs).k_probs)


# ---------------------------------------------------------------- training


def test_the_preset_trains_and_answers(tmp_path: Path) -> None:
    config = tiny(Config.from_preset("multiclass"))
    path = train(config, tmp_path / "run", device="cpu", quiet=True)
    last = metrics(tmp_path / "run", "val")[-1]
    assert {"ce", "classes", "flow", "k_accuracy", "counts_accuracy"} <= last.keys()
    model = SlotFlow.from_pretrained(path.parent)
    signal = np.cos(0.4 * np.arange(config.model.long.n))
    obs = Observation.from_arrays(
        signal, config.model.long.dt, signal[: config.model.short.n], config.model.short.dt
    )
    post = model.infer(obs)
    assert isinstance(post, ClassPosterior) and post.classes == ("tone", "chirp", "damped")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": (0.0, 1.0)}, "sigma above 0"),
        ({"classes": {"chirp": Chirp(drift=(-10.0, 10.0))}}, "Nyquist"),
        ({"classes": {"damped": Damped(rate=(0.1, 50.0)), "tone": Tone()}}, "Nyquist"),
    ],
)
def test_classes_that_do_not_fit_are_refused(change: dict[str, object], message: str) -> None:
    fields = {"k_min": 0, "k_max": 3, "frequency": (2.0, 3.0), "sigma": (1.0, 1.0)}
    fields |= {"classes": CLASSES, **change}
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(small_config(), prior=Prior(**fields))


def test_other_refusals(answer: ClassPosterior, seed: int) -> None:
    with pytest.raises(ValueError, match="tones, or of several classes"):
        dataclasses.replace(small_config(), prior=Prior(waveform=Harmonic(2), frequency=(2.0, 2.2)))
    model = make_model(seed)
    obs = make_batch(model, 1, seed).observation(0)
    with pytest.raises(ValueError, match="network's answer alone"):
        model.infer(obs, method="exact")
    with pytest.raises(ValueError, match="prior of its training only"):
        model.infer(obs, prior=Prior())
    with pytest.raises(ValueError, match="expects 64 samples"):
        model.infer(Observation.from_arrays(np.zeros(50), LONG.dt, np.zeros(SHORT.n), SHORT.dt))
    with pytest.raises(ValueError, match="short stream"):
        model.infer(Observation.from_arrays(np.ones(64), LONG.dt))
    with pytest.raises(ValueError, match=r"expected a class of .*received 'bell'"):
        answer.count_probs("bell")
    with pytest.raises(ValueError, match=r"sum to 0\.\.3"):
        answer.sample_classes(3, counts={"tone": 4})
    with pytest.raises(ValueError, match="n >= 1"):
        answer.sample_classes(0)
    with pytest.raises(ValueError, match="no exact step begins from"):
        answer.refine()


def test_the_command_line_says_what_it_cannot(tmp_path: Path) -> None:
    model, data = tmp_path / "model.safetensors", tmp_path / "x.csv"
    make_model(1, dtype=torch.float32).save(model)
    np.savetxt(data, np.c_[LONG.times, np.cos(LONG.times)], delimiter=",")
    found = CliRunner().invoke(app, ["infer", str(data), "--model", str(model)])
    assert found.exit_code == 2
    for words in ("infer(observation)", "--classes", "chirp(drift="):
        assert words in found.output
