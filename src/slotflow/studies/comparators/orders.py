r"""Sums over the orders of a set, and the number of present slots when each is present by itself.

**Permanents.** A method that knows its components by a label (a slot, a place in a sorted list) says
q_i(θ_j), or a joint density of a labelled list. The density of the unlabelled set sums over all K! ways to label it.
For independent slots that sum is the permanent of the matrix M_ij = q_i(θ_j),

.. math:: \mathrm{perm}\, M = \sum_{π} \prod_j M_{π(j) j} ,

here by brute force and in logarithms: K is at most 5, which makes 120 terms.

**Presences.** If slot i is present with probability p_i, independently of the others, K follows the Poisson-binomial
law, whose probabilities are the coefficients of ∏_i (1 − p_i + p_i t), multiplied out one slot after the other.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

__all__ = ["MOST_COMPONENTS", "all_orders", "log_count_probs", "log_permanent", "subsets"]

MOST_COMPONENTS = 6
"""Largest sets whose orders are listed, 720 of them."""


def all_orders(k: int, device: torch.device) -> Tensor:
    """Every order of k things, (k!, k), int64."""
    if k > MOST_COMPONENTS:
        raise ValueError(f"expected at most {MOST_COMPONENTS} components, received {k}.")
    return torch.tensor(list(itertools.permutations(range(k))), device=device).reshape(-1, k)


def log_permanent(log_matrix: Tensor) -> Tensor:
    """Logarithm of the permanent of matrices with given logarithms of their entries, (..., K, K) to (...)."""
    k = log_matrix.shape[-1]
    orders = all_orders(k, log_matrix.device)
    columns = torch.arange(k, device=log_matrix.device)
    return log_matrix[..., orders, columns].sum(-1).logsumexp(-1)


def log_count_probs(presence: Tensor) -> Tensor:
    """Logarithm of q(K) for slots that are present independently of each other.

    Args:
        presence: Logits of the presences, (B, S).

    Returns:
        (B, S + 1), index = K.
    """
    log_yes = torch.nn.functional.logsigmoid(presence.double())
    log_no = torch.nn.functional.logsigmoid(-presence.double())
    found = log_yes.new_zeros(presence.shape[0], 1)
    for yes, no in zip(log_yes.unbind(1), log_no.unbind(1), strict=True):
        without = torch.nn.functional.pad(found + no[:, None], (0, 1), value=-math.inf)
        present = torch.nn.functional.pad(found + yes[:, None], (1, 0), value=-math.inf)
        found = torch.logaddexp(without, present)
    return found


def subsets(slots: int, k: int, device: torch.device) -> Tensor:
    """Every choice of k of some slots, (number of choices, k), int64, slots of a choice in rising order."""
    chosen = list(itertools.combinations(range(slots), k))
    return torch.tensor(chosen, device=device).reshape(-1, k)
