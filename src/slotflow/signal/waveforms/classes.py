r"""Components of several kinds: each is of one class, and which one is unknown.

All classes share amplitude, phase and frequency. The columns of θ are these, the shape parameters of all classes in the
order in which they come, and the class as a number: for tones, chirps and damped tones (A, φ, f, ḟ, γ, class). What a
class lacks is 0, where it has no effect: a tone is a chirp of ḟ = 0 and a damped tone of γ = 0, and

.. math:: b = e^{2πi(fu + ḟu^2/2) - γ(u + τ - t_0)}

serves all. Where a class has several amplitudes, as harmonics do, the columns A_2, φ_2, … come last, and are 0 for the
classes without them. A priori the class of each component is drawn on its own, all with the same probability 1/C, and
its shape then from the prior of its class.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from typing import Any, Self

from slotflow.core.arrays import AnyArray, namespace
from slotflow.signal.waveforms.base import Parameter, Waveform
from slotflow.signal.waveforms.several import SeveralAmplitudes, further_amplitudes
from slotflow.signal.waveforms.single import AMPLITUDE, FREQUENCY, PHASE, SingleAmplitude
from slotflow.signal.waveforms.tone import Tone

__all__ = ["CLASS", "Classes"]

CLASS = Parameter("class", "class", "", categorical=True)
"""Number of the class in the order in which they were given, from 0."""


class Classes(SeveralAmplitudes):
    """Components of several classes.

    Args:
        **members: Waveforms by the names of their classes, or their texts.
    """

    name = "classes"
    internal = True

    def __init__(self, **members: Waveform | str) -> None:
        found = {
            name: Waveform.of_text(member) if isinstance(member, str) else member
            for name, member in members.items()
        }
        if not found:
            raise ValueError(
                "expected at least one class, received none, as in classes={'tone': Tone()}."
            )
        for name, member in found.items():
            known = isinstance(member, SingleAmplitude | SeveralAmplitudes | Tone)
            if not known or isinstance(member, Classes):
                raise ValueError(
                    f"classes: expected waveforms such as Tone, Chirp, Damped and Harmonic, received {member!r} for "
                    f"{name!r}; give it alone: Prior(waveform=...)."
                )
            if not re.fullmatch(r"\w+", name):
                raise ValueError(
                    f"classes: expected names of letters, digits and underscores, received {name!r}; rename the class."
                )
        self.members: Mapping[str, Waveform] = found
        own = {p.name: p for m in found.values() for p in m.parameters if p.name in m.ranges}
        self.amplitudes = max(member.amplitudes for member in found.values())
        more = further_amplitudes(self.amplitudes)
        self.parameters = (AMPLITUDE, PHASE, FREQUENCY, *own.values(), CLASS, *more)
        self.shape = ("frequency", *own, CLASS.name)

    # ------------------------------------------------------------------ settings

    @property
    def settings(self) -> Mapping[str, str]:
        """The texts of the members."""
        return {name: member.text for name, member in self.members.items()}

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their numbers."""
        return tuple(self.members)

    def class_of(self, theta: AnyArray) -> AnyArray:
        """Number of the class of each component, as floats, (..., K, P) to (..., K)."""
        return self.of(theta, CLASS.name)

    def members_theta(self, index: int, theta: AnyArray) -> AnyArray:
        """θ of components of one class in the columns of its own waveform, (..., K, P_c)."""
        member = self.members[self.class_names[index]]
        return theta[..., [self.column(name) for name in member.names]]

    def own_theta(self, index: int, theta: AnyArray) -> AnyArray:
        """θ in the columns of all classes, (..., K, P), of components of one class in its own, (..., K, P_c)."""
        member, xp = self.members[self.class_names[index]], namespace(theta)
        columns = [xp.zeros_like(theta[..., 0])] * self.size
        for name in member.names:
            columns[self.column(name)] = member.of(theta, name)
        columns[self.column(CLASS.name)] = xp.zeros_like(theta[..., 0]) + index
        joined: AnyArray = xp.stack(columns, -1)
        return joined

    def present(self, theta: AnyArray) -> AnyArray | None:
        """Whether the class of each component has each amplitude, (..., K, M); None where all classes have one."""
        if self.amplitudes == 1:
            return None
        xp, kind = namespace(theta), self.class_of(theta)
        found: AnyArray = xp.stack([xp.zeros_like(kind) > 0] * self.amplitudes, -1)
        for i, member in enumerate(self.members.values()):
            found[..., : member.amplitudes] |= (kind == i)[..., None]
        return found

    # ------------------------------------------------------------------ prior

    def drawn(self, column: Mapping[str, Any]) -> Mapping[str, Any]:
        """Class and shape of each component, from uniform numbers by the name of the parameter."""
        xp, u = namespace(column[CLASS.name]), column[CLASS.name]
        kind = xp.floor(u * len(self.members))
        found = {name: xp.zeros_like(u) for name in self.shape[1:-1]}
        for i, member in enumerate(self.members.values()):
            for name, values in member.drawn(column).items():
                found[name] = xp.where(kind == i, values, found[name])
        return {**found, CLASS.name: kind}

    def log_prior(self, theta: AnyArray) -> AnyArray:
        """Log prior of classes and shapes, (..., K, P) to (...); −inf where a class has what it cannot have."""
        xp, kind = namespace(theta), self.class_of(theta)
        total = xp.full_like(kind, -math.inf)
        for i, member in enumerate(self.members.values()):
            density = xp.zeros_like(kind) - math.log(len(self.members))
            for name in self.shape[1:-1]:
                value, law = self.of(theta, name), member.ranges.get(name)
                absent = xp.where(value == 0, 0.0, -math.inf)
                density = density + (absent if law is None else law.log_prob(value))
            total = xp.where(kind == i, density, total)
        summed: AnyArray = total.sum(-1)
        return summed

    # ------------------------------------------------------------------ functions of time

    def on(self, start: float, reference: float) -> Self:
        """The same with each class settled on a record."""
        settled = copy.copy(self)
        settled.tau = reference
        settled.members = {
            name: member.on(start, reference) for name, member in self.members.items()
        }
        return settled

    @property
    def _richest(self) -> Waveform:
        """The class of the most amplitudes, whose further ones are those of all."""
        return max(self.members.values(), key=lambda member: member.amplitudes)

    def turn_weights(self, reference: float) -> tuple[tuple[float, ...], ...]:
        """Those of the classes that have the parameter, and 0 for the class, (M, D)."""
        first = dict.fromkeys(self.shape, 0.0)
        for member in self.members.values():
            if isinstance(member, SingleAmplitude):
                first |= dict(zip(member.shape, member.turn_weights(reference), strict=True))
        rows, richest = [first | {"frequency": reference}], self._richest
        if isinstance(richest, SeveralAmplitudes):
            none = dict.fromkeys(self.shape, 0.0)
            for weights in richest.turn_weights(reference)[1:]:
                rows.append(none | dict(zip(richest.shape, weights, strict=True)))
        return tuple(tuple(row.values()) for row in rows)

    def exponents(self, t: Any) -> Any:
        """Exponents of all shape parameters, (D, M, N); 0 for the class."""
        xp = namespace(t)
        found: dict[str, Any] = {}
        for member in self.members.values():
            found |= dict(zip(member.shape, member.exponents(t)[:, 0], strict=True))
        found["frequency"] = 2j * math.pi * t  # phases of all classes refer to τ here
        none = 0 * found["frequency"]
        rows = [[found.get(name, none) for name in self.shape]]
        for j in range(1, self.amplitudes):
            further = dict(zip(self._richest.shape, self._richest.exponents(t)[:, j], strict=True))
            rows.append([further.get(name, none) for name in self.shape])
        return xp.stack([xp.stack(list(column)) for column in zip(*rows, strict=True)])

    def scales(self, duration: float) -> tuple[float, ...]:
        """Scales of the classes' parameters, and 1 for the class."""
        found: dict[str, float] = {}
        for member in self.members.values():
            found |= dict(zip(member.shape, member.scales(duration), strict=True))
        return (*(found[name] for name in self.shape[:-1]), 1.0)

    def occupied(self, band: tuple[float, float], duration: float) -> list[tuple[float, float]]:
        """What any class may occupy, as intervals that do not meet."""
        every = [pair for m in self.members.values() for pair in m.occupied(band, duration)]
        found: list[tuple[float, float]] = []
        for low, high in sorted(every):
            if found and low <= found[-1][1]:
                found[-1] = (found[-1][0], max(high, found[-1][1]))
            else:
                found.append((low, high))
        return found

    def dilution(self, duration: float) -> float:
        """The largest of all classes."""
        return max(member.dilution(duration) for member in self.members.values())
