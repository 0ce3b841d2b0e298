"""The terminal: results go to standard output, complaints to standard error. Nothing here waits for torch."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

__all__ = ["complain", "console"]

console = Console(highlight=False, soft_wrap=True)
_errors = Console(highlight=False, soft_wrap=True, stderr=True)


def complain(label: str, message: object) -> None:
    """Prints one line on standard error."""
    _errors.print(f"[red]{label}:[/red] {escape(' '.join(str(message).split()))}")
