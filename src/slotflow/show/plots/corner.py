"""Corner plots: the joint posterior of the parameters of one component or of all, of one method or of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from slotflow.core.packages import needed
from slotflow.core.units import FrequencyUnit
from slotflow.posterior.alignment import relabel
from slotflow.posterior.display import display_unit, epoch_of
from slotflow.posterior.moments import own_names
from slotflow.show.plots.axes import draw_nothing
from slotflow.show.plots.colours import COLOURS, INK
from slotflow.show.plots.style import style
from slotflow.show.plots.units import (
    TURN,
    near,
    readable,
    scale,
    shown_in,
    symbol_of,
    with_unit,
)
from slotflow.show.plots.view import Float, match_truth, true_components
from slotflow.signal.waveforms import Parameter, Waveform
from slotflow.signal.waveforms.base import DATA_UNIT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_corner"]

DRAWS = 4000
MOST_WITH_ALL_PARAMETERS = 4
"""Components up to which all their parameters have room."""
MOST_LARGE_PANELS = 6
"""Columns up to which panels and letters are large."""
FEWEST_TO_SMOOTH = 1000
"""Draws from which on contours are smoothed."""


@dataclass(frozen=True)
class Column:
    """One column of the plot: a parameter of a component."""

    samples: list[Float]
    """Of each posterior, (n,)."""
    label: str
    truth: float
    """NaN if it is not known."""
    ends: tuple[float, float]
    """What the axis shows."""


def plot_corner(
    post: Posterior,
    component: int | None = None,
    *,
    other: Posterior | None = None,
    k: int | None = None,
    parameters: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
    frequency_unit: str | None = None,
    phase_at: str | float = "auto",
) -> Figure:
    """Draws all pairs of parameters given K; contours hold 39 % and 86 % (one and two σ of a plane).

    Frequencies are offsets from the first posterior's median, phases are unwrapped around their mean.

    Args:
        post: The posterior.
        component: Number of one component, counted from 1 in the order of the frequencies; None: all.
        other: A posterior of another method, drawn over the first in orange.
        k: Number of components; the first posterior's k_map if None.
        parameters: Names of the parameters to show. By default all of them, or the frequencies alone if there are more
            than four components.
        truth: True components, (L, P), columns as in `Posterior.sample`, where they are known.
        frequency_unit: Unit of the frequencies; by default that which goes with the data's times.
        phase_at: The instant that phases refer to, as in `Posterior.summary`.
    """
    from matplotlib.figure import Figure

    waveform = post.waveform
    k = post.k_map if k is None else k
    names = _parameters(waveform, parameters, k if component is None else 1)
    if component is not None and component not in range(1, k + 1):
        raise ValueError(
            f"expected a component from 1 to {k}, counted in the order of frequencies, received {component!r}."
        )
    if k == 0:
        with style():
            figure = Figure(figsize=(4, 2), layout="constrained")
            draw_nothing(figure.subplots(), "no component to show")
        return figure
    epoch, unit = epoch_of(post, phase_at), display_unit(post, frequency_unit)
    several = _aligned(waveform, [post] if other is None else [post, other], k)
    several = [epoch.shift(draws, waveform) for draws in several]
    own = own_names(several[0], waveform)
    exact = match_truth(waveform, several[0], true_components(post, truth))
    exact = epoch.shift(exact, waveform)
    columns = [
        _column(
            _Shown(waveform, name, unit, post.unit), j, [draws[:, j] for draws in several], exact[j]
        )
        for j in (range(k) if component is None else [component - 1])
        for name in names
        if name in own[j]
    ]
    with style():
        return _draw(columns, [p.method for p in (post, other) if p is not None])


def _parameters(
    waveform: Waveform, names: Sequence[str] | None, components: int
) -> tuple[str, ...]:
    """The parameters to show of some components."""
    if names is None:
        measured = tuple(p.name for p in waveform.measured)
        return measured if components <= MOST_WITH_ALL_PARAMETERS else (waveform.place,)
    if not names or any(name not in waveform.names for name in names):
        raise ValueError(f"expected some of {', '.join(waveform.names)}, received {names!r}.")
    return tuple(names)


def _aligned(waveform: Waveform, posteriors: Sequence[Posterior], k: int) -> list[Float]:
    """Draws of each posterior, (n, k, P), components in the order of the first one's."""
    from scipy.optimize import linear_sum_assignment

    several = [relabel(post.sample(DRAWS, k), post.resolution, waveform)[0] for post in posteriors]
    places = [np.median(waveform.place_of(draws), axis=0) for draws in several]
    for i in range(1, len(several)):
        _, order = linear_sum_assignment(np.abs(places[0][:, None] - places[i]))
        several[i] = several[i][:, order]
    return several


