"""Colours and marks of pictures: a palette that colour-blind readers can tell apart, and text that can be read.

Text needs more contrast than an area does. `text_colour` darkens a colour until its contrast with the ground of a panel
is at least 4.5 to 1, by the relative luminance L of the Web Content Accessibility Guidelines: (L₁ + 0.05)/(L₂ + 0.05).
"""

from __future__ import annotations

import colorsys
from functools import cache

__all__ = ["COLOURS", "GREY", "INK", "colour_of", "contrast", "mark_of", "text_colour"]

INK = "#222222"
GREY = "#8c8c8c"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, without black (data, truth) and yellow (too pale on white)."""
FURTHER = ("#332288", "#882255", "#999933", "#661100", "#44AA99", "#AA4499")
"""Six more, darker or duller than those above."""
MARKS = ("o", "D", "s", "^", "v", "P", "h", "X")
"""Marks of the classes of components; their colours are the components' own."""
GROUND = "#f7f7f7"
"""The darkest ground that text stands on: the shaded band of a spectrum."""
SMALLEST_CONTRAST = 4.5
"""For small text, according to the guidelines."""
GOLDEN_ANGLE = 0.618034
"""In turns: hues at its multiples never come back to one another."""
LIGHTNESSES = (0.30, 0.42, 0.54)


def colour_of(j: int) -> str:
    """Colour of component j, counted from 0; no two components have the same."""
    listed = COLOURS + FURTHER
    if j < len(listed):
        return listed[j]
    hue, lightness = (j * GOLDEN_ANGLE) % 1.0, LIGHTNESSES[j % len(LIGHTNESSES)]
    return _hex(colorsys.hls_to_rgb(hue, lightness, 0.6))


def mark_of(kind: int) -> str:
    """Mark of the components of a class, by its number, counted from 0; the first is that of all without classes."""
    return MARKS[kind % len(MARKS)]


@cache
def text_colour(colour: str) -> str:
    """The colour itself if text in it can be read on a panel, otherwise the nearest darker shade that can."""
    shade = 1.0
    while (
        contrast(darker := _hex(tuple(shade * c for c in _rgb(colour))), GROUND) < SMALLEST_CONTRAST
    ):
        shade -= 0.01
    return darker


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, from 1 (the same luminance) to 21 (black on white)."""
    low, high = sorted(_luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    """Relative luminance, 0 (black) to 1 (white)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> tuple[float, ...]:
    """Red, green and blue from 0 to 1 of "#rrggbb"."""
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _hex(rgb: tuple[float, ...]) -> str:
    """The colour "#rrggbb" of red, green and blue from 0 to 1."""
    return "#" + "".join(f"{round(255 * c):02x}" for c in rgb)
