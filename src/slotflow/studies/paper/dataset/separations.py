"""The data set: how far apart the components of a signal are, and how loud.

The law of the gaps is in `gaps.py`.

**Phases.** The circular distance of two independent uniform phases is uniform on [0, π].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from slotflow.core.seeds import spread_seed
from slotflow.show.plots.style import COLOURS, GREY, INK, style
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.dataset.gaps import gap_density, gap_share
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.row import Row, Target, tidy
from slotflow.studies.suites.sets import NOMINAL, suite_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DATASET"]

Array = NDArray[np.float64]

SET_NUMBER = 64
"""Tells the seed apart from those of the test sets."""
GAP_MARKS = (1.5, 3.0)
"""Gaps in units of the minimum separation that the paper names."""
PAPER_SHARES = (0.31, 0.73)
"""Its shares of pairs within them."""
PAPER_MEAN = 0.11
"""Its geometric mean of amplitude differences."""
PAPER_MODE = 8.0
"""Its most frequent SNR in dB."""


def _run(bench: Bench) -> Data:
    """Separations and loudness of signals of the prior; no network."""
    prior, n = NOMINAL, bench.settings.n
    generator = torch.Generator().manual_seed(
        spread_seed(suite_seed(SET_NUMBER, 0, bench.settings.seed))
    )
    k = prior.sample_k(n, generator)
    theta = prior.sample_theta(k, generator).numpy()  # (n, k_max, 3), sorted by frequency
    sigma = prior.sample_sigma(n, generator).numpy()
    amplitude, phase, frequency = np.moveaxis(theta, -1, 0)
    count = k.numpy()
    exists = np.arange(theta.shape[1]) < count[:, None]
    pair = exists[:, 1:]  # neighbours in frequency
    gap = np.diff(frequency)[pair] / prior.min_separation
    i, j = np.triu_indices(theta.shape[1], 1)
    every = (frequency[:, j] - frequency[:, i])[exists[:, j]] / prior.min_separation
    by_loudness = np.sort(np.where(exists, amplitude, np.inf))
    ranked = (by_loudness[:, 1:][pair] - by_loudness[:, :-1][pair]).clip(1e-12)
    turn = np.abs(np.diff(phase)[pair]) % (2 * math.pi)
    circular = np.minimum(turn, 2 * math.pi - turn)
    difference = np.abs(np.diff(amplitude)[pair])
    snr = 10 * np.log10((amplitude**2 * exists).sum(1) / 2 / sigma**2)
    bench.advance(n)
    return {
        "signals": n,
        "pairs": len(gap),
        "min_separation": prior.min_separation,
        "gap": {
            **_histogram(gap, np.linspace(1, 21, 81)),
            "within": [float((gap <= c).mean()) for c in GAP_MARKS],
            "every_pair_within": [float((every <= c).mean()) for c in GAP_MARKS],
        },
        "amplitude": {
            **_histogram(np.log10(difference.clip(1e-12)), np.linspace(-4, 0, 61)),
            "geometric_mean": float(np.exp(np.log(difference.clip(1e-12)).mean())),
            "under_a_fifth": float((difference < 0.2).mean()),
            "ranked_geometric_mean": float(np.exp(np.log(ranked).mean())),
            "ranked_under_a_fifth": float((ranked < 0.2).mean()),
        },
        "phase": {
            **_histogram(circular, np.linspace(0, math.pi, 41)),
            "p_uniform": float(stats.kstest(circular / math.pi, "uniform").pvalue),
            "p_triangular": float(stats.kstest(circular / math.pi, lambda u: 1 - (1 - u) ** 2).pvalue),
        },
        "snr": {
            **_histogram(snr, np.arange(-14.0, 61.0)),
            "mode": _mode(snr),
            "median": float(np.median(snr)),
            "smallest": float(snr.min()),
            "below_minus_6": float((snr < -6).mean()),
            "below_0": float((snr < 0).mean()),
            "k_at_mode": float(count[np.abs(snr - _mode(snr)) < 1].mean()),
        },
    }  # fmt: skip


def _histogram(x: Array, edges: Array) -> Data:
    """Counts; values outside the edges are left out."""
    return {"edges": edges.tolist(), "counts": np.histogram(x, edges)[0].tolist()}


def _mode(x: Array, width: float = 3.0) -> float:
    """Centre of the window of a given width that holds most values, in steps of a quarter."""
    centres = np.arange(-14.0, 40.0, 0.25)
    ordered = np.sort(x)
    held = np.searchsorted(ordered, centres + width / 2) - np.searchsorted(
        ordered, centres - width / 2
    )
    return float(centres[held.argmax()])


def _compare(data: Data) -> list[Row]:
    """Shares and averages beside the paper's."""
    return [*_gap_rows(data), *_difference_rows(data), *_loudness_rows(data["snr"])]


