"""Waveforms from texts that leave settings open: what the waveform suggests for a record takes their place."""

from __future__ import annotations

from collections.abc import Mapping

from slotflow.signal.waveforms.base import Waveform
from slotflow.signal.waveforms.classes import Classes
from slotflow.signal.waveforms.text import comma_parts, parsed

__all__ = ["classes_text", "suited"]


def suited(text: str, duration: float, share: float = 1.0) -> Waveform:
    """The waveform of a text; settings that it leaves open suit a record.

    Args:
        text: Such as "chirp", "damped(rate=0.01:0.2)" or what `classes_text` gives.
        duration: Length of the record in seconds.
        share: How far components may reach beyond their places where the text leaves it open, as a share of how far
            they usually may.
    """
    name, settings = parsed(text)
    if name == Classes.name:
        return Classes(**{label: suited(part, duration, share) for label, part in settings.items()})
    kind = Waveform.kinds.get(name)
    if kind is not None and kind.internal:
        raise ValueError(f"expected a waveform that a component can have, received {name!r}.")
    if kind is not None:  # others are refused below
        stated = {kind.replaces(setting) for setting in settings}
        left = {key: v for key, v in kind.suggested(duration, share).items() if key not in stated}
        settings = left | settings
    inner = ", ".join(f"{key}={value}" for key, value in settings.items())
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
