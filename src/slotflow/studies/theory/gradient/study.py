"""Study `gradient`: whether the gradient is w_φ times as large (paper, lemma 4.1).

Two questions, on networks of the paper's parts in small (`debug`):

- **The same weights**, trained (with w_φ = 2) or random, with targets of several phase weights. This is the lemma's own
  situation.
- **Networks that learn their weight**: the same first weights and the same signals, trained with different w_φ.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from slotflow.network.config import Config
from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup, Study
from slotflow.studies.measures.means import mean_and_error
from slotflow.studies.row import Row, Target
from slotflow.studies.slots import matched_pairs, paper_network
from slotflow.studies.suites.sets import suite_seed
from slotflow.studies.theory.gradient.norms import gradients
from slotflow.studies.trainings import draw_batch, train_together, training_seed, varied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GRADIENT"]

PRESET = "debug"
SET_NUMBER = 90
WEIGHTS = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Phase weights, those of the paper's ablation (5.3.2)."""
LEARNT = (1.0, 2.0, 5.0)
"""Phase weights of the trainings."""
CHECKPOINTS, QUICK_CHECKPOINTS = (0, 10, 30, 100, 300), (0, 5)
"""Steps after which the gradients are looked at."""
SIGNALS, QUICK_SIGNALS = 256, 48
"""Signals of the gradients."""
NORMS = {"phase": "∂L/∂(cos φ, sin φ)", "flow": "∇L, weights of the flow"}
"""What the lemma speaks of: the gradient of the phase, and that of the weights."""
SMALL = 1e-4
"""Relative error of a slope by finite differences that is none of the chain rule's."""
TOLERANCE = 0.1
"""How near w a ratio must be for the lemma to hold."""


def _measure(setup: Setup, number: int) -> Data:
    """One evaluation batch, and one training for each weight."""
    config = Config.from_preset(PRESET)
    network = paper_network(deepcopy(setup.network(PRESET))).double()
    device, seed = network.device, setup.settings.seed
    size = QUICK_SIGNALS if setup.settings.quick else SIGNALS
    batch = draw_batch(config, size, suite_seed(SET_NUMBER, number, seed), device)
    pairs = matched_pairs(network, batch)
    fixed = {f"{w:g}": asdict(gradients(network, batch, w, pairs)) for w in WEIGHTS}
    training: Data = {f"{w:g}": [] for w in LEARNT}
    untrained: Data = {}
    steps = QUICK_CHECKPOINTS if setup.settings.quick else CHECKPOINTS
    trainings = train_together(_variants(config), steps, training_seed(number, seed), device)
    for step, learning in trainings:
        for name, one in learning.items():
            copy = deepcopy(one.network).double().eval()
            if step == 0 and not untrained:
                same = matched_pairs(copy, batch)
                untrained = {f"{w:g}": asdict(gradients(copy, batch, w, same)) for w in WEIGHTS}
            found = gradients(copy, batch, float(name))
            training[name].append({"step": step} | asdict(found))
    return {"fixed": {"trained": fixed, "untrained": untrained}, "training": training}


def _variants(config: Config) -> dict[str, Config]:
    """The same training with each of the weights, at a constant learning rate."""
    train = {"schedule": "constant", "warmup_steps": 0, "ema": 0.0}
    return {f"{w:g}": varied(config, flow={"phase_weight": w}, train=train) for w in LEARNT}


def _gather(rounds: Sequence[Data]) -> Data:
    """Ratios to the weight 1 for each norm: mean over rounds and their standard error."""
    fixed = {
        kind: {
            norm: [_ratio([r["fixed"][kind] for r in rounds], f"{w:g}", norm) for w in WEIGHTS]
            for norm in NORMS
        }
        for kind in ("trained", "untrained")
    }
    chain = [
        one["chain_rule"] for r in rounds for kind in r["fixed"].values() for one in kind.values()
    ]
    steps = [one["step"] for one in rounds[0]["training"][f"{LEARNT[0]:g}"]]
    training = {
        norm: {
            f"{w:g}": [
                _ratio(
                    [{k: v[i] for k, v in r["training"].items()} for r in rounds], f"{w:g}", norm
                )
                for i in range(len(steps))
            ]
            for w in LEARNT[1:]
        }
        for norm in NORMS
    }
    return {"fixed": fixed, "steps": steps, "training": training, "chain_rule": max(chain),
            "rounds": len(rounds)}  # fmt: skip


def _ratio(rounds: Sequence[Data], weight: str, norm: str) -> list[float | None]:
    """Ratio of a norm to that at weight 1, mean over rounds, and its standard error, None for one round."""
    return mean_and_error([one[weight][norm] / one["1"][norm] for one in rounds])


# ---------------------------------------------------------------------- table


