"""Packages that are imported when they are first needed: optional ones, and corner.

ArviZ 0.23, which corner imports too, announces its next major version once a day and leaves a stamp in the user's cache
folder. Nobody who asks for a picture or a chain can act on that announcement, so it is kept from them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["needed", "without_announcements"]

ANNOUNCEMENT = r"\s*ArviZ is undergoing a major refactor"


@contextmanager
def without_announcements() -> Iterator[None]:
    """Silences ArviZ's daily announcement, and nothing else, while the block imports."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=ANNOUNCEMENT, category=FutureWarning)
        yield


def needed(package: str, extra: str | None = None, instead: str = "") -> Any:
    """A package, or an error that says how to install it.

    Args:
        package: Its name.
        extra: The extra of slotflow that brings it; None: it is one of slotflow's own dependencies.
        instead: What to do otherwise, such as "or write a .csv file".
    """
    try:
        with without_announcements():
            return import_module(package)
    except ImportError as error:
        source = f"slotflow[{extra}]" if extra else package
        raise ValueError(
            f"expected the package {package}, which is not installed; install it with pip install '{source}'"
            f"{' ' + instead if instead else ''}."
        ) from error
