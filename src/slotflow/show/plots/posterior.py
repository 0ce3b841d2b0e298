"""The overview of a posterior: data, spectrum, p(K | x), every component, and the verdict."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.posterior.summaries import components
from slotflow.show.plots.components import draw_components
from slotflow.show.plots.panels import band_of, draw_data, draw_k, draw_spectrum
from slotflow.show.plots.style import INK, style
from slotflow.show.plots.units import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_components", "plot_data", "plot_k", "plot_posterior", "plot_spectrum"]

Float = NDArray[np.float64]
Band = tuple[float, float] | None

N_DRAWS = 2000
REASON = 90
"""Letters of the verdict that have room beside the headline."""


def plot_posterior(post: Posterior, truth: ArrayLike | None = None, *, band: Band = None) -> Figure:
    """Draws the data, their spectrum, q(K | x) and the posterior of every component.

    Args:
        post: The posterior, with the observation that it came from.
        truth: True (amplitude, phase, frequency), shape (K, 3), where it is known.
        band: Frequencies in Hz that the spectrum shows; by default the prior's, where the posterior knows it.

    Returns:
        A figure with six panels; components keep their number and colour in all of them. It is as tall as their
        number needs.
    """
    from matplotlib.figure import Figure

    draws, exists = _components(post)
    exact = _truth(truth)
    band = band_of(post, draws, exact, band)
    rows = draws.shape[1]
    heights = (2.5 if post.has_data else 0.4, 2.9, _height(rows))  # inches
    with style():
        figure = Figure(figsize=(11, sum(heights) + 0.9), layout="constrained")
        figure.suptitle(_headline(post), x=0.01, ha="left", size=12, weight="bold")
        verdict = textwrap.shorten(str(post.verdict), REASON)
        figure.text(0.99, 0.992, verdict, ha="right", va="top", size=9, color=INK)
        grid = figure.add_gridspec(3, 6, height_ratios=heights)
        draw_data(figure.add_subplot(grid[0, :]), post, draws, exact, band)
        draw_spectrum(figure.add_subplot(grid[1, :4]), post, draws, exact, band)
        draw_k(figure.add_subplot(grid[1, 4:]), post, exact)
        panels = [figure.add_subplot(grid[2, 2 * j : 2 * j + 2]) for j in range(3)]
        draw_components(panels, draws, exact, exists, unit=post.unit, epoch=_epoch(post))
    return figure


def plot_data(post: Posterior, truth: ArrayLike | None = None, *, band: Band = None) -> Figure:
    """The data with the reconstruction and its credible band; arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    draws, exact = _components(post)[0], _truth(truth)
    with style():
        figure = Figure(figsize=(9, 3), layout="constrained")
        draw_data(figure.subplots(), post, draws, exact, band_of(post, draws, exact, band))
    return figure


def plot_spectrum(post: Posterior, truth: ArrayLike | None = None, *, band: Band = None) -> Figure:
    """The spectrum with components and upper limits; arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    draws, exact = _components(post)[0], _truth(truth)
    with style():
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        draw_spectrum(figure.subplots(), post, draws, exact, band_of(post, draws, exact, band))
    return figure


def plot_k(post: Posterior, truth: ArrayLike | None = None) -> Figure:
    """The bars of p(K | x); arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(5, 3), layout="constrained")
        draw_k(figure.subplots(), post, _truth(truth))
    return figure


def plot_components(post: Posterior, truth: ArrayLike | None = None) -> Figure:
    """The marginals of every component; arguments as of `plot_posterior`."""
    from matplotlib.figure import Figure

    draws, exists = _components(post)
    with style():
        figure = Figure(figsize=(11, _height(draws.shape[1]) + 0.3), layout="constrained")
        axes = list(figure.subplots(1, 3))
        draw_components(axes, draws, _truth(truth), exists, unit=post.unit, epoch=_epoch(post))
    return figure


def _components(post: Posterior) -> tuple[Float, Float]:
    """Draws of the most probable K, (n, K, 3), and existence of the components, (K,)."""
    draws, _, exists = components(post, post.k_map, N_DRAWS, 0)
    return draws, exists


def _truth(truth: ArrayLike | None) -> Float | None:
    """True components, (K, 3)."""
    return None if truth is None else np.asarray(truth, dtype=float).reshape(-1, 3)


def _height(rows: int) -> float:
    """Inches that the marginals of so many components need."""
    return max(2.0, 0.7 + 0.37 * rows) if rows else 0.5


def _epoch(post: Posterior) -> str:
    """When phases hold, in few letters."""
    return "t_ref" if post.t_ref else "t = 0"


def _headline(post: Posterior) -> str:
    """The answer in one line."""
    k, sigma = post.k_map, post.noise_std
    text = f"{k} component{'' if k == 1 else 's'} (probability {post.k_probs[k]:.2f})"
    if not np.isfinite(sigma):
        return text
    return f"{text}, noise σ = {figures(sigma)}{f' {post.unit}' if post.unit else ''}"
