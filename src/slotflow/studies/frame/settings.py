"""What a study can be asked for, and the names of all studies. Nothing waits for torch."""

from __future__ import annotations

from dataclasses import dataclass

from slotflow.studies.suites.sizes import SEED_LIMIT

__all__ = ["NAMES", "Settings"]

NAMES = {
    "formulas": "closed formulas of the paper's theory with its own worked numbers",
    "elbo": "the evidence lower bound of a network beside the exact evidence, and what the gap consists of",
    "gradient": "what the phase weight does to gradients of trained weights",
    "distinguishable": "how close two tones may be until slots, counts and likelihood cannot tell them apart",
    "domain": "samples, spectra, or one of each: what the paper's encoder should be given",
    "phase_weight": "weights of phase and frequency, with the paper's target and with a well-posed one",
    "depth": "number and kinds of the flow's layers, and the stride of the encoder",
    "sample_complexity": "how many training signals a given loss needs, and how that grows with K",
    "leaderboard": "the methods of the paper's table 1, trained alike: counts, catalogue, calibration, density, speed",
    "zoom_scaling": "what signals, parameters and the steps on the likelihood are worth to the default network",
}
"""What each study measures, by the name that the command line takes."""


@dataclass(frozen=True)
class Settings:
    """Size, seed and time."""

    quick: bool = False
    """Whether a look at the picture will do, instead of a measurement."""
    seed: int = 0
    """The same seed gives the same signals."""
    minutes: float | None = None
    """No round is begun after this time; None for all rounds."""
    jobs: int = 1
    """Rounds that are measured at a time, each in a process of its own; all share the device."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < SEED_LIMIT:
            raise ValueError(f"expected a seed from 0 to {SEED_LIMIT - 1}, received {self.seed}.")
        if self.jobs < 1:
            raise ValueError(f"expected at least one job, received {self.jobs}.")
        if self.minutes is not None and self.minutes <= 0:
            raise ValueError(
                f"expected minutes > 0, received {self.minutes:g}; give a longer time."
            )
