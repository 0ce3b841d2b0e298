"""The overview of a posterior: data, spectrum, p(K | x), every component, and the verdict; and each of them alone."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from slotflow.show.plots.colours import INK
from slotflow.show.plots.components import draw_components, panels_per_row
from slotflow.show.plots.counts import draw_k
from slotflow.show.plots.data import draw_data
from slotflow.show.plots.spectrum import draw_spectrum
from slotflow.show.plots.style import style
from slotflow.show.plots.units import figures
from slotflow.show.plots.view import Band, View, true_components
from slotflow.show.sampling import noise_unit
from slotflow.show.wording import headline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_components", "plot_data", "plot_k", "plot_posterior", "plot_spectrum"]

WIDTH = 11.0
"""Of the overview with panels for three parameters of each component, in inches."""
HEAD = 0.5
"""Height of headline and verdict, in inches."""
MOST_LETTERS = 150
"""Letters of the verdict that have room below the headline."""


def plot_posterior(
    post: Posterior,
    truth: ArrayLike | None = None,
    *,
    band: Band | None = None,
    frequency_unit: str | None = None,
    phase_at: str | float = "auto",
) -> Figure:
    """Draws the data, their spectrum, p(K | x) and the posterior of every component.

    Args:
        post: The posterior, with the observation that it came from.
        truth: True components, (L, P), columns as in `Posterior.sample`, where they are known.
        band: Frequencies in Hz that the spectrum shows; by default the prior's, where the posterior knows it.
        frequency_unit: Unit of the frequencies, such as "c/d"; by default that which goes with the data's times.
        phase_at: The instant that phases refer to, as in `Posterior.summary`.

    Returns:
        A figure whose height depends on the number of components; they keep their numbers and colours in all panels.
        Of more than twenty components the strongest have a row each, and the picture says how many are left out.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    view = View.of(post, truth, band, frequency_unit, phase_at)
    heights = (2.5 if post.has_data else 0.4, 2.9, _height(view))  # inches
    height = sum(heights) + HEAD + 0.5
    with style():
        below_head = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - HEAD / height))
        figure = Figure(figsize=(_width(view), height), layout=below_head)
        _write_head(figure, view)
        grid = figure.add_gridspec(3, 6, height_ratios=heights)
        draw_data(figure.add_subplot(grid[0, :]), view)
        draw_spectrum(figure.add_subplot(grid[1, :4]), view)
        draw_k(figure.add_subplot(grid[1, 4:]), post, view.truth)
        count = len(view.waveform.measured)
        columns = grid[2, :].subgridspec(*_layout(count), wspace=0.1)
        panels = [figure.add_subplot(columns[i]) for i in range(count)]
        draw_components(panels, view)
    return figure


def plot_data(
    post: Posterior,
    truth: ArrayLike | None = None,
    *,
    band: Band | None = None,
    frequency_unit: str | None = None,
) -> Figure:
    """The data with the reconstruction and its credible band; arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(9, 3), layout="constrained")
        draw_data(figure.subplots(), View.of(post, truth, band, frequency_unit))
    return figure


def plot_spectrum(
    post: Posterior,
    truth: ArrayLike | None = None,
    *,
    band: Band | None = None,
    frequency_unit: str | None = None,
) -> Figure:
    """The spectrum with components and upper limits; arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        draw_spectrum(figure.subplots(), View.of(post, truth, band, frequency_unit))
    return figure


def plot_k(post: Posterior, truth: ArrayLike | None = None) -> Figure:
    """The bars of p(K | x); arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(5, 3), layout="constrained")
        draw_k(figure.subplots(), post, true_components(post, truth))
    return figure


def plot_components(
    post: Posterior,
    truth: ArrayLike | None = None,
    *,
    frequency_unit: str | None = None,
    phase_at: str | float = "auto",
) -> Figure:
    """The marginals of every component; arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    view = View.of(post, truth, None, frequency_unit, phase_at)
    with style():
        figure = Figure(figsize=(_width(view), _height(view) + 0.3), layout="constrained")
        count = len(view.waveform.measured)
        grid = figure.add_gridspec(*_layout(count))
        panels = [figure.add_subplot(grid[i]) for i in range(count)]
        draw_components(panels, view)
    return figure


def _width(view: View) -> float:
    """Inches that panels for all parameters of a component need."""
    return max(WIDTH * panels_per_row(len(view.waveform.measured)) / 3, WIDTH)


def _height(view: View) -> float:
    """Inches that the marginals of all components need."""
    if not len(view.rows):
        return 0.5
    rows, _ = _layout(len(view.waveform.measured))
    return rows * max(2.0, 0.7 + 0.37 * len(view.rows))


def _layout(count: int) -> tuple[int, int]:
    """Rows and columns of some panels."""
    columns = panels_per_row(count)
    return -(-count // columns), columns


def _write_head(figure: Figure, view: View) -> None:
    """Writes the answer in one line, and the verdict below it."""
    post = view.post
    answer = headline(post, digits=2)
    if np.isfinite(post.noise_std):
        answer += f"; noise σ = {figures(post.noise_std)}{noise_unit(post)}"
    verdict = textwrap.shorten(view.unit.reword(str(post.verdict)), MOST_LETTERS, placeholder=" …")
    inch = 1 / figure.get_figheight()
    for text, below_top, look in (
        (answer, 0.08, {"size": 12, "weight": "bold"}),
        (verdict, 0.30, {"size": 9}),
    ):
        figure.text(0.01, 1 - below_top * inch, text, va="top", color=INK, fontdict=look)
