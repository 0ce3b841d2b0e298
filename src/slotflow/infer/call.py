"""What is asked of observations, and what is assumed of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slotflow.core.budget import Budget
from slotflow.core.methods import METHODS, SAMPLERS
from slotflow.data.observation import Observation
from slotflow.exact.refine import Effort, check_budget
from slotflow.infer.assume import Basis
from slotflow.infer.request import DataRequest
from slotflow.infer.statement import Statement
from slotflow.network.options import KPrior
from slotflow.posterior.assumed import Assumed
from slotflow.signal.prior import Prior

__all__ = ["DEFAULT_SECONDS", "LAST_SHARE", "Call", "Case"]

DEFAULT_SECONDS = 10.0
"""Time budget of one window, where none is stated; a band in windows has one of its own."""
LAST_SHARE = 0.2
"""Share of the time budget that the exact step gets at least, whatever was spent before."""

SIGNALS_AT_ONCE = {"cpu": 32, "cuda": 4096}
"""Signals that go through the network together where nothing is stated: on the CPU what its caches hold."""
DECIDED_AT_ONCE = {"cpu": 256, "cuda": 32768}
"""Signals that the exact step looks at together: those with the same number of tones are one batch of it, which takes a
GPU hardly longer if it is large. What a GPU has no room for is halved."""


@dataclass(frozen=True)
class Call:
    """What is asked of every observation, checked."""

    method: str
    stated: Statement
    """What the user says of the prior."""
    k_prior: KPrior | None = None
    draws: int = 2000
    max_seconds: float | None = None
    seed: int = 0
    threads: int | None = None
    processes: int | None = None
    batch_size: int | None = None
    sampler: Mapping[str, Any] | None = None
    noise: Any = "auto"
    outliers: str | None = None
    trend: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(
                f"expected method to be one of {', '.join(METHODS)}, received {self.method!r}."
            )
        if self.sampler is not None and self.method not in SAMPLERS:
            raise ValueError(
                f"sampler= holds arguments of the methods {', '.join(SAMPLERS)}, received method = {self.method!r}; "
                "drop it or choose one of these methods."
            )
        for name, least in (("batch_size", 1), ("threads", 1), ("processes", 0), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | np.integer) and value >= least):
                raise ValueError(
                    f"expected {name} >= {least}, received {value!r}; give a whole number."
                )
        if self.exact:
            check_budget(self.draws, self.seconds)
        elif not self.seconds >= 0:
            raise ValueError(f"expected max_seconds >= 0, received {self.max_seconds}.")
        _ = self.request  # refuses what cannot be asked of the data

    @property
    def exact(self) -> bool:
        """Whether the exact step follows the network."""
        return self.method == "exact"

    @property
    def request(self) -> DataRequest:
        """What is said of the data."""
        return DataRequest(self.noise, self.outliers, self.trend)

    @property
    def seconds(self) -> float:
        """Time budget of an observation in one window."""
        return DEFAULT_SECONDS if self.max_seconds is None else self.max_seconds

    def signals_at_once(self, device: torch.device) -> int:
        """How many observations go through the network together."""
        if self.batch_size is not None:
            return self.batch_size
        return SIGNALS_AT_ONCE.get(device.type, SIGNALS_AT_ONCE["cpu"])

    def signals_in_chunk(self, device: torch.device) -> int:
        """How many observations are answered together: those of one pass of the network, or of several."""
        size = self.signals_at_once(device)
        decided = DECIDED_AT_ONCE.get(device.type, DECIDED_AT_ONCE["cpu"])
        return max(1, decided // size) * size if self.exact else size

    def effort(self, seconds: float) -> Effort:
        """How much work the exact step may be."""
        return Effort(self.draws, self.seed, seconds)

    @property
    def for_windows(self) -> dict[str, Any]:
        """What is asked of each window of a band."""
        names = ("k_prior", "draws", "seed", "threads", "noise", "outliers", "trend")
        return {"refine": self.exact} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Case:
    """An observation and what is assumed of it."""

    given: Observation
    """The data as they came."""
    stated: Statement
    """What the user says of the prior."""
    basis: Basis
    """What is assumed, and the data as they are analysed."""
    budget: Budget
    """Time for an answer in one window, of which some was spent on the noise."""
    in_windows: bool
    start: Prior | None
    """The prior that the network answers under; None if windows, another method or the general way answer."""

    @property
    def limits_k(self) -> bool:
        """Whether the user has said how many components there may be."""
        return self.stated.limits_k

    @property
    def observation(self) -> Observation:
        """The data as they are analysed."""
        return self.basis.observation

    @property
    def assumed(self) -> Assumed:
        """What is assumed of them."""
        return self.basis.assumed
