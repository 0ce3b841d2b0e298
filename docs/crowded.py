"""One crowded signal before and after the exact step: p(K | x) and the closest pair of tones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slotflow import Posterior, SlotFlow, simulate
from slotflow.plots import save_figure
from slotflow.show.plots.style import COLOURS, INK, style
from slotflow.signal.waveforms import TONE
from slotflow.studies.suites.sets import GRIDS, SETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["crowded"]

TONES, DRAWS, SEED = 6, 2000, 11
GAP = (0.6, 0.65)
"""Distance of the closest pair in bins 1/T; the first signal that has such a pair is shown."""


def crowded() -> Figure:
    """The picture."""
    from matplotlib.figure import Figure

    prior = SETS["frontier"].prior
    many = simulate(prior, 400, *GRIDS, mode="physical", seed=SEED, k=TONES)
    theta = TONE.sorted(many.theta[:, :TONES].numpy())
    gaps = np.diff(TONE.place_of(theta), axis=1) * GRIDS[0].duration
    i = int(np.flatnonzero((gaps.min(1) > GAP[0]) & (gaps.min(1) < GAP[1]))[0])
    j = int(gaps[i].argmin())
    exact = SlotFlow.from_pretrained().infer(many.observation(i), prior=prior, max_seconds=60)
    print(f"signal {i}: pair at {gaps[i, j]:.2f} bins; {exact.verdict}")
    methods = {"network": exact.amortized, "exact": exact}
    with style():
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        counts, frequencies, amplitudes = figure.subplots(1, 3)
        draw_counts(counts, methods)
        draw_pair(frequencies, methods, theta[i, j : j + 2], j, "frequency")
        draw_pair(amplitudes, methods, theta[i, j : j + 2], j, "amplitude")
        frequencies.set_title("Closest pair: frequencies")
        amplitudes.set_title("Closest pair: amplitudes")
        frequencies.legend(loc="upper right")
    return figure


def draw_counts(ax: Axes, methods: dict[str, Posterior]) -> None:
    """p(K | x) of both methods."""
    for offset, colour, (name, post) in zip(
        (-0.2, 0.2), COLOURS[1::-1], methods.items(), strict=True
    ):
        ax.bar(np.arange(len(post.k_probs)) + offset, post.k_probs, 0.38, color=colour, label=name)
    ax.axvline(TONES, color=INK, lw=0.8, ls=":")
    ax.set(xlim=(TONES - 2.6, TONES + 2.6), xlabel="K (dotted: truth)", ylabel="p(K | x)")
    ax.set_xticks(range(TONES - 2, TONES + 3))
    ax.set_title("Number of tones")
    ax.legend(loc="upper left")


def draw_pair(
    ax: Axes, methods: dict[str, Posterior], truth: np.ndarray, j: int, name: str
) -> None:
    """A parameter of tones j and j + 1: draws of both methods, and the truth.

    Args:
        ax: The panel.
        methods: The two posteriors by their names.
        truth: The two tones, (2, P).
        j: Number of the first tone, counted from 0.
        name: Of the parameter.
    """
    offset = name == TONE.place  # frequencies are shown as offsets from the truth, in mHz
    scale, middle = (1e3, TONE.of(truth, name)) if offset else (1.0, np.zeros(2))
    for colour, (method, post) in zip(COLOURS[1::-1], methods.items(), strict=True):
        draws = TONE.sorted(post.sample(DRAWS, TONES, 0))[:, j : j + 2]
        x, y = scale * (TONE.of(draws, name) - middle).T
        ax.plot(x, y, ".", ms=2, alpha=0.35, color=colour)
        if post is methods["network"]:
            ax.set(xlim=np.percentile(x, (0.5, 99.5)), ylim=np.percentile(y, (0.5, 99.5)))
        below = (TONE.of(draws, name) < TONE.of(truth, name)).mean(0)
        correlation = np.corrcoef(x, y)[0, 1]
        print(f"  {name}, {method}: correlation {correlation:+.2f}, truth at the quantiles {below}")
    ax.plot(
        *(scale * (TONE.of(truth, name) - middle)),
        "x",
        color=INK,
        ms=8,
        mew=2,
        label="truth",
        ls="",
    )
    label = "f − truth [mHz]" if offset else "A"
    ax.set(xlabel=f"tone {j + 1}: {label}", ylabel=f"tone {j + 2}: {label}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images/crowded.png")
    save_figure(crowded(), parser.parse_args().out, dpi=110)
