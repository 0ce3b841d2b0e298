"""The pictures of a report, each inside the page, or the reason why it is missing."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from slotflow.show.report.page import Missing, Picture

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["drawn", "pictures"]

PIXELS_PER_INCH = 130
"""Of the file."""
CSS_PIXELS_PER_INCH = 100
"""Of the page."""
MOST_IN_CORNER_PLOT = 3
MOST_IN_CORRELATIONS = 12
"""Components up to which a report has a corner plot, and a matrix of correlations."""

PICTURES = {
    "data": (
        "Data and reconstruction",
        "The beginning of the series with the mean of the posterior's signals and the band that holds 90 % of them.",
    ),
    "spectrum": ("Spectrum of the band", "Amplitude spectrum of the data"),
    "components": (
        "Components",
        "Each component's posterior as distances from its median; the numbers beside it are median and standard "
        "deviation.",
    ),
    "corner": (
        "Joint posterior",
        "All pairs of parameters given the most probable K; contours hold 39 % and 86 % of the draws.",
    ),
    "correlation": ("Correlations", "Posterior correlations of {parameters} of all components."),
    "residual": (
        "Residual",
        "What the best fit leaves of the data, over time and over frequency, beside what white noise would. Coloured "
        "noise has been made white.",
    ),
}
"""Title and caption of each picture, in the order of the page."""
LOOKS: dict[str, tuple[str, ...]] = {
    "data": ("frequency_unit",),
    "spectrum": ("frequency_unit",),
    "components": ("frequency_unit", "phase_at"),
    "corner": ("frequency_unit", "phase_at"),
    "correlation": (),
    "residual": ("frequency_unit",),
}
"""What each picture takes of the units in which it is shown."""
NEED_DATA = ("data", "residual")
NEED_COMPONENTS = ("components", "corner", "correlation")


def pictures(
    post: Posterior, frequency_unit: str | None = None, phase_at: str | float = "auto"
) -> list[Picture | Missing]:
    """The pictures that a posterior has; those that it lacks are named with the reason.

    Args:
        post: The posterior.
        frequency_unit: Unit of the frequencies; by default that which goes with the data's times.
        phase_at: The instant that phases refer to.
    """
    look = {"frequency_unit": frequency_unit, "phase_at": phase_at}
    try:
        post.sample(1)
    except ValueError as error:  # a file without draws
        return [Missing("All pictures", str(error))]
    found: list[Picture | Missing] = []
    for name in PICTURES:
        title, caption = _words(post, name)
        if name in NEED_DATA and not post.has_data:
            found.append(Missing(title, "the file does not hold the data."))
        elif name == "correlation" and post.k_map > MOST_IN_CORRELATIONS:
            reason = f"{post.k_map} components are too many for a page; post.correlation() has the numbers."
            found.append(Missing(title, reason))
        elif not (
            (name in NEED_COMPONENTS and post.k_map == 0)
            or (name == "corner" and post.k_map > MOST_IN_CORNER_PLOT)
        ):
            options = {key: look[key] for key in LOOKS[name]}
            found.append(drawn(post, name, title, caption, **options))
    return found


def _words(post: Posterior, name: str) -> tuple[str, str]:
    """Title and caption of a picture of this posterior."""
    title, caption = PICTURES[name]
    if name == "correlation":
        *others, last = (f"{p.name} {p.symbol}" for p in post.waveform.measured)
        caption = caption.format(parameters=f"{', '.join(others)} and {last}")
    if name != "spectrum":
        return title, caption
    parts = ["components (median, 5 % to 95 %)"] if post.k_map else []
    if (limit := post.upper_limit()) is not None:
        parts.append(f"{100 * limit.credibility:g} % upper limits of a lone tone")
    contents = " and ".join(parts)
    if not post.has_data:
        return "Components over frequency", f"{contents[:1].upper()}{contents[1:]}."
    return title, f"{caption}{f' with {contents}' if contents else ''}."


def drawn(
    post: Posterior, name: str, title: str, caption: str, **options: Any
) -> Picture | Missing:
    """A picture with its caption, or why it could not be drawn; options are those of `Posterior.plot`."""
    from slotflow.show.plots.style import style

    content = BytesIO()
    try:
        figure = post.plot(name, **options)
        with style():
            figure.savefig(content, format="png", dpi=PIXELS_PER_INCH)
    except (ValueError, ImportError) as error:  # draws or a package that are not there
        return Missing(title, str(error))
    width = round(CSS_PIXELS_PER_INCH * figure.get_figwidth())
    return Picture(title, caption, content.getvalue(), width)
