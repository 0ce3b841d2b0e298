r"""What is measured of a trained method on fresh signals: counts, catalogue, calibration, joint density, speed.

- **exact-K** and the expected calibration error of the most probable K (`measures/cardinality`).
- **catalogue F1**: medians of the frequencies of draws at the most probable K, in the order of frequency, beside the
  true ones; a pair counts within half the smallest separation of the prior (`measures/catalogue`).
- **error of f**: the median over true tones of |median of the draws − truth| at the true K.
- **coverage** of the central intervals of A, φ and f at the true K (`measures/calibration`).
- **ln q(Θ, K | x)** of the true set: ln q(K | x) plus the density of the set, summed over labels (`interface`), and the
  same of the prior, ln p(K) + ln p(Θ | K) + ln K!, beside it.
- **draws per second**: sets of components, from signals on the device to draws at the true K.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.studies.comparators.interface import by_count
from slotflow.studies.frame.study import Data
from slotflow.studies.measures.calibration import coverage, deviation_of_perfect
from slotflow.studies.measures.cardinality import ece, ece_of_perfect, top_label
from slotflow.studies.measures.catalogue import compare_catalogues
from slotflow.studies.measures.parameters import PLACE, SIZE, SYMBOLS
from slotflow.studies.measures.tones import ToneSummary, midpoint, sort_by_place, summarise

__all__ = ["Method", "draw_at", "log_joint", "scores_of"]

FARTHEST = 1e6
"""Numbers beyond this, and those that are none, count as this: draws and densities of a flow that has diverged."""
TIMED_CALLS = 3
"""Calls of which the median counts, after one that does not."""


class Method(Protocol):
    """What can be measured: a `Comparator`, or the released network."""

    k_max: int
    labelled: bool

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def n_parameters(self) -> int:
        """Numbers that were trained."""

    def encode(self, batch: Simulation) -> Any:
        """Signals to what it conditions on."""

    def draw(self, encoded: Any, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P)."""

    def log_prob(self, encoded: Any, theta: Tensor) -> Tensor:
        """Ln q of labelled components, (B, k, P) to (B,)."""

    def log_prob_set(self, encoded: Any, theta: Tensor) -> Tensor:
        """Ln q of the set, (B, k, P) to (B,)."""


@torch.no_grad()
def scores_of(
    method: Method, batches: Sequence[Simulation], prior: Prior, draws: int, seed: int
) -> Data:
    """Everything that is measured of a method.

    Args:
        method: What to measure.
        batches: Fresh signals, on its device.
        prior: What they were drawn from.
        draws: Of each signal.
        seed: Of the draws.

    Returns:
        "exact_k", "log_count" (mean ln q(K | x) − ln p(K)), "ece" and "ece_perfect" (mean and quantile 95 %), "f1",
        its "tolerance", "f_error", "coverage" and its worst parameter and level, "coverage_perfect", "log_q",
        "log_prior", "draws_per_second", "parameters".
    """
    generator = torch.Generator(device=method.device).manual_seed(spread_seed(seed))
    summaries, masks, probs, log_q, log_prior, places, counts = [], [], [], [], [], [], []
    for number, batch in enumerate(batches):
        encoded = method.encode(batch)
        k_probs = encoded.log_counts.exp().cpu()
        k_map = top_label(k_probs)[0]
        at_truth = draw_at(method, encoded, batch.k, draws, generator)
        mask = batch.mask
        summaries.append(summarise(at_truth, batch.theta, mask, seed + number).cpu())
        at_map = draw_at(method, encoded, k_map, draws, generator)
        exists = (torch.arange(method.k_max) < k_map[:, None]).to(at_map.device)
        places.append(midpoint(sort_by_place(at_map, exists)[..., PLACE]).cpu())
        counts.append(k_map)
        masks.append(mask.cpu())
        probs.append(k_probs)
        log_q.append(log_joint(method, encoded, batch).cpu())
        log_prior.append(_log_prior(prior, batch))
    k = torch.cat([batch.k for batch in batches])
    truth = torch.cat([batch.theta[..., PLACE].cpu() for batch in batches])
    tolerance = prior.min_separation / 2
    found = compare_catalogues(torch.cat(places), torch.cat(counts), truth, k, tolerance)
    return {
        **_count_scores(torch.cat(probs), k, prior),
        **_coverage_scores(ToneSummary.cat(summaries), torch.cat(masks)),
        "f1": found.f1,
        "f_error": _place_error(ToneSummary.cat(summaries), truth, torch.cat(masks)),
        "tolerance": tolerance,
        "log_q": float(torch.cat(log_q).mean()),
        "log_prior": float(torch.cat(log_prior).mean()),
        "draws_per_second": _rate(method, batches[0], draws),
        "parameters": method.n_parameters,
    }


