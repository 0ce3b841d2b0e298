r"""What is assumed of the shape of the noise: a few unknowns on a grid of nodes, each of which whitens the channels.

The likelihood knows one thing about noise of any colour: how to make it white. A **node** is one value of the noise's
unknown shape parameters. For every channel it gives

- `taps`, a causal filter a with a_0 = 1: y_t = Σ_j a_j x_{t−j} has white noise. It turns a tone c e^{2πift} into the
  tone g(f) c e^{2πift} with the gain g(f) = Σ_j a_j e^{−2πifj·dt}, so that everything that is known about tones in
  white noise stays true. On even samplings alone; the first samples of each stretch without a gap are spent on it.
- `ratio`, the noise level of the channel over σ;
- `modes`, for samples at any times: sinusoids of given frequencies whose amplitudes are Gaussian, of given variances in
  units of σ². They make up red noise, and are integrated out.

The level σ common to all channels is integrated out for each node (`white.py`); the nodes are summed over with their
prior weights. What depends on the shape alone, the filter's determinant, is counted by the likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slotflow.core.arrays import Array, Complex

__all__ = ["ChannelNoise", "Modes", "NoiseModel", "NoiseNode"]

Bounds = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Modes:
    """Sinusoids with Gaussian amplitudes that make up red noise."""

    frequencies: Array
    """In Hz, (Q,)."""
    variances: Array
    """Prior variance of the cosine's and of the sine's amplitude, each in units of σ², (Q,)."""


@dataclass(frozen=True, eq=False)
class ChannelNoise:
    """How the noise of one channel is made white."""

    taps: Array | Complex = field(default_factory=lambda: np.ones(1))
    """a, (p + 1,), with a_0 = 1; (1,) for white noise."""
    ratio: float = 1.0
    """Noise level after the filter in units of σ."""
    modes: Modes | None = None
    """Red noise at any times, if there is any."""
    lines: tuple[float, ...] = ()
    """Frequencies in Hz of strong lines outside the band, whose amplitudes and small drifts are integrated out."""

    @property
    def is_white(self) -> bool:
        """Whether nothing has to be done."""
        return len(self.taps) == 1 and self.modes is None and not self.lines


@dataclass(frozen=True, eq=False)
class NoiseNode:
    """One value of the unknowns of the noise's shape."""

    channels: tuple[ChannelNoise, ...]
    """How each channel is whitened."""
    log_weight: float = 0.0
    """Logarithm of the prior's mass that the node stands for."""
    values: tuple[float, ...] = ()
    """The shape parameters, in the order of `NoiseModel.parameters`."""


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """The shape of the noise, as far as it is known before the data are analysed."""

    name: str
    """"white", "local", "ar(2)", "power_law", "psd"."""
    nodes: tuple[NoiseNode, ...]
    """Values of the shape's unknowns; one node where there are none. The most plausible one first."""
    local: bool = False
    """Whether only what lies in the band and just beside it counts, with a level of its own."""
    parameters: tuple[str, ...] = ()
    """Names of the shape parameters."""
    words: str = ""
    """Why this noise was assumed, in words."""

    @classmethod
    def white(cls, channels: int = 1, words: str = "") -> NoiseModel:
        """White noise of one level in all channels."""
        return cls(
            "white", (NoiseNode(tuple(ChannelNoise() for _ in range(channels))),), words=words
        )

    @property
    def is_white(self) -> bool:
        """Whether the noise is white over the whole spectrum."""
        alone = len(self.nodes) == 1 and all(channel.is_white for channel in self.nodes[0].channels)
        return alone and not self.local
