"""Names of axes, channels and components: in units that can be read, and at places where they do not collide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slotflow.core.units import HERTZ, TIME_UNITS, FrequencyUnit
from slotflow.data.read.dates import print_date
from slotflow.posterior.display import is_dated
from slotflow.show.plots.colours import colour_of, text_colour
from slotflow.show.plots.units import clock, frequency_scale, readable, tick_in, with_unit
from slotflow.show.plots.view import Band, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slotflow.data.observation import Observation
    from slotflow.posterior.posterior import Posterior

__all__ = [
    "channel_names",
    "draw_nothing",
    "grow",
    "hang_names",
    "label_frequency",
    "label_time",
    "label_values",
    "name_peaks",
    "time_scale",
]

ONE_NAME, TWO_NAMES = ("series",), ("long stream", "short stream")
"""What to call the only channel of an observation, and each of two."""
LETTER_WIDTH, NAME_HEIGHT = 0.021, 0.085
"""Room of a component's number, in shares of a panel's width and height."""
MARK_WIDTH, MARK_HEIGHT = 0.024, 0.06
"""Room of a mark, in the same units."""
FAR_ABOVE = 0.15
"""Distance of a name from its component, in shares of the panel's height, from which on a line joins them."""
ROW_GAP = 0.035
"""Distance of two names in one row, in shares of the band."""


def draw_nothing(ax: Axes, text: str) -> None:
    """Writes words into a panel that has nothing to show."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center")


def channel_names(observation: Observation) -> list[str]:
    """What to call each channel."""
    count = len(observation.channels)
    names = {1: ONE_NAME, 2: TWO_NAMES}.get(count, [f"channel {i + 1}" for i in range(count)])
    return [channel.name or name for channel, name in zip(observation.channels, names, strict=True)]


def label_time(ax: Axes, post: Posterior, length: float) -> None:
    """Names an axis of time in a unit that fits, with the instant that it counts from where that is not 0.

    Args:
        ax: The panel.
        post: The posterior, with its data.
        length: Of the stretch of time, in seconds.
    """
    factor, unit = time_scale(post, length)
    tick_in(ax.xaxis, factor)
    start = f"time since {_instant(post, factor, unit)}" if post.t_ref else "time"
    ax.set_xlabel(with_unit(start, unit))


def time_scale(post: Posterior, length: float) -> tuple[float, str]:
    """A factor and a unit for a stretch of time in seconds: that of the data's file, if it is longer than a second."""
    unit = post.observation.long.time_unit if post.has_data else "s"
    if unit != "s" and unit in TIME_UNITS:
        return 1 / TIME_UNITS[unit], unit
    return clock(length)


def _instant(post: Posterior, factor: float, unit: str) -> str:
    """The reference of the times: a date if the reader says so, otherwise a number in seconds or in the axis's unit."""
    seconds = post.t_ref
    if is_dated(post):
        return print_date(seconds).replace("T", " ", 1)
    if post.has_data and post.observation.long.time_unit == unit:
        return f"t = {factor * seconds:.10g} {unit}"
    choices = [f"t = {seconds:.12g} s", f"t = {factor * seconds:.12g} {unit}"]
    return min(choices, key=len)


def label_frequency(ax: Axes, highest: float, more: str = "", unit: FrequencyUnit = HERTZ) -> None:
    """Names an axis of frequencies up to a highest one in Hz, in a stated unit or in Hz with a prefix that fits."""
    factor, name = frequency_scale(highest, unit)
    tick_in(ax.xaxis, factor)
    ax.set_xlabel(with_unit("frequency", name) + more)


def label_values(ax: Axes, name: str, unit: str) -> None:
    """Names an axis of data or amplitudes, with a power of ten where the numbers need one."""
    if ax.get_yscale() == "log":
        ax.set_ylabel(with_unit(name, unit))
        return
    factor, power = readable(float(np.abs(ax.get_ylim()).max()), "")
    tick_in(ax.yaxis, factor)
    ax.set_ylabel(with_unit(name, power, unit))


