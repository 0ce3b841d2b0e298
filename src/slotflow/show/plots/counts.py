"""The panel of p(K | x): one bar for each number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slotflow.show.plots.colours import COLOURS, INK
from slotflow.show.plots.style import LEGEND
from slotflow.show.plots.view import Float
from slotflow.show.wording import chance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slotflow.posterior.posterior import Posterior

__all__ = ["draw_k"]

MOST_BARS = 24
"""Bars that have room in a panel; if there are more, those that matter are shown."""
MOST_TICKS = 14
FEWEST_VALUES = 6
"""Values of K that a panel has room for at least, so that two bars do not fill it."""
PALE = "#a8c8de"
"""Colour of the bars beside the highest."""


def draw_k(ax: Axes, post: Posterior, truth: Float | None) -> None:
    """Draws the bars of p(K | x).

    Args:
        ax: The panel.
        post: The posterior; draws are not needed.
        truth: True components, (L, P), where they are known.
    """
    k = np.arange(len(post.k_probs))
    if k.size > MOST_BARS:  # those that matter and a few around them
        likely = np.flatnonzero(post.k_probs > 1e-3)
        k = k[max(likely[0] - 3, 0) : likely[-1] + 4]
    ax.bar(k, post.k_probs[k], color=[COLOURS[0] if i == post.k_map else PALE for i in k])
    for i in k:
        if (p := post.k_probs[i]) >= 0.005:
            ax.annotate(
                chance(p, 2), (i, p), (0, 2), textcoords="offset points", ha="center", size=8
            )
    if truth is not None and len(truth) in k:
        ax.plot(len(truth), 0, "^", color=INK, ms=7, clip_on=False, zorder=5, label="true K")
        ax.legend(**LEGEND)
    ax.set(xlabel="number of components K", ylabel="probability", ylim=(0, 1.12))
    step = 1 + k.size // MOST_TICKS
    ax.set_xticks(k[(post.k_map - k[0]) % step :: step])
    ax.set_xlim(k[0] - 0.7, max(k[-1], k[0] + FEWEST_VALUES) + 0.7)
    ax.grid(axis="x", visible=False)
    ax.set_title("p(K | x)" if post.verdict.status == "exact" else "q(K | x), not exact")
