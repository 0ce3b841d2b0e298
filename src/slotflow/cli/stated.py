"""What the user states of the prior, by flags and in a prior file: bounds, p(K) and known noise levels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slotflow.cli.options import (
    Amplitude,
    Band,
    ClassesText,
    FLow,
    KMax,
    KMin,
    MinSeparation,
    OverK,
    PriorFile,
    Sigma,
    SigmaShort,
    WaveformText,
    band_bounds,
    bounds,
)

if TYPE_CHECKING:
    from slotflow.infer.statement import Statement

__all__ = ["PriorFlags", "level_or_bounds", "prior_over_k", "stated_waveform"]

Levels = tuple[float | None, float | None]


@dataclass(frozen=True)
class PriorFlags:
    """What the flags say of the prior; None where nothing is said."""

    prior: PriorFile = None
    band: Band = None
    f_lo: FLow = None
    amplitude: Amplitude = None
    min_separation: MinSeparation = None
    k_min: KMin = None
    k_max: KMax = None
    sigma: Sigma = None
    sigma_short: SigmaShort = None
    k_prior: OverK = None
    waveform: WaveformText = None
    classes: ClassesText = None

    def stated(self) -> tuple[Statement, Levels]:
        """What prior file and flags state together; a flag overrides the file.

        Returns:
            The statement, and the noise levels of the long and the short stream where they are known; the second is
            None if it is the first.
        """
        from slotflow.infer.statement import Statement
        from slotflow.signal.prior_file import read_prior

        if self.band is not None and self.f_lo is not None:
            raise ValueError("--band and --f-lo both say where to look; give one of them.")
        bounded = self.k_min is not None or self.k_max is not None
        if self.k_prior is not None and bounded:
            raise ValueError(
                "--k-prior and --k-min or --k-max all say which K are possible; give one or the other."
            )
        fields: dict[str, Any] = {} if self.prior is None else read_prior(self.prior)
        if "band" in fields:
            fields["frequency"] = fields.pop("band")
        if self.k_prior is not None:
            fields = {n: value for n, value in fields.items() if n not in ("k_min", "k_max")}
        elif bounded:
            fields.pop("k_prior", None)
        if self.f_lo is not None:
            fields.pop("frequency", None)
        fields |= {name: value for name, value in self._flags().items() if value is not None}
        levels = _levels(fields.get("sigma"), fields.pop("sigma_short", None))
        return Statement(**fields), levels

    def _flags(self) -> dict[str, Any]:
        """The flags as fields of a statement."""
        return {
            "frequency": band_bounds("--band", self.band),
            "lowest_frequency": self.f_lo,
            "amplitude": bounds("--amplitude", self.amplitude),
            "min_separation": self.min_separation,
            "k_min": self.k_min,
            "k_max": self.k_max,
            "sigma": level_or_bounds("--sigma", self.sigma),
            "sigma_short": self.sigma_short,
            "k_prior": None if self.k_prior is None else prior_over_k(self.k_prior),
            "waveform": stated_waveform(self.waveform, self.classes),
        }


def level_or_bounds(option: str, text: str | None) -> tuple[float, float] | None:
    """Reads ``LEVEL`` or ``LOW:HIGH``; a known level is twice the same."""
    if text is None or ":" in text:
        return bounds(option, text)
    try:
        level = float(text)
    except ValueError:
        level = math.nan
    if not 0 < level < math.inf:
        raise ValueError(
            f"{option}: expected a noise level above 0 such as 0.7 or bounds such as 0.3:1.5, received {text!r}."
        )
    return level, level


def stated_waveform(waveform: str | None, classes: str | None) -> str | None:
    """The text of --waveform or --classes, checked; None where neither is given."""
    from slotflow.signal.prior_file import waveform_text
    from slotflow.signal.waveforms import classes_text

    if waveform is not None and classes is not None:
        raise ValueError("--waveform and --classes both say what components are; give one of them.")
    try:
        if classes is not None:
            return waveform_text(classes_text(classes))
        return None if waveform is None else waveform_text(waveform)
    except ValueError as error:
        option = "--waveform" if classes is None else "--classes"
        raise ValueError(f"{option}: {error}") from None


def prior_over_k(text: str) -> dict[int, float]:
    """Reads --k-prior: ``P0,P1,...`` or ``K:P,K:P,...``; a K that is not named is impossible."""
    parts = text.split(",")
    try:
        if ":" in text:
            pairs = [part.split(":") for part in parts]
            if len({int(k) for k, _ in pairs}) < len(pairs):
                raise ValueError("a K is named twice")
            return {int(k): float(p) for k, p in pairs}
        return {k: float(part) for k, part in enumerate(parts)}
    except ValueError:
        raise ValueError(
            f"--k-prior: expected numbers for K = 0, 1, ... such as 0,1,1,2 or pairs such as "
            f"1:0.5,2:0.5, received {text!r}."
        ) from None


def _levels(sigma: tuple[float, float] | None, short: float | None) -> Levels:
    """Known noise levels of the streams from bounds of σ and what is stated of the short stream."""
    known = sigma[0] if sigma is not None and sigma[0] == sigma[1] else None
    if known is not None and known <= 0:
        raise ValueError(
            f"--sigma (sigma in a prior file): expected a noise level above 0, received {known:g}; correct it, or give "
            "bounds such as 0.3:1.5."
        )
    if short is None:
        return known, None
    if not 0 < short < math.inf:
        raise ValueError(
            f"--sigma-short (sigma_short in a prior file): expected a noise level above 0, received {short:g}."
        )
    if known is None:
        told = "none" if sigma is None else f"the bounds {sigma[0]:g}:{sigma[1]:g}"
        raise ValueError(
            "--sigma-short (sigma_short in a prior file): expected a known noise level of the long stream beside it, "
            f"such as --sigma 0.7, received {told}; state it, or drop --sigma-short."
        )
    return known, short
