r"""Learning curves: where a loss would be after more signals than were seen, and how little is known of it.

**Law.** Losses fall about as a power of the signals seen, towards what no training gets below,

.. math:: L(N) = L_∞ + c\, N^{-β}, \qquad c > 0, \; β > 0 .

Without L_∞ the law would be a straight line in log–log axes that no density can follow for ever, and a loss that is
negative has no logarithm. With it, three points determine the law exactly and test nothing. So no best fit is asked
for, but all laws that the points allow.

**What the points allow.** For a given β the law is linear in its values at the first and the last point, L_1 and L_n,
for which the likelihood is Gaussian; both have a flat prior, and β one on `EXPONENTS`. The posterior of β follows from
the evidence of each value, and that of L(N) at any N is a mixture of Gaussians, from which we draw. Laws that rise are
left out. The answer depends on the prior of β, which the range that comes with it shows.

**Which points.** A network that still moves at a large learning rate has another loss than the same network annealed.
Only validations at the end of an annealing count: those that the training marks as the end of a cycle, those after
which the learning rate rises again (a training that was resumed with more time), and the last one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed

__all__ = ["LawDraws", "annealed_points", "laws_through", "read_metrics"]

EXPONENTS = np.linspace(0.05, 1.5, 59)
"""Values of β that are thought possible."""
ANNEALED = 0.05
"""Share of its peak that the learning rate has fallen below at the end of an annealing."""
FEWEST_POINTS = 3
DRAWS = 4000


@dataclass(frozen=True, eq=False)
class LawDraws:
    """Draws of laws that some points allow, n of them."""

    exponent: Array
    """β, (n,)."""
    first: Array
    """L at the first point, (n,)."""
    last: Array
    """L at the last point, (n,)."""
    signals: Array
    """Signals at the first and the last point, (2,)."""

    def at(self, signals: float | Array) -> Array:
        """L(N), (n,), or (n, m) at m numbers of signals."""
        n = np.asarray(signals, dtype=float)
        share = _share_left(n[..., None] if n.ndim else n, self.exponent, self.signals)
        found: Array = (self.last + share * (self.first - self.last)).T
        return found

    @property
    def floor(self) -> Array:
        """L_∞, (n,)."""
        return self.at(np.inf)


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Lines of a metrics file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def annealed_points(
    metrics: Sequence[Mapping[str, Any]], batch: int, name: str = "loss"
) -> list[tuple[int, float]]:
    """Signals seen and a validation term at the end of each annealing.

    Args:
        metrics: Lines of a metrics file, in their order.
        batch: Signals of a step, where the lines do not say how many were seen.
        name: The term.
    """
    points: list[tuple[int, float]] = []
    candidate: tuple[int, float] | None = None
    rate, peak = 0.0, 0.0
    for line in metrics:
        if line["split"] == "val":
            point = (int(line.get("signals", line["step"] * batch)), float(line[name]))
            candidate = point if rate < ANNEALED * peak else None
            if "cycle" in line:  # the end of one, however far back the last line on a rate is
                points.append(point)
                candidate, rate, peak = None, 0.0, 0.0
            continue
        new = float(line["lr"])
        if candidate is not None and new > rate:  # a restart
            points.append(candidate)
            candidate, peak = None, 0.0
        rate, peak = new, max(peak, new)
    return points if candidate is None else [*points, candidate]


def laws_through(points: Sequence[tuple[float, float]], error: float, seed: int = 0) -> LawDraws:
    """Draws of the laws that some points allow.

    Args:
        points: Signals, rising, and losses; at least three.
        error: Standard error of a loss, about which law and measurement may differ.
        seed: Of the draws.
    """
    if len(points) < FEWEST_POINTS:
        raise ValueError(
            f"expected at least {FEWEST_POINTS} annealed points for a law with an offset, received {len(points)}."
        )
    signals, losses = np.array(points, dtype=float).T  # (p,)
    ends = signals[[0, -1]]
    rng = np.random.default_rng(spread_seed(seed))
    evidence, centres, factors = [], [], []
    for exponent in EXPONENTS:
        share = _share_left(signals, exponent, ends)
        design = np.stack([share, 1 - share], -1) / error  # of (L_1, L_n), (p, 2)
        precision = design.T @ design
        centre = np.linalg.solve(precision, design.T @ (losses / error))
        misfit = ((losses / error - design @ centre) ** 2).sum()
        evidence.append(-misfit / 2 - np.linalg.slogdet(precision)[1] / 2)
        centres.append(centre)
        factors.append(np.linalg.cholesky(np.linalg.inv(precision)))
    weight = np.exp(np.array(evidence) - max(evidence))
    chosen = rng.choice(len(EXPONENTS), DRAWS, p=weight / weight.sum())
    normal = rng.standard_normal((DRAWS, 2, 1))
    both = np.array(centres)[chosen] + (np.array(factors)[chosen] @ normal)[..., 0]
    falls = both[:, 0] > both[:, 1]
    if not falls.any():
        raise ValueError(f"expected losses that fall with the signals, received {losses.tolist()}.")
    return LawDraws(EXPONENTS[chosen][falls], both[falls, 0], both[falls, 1], ends)


def _share_left(signals: Any, exponent: Any, ends: Array) -> Any:
    """(N^−β − N_n^−β) / (N_1^−β − N_n^−β): 1 at the first point, 0 at the last, negative beyond it."""
    first, last = ends
    at, end = (np.asarray(signals) / first) ** -exponent, (last / first) ** -exponent
    return (at - end) / (1 - end)