def _gap_rows(data: Data) -> list[Row]:
    """How many pairs are close."""
    gap, rows = data["gap"], []
    for i, (c, paper) in enumerate(zip(GAP_MARKS, PAPER_SHARES, strict=True)):
        value = gap["within"][i]
        error = math.sqrt(value * (1 - value) / data["pairs"])
        law = gap_share(c, NOMINAL)
        crowd = next(k for k in range(2, 52) if gap_share(c, NOMINAL, k) >= paper)
        rows.append(
            Row(
                f"neighbours within {c:g} Δf_min",
                value,
                f"{paper:.0%}",
                error,
                ".1%",
                f"the stated prior gives {law:.1%} by formula, {gap_share(c, NOMINAL, 10):.1%} at K = 10 alone; the "
                f"paper's share needs K = {crowd} in every signal",
                Target(low=law - 5 * error, high=law + 5 * error, words=f"{law:.1%}, the prior's"),
                # Gaps of a signal share a band: their errors are a little larger than those of independent ones.
                abs(value - law) < 5 * error,
            )
        )
    for i, c in enumerate(GAP_MARKS):
        note = "does not follow from the prior either"
        rows.append(
            Row(
                f"any two within {c:g} Δf_min",
                gap["every_pair_within"][i],
                f"{PAPER_SHARES[i]:.0%}",
                None,
                ".1%",
                note,
            )
        )
    return rows


def _difference_rows(data: Data) -> list[Row]:
    """Differences of amplitudes and phases."""
    amplitude, phase = data["amplitude"], data["phase"]
    log = 'the paper\'s "ordered" may mean either; neither gives its figure, nor a log-normal law'
    mean = f"{PAPER_MEAN:g}"
    return [
        Row("ΔA of neighbours in f, geometric mean", amplitude["geometric_mean"], mean, note=log),
        Row("ΔA of neighbours in A, geometric mean", amplitude["ranked_geometric_mean"], mean, note=log),
        Row("ΔA < 0.2, neighbours in f", amplitude["under_a_fifth"], "48%", form=".1%"),
        Row("ΔA < 0.2, neighbours in A", amplitude["ranked_under_a_fifth"], "48%", form=".1%"),
        Row(
            "Δφ uniform on [0, π]: p of a KS test",
            phase["p_uniform"],
            note="what independent uniform phases give; tones of a signal share phases, so p is a guide",
        ),
        Row(
            "Δφ triangular on [0, π]: p of a KS test",
            phase["p_triangular"],
            "0.82",
            form=".1g",
            note="the difference on a circle is uniform, not triangular",
        ),
    ]  # fmt: skip


def _loudness_rows(snr: Data) -> list[Row]:
    """Signal-to-noise ratios of the mixtures."""
    return [
        Row(
            "SNR, mode [dB]",
            snr["mode"],
            f"{PAPER_MODE:g}",
            form=".1f",
            note=f"mean K there: {snr['k_at_mode']:.1f}; the paper: K ≈ 5",
        ),
        Row("SNR, median [dB]", snr["median"], form=".1f"),
        Row(
            "SNR, smallest [dB]",
            snr["smallest"],
            "−6",
            form=".1f",
            note=f"the prior's floor is {10 * math.log10(0.5**2 / 2 / 1.5**2):.1f} dB (K = 1, A = 0.5, σ = 1.5)",
        ),
        Row("SNR below −6 dB", snr["below_minus_6"], "0%", form=".1%"),
        Row("SNR below 0 dB", snr["below_0"], form=".1%"),
    ]


