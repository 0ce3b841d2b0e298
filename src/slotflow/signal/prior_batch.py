"""One prior for each signal of a batch, as tensors: what a network that is told the prior is trained under."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slotflow.signal.prior_draws import check_common, draw_k, draw_theta, normalized, uniform
from slotflow.signal.waveforms import TONE

__all__ = ["PriorBatch"]


@dataclass(frozen=True, eq=False)
class PriorBatch:
    """One prior for each signal of a batch of n: p(K) and the amplitude's law are common, the bounds are not.

    It draws as `Prior` does, signal by signal. Every signal has room for k_max components: a separation at which they
    would not fit into its band is refused, and K is never lowered. The values of the tensors are checked on the CPU
    only, since on another device the check would make every batch wait.

    Args:
        k_min: Smallest number of components.
        k_max: Largest number of components.
        k_probs: p(K) for K = k_min..k_max, summing to one; uniform if None.
        amplitude: Bounds of A, shape (n, 2), float64.
        frequency: Bounds of f in Hz, shape (n, 2), float64.
        min_separation: Smallest allowed distance between two frequencies in Hz, shape (n,), float64.
        sigma: Bounds of σ, shape (n, 2), float64; equal ones above 0 where it is known.
        amplitude_law: "uniform" or "loguniform".
    """

    k_min: int
    k_max: int
    k_probs: tuple[float, ...] | None
    amplitude: Tensor
    frequency: Tensor
    min_separation: Tensor
    sigma: Tensor
    amplitude_law: str = "uniform"

    def __post_init__(self) -> None:
        check_common(self.k_min, self.k_max, self.amplitude_law)
        if self.k_probs is not None:
            normalized(self.k_probs, self.k_min, self.k_max, "k_probs")
            if not math.isclose(sum(self.k_probs), 1.0, abs_tol=1e-9):
                raise ValueError(
                    f"PriorBatch expects k_probs that sum to one, received {self.k_probs}; divide them by their sum."
                )
        n = self.min_separation.shape[:1]
        for name, shape in _BATCH_SHAPES.items():
            tensor: Tensor = getattr(self, name)
            if tensor.shape != (*n, *shape) or tensor.dtype != torch.float64:
                raise ValueError(
                    f"PriorBatch expects {name} as float64 of the shape {('n', *shape)}, n the same for all, received "
                    f"{tensor.dtype} of the shape {tuple(tensor.shape)}, n = {tuple(n)}."
                )
            if tensor.device != self.device:
                raise ValueError(
                    f"PriorBatch expects its tensors on one device, received {name} on {tensor.device} and "
                    f"min_separation on {self.device}; move them to one of the two."
                )
        if self.device.type == "cpu":
            self._check_values()

    def __len__(self) -> int:
        return int(self.min_separation.shape[0])

    @property
    def device(self) -> torch.device:
        """Where the bounds live."""
        return self.min_separation.device

    def to(self, device: str | torch.device) -> PriorBatch:
        """The same priors on another device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in _BATCH_SHAPES})

    def take(self, index: Tensor | slice) -> PriorBatch:
        """The priors of some signals; index is a slice or whole numbers of shape (m,), repeats allowed."""
        return replace(self, **{name: getattr(self, name)[index] for name in _BATCH_SHAPES})

    def theta_bounds(self) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the columns of θ, (n, P) each; infinite for phases, which have none."""
        ends = []
        for end, unbounded in ((0, -math.inf), (1, math.inf)):
            free = torch.full_like(self.min_separation, unbounded)
            columns = [
                getattr(self, name)[:, end] if name in _BATCH_SHAPES else free
                for name in TONE.names
            ]
            ends.append(torch.stack(columns, -1))
        return ends[0], ends[1]

    def sample_k(self, n: int, generator: torch.Generator) -> Tensor:
        """Draws K for each signal, shape (n,), int64, on the generator's device; n is the batch's size."""
        self._check_size(n)
        return draw_k(self.k_min, self.k_max, self.k_probs, n, generator)

    def sample_theta(self, k: Tensor, generator: torch.Generator) -> Tensor:
        """Draws Θ given K for each signal, components in the order of their frequencies.

        Args:
            k: Number of components of each signal, shape (n,), int64, on the device of the bounds.
            generator: Source of randomness on the same device.

        Returns:
            θ, shape (n, k_max, P), float64; zeros where a draw has fewer components.
        """
        self._check_size(k.shape[0])
        amplitude = self.amplitude[:, :1], self.amplitude[:, 1:]
        frequency = self.frequency[:, :1], self.frequency[:, 1:]
        separation = self.min_separation[:, None]
        return draw_theta(
            k, self.k_max, amplitude, frequency, separation, self.amplitude_law, generator
        )

    def sample_sigma(self, n: int, generator: torch.Generator) -> Tensor:
        """Draws σ for each signal, shape (n,), float64, on the device of the bounds; n is the batch's size."""
        self._check_size(n)
        lo, hi = self.sigma.unbind(1)
        return uniform(
            lo, hi, torch.rand(n, generator=generator, device=self.device, dtype=torch.float64)
        )

    def _check_size(self, n: int) -> None:
        """Refuses a number of draws that is not one for each signal."""
        if n != len(self):
            raise ValueError(
                f"A PriorBatch draws once for each of its {len(self)} signals, received {n}; "
                "choose signals with take()."
            )

    def _check_values(self) -> None:
        """Refuses bounds that a Prior would refuse, naming the first such signal."""
        for name in ("amplitude", "frequency", "sigma"):
            lo, hi = getattr(self, name).unbind(1)
            signed = name == "frequency"  # of complex data
            good = (lo > -math.inf if signed else lo >= 0) & (lo < hi) & (hi < math.inf)
            words = f"two finite bounds with {'' if signed else '0 <= '}lower < upper"
            if name == "amplitude" and self.amplitude_law == "loguniform":
                good &= lo > 0
                words += " (0 < lower for a log-uniform law)"
            if name == "sigma":
                good |= (lo > 0) & (lo == hi) & (hi < math.inf)
                words += ", or equal and above 0 where it is known"
            self._refuse(good, name, words)
        self._refuse(
            (self.min_separation >= 0) & (self.min_separation < math.inf),
            "min_separation",
            "finite and >= 0",
        )
        width = self.frequency[:, 1] - self.frequency[:, 0]
        fits = width - (self.k_max - 1) * self.min_separation > 0
        self._refuse(
            fits,
            "min_separation",
            f"small enough for {self.k_max} components to fit into the signal's band; lower it",
        )

    def _refuse(self, good: Tensor, name: str, expected: str) -> None:
        """Raises for the first signal whose entry in good, (n,), is False."""
        if not bool(good.all()):
            i = int((~good).int().argmax())
            received = getattr(self, name)[i].tolist()
            raise ValueError(
                f"PriorBatch expects {name} to be {expected}; signal {i} has {received}."
            )


_BATCH_SHAPES: dict[str, tuple[int, ...]] = {
    "amplitude": (2,),
    "frequency": (2,),
    "min_separation": (),
    "sigma": (2,),
}
"""The tensors of a PriorBatch and their shapes after the first axis."""
