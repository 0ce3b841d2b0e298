"""Mixtures of priors: shares, the laws of the bounds, room for every component, parsing and errors."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from statistics_helpers import assert_same_law, assert_within

from slotflow import Prior
from slotflow.core.fields import from_dict, plain
from slotflow.signal.mixture import MixturePart, PriorMixture
from slotflow.signal.prior_batch import PriorBatch

PART = MixturePart(1.0, (0.0, 0.01), (0.1, 0.5), (0.3, 1.0), (0.0, 1.5))
FIXED = MixturePart(1.0, (0.01, 0.01), (0.5, 0.5), (1.0, 1.0), (0.0, 1.5))


def draw(
    *parts: MixturePart, base: Prior | None = None, n: int = 20_000, seed: int = 0
) -> PriorBatch:
    """Priors of n signals."""
    generator = torch.Generator().manual_seed(seed)
    return PriorMixture(parts).draw(base or Prior(), n, generator)


# ---------------------------------------------------------------------- shares


def check_shares(batch: PriorBatch, shares: list[float]) -> None:
    """Asserts that part i, which has the upper σ bound i + 1, has its share of the signals."""
    upper = batch.sigma[:, 1].numpy()
    expected = np.array(shares)
    counts = np.array([(upper == i + 1).sum() for i in range(len(shares))])
    assert counts.sum() == len(upper)
    share = counts / len(upper)
    assert_within(share, expected, np.sqrt(expected * (1 - expected) / len(upper)))


def numbered(*weights: float) -> list[MixturePart]:
    """Parts with these weights; the i-th has the upper σ bound i + 1."""
    return [
        dataclasses.replace(PART, weight=w, sigma=(0.0, i + 1.0)) for i, w in enumerate(weights)
    ]


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ((1.0,), [1.0]),
        ((3.0, 1.0), [0.75, 0.25]),
        ((1.0, 2.0, 5.0), [0.125, 0.25, 0.625]),
        ((0.0, 1.0, 0.0, 1.0, 0.0), [0.0, 0.5, 0.0, 0.5, 0.0]),
    ],
)
def test_parts_have_their_shares(weights: tuple[float, ...], shares: list[float], seed: int):
    check_shares(draw(*numbered(*weights), seed=seed), shares)


def test_the_check_of_shares_rejects_other_weights(seed: int):
    with pytest.raises(AssertionError):
        check_shares(draw(*numbered(3.0, 1.2), seed=seed), [0.75, 0.25])


def test_all_bounds_of_a_signal_come_from_one_part(seed: int):
    a = MixturePart(1.0, (0.001, 0.002), (0.1, 0.2), (0.9, 1.0), (0.0, 1.0))
    b = MixturePart(1.0, (0.003, 0.004), (0.3, 0.4), (0.5, 0.6), (1.0, 2.0))
    batch = draw(a, b, seed=seed, n=1000)
    second = batch.sigma[:, 0] == 1.0
    assert torch.equal(batch.min_separation > 0.0025, second)
    assert torch.equal(batch.amplitude[:, 0] > 0.25, second)
    assert torch.equal(batch.frequency[:, 1] - batch.frequency[:, 0] < 0.4, second)


# ---------------------------------------------------------------------- laws of the bounds


def test_bounds_follow_their_laws(seed: int):
    batch = draw(PART, seed=seed)
    uniform = np.random.default_rng(seed).uniform(size=20_000)
    low = batch.amplitude[:, 0]
    width = (batch.frequency[:, 1] - batch.frequency[:, 0]) / 0.5
    position = (batch.frequency[:, 0] - 2.5) / (0.5 * (1 - width))
    assert_same_law(batch.min_separation / 0.01, uniform)
    assert_same_law((low / 0.1).log() / math.log(5), uniform)
    assert_same_law((width - 0.3) / 0.7, uniform)
    assert_same_law(position, uniform)
    with pytest.raises(AssertionError):  # the check tells log-uniform from uniform
        assert_same_law((low - 0.1) / 0.4, uniform)
    bounds = [batch.min_separation, low, width, position]
    correlation = np.corrcoef(np.stack([b.numpy() for b in bounds]))
    assert_within(correlation - np.eye(4), 0.0, 1 / math.sqrt(20_000))


def test_bounds_lie_in_their_ranges(seed: int):
    batch = draw(PART, seed=seed)
    assert batch.amplitude.dtype == batch.frequency.dtype == batch.sigma.dtype == torch.float64
    assert batch.min_separation.min() >= 0 and batch.min_separation.max() <= 0.01
    assert batch.amplitude[:, 0].min() >= 0.1 and batch.amplitude[:, 0].max() <= 0.5
    assert torch.all(batch.amplitude[:, 1] == 1.5)
    width = batch.frequency[:, 1] - batch.frequency[:, 0]
    assert batch.frequency.min() >= 2.5 and batch.frequency.max() <= 3.0
    assert width.min() >= 0.15 - 1e-12 and width.max() <= 0.5
    assert batch.sigma.unique(dim=0).tolist() == [[0.0, 1.5]]


def test_a_mixture_of_points_is_one_prior(seed: int):
    # A band whose upper end is not the sum of its lower end and its width in floating point.
    base = Prior(0, 4, (1, 0, 1, 2, 1), (0.5, 1.7), (0.2, 0.9), 0.02, (0.0, 9.0), "loguniform")
    assert 0.2 + (0.9 - 0.2) != 0.9
    batch = draw(FIXED, base=base, seed=seed, n=500)
    assert (batch.k_min, batch.k_max, batch.k_probs) == (0, 4, base.k_probs)
    assert batch.amplitude_law == "loguniform"
    expected = dataclasses.replace(base, min_separation=0.01, sigma=(0.0, 1.5)).batch(500)
    for name in ("amplitude", "frequency", "min_separation", "sigma"):
        assert torch.equal(getattr(batch, name), getattr(expected, name)), name


def test_draws_are_seeded():
    assert torch.equal(draw(PART, seed=1).frequency, draw(PART, seed=1).frequency)
    assert not torch.equal(draw(PART, seed=1).frequency, draw(PART, seed=2).frequency)


# ---------------------------------------------------------------------- room


def test_separation_gives_way_where_the_components_do_not_fit(seed: int):
    part = dataclasses.replace(PART, min_separation=(0.0, 0.05), width=(0.05, 1.0))
    base = Prior(k_min=0, min_separation=0.0)
    batch = draw(part, base=base, seed=seed, n=5000)
    width = batch.frequency[:, 1] - batch.frequency[:, 0]
    limit = 0.9 * width / 9
    lowered = batch.min_separation >= limit * (1 - 1e-9)
    assert 0 < lowered.sum() < 5000
    np.testing.assert_allclose(batch.min_separation[lowered], limit[lowered], rtol=1e-9)
    # Where there is room, nothing is touched: the same draws under a base prior of one component.
    free = draw(part, base=dataclasses.replace(base, k_max=1), seed=seed, n=5000)
    assert torch.equal(batch.min_separation[~lowered], free.min_separation[~lowered])
    assert torch.all(free.min_separation[lowered] >= limit[lowered] * (1 - 1e-9))

    generator = torch.Generator().manual_seed(seed)
    theta = batch.sample_theta(torch.full((5000,), 10), generator)
    frequency = theta[..., 2]
    gaps = frequency.diff(dim=1)
    assert torch.all(theta[..., 0] > 0), "K is never lowered"
    assert torch.all(gaps >= batch.min_separation[:, None] - 1e-14)
    assert torch.all(frequency[:, 0] >= batch.frequency[:, 0])
    assert torch.all(frequency[:, -1] <= batch.frequency[:, 1] + 1e-14)
    # Without the rule the same bounds would leave no room, and a batch of them is refused.
    with pytest.raises(ValueError, match="10 components to fit"):
        dataclasses.replace(batch, min_separation=free.min_separation)


def test_pure_noise_is_part_of_a_batch(seed: int):
    batch = draw(PART, base=Prior(k_min=0), seed=seed, n=500)
    generator = torch.Generator().manual_seed(seed)
    k = batch.sample_k(500, generator)
    theta = batch.sample_theta(k, generator)
    assert (k == 0).any() and torch.all(theta[k == 0] == 0)
    assert torch.equal((theta[..., 0] > 0).sum(1), k)


# ---------------------------------------------------------------------- configuration and errors

TEXT = """
parts:
  - {weight: 3, min_separation: [0, 0.01], amplitude_low: [0.1, 0.5], width: [0.3, 1], sigma: [0, 1.5]}
  - {weight: 1, min_separation: [0.01, 0.01], amplitude_low: [0.5, 0.5], width: [1, 1], sigma: [0, 2]}
