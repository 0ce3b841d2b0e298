"""Seeds of independent streams of random numbers."""

from __future__ import annotations

__all__ = ["spread_seed"]


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
