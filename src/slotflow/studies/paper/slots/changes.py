"""Slots when a component comes, goes or moves: do the others keep theirs?

From a signal of seven components in known noise, one is held back: the other six are the signal *before*. *After* an
insertion there are all seven; after a removal, five of the six; after a shift, one of the six has moved to the place
that was held back, with its amplitude and phase. The noise stays the same, so that nothing else changes, and every
signal keeps the minimum separation. Slots are asked for at the true K.

Of the components that were not touched, three things are asked:

- whether a slot still finds them: its median frequency is within half the minimum separation;
- whether the slot nearest to them, found or not, has the same number;
- by how many standard deviations (of before) its mean moves. Fresh noise would move it by √2 on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from slotflow.show.plots.style import COLOURS, GREY
from slotflow.signal.simulation import Simulation, tones
from slotflow.studies.measures.matching import assign
from slotflow.studies.measures.parameters import (
    PLACE,
    SIZE,
    SYMBOLS,
    WAVEFORM,
    differences,
    unrolled,
)
from slotflow.studies.measures.tones import midpoint
from slotflow.studies.paper.bench import CPU_BATCH, Bench
from slotflow.studies.paper.result import Data
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.sets import GRIDS, NOMINAL, SignalSet, batches, posterior_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["KINDS", "change_rows", "changes", "draw_moves", "draw_shares", "variants"]

Array = NDArray[np.float64]

COMPONENTS = 7
"""Components of a signal, one of which is held back at first."""
SEVEN_TONES = SignalSet(82, NOMINAL, k=COMPONENTS)
KINDS = ("insertion", "removal", "shift")
LEAST_FOUND = 0.99
"""Share of untouched components that a slot should still find."""
DISTANCE_EDGES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.5)
"""Edges of the classes of distance to the change, in Hz."""


@dataclass(frozen=True)
class Variant:
    """A signal before or after a change."""

    simulation: Simulation
    """The signals, with K_v components each."""
    label: NDArray[np.int64]
    """Which of the seven each component is, (B, K_v), in the order of frequency."""


@dataclass(frozen=True)
class Answer:
    """What the slots say of each of the seven; NaN and −1 for those that are not there."""

    slot: NDArray[np.int64]
    """Its slot, (B, 7)."""
    mean: Array
    """Mean of the slot's draws, φ around the circle, (B, 7, P)."""
    sd: Array
    """Their standard deviation, (B, 7, P)."""
    miss: Array
    """Median frequency less the true one in Hz, (B, 7)."""


def variants(seven: Simulation, rng: np.random.Generator) -> tuple[dict[str, Variant], Array]:
    """The signals before and after each change, and the frequency at which each change happens.

    Args:
        seven: Signals of seven components, B of them.
        rng: Chooses what is held back and what is touched.

    Returns:
        Variants by name ("before" and `KINDS`), and for each component of the seven its distance in Hz to the nearest
        place of the change, (3, B, 7), one row for each of `KINDS`.
    """
    theta = seven.theta[:, :COMPONENTS]
    size = len(theta)
    order = rng.permuted(np.tile(np.arange(COMPONENTS), (size, 1)), axis=1)
    held, touched = order[:, 0], order[:, 1]
    everything = np.tile(np.arange(COMPONENTS), (size, 1))
    without = everything[everything != held[:, None]].reshape(size, COMPONENTS - 1)
    fewer = without[without != touched[:, None]].reshape(size, COMPONENTS - 2)
    moved = theta.clone()
    rows = torch.arange(size)
    moved[rows, torch.as_tensor(touched), PLACE] = theta[rows, torch.as_tensor(held), PLACE]
    by_frequency = np.take_along_axis(WAVEFORM.place_of(moved).cpu().numpy(), without, 1).argsort(1)
    resorted = np.take_along_axis(without, by_frequency, 1)
    found = {
        "before": _variant(seven, theta, without),
        "insertion": _variant(seven, theta, everything),
        "removal": _variant(seven, theta, fewer),
        "shift": _variant(seven, moved, resorted),
    }
    f = WAVEFORM.place_of(theta).cpu().numpy()
    there, gone = (np.abs(f - np.take_along_axis(f, one[:, None], 1)) for one in (held, touched))
    return found, np.stack([there, gone, np.minimum(there, gone)])


