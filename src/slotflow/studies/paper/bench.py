"""What all results share: sizes and seed, the network, and test sets that are analysed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from slotflow.signal.prior import Prior
from slotflow.studies.paper.exact_step import ExactSet, ExactStep
from slotflow.studies.suites.analyser import Analyser
from slotflow.studies.suites.results import SetResult, run_set
from slotflow.studies.suites.sets import SEED_LIMIT, SignalSet, Sizes

__all__ = ["METHODS", "QUICK", "Bench", "Settings"]

METHODS = {"network": ("network",), "exact": ("exact",), "both": ("network", "exact")}
"""What --method names: the network alone, the exact step behind it, or one beside the other."""


@dataclass(frozen=True)
class Settings:
    """Sizes and seed. The defaults are the paper's."""

    n: int = 10_000
    """Test signals of a set; a tenth of it for each K of the scaling and for the mixtures of the slots."""
    draws: int = 500
    """Posterior draws per slot."""
    repeats: int = 100
    """Repeated inferences of one signal."""
    seed: int = 0
    """The same seed gives the same numbers on the same kind of device."""
    method: str = "both"
    """Key of `METHODS`, for the results that can be had with and without the exact step."""

    def __post_init__(self) -> None:
        if self.n < 20 or self.draws < 20 or self.repeats < 2:
            raise ValueError(
                f"expected n >= 20 signals, draws >= 20 and repeats >= 2, received {self.n}, {self.draws} and "
                f"{self.repeats}; fewer say nothing."
            )
        if not 0 <= self.seed < SEED_LIMIT:
            raise ValueError(f"expected a seed from 0 to {SEED_LIMIT - 1}, received {self.seed}.")
        if self.method not in METHODS:
            raise ValueError(
                f"expected a method of {', '.join(METHODS)}, received {self.method!r}."
            )

    @property
    def methods(self) -> tuple[str, ...]:
        """Which of "network" and "exact" are asked for."""
        return METHODS[self.method]

    @property
    def tenth(self) -> int:
        """A tenth of n, for what is repeated for each K."""
        return self.n // 10

    @property
    def exact_n(self) -> int:
        """Signals of a set behind the exact step, which takes some tenths of a second each."""
        return max(4, self.n // 10)

    @property
    def exact_tenth(self) -> int:
        """The same where it is repeated for each K."""
        return max(4, self.n // 100)

    def work(self, network: int, exact: int) -> int:
        """Signals of both methods together, as far as they are asked for."""
        return network * ("network" in self.methods) + exact * ("exact" in self.methods)


QUICK = Settings(n=150, draws=200, repeats=20)
"""Small sizes: a look at every picture, not a measurement."""

CPU_BATCH = 100
"""Signals that a CPU analyses together; more take longer each."""


class Bench:
    """The network with its settings, and the sets that it has analysed so far.

    Args:
        model: What to measure.
        settings: Sizes and seed.
        device: Where the model is.
        exact: How to run the exact step behind the same weights; None: it cannot be asked for.
    """

    def __init__(
        self,
        model: Analyser,
        settings: Settings,
        device: str | torch.device = "cpu",
        exact: ExactStep | None = None,
    ) -> None:
        self.model, self.settings, self.device = model, settings, torch.device(device)
        self.exact = exact
        self.advance: Callable[[int], None] = _ignore
        """Called with the number of signals that were done."""
        self._found: dict[tuple[SignalSet, int], SetResult] = {}
        self._exact: dict[tuple[SignalSet, int], ExactSet] = {}

    def knows(self, prior: Prior) -> bool:
        """Whether the network alone can answer under a prior."""
        knows: Callable[[Prior], bool] | None = getattr(self.model, "knows", None)
        return knows is None or knows(prior)

    def analyse(self, signals: SignalSet, n: int | None = None) -> SetResult:
        """A set's summaries by the network alone, computed once; with tones they also serve a caller who wants none.

        Args:
            signals: The set.
            n: Number of signals; that of the settings if None.
        """
        n = n or self.settings.n
        for known in (signals, replace(signals, tones=True)):
            if (known, n) in self._found:
                self.advance(n)
                return self._found[known, n]
        s = self.settings
        batch = CPU_BATCH if self.device.type == "cpu" else None
        result = run_set(
            self.model,
            signals,
            Sizes(n, s.draws, batch=batch),
            seed=s.seed,
            device=self.device,
            advance=self.advance,
        )
        self._found[signals, n] = result
        return result

    def analyse_exact(self, sets: Mapping[str, SignalSet], n: int) -> dict[str, ExactSet]:
        """Summaries of several sets behind the exact step, each computed once, all by one pool of processes.

        Args:
            sets: The sets by name.
            n: Number of signals of each.
        """
        if self.exact is None:
            raise ValueError(
                "expected a bench that knows its weights for the exact step, received one without; "
                "use Settings(method='network') or Bench(..., exact=ExactStep(...))."
            )
        new = {name: one for name, one in sets.items() if (one, n) not in self._exact}
        self.advance(n * (len(sets) - len(new)))
        if new:
            s = self.settings
            found = self.exact.run(new, n, draws=s.draws, seed=s.seed, advance=self.advance)
            self._exact |= {(new[name], n): result for name, result in found.items()}
        return {name: self._exact[one, n] for name, one in sets.items()}


def _ignore(count: int) -> None:
    """Nobody is listening."""
