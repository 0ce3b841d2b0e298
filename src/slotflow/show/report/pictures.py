"""The pictures of a report, inside the page."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from slotflow.show.report.html import escape, figure

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["drawn", "missing", "pictures"]

DPI, CSS = 130, 100
"""Pixels of a picture and of the page for each inch."""
FEW, MANY = 3, 12
"""Components up to which there is a corner plot, and correlations."""

PICTURES = {
    "data": (
        "Data and reconstruction",
        "The beginning of the series with the mean of the posterior's signals and the band that holds 90 % of them.",
    ),
    "spectrum": ("Spectrum of the band", "Amplitude spectrum of the long stream"),
    "components": (
        "Components",
        "Each component's posterior as distances from its median; the numbers beside it are median and standard "
        "deviation.",
    ),
    "corner": (
        "Joint posterior",
        "All pairs of parameters given the most probable K; contours hold 39 % and 86 % of the draws.",
    ),
    "correlation": (
        "Correlations",
        "Posterior correlations of amplitude A, phase φ and frequency f of all components.",
    ),
    "residual": (
        "Residual",
        "What the best fit leaves of the data, over time and over frequency, beside what white noise would.",
    ),
}
"""Title and caption of each picture, in their order."""


def pictures(post: Posterior) -> list[str]:
    """The pictures that this posterior has, and why others are missing."""
    k, found = post.k_map, list[str]()
    try:
        post.sample(1)
    except ValueError as error:  # a file without draws
        return [missing("All pictures", str(error))]
    for name, (title, caption) in PICTURES.items():
        if name == "spectrum":
            title, caption = _spectrum(post)
        if name in ("data", "residual") and not post.has_data:
            found.append(missing(title, "the file does not hold the data."))
        elif (name in ("components", "corner", "correlation") and k == 0) or (
            name == "corner" and k > FEW
        ):
            continue
        elif name == "correlation" and k > MANY:
            reason = f"{k} components are too many for a page; post.correlation() has the numbers."
            found.append(missing(title, reason))
        else:
            found += [f"<h3>{escape(title)}</h3>", *drawn(post, name, title, caption)]
    return found


def _spectrum(post: Posterior) -> tuple[str, str]:
    """Title and caption of the spectrum, with what is in it."""
    title, caption = PICTURES["spectrum"]
    parts = ["components (median, 5 % to 95 %)"] if post.k_map else []
    if (limit := post.upper_limit()) is not None:
        parts.append(f"{100 * limit.credibility:g} % upper limits of a lone tone")
    with_them = " and ".join(parts)
    if not post.has_data:
        return "Components over frequency", f"{with_them[:1].upper()}{with_them[1:]}."
    return title, f"{caption}{f' with {with_them}' if parts else ''}."


def drawn(post: Posterior, name: str, title: str, caption: str) -> list[str]:
    """A picture with its caption, or why it could not be drawn."""
    from slotflow.show.plots.style import style

    content = BytesIO()
    try:
        drawing = post.plot(name)
        with style():
            drawing.savefig(content, format="png", dpi=DPI)
    except (ValueError, ImportError) as error:  # draws or a package that are not there
        return [missing(title, str(error))]
    width = round(CSS * drawing.get_figwidth())
    return figure(content.getvalue(), title, caption, width)


def missing(title: str, reason: str) -> str:
    """A line in the place of something."""
    return f'<p class="missing"><strong>{escape(title)}:</strong> missing, {escape(reason)}</p>'
