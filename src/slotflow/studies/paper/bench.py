"""What all results share: sizes and seed, the network, and test sets that are analysed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from slotflow.network.model import SlotFlow
from slotflow.signal.prior import Prior
from slotflow.studies.paper.exact_step import ExactSet, ExactStep
from slotflow.studies.paper.pooled import PooledAnalyser
from slotflow.studies.paper.settings import Settings
from slotflow.studies.suites.analyser import Analyser
from slotflow.studies.suites.results import SetResult, run_set
from slotflow.studies.suites.sets import SignalSet
from slotflow.studies.suites.sizes import Sizes

__all__ = ["CPU_BATCH", "Bench"]

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

    def network(self) -> SlotFlow:
        """The network itself, if it can also be asked for exact posteriors."""
        if isinstance(self.model, PooledAnalyser):
            return self.model.network
        if not isinstance(self.model, SlotFlow):
            raise ValueError(
                f"expected a SlotFlow, whose answers have an exact step, received {type(self.model).__name__}."
            )
        return self.model

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
