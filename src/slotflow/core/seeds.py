"""Seeds: one number from the user, and from it the seeds of independent streams of random numbers.

A batch of signals needs several sources of randomness that must not be copies of each other: the number of components
of each signal, their parameters and noise, the prior of each signal, and so on. Each source is a `RandomStream` with a
number of its own. `stream_seed` combines that number with the seed and mixes the bits, so that two streams of one seed
have nothing in common, and neither have two seeds of one stream.

The ranges of seeds are set apart here as well, so that no evaluation meets a signal of the training.
"""

from __future__ import annotations

from enum import IntEnum, unique

__all__ = [
    "EVALUATION_SEED",
    "TRAINING_SEED",
    "VALIDATION_SEED",
    "RandomStream",
    "signed",
    "spread_seed",
    "stream_seed",
]

EVALUATION_SEED = 2**60
"""Seeds from here on belong to the evaluation's sets of signals; those below are left to users."""
TRAINING_SEED = 2**61
"""Seeds from here on belong to training."""
VALIDATION_SEED = 2**62
"""Seeds from here on belong to the validation during training."""


@unique
class RandomStream(IntEnum):
    """What random numbers are drawn for; the numbers tell the streams apart and must never change."""

    SIGNALS = 0
    """Parameters, noise levels and noise of simulated signals."""
    COUNTS = 0x5DEECE66D
    """Numbers of components."""
    PRIORS = 0x2545F4914F6CDD1D
    """The prior of each signal, where a mixture of priors is in use."""
    RADII = 0x6C8E9CF570932BD5
    """Radii of the circle on which the paper's target lies."""
    SHORT_GRIDS = 0x3C79AC492BA7B653
    """Sampling of the short stream, where training varies it."""
    GAPS = 0x517CC1B727220A95
    """Samples that are missing, where training leaves some out."""
    POSTERIOR_DRAWS = 0x1B56C4E9D2A8F07B
    """Draws from the posteriors that are evaluated."""


def stream_seed(seed: int, stream: RandomStream) -> int:
    """The seed of one stream, 64 bits, from the user's seed."""
    return spread_seed(seed ^ stream)


def signed(seed: int) -> int:
    """A seed of any size as a signed number of 64 bits, which arrays can hold and `spread_seed` takes for the same."""
    return (seed + 2**63) % 2**64 - 2**63


def spread_seed(seed: int) -> int:
    """Mixes the 64 bits of a seed one-to-one (the output function of SplitMix64).

    The CPU's Mersenne Twister in torch looks at the low 32 bits of its seed only, so that seeds which differ above
    them would give the same signals.
    """
    mask = 2**64 - 1
    z = (seed + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
