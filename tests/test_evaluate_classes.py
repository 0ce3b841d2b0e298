"""Measures of answers for several classes: by hand, on answers known to be right, and on ones that are too narrow."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slotflow import Observation
from slotflow.core.arrays import Array
from slotflow.network.multiclass.mixed import MixedSlots
from slotflow.network.multiclass.posterior import ClassPosterior
from slotflow.signal.waveforms import Classes
from slotflow.studies.measures.calibration import deviation_of_perfect
from slotflow.studies.measures.classes import class_coverage, count_scores, right_classes
from slotflow.waveforms import Chirp, Tone

TABLES = torch.tensor([[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]])
WAVEFORMS = {"tone": Tone(), "chirp": Chirp(drift=(-1.0, 1.0))}


def test_count_scores_by_hand() -> None:
    probs = torch.tensor(
        [
            [0.0, 0.8, 0.2, 0.0, 0.0, 0.0],  # right
            [0.0, 0.4, 0.6, 0.0, 0.0, 0.0],  # a chirp for a tone: K is right
            [0.0, 0.0, 0.4, 0.0, 0.3, 0.3],  # K = 2 in all, though K = 1 in the most probable one
        ],
        dtype=torch.float64,
    )
    counts = torch.tensor([[1, 0], [1, 0], [1, 1]])
    found = count_scores(TABLES, probs, counts)
    assert found.counts_right == pytest.approx(1 / 3) and found.k_right == 1.0
    assert found.log_score == pytest.approx(np.log([0.8, 0.4, 0.3]).mean())
    assert found.ece == pytest.approx((0.2 + 0.6 + 0.4) / 3)


def test_right_classes_by_hand() -> None:
    probs = torch.tensor(
        [[0.9, 0.0, 0.0, 0.02, 0.05, 0.03], [0.0, 0.1, 0.2, 0.7, 0.0, 0.0]], dtype=torch.float64
    )
    counts = torch.tensor([[2, 0], [1, 0]])
    assert right_classes(TABLES, probs, counts).tolist() == [1, 0]
    assert right_classes(TABLES, probs, torch.tensor([[1, 1], [0, 1]])).tolist() == [2, 1]


class KnownSlots:
    """Components around centres that are themselves drawn: a posterior that is right by construction."""

    def __init__(self, centres: Array, width: float) -> None:
        self.centres, self.width = centres, width

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws around the centres of the first k components."""
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(n, k, self.centres.shape[1]))
        return self.centres[:k] + self.width * noise


def answers(width: float, n: int, seed: int) -> tuple[list[ClassPosterior], list[dict[str, Array]]]:
    """Answers whose draws are `width` times as wide as the truth's distance from the centres, and the truth."""
    rng, posts, truths = np.random.default_rng(seed), [], []
    for _ in range(n):
        counts = TABLES[rng.integers(1, len(TABLES))].tolist()
        slots, truth = {}, {}
        for name, k in zip(WAVEFORMS, counts, strict=True):
            waveform = WAVEFORMS[name]
            centres = rng.normal(size=(2, waveform.size))
            slots[name] = KnownSlots(centres, 0.2 * width)
            theta = centres[:k] + 0.2 * rng.normal(size=(k, waveform.size))
            truth[name] = waveform.sorted(theta)
        obs = Observation.from_arrays(np.zeros(4), 1.0)
        probs = np.full(len(TABLES), 1 / len(TABLES))
        mixed = MixedSlots(TABLES.numpy(), probs, slots, Classes(**WAVEFORMS))  # type: ignore[arg-type]
        posts.append(ClassPosterior(mixed, obs, 1.0, "known"))
        truths.append(truth)
    return posts, truths


@pytest.mark.parametrize(("width", "right"), [(1.0, True), (0.5, False), (2.0, False)])
def test_coverage_of_each_class(width: float, right: bool, seed: int) -> None:
    found = class_coverage(*answers(width, 300, seed), draws=100, seed=seed)
    assert set(found) == set(WAVEFORMS)
    for name, curve in found.items():
        assert curve.coverage.shape[1] == WAVEFORMS[name].size
        limit = deviation_of_perfect(curve.n_tones, quantile=0.9999)
        strayed = np.abs(curve.deviation).max(0)
        assert (strayed < limit).all() if right else (strayed > limit).all()
