"""Priors of components that are no tones: draws and densities, files, simulated signals, refusals."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from slotflow import Observation, Prior
from slotflow.core.fields import from_dict, plain
from slotflow.signal.simulation_like import simulate_like
from slotflow.signal.waveforms import TONE, Classes
from slotflow.waveforms import Chirp, Damped, Harmonic, Tone

CHIRP, DAMPED = Chirp(drift=(-1e-4, 1e-4)), Damped(rate=(0.01, 0.2), law="loguniform")
CLASSES = {"tone": Tone(), "chirp": CHIRP, "damped": DAMPED}
PRIORS = [
    Prior(waveform=CHIRP),
    Prior(waveform=DAMPED, amplitude_law="loguniform"),
    Prior(waveform=Harmonic(3)),
    Prior(classes=CLASSES),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p.waveform.name)
def test_draws_have_the_density(prior: Prior, seed: int) -> None:
    """The mean of 1/p over draws is the volume of the support, component by component of the product."""
    n = 500
    generator = torch.Generator().manual_seed(seed)
    theta = prior.sample_theta(torch.full((n,), 2), generator)[:, :2]
    density = prior.log_prob_theta(theta)
    assert density.shape == (n,) and bool(density.isfinite().all())
    outside = theta.clone()
    outside[..., prior.waveform.column("frequency")] += 1.0
    assert bool((prior.log_prob_theta(outside) == -math.inf).all())
    # Removing the waveform's part leaves a density that depends on amplitudes alone.
    rest = density - prior.waveform.log_prior(theta)
    if prior.amplitude_law == "uniform":
        per_phase = -math.log(2 * math.pi) - math.log(1.0)
        phases = 2 * prior.waveform.amplitudes
        expected = phases * per_phase - 2 * math.log(0.5 - 0.01)
        np.testing.assert_allclose(rest.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p.waveform.name)
def test_records(prior: Prior) -> None:
    record = json.loads(json.dumps(plain(dataclasses.asdict(prior))))
    assert from_dict(Prior, record) == prior
    again = dataclasses.replace(prior, k_max=4)
    assert again.waveform == prior.waveform and vars(again)["classes"] == vars(prior)["classes"]


def test_a_prior_of_tones_is_what_it_was() -> None:
    assert Prior().waveform is TONE and vars(Prior())["classes"] is None
    assert Prior(waveform=Tone()) == Prior() and Prior(waveform="tone") == Prior()  # type: ignore[arg-type]
    waveform = Prior(classes=CLASSES).waveform
    assert isinstance(waveform, Classes) and waveform.class_names == ("tone", "chirp", "damped")


def test_refusals() -> None:
    with pytest.raises(ValueError, match="one waveform or several classes"):
        Prior(waveform=CHIRP, classes=CLASSES)
    with pytest.raises(ValueError, match="expects waveform as Tone"):
        Prior(waveform=3)  # type: ignore[arg-type]
    for classes in (["tone"], "tone, chirp", {1: Tone()}):
        with pytest.raises(ValueError, match="expects classes as waveforms by their names"):
            Prior(classes=classes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expects a prior of tones"):
        Prior(waveform=CHIRP).batch(2)
    with pytest.raises(ValueError, match=r"shape \(..., K, 4\)"):
        Prior(waveform=CHIRP).log_prob_theta(np.zeros((2, 3)))


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_simulated_signals(kind: type, seed: int) -> None:
    """Without noise a drawn signal is the sum that is written out, from the start of a record that begins late."""
    template = Observation.from_arrays(
        values=np.zeros(300, dtype=kind), times=50.0 + 0.1 * np.arange(300)
    )
    prior = Prior(classes=CLASSES, sigma=(1e-9, 1e-9), k_max=5)
    (made,) = simulate_like(template, prior, k=5, seed=seed)
    t, waveform = template.long.times, prior.waveform
    value = {name: waveform.of(made.theta, name)[:, None] for name in waveform.names}
    middle = 0.5 * (t[0] + t[-1])
    turns = value["frequency"] * t + 0.5 * value["drift"] * ((t - middle) ** 2 - middle**2)
    decay = value["amplitude"] * np.exp(-value["rate"] * (t - t[0]))
    total = (decay * np.exp(1j * (2 * math.pi * turns + value["phase"]))).sum(0)
    data = made.observation.long.values
    np.testing.assert_allclose(data, total if kind is np.complex128 else total.real, atol=1e-7)
