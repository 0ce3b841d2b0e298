"""Line spectra: the protocol, the distance, and the rivals."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow.studies.proof.line_spectra import (
    chamfer,
    circular,
    draw_line_spectrum,
    in_noise,
    set_of_least_distance,
)
from slotflow.studies.proof.subspace import description_length_order, esprit, music


def test_signals_follow_the_protocol(seed: int) -> None:
    rng = np.random.default_rng(seed)
    signals = [draw_line_spectrum(rng) for _ in range(300)]
    counts = np.bincount([len(s.frequencies) for s in signals], minlength=11)
    assert counts[0] == 0 and len(counts) == 11
    # Ten equally likely counts: chi-squared with 9 degrees of freedom, beyond 36 with p = 4e-5.
    assert ((counts[1:] - 30) ** 2 / 30).sum() < 36
    for s in signals:
        f = s.frequencies
        assert f.min() >= -0.5 and f.max() < 0.5
        assert np.mean(np.abs(s.values) ** 2) == pytest.approx(2.0)
        apart = circular(f[:, None] - f) + np.eye(len(f))
        assert apart.min() >= 1 / 50 - 1e-12
        noisy = in_noise(s.values, 13.0, rng)
        ratio = np.linalg.norm(s.values) / np.linalg.norm(noisy - s.values)
        assert 20 * np.log10(ratio) == pytest.approx(13.0)
    # Tones stand in clusters: uniform ones would be half a circle over K + 1 apart on average.
    gaps = [np.diff(s.frequencies).min() for s in signals if len(s.frequencies) == 3]
    assert np.median(gaps) < 0.08


def test_chamfer_distance() -> None:
    assert chamfer(np.array([0.1, 0.2]), np.array([0.2, 0.1])) == 0
    assert chamfer(np.array([0.49]), np.array([-0.49])) == pytest.approx(0.04)  # on the circle
    # A tone too many costs its own distance once, a missing one too.
    assert chamfer(np.array([0.1, 0.3]), np.array([0.1])) == pytest.approx(0.2)
    assert chamfer(np.array([0.1]), np.array([0.1, 0.3])) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="both sets"):
        chamfer(np.zeros(0), np.array([0.1]))


def test_set_of_least_distance(seed: int) -> None:
    """Of draws that scatter around two tones, and a few with a third: two tones near the middle."""
    rng = np.random.default_rng(seed)
    two = np.array([0.1, 0.3]) + 0.01 * rng.standard_normal((80, 2))
    three = np.array([0.1, 0.2, 0.3]) + 0.01 * rng.standard_normal((20, 3))
    found = set_of_least_distance([two, three])
    assert len(found) == 2 and np.abs(found - [0.1, 0.3]).max() < 0.01
    assert len(set_of_least_distance([two[:20], np.concatenate(4 * [three])])) == 3  # the control


@pytest.mark.parametrize("method", [esprit, music])
def test_rivals_find_clear_tones(method, seed: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    truth = np.array([-0.31, 0.02, 0.12])
    clean = np.exp(2j * np.pi * np.outer(np.arange(50), truth)) @ np.array([1.0, 1j, -0.8])
    x = in_noise(clean, 30.0, rng)
    assert description_length_order(x, 10) == 3
    assert np.abs(method(x, 3) - truth).max() < 2e-3
    # The control: noise alone has no such tones.
    noise = in_noise(clean, 30.0, rng) - clean
    assert np.abs(method(noise, 3)[:3] - truth[: len(method(noise, 3))]).max() > 2e-3
