r"""The flow term of the loss (paper, sections 3.5 and 3.7): matched pairs of slots and components, class by class.

.. math:: \mathcal{L}_{flow} = -\frac1K \sum_k \log q_{c_k}(y_{\pi^*(k)} \mid s_k) ,

averaged over the signals of a batch. π* is the cheapest assignment under the cost −log q of all pairs of one signal,
infinite for a slot and a component of different classes. The costs are computed in one call for each class without
gradient; only the matched pairs are evaluated with it. A batch costs O(ΣK²) network rows without and O(ΣK) with
gradient, and neither K_max nor the number of classes enters. The paper's network of one class is the case C = 1. Where
slots take components in a given order there are no costs, and only the rows with gradient remain.

Several classes share the components of a signal, so that each has few of them and ΣK_c² is hardly more than ΣK_c. All
pairs are then evaluated with gradient, and the matched ones need no second evaluation, which halves what the host has
to launch.

**Precision.** Costs without gradient only decide who belongs to whom, and bfloat16 is enough for that. What is learned
from is in the precision of the weights: bfloat16 rounds a coordinate by about a thousandth, as much as a trained
network is uncertain by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.network.flow import ConditionalFlow
from slotflow.network.matching import all_pairs, match_classes
from slotflow.network.paper.onehot import slot_contexts, slot_index

__all__ = ["Density", "matched_loss"]

Density = Callable[[Tensor, Tensor], Tensor]
"""Log density of coordinates, (S, d), given rows of `ConditionalFlow.project`, (S, L, H): (S,)."""

PAIRS_PER_SLOT = 2.0
"""Pairs per slot up to which all pairs of several classes are evaluated once, with gradient."""


def matched_loss(
    flows: Sequence[ConditionalFlow],
    g: Tensor,
    targets: Sequence[Tensor],
    slots: Tensor,
    counts: Tensor,
    *,
    densities: Sequence[Density] | None = None,
    low_precision: bool = False,
    ordered: bool = False,
) -> Tensor:
    """Hungarian-matched negative log-likelihood, a scalar.

    The flow of a class that no signal of the batch has gets a gradient of zero rather than none, which training on
    several processes needs.

    Args:
        flows: The flow of each class; the context of slot k of a class is [g, e_k].
        g: Global contexts, (B, H).
        targets: Coordinates of each class's components, signal after signal, (ΣK_c, d_c).
        slots: Slots of each signal and class, (B, C), int64, on the CPU.
        counts: Components of each signal and class, (B, C), int64, on the CPU.
        densities: What computes each flow's log density; the flows themselves if not given.
        low_precision: bfloat16 for costs without gradient.
        ordered: Slot k takes component k, without costs; for one class with as many slots as components.
    """
    device, g = g.device, g if g.dtype == torch.float64 else g.float()
    densities = [flow.log_prob for flow in flows] if densities is None else densities
    rows_of = [slot_index(number) for number in slots.T]
    few = len(flows) > 1 and bool((slots * counts).sum() <= PAIRS_PER_SLOT * slots.sum())
    projected, scores = [], []
    for flow, density, y, (signal, slot), n, m in zip(
        flows, densities, targets, rows_of, slots.T, counts.T, strict=True
    ):
        k_max = flow.context - g.shape[-1]
        contexts = slot_contexts(g, upload(signal, device), upload(slot, device), k_max)
        projected.append(flow.project(contexts))  # (Σ slots, L, H)
        if not ordered:
            rough = low_precision and not few
            scores.append(_costed(density, projected[-1], y, n, m, rough=rough, graded=few))

    if ordered:
        pairs = [(torch.arange(len(signal)),) * 2 for signal, _ in rows_of]
    else:
        pairs = match_classes([-score.detach() for score in scores], slots, counts)
    matched = torch.stack(
        [
            torch.bincount(signal[rows], minlength=len(slots))
            for (signal, _), (rows, _) in zip(rows_of, pairs, strict=True)
        ]
    ).sum(0)  # matched pairs of each signal, (B,)
    total = g.new_zeros(())
    for c, (flow, (signal, _), (rows, columns)) in enumerate(
        zip(flows, rows_of, pairs, strict=True)
    ):
        if not len(rows):
            total = total + 0.0 * torch.stack([p.sum() for p in flow.parameters()]).sum()
            continue
        if few:
            log_q = scores[c][upload(_pair(rows, columns, signal, counts[:, c]), device)]
        else:
            terms = projected[c]
            if len(rows) < len(terms):  # otherwise every slot is matched, in order
                terms = terms[upload(rows, device)]
            log_q = densities[c](terms, targets[c][upload(columns, device)])  # (Σ min,)
        share = (1.0 / matched[signal[rows]].double()).to(log_q.dtype)
        total = total - (log_q * upload(share, device)).sum()
    return total / len(slots)


def _costed(
    density: Density,
    projected: Tensor,
    y: Tensor,
    n: Tensor,
    m: Tensor,
    *,
    rough: bool,
    graded: bool,
) -> Tensor:
    """Log densities of all pairs of one class, (Σ slots·K,).

    Args:
        density: Of the class's flow.
        projected: Context terms of its slots, (Σ slots, L, H).
        y: Coordinates of its components, (ΣK, d).
        n: Slots of each signal, (B,).
        m: Components of each signal, (B,).
        rough: bfloat16.
        graded: With gradient.
    """
    device = projected.device
    with (
        torch.set_grad_enabled(graded and torch.is_grad_enabled()),
        # No weight is used twice, and a recorded graph must not hold on to rounded copies of them.
        torch.autocast(device.type, torch.bfloat16, enabled=rough, cache_enabled=False),
    ):
        i, j = (upload(index, device) for index in all_pairs(n, m))
        terms = projected.to(torch.bfloat16) if rough else projected
        return density(terms[i], y[j]) if len(i) else y.new_zeros(0)


def _pair(rows: Tensor, columns: Tensor, signal: Tensor, counts: Tensor) -> Tensor:
    """Place of matched pairs in the order of `all_pairs`.

    Args:
        rows: Their slot rows, (Σ min,).
        columns: Their component rows, (Σ min,).
        signal: Signal of every slot row, (Σ slots,).
        counts: Components of each signal, (B,).
    """
    width = counts[signal]  # pairs of each slot
    first = width.cumsum(0) - width
    return first[rows] + columns - (counts.cumsum(0) - counts)[signal[rows]]
