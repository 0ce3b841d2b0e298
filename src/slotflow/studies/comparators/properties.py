r"""The properties that the paper's table 1 ticks, measured of a method.

- **Equivariance.** The largest change of the labelled density ln q(θ_1, …, θ_K | K, x) when the labels of true
  components are permuted, in float64 where the method can be turned into it. A method that treats components alike
  shows rounding errors, one with slots or places of its own hundreds of nats.
- **Dependence between components.** Two tones a little above the smallest separation of the prior; the correlations
  between the parameters of one and of the other in the method's draws. Measured is the largest of the nine in absolute
  value, components as the method draws them. Components that are independent given x show about √(2 ln 9 / n), n
  draws; those of an exchangeable set that keep out of each other's way are correlated. Beside it stands the one that is
  largest in the exact posterior, in its direction, and its value there. For that, the components are in the order of
  their mean frequencies, or of each draw's frequencies if they have no labels. At these signal-to-noise ratios the
  exact posterior is Gaussian with the joint Cramér–Rao bound for a covariance (`slotflow.signal.bounds`).
- **Scaling.** Floating-point operations of matrix products of a draw and of the loss, without those of the encoder and
  of what is conditioned on, K = K_max against K = 1; as an exponent, ln(ratio)/ln(K_max). A cost of O(K) has the
  exponent 1, one of O(K_max) the exponent 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from slotflow.core.arrays import Array
from slotflow.network.config import ModelConfig
from slotflow.signal.bounds import crb_covariance
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation, simulate
from slotflow.studies.comparators.interface import Comparator
from slotflow.studies.comparators.orders import all_orders
from slotflow.studies.comparators.scores import Method
from slotflow.studies.frame.study import Data
from slotflow.studies.measures.correlation import between_components, correlation
from slotflow.studies.measures.parameters import PLACE

__all__ = ["close_pairs", "dependence", "label_change", "properties_of", "work"]

PERMUTED_TONES = 3
"""Tones whose labels are permuted."""
LARGEST_CHANGE = 1000.0
"""Changes of a log density are cut off here."""
PAIR_GAP = (1.1, 1.15)
"""Distance of the tones of a pair in units of the prior's smallest: a little above, where its edge cuts nothing off."""
WORK_SIGNALS, WORK_DRAWS = 4, 16
"""Signals whose operations are counted, and draws of each."""


def properties_of(method: Method, config: ModelConfig, signals: int, draws: int, seed: int) -> Data:
    """All properties of a method.

    Args:
        method: Trained.
        config: Prior and sampling of its task.
        signals: Signals behind the change of labels, and close pairs.
        draws: Draws of each pair.
        seed: Of signals and draws.

    Returns:
        "label_change", "dependence" (see `dependence`), "work_draw" and "work_loss" (see `work`; None for a method that
        is not trained here).
    """
    device = method.device
    three = simulate(config.prior, signals, config.long, config.short, seed=seed, k=PERMUTED_TONES,
                     device=device)  # fmt: skip
    pairs = close_pairs(config, signals, seed + 1, device)
    generator = torch.Generator(device=device).manual_seed(seed % 2**62)
    found: Data = {"label_change": label_change(method, three)}
    found["dependence"] = dependence(method, pairs, draws, generator)
    found["work_draw"] = found["work_loss"] = None
    if isinstance(method, Comparator):
        found["work_draw"], found["work_loss"] = work(method, config, seed)
    return found


@torch.no_grad()
def label_change(method: Method, batch: Simulation) -> float:
    """Largest change of the labelled log density of the true components under all orders, over signals of one K."""
    k = int(batch.k[0])
    if isinstance(method, Comparator):
        method = deepcopy(method).double()
    encoded, theta = method.encode(batch), batch.theta[:, :k]
    orders = all_orders(k, theta.device)
    values = torch.stack([method.log_prob(encoded, theta[:, order]) for order in orders])
    change = (values - values[0]).abs().nan_to_num(nan=0.0, posinf=LARGEST_CHANGE)
    return min(float(change.max()), LARGEST_CHANGE)


