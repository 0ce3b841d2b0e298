r"""The network's own units, and the functions of time of all classes in them.

A record is u in [−1/2, 1/2), with N complex samples whose noise has the variance E|n|² = 1. Frequencies are bins of 1/T
from the middle of the band, a drift is ḟT², a rate of decay γT. All classes share the exponents of `Classes`,

.. math:: b(u; ξ) = \exp \sum_d ξ_d\, g_d(u) , \qquad ξ_d = 0 \text{ for what a class lacks,}

but for the instant that the phase of c refers to, which is each class's own: the beginning of the record for a damped
tone, whose phase in the middle says little, since an error of its frequency turns it.

A slot holds **raw** coordinates (…, D): ξ itself, or its logarithm where a parameter is positive. They are there for
all parameters, also for those that the slot's present class lacks. Its **own** coordinates (…, Z) are those that its
class has, in the order (place, Re c, Im c, further shapes) with c in the slot's own phase; Z is the largest number of
any class, so that the coordinates of a class with fewer shapes come first and the rest is empty.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slotflow.signal.waveforms import Classes

__all__ = ["Instants", "Units"]


class Instants(nn.Module):
    """Functions of time at some instants.

    Args:
        waveform: The classes, settled on the record.
        u: The instants, (n,), float64.
        own: Shape of each class's parameters, (C, E), −1 for none.
    """

    real: Tensor
    imag: Tensor
    turns: Tensor
    slopes: Tensor

    def __init__(self, waveform: Classes, u: Tensor, own: Tensor) -> None:
        super().__init__()
        exponents = waveform.exponents(u)[:-1, 0]  # (D, n); the last one is that of the class
        self.n = len(u)
        slopes = torch.zeros(*own.shape, len(u), dtype=exponents.dtype)
        turns = torch.zeros(len(own), len(exponents), dtype=torch.float64)
        for kind, member in enumerate(waveform.members.values()):
            functions = member.exponents(u)[:, 0]
            slopes[kind, : len(functions)] = functions
            index = own[kind, : len(functions)]
            turns[kind, index] = (functions - exponents[index]).imag[:, 0]  # constant in time
        self.register_buffer("turns", turns.float(), persistent=False)  # (C, D)
        self.register_buffer("real", exponents.real.float(), persistent=False)
        self.register_buffer("imag", exponents.imag.float(), persistent=False)
        self.register_buffer("slopes", slopes.to(torch.complex64), persistent=False)  # (C, E, n)

    def basis(self, xi: Tensor, kind: Tensor) -> Tensor:
        """The functions b, complex64, (..., n), of shapes (..., D) and classes (...)."""
        return torch.polar(torch.exp(xi @ self.real), self._phase(xi, kind))

    def carrier(self, xi: Tensor, kind: Tensor) -> Tensor:
        """The same without their decay: of modulus 1, (..., n)."""
        phase = self._phase(xi, kind)
        return torch.polar(torch.ones_like(phase), phase)

    def _phase(self, xi: Tensor, kind: Tensor) -> Tensor:
        """Phase of b, (..., n)."""
        return xi @ self.imag + (xi * self.turns[kind]).sum(-1, keepdim=True)


class Units(nn.Module):
    """What the network knows of its classes.

    Args:
        waveform: The classes, with ranges in units of a record of the length 1.
        n: N, complex samples of a record.
        coarse: Instants of the coarse record on which slots are tried as every class.
    """

    own: Tensor
    present: Tensor
    positive: Tensor
    widths: Tensor

    def __init__(self, waveform: Classes, n: int, coarse: int) -> None:
        super().__init__()
        u = (torch.arange(n, dtype=torch.float64) - 0.5 * (n - 1)) / n
        self.waveform = waveform.on(float(u[0]), 0.0)
        self.class_names = waveform.class_names
        self.names = self.waveform.shape[:-1]
        members = list(self.waveform.members.values())
        width = max(len(member.shape) for member in members)
        rows = [[self.names.index(name) for name in member.shape] for member in members]
        own = torch.tensor([row + [-1] * (width - len(row)) for row in rows])
        present = torch.zeros(len(members), len(self.names), dtype=torch.bool)
        for i, row in enumerate(rows):
            present[i, row] = True
        positive = {name for member in members for name in member.positive}
        self.register_buffer("own", own, persistent=False)
        self.register_buffer("present", present, persistent=False)
        flags = torch.tensor([name in positive for name in self.names])
        self.register_buffer("positive", flags, persistent=False)
        self.fine = Instants(self.waveform, u, own)
        self.coarse = Instants(self.waveform, u.view(coarse, -1).mean(1), own)
        self.sizes = tuple(member.coordinates for member in members)
        """Coordinates of each class, (C,)."""
        self.register_buffer("widths", torch.tensor(self.sizes), persistent=False)

    @property
    def classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def shapes(self) -> int:
        """D."""
        return len(self.names)

    @property
    def coordinates(self) -> int:
        """Z, the largest number of coordinates of a class."""
        return max(self.sizes)

    def values(self, raw: Tensor) -> Tensor:
        """ξ of raw coordinates, (..., D), whatever the class."""
        return torch.where(self.positive, torch.exp(torch.where(self.positive, raw, 0.0)), raw)

    def xi(self, raw: Tensor, kind: Tensor) -> Tensor:
        """ξ of raw coordinates (..., D) and classes (...), 0 for what the class lacks."""
        return self.values(raw) * self.present[kind]

    def raw(self, xi: Tensor) -> Tensor:
        """Raw coordinates of ξ, (..., D); a positive parameter of 0 becomes about −7."""
        return torch.where(self.positive, xi.clamp_min(1e-3).log(), xi)

    def own_raw(self, raw: Tensor, kind: Tensor) -> Tensor:
        """Raw coordinates (..., D) of the parameters that each class has, (..., E); 0 for none."""
        index = self.own[kind]
        return torch.where(index >= 0, raw.gather(-1, index.clamp_min(0)), 0.0)

    def with_own(self, raw: Tensor, kind: Tensor, own: Tensor) -> Tensor:
        """Raw coordinates (..., D) with the class's own ones (..., E) put in."""
        found = raw
        for e in range(own.shape[-1]):
            index = self.own[kind][..., e]
            put = raw.new_zeros(raw.shape).scatter(
                -1, index.clamp_min(0)[..., None], own[..., e, None]
            )
            chosen = nn.functional.one_hot(index.clamp_min(0), raw.shape[-1]).bool()
            found = torch.where(chosen & (index >= 0)[..., None], put, found)
        return found

    def used(self, kind: Tensor) -> Tensor:
        """Which of the Z coordinates a class has, (..., Z), bool."""
        index = torch.arange(self.coordinates, device=kind.device)
        return index < self.widths[kind][..., None]
