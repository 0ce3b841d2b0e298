"""Waveforms from texts that leave settings open: what a record of some length can show takes their place.

A drift of 30/T² carries a chirp over 30 bins; a line of γ = 30/T decays within a thirtieth of the record, and one of
1/T hardly at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotflow.signal.waveforms.base import Waveform
from slotflow.signal.waveforms.classes import Classes
from slotflow.signal.waveforms.text import comma_parts, parsed

__all__ = ["classes_text", "suited"]

LARGEST_DRIFT = 30.0
"""In units of 1/T²."""
SLOWEST_DECAY, FASTEST_DECAY = 1.0, 30.0
"""In units of 1/T."""


def suited(text: str, duration: float) -> Waveform:
    """The waveform of a text; settings that it leaves open suit a record.

    Args:
        text: Such as "chirp", "damped(rate=0.01:0.2)" or what `classes_text` gives.
        duration: Length of the record in seconds.
    """
    name, settings = parsed(text)
    if name == Classes.name:
        return Classes(**{label: suited(part, duration) for label, part in settings.items()})
    inner = ", ".join(f"{key}={value}" for key, value in (_open(name, duration) | settings).items())
    if "time" in settings:
        inner = f"time={settings['time']}"
    return Waveform.of_text(f"{name}({inner})" if inner else name)


def classes_text(text: str | Mapping[str, str]) -> str:
    """Classes as a text of `suited`, from a list such as "tone, chirp, ring=damped(rate=0.01:0.2)" or from pairs.

    A class without a name of its own is called by its waveform.
    """
    if isinstance(text, Mapping):
        pairs = [(str(name), str(value)) for name, value in text.items()]
    else:
        pairs = [_named(part) for part in comma_parts(text)]
    names = [name for name, _ in pairs]
    if not pairs or len(set(names)) < len(names):
        raise ValueError(
            f"expected classes with different names, such as 'tone, slow=damped, fast=damped', received {text!r}."
        )
    return f"{Classes.name}({', '.join(f'{name}={value}' for name, value in pairs)})"


def _named(part: str) -> tuple[str, str]:
    """The name and the waveform of a class."""
    name, equals, rest = part.partition("=")
    if equals and "(" not in name:
        return name.strip(), rest.strip()
    return parsed(part)[0], part


def _open(name: str, duration: float) -> dict[str, str]:
    """Settings of a waveform that a record of some length suggests."""
    if name == "chirp":
        drift = LARGEST_DRIFT / duration**2
        return {"drift": f"{-drift!r}:{drift!r}"}
    if name == "damped":
        slow, fast = SLOWEST_DECAY / duration, FASTEST_DECAY / duration
        return {"rate": f"{slow!r}:{fast!r}:loguniform"}
    return {}
