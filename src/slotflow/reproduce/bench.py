"""What all results share: sizes and seed, the network, and test sets that are analysed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from slotflow.evaluate.sets import SEED_LIMIT, Analyser, SetResult, SignalSet, run_set

__all__ = ["QUICK", "Bench", "Settings"]


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

    def __post_init__(self) -> None:
        if self.n < 20 or self.draws < 20 or self.repeats < 2:
            raise ValueError(
                f"expected n >= 20 signals, draws >= 20 and repeats >= 2, received {self.n}, {self.draws} and "
                f"{self.repeats}; fewer say nothing."
            )
        if not 0 <= self.seed < SEED_LIMIT:
            raise ValueError(f"expected a seed from 0 to {SEED_LIMIT - 1}, received {self.seed}.")

    @property
    def tenth(self) -> int:
        """A tenth of n, for what is repeated for each K."""
        return self.n // 10


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
    """

    def __init__(
        self, model: Analyser, settings: Settings, device: str | torch.device = "cpu"
    ) -> None:
        self.model, self.settings, self.device = model, settings, torch.device(device)
        self.advance: Callable[[int], None] = _ignore
        """Called with the number of signals that were done."""
        self._found: dict[tuple[SignalSet, int], SetResult] = {}

    def analyse(self, signals: SignalSet, n: int | None = None) -> SetResult:
        """A set's summaries, computed once; with tones they also serve a caller who wants none.

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
        result = run_set(
            self.model,
            signals,
            n,
            draws=s.draws,
            batch=CPU_BATCH if self.device.type == "cpu" else None,
            seed=s.seed,
            device=self.device,
            advance=self.advance,
        )
        self._found[signals, n] = result
        return result


def _ignore(count: int) -> None:
    """Nobody is listening."""
