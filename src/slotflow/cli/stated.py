"""What the user states of the prior, by flags and in a prior file: bounds, p(K) and known noise levels."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from slotflow.cli.options import bounds
from slotflow.signal.prior_file import read_prior

__all__ = ["Stated", "level_or_bounds", "prior_over_k", "stated_prior"]


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


class Stated(NamedTuple):
    """What prior file and flags state together."""

    fields: dict[str, Any]
    """Fields of a Prior; None where nothing is stated."""
    k_prior: dict[int, float] | None
    """p(K), if it is stated; a K that is not named is impossible."""
    levels: tuple[float | None, float | None]
    """Noise levels of the long and the short stream, if they are known; the second is None if it is the first."""


def stated_prior(
    file: Path | None,
    *,
    band: str | None = None,
    amplitude: str | None = None,
    min_separation: float | None = None,
    k_min: int | None = None,
    k_max: int | None = None,
    sigma: str | None = None,
    sigma_short: float | None = None,
    k_prior: str | None = None,
) -> Stated:
    """What prior file and flags state together; a flag overrides the file.

    Args:
        file: The prior file, if there is one.
        band: What --band says; None if it is not given, as for all that follow.
        amplitude: What --amplitude says.
        min_separation: What --min-separation says.
        k_min: What --k-min says.
        k_max: What --k-max says.
        sigma: What --sigma says.
        sigma_short: What --sigma-short says.
        k_prior: What --k-prior says.
    """
    bounded = k_min is not None or k_max is not None
    if k_prior is not None and bounded:
        raise ValueError(
            "--k-prior says which K are possible, and so do --k-min and --k-max; give one or the other."
        )
    stated: dict[str, Any] = {
        "frequency": bounds("--band", band),
        "amplitude": bounds("--amplitude", amplitude),
        "min_separation": min_separation,
        "k_min": k_min,
        "k_max": k_max,
        "sigma": level_or_bounds("--sigma", sigma),
        "sigma_short": sigma_short,
    }
    found = {} if file is None else read_prior(file)
    over_k = found.pop("k_prior", None)
    if "band" in found:
        found["frequency"] = found.pop("band")
    if k_prior is not None:
        over_k = prior_over_k(k_prior)
        found = {name: value for name, value in found.items() if name not in ("k_min", "k_max")}
    elif bounded:
        over_k = None
    if over_k is not None and not isinstance(over_k, dict):
        over_k = dict(enumerate(over_k))
    for name, value in found.items():
        if stated.get(name) is None:
            stated[name] = value
    return Stated(stated, over_k, _levels(stated.get("sigma"), stated.pop("sigma_short")))


def _levels(
    sigma: tuple[float, float] | None, short: float | None
) -> tuple[float | None, float | None]:
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
