"""Second attempts of the one way in: another noise where the first is refused or in doubt."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from slotflow import Observation, SlotFlow
from slotflow.infer.noise_choice import second_noise
from slotflow.studies.proof.red_noise import draw_red_band, stated


def slightly_red(seed: int) -> Observation:
    """A year and a half-year of ten years' months in noise whose neighbours correlate with 0.25."""
    n, rng = 120, np.random.default_rng(seed)
    t = np.arange(n)
    noise = lfilter([1], [1, -0.25], rng.standard_normal(n + 100))[100:]
    tones = 3 * np.cos(2 * np.pi * t / 12 + 1) + 1.5 * np.cos(2 * np.pi * t / 6)
    return Observation.from_arrays(values=tones + noise, dt=1.0)


def test_a_colour_in_doubt_is_integrated_over(zoom: SlotFlow) -> None:
    observation = slightly_red(10)
    white = zoom.infer(observation, noise="white", draws=500)
    assert white.verdict.status == "approximate"
    assert white.verdict.doubt is not None
    post = zoom.infer(observation, draws=500)
    assert post.verdict.status == "exact"
    assert (post.noise.name, post.k_map) == ("ar(1)", 2)
    assert "perhaps" in post.noise.words
    coefficient = post.noise.shape["φ1"]
    assert abs(coefficient.mean - 0.25) < 4 * coefficient.sd


def test_a_second_look_that_fails_leaves_the_first_answer(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("not positive definite")

    observation = slightly_red(10)
    with monkeypatch.context() as patch:
        patch.setattr("slotflow.infer.run._under", fails)
        post = zoom.infer(observation, draws=500)
    assert post.noise.name == "white" and post.verdict.status == "approximate"
    monkeypatch.setattr("slotflow.infer.noise_choice.choose_noise", fails)
    assert second_noise(observation, (0.05, 0.2), np.zeros((0, 3))) is None


def test_nothing_is_tried_again_without_a_doubt(zoom: SlotFlow) -> None:
    post = zoom.infer(slightly_red(1), draws=500)
    assert post.noise.name == "white"
    assert post.verdict.doubt is None


def test_a_full_band_in_red_noise_is_local(zoom: SlotFlow) -> None:
    """Five tones of at most five: what lies outside the band tells of the noise all the same."""
    band = draw_red_band("ar", np.random.default_rng([0, 0, 7]))
    observation = Observation.from_arrays(values=band.values, dt=1.0)
    prior = stated(band.prior)
    white = zoom.infer(observation, prior=prior, noise="white", draws=500)
    assert white.k_map == band.prior.k_max == len(band.truth)
    assert white.verdict.status == "misfit"
    post = zoom.infer(observation, prior=prior, draws=500)
    assert (post.noise.name, post.k_map) == ("local", len(band.truth))
    assert post.verdict.status == "exact"
