"""Functions of later modules that an earlier one offers as methods.

A posterior can be refined, plotted and printed as a page; a model can infer, and be loaded from a file. The code behind
these methods lives in modules that come after those of `Posterior` and `SlotFlow` and import them, so the classes
cannot import it in turn. They ask for it by a name instead, and `slotflow/__init__.py`, the roof over all rooms, says
which module answers to which name. That module is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["answer_with", "later"]

_ANSWERS: dict[str, str] = {}


def answer_with(places: Mapping[str, str]) -> None:
    """Says where functions live.

    Args:
        places: From a name to "module:function".
    """
    _ANSWERS.update(places)


def later(name: str) -> Any:
    """The function that answers to a name; it is imported now."""
    if name not in _ANSWERS:
        raise LookupError(f"expected one of {sorted(_ANSWERS)}, received {name!r}.")
    module, function = _ANSWERS[name].split(":")
    return getattr(import_module(module), function)
