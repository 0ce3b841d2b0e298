"""Which slot takes which component, over many mixtures of ten and over repeated inference of one.

How slots are matched, and what specialization and consistency mean, is in `slotflow.studies.measures.matching`; what
happens when a component comes, goes or moves, in `changes`.

Slots of `zoom` start at peaks of the spectrum in the order of their frequencies (`slotflow.network.zoom.proposals`):
what the paper calls emergent is built in here. A slot that crosses another on the way, or misses its component, would
still show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.studies.measures.matching import assign, consistency, explained, match_matrix
from slotflow.studies.measures.parameters import WAVEFORM
from slotflow.studies.measures.tones import midpoint
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.slots.changes import change_rows, changes, draw_moves, draw_shares
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.analyser import SlotsLike
from slotflow.studies.suites.sets import NOMINAL, SignalSet, batches, default_batch, posterior_seed
from slotflow.studies.suites.signals import in_fresh_noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SLOTS"]

Array = NDArray[np.float64]

K = NOMINAL.k_max
MIXTURES = SignalSet(80, NOMINAL, k=K)
SINGLE = SignalSet(81, NOMINAL, k=K)
"""Where the one signal of the repeated inference comes from."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
PAPER_ENDS = (2.55, 2.95)
"""Frequencies in Hz of the first and the last slot, read off the paper's text."""
SLOT_AXIS = "number of the slot, in the order of f"


@torch.no_grad()
def _run(bench: Bench) -> Data:
    """Many mixtures, then one signal many times."""
    frequency, amplitude = _mixtures(bench)
    number = np.broadcast_to(np.arange(K), frequency.shape)
    return {
        "mixtures": len(frequency),
        "frequency": np.quantile(frequency, QUANTILES, axis=0).T.tolist(),
        "amplitude": np.quantile(amplitude, QUANTILES, axis=0).T.tolist(),
        "explained_frequency": explained(frequency),
        "explained_amplitude": explained(amplitude),
        "explained_if_sorted": explained(np.sort(frequency, axis=1)),
        "explained_if_amplitude_sorted": explained(np.sort(amplitude, axis=1)),
        "rank_correlation_amplitude": float(spearmanr(number.ravel(), amplitude.ravel()).statistic),
        "repeated": _repeated(bench),
        "changes": changes(bench),
    }


def _mixtures(bench: Bench) -> tuple[Array, Array]:
    """Frequency and amplitude of the component that each slot takes, (n, K) each."""
    s = bench.settings
    batch = default_batch(bench.device, s.draws, K)
    frequency, amplitude = [], []
    for sim in batches(MIXTURES, s.tenth, batch, s.seed, bench.device):
        slots = bench.model.analyse(sim, NOMINAL).slots(sim.k)
        truth = sim.theta.cpu().numpy()
        chosen = assign(_medians(slots, s.draws, sim.seed), WAVEFORM.place_of(truth))
        taken = np.take_along_axis(truth, chosen[..., None], axis=1)
        frequency.append(WAVEFORM.place_of(taken))
        amplitude.append(WAVEFORM.of(taken, "amplitude"))
        bench.advance(len(sim.k))
    return np.concatenate(frequency), np.concatenate(amplitude)


def _medians(slots: SlotsLike, draws: int, seed: int) -> Array:
    """Median frequency of each slot, (B, K)."""
    places = WAVEFORM.place_of(slots.sample(draws, posterior_seed(seed)))
    medians: Array = midpoint(places).cpu().numpy()
    return medians


def _repeated(bench: Bench) -> Data:
    """One signal of K components: R draws of the posterior, and R fresh draws of the noise."""
    s = bench.settings
    (one,) = batches(SINGLE, 1, 1, s.seed, bench.device)
    truth = one.theta[0].cpu().numpy()
    place = WAVEFORM.place_of(truth)
    sample = (
        bench.model.analyse(one, NOMINAL).slots(one.k).sample(s.repeats, posterior_seed(one.seed))
    )
    drawn = WAVEFORM.place_of(sample[0]).cpu().numpy()  # (R, K)
    again = assign(drawn, np.broadcast_to(place, drawn.shape))
    bench.advance(1)

    theta, sigma = one.theta.expand(s.repeats, -1, -1), one.sigma.expand(s.repeats)
    noisy = in_fresh_noise(theta, sigma, one.seed + 1)
    slots = bench.model.analyse(noisy, NOMINAL).slots(noisy.k)
    medians = _medians(slots, s.draws, noisy.seed)
    fresh = assign(medians, np.broadcast_to(place, medians.shape))
    offset = medians - place[fresh]
    bench.advance(s.repeats)
    return {
        "runs": s.repeats,
        "sigma": float(one.sigma[0]),
        "truth": truth.tolist(),
        "draws": match_matrix(again).tolist(),
        "noise": match_matrix(fresh).tolist(),
        "slot_sd": drawn.std(0, ddof=1).tolist(),
        "largest_offset": float(np.abs(offset).max()),
    }


def _compare(data: Data) -> list[Row]:
    """Specialization and stability beside the paper's."""
    return [
        *_specialization_rows(data),
        *_stability_rows(data["repeated"]),
        *change_rows(data["changes"]),
    ]


def _median_frequencies(data: Data) -> list[float]:
    """Median frequency of the components that each slot takes, slot by slot."""
    return [row[QUANTILES.index(0.5)] for row in data["frequency"]]


