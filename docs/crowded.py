"""One crowded signal before and after the exact step: p(K | x) and the closest pair of tones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow import SlotFlow, simulate
from slotflow.posterior.posterior import Posterior
from slotflow.show.plots.style import COLOURS, INK, save_figure, style
from slotflow.studies.suites.sets import GRIDS, SETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["crowded"]

TONES, DRAWS, SEED = 6, 2000, 11
GAP = (0.6, 0.65)
"""Distance of the closest pair in bins 1/T; the first signal that has one is shown."""


def crowded() -> Figure:
    """The picture."""
    import matplotlib.pyplot as plt

    prior = SETS["frontier"].prior
    many = simulate(prior, 400, *GRIDS, mode="physical", seed=SEED, k=TONES)
    frequency = np.sort(many.theta[:, :TONES, 2].numpy(), axis=1)
    gaps = np.diff(frequency, axis=1) * GRIDS[0].duration
    i = int(np.flatnonzero((gaps.min(1) > GAP[0]) & (gaps.min(1) < GAP[1]))[0])
    j = int(gaps[i].argmin())
    truth = many.components(i)
    truth = truth[np.argsort(truth[:, 2])]
    exact = SlotFlow.from_pretrained().infer(many.observation(i), prior=prior, max_seconds=60)
    print(f"signal {i}: pair at {gaps[i, j]:.2f} bins; {exact.verdict}")
    with style():
        figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
        bars(axes[0], exact.amortized, exact)
        for ax, parameter in zip(axes[1:], (2, 0), strict=True):
            pair(ax, exact.amortized, exact, truth[j : j + 2], j, parameter)
        axes[1].set_title("Frequencies of the closest pair (cross: truth)")
        axes[2].set_title("Their amplitudes")
    return figure


def bars(ax: Any, before: Posterior, after: Posterior) -> None:
    """p(K | x) of both."""
    ks = np.arange(len(before.k_probs))
    rows = ((-0.2, before, COLOURS[1], "network"), (0.2, after, COLOURS[0], "exact"))
    for offset, post, colour, name in rows:
        ax.bar(ks + offset, post.k_probs, 0.38, color=colour, label=name)
    ax.axvline(TONES, color=INK, lw=0.8, ls=":")
    ax.set(xlim=(TONES - 2.6, TONES + 2.6), xlabel="K (dotted: truth)", ylabel="p(K | x)")
    ax.set_xticks(range(TONES - 2, TONES + 3))
    ax.set_title("Number of tones")
    ax.legend(loc="upper left")


def pair(
    ax: Any, before: Posterior, after: Posterior, truth: np.ndarray, j: int, parameter: int
) -> None:
    """A parameter of tones j and j + 1, draws of both posteriors around the truth, (2, 3)."""
    frequency = parameter == 2
    scale, middle = (1e3, truth[:, 2]) if frequency else (1.0, np.zeros(2))
    for post, colour, name in ((before, COLOURS[1], "network"), (after, COLOURS[0], "exact")):
        draws = post.sample(DRAWS, TONES, 0)
        draws = np.take_along_axis(draws, np.argsort(draws[..., 2], 1)[..., None], 1)
        x, y = scale * (draws[:, j : j + 2, parameter] - middle).T
        ax.plot(x, y, ".", ms=2, alpha=0.35, color=colour)
        if post is before:
            ax.set(xlim=np.percentile(x, (0.5, 99.5)), ylim=np.percentile(y, (0.5, 99.5)))
        print(f"  {'f' if frequency else 'A'}: correlation {np.corrcoef(x, y)[0, 1]:+.2f} ({name})")
    ax.plot(*(scale * (truth[:, parameter] - middle)), "x", color=INK, ms=8, mew=2)
    unit = "f − truth [mHz]" if frequency else "A"
    ax.set(xlabel=f"tone {j + 1}: {unit}", ylabel=f"tone {j + 2}: {unit}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images/crowded.png")
    save_figure(crowded(), parser.parse_args().out, dpi=110)