def _variant(seven: Simulation, theta: Tensor, label: NDArray[np.int64]) -> Variant:
    """Some components of (B, 7, P) in the noise of the seven."""
    assert seven.short is not None  # the set has both streams
    size, k = label.shape
    index = torch.as_tensor(label, device=theta.device)[..., None].expand(-1, -1, SIZE)
    kept = torch.zeros_like(seven.theta)
    kept[:, :k] = theta.gather(1, index)
    long, short = GRIDS
    series = [
        x - tones(seven.theta, grid) + tones(kept, grid)
        for x, grid in ((seven.long, long), (seven.short, short))
    ]
    counts = torch.full((size,), k)
    return Variant(
        Simulation(counts, kept, seven.sigma, series[0], series[1], GRIDS, seven.seed), label
    )


@torch.no_grad()
def changes(bench: Bench) -> Data:
    """What happens to the components that were not touched, for each kind of change."""
    s = bench.settings
    rng = np.random.default_rng([s.seed, SEVEN_TONES.number])
    before: list[Answer] = []
    after: dict[str, list[Answer]] = {kind: [] for kind in KINDS}
    distances = []
    for seven in batches(SEVEN_TONES, s.tenth, CPU_BATCH, s.seed, bench.device):
        signals, distance = variants(seven, rng)
        before.append(_answer(bench, signals["before"]))
        for kind in KINDS:
            after[kind].append(_answer(bench, signals[kind]))
        distances.append(distance)
        bench.advance(len(seven.k))
    first, away = _cat(before), np.concatenate(distances, axis=1)
    floor = math.sqrt(2 / s.draws)  # two means of that many draws differ by this in any case
    return {
        kind: {"floor": floor} | _judge(first, _cat(after[kind]), away[i])
        for i, kind in enumerate(KINDS)
    }


def _answer(bench: Bench, variant: Variant) -> Answer:
    """Slots of one variant, by component."""
    sim = variant.simulation
    size, k = variant.label.shape
    slots = bench.model.analyse(sim, NOMINAL).slots(sim.k)
    draws = slots.sample(bench.settings.draws, posterior_seed(sim.seed))
    number = (~slots.mask).long().argsort(dim=-1, stable=True)[:, :k]  # slots that exist, (B, k)
    draws = draws.gather(2, number[:, None, :, None].expand(-1, draws.shape[1], -1, SIZE))
    draws = unrolled(draws, 1)
    middle = midpoint(WAVEFORM.place_of(draws)).cpu().numpy()
    truth = WAVEFORM.place_of(sim.theta[:, :k]).cpu().numpy()
    chosen = assign(middle, truth)
    component = np.take_along_axis(variant.label, chosen, 1)  # (B, k), by slot
    frequency = np.take_along_axis(truth, chosen, 1)
    slot = np.full((size, COMPONENTS), -1)
    mean, sd, miss = (
        np.full((size, COMPONENTS, *more), math.nan) for more in ((SIZE,), (SIZE,), ())
    )
    rows = np.arange(size)[:, None]
    slot[rows, component] = number.cpu().numpy()
    mean[rows, component] = draws.mean(1).cpu().numpy()
    sd[rows, component] = draws.std(1).cpu().numpy()
    miss[rows, component] = middle - frequency
    return Answer(slot, mean, sd, miss)


def _cat(parts: list[Answer]) -> Answer:
    """Several batches as one."""
    return Answer(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("slot", "mean", "sd", "miss"))
    )  # fmt: skip


def _judge(before: Answer, after: Answer, distance: Array) -> Data:
    """Shares and moves of the components that are there before and after, in the same place."""
    tolerance = NOMINAL.min_separation / 2
    same = (before.slot >= 0) & (after.slot >= 0) & (distance > 0)
    move = differences(after.mean, before.mean)
    size = np.abs(move / before.sd)[same]  # (untouched, P)
    away = distance[same]
    classes = np.digitize(away, DISTANCE_EDGES[1:-1])
    return {
        "untouched": int(same.sum()),
        "found_before": float((np.abs(before.miss[same]) < tolerance).mean()),
        "found_after": float((np.abs(after.miss[same]) < tolerance).mean()),
        "same_number": float((before.slot == after.slot)[same].mean()),
        "median": np.median(size, 0).tolist(),
        "within_95": np.quantile(size, 0.95, 0).tolist(),
        "rms": np.sqrt((size**2).mean(0)).tolist(),
        "by_distance": [
            float(np.median(size[classes == c])) if (classes == c).any() else None
            for c in range(len(DISTANCE_EDGES) - 1)
        ],
    }