def _specialization_rows(data: Data) -> list[Row]:
    """What the number of a slot says of its component."""
    median = _median_frequencies(data)
    order = "emergent in the paper; slots of `zoom` start in the order of frequency, so that there it is built in"
    return [
        Row(
            "range of the slots' median frequencies [Hz]",
            max(median) - min(median),
            f"{PAPER_ENDS[1] - PAPER_ENDS[0]:.2f}",
            form=".3f",
            note=order,
        ),
        Row(
            "variance of f that the slot's number explains",
            data["explained_frequency"],
            form=".1%",
            note=f"{data['explained_if_sorted']:.1%} if slots were sorted by frequency; their numbers in the order of "
            f"their medians: {', '.join(str(slot + 1) for slot in np.argsort(median))}",
        ),
        Row(
            "variance of A that the slot's number explains",
            data["explained_amplitude"],
            form=".1%",
            note=f"{data['explained_if_amplitude_sorted']:.1%} if slots were sorted by amplitude",
        ),
        Row(
            "rank correlation of A with the slot's number",
            data["rank_correlation_amplitude"],
            form="+.2f",
        ),
    ]


def _stability_rows(repeated: Data) -> list[Row]:
    """Whether a slot takes the same component again."""
    again = consistency(np.asarray(repeated["draws"]))
    widest = max(repeated["slot_sd"])
    return [
        Row(
            "consistency, repeated inference",
            again,
            "1.00",
            form=".3f",
            note="by the density, as in the paper, it is 1 with certainty; here each run is one draw",
            target=Target(low=0.995, words="≥ 0.995"),
            met=again >= 0.995,
        ),
        Row(
            "sd of a slot's frequency over runs, largest [Hz]",
            widest,
            "< 0.01",
            form=".2g",
            target=Target(high=0.01, strict=True),
            met=widest < 0.01,
        ),
        Row(
            "consistency, fresh noise",
            consistency(np.asarray(repeated["noise"])),
            form=".3f",
            note="the same components in other noise; the paper does not test it",
        ),
        Row(
            "fresh noise: slot's median off its component, largest [Hz]",
            repeated["largest_offset"],
            form=".2g",
            note="against 0.01 between neighbours at least",
        ),
    ]


def _plot(data: Data) -> Figure:
    """Box plots of frequency and amplitude by slot, the two match matrices, and what a change does.

    Slots stand in the order of their median frequency, as in the paper, since their numbers mean nothing; the numbers
    are written at the axes.
    """
    from matplotlib.figure import Figure

    repeated = data["repeated"]
    order = np.argsort(_median_frequencies(data))
    with style():
        figure = Figure(figsize=(12, 12), layout="constrained")
        axes = figure.subplots(3, 2)
        draw_shares(axes[2, 0], data["changes"])
        draw_moves(axes[2, 1], data["changes"])
        _boxes(axes[0, 0], data["frequency"], order, COLOURS[0])
        axes[0, 0].plot(
            (1, K), PAPER_ENDS, "D:", ms=5, color=GREY, label="paper, first and last slot"
        )
        axes[0, 0].set(ylabel="f of the matched component [Hz]", ylim=NOMINAL.frequency)
        axes[0, 0].legend(loc="lower right")
        axes[0, 0].set_title(f"Frequency by slot, {data['mixtures']:,} mixtures of K = {K}")
        _boxes(axes[0, 1], data["amplitude"], order, COLOURS[1])
        axes[0, 1].set(ylabel="A of the matched component", ylim=NOMINAL.amplitude)
        axes[0, 1].set_title("Amplitude by slot")
        for ax, key, what in (
            (axes[1, 0], "draws", f"{repeated['runs']} draws of one posterior"),
            (axes[1, 1], "noise", f"{repeated['runs']} draws of the noise"),
        ):
            matrix = np.asarray(repeated[key])[order]
            image = ax.imshow(
                matrix / matrix.sum(1, keepdims=True),
                cmap="Blues",
                vmin=0,
                vmax=1,
                extent=(0.5, K + 0.5, K + 0.5, 0.5),
                aspect="auto",
            )
            ax.set(xlabel="component, by frequency", ylabel=SLOT_AXIS, xticks=range(1, K + 1))
            ax.set_yticks(range(1, K + 1), [str(slot + 1) for slot in order])
            ax.grid(visible=False)
            ax.set_title(f"One signal, {what}: consistency {consistency(matrix):.3f}")
            figure.colorbar(image, ax=ax, label="share of runs")
    return figure


def _boxes(ax: Axes, quantiles: list[list[float]], order: NDArray[np.intp], colour: str) -> None:
    """Boxes from the quantiles of each slot, in the order given; whiskers reach from 5 to 95 %."""
    ends = ("whislo", "q1", "med", "q3", "whishi")
    boxes = [dict(zip(ends, quantiles[slot], strict=True)) for slot in order]
    ax.bxp(
        boxes,
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": colour, "alpha": 0.35},
        medianprops={"color": colour, "lw": 1.8},
    )
    ax.set_xticks(range(1, K + 1), [str(slot + 1) for slot in order])
    ax.set_xlabel(SLOT_AXIS)


SLOTS = Result(
    name="slots",
    title="Slots: specialization and stability",
    section="5.1.2, figure 4; B.1",
    caption="What each slot takes (boxes: quartiles, whiskers: 5 to 95 %), how often it takes the same component, and "
    "what happens to six components when a seventh comes, one goes or one moves, in the same noise. Slots stand in the "
    "order of their median frequency, as in the paper. The consistency is the share of slots with the same component "
    "over all pairs of runs; it does not say that a slot is near its component.",
    uses=("n", "draws", "repeats", "seed", "model"),
    work=lambda settings: 2 * settings.tenth + 1 + settings.repeats,
    pooled=True,
    run=_run,
    compare=_compare,
    plot=_plot,
)