@dataclass(frozen=True)
class _Shown:
    """A parameter and the units in which it is shown."""

    waveform: Waveform
    name: str
    frequency: FrequencyUnit
    data_unit: str

    @property
    def parameter(self) -> Parameter:
        """What it is."""
        return self.waveform.parameters[self.waveform.column(self.name)]


def _column(shown: _Shown, j: int, several: list[Float], exact: Float) -> Column:
    """A column of the plot.

    Args:
        shown: The parameter.
        j: Number of the component, counted from 0.
        several: Its draws of each posterior, (n, P).
        exact: The truth, (P,), NaN where it is not known.
    """
    i, parameter = shown.waveform.column(shown.name), shown.parameter
    samples, truth = [draws[:, i] for draws in several], float(exact[i])
    if parameter.circular:
        centre = float(np.angle(np.exp(1j * samples[0]).mean()) % TURN)
        samples, truth = [near(x, centre) for x in samples], near(truth, centre)
        label = with_unit(symbol_of(parameter, j), parameter.unit)
    else:
        middle, factor, label = _axis(shown, j, samples[0])
        samples, truth = [factor * (x - middle) for x in samples], factor * (truth - middle)
    ends = np.array([np.quantile(x, (0.001, 0.999)) for x in samples])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if np.isfinite(truth):
        low, high = min(low, truth), max(high, truth)
    margin = 0.08 * (high - low) or 1e-3 * max(abs(low), 1e-9)
    return Column(samples, label, truth, (low - margin, high + margin))


def _axis(shown: _Shown, j: int, samples: Float) -> tuple[float, float, str]:
    """What an axis subtracts, by what it multiplies, and its label: amplitudes as they are, frequencies as offsets."""
    parameter = shown.parameter
    symbol = symbol_of(parameter, j)
    if parameter.unit == DATA_UNIT:
        factor, power = readable(float(np.abs(samples).max()), "")
        return 0.0, factor, with_unit(symbol, power, shown.data_unit)
    in_unit, si_unit, own_unit = shown_in(parameter, shown.frequency, shown.data_unit)
    spread = in_unit * float(np.std(samples))
    digits = int(np.clip(1 - np.floor(np.log10(spread)), 0, 15)) if spread > 0 else 6
    middle = round(in_unit * float(np.median(samples)), digits)
    factor, prefix = scale(spread, si_unit)
    larger, base = readable(abs(middle), si_unit) if si_unit else (1.0, own_unit)
    places = max(digits - round(np.log10(larger)), 0)
    label = f"{symbol} − {larger * middle:.{places}f} {base}"
    return middle / in_unit, factor * in_unit, with_unit(f"{label}\n", prefix, own_unit)


def _draw(columns: list[Column], methods: list[str]) -> Figure:
    """The figure of some columns, each with samples of every method."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    large = len(columns) <= MOST_LARGE_PANELS
    side = (1.9 if large else 1.4) * len(columns) + 1.1
    figure = Figure(figsize=(side, side))
    truths = [c.truth if np.isfinite(c.truth) else None for c in columns]
    for which in range(len(methods)):
        _draw_method(figure, columns, which, truths)
    for ax in figure.axes:
        ax.grid(False)
        ax.tick_params(labelsize=7)
        for axis in (ax.xaxis, ax.yaxis):
            axis.get_offset_text().set_fontsize(7)
    figure.subplots_adjust(left=1 / side, bottom=1 / side, right=1 - 0.1 / side, top=1 - 0.1 / side)
    handles = [Line2D([], [], color=COLOURS[i], label=name) for i, name in enumerate(methods)]
    if any(value is not None for value in truths):
        handles.append(Line2D([], [], color=INK, label="truth"))
    size = 9 if len(columns) > 1 else 7
    figure.legend(handles=handles, loc="upper right", frameon=False, fontsize=size)
    return figure


def _draw_method(
    figure: Figure, columns: list[Column], which: int, truths: Sequence[float | None]
) -> None:
    """The contours of one method; those of the first are filled."""
    corner: Any = needed("corner")
    large = len(columns) <= MOST_LARGE_PANELS
    samples = np.stack([c.samples[which] for c in columns], -1)
    corner.corner(
        samples,
        fig=figure,
        bins=24,
        color=COLOURS[which],
        labels=[c.label for c in columns],
        range=[c.ends for c in columns],
        truths=truths,
        truth_color=INK,
        max_n_ticks=3,
        labelpad=0.0 if large else 0.12,
        label_kwargs={"size": 9 if large else 8},
        hist_kwargs={"density": True, "lw": 1.2, "color": COLOURS[which]},
        levels=(0.393, 0.865),
        plot_datapoints=False,
        plot_density=which == 0,
        fill_contours=which == 0,
        no_fill_contours=which > 0,
        smooth=1.2 if len(samples) >= FEWEST_TO_SMOOTH else None,
    )