def close_pairs(config: ModelConfig, n: int, seed: int, device: torch.device) -> Simulation:
    """Signals of two tones a little above the smallest separation, mid-band, the rest as in the prior."""
    prior: Prior = config.prior
    low, high = (factor * prior.min_separation for factor in PAIR_GAP)
    band = (sum(prior.frequency) / 2 - high / 2, sum(prior.frequency) / 2 + high / 2)
    pair = replace(prior, k_min=2, k_max=2, k_probs=None, frequency=band, min_separation=low)
    return simulate(pair, n, config.long, config.short, seed=seed, device=device)


@torch.no_grad()
def dependence(method: Method, pairs: Simulation, draws: int, generator: torch.Generator) -> Data:
    """Correlations between the tones of close pairs, in a method's draws and in the exact posterior.

    Args:
        method: What draws.
        pairs: Signals of two tones.
        draws: Of each.
        generator: On the method's device.

    Returns:
        For each pair the "largest" in the method's draws, the one that is largest in the exact posterior as "found" in
        the method's draws and as it is there, "exact", all positive if the method has the right sign.
    """
    theta = method.draw(method.encode(pairs), 2, draws, generator)  # (B, n, 2, P)
    theta = theta.nan_to_num()
    place = theta[..., PLACE]
    place = place.mean(1, keepdim=True).expand_as(place) if method.labelled else place
    ordered = theta.gather(2, place.argsort(-1)[..., None].expand_as(theta))
    values: Data = {"largest": [], "found": [], "exact": []}
    for drawn, sorted_, true in zip(_arrays(theta), _arrays(ordered), _exact(pairs), strict=True):
        at = np.unravel_index(np.abs(true).argmax(), true.shape)
        values["largest"].append(float(np.abs(_between(drawn)).max()))
        values["found"].append(float(np.sign(true[at]) * _between(sorted_)[at]))
        values["exact"].append(float(np.abs(true[at])))
    return values


def _arrays(theta: Tensor) -> list[Array]:
    """Draws of each signal, (n, 2, P) each."""
    return list(theta.cpu().numpy())


def _between(draws: Array) -> Array:
    """Correlations between one component and the other of equally weighted draws, (n, 2, P) to (P, P)."""
    matrix = correlation(draws, np.full(len(draws), 1 / len(draws)))
    found: Array = np.nan_to_num(between_components(matrix))
    return found


def _exact(pairs: Simulation) -> list[Array]:
    """Correlations between one tone and the other of each pair under the joint bound, (P, P) each."""
    covariance: Tensor = crb_covariance(
        pairs.theta.cpu(), pairs.sigma.cpu().clamp_min(1e-6), pairs.grids
    )
    scale = covariance.diagonal(dim1=-2, dim2=-1).rsqrt()  # (B, 2P)
    matrix = (covariance * scale[:, :, None] * scale[:, None]).numpy()
    return [between_components(one) for one in matrix]


def work(method: Comparator, config: ModelConfig, seed: int) -> tuple[float, float]:
    """Exponents of K in the operations of draws and of the loss, from K = 1 and K = K_max."""
    counts = []
    for k in (1, method.k_max):
        batch = simulate(config.prior, WORK_SIGNALS, config.long, config.short, seed=seed, k=k,
                         device=method.device)  # fmt: skip
        generator = torch.Generator(device=method.device).manual_seed(0)
        encoded = method.encode(batch)
        draw = _operations(lambda: method.draw(encoded, k, WORK_DRAWS, generator))  # noqa: B023
        loss = _operations(lambda: method.loss(batch)) - _operations(lambda: method.encode(batch))  # noqa: B023
        counts.append((draw, loss))
    one, most = counts
    of_draw, of_loss = (
        math.log(b / a) / math.log(method.k_max) for a, b in zip(one, most, strict=True)
    )
    return of_draw, of_loss


def _operations(call: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in a call."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())
