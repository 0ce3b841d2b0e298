"""Waveforms as one line of text: `tone`, `chirp(drift=-1e-4:1e-4)`, `classes(a=tone, b=damped(rate=0.01:0.2))`."""

from __future__ import annotations

import re

__all__ = ["comma_parts", "parsed"]

CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def parsed(text: str) -> tuple[str, dict[str, str]]:
    """The name before the brackets and the settings in them, each as text."""
    found = CALL.fullmatch(text)
    if found is None:
        raise ValueError(
            f"expected a waveform such as 'tone' or 'chirp(drift=-1e-4:1e-4)', received {text!r}."
        )
    settings = {}
    for part in comma_parts(found[2] or ""):
        name, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise ValueError(
                f"expected settings such as 'drift=-1e-4:1e-4' in the brackets of {text!r}, received {part!r}."
            )
        settings[name.strip()] = value.strip()
    return found[1], settings


def comma_parts(inner: str) -> list[str]:
    """What stands between commas that are not inside further brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(inner):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(inner[start:i])
            start = i + 1
    parts.append(inner[start:])
    return [part.strip() for part in parts if part.strip()]
