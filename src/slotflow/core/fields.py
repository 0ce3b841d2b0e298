"""Settings as frozen dataclasses: checked when they are made, read from nested dictionaries and turned into them.

Errors name the field that does not fit. A setting that is an object with a text of its own (`text`, `of_text`) is that
text in a file.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

__all__ = ["check", "from_dict", "plain"]

T = TypeVar("T")


def check(condition: bool, expected: str, received: object) -> None:
    """Raises a ValueError that says what was expected and what was received, unless the condition holds."""
    if not condition:
        raise ValueError(f"expected {expected}, received {received}.")


def from_dict(cls: type[T], data: Any, where: str = "") -> T:
    """Builds a dataclass from nested dictionaries.

    Args:
        cls: The dataclass; its fields may be dataclasses, tuples, numbers, strings and any of them or None.
        data: A mapping from the names of fields to values.
        where: Where in a larger document the data come from, for error messages.
    """
    label = where or cls.__name__
    if not isinstance(data, dict):
        raise ValueError(f"{label}: expected a mapping, received {type(data).__name__}.")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - set(fields), key=str):
        raise ValueError(f"{label}: unknown key {unknown[0]!r}; expected some of {sorted(fields)}.")
    values = {}
    for name, spec in fields.items():
        if name in data:
            values[name] = _convert(hints[name], data[name], f"{where}.{name}".lstrip("."))
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise ValueError(f"{label}: the key {name!r} is missing.")
    try:
        return cls(**values)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from error


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Converts a plain value to the type that a field declares."""
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        if value is None:
            return None
        return _convert(next(a for a in args if a is not type(None)), value, where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{where}: expected a list, received {value!r}.")
        kinds = args[:1] * len(value) if len(args) == 2 and args[1] is Ellipsis else args
        if len(kinds) != len(value):
            raise ValueError(f"{where}: expected {len(kinds)} values, received {value!r}.")
        return tuple(_convert(a, v, where) for a, v in zip(kinds, value, strict=True))
    if isinstance(value, str) and hasattr(hint, "of_text"):
        return hint.of_text(value)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise ValueError(f"{where}: expected {hint.__name__}, received {value!r}.")


def plain(value: Any) -> Any:
    """Tuples to lists and objects that have a text to that text, recursively."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.text if hasattr(value, "of_text") else value
