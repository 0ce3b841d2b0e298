"""How much more probable one K is than another does not depend on the largest number of components that is allowed."""

from __future__ import annotations

import dataclasses

import numpy as np

from slotflow import Channel, Observation, Prior
from slotflow.exact.family.posterior import family_posterior
from slotflow.waveforms import Damped

LINES = np.array([(2.0, 0.3, 0.31), (1.5, 1.0, 0.325), (2.5, 2.0, 0.36)])
RATE = 0.03
PRIOR = Prior(
    k_min=0,
    k_max=7,
    frequency=(0.28, 0.4),
    amplitude=(0.4, 8.0),
    amplitude_law="loguniform",
    sigma=(0.0, 3.0),
    min_separation=0.0,
    waveform=Damped(rate=(0.01, 0.1)),
)


def test_probabilities_do_not_depend_on_the_largest_number() -> None:
    """Every K has the same prior weight, so that ratios of probabilities are those of the evidences."""
    rng, t = np.random.default_rng(4), np.arange(300.0)
    values = 0.4 * (rng.standard_normal(300) + 1j * rng.standard_normal(300))
    for amplitude, phase, frequency in LINES:
        values += amplitude * np.exp(1j * phase + (2j * np.pi * frequency - RATE) * t)
    observation = Observation([Channel(values, dt=1.0, trend=-1)])
    few = family_posterior(observation, PRIOR, draws=1000, max_seconds=60)
    many = family_posterior(
        observation, dataclasses.replace(PRIOR, k_max=9), draws=1000, max_seconds=60
    )
    shared = many.k_probs[:8] / many.k_probs[:8].sum()
    error = np.hypot(
        np.nan_to_num(few.log_evidence[:, 1], posinf=0.0),
        np.nan_to_num(many.log_evidence[:8, 1], posinf=0.0),
    )
    # A layout that one of the two leaves out has a probability below e^−5.
    allowed = 4 * few.k_probs * error + 0.01
    np.testing.assert_array_less(np.abs(few.k_probs - shared), allowed)
    assert int(few.k_probs.argmax()) == int(many.k_probs.argmax())
    # Components that hardly show lower the evidence step by step: no K is left out before it hardly counts.
    assert np.all(many.k_probs[3:8] > 0) and np.all(many.k_probs[:3] < 1e-6)
    assert many.k_probs[6:].max() < 0.2 and many.k_probs[8:].max() < 0.05