def change_rows(data: Mapping[str, Data]) -> list[Row]:
    """The rows of the table."""
    rows = []
    for kind, found in data.items():
        share, n = found["found_after"], found["untouched"]
        rows += [
            Row(
                f"{kind}: untouched components that a slot still finds",
                share,
                error=math.sqrt(share * (1 - share) / n) or None,
                form=".2%",
                note=f"{found['found_before']:.2%} before; {n:,} components",
                target=Target(low=LEAST_FOUND, words=f"≥ {LEAST_FOUND:.0%}"),
                met=share >= LEAST_FOUND,
            ),
            Row(
                f"{kind}: untouched components whose nearest slot keeps its number",
                found["same_number"],
                form=".1%",
                note="of all components, found or not; slots that keep a rank in f are renumbered above the change",
            ),
            Row(
                f"{kind}: their means move, rms over components and parameters [sd]",
                math.sqrt(float(np.mean(np.square(found["rms"])))),
                form=".2f",
                note="median "
                + ", ".join(f"{x:.2f} ({s})" for x, s in zip(found["median"], SYMBOLS, strict=True))
                + f"; fresh noise would give 1.41, other draws alone {found['floor']:.2f}",
            ),
        ]
    return rows


def draw_shares(ax: Axes, data: Mapping[str, Data]) -> None:
    """Shares that are found before and after, and by the same slot, for each kind of change."""
    place = np.arange(len(data))
    shown = (
        ("found_before", "found by a slot before", GREY, "D"),
        ("found_after", "found by a slot after", COLOURS[0], "o"),
        ("same_number", "nearest slot keeps its number", COLOURS[1], "s"),
    )
    for i, (key, label, colour, mark) in enumerate(shown):
        share, at = [found[key] for found in data.values()], place + 0.3 * (i - 1)
        ax.plot(at, share, mark, ms=6, color=colour, label=label, clip_on=False, zorder=3)
        for x, y in zip(at, share, strict=True):
            ax.annotate(
                f"{100 * y:.3g} %", (x, y), (0, -8), textcoords="offset points", ha="center",
                va="top", fontsize=7.5,
            )  # fmt: skip
    ax.set(ylabel="share of untouched components", yticks=(0, 0.25, 0.5, 0.75, 1))
    ax.set(xlim=(-0.55, len(data) - 0.45), ylim=(-0.1, 1.03))
    ax.set_xticks(place, list(data))
    ax.grid(visible=False, axis="x")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=3, handletextpad=0.2)
    ax.set_title("Untouched components when another one comes, goes or moves")


def draw_moves(ax: Axes, data: Mapping[str, Data]) -> None:
    """Median move of the means against the distance to the change."""
    from matplotlib.ticker import FuncFormatter

    edges = 1e3 * np.asarray(DISTANCE_EDGES)
    centres = np.sqrt(edges[1:] * edges[:-1])
    for i, (kind, found) in enumerate(data.items()):
        y = [math.nan if value is None else value for value in found["by_distance"]]
        ax.plot(centres, y, marker="os^"[i], ms=4, lw=1.2, color=COLOURS[i], label=kind)
    floor = norm.ppf(0.75) * next(iter(data.values()))["floor"]
    fresh = math.sqrt(2) * norm.ppf(0.75)  # median of |move|
    ax.axhline(fresh, color=GREY, lw=0.9, label="fresh noise")
    ax.axhline(floor, color=GREY, lw=0.9, ls=":", label="other draws alone")
    ax.set(xscale="log", yscale="log", xlabel="distance to the change [mHz]")
    ax.set_ylabel("median |move of the mean| / sd")
    ax.set_xticks(edges, [f"{edge:g}" for edge in edges])
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.minorticks_off()
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.06))
    ax.set_title("How far their means move, all parameters")