def hang_names(ax: Axes, f: Float, band: Band) -> int:
    """Hangs the numbers of components from the top of a panel, in as many rows as they need.

    Args:
        ax: The panel, over frequency.
        f: Frequencies of the components in Hz, (K,), increasing.
        band: Frequencies that the panel shows.

    Returns:
        The number of rows.
    """
    row_ends: list[float] = []
    for j, frequency in enumerate(f):
        free = (
            i for i, end in enumerate(row_ends) if frequency - end >= ROW_GAP * (band[1] - band[0])
        )
        row = next(free, len(row_ends))
        row_ends[row : row + 1] = [frequency]
        ax.annotate(
            str(j + 1), (frequency, 1.0), (0, -10 - 10 * row), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", weight="bold", size=8, color=text_colour(colour_of(j)),
            bbox={"fc": "white", "ec": "none", "pad": 0.6, "alpha": 0.7},
        )  # fmt: skip
    return len(row_ends)


def name_peaks(ax: Axes, places: Float, peaks: Float, marks: Float) -> None:
    """Writes the number of each component above its peak, clear of all marks and of one another.

    The panel grows upwards until all numbers have room. A line leads down from a number that stands far above its
    component.

    Args:
        ax: The panel, over frequency; its limits along x are settled.
        places: Frequency and height of each component, (K, 2).
        peaks: Height that the number of each component must stay above, (K,).
        marks: Frequency and height of everything else that numbers must not cover, (m, 2).
    """
    starts = np.stack([places[:, 0], peaks], -1)
    obstacles = np.concatenate([places, marks])
    while True:
        heights = _free_heights(_shares(ax, starts), _shares(ax, obstacles))
        if heights.max(initial=0.0) + NAME_HEIGHT <= 1:
            break
        grow(ax, 1.06)
    bottoms = _shares(ax, places)[:, 1]
    for j, (place, height) in enumerate(zip(places, heights, strict=True)):
        colour = text_colour(colour_of(j))
        line = {"arrowstyle": "-", "lw": 0.6, "color": colour, "shrinkA": 0, "shrinkB": 3}
        far = height - bottoms[j] > FAR_ABOVE
        ax.annotate(
            str(j + 1), (place[0], place[1]), (place[0], height), textcoords=ax.get_xaxis_transform(),
            ha="center", va="bottom", weight="bold", color=colour, arrowprops=line if far else None,
        )  # fmt: skip


def grow(ax: Axes, factor: float) -> None:
    """Makes a panel show more by moving the upper end of its y axis."""
    bottom, top = ax.get_ylim()
    if ax.get_yscale() == "log":
        ax.set_ylim(bottom, bottom * (top / bottom) ** factor)
    else:
        ax.set_ylim(bottom, bottom + factor * (top - bottom))


def _shares(ax: Axes, points: Float) -> Float:
    """Points of a panel, (m, 2), in shares of its width and height."""
    found = ax.transAxes.inverted().transform(ax.transData.transform(points.reshape(-1, 2)))
    return np.asarray(found, dtype=np.float64)


def _free_heights(peaks: Float, marks: Float) -> Float:
    """Lowest heights at which the names of peaks cover neither marks nor each other, (K,).

    Args:
        peaks: Places of the peaks in shares of the panel, (K, 2).
        marks: Places of marks, (m, 2).
    """
    taken = [
        (x - MARK_WIDTH / 2, x + MARK_WIDTH / 2, y - MARK_HEIGHT / 2, y + MARK_HEIGHT / 2)
        for x, y in marks
    ]
    heights = np.zeros(len(peaks))
    for j, (x, y) in enumerate(peaks):
        half = 0.5 * LETTER_WIDTH * len(str(j + 1))
        above = [box for box in taken if box[0] < x + half and box[1] > x - half]
        bottom = y + 0.02
        for _, _, low, high in sorted(above, key=lambda box: box[2]):
            if low < bottom + NAME_HEIGHT and high > bottom:
                bottom = high
        taken.append((x - half, x + half, bottom, bottom + NAME_HEIGHT))
        heights[j] = bottom
    return heights
