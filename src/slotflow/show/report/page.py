"""Pages of HTML that need no other file, laid out by jinja2 from the templates beside this module.

A page carries its pictures inside, runs no script, and can be read on a phone and on a desk, in light and in dark
colours. jinja2 escapes every value, so that text from outside (file names, verdicts, units) stays text. What is more
than text, such as a `Badge`, knows its own markup and escapes what it holds.

A package with pages of its own keeps them in its folder ``templates`` and calls ``render(name, package, …)``; they
extend ``page.html`` and take their tables and pictures from ``parts.html``.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slotflow.core.files import atomic_path

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Badge", "Code", "Missing", "Picture", "Stacked", "Table", "render", "write_page"]

HOME = "slotflow.show.report"
"""The package whose templates all pages share."""
PHONE_WIDTH = 620
"""Width in CSS pixels up to which a picture is shrunk to fit a phone; a wider one is swiped sideways."""


class Badge(NamedTuple):
    """A word on a coloured ground."""

    word: str
    kind: str
    """Its colour: "met", "missed" or "open"."""

    def __html__(self) -> str:
        return _markup('<span class="badge {}">{}</span>', self.kind, self.word)


class Code(NamedTuple):
    """Text in which `words` between backticks are set as code."""

    text: str

    def __html__(self) -> str:
        return re.sub(r"`([^`]*)`", r"<code>\1</code>", _markup("{}", self.text))


class Stacked(NamedTuple):
    """A cell of a table with a smaller line below the first."""

    text: str
    below: str

    def __html__(self) -> str:
        return _markup("{}<small>{}</small>", self.text, self.below)


@dataclass(frozen=True)
class Table:
    """A table whose first column names its rows."""

    columns: Mapping[str, str]
    """CSS class and heading of each column."""
    rows: Sequence[Sequence[object]]
    """One cell per column: text, a `Badge`, a `Code` or a `Stacked`."""


@dataclass(frozen=True)
class Picture:
    """A picture that is part of the page."""

    title: str
    caption: str
    """Stands below the picture, and in its place for readers who cannot see it."""
    png: bytes
    """Content of a PNG file."""
    width: int | None = None
    """In CSS pixels; None: as wide as the page."""

    @property
    def pixels(self) -> tuple[int, int]:
        """Width and height as the file's first chunk states them."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height

    @property
    def base64(self) -> str:
        """The file as text, for a data URL."""
        return base64.b64encode(self.png).decode("ascii")

    @property
    def narrow(self) -> bool:
        """Whether the picture can be shrunk to a phone's screen and still be read."""
        return self.width is not None and self.width <= PHONE_WIDTH


class Missing(NamedTuple):
    """What stands in the place of something that cannot be shown."""

    title: str
    reason: str


def render(template: str, package: str = HOME, **values: Any) -> str:
    """The text of a page.

    Args:
        template: Name of a template; one that ends in ``.md`` is not escaped, all others are.
        package: The package whose folder ``templates`` holds it.
        **values: What the template names. A name that is not given is an error.
    """
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    """Templates of a package and those that all pages share."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, HOME))]),
        autoescape=lambda name: name is None or not name.endswith(".md"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _markup(form: str, *values: str) -> str:
    """Markup with escaped values in its places."""
    from markupsafe import Markup

    return str(Markup(form).format(*values))


def write_page(path: str | Path, text: str) -> None:
    """Writes a page, whole or not at all; letters of a file name that are no Unicode become question marks."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, "utf-8", errors="replace")
