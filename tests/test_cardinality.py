"""The classifier of K and its change of prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from slotflow import Prior
from slotflow.network.cardinality import k_posterior
from slotflow.network.config import EncoderConfig
from slotflow.network.paper.counter import CardinalityHead

ENCODER = EncoderConfig(channels=(4, 8), kernels=(4, 4), strides=(2, 1), heads=2, context=6)


def logits_of(prior: Prior, batch: int, seed: int) -> tuple[torch.Tensor, np.ndarray]:
    """Perfect logits and the likelihood p(x | K) behind them, both (batch, k_max + 1)."""
    rng = np.random.default_rng(seed)
    likelihood = rng.gamma(0.5, size=(batch, prior.k_max + 1))
    with np.errstate(divide="ignore"):
        logits = np.log(likelihood) + np.log(prior.k_probs_full) + rng.normal(size=(batch, 1))
    return torch.as_tensor(logits), likelihood


# ---------------------------------------------------------------- logits


@pytest.mark.parametrize(("k_min", "k_max"), [(1, 3), (1, 10), (2, 5), (4, 4)])
def test_logits(k_min: int, k_max: int, seed: int) -> None:
    torch.manual_seed(seed)
    head = CardinalityHead(ENCODER, Prior(k_min=k_min, k_max=k_max))
    logits = head(torch.randn(5, 9, 8))
    assert logits.shape == (5, k_max + 1)
    assert torch.isneginf(logits[:, :k_min]).all()
    assert torch.isfinite(logits[:, k_min:]).all()


def test_logits_batched_equal_single_and_depend_on_tokens(seed: int) -> None:
    torch.manual_seed(seed)
    head = CardinalityHead(ENCODER, Prior(k_max=4)).double()
    tokens = torch.randn(3, 9, 8, dtype=torch.float64)
    logits = head(tokens)[:, 1:]
    for b in range(3):
        torch.testing.assert_close(head(tokens[b : b + 1])[:, 1:], logits[b : b + 1])
    assert not torch.allclose(logits[0], logits[1])


# ---------------------------------------------------------------- Bayes' rule

PRIORS = [
    Prior(k_max=4),
    Prior(k_max=4, k_probs=(0.1, 0.2, 0.3, 0.4)),
    Prior(k_min=2, k_max=4, k_probs=(5, 1, 1)),
]


@pytest.mark.parametrize("prior", PRIORS)
def test_prior_of_training_is_kept(prior: Prior, seed: int) -> None:
    logits, likelihood = logits_of(prior, 6, seed)
    expected = likelihood * prior.k_probs_full
    expected /= expected.sum(axis=1, keepdims=True)
    for k_prior in (None, prior.k_probs_full, 7 * prior.k_probs_full):
        probs = k_posterior(logits, prior, k_prior)
        assert probs.dtype == torch.float64
        np.testing.assert_allclose(probs.numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(probs.sum(dim=1).numpy(), 1.0, atol=1e-12)


@pytest.mark.parametrize("prior", PRIORS)
def test_other_prior_equals_bayes_rule(prior: Prior, seed: int) -> None:
    logits, likelihood = logits_of(prior, 6, seed)
    chosen = np.random.default_rng(seed).random(prior.k_max + 1) * (prior.k_probs_full > 0)
    expected = likelihood * chosen
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(k_posterior(logits, prior, chosen).numpy(), expected, atol=1e-12)
    wrong = k_posterior(logits, Prior(k_min=prior.k_min, k_max=4), chosen).numpy()
    if prior.k_probs is not None:  # the same logits under another p_train mean something else
        assert np.abs(wrong - expected).max() > 1e-3


def test_mapping_equals_array(seed: int) -> None:
    prior = Prior(k_max=4)
    logits, _ = logits_of(prior, 3, seed)
    by_array = k_posterior(logits, prior, [0, 0.5, 0, 1.5, 0])
    for mapping in ({1: 1, 3: 3}, {np.int64(3): 3.0, np.int64(1): 1.0}):
        torch.testing.assert_close(k_posterior(logits, prior, mapping), by_array)


def test_no_weight_means_no_probability(seed: int) -> None:
    prior = Prior(k_max=4)
    logits, _ = logits_of(prior, 3, seed)
    probs = k_posterior(logits, prior, [0, 1, 1, 0, 1])
    assert (probs[:, [0, 3]] == 0).all()
    only = k_posterior(logits, prior, {2: 1.0})
    assert only.tolist() == [[0, 0, 1, 0, 0]] * 3


@pytest.mark.parametrize("k_prior", [None, [0, 1, 0, 1]])
def test_k_without_training_weight_stays_at_zero(k_prior: Any) -> None:
    prior = Prior(k_max=3, k_probs=(0.5, 0.0, 0.5))  # K = 2 never occurs, yet has a logit
    probs = k_posterior(torch.tensor([[-torch.inf, 0.0, 3.0, 0.0]]), prior, k_prior)
    assert probs.tolist() == [[0.0, 0.5, 0.0, 0.5]]


def test_extreme_logits_stay_finite() -> None:
    prior = Prior(k_max=3)
    probs = k_posterior(torch.tensor([[-torch.inf, 1e4, -1e4, 0.0]]), prior, [0, 1e-300, 1, 1])
    assert torch.isfinite(probs).all()
    assert probs[0, 1] == 1


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("k_prior", "message"),
    [
        ([0, 1, -1, 1], "not negative.*received"),
        ([0, 0, 0, 0], "not all zero.*received"),
        ([0, 1, np.nan, 1], "finite.*received"),
        ([0, 1, np.inf, 1], "finite.*received"),
        ([1, 1, 1], "expected 4 numbers.*received shape \\(3,\\)"),
        ([[0, 1, 1, 1]], "expected 4 numbers.*received shape \\(1, 4\\)"),
        (1.0, "expected 4 numbers.*received shape \\(\\)"),
        ([1, 1, 1, 1], "weight to K = 0.*trained on K = 1..3"),
        ({4: 1.0}, "expected K in 0..3, received K = 4"),
        ({-1: 1.0}, "expected K in 0..3, received K = -1"),
        ({1.5: 1.0}, "expected K in 0..3, received K = 1.5"),
        ({"two": 1.0}, "expected K in 0..3, received K = 'two'"),
        ({0: 1.0}, "weight to K = 0"),
        ({}, "not all zero"),
        ({1: -1.0}, "not negative"),
    ],
)
def test_bad_prior_is_refused(k_prior: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        k_posterior(torch.zeros(1, 4), Prior(k_max=3), k_prior)
