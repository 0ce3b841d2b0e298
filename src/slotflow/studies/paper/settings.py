"""What a reproduction can be asked for: sizes, seed, method, and the names of the results. Nothing waits for torch."""

from __future__ import annotations

from dataclasses import dataclass

from slotflow.studies.suites.sizes import SEED_LIMIT

__all__ = ["INDEX", "METHODS", "NUMBERS", "QUICK", "Settings"]

INDEX = "index.html"
"""The page of a folder of results."""
NUMBERS = {
    "dataset": 1,
    "slots": 2,
    "cardinality": 3,
    "calibration": 4,
    "comparison": 5,
    "scaling": 6,
    "interference": 7,
    "cost": 8,
    "latent": 9,
    "properties": 10,
}
"""The number of each result, which the command line takes as well as the name."""
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
