"""What a person can say about noise, and its short forms in text.

>>> parse_noise("ar(2)").text
'ar(2)'
>>> parse_noise("power_law(0.01, 2)").shape
(0.01, 2.0)
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotflow.signal.noise.psd import Density, density_of

__all__ = ["StatedNoise", "ar", "auto", "local", "parse_noise", "power_law", "psd", "white"]

FORMS = "auto, white, local, ar, ar(2), power_law, power_law(KNEE, EXPONENT), or a file with a power spectral density"


@dataclass(frozen=True, eq=False)
class StatedNoise:
    """Noise as a person states it; made by `white`, `local`, `ar`, `power_law`, `psd` and `auto`."""

    kind: str
    """"auto", "white", "local", "ar", "power_law" or "psd"."""
    order: int | None = None
    """Of autoregressive noise; None: by evidence."""
    coefficients: tuple[complex, ...] = ()
    """Known φ of x_t = Σ φ_j x_{t−j} + ε_t."""
    shape: tuple[float, float] | None = None
    """Known knee in Hz and exponent of a power law."""
    densities: tuple[Density, ...] = ()
    """Power spectral density of all channels, or of each."""
    text: str = ""
    """In short, as on the command line."""

    def __repr__(self) -> str:
        return self.text or self.kind


def auto() -> StatedNoise:
    """White noise where the data pass a test of it, and otherwise coloured or local noise."""
    return StatedNoise("auto", text="auto")


def white() -> StatedNoise:
    """White noise of one level."""
    return StatedNoise("white", text="white")


def local() -> StatedNoise:
    """Noise with a level, and if need be a slope, of its own in the band; the rest of the spectrum does not count."""
    return StatedNoise("local", text="local")


def ar(order: int | None = None, *, coefficients: Sequence[complex] | None = None) -> StatedNoise:
    """Autoregressive noise of even series, x_t = Σ φ_j x_{t−j} + ε_t.

    Args:
        order: Number of coefficients, which are marginalized; None: the order that has the most evidence.
        coefficients: φ, if they are known.
    """
    if coefficients is not None:
        known = tuple(coefficients)
        if not known or (order is not None and order != len(known)):
            raise ValueError(
                f"expected as many coefficients as the order of the AR noise, received {len(known)} for {order}."
            )
        written = ", ".join(f"{c:g}" for c in known)
        return StatedNoise("ar", len(known), known, text=f"ar(coefficients=[{written}])")
    if order is not None and (
        isinstance(order, bool) or order != int(order) or not 1 <= order <= 64
    ):
        raise ValueError(f"expected an AR order from 1 to 64, received {order}.")
    return StatedNoise("ar", order, text="ar" if order is None else f"ar({order})")


def power_law(knee: float | None = None, exponent: float | None = None) -> StatedNoise:
    """Red noise above a white floor, S(f) = σ² (1 + (f/knee)^−exponent), at any times.

    Args:
        knee: Where both are alike, in Hz, if known together with the exponent; both are marginalized otherwise.
        exponent: Of the frequency.
    """
    if (knee is None) != (exponent is None):
        raise ValueError("expected both knee and exponent of a power law, or neither.")
    if knee is None or exponent is None:
        return StatedNoise("power_law", text="power_law")
    if not (knee > 0 and 0 < exponent <= 6):
        raise ValueError(
            f"expected a knee above 0 Hz and an exponent between 0 and 6, received {knee:g} and {exponent:g}."
        )
    return StatedNoise(
        "power_law", shape=(float(knee), float(exponent)), text=f"power_law({knee:g}, {exponent:g})"
    )


def psd(*sources: Any) -> StatedNoise:
    """Noise of a given power spectral density (one-sided; two-sided for complex samples), per Hz.

    The prior of σ is then that of a factor: σ = 1 takes the density as it is, bounds around 1 let it float.

    Args:
        *sources: One for all channels or one for each: a function of frequency, arrays (f, S), or a file.
    """
    if not sources:
        raise ValueError("expected a power spectral density: a function, arrays (f, S), or a file.")
    names = [str(s) for s in sources if isinstance(s, (str, os.PathLike))]
    text = f"psd({', '.join(names)})" if names else "psd"
    return StatedNoise("psd", densities=tuple(density_of(s) for s in sources), text=text)


def parse_noise(stated: Any) -> StatedNoise:
    """Noise from its short form: a word, "ar(2)", "power_law(0.01, 2)" or the path of a density.

    Numbers with a decimal point in ar(…) are known coefficients: "ar(0.9)", "ar(1.2, -0.5)".
    """
    if isinstance(stated, StatedNoise):
        return stated
    if not isinstance(stated, (str, os.PathLike)):
        raise ValueError(
            f"expected noise as one of {FORMS}, or from slotflow.noise, received {type(stated).__name__}."
        )
    text = str(stated).strip()
    word = text.lower().replace("-", "_")
    if word in ("auto", "white", "local"):
        return {"auto": auto, "white": white, "local": local}[word]()
    match = re.fullmatch(r"(ar|power_law|red)(?:\((.*)\))?", word)
    if match:
        return _with_numbers(match[1], match[2], text)
    if Path(text).is_file():
        return psd(text)
    raise ValueError(f"expected noise as {FORMS}; received {text!r}, which is no file either.")


def _with_numbers(word: str, inside: str | None, text: str) -> StatedNoise:
    """AR noise or a power law with the numbers between brackets."""
    parts = [p.strip().replace("_", "-") for p in (inside or "").split(",") if p.strip()]
    try:
        numbers = [float(p) for p in parts]
    except ValueError:
        raise ValueError(f"expected numbers between the brackets of {text!r}.") from None
    if word == "ar":
        if not numbers:
            return ar()
        if len(numbers) == 1 and "." not in parts[0]:
            return ar(int(numbers[0]))
        return ar(coefficients=numbers)
    if len(numbers) not in (0, 2):
        raise ValueError(
            f"expected power_law or power_law(KNEE, EXPONENT) with the knee in Hz, received {text!r}."
        )
    return power_law(*numbers)
