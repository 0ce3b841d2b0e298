"""Draws of K and Θ that one prior and a batch of priors share; the derivation stands in `prior.py`."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from slotflow.signal.waveforms import TONE, Waveform

__all__ = [
    "AMPLITUDE_LAWS",
    "Bound",
    "amplitudes_at",
    "check_common",
    "draw_k",
    "draw_theta",
    "normalized",
    "uniform",
]

AMPLITUDE_LAWS = ("uniform", "loguniform")
Bound = float | Tensor
"""One bound for all draws, or one for each: (n, 1), float64."""


def check_common(k_min: int, k_max: int, amplitude_law: str) -> None:
    """Refuses a range of K or a law of amplitudes that no prior can have."""
    whole = all(isinstance(k, int | np.integer) for k in (k_min, k_max))
    if not whole or not 0 <= k_min <= k_max or k_max < 1:
        raise ValueError(
            f"Prior expects whole numbers 0 <= k_min <= k_max and k_max >= 1, received k_min={k_min}, k_max={k_max}."
        )
    if amplitude_law not in AMPLITUDE_LAWS:
        raise ValueError(
            f"Prior expects amplitude_law to be one of {AMPLITUDE_LAWS}, received {amplitude_law!r}."
        )


def draw_k(
    k_min: int, k_max: int, k_probs: tuple[float, ...] | None, n: int, generator: torch.Generator
) -> Tensor:
    """Draws of p(K), shape (n,), int64, on the generator's device."""
    device = generator.device
    if k_probs is None:
        return torch.randint(k_min, k_max + 1, (n,), generator=generator, device=device)
    probs = torch.tensor(k_probs, dtype=torch.float64, device=device)
    return torch.multinomial(probs, n, replacement=True, generator=generator) + k_min


def draw_theta(
    k: Tensor,
    k_max: int,
    amplitude: tuple[Bound, Bound],
    frequency: tuple[Bound, Bound],
    separation: Bound,
    law: str,
    generator: torch.Generator,
    waveform: Waveform = TONE,
) -> Tensor:
    """Draws Θ.

    Args:
        k: Number of components of each draw, (n,), int64.
        k_max: Number of columns to give.
        amplitude: Bounds of A.
        frequency: Bounds of f, in Hz.
        separation: Smallest allowed distance between two frequencies, in Hz.
        law: "uniform" or "loguniform", of the amplitudes.
        generator: Source of randomness on the device of k.
        waveform: What a component is.

    Returns:
        θ in the order of frequency, (n, k_max, P), float64; zeros where a draw has fewer components.
    """
    n, device = k.shape[0], k.device
    shape = (waveform.size, n, k_max)
    u = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
    column = dict(zip(waveform.names, u, strict=True))  # (n, k_max) each
    index = torch.arange(k_max, device=device)
    mask = index < k[:, None]  # (n, k_max)

    # Float64 throughout: a whole number times a Python float would be float32.
    room = frequency[1] - frequency[0] - (k[:, None].double() - 1) * separation  # (n, 1)
    gaps = torch.where(mask, column["frequency"], 2.0).sort(dim=1).values  # absent ones go last
    column["frequency"] = frequency[0] + gaps * room + index.double() * separation
    column |= waveform.drawn(column)
    for name in (p.name for p in waveform.parameters if p.circular):
        column[name] = 2 * math.pi * column[name]
    for name in (waveform.names[i] for i in waveform.amplitude_columns):
        column[name] = amplitudes_at(amplitude, law, column[name])
    theta = torch.stack([column[name] for name in waveform.names], dim=-1)
    present = waveform.present(theta)
    if present is not None:
        for j, pair in enumerate(
            zip(waveform.amplitude_columns, waveform.phase_columns, strict=True)
        ):
            for i in pair:
                theta[..., i] = torch.where(present[..., j], theta[..., i], 0.0)
    return torch.where(mask[..., None], theta, 0.0)


def amplitudes_at(bounds: tuple[Bound, Bound], law: str, u: Tensor) -> Tensor:
    """Takes u in [0, 1) to amplitudes of a law between bounds, same shape."""
    lo, hi = bounds
    if law == "uniform":
        return uniform(lo, hi, u)
    ratio = hi / lo
    log_ratio = ratio.log() if isinstance(ratio, Tensor) else math.log(ratio)
    return lo * torch.exp(u * log_ratio)


def uniform(lo: Bound, hi: Bound, u: Tensor) -> Tensor:
    """Takes u in [0, 1) to [lo, hi), same shape."""
    return lo + u * (hi - lo)


def normalized(values: ArrayLike, k_min: int, k_max: int, name: str) -> NDArray[np.float64]:
    """Checks weights for K = k_min..k_max and returns them as probabilities, (k_max − k_min + 1,)."""
    weights = np.asarray(values, dtype=np.float64)
    expected = k_max - k_min + 1
    if weights.shape != (expected,):
        raise ValueError(
            f"{name}: expected {expected} numbers, one for each K = {k_min}..{k_max}, received shape "
            f"{weights.shape}."
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or weights.sum() <= 0:
        raise ValueError(
            f"{name} must be finite, not negative and not all zero, received {weights.tolist()}."
        )
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities
