"""All pictures of a posterior by their names, as `Posterior.plot` draws them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slotflow.show.plots.corner import plot_corner
from slotflow.show.plots.correlation import plot_correlation
from slotflow.show.plots.posterior import (
    plot_components,
    plot_data,
    plot_k,
    plot_posterior,
    plot_spectrum,
)
from slotflow.show.plots.residual import plot_residual
from slotflow.show.plots.style import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["KINDS", "plot"]

KINDS: dict[str, Callable[..., Figure]] = {
    "overview": plot_posterior,
    "data": plot_data,
    "spectrum": plot_spectrum,
    "k": plot_k,
    "components": plot_components,
    "corner": plot_corner,
    "residual": plot_residual,
    "correlation": plot_correlation,
}
"""What draws each picture."""


def plot(
    post: Posterior, kind: str, path: str | os.PathLike[str] | None = None, **options: Any
) -> Figure:
    """Draws a picture and writes it to a file if one is named.

    Args:
        post: The posterior.
        kind: One of `KINDS`.
        path: A file that ends in .png, .svg or .pdf, or None.
        **options: Of that picture.
    """
    if kind not in KINDS:
        raise ValueError(f"expected a picture among {', '.join(KINDS)}, received {kind!r}.")
    figure = KINDS[kind](post, **options)
    if path is not None:
        save_figure(figure, path)
    return figure
