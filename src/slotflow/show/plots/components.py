"""The marginal posterior of every component, as offsets from its median in a unit that can be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from slotflow.posterior.moments import of_likeliest_class
from slotflow.show.plots.axes import draw_nothing
from slotflow.show.plots.colours import INK, colour_of, mark_of, text_colour
from slotflow.show.plots.units import (
    TURN,
    frequency_scale,
    near,
    readable,
    rounded,
    scale,
    shown_in,
    texts,
    title_of,
    with_unit,
)
from slotflow.show.plots.view import Float, View, match_truth
from slotflow.show.wording import ROUNDING_SHARE, chance
from slotflow.signal.waveforms import Classes, Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_components", "panels_per_row"]

WIDEST = 6.0
"""A component that is wider than this many times the middle one is not shown whole."""
DIFFERENT = 40.0
"""Ratio of the widest to the narrowest row beyond which each has a scale of its own."""
MOST_PANELS = 5
"""Parameters whose panels stand beside each other."""
SURE = 0.995
"""Existence probability from which on it need not be mentioned."""
LETTER_WIDTH, MOST_ROOM = 0.018, 0.6
"""Room of a letter beside a row, and of all letters at most, in shares of a panel's width."""


def panels_per_row(count: int) -> int:
    """How many of some panels stand beside each other."""
    rows = max(-(-count // MOST_PANELS), 1)
    return -(-count // rows)


def draw_components(axes: list[Axes], view: View) -> None:
    """Draws the marginal posterior of each component, or of the strongest of many, one row each.

    A width is often a millionth of its value, so a row shows the offset from its median, and the median with its
    standard deviation stands beside it. Where widths differ too much for one scale, each row has its own, in which its
    standard deviation is 1.

    Args:
        axes: A panel for each parameter of the waveform that is a quantity, `panels_per_row` of them in a row.
        view: What to show.
    """
    if view.count == 0:
        for ax in axes:
            ax.set_axis_off()
        draw_nothing(axes[len(axes) // 2], "no component to show")
        return
    shown, rows, per_row = view.shown, view.rows, panels_per_row(len(axes))
    truth = match_truth(view.waveform, shown, view.shown_truth)  # NaN where there is no partner
    own = [_of_own_class(view, j) for j in rows]  # columns of each row's parameters, and its draws
    for ax, parameter in zip(axes, view.waveform.measured, strict=True):
        column = view.waveform.column(parameter.name)
        at = [i for i, (columns, _) in enumerate(own) if column in columns]
        if at:
            samples = np.stack([own[i][1][:, column] for i in at], axis=1)
            _draw_parameter(ax, view, parameter, at, samples, truth[[rows[i] for i in at], column])
        else:
            draw_nothing(ax, f"no component with a {parameter.name}")
        ax.set_ylim(len(rows) - 0.7, -0.95)
        ax.set_yticks(range(len(rows)), [""] * len(rows))
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    for first in axes[::per_row]:
        _name_rows(first, view)
    if len(rows) < view.count:
        missing = view.count - len(rows)
        words = f"the {len(rows)} strongest of {view.count} components; {missing} "
        words += "is left out" if missing == 1 else "are left out"
        axes[0].set_xlabel(words, loc="left", size=8)


def _of_own_class(view: View, j: int) -> tuple[set[int], Float]:
    """Columns of the parameters that a component has, and its draws, (n, P), those of its likeliest class repeated."""
    waveform, draws = view.waveform, view.shown[:, j : j + 1]
    if not isinstance(waveform, Classes):
        return set(range(waveform.size)), draws.squeeze(1)
    chosen = of_likeliest_class(draws, waveform).squeeze(1)
    member = waveform.members[view.class_names[view.kinds[j]]]
    columns = {waveform.column(name) for name in member.names}
    return columns, chosen[np.arange(len(draws)) % len(chosen)]


def _draw_parameter(
    ax: Axes, view: View, parameter: Parameter, at: list[int], samples: Float, truth: Float
) -> None:
    """The panel of one parameter.

    Args:
        ax: The panel.
        view: What the picture shows.
        parameter: Which one.
        at: Rows of the picture that have it, R of them.
        samples: Of each row, (n, R).
        truth: (R,), NaN where it is not known.
    """
    in_unit, si_unit, own_unit = shown_in(parameter, view.unit, view.post.unit)
    samples, truth = in_unit * samples, in_unit * truth
    if parameter.circular:  # unwrapped around the circular mean
        centre = np.angle(np.exp(1j * samples).mean(axis=0))
        samples, truth = near(samples, centre), near(truth, centre)
    median, sd = np.median(samples, axis=0), samples.std(axis=0)
    offsets, true, by_width = samples - median, truth - median, _differ(sd)
    if by_width:
        offsets, true = offsets / sd, true / sd
    reach = _reach(offsets, true)
    factor, prefix = (1.0, "") if by_width else scale(reach / 3, si_unit)
    for n, i in enumerate(at):
        look = colour_of(view.rows[i]), mark_of(view.kinds[view.rows[i]])
        _draw_row(ax, i, look, factor * offsets[:, n], (factor * true[n], 1.5 * factor * reach))
    shown = np.mod(median, TURN) if parameter.circular else median
    values = texts(shown, sd, si_unit or own_unit, prefixed=bool(si_unit))
    if parameter.name == view.waveform.place:
        values = [
            _of_modes(view, view.rows[i], in_unit, text) for i, text in zip(at, values, strict=True)
        ]
    for i, text in zip(at, values, strict=True):
        ax.text(
            1.0, i - 0.3, text, transform=ax.get_yaxis_transform(),
            ha="right", va="center", size=7, color=text_colour(colour_of(view.rows[i])),
        )  # fmt: skip
    if reach > 0:  # far tails may leave the panel; the values stand beside it
        lines = [line for text in values for line in re.sub(r"[${}^]", "", text).split("\n")]
        room = min(LETTER_WIDTH * max(map(len, lines)), MOST_ROOM)
        ax.set_xlim(-factor * reach, factor * reach * (1 + room) / (1 - room))
    ax.locator_params(axis="x", nbins=6)
    name = title_of(parameter)
    if parameter.circular:
        name += f" at {view.epoch.name}" if view.epoch.name else _instant(view)
    unit = ("each in its sd",) if by_width else (prefix, own_unit)
    ax.set_title(with_unit(f"{name} − median", *unit))


def _instant(view: View) -> str:
    """The instant that phases refer to, if it has no name."""
    if view.epoch.seconds:
        return f" at {view.epoch.words}"
    return " at t_ref" if view.post.t_ref else " at t = 0"


def _of_modes(view: View, j: int, factor: float, text: str) -> str:
    """The value of a component that may be at several places: the first two with their probabilities."""
    modes = view.modes[j]
    if len(modes) == 1:
        return text
    return "\nor ".join(
        f"{rounded(factor * mode.median, factor * mode.sd)} (p = {chance(mode.probability, 2)})"
        for mode in modes[:2]
    )


def _reach(offsets: Float, truth: Float) -> float:
    """How far a panel reaches to either side of the medians.

    Args:
        offsets: From the medians, (n, K).
        truth: Offsets of the truth, (K,), NaN where it is not known.
    """
    reaches = 1.8 * np.abs(np.quantile(offsets, (0.05, 0.95), axis=0)).max(axis=0)  # (K,)
    reach = min(float(reaches.max()), WIDEST * float(np.median(reaches)))
    return float(np.nanmax([reach, *(1.2 * np.abs(truth))]))


def _differ(sd: Float) -> bool:
    """Whether the widths of rows, (R,), differ too much for one scale."""
    positive = sd[sd > 0]
    return len(positive) == len(sd) > 1 and bool(positive.max() > DIFFERENT * positive.min())


def _draw_row(
    ax: Axes, j: int, look: tuple[str, str], samples: Float, marks: tuple[float, float]
) -> None:
    """One marginal: a histogram on its own base line, median and interval below it.

    Args:
        ax: The panel.
        j: The row.
        look: Colour of the component and mark of its class.
        samples: (n,).
        marks: The truth, NaN where it is not known, and how far the histogram may reach.
    """
    (colour, mark), (truth, reach) = look, marks
    low, mid, high = np.quantile(samples, (0.05, 0.5, 0.95))
    first, last = np.clip(np.quantile(samples, (0.002, 0.998)), -reach, reach)
    if last > first:
        counts, edges = np.histogram(samples, 40, (first, last))
        height = 0.8 * counts / max(counts.max(), 1)
        ax.stairs(j - height, edges, baseline=j, fill=True, color=colour, alpha=0.35)
        ax.stairs(j - height, edges, baseline=None, color=colour, lw=0.9)
    ax.plot([low, high], [j, j], color=colour, lw=2.2, solid_capstyle="butt")
    ax.plot(mid, j, mark, color=colour, ms=5)
    if np.isfinite(truth):
        ax.plot(truth, j, "x", color=INK, ms=6, mew=1.3, zorder=4)


def _name_rows(ax: Axes, view: View) -> None:
    """Number and place of each component beside the first panel, and its probability where that is in doubt."""
    waveform = view.waveform
    places = waveform.place_of(view.draws)  # (n, K)
    largest = float(np.abs(np.median(places, axis=0)).max())
    unit = waveform.parameters[waveform.column(waveform.place)].unit
    factor, unit = frequency_scale(largest, view.unit) if unit == "Hz" else readable(largest, unit)
    low, medians, high = factor * np.quantile(places, (0.16, 0.5, 0.84), axis=0)
    names = []
    for j in view.rows:
        place = medians[j]
        width = 0.5 * float(high[j] - low[j])
        if len(view.modes[j]) > 1:
            place, width = factor * view.modes[j][0].median, factor * view.modes[j][0].sd
        kind = f"{view.class_names[view.kinds[j]]}  " if view.class_names else ""
        text = f"{j + 1}   {kind}{place:.{_decimals(width, place)}f} {unit}".replace("-", "−")
        if (p := view.existence[j]) < SURE:
            text += f"\nprobability {chance(p, 2)}"
        names.append(text)
    ax.set_yticklabels(names)
    for j, label in zip(view.rows, ax.get_yticklabels(), strict=True):
        label.set_color(text_colour(colour_of(j)))


def _decimals(width: float, place: float) -> int:
    """Decimals of a place that are enough to name a component of some width, which may be nothing but rounding."""
    rounding = width <= ROUNDING_SHARE * abs(place)
    return 4 if rounding else int(np.clip(-np.floor(np.log10(width)) - 1, 0, 15))
