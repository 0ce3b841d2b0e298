"""Options in groups: a command takes a few dataclasses, and the command line shows their fields as options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

__all__ = ["expanded"]


def expanded(function: Callable[..., None], **defaults: Any) -> Callable[..., None]:
    """The same command with a parameter for each field of the dataclasses that it takes, as typer reads it.

    Args:
        function: Some of its parameters are dataclasses whose fields are annotated as options; others stay as they are.
        **defaults: Other default values of parameters or fields.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            default = defaults.get(parameter.name, parameter.default)
            parameters.append(parameter.replace(annotation=kind, default=default))
            continue
        types = get_type_hints(kind, include_extras=True)
        groups[parameter.name] = (kind, [field.name for field in fields(kind)])
        for field in fields(kind):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            default = defaults.get(field.name, default)
            parameters.append(
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=default,
                    annotation=types[field.name],
                )
            )

    def command(**given: Any) -> None:
        collected = {
            name: kind(**{field: given.pop(field) for field in names})
            for name, (kind, names) in groups.items()
        }
        function(**given, **collected)

    required = [p for p in parameters if p.default is inspect.Parameter.empty]
    optional = [p for p in parameters if p.default is not inspect.Parameter.empty]
    command.__signature__ = inspect.Signature(required + optional)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = function.__doc__
    return command