def draw_at(method: Method, encoded: Any, k: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Draws of as many components as each signal is said to have.

    Args:
        method: What draws.
        encoded: B signals.
        k: Components of each, (B,), int64, on the CPU.
        n: Draws.
        generator: On the method's device.

    Returns:
        (B, n, k_max, P), float64; zeros beyond the first k.
    """
    found = torch.zeros(len(k), n, method.k_max, SIZE, dtype=torch.float64, device=method.device)
    for count, rows in by_count(k).items():
        if count:
            rows = rows.to(method.device)
            found[rows, :, :count] = _bounded(method.draw(encoded.take(rows), count, n, generator))
    return found


def log_joint(method: Method, encoded: Any, batch: Simulation) -> Tensor:
    """Ln q(Θ, K | x) of the true sets, (B,), float64, on the method's device."""
    found = torch.zeros(len(batch.k), dtype=torch.float64, device=method.device)
    for count, rows in by_count(batch.k).items():
        rows = rows.to(method.device)
        some = encoded.take(rows)
        log_set = method.log_prob_set(some, batch.theta[rows, :count])
        found[rows] = _bounded(some.log_counts[:, count] + log_set)
    return found


def _count_scores(k_probs: Tensor, k: Tensor, prior: Prior) -> Data:
    """Exact-K, its calibration, and what q(K | x) says of the true K, from (n, k_max + 1) and (n,)."""
    k_map, confidence = top_label(k_probs)
    gain = k_probs.gather(1, k[:, None])[:, 0].log() - prior.log_prob_k(k)
    return {
        "exact_k": float((k_map == k).double().mean()),
        "log_count": float(_bounded(gain).mean()),
        "ece": float(ece(confidence, k_map == k)),
        "ece_perfect": list(ece_of_perfect(k_probs)),
    }


def _coverage_scores(summary: ToneSummary, mask: Tensor) -> Data:
    """The largest |coverage − α| over levels and parameters, where it is, and what a perfect posterior would show."""
    curve = coverage(summary.level, mask)
    deviation = abs(curve.deviation)  # (L, P)
    level, parameter = divmod(int(deviation.argmax()), deviation.shape[1])
    return {
        "coverage": float(deviation.max()),
        "coverage_sign": float(curve.deviation[level, parameter]),
        "coverage_at": [float(curve.levels[level]), SYMBOLS[parameter]],
        "coverage_perfect": deviation_of_perfect(curve.n_tones),
    }


def _place_error(summary: ToneSummary, truth: Tensor, mask: Tensor) -> float:
    """Median over tones of the error of the frequency, from true ones (n, K) and which of them exist, (n, K)."""
    return float((summary.median[..., PLACE] - truth)[mask].abs().median())


def _log_prior(prior: Prior, batch: Simulation) -> Tensor:
    """Ln p(K) + ln p(Θ | K) + ln K! of the true sets, (B,)."""
    found = prior.log_prob_k(batch.k).double()
    for count, rows in by_count(batch.k).items():
        theta = batch.theta.cpu()[rows, :count]
        found[rows] += prior.log_prob_theta(theta) + math.lgamma(count + 1)
    return found


def _rate(method: Method, batch: Simulation, draws: int) -> float:
    """Sets of components per second, encoder included."""
    seconds = []
    for number in range(TIMED_CALLS + 1):
        generator = torch.Generator(device=method.device).manual_seed(number)
        _wait(method.device)
        began = time.perf_counter()
        draw_at(method, method.encode(batch), batch.k, draws, generator)
        _wait(method.device)
        seconds.append(time.perf_counter() - began)
    return len(batch.k) * draws / statistics.median(seconds[1:])


def _wait(device: torch.device) -> None:
    """Lets the device finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _bounded(values: Tensor) -> Tensor:
    """The same numbers, or the farthest that count."""
    found = values.nan_to_num(nan=-FARTHEST, posinf=FARTHEST, neginf=-FARTHEST)
    return found.clamp(-FARTHEST, FARTHEST)
