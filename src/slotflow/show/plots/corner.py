"""Corner plots: the joint posterior of the parameters of one component or of all, of one method or of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.core.packages import needed
from slotflow.posterior.alignment import relabel
from slotflow.posterior.summaries import PARAMETERS
from slotflow.show.plots.components import match_truth
from slotflow.show.plots.panels import draw_nothing
from slotflow.show.plots.style import COLOURS, INK, style
from slotflow.show.plots.units import readable, scale, with_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_corner"]

Float = NDArray[np.float64]

N_DRAWS = 4000
SYMBOLS = dict(zip(PARAMETERS, ("A", "φ", "f"), strict=True))
FEW = 4
"""Components up to which all their parameters have room."""


def plot_corner(
    post: Posterior,
    component: int | None = None,
    *,
    other: Posterior | None = None,
    k: int | None = None,
    parameters: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
) -> Figure:
    """Draws all pairs of parameters given K; contours hold 39 % and 86 % (one and two σ of a plane).

    Frequencies are offsets from the first posterior's median, phases are unwrapped around their mean.

    Args:
        post: The posterior.
        component: Number of one component, counted from 1 in the order of the frequencies; None: all.
        other: A posterior of another method, drawn over the first in orange.
        k: Number of components; the first posterior's k_map if None.
        parameters: Some of "amplitude", "phase" and "frequency"; by default all, but of more than four components
            the frequencies alone.
        truth: True (amplitude, phase, frequency), shape (L, 3), where it is known.
    """
    from matplotlib.figure import Figure

    k = post.k_map if k is None else k
    names = _parameters(parameters, k if component is None else 1)
    if component is not None and component not in range(1, k + 1):
        raise ValueError(
            f"expected a component from 1 to {k}, counted in the order of frequencies, received {component!r}."
        )
    if k == 0:
        with style():
            figure = Figure(figsize=(4, 2), layout="constrained")
            draw_nothing(figure.subplots(), "no component to show")
        return figure
    draws, _, _ = relabel(post.sample(N_DRAWS, k), post.resolution)
    several = [(post, draws)]
    if other is not None:
        theirs, _, _ = relabel(other.sample(N_DRAWS, k), other.resolution)
        several.append((other, _matched(theirs, draws)))
    exact = match_truth(draws, None if truth is None else np.asarray(truth, float).reshape(-1, 3))
    chosen = range(k) if component is None else [component - 1]
    cells = [(j, PARAMETERS.index(name)) for j in chosen for name in names]
    columns = [_column(several, exact, j, i, post.unit) for j, i in cells]
    with style():
        return _draw(columns, several)


def _draw(columns: list[dict[str, Any]], several: list[tuple[Posterior, Float]]) -> Figure:
    """The figure of some columns, each with samples of every posterior, a label, a truth and a range."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    corner: Any = needed("corner")
    size = len(columns)
    side = (1.9 if size <= 6 else 1.4) * size + 1.1
    figure = Figure(figsize=(side, side))
    truths = [c["truth"] if np.isfinite(c["truth"]) else None for c in columns]
    for which, (_, draws) in enumerate(several):
        colour = COLOURS[which]
        corner.corner(
            np.stack([c["samples"][which] for c in columns], -1),
            fig=figure,
            bins=24,
            color=colour,
            labels=[c["label"] for c in columns],
            range=[c["range"] for c in columns],
            truths=truths,
            truth_color=INK,
            max_n_ticks=3,
            labelpad=0.0 if size <= 6 else 0.12,
            label_kwargs={"size": 9 if size <= 6 else 8},
            hist_kwargs={"density": True, "lw": 1.2, "color": colour},
            levels=(0.393, 0.865),
            plot_datapoints=False,
            plot_density=which == 0,
            fill_contours=which == 0,
            no_fill_contours=which > 0,
            smooth=1.2 if len(draws) >= 1000 else None,
        )
    for ax in figure.axes:
        ax.grid(False)
        ax.tick_params(labelsize=7)
        for axis in (ax.xaxis, ax.yaxis):
            axis.get_offset_text().set_fontsize(7)
    figure.subplots_adjust(left=1 / side, bottom=1 / side, right=1 - 0.1 / side, top=1 - 0.1 / side)
    handles = [Line2D([], [], color=COLOURS[i], label=p.method) for i, (p, _) in enumerate(several)]
    if any(value is not None for value in truths):
        handles.append(Line2D([], [], color=INK, label="truth"))
    figure.legend(handles=handles, loc="upper right", frameon=False, fontsize=9 if size > 1 else 7)
    return figure


def _column(
    several: list[tuple[Posterior, Float]], exact: Float, j: int, i: int, unit: str
) -> dict[str, Any]:
    """Samples, label, truth and range of parameter i of component j."""
    samples = [draws[:, j, i] for _, draws in several]
    truth = float(exact[j, i])
    symbol = f"${SYMBOLS[PARAMETERS[i]]}_{{{j + 1}}}$".replace("φ", r"\phi")
    if i == 0:
        factor, power = readable(float(np.abs(samples[0]).max()), "")
        samples, truth = [factor * x for x in samples], factor * truth
        label = with_unit(symbol, power, unit)
    elif i == 1:
        centre = float(np.angle(np.exp(1j * samples[0]).mean()) % (2 * np.pi))
        samples = [_near(x, centre) for x in samples]
        truth, label = _near(truth, centre), with_unit(symbol, "rad")
    else:
        spread = float(np.std(samples[0]))
        digits = int(np.clip(1 - np.floor(np.log10(spread)), 0, 15)) if spread > 0 else 6
        middle = round(float(np.median(samples[0])), digits)
        factor, prefix = scale(spread, "Hz")
        samples = [factor * (x - middle) for x in samples]
        truth = factor * (truth - middle)
        larger, base = readable(abs(middle), "Hz")
        places = max(digits - round(np.log10(larger)), 0)
        label = f"{symbol} − {larger * middle:.{places}f} {base}\n[{prefix}]"
    ends = np.array([np.quantile(x, (0.001, 0.999)) for x in samples])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if np.isfinite(truth):
        low, high = min(low, truth), max(high, truth)
    margin = 0.08 * (high - low) or 1e-3 * max(abs(low), 1e-9)
    return {
        "samples": samples,
        "label": label,
        "truth": truth,
        "range": (low - margin, high + margin),
    }


def _near(angle: Any, centre: float) -> Any:
    """Angles within half a turn of a centre."""
    return (angle - centre + np.pi) % (2 * np.pi) - np.pi + centre


def _matched(draws: Float, reference: Float) -> Float:
    """Components in the order of the reference's partners; as many in both."""
    from scipy.optimize import linear_sum_assignment

    ours, theirs = np.median(reference[..., 2], axis=0), np.median(draws[..., 2], axis=0)
    _, order = linear_sum_assignment(np.abs(ours[:, None] - theirs))
    return draws[:, order]


def _parameters(parameters: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The parameters to show of so many components."""
    if parameters is None:
        return PARAMETERS if count <= FEW else ("frequency",)
    chosen = tuple(parameters)
    if not chosen or any(name not in PARAMETERS for name in chosen):
        raise ValueError(f"expected some of {', '.join(PARAMETERS)}, received {parameters!r}.")
    return chosen
