"""What a user says of the prior: all of it, some of it, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from slotflow.core.arrays import Array
from slotflow.network.options import KPrior
from slotflow.signal.prior import Prior, pair_of
from slotflow.signal.waveforms import Classes, Waveform, classes_text

__all__ = ["Statement"]

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Statement:
    """What is stated of the prior, in the data's units; None where nothing is."""

    frequency: Bounds | None = None
    """Bounds of f, in Hz: the band."""
    lowest_frequency: float | None = None
    """Lower edge in Hz of a band as wide as the network's window, where the band itself is not stated."""
    amplitude: Bounds | None = None
    """Bounds of A."""
    amplitude_law: str | None = None
    """"uniform" or "loguniform"."""
    min_separation: float | None = None
    """Smallest distance of two frequencies, in Hz."""
    sigma: Bounds | None = None
    """Bounds of the noise level; twice the same number where it is known."""
    k_min: int | None = None
    """Smallest number of components."""
    k_max: int | None = None
    """Largest number of components."""
    k_prior: KPrior | None = None
    """p(K), instead of bounds of K."""
    waveform: Waveform | str | None = None
    """What a component is, with the prior of its shape; several classes as one waveform (`Classes`).

    A text may leave settings open, which the length of the record then suggests."""
    resolved: bool = False
    """Whether lines that the record resolves are looked for first, where no separation is stated."""
    whole: Prior | None = None
    """The prior, where all of it is stated."""

    @classmethod
    def of(
        cls, prior: Prior | Mapping[str, Any] | Statement | None, k_prior: KPrior | None = None
    ) -> Statement:
        """What the arguments of `SlotFlow.infer` state.

        Args:
            prior: A prior, some of its fields by their names, or None. ``band`` for ``frequency`` is understood, and
                ``classes`` as a text such as "tone,damped" or a mapping from names to waveforms.
            k_prior: p(K) beside it, if any.
        """
        if isinstance(prior, cls):
            return prior
        if isinstance(prior, Prior):
            return cls(whole=prior, k_prior=k_prior)
        if prior is not None and not isinstance(prior, Mapping):
            raise ValueError(
                f"expected a Prior, some of its fields in a mapping, or None, received {type(prior).__name__}; build "
                "one with Prior(...) or Prior.paper()."
            )
        given = {"frequency" if name == "band" else name: v for name, v in (prior or {}).items()}
        if "k_prior" in given:
            if k_prior is not None:
                raise ValueError(
                    "prior: expected k_prior in the mapping or as an argument, received both; leave one of them out."
                )
            k_prior = given.pop("k_prior")
        if "classes" in given:
            given["waveform"] = _one_waveform(given.pop("classes"), given.get("waveform"))
        known = [field.name for field in fields(cls) if field.name not in ("whole", "k_prior")]
        if unknown := [name for name in given if name not in known]:
            raise ValueError(
                f"prior: expected some of {', '.join(known)}, k_prior, received {unknown[0]!r}; correct or drop it."
            )
        for name in ("frequency", "amplitude", "sigma"):
            if given.get(name) is not None:
                given[name] = pair_of(name, given[name])
        for name in ("k_min", "k_max", "min_separation"):
            if isinstance(given.get(name), str | bytes | Sequence):
                raise ValueError(
                    f"prior: expected a number as {name}, received {given[name]!r}; correct it."
                )
        return cls(**given, k_prior=k_prior)

    def within(self, band: Bounds) -> Statement:
        """The same with the band stated too, unless the whole prior is."""
        if self.whole is not None:
            return self
        return replace(self, frequency=band, lowest_frequency=None)

    def check_counts(self, probs: Array) -> None:
        """Refuses a p(K), (K_max + 1,), with weight beyond the bounds of K that are stated beside it."""
        possible = np.flatnonzero(probs).tolist()
        for name, k, beyond in (
            ("k_min", possible[0], self.k_min is not None and possible[0] < self.k_min),
            ("k_max", possible[-1], self.k_max is not None and possible[-1] > self.k_max),
        ):
            if beyond:
                raise ValueError(
                    f"prior: expected a k_prior that is 0 outside of the stated bounds of K, received one that gives "
                    f"weight to K = {k} beside {name} = {getattr(self, name)}; correct or drop one of them."
                )

    @property
    def limits_k(self) -> bool:
        """Whether it says how many components there may be; if it does not, windows may find more of them."""
        said = (self.whole, self.k_prior, self.k_min, self.k_max)
        return any(part is not None for part in said)

    @property
    def prior_fields(self) -> dict[str, Any]:
        """The fields of a Prior that are stated."""
        names = (
            "frequency",
            "amplitude",
            "amplitude_law",
            "min_separation",
            "sigma",
            "k_min",
            "k_max",
            "waveform",
        )
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def _one_waveform(classes: object, waveform: object) -> Waveform | str:
    """Classes that were stated, as one waveform."""
    if waveform is not None:
        raise ValueError(
            "prior: expected a waveform or classes, received both; leave one of them out."
        )
    if isinstance(classes, Mapping) and all(isinstance(one, Waveform) for one in classes.values()):
        return Classes(**classes)
    if isinstance(classes, str | Mapping):
        return classes_text(classes)
    raise ValueError(
        f"prior: expected classes as a text such as 'tone,damped' or as a mapping from names to waveforms, received "
        f"{type(classes).__name__}."
    )