"""


def test_a_mixture_is_read_from_yaml():
    mixture = from_dict(PriorMixture, yaml.safe_load(TEXT))
    assert mixture.parts[0] == dataclasses.replace(PART, weight=3.0)
    assert mixture.parts[1] == dataclasses.replace(FIXED, sigma=(0.0, 2.0))
    assert isinstance(mixture.parts[1].weight, float) and isinstance(mixture.parts[1].width, tuple)
    assert from_dict(PriorMixture, plain(dataclasses.asdict(mixture))) == mixture
    broken = yaml.safe_load(TEXT)
    broken["parts"][1]["width"] = [0.5, 1.5]
    with pytest.raises(ValueError, match=r"parts.*width .*<= 1.*received"):
        from_dict(PriorMixture, broken)
    del broken["parts"][1]["width"]
    with pytest.raises(ValueError, match="'width' is missing"):
        from_dict(PriorMixture, broken)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": -1.0}, "weight >= 0, received -1.0"),
        ({"weight": math.nan}, "weight >= 0, received nan"),
        ({"weight": math.inf}, "weight >= 0, received inf"),
        ({"min_separation": (-0.1, 0.1)}, "min_separation .*0 <= lower.*received"),
        ({"min_separation": (0.2, 0.1)}, "min_separation .*received"),
        ({"min_separation": (0.0, math.inf)}, "min_separation .*finite.*received"),
        ({"amplitude_low": (0.0, 0.5)}, "amplitude_low .*0 < lower.*received"),
        ({"amplitude_low": (0.5, 0.1)}, "amplitude_low .*received"),
        ({"width": (0.0, 0.5)}, "width .*0 < lower.*received"),
        ({"width": (0.5, 1.1)}, "width .*upper <= 1.*received"),
        ({"width": (0.5, 0.7, 0.9)}, "width as two .*received"),
        ({"sigma": (1.0, 1.0)}, "sigma .*lower < upper.*received"),
        ({"sigma": (-1.0, 1.0)}, "sigma .*received"),
    ],
)
def test_bad_parts_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PART, **changes)


def test_bad_mixtures_are_refused():
    with pytest.raises(ValueError, match=r"at least one part .*received the weights \[\]"):
        PriorMixture(())
    with pytest.raises(ValueError, match=r"weight above 0, received the weights \[0.0\]"):
        PriorMixture((dataclasses.replace(PART, weight=0.0),))
    with pytest.raises(
        ValueError, match=r"parts\[1\]: expected amplitude_low below .*0.8, received"
    ):
        draw(
            numbered(1.0)[0],
            dataclasses.replace(FIXED, amplitude_low=(0.5, 0.9)),
            base=Prior(amplitude=(0.1, 0.8)),
        )
    with pytest.raises(ValueError, match="n >= 1 signals, received 0"):
        draw(PART, n=0)
