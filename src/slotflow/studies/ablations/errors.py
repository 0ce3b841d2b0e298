r"""How far the draws of a trained network lie from the truth, how well it counts, and the score of its density.

**Errors** (paper, figures 11, 13 and 14). The slots of a signal at its true K are matched to the true components under
the network's own density, as in training; from each slot some θ are drawn, and all differences to the slot's component
are pooled over slots and signals. Their standard deviation is what the paper prints. One draw far outside the band
decides it, so half the distance between their quantiles Φ(−1) and Φ(1) stands beside it.

**Score.** The loss of a variant lives in the coordinates of its own target, and losses of different weights or targets
cannot be compared. The mean of −ln q(A, φ, f | x) at the truth can: for the paper's target it is the radial integral of
`slotflow.network.paper.target`, for the plane the density itself. A flow that only grows thinner around the paper's
circle improves its loss and not its score.

**Thickness.** For the paper's target, half the distance between the same quantiles of r/w_φ over the draws of a slot,
the median over slots: what a degenerate density drives to 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.core.seeds import spread_seed
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.paper.target import CircleTarget
from slotflow.signal.simulation import Simulation
from slotflow.studies.frame.study import Data
from slotflow.studies.measures.cardinality import confusion
from slotflow.studies.measures.parameters import AMPLITUDE, PHASE, PLACE, differences
from slotflow.studies.measures.precision import LOWER_TAIL, robust_sd
from slotflow.studies.slots import matched_pairs, slot_terms

__all__ = ["HISTOGRAM_BINS", "HISTOGRAM_HALF_WIDTHS", "PARAMETERS", "errors_of", "score_of"]

PARAMETERS = {"A": AMPLITUDE, "φ": PHASE, "f": PLACE}
"""Columns of what the paper reports."""
FARTHEST = 1e6
"""Errors and scores beyond this, and those that are no numbers, count as this: draws of a flow that has diverged."""
HISTOGRAM_BINS = 121
HISTOGRAM_HALF_WIDTHS = {"A": 0.6, "φ": 3.1416, "f": 0.06}
"""Largest errors that the histograms hold, in data units, rad and Hz."""
SHARE_DIGITS = 6
"""Digits of a histogram's shares that are kept."""


@torch.no_grad()
def errors_of(network: PaperSlotFlow, batches: Sequence[Simulation], draws: int, seed: int) -> Data:
    """Everything that is measured of a trained network.

    Args:
        network: The network.
        batches: Fresh signals, on its device.
        draws: Draws of each slot.
        seed: Of the draws.

    Returns:
        For each parameter "sd", "robust" and "mean" of the errors and a "histogram" of them; "accuracy" and "confusion"
        of the most probable K; "score".
    """
    pooled, scores, matrices = [], [], []
    for number, batch in enumerate(batches):
        terms, logits = slot_terms(network, batch)
        truth, theta, score, _ = _compared(network, batch, terms, draws, seed + number)
        pooled.append(_bounded(differences(theta, truth)).flatten(0, 1).cpu())  # (n ΣK, P)
        scores.append(score)
        matrices.append(confusion(logits.argmax(-1).cpu(), batch.k, network.k_max))
    errors, matrix = torch.cat(pooled), torch.stack(matrices).sum(0)
    columns = {name: errors[:, column] for name, column in PARAMETERS.items()}
    return {
        "sd": {name: float(values.std()) for name, values in columns.items()},
        "robust": {name: robust_sd(values)[0] for name, values in columns.items()},
        "mean": {name: float(values.mean()) for name, values in columns.items()},
        "histogram": {
            name: _histogram(values, HISTOGRAM_HALF_WIDTHS[name])
            for name, values in columns.items()
        },
        "accuracy": float(matrix.trace() / matrix.sum()),
        "confusion": matrix.tolist(),
        "score": float(torch.cat(scores).mean()),
    }


@torch.no_grad()
def score_of(network: PaperSlotFlow, batch: Simulation, draws: int, seed: int) -> Data:
    """The "score" and, for the paper's target, the "thickness" (None otherwise) of a network in training."""
    terms, _ = slot_terms(network, batch)
    _, _, score, raw = _compared(network, batch, terms, draws, seed)
    thickness = None
    if isinstance(network.target, CircleTarget):
        at, weight = network.target.circle, network.target.phase_weight
        radius = _bounded(raw.double()[..., at : at + 2].norm(dim=-1) / weight)  # (n, ΣK)
        levels = torch.tensor([LOWER_TAIL, 1 - LOWER_TAIL], dtype=radius.dtype)
        low, high = torch.quantile(radius, levels.to(radius.device), dim=0)
        thickness = float((high - low).median() / 2)
    return {"score": float(score.mean()), "thickness": thickness}


def _compared(
    network: PaperSlotFlow, batch: Simulation, terms: Tensor, draws: int, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The component of each slot, draws of the slot, the score of the one under the other.

    Args:
        network: The network.
        batch: Signals.
        terms: Context terms of the slots, (ΣK, L, H).
        draws: n.
        seed: Of the draws.

    Returns:
        True components in the order of the slots, (ΣK, P), draws, (n, ΣK, P), scores, (ΣK,), on the CPU, and the draws
        in the flow's coordinates, (n, ΣK, dim).
    """
    target, device = network.target, terms.device
    pairs = upload(matched_pairs(network, batch, terms), device)
    truth = batch.theta[batch.mask][pairs]  # (ΣK, P)
    generator = torch.Generator(device=device).manual_seed(spread_seed(seed))
    raw = network.flow.draw(terms, draws, generator)  # (n, ΣK, dim)
    radii, weights = target.radial_rule(_bounded(raw))  # (R, ΣK)
    y = target.at_radius(truth, radii).to(network.dtype)  # (R, ΣK, dim)
    inside = torch.logsumexp(network.flow.log_prob(terms, y).double() + weights.log(), dim=0)
    score = _bounded(-inside - target.log_slopes(truth))
    return truth, target.decode(raw), score.cpu(), raw


def _bounded(values: Tensor) -> Tensor:
    """The same numbers, or the farthest that count."""
    found = values.nan_to_num(nan=FARTHEST, posinf=FARTHEST, neginf=-FARTHEST)
    return found.clamp(-FARTHEST, FARTHEST)


def _histogram(errors: Tensor, half_width: float) -> list[float]:
    """Shares of all errors, (N,), in equal bins of ± half_width; those beyond are in none."""
    counts = torch.histc(errors, HISTOGRAM_BINS, -half_width, half_width)
    return [round(share, SHARE_DIGITS) for share in (counts / len(errors)).tolist()]
