r"""A distribution over priors: each signal of a training batch is drawn under a prior of its own.

A network that is told the prior learns to use it only if the prior varies in training. A mixture has parts; a signal
picks one by weight and draws its own bounds within that part's ranges. With the base prior's band [f_lo, f_hi] of width
W and its upper amplitude bound A_hi, for independent uniforms u_1..u_4 on [0, 1):

.. math::
    s &= s_0 + u_1 (s_1 - s_0), \qquad A_{lo} = a_0 (a_1 / a_0)^{u_2}, \qquad w = [w_0 + u_3 (w_1 - w_0)] W, \\
    f &\in [f_{lo} + u_4 (W - w),\; f_{hi} - (1 - u_4)(W - w)], \qquad A \in [A_{lo}, A_{hi}] .

**Room.** K is common to a batch and never lowered, so k_max components have to fit into every band. Where
(k_max − 1) s reaches 0.9 w, the separation is lowered to 0.9 w / (k_max − 1): a tenth of the band stays free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.signal.prior import Prior
from slotflow.signal.prior_batch import PriorBatch

__all__ = ["MixturePart", "PriorMixture"]

MAX_FILLED_SHARE = 0.9
"""Largest share of a signal's band that the gaps between k_max components may take."""


@dataclass(frozen=True)
class MixturePart:
    """Ranges from which the bounds of a signal's own prior are drawn, in the units of the base prior."""

    weight: float
    """Share of the signals that belong to this part, relative to the other parts' weights."""
    min_separation: tuple[float, float]
    """The signal's minimum separation in Hz is uniform in this range; lowered where k_max tones would not fit."""
    amplitude_low: tuple[float, float]
    """The lower bound of A is log-uniform in this range; the upper bound is the base prior's."""
    width: tuple[float, float]
    """Share of the base prior's band that the signal's band covers, uniform in this range; (1, 1) is the whole band."""
    sigma: tuple[float, float]
    """Bounds of σ, which is uniform between them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", float(self.weight))
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"MixturePart expects a finite weight >= 0, received {self.weight}.")
        self._check("min_separation", "0 <= lower <= upper", lambda lo, hi: 0 <= lo <= hi)
        self._check("amplitude_low", "0 < lower <= upper", lambda lo, hi: 0 < lo <= hi)
        self._check("width", "0 < lower <= upper <= 1", lambda lo, hi: 0 < lo <= hi <= 1)
        self._check("sigma", "0 <= lower < upper", lambda lo, hi: 0 <= lo < hi)

    def _check(self, name: str, rule: str, holds: Callable[[float, float], bool]) -> None:
        """Checks a range and stores it as floats."""
        value: Sequence[float] = getattr(self, name)
        pair = tuple(float(v) for v in value)
        if len(pair) != 2 or not all(map(math.isfinite, pair)) or not holds(*pair):
            raise ValueError(
                f"MixturePart expects {name} as two finite numbers with {rule}, received {value!r}."
            )
        object.__setattr__(self, name, pair)


@dataclass(frozen=True)
class PriorMixture:
    """A mixture of ranges of priors around a base prior, which keeps p(K), the amplitude's law and the outer band."""

    parts: tuple[MixturePart, ...]
    """What is mixed; weights need not sum to one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or sum(part.weight for part in self.parts) <= 0:
            weights = [part.weight for part in self.parts]
            raise ValueError(
                f"PriorMixture expects at least one part with a weight above 0, received the weights {weights}."
            )

    def check(self, base: Prior) -> None:
        """Raises a ValueError if some part does not fit a base prior."""
        for i, part in enumerate(self.parts):
            if part.amplitude_low[1] >= base.amplitude[1]:
                raise ValueError(
                    f"parts[{i}]: expected amplitude_low below the base prior's upper bound of A, {base.amplitude[1]}, "
                    f"received {part.amplitude_low}; lower it or raise the base prior's bound."
                )

    def draw(self, base: Prior, n: int, generator: torch.Generator) -> PriorBatch:
        """Draws a prior for each of n signals, on the generator's device, without waiting for it.

        Args:
            base: Gives p(K), the amplitude's law and upper bound, and the band that all bands lie in.
            n: Number of signals.
            generator: Source of randomness.
        """
        if n < 1:
            raise ValueError(f"PriorMixture.draw expects n >= 1 signals, received {n}.")
        self.check(base)
        device = generator.device
        u = torch.rand(5, n, generator=generator, device=device, dtype=torch.float64)
        own = self._ranges(u[0])  # (n, 8)
        separation, low, share = (own[:, i] for i in (0, 2, 4))

        separation = separation + u[1] * (own[:, 1] - separation)
        low = torch.minimum(low * (own[:, 3] / low) ** u[2], own[:, 3])
        share = share + u[3] * (own[:, 5] - share)

        (f_lo, f_hi), a_hi = base.frequency, base.amplitude[1]
        width = share * (f_hi - f_lo)
        spare = (f_hi - f_lo) - width  # exactly 0 where the share is 1
        band = torch.stack([f_lo + u[4] * spare, f_hi - (1 - u[4]) * spare], dim=1)
        if base.k_max > 1:
            separation = torch.minimum(separation, MAX_FILLED_SHARE / (base.k_max - 1) * width)

        return PriorBatch(
            base.k_min,
            base.k_max,
            base.k_probs,
            torch.stack([low, torch.full_like(low, a_hi)], dim=1),
            band,
            separation,
            own[:, 6:8],
            base.amplitude_law,
        )

    def _ranges(self, u: Tensor) -> Tensor:
        """Picks a part for each u in [0, 1), shape (n,), and returns its four ranges, shape (n, 8)."""
        weights = torch.tensor([part.weight for part in self.parts], dtype=torch.float64)
        ranges = torch.tensor(
            [[*p.min_separation, *p.amplitude_low, *p.width, *p.sigma] for p in self.parts],
            dtype=torch.float64,
        )
        ends = (weights.cumsum(0) / weights.sum())[:-1]  # where one part's share of [0, 1) ends
        part = (u[:, None] >= upload(ends, u.device)).sum(1)
        return upload(ranges, u.device)[part]
