"""What is known of a posterior without a draw: p(K | x), data, prior, verdict, evidence and effective sample size.

A method that has something, such as evidences, overrides the attribute; what a method does not have is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.noise import NoiseFacts
from slotflow.posterior.tuples import Slots
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

if TYPE_CHECKING:
    from slotflow.posterior.verdict import Verdict
    from slotflow.signal.noise.model import NoiseModel

__all__ = ["UNKNOWN_UNIT", "EmptyRegion", "Facts", "WindowRow"]

UNKNOWN_UNIT = "data units"
"""Unit of data whose unit is not known, in files and tables."""


class WindowRow(NamedTuple):
    """One window of a band that was analysed in several."""

    core: tuple[float, float]
    """Frequencies in Hz that belong to it."""
    k_map: int
    """Most probable number of components in the core."""
    k_prob: float | None
    """Its probability; None where it is not known."""
    verdict: Verdict
    """The window's own verdict."""


class EmptyRegion(NamedTuple):
    """A part of a band that was searched and in which nothing was found."""

    low: float
    """Lower edge in Hz."""
    high: float
    """Upper edge in Hz."""
    amplitude: float
    """A tone of this amplitude or more would have been found anywhere in it."""


class Facts:
    """What is known of a posterior without a draw from it.

    Args:
        k_probs: p(K | x), (K_max + 1,), index = K.
        slots: Densities of the components.
        observation: The data behind it.
        noise_std: Estimate of σ.
        noise_std_error: Its standard error, where there is one.
        method: Where the posterior comes from.
        prior: The prior it was found under, where it is known.
    """

    waveform: Waveform = TONE
    """What a component is: names, units and order of the P columns of θ."""
    log_evidence: Array | None = None
    """Ln Z_K and its standard error, (K_max + 1, 2); None where the method has none.

    The error is inf where ln Z_K is a bound or a rough estimate that sufficed to exclude a K, and NaN where it is not
    known; ln Z_K is −inf where not even a bound was needed."""
    ess: float | None = None
    """Effective share of the draws of the most probable K, 0 to 1; None where the method has none."""
    assumed: Assumed | None = None
    """What `infer` assumed, and where each assumption comes from; None where it was not asked."""
    noise: NoiseFacts | None = None
    """Which noise was assumed and why, with the posterior of its level and shape; None where the method has none."""
    proposed_by: str = ""
    """Who proposed the components that the likelihood judged: "zoom" (the name of the network), "classical" (peaks of
    the residual's spectrum), or both; empty where nothing was proposed."""
    attributes: Mapping[str, Any] = MappingProxyType({})
    """Attributes of the file that the posterior was read from; empty for any other."""

    def __init__(
        self,
        k_probs: ArrayLike,
        slots: Slots,
        observation: Observation,
        noise_std: float,
        noise_std_error: float | None,
        method: str,
        prior: Prior | None = None,
    ) -> None:
        self.k_probs: Array = np.asarray(k_probs, dtype=np.float64)
        self.slots = slots
        self.observation = observation
        self.noise_std = noise_std
        self.noise_std_error = noise_std_error
        self.method = method
        self.prior = prior

    # ------------------------------------------------------------------ facts

    @property
    def k_max(self) -> int:
        """Largest K."""
        return self.k_probs.size - 1

    @property
    def k_map(self) -> int:
        """Most probable K."""
        return int(self.k_probs.argmax())

    @property
    def noise_model(self) -> NoiseModel | None:
        """How the residual is whitened: the shape of the noise that is most plausible; None where it is white."""
        return None

    @property
    def has_data(self) -> bool:
        """Whether `observation` is there; it may be missing from a file."""
        return True

    @property
    def unit(self) -> str:
        """Unit of the data, empty if unknown."""
        return self.observation.long.unit

    @property
    def t_ref(self) -> float:
        """The instant on the data's clock that phases refer to, in seconds."""
        return self.observation.t_ref

    @property
    def resolution(self) -> float:
        """1/T of the long stream in Hz; 0 if it is not known."""
        return 1 / self.observation.long.duration

    @property
    def filled_samples(self) -> int:
        """How many samples of the data were filled in rather than measured."""
        return sum(b - a + 1 for s in self.observation.channels for a, b in s.filled)

    # ------------------------------------------------------------------ how good it is

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted: an amortized one is "approximate"."""
        from slotflow.posterior.verdict import judge

        return judge(())

    def verdict_at(self, false_alarm: float, within: tuple[float, float] | None = None) -> Verdict:
        """The verdict at another rate of false alarms of the residual's tests, where the method can judge again.

        Args:
            false_alarm: The rate.
            within: Frequencies in Hz between which components are judged; None for all.
        """
        return self.verdict

    @property
    def window_rows(self) -> tuple[WindowRow, ...]:
        """The windows of a band that was analysed in several, in the order of their frequencies; else empty."""
        return ()

    @property
    def empty_regions(self) -> tuple[EmptyRegion, ...]:
        """Parts of the band that were searched and not analysed, since nothing was found there; else empty."""
        return ()

    def kinds(self) -> list[tuple[str, float]]:
        """How many components of each class, in words, with the probability, the most probable first; else empty."""
        return []

    def tables_by_k(self) -> Mapping[str, tuple[Array, str]]:
        """What a file is to keep for each K beside the evidence: name to values, (K_max + 1,), and what they are."""
        return {}

    # ------------------------------------------------------------------ helpers

    def _data(self) -> Observation:
        """The data, refused where a file did not hold them."""
        if not self.has_data:
            raise ValueError(
                "expected a posterior that holds its data, received one from a file without them; read the data and "
                "set post.observation."
            )
        return self.observation

    def _k(self, k: int | None) -> int:
        """A number of components that the posterior knows; k_map for None."""
        if k is None:
            return self.k_map
        if k not in range(self.k_max + 1):
            raise ValueError(
                f"expected a whole number of components in 0..{self.k_max}, received {k!r}."
            )
        return int(k)