def _plot(data: Data) -> Figure:
    """Four histograms with the laws that they should follow."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(10, 6.4), layout="constrained")
        axes = figure.subplots(2, 2)
        _draw_gaps(axes[0, 0], data["gap"])
        _draw_amplitudes(axes[0, 1], data["amplitude"])
        _draw_phases(axes[1, 0], data["phase"])
        _draw_snr(axes[1, 1], data["snr"])
        for ax in axes.flat:
            ax.set_ylabel("density")
    return figure


def _draw_gaps(ax: Axes, found: Data) -> None:
    _bars(ax, found)
    x = np.linspace(1, 21, 400)
    ax.plot(x, gap_density(x, NOMINAL), color=COLOURS[1], lw=1.4, label="law of the prior")
    for c, ours, paper in zip(GAP_MARKS, found["within"], PAPER_SHARES, strict=True):
        first = c == GAP_MARKS[0]
        ax.axvline(c, ymax=1 if first else 0.86, color=INK, lw=0.9, ls="--")
        text = tidy(f"{ours:.1%} within {c:g} (paper {paper:.0%})")
        _label(ax, c + 0.25, 0.97 if first else 0.84, text)
    ax.set(xlabel=r"gap between neighbours / $\Delta f_\mathrm{min}$", xlim=(0, 21))
    ax.legend(loc="center right")
    ax.set_title("Frequency")


def _draw_amplitudes(ax: Axes, found: Data) -> None:
    _bars(ax, found)
    x = np.linspace(-4, 0, 400)
    law = 2 * (1 - 10**x) * 10**x * math.log(10)  # |ΔA| has the density 2 (1 − |ΔA|) on [0, 1]
    ax.plot(x, law, color=COLOURS[1], lw=1.4, label="law of the prior")
    ours, paper = found["geometric_mean"], PAPER_MEAN
    ax.axvline(math.log10(ours), color=INK, lw=1.0, ls="--")
    _label(ax, math.log10(ours) + 0.04, 0.97, f"ours {ours:.2f}")
    ax.axvline(math.log10(paper), color=GREY, lw=1.0, ls=":")
    _label(ax, math.log10(paper) - 0.04, 0.97, f"paper {paper:.2f}", color=GREY, ha="right")
    ax.set(xlabel="log₁₀ |ΔA| of neighbours in frequency", xlim=(-3, 0))
    ax.set_ylim(top=1.25 * float(law.max()))
    ax.legend(loc="center left")
    ax.set_title("Amplitude, and its geometric mean")


def _draw_phases(ax: Axes, found: Data) -> None:
    _bars(ax, found)
    x = np.array([0, math.pi])
    uniform, triangular = np.full(2, 1 / math.pi), 2 / math.pi * (1 - x / math.pi)
    ax.plot(x, uniform, color=COLOURS[1], lw=1.4, label="uniform: law of the prior")
    ax.plot(x, triangular, color=GREY, ls=":", label="triangular: the paper")
    ax.set_xlabel("circular |Δφ| of neighbours in frequency [rad]")
    ax.legend(loc="upper right")
    ax.set_title("Phase")


def _draw_snr(ax: Axes, found: Data) -> None:
    _bars(ax, found)
    mode = found["mode"]
    ax.axvline(mode, color=INK, lw=1.0, ls="--", label=f"mode {mode:.1f} dB")
    ax.axvline(PAPER_MODE, color=GREY, lw=1.0, ls=":", label=f"paper {PAPER_MODE:g} dB")
    ax.set(xlabel="10 log₁₀(Σ A² / 2σ²) [dB]", xlim=(-14, 50))
    ax.legend(loc="upper right")
    ax.set_title("Signal-to-noise ratio")


def _label(ax: Axes, x: float, top: float, text: str, color: str = INK, ha: str = "left") -> None:
    """Text on white beside a vertical line, at a share of the axes' height."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    where = ax.get_xaxis_transform()
    ax.text(x, top, text, transform=where, color=color, va="top", ha=ha, fontsize=8, bbox=box)


def _bars(ax: Axes, histogram: Data) -> None:
    """A histogram as a density."""
    edges, counts = np.asarray(histogram["edges"]), np.asarray(histogram["counts"])
    density = counts / max(counts.sum(), 1) / np.diff(edges)
    ax.stairs(density, edges, fill=True, color=COLOURS[0], alpha=0.45)


DATASET = Result(
    name="dataset",
    title="Data set: separations and signal-to-noise ratio",
    section="5.1.1, figures 2 and 3",
    caption="Differences between the components of a signal that are neighbours in frequency, and the mixture's SNR. "
    "Lines: laws that follow from the stated prior.",
    uses=("n", "seed"),
    work=lambda settings: settings.n,
    run=_run,
    compare=_compare,
    plot=_plot,
)
