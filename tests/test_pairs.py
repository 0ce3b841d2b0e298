"""Two tones that the data do not resolve: their evidence beside a sum over all pairs of frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_t

from slotflow import Prior
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.studies.proof import nested
from slotflow.studies.proof.noise_cases import NOISES, SAMPLINGS, draw_case

CELL = 0.2
"""Size of a cell of frequencies, in bins."""
REPEATS = 24
TAILS = 8.0
"""Degrees of freedom of the amplitudes' proposal."""


def summed_over_pairs(
    likelihood: Any, prior: Prior, rng: np.random.Generator
) -> tuple[float, float]:
    """Ln Z_2 and its standard error: random frequencies in each cell of a grid, amplitudes of a t law at them."""
    low, high = prior.frequency
    step = (high - low) / round((high - low) / (CELL * likelihood.bin))
    cells = low + step * np.arange(round((high - low) / step))
    i, j = np.triu_indices(len(cells))
    area = 2 * np.log(step) - np.log(2) * (
        i == j
    )  # sorted pairs fill half of a cell on the diagonal
    target, found = Target(likelihood, prior, 2), []
    for _ in range(REPEATS):
        f = np.stack([cells[i], cells[j]], -1) + step * rng.random((len(i), 2))
        f = np.sort(f, -1)
        gram, data = likelihood.amplitude_systems(f[..., None])
        gram = gram + likelihood.n * 1e-4 * np.eye(4)  # amplitudes of a pair have bounds
        mean = np.linalg.solve(gram, data[..., None])[..., 0]
        level = (float(likelihood.energy) - (data * mean).sum(-1)).clip(1.0) / likelihood.n
        shape = np.linalg.inv(gram) * level[:, None, None]
        factor = np.linalg.cholesky(shape)
        normal = rng.standard_normal((len(i), 4))
        stretch = np.sqrt(TAILS / rng.chisquare(TAILS, len(i)))
        c = mean + stretch[:, None] * (factor @ normal[..., None])[..., 0]
        scale = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(-1)
        unit = multivariate_t(np.zeros(4), np.eye(4), df=TAILS)
        log_q = unit.logpdf(stretch[:, None] * normal) - scale
        z = np.stack([f, c[:, :2], c[:, 2:]], -1)  # real parts first
        found.append(float(log_sum_exp(target.log_prob(z)[0] - log_q + area)))
    values = np.array(found)
    share = np.exp(values - values.max())
    mean_log = float(values.max() + np.log(share.mean()))
    return mean_log, float(share.std() / share.mean() / np.sqrt(REPEATS))


def test_evidence_of_an_unresolved_pair_in_uneven_samples():
    """A signal of `benchmarks/evidence_general.py` on which single runs of nested sampling differ by three nats."""
    part = NOISES.index("errors") * len(SAMPLINGS) + SAMPLINGS.index("uneven")
    case = draw_case("errors", "uneven", 2, np.random.default_rng([0, part, 1]))
    likelihood = likelihood_of(case.observation, None, case.prior.frequency)
    ours = across_orders(likelihood, case.prior, draws=4000, rng=np.random.default_rng(0))
    place = np.sort(likelihood.waveform.place_of(ours.results[2].theta), -1)
    weights = np.exp(ours.results[2].log_weights)
    close = float(weights[np.diff(place)[:, 0] < 0.75 * likelihood.bin].sum())
    assert close > 0.5  # most of it is unresolved
    value, error = summed_over_pairs(likelihood, case.prior, np.random.default_rng(1))
    error = float(np.hypot(error, ours.log_evidence_error[2]))
    assert error < 0.2
    assert abs(ours.log_evidence[2] - value) < 4 * error
    # Without the unresolved pairs the evidence would be another.
    assert -np.log(1 - close) > 4 * error


def test_the_scatter_of_runs_is_part_of_the_error(monkeypatch: pytest.MonkeyPatch):
    runs = {0: 74.86, 1: 72.48, 2: 71.59, 3: 72.85}
    monkeypatch.setattr(nested, "nested_evidence", lambda _, __, ___, seed, ____: (runs[seed], 0.1))
    value, error = nested.repeated_evidence(lambda theta, sigma: sigma, Prior(), 2, range(4))
    assert value == pytest.approx(np.log(np.mean(np.exp(list(runs.values())))))
    assert error == pytest.approx(np.std(list(runs.values()), ddof=1) / 2)
    runs.update(dict.fromkeys(runs, 73.0))
    assert nested.repeated_evidence(lambda theta, sigma: sigma, Prior(), 2, range(4)) == (
        pytest.approx(73.0),
        pytest.approx(0.05),
    )
