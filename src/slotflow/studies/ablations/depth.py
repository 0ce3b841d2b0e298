"""Study `depth`: number and kinds of the flow's layers, and the stride of the encoder (paper, 5.3.3, 3.1 and 3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotflow.network.config import Config
from slotflow.show.plots.style import style
from slotflow.studies.ablations.ablation import Ablation, Size
from slotflow.studies.ablations.errors import PARAMETERS
from slotflow.studies.ablations.pictures import draw_curves, draw_values
from slotflow.studies.ablations.rows import (
    best_claim,
    best_of,
    claim,
    ratio,
    score_row,
    size_rows,
    spread_rows,
)
from slotflow.studies.frame.study import Data, Study
from slotflow.studies.row import Row, Target
from slotflow.studies.trainings import varied

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DEPTH"]

DEPTHS = (2, 4, 8, 10, 12)
"""Numbers of layers, those of the paper."""
DEFAULT_DEPTH = 8
SPLINES, COARSE = "8 splines", "third stride 2"
"""Splines without affine layers between them, and tokens half as dense."""
PRINTED = {2: {"A": "0.862", "φ": "1.65"}, 8: {"φ": "0.923"}}
"""The paper's standard deviations by depth (figure 14)."""
SAME = 1.1
"""Ratio of spreads up to which two depths count as equal."""


def _named(depth: int) -> str:
    return f"L = {depth}"


def _variants(config: Config) -> dict[str, Config]:
    """The depths, splines alone, and the coarser tokens."""
    base = varied(config, flow={"layers": DEFAULT_DEPTH})
    return {
        **{_named(depth): varied(config, flow={"layers": depth}) for depth in DEPTHS},
        SPLINES: varied(base, flow={"kinds": ("spline",)}),
        COARSE: varied(base, encoder={"strides": (2, 2, 2)}),
    }


ABLATION = Ablation(
    set_number=122,
    full=Size(steps=1800, batch=64, seeds=3, signals=1024, draws=50, checkpoints=8),
    variants=_variants,
)


def _by_depth(data: Data) -> dict[float, Data]:
    """The alternating flows by their number of layers."""
    return {depth: data["variants"][_named(depth)] for depth in DEPTHS}


def _compare(data: Data) -> list[Row]:
    """Spreads and score of each variant, then what the paper says of them."""
    variants = data["variants"]
    rows = size_rows(data["size"], _named(DEFAULT_DEPTH))
    printed = {_named(depth): values for depth, values in PRINTED.items()}
    for name, found in variants.items():
        rows += [*spread_rows(name, found, printed.get(name)), score_row(name, found)]
    default, deepest = variants[_named(DEFAULT_DEPTH)], variants[_named(DEPTHS[-1])]
    best = best_of(_by_depth(data), lambda one: one["sd"]["φ"])
    least = best_of(_by_depth(data), lambda one: one["score"])
    rows += [
        best_claim("L with the least sd of φ", best, "8", Target(low=8, high=10, words="8–10")),
        Row("L with the least −ln q", least.setting, form=".0f", note=least.words),
        claim("sd of φ, L = 2 over L = 8", ratio(variants[_named(2)], default, "φ"), "1.79",
              Target(low=SAME, words=f"> {SAME}")),
        claim("sd of φ, L = 12 over L = 8", ratio(deepest, default, "φ"), "minimal improvement",
              Target(low=1 / SAME, words=f"≥ {1 / SAME:.2f}")),
        claim("sd of f, third stride 2 over 1", ratio(variants[COARSE], default, "f"), "improved spectral detail",
              Target(low=1, strict=True), "3.1"),
    ]  # fmt: skip
    rows += _calm_rows(variants[SPLINES], default)
    return rows


def _calm_rows(splines: Data, alternating: Data) -> list[Row]:
    """Whether training is less calm without affine layers: gradients, and steps that had to be left out."""
    rows = [Row("8 splines: steps left out", splines["skipped"], form=".0f")]
    spreads = [one["gradient_spread"] for one in (splines, alternating)]
    if all(spread is not None for spread in spreads):
        value = spreads[0][0] / spreads[1][0]
        note = "norm of the gradient, its quantile 99 % over its median"
        target = Target(low=1, strict=True)
        rows.append(claim("restlessness, 8 splines over L = 8", value, "instability", target, note))
    return rows


def _plot(data: Data) -> Figure:
    """Spreads against the depth, and the score in the course of training."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(13, 3.9), layout="constrained")
        *left, right = figure.subplots(1, 4)
        for ax, parameter in zip(left, PARAMETERS, strict=True):
            draw_values(ax, _by_depth(data), parameter, "alternating")
            ax.set(xlabel="layers L")
        left[0].legend(loc="best")
        draw_curves(right, data["variants"], "score")
        right.set(ylabel="−ln q(A, φ, f | x) at the truth [nat]")
        right.legend(loc="best")
    return figure


DEPTH = Study(
    name="depth",
    title="Flow depth, kinds of layers, stride",
    section="5.3.3, 3.1, 3.4",
    claim="The errors of the phase have their minimum at L = 8 or 10; L = 2 underfits, L = 12 gains little. Affine "
    "layers between the splines make training stable, and a third convolution of stride 1 keeps spectral detail.",
    caption="Left: spread of the draws around the components that the slots are matched to; bars are standard errors "
    "where there are several seeds. Right: the score on fresh signals in the course of training.",
    code=("studies/ablations", "studies/slots", "studies/trainings", "train"),
    rounds=ABLATION.rounds,
    signals=ABLATION.signals,
    measure=ABLATION.measure,
    gather=ABLATION.gather,
    compare=_compare,
    plot=_plot,
)
