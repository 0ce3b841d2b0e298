"""What the site needs beyond Markdown: formulas without JavaScript, and no links that lead out of the site.

mkdocs calls the functions below (`hooks` in mkdocs.yml); mkdocstrings loads `Formulas` to read docstrings.

A formula, ``$$ … $$`` in a page or ``.. math::`` in a docstring, becomes an SVG path: matplotlib sets it, the page
needs neither a font nor JavaScript, and it takes the colour of the text. Links to files of the repository that are
not part of the site, such as ``../src/…``, keep their words and lose the link."""

from __future__ import annotations

import html
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import griffe

__all__ = ["Formulas", "on_page_content", "on_page_markdown", "raised", "svg"]

DOCS = Path(__file__).resolve().parent
FONT_SIZE = 16.0
COMMANDS = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
"""matplotlib's codes of a path's segments as SVG writes them."""
ITEM = r"\s*([A-Za-z0-9]|\\[a-z]+)"
"""An argument of a LaTeX command without braces."""
RULES = (
    (r"\\tfrac(?![a-z])", r"\\frac"),
    (rf"\\frac(?![a-z]){ITEM}{ITEM}", r"\\frac{\1}{\2}"),
    (rf"\\(sqrt|overline)(?![a-z]){ITEM}", r"\\\1{\2}"),
    (r"\\(hat|bar|tilde)(?=[^\x00-\x7f])", r"\\\1 "),
    (r"\\(le|ge|ne)(?![a-z])", r"\\\1q"),
    (r"\\[bB]ig(?![a-z])", ""),
    (r"\\text\{([^}]*)\}", lambda m: r"\mathrm{" + m[1].replace(" ", r"\ ") + "}"),
    (r"\\top(?![a-z])", "T"),
    (r"\\setminus(?![a-z])", r"\\backslash"),
    (r"&", ""),
)
"""What matplotlib's mathtext writes differently from LaTeX, as patterns and replacements, applied in this order."""

SCRIPTS = (
    (r"\^\{([^{}]+)\}", "sup"),
    (r"(?<=[\w)\]])\^([\w−])(?![\w.])", "sup"),
    (r"(?<=\w)_\{([^{}]+)\}", "sub"),
    (r"(?<=\b\w)_([a-zφ0-9]{1,5}|[A-Z])(?![\w(])", "sub"),
    (r"(?<=\bΔf)_([a-z]{1,3})(?![\w(])", "sub"),
)
"""Exponents and indices of running text, as patterns of what is to be set and HTML tags."""


@cache
def svg(formula: str) -> str:
    """One line of LaTeX as an inline SVG element; a ValueError of matplotlib if it cannot be set."""
    from matplotlib.textpath import TextPath

    text = " ".join(formula.split())
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    path = TextPath((0, 0), f"${text}$", size=FONT_SIZE)
    commands = []
    for vertices, code in path.iter_segments(simplify=False):
        letter = COMMANDS[int(code)]
        points = () if letter == "Z" else vertices.reshape(-1, 2) * (1, -1)
        commands.append(letter + " ".join(f"{x:.2f},{y:.2f}" for x, y in points))
    box = path.get_extents()
    x, y, width, height = box.x0 - 1, -box.y1 - 1, box.width + 2, box.height + 2
    label = html.escape(formula.strip(), quote=True)
    return (
        f'<svg role="img" aria-label="{label}" viewBox="{x:.1f} {y:.1f} {width:.1f} {height:.1f}" '
        f'style="width:{width / FONT_SIZE:.2f}em;max-width:100%">'
        f'<path fill="currentColor" d="{"".join(commands)}"/></svg>'
    )


def on_page_content(content: str, **_: Any) -> str:
    """Sets the formulas of a page."""
    block = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)

    def lines(match: re.Match[str]) -> str:
        formulas = html.unescape(match[1]).split(r"\\")
        return "".join(f'<p style="margin-left:1.5em">{svg(formula)}</p>' for formula in formulas)

    return raised(block.sub(lines, content))


def raised(content: str) -> str:
    """Sets exponents and indices in running text, such as s^2, e^{2πift}, f_hi and K_max; code and formulas stay."""

    def set_text(part: str) -> str:
        for pattern, tag in SCRIPTS:
            part = re.sub(pattern, rf"<{tag}>\1</{tag}>", part)
        return part

    parts = re.split(
        r"(<(?:code|pre|svg)\b.*?</(?:code|pre|svg)>|<[^>]+>)", content, flags=re.DOTALL
    )
    return "".join(part if i % 2 else set_text(part) for i, part in enumerate(parts))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Takes links away that lead out of the site into the repository."""
    folder = (DOCS / page.file.src_uri).parent

    def shorten(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / match[2].partition("#")[0]))
        outside = DOCS not in target.parents or target.is_relative_to(DOCS / "data")
        return match[1] if outside and target.exists() else match[0]

    return re.sub(r"(?<!!)\[([^\]]*)\]\(((?![a-z]+:|#)[^)\s]+)\)", shorten, markdown)


class Formulas(griffe.Extension):
    """Rewrites what Markdown does not know in docstrings: ``.. math::``, tables ruled with ``===``, ``Example::``."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **_: Any) -> None:
        """Looks at every module, class and function that griffe has read."""
        if isinstance(obj, griffe.Alias) or obj.docstring is None:
            return
        text = re.sub(
            r"^( *)\.\. math::\s*(.+?)(?=\n\s*\n|\Z)",
            _display,
            obj.docstring.value,
            flags=re.M | re.S,
        )
        text = re.sub(r"^( *)=+(?: +=+)+\n(.*?)\n\1=+(?: +=+)+$", _ruled, text, flags=re.M | re.S)
        text = re.sub(r":(?:func|class|mod|meth):`~?([^`]+)`", r"`\1`", text)
        obj.docstring.value = re.sub(r"(?<=\S)::$", ":", text, flags=re.M)


def _display(match: re.Match[str]) -> str:
    """One directive as a formula of its own paragraph."""
    body = " ".join(line.strip() for line in match[2].splitlines())
    return f"{match[1]}$${body}$$"


def _ruled(match: re.Match[str]) -> str:
    """A table without headings, whose columns are two spaces or more apart."""
    rows = [re.split(r" {2,}", line.strip()) for line in match[2].splitlines()]
    size = max(map(len, rows))
    rows = [[""] * size, ["---"] * size, *(row + [""] * (size - len(row)) for row in rows)]
    return "\n".join(f"{match[1]}| {' | '.join(row)} |" for row in rows)
