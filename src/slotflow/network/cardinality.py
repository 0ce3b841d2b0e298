r"""From logits of K to q(K | x) under any prior over K.

.. math:: q(K \mid x) = \mathrm{softmax}(\ell_K + \log p(K) - \log p_{train}(K)) .

Cross-entropy on signals drawn with p_train(K) makes the bare softmax of the logits ℓ the posterior under p_train.
Bayes' rule moves it to any other prior p(K) by the two log terms, which cancel when p = p_train.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.network.options import KPrior
from slotflow.signal.prior import Prior
from slotflow.signal.prior_draws import normalized

__all__ = ["check_k_prior", "k_posterior", "under_k_prior"]


def k_posterior(logits: Tensor, prior: Prior, k_prior: KPrior | None = None) -> Tensor:
    """q(K | x) under a chosen prior over K.

    Args:
        logits: Of K under the prior of training, (B, k_max + 1).
        prior: The prior of training.
        k_prior: p(K) to use instead: k_max + 1 numbers, index = K, or a mapping from K to a number;
            normalized here. None keeps the prior of training.

    Returns:
        Probabilities, (B, k_max + 1), float64.
    """
    trained = torch.as_tensor(prior.k_probs_full, device=logits.device)
    chosen = trained
    if k_prior is not None:
        chosen = torch.as_tensor(check_k_prior(k_prior, prior), device=logits.device)
    shift = torch.where(chosen > 0, chosen.log() - trained.log(), -torch.inf)  # p(K) = 0 stays 0
    return (logits.double() + shift).softmax(dim=-1)


def check_k_prior(k_prior: KPrior, prior: Prior) -> NDArray[np.float64]:
    """Validates a prior over K and returns it normalized, (k_max + 1,)."""
    size = prior.k_max + 1
    if isinstance(k_prior, Mapping):
        if wrong := [k for k in k_prior if k not in range(size)]:
            raise ValueError(f"k_prior: expected K in 0..{prior.k_max}, received K = {wrong[0]!r}.")
        values = np.zeros(size)
        values[[int(k) for k in k_prior]] = list(k_prior.values())
        k_prior = values
    probs = normalized(k_prior, 0, prior.k_max, "k_prior")
    untrained = np.flatnonzero((probs > 0) & (prior.k_probs_full == 0))
    if untrained.size:
        raise ValueError(
            f"k_prior gives weight to K = {untrained[0]}, which the model has never seen: it was "
            f"trained on K = {prior.k_min}..{prior.k_max}; set that entry to 0."
        )
    return probs


def under_k_prior(prior: Prior, k_prior: KPrior | None, trained: Prior) -> Prior:
    """The prior with another p(K), one that `check_k_prior` accepts; for None the prior as it is."""
    if k_prior is None:
        return prior
    probs = check_k_prior(k_prior, trained)
    low, high = np.flatnonzero(probs)[[0, -1]].tolist()
    high = max(high, 1)
    return dataclasses.replace(
        prior, k_min=low, k_max=high, k_probs=tuple(probs[low : high + 1].tolist())
    )
