"""Harmonic series among other classes, and of an unknown number of harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.signal.waveforms import Classes, waveform_named
from slotflow.waveforms import Harmonic, Tone

SAMPLES, STEP, BAND = 300, 0.4, (0.06, 0.4)
CLASSES = {"tone": Tone(), "stack": Harmonic(3)}
STATED: dict[str, Any] = {
    "k_min": 0,
    "k_max": 4,
    "frequency": (BAND[0], 0.15),
    "amplitude": (0.3, 3.0),
    "amplitude_law": "loguniform",
    "sigma": (0.5, 0.5),
    "min_separation": 0.0,
}


def series(*tones: tuple[float, float, float], seed: int) -> Observation:
    """Tones of amplitude, phase and frequency in noise."""
    t = STEP * np.arange(SAMPLES)
    values = sum(a * np.cos(2 * math.pi * f * t + phi) for a, phi, f in tones)
    noise = 0.5 * np.random.default_rng(seed).standard_normal(SAMPLES)
    return Observation([Channel(values + noise, dt=STEP, trend=-1)])


def test_amplitudes_that_a_class_lacks_are_zero(seed: int) -> None:
    prior = Prior(classes=CLASSES, **STATED)
    waveform = prior.waveform
    assert isinstance(waveform, Classes)
    theta = prior.sample_theta(torch.full((400,), 1), torch.Generator().manual_seed(seed))[:, :1]
    is_stack = waveform.class_of(theta)[:, 0] == 1
    assert 0.4 < is_stack.double().mean() < 0.6
    further = theta[:, 0, [waveform.column(name) for name in ("amplitude_2", "phase_3")]]
    assert bool((further[~is_stack] == 0).all()) and bool((further[is_stack] != 0).all())
    density = prior.log_prob_theta(theta)
    alone = [Prior(waveform=w, **STATED) for w in CLASSES.values()]
    for i, own in enumerate(alone):
        rows = theta[waveform.class_of(theta)[:, 0] == i]
        expected = own.log_prob_theta(waveform.members_theta(i, rows)) - math.log(2)
        np.testing.assert_allclose(
            density[waveform.class_of(theta)[:, 0] == i], expected, rtol=1e-12
        )
    wrong = theta[~is_stack].clone()
    wrong[..., waveform.column("amplitude_2")] = 1.0
    assert bool((prior.log_prob_theta(wrong) == -math.inf).all())


def test_a_series_is_one_and_unrelated_tones_are_several(zoom: SlotFlow) -> None:
    """The band holds the fundamental and all its multiples, so that tones could explain the series."""
    prior = Prior(classes=CLASSES, **(STATED | {"frequency": BAND}))
    stack = [(1.5, 1.0, 0.11), (1.0, 2.0, 0.22), (0.8, 0.5, 0.33)]
    both: Any = zoom.infer(series(*stack, (1.0, 3.0, 0.26), seed=1), prior=prior, max_seconds=60)
    assert next(iter(both.counts_probs())) == (1, 1)
    frame = both.summary(phase_at="zero")
    assert list(frame["class"]) == ["stack", "tone"]
    row = frame.loc[1]
    for j, (amplitude, phase, _) in enumerate(stack):
        name = "" if j == 0 else f"_{j + 1}"
        assert abs(row[f"amplitude{name}_median"] - amplitude) < 5 * row[f"amplitude{name}_sd"]
        away = np.remainder(row[f"phase{name}_median"] - phase + math.pi, 2 * math.pi) - math.pi
        assert abs(away) < 5 * row[f"phase{name}_sd"]
    assert np.isnan(frame.loc[2, "amplitude_2_median"])
    moved = [(a, phi, f + 0.013 * (j > 0)) for j, (a, phi, f) in enumerate(stack)]
    several: Any = zoom.infer(series(*moved, seed=2), prior=prior, max_seconds=60)
    assert next(iter(several.counts_probs())) == (3, 0)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_number_of_harmonics_is_found(zoom: SlotFlow, m: int) -> None:
    waveform = waveform_named("harmonic(most=3)")
    assert waveform == Harmonic.up_to(3) and waveform_named(waveform.text) == waveform
    prior = Prior(waveform=waveform, **(STATED | {"k_max": 2}))
    tones = [(1.2, 1.0, 0.11), (1.0, 2.0, 0.22), (0.8, 0.5, 0.33)][:m]
    post: Any = zoom.infer(series(*tones, seed=m), prior=prior, max_seconds=60)
    assert post.k_map == 1
    assert post.class_probs.loc[1].idxmax() == f"m{m}"
    assert post.class_probs.loc[1].max() > 0.8
