"""Components that the data cannot show: evidences come from the prior, and p(K | x) is that of the prior."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior
from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.analysed import searched
from slotflow.exact.family.judged import quality_of
from slotflow.exact.family.layout import Layout
from slotflow.exact.family.sample import Sampled, sample_layouts
from slotflow.exact.family.search import Search
from slotflow.exact.family.target import FamilyTarget
from slotflow.signal.waveforms.ranges import Range
from slotflow.waveforms import Chirp, Damped, Tone

N = 96
TONE, DAMPED = Tone(), Damped(rate=(1.5 / N, 30 / N))
CHIRP = Chirp(drift=(-30 / N**2, 30 / N**2))
MIXED = {"tone": TONE, "damped": DAMPED}
STATED: dict[str, dict[str, Any]] = {
    "tone": {"waveform": TONE},
    "damped": {"waveform": DAMPED},
    "chirp": {"waveform": CHIRP},
    "mixed": {"classes": MIXED},
}


def _prior(kind: str, k_max: int, amplitude: tuple[float, float]) -> Prior:
    return Prior(
        **STATED[kind],
        frequency=(0.1, 0.4),
        k_min=0,
        k_max=k_max,
        amplitude=amplitude,
        sigma=(0.5, 2.0),
        min_separation=0.0,
    )


def _noise(seed: int, strength: float = 0.0) -> Observation:
    """Complex white noise of the level 1, and a tone."""
    rng, t = np.random.default_rng(seed), np.arange(float(N))
    values = rng.standard_normal(N) + 1j * rng.standard_normal(N)
    return Observation([Channel(values + strength * np.exp(2j * np.pi * 0.23 * t), dt=1.0)])


def _sampled(observation: Observation, prior: Prior) -> tuple[Search, Sampled]:
    search = searched(observation, prior, max_seconds=30.0)
    return search, sample_layouts(search, np.random.default_rng(0), max_seconds=30.0)


def _errors(sampled: Sampled) -> Array:
    """Standard errors of p(K | x), (K_max + 1,), from those of the evidences of all layouts."""
    probs, k = sampled.counts_probs(), np.arange(len(sampled.k_probs))
    total = np.zeros(len(k))
    for counts, result in sampled.results.items():
        slope = probs[counts] * ((k == sum(counts)) - sampled.k_probs)
        total += (slope * result.log_evidence_error) ** 2
    return np.asarray(np.sqrt(total))


@pytest.mark.parametrize(
    ("kind", "k_max"), [("tone", 4), ("damped", 6), ("chirp", 3), ("mixed", 4), ("mixed", 6)]
)
def test_hidden_components_leave_the_prior_of_k(kind: str, k_max: int) -> None:
    """At amplitudes of a tenth of their standard deviation no number of components is better than another."""
    prior = _prior(kind, k_max, (0.01, 0.02))
    _, sampled = _sampled(_noise(0), prior)
    assert sampled.complete
    errors = _errors(sampled)
    assert errors.max() < 0.01
    # What the likelihood changes by over so small amplitudes is below 0.003.
    assert np.all(np.abs(sampled.k_probs - prior.k_probs_full) < 4 * errors + 0.003)
    every = {counts: math.exp(Layout(prior.waveform, 0.0, counts).log_mass()) / (k_max + 1)
             for counts in sampled.results}  # fmt: skip
    for counts, probability in sampled.counts_probs().items():
        if counts in every:
            assert probability == pytest.approx(every[counts], rel=0.15)


def test_hidden_components_leave_any_prior_of_k() -> None:
    prior = replace(_prior("mixed", 3, (0.01, 0.02)), k_probs=(0.6, 0.25, 0.1, 0.05))
    _, sampled = _sampled(_noise(3), prior)
    assert sampled.complete
    assert np.all(np.abs(sampled.k_probs - prior.k_probs_full) < 4 * _errors(sampled) + 0.003)


def test_an_answer_without_time_says_so() -> None:
    """One layout is drawn: what the others would have is an error, and none of them seems more probable than it is."""
    prior = _prior("mixed", 4, (0.01, 0.02))
    search = searched(_noise(0), prior)
    sampled = sample_layouts(search, np.random.default_rng(0), max_seconds=0.0)
    (drawn,) = sampled.results
    assert not sampled.complete
    assert quality_of(sampled).k_error > 0.5
    for counts, probability in sampled.counts_probs().items():
        masses = [Layout(prior.waveform, 0.0, c).log_mass() for c in (counts, drawn)]
        promised = math.log(probability / sampled.counts_probs()[drawn])
        assert promised - (masses[0] - masses[1]) < 1.5
    # The control: with time all of them are drawn.
    enough = sample_layouts(search, np.random.default_rng(0), max_seconds=30.0)
    assert enough.complete and len(enough.results) == 15
    assert quality_of(enough).k_error < 0.01


def test_many_hidden_components_beside_a_visible_one() -> None:
    """Against components of the prior beside draws of the visible one, any of which may be the visible one."""
    prior = replace(_prior("tone", 8, (0.001, 4.0)), amplitude_law="loguniform")
    search, sampled = _sampled(_noise(2, strength=2.0), prior)
    rng, alone = np.random.default_rng(6), sampled.results[(1,)]
    assert sampled.k_probs[0] < 1e-6 and sampled.k_probs[8] > 0.02
    n = 20_000
    others = search.target((1,)).layout.of_theta(alone.resample(n, rng)[0])
    for new in (1, 2, 4):
        rows = np.concatenate(
            [others, *(_of_prior(search.target((1,)), n, rng) for _ in range(new))], 1
        )
        ratio = np.exp(
            _log_likelihood(search.target((1 + new,)), rows)
            - _log_likelihood(search.target((1,)), others)
        )
        expected = math.log((1 + new) * ratio.mean())
        error = math.hypot(
            ratio.std() / ratio.mean() / math.sqrt(n),
            sampled.results[(1 + new,)].log_evidence_error,
        )
        found = sampled.results[(1 + new,)].log_evidence - alone.log_evidence
        # New components that take a part of the visible one's power are not among these draws: a few per cent each.
        assert -4 * error < found - expected < 4 * error + 0.05 * new
        assert error < 0.1


def test_a_visible_component_is_counted() -> None:
    """The control: one whose amplitude the prior allows and the data show excludes every other number but more."""
    _, sampled = _sampled(_noise(0, strength=2.0), _prior("tone", 3, (0.5, 4.0)))
    assert sampled.complete
    assert sampled.k_probs[0] < 1e-6
    assert int(np.argmax(sampled.k_probs)) == 1
    assert sampled.k_probs[1] > 0.9


@pytest.mark.parametrize(
    ("kind", "highest"), [("tone", 0.3), ("damped", 0.5), ("chirp", 0.4), ("mixed", 0.5)]
)
def test_half_hidden_components_have_the_evidence_of_draws_from_the_prior(
    kind: str, highest: float
) -> None:
    """Bounds of a few standard deviations: maxima lie on either side of them."""
    search, sampled = _sampled(_noise(1), _prior(kind, 2, (0.01, highest)))
    rng = np.random.default_rng(5)
    assert len(sampled.results) > 2
    for counts, result in sampled.results.items():
        if any(counts):
            expected, error = _by_prior(search.target(counts), 20_000, rng)
            both = math.hypot(error, result.log_evidence_error)
            assert abs(result.log_evidence - expected) < 4 * both
            assert both < 0.3


def test_laplace_stays_below_the_likelihood_inside_the_prior() -> None:
    search, _ = _sampled(_noise(0), _prior("damped", 2, (0.01, 0.02)))
    none = search.found[(0,)][0].log_evidence
    for modes in search.found.values():
        assert all(mode.log_evidence < none + 1 for mode in modes)


def _of_prior(target: FamilyTarget, n: int, rng: np.random.Generator) -> Array:
    """Rows of a layout, (n, d), drawn from the prior and sorted."""
    prior, rows = target.prior, [np.zeros((n, 0))]
    for count, member in zip(target.layout.counts, target.layout.members, strict=True):
        laws = [Range(*prior.frequency), *member.ranges.values()]
        xi = np.stack([law.draw(rng.random((n, count))) for law in laws], -1)
        size = Range(*prior.amplitude, prior.amplitude_law).draw(rng.random((n, count)))
        c = size * np.exp(2j * math.pi * rng.random((n, count)))
        z = member.pack(xi, c[..., None])
        order = np.argsort(member.place_in_z(z), axis=1)
        rows.append(np.take_along_axis(z, order[..., None], 1).reshape(n, -1))
    return np.concatenate(rows, -1)


def _log_likelihood(target: FamilyTarget, rows: Array) -> Array:
    """Of rows in any order, (n, d) to (n,)."""
    return np.asarray(log_sum_exp(target.node_log_likelihoods(rows), axis=0)) - math.lgamma(
        target.k + 1
    )


def _by_prior(target: FamilyTarget, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """ln Z of a layout and its error: the mean likelihood of draws from the prior."""
    logs = _log_likelihood(target, _of_prior(target, n, rng))
    weights = np.exp(logs - logs.max())
    error = float(weights.std() / weights.mean()) / math.sqrt(n)
    return float(log_sum_exp(logs)) - math.log(n) + target.layout.log_mass(), error