def _compare(data: Data) -> list[Row]:
    """The chain rule, the lemma at fixed weights, and the ratio after training."""
    exact = data["chain_rule"]
    rows = [
        Row("chain rule: relative error of ∂L/∂u = w ∂L/∂y, largest", exact, "0", form=".1g",
            note="by finite differences in float64", target=Target(high=SMALL, words=f"≤ {SMALL:g}"),
            met=exact <= SMALL)
    ]  # fmt: skip
    for kind, words in (("trained", "weights trained with w = 2"), ("untrained", "random weights")):
        for norm, formula in NORMS.items():
            for w, (ratio, error) in zip(WEIGHTS, data["fixed"][kind][norm], strict=True):
                if w > 1:
                    rows.append(
                        _row(f"‖{formula}‖ at w = {w:g} over w = 1, {words}", ratio, error, w)
                    )
    last = data["steps"][-1]
    for norm, formula in NORMS.items():
        for w, found in data["training"][norm].items():
            ratio, error = found[-1]
            measure = f"‖{formula}‖, trained {last:,} steps with w = {w} over w = 1"
            rows.append(_row(measure, ratio, error, float(w)))
    return rows


def _row(measure: str, ratio: float, error: float | None, weight: float) -> Row:
    """A ratio that the lemma says is w."""
    slack = TOLERANCE * weight
    target = Target(low=weight - slack, high=weight + slack, words=f"{weight:g} ± 10 %")
    return Row(measure, ratio, f"{weight:g}", error=error, form=".3g", target=target,
               met=target.met(ratio))  # fmt: skip


# ---------------------------------------------------------------------- picture


def _plot(data: Data) -> Figure:
    """Ratios against the weight, and against the steps of training."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(12, 4.2), layout="constrained")
        left, *right = figure.subplots(1, 3)
        _draw_fixed(left, data["fixed"])
        for ax, norm in zip(right, NORMS, strict=True):
            _draw_training(ax, norm, data)
    return figure


def _draw_fixed(ax: Axes, fixed: Data) -> None:
    """The same weights, other targets."""
    w = np.array(WEIGHTS)
    ax.loglog(w, w, color=GREY, lw=1.2, label="lemma 4.1: w")
    ax.loglog(w, w**2, color=GREY, lw=1.2, ls=":", label="w²")
    for i, (kind, norms) in enumerate(fixed.items()):
        for j, values in enumerate(norms.values()):
            what = ("phase", "flow's weights")[j]
            ax.loglog(w, [ratio for ratio, _ in values], "os"[j], ls=("-", "--")[j], ms=4, lw=1,
                      color=COLOURS[i], label=f"{kind}, {what}")  # fmt: skip
    ax.set(xlabel="phase weight w of the targets", ylabel="norm of the gradient over that at w = 1")
    ax.set_xticks(w, [f"{x:g}" for x in w])
    ax.minorticks_off()
    ax.legend(loc="upper left")
    ax.set_title("The same weights, other targets")


def _draw_training(ax: Axes, norm: str, data: Data) -> None:
    """Networks that are trained with their weight."""
    place = np.arange(len(data["steps"]))
    for i, (w, found) in enumerate(data["training"][norm].items()):
        error = [0.0 if e is None else e for _, e in found]
        ax.errorbar(place, [ratio for ratio, _ in found], error, fmt="o-", ms=4, lw=1.2,
                    color=COLOURS[i], label=f"w = {w}")  # fmt: skip
        ax.axhline(float(w), color=COLOURS[i], lw=0.9, ls="--")
    ax.axhline(1, color=GREY, lw=0.9, label="1: flow has adapted")
    ax.set_xticks(place, [f"{step:,}" for step in data["steps"]])
    ax.set(xlabel="steps of training", ylabel="norm over that at w = 1 (dashed: w)", yscale="log")
    ticks = (0.2, 0.5, 1, 2, 5, 10, 20)
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.legend(loc="best")
    ax.set_title(f"Trained with w: {NORMS[norm]}")


def _rounds(settings: Settings) -> int:
    return 1 if settings.quick else 3


def _signals(settings: Settings) -> int:
    batch = Config.from_preset(PRESET).train.batch_size
    if settings.quick:
        return QUICK_SIGNALS + QUICK_CHECKPOINTS[-1] * batch
    return SIGNALS + CHECKPOINTS[-1] * batch


GRADIENT = Study(
    name="gradient",
    title="Gradient amplification by the phase weight",
    section="4.2, A.3",
    claim="With phase coordinates scaled by w_φ, the gradient with respect to (cos φ, sin φ), and that of the "
    "network's weights, is w_φ times the unweighted one.",
    caption="Left: one network, trained or random, with targets of other weights. Middle and right: networks that are "
    "trained from the same weights on the same signals, each with its own w_φ; means over trainings, with one "
    "standard error.",
    code=("studies/theory/gradient", "studies/slots", "studies/trainings"),
    rounds=_rounds,
    signals=_signals,
    measure=_measure,
    gather=_gather,
    compare=_compare,
    plot=_plot,
    networks=(PRESET,),
)
