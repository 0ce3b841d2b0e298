"""What is measured of each method, as a list of steps that a process of its own works through.

Steps, for signal i of K tones:

first     time and process peak of the first answer of this process; modules, weights and signal are loaded before it
answer    time of 1,000 effective draws (`methods.py`), median of `repeats` calls
python    Python's allocator peak of an answer, or of the network's answer without a draw if draws = 0
forward   time of the network's answer without a draw
draws     time of an answer with some number of draws, of the network or of the exact step
"""

from __future__ import annotations

from dataclasses import dataclass

from slotflow.studies.paper.cost.methods import LABELS, SAMPLERS

__all__ = ["FULL", "SMALL", "Sizes", "Step", "count_steps", "steps_of"]

COUNTS = tuple(range(1, 11))
"""K at which the network, the exact step and preset `paper` are measured for the curves."""
DRAWN_K = 5
"""K at which the number of draws varies."""
FEWEST_EXACT_DRAWS = 100
"""The exact step cannot be asked for fewer."""


@dataclass(frozen=True)
class Step:
    """One measurement."""

    kind: str
    """"first", "answer", "python", "forward" or "draws"."""
    k: int
    """Tones of the signal."""
    i: int = 0
    """Which signal of K tones."""
    repeats: int = 1
    """Timed calls; the median counts."""
    draws: int | None = None
    """Draws that are asked for; None: as many as give 1,000 effective ones."""
    exact: bool = False
    """Whether the exact step is asked for these draws, or the network."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    signals: int
    """Signals of each K; of the samplers `sampled`."""
    sampled: int
    """Signals of each K that the samplers analyse."""
    repeats: int
    """Timed calls for each signal; the median counts. Samplers and preset `paper` are asked once."""
    counts: tuple[int, ...]
    """K of the methods' table; SMC and RJMCMC, which take longer, have their own."""
    counts_smc: tuple[int, ...]
    """K that SMC is asked for."""
    counts_rjmcmc: tuple[int, ...]
    """K that RJMCMC is asked for."""
    draws: tuple[int, ...]
    """Numbers of draws."""
    effective: float
    """Effective draws after which a chain ends."""
    particles: int
    """Particles of SMC."""

    def of(self, name: str) -> tuple[int, ...]:
        """K that a method is asked for."""
        return {"smc": self.counts_smc, "rjmcmc": self.counts_rjmcmc}.get(name, self.counts)

    @property
    def table_k(self) -> int:
        """The largest K that all methods are asked for."""
        return max(set(self.counts) & set(self.counts_smc) & set(self.counts_rjmcmc))


FULL = Sizes(
    8, 3, 5, (1, 2, 5, 8), (1, 2, 5), (1, 2, 5, 8), (1, 10, 100, 1000, 10_000), 2000.0, 1000
)
"""As much as the paper's size asks for."""
SMALL = Sizes(1, 1, 1, (1, 2, 5), (1, 2), (1, 2), (1, 10, 100, 1000), 500.0, 96)
"""A quick look."""


def steps_of(name: str, sizes: Sizes, curves: bool = True) -> list[Step]:
    """What the process of a method does, in its order.

    Args:
        name: Key of `LABELS`.
        sizes: How much to measure.
        curves: Whether to measure the network without draws, at every K, and with other numbers of draws, too.
    """
    own, sampler = name in ("network", "exact"), name in SAMPLERS
    repeats = sizes.repeats if own or name == "classical" else 1
    steps = [Step("first", sizes.table_k), Step("python", sizes.table_k)]
    for k in COUNTS if (own or name == "paper") and curves else sizes.of(name):
        for i in range(sizes.sampled if sampler else sizes.signals):
            # The first answer of a sampler is long enough to count as one of its answers.
            if not (sampler and (k, i) == (sizes.table_k, 0)):
                steps.append(Step("answer", k, i, repeats))
    if name == "network":
        steps.append(Step("python", sizes.table_k, draws=0))
    if name == "network" and curves:
        signals = range(sizes.signals)
        steps += [Step("forward", k, i, repeats, draws=0) for k in COUNTS for i in signals]
    if own and curves:
        exact = name == "exact"
        least = FEWEST_EXACT_DRAWS if exact else 0
        steps += [Step("draws", DRAWN_K, 0, repeats, n, exact) for n in sizes.draws if n >= least]
    return steps


def count_steps(sizes: Sizes, curves: bool = True) -> int:
    """Steps of all methods; arguments as of `steps_of`."""
    return sum(len(steps_of(name, sizes, curves)) for name in LABELS)
