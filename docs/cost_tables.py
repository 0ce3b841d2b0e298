"""What an answer costs, where its time goes, and what a large catalogue would cost: tables and a picture from records.

The picture is drawn by `python docs/render.py`, or alone by `python docs/cost_tables.py`.

**A catalogue.** Of W windows a share s cannot be decided in batches. A GPU that answers R windows in a second is busy
for W/R seconds. The windows that batches leave take W s c seconds of CPU cores, c being what one of them takes, and
s c R cores beside the GPU are as quick as it is. Without a GPU all windows take W b seconds of cores, where b is the
time of a window in batches on one core, what batches leave included.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from performance_tables import NOT_MEASURED, Cells, Table
from time_records import Record, Records, batch_ms, batch_rate, eryn_seconds, left_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PICTURE", "cost_picture", "cost_tables"]

WINDOWS = 10_000_000
"""Windows of the catalogue."""
HOUR = 3600.0
PICTURE = "cost.png"
CURVES = {
    "samples": "samples of a signal",
    "tones": "tones K",
    "bins": "width of the band, bins 1/T",
    "batch": "signals handed over together",
}
"""Parts of the record, and what each changes."""
WAYS = {"network": "network", "exact": "network and exact step", "alone": "one signal alone, exact"}
DEVICES = {"cost": "one core", "cost-gpu": "H200"}
"""Records of the curves, and what was measured."""
SETS = ("nominal", "stress")


def cost_tables(folder: Path, table: Table) -> Iterator[tuple[str, str]]:
    """Names of the tables and their Markdown.

    Args:
        folder: Of the records.
        table: Writes a header and rows as Markdown.
    """
    records = Records(folder)
    found = {name: record for name in DEVICES if (record := records.get(name)) is not None}
    yield "cost_curves", _curves(found, folder.parent / "images" / PICTURE, table)
    columns = [(name, one) for name, record in found.items() for one in record.get("stages", ())]
    header = ["share of the time", *(f"{one['set']}, {DEVICES[name]}" for name, one in columns)]
    stages = table(header, _stages([one for _, one in columns]))
    yield "cost_stages", stages if columns else f"Where the time goes is {NOT_MEASURED}."
    header = (
        "windows like those of", "one H200", "left by batches", "cores for these", "as quick as the GPU",
        "without a GPU",
    )  # fmt: skip
    yield "catalogue_cost", table(header, _catalogue(records))


# ---------------------------------------------------------------------- curves and stages


def _curves(found: dict[str, Record], picture: Path, table: Table) -> str:
    """The picture, where it has been drawn, and the numbers behind it."""
    if not found:
        return f"The curves are {NOT_MEASURED}."
    image = f"![Milliseconds a signal against four things](images/{picture.name})\n\n"
    header = ["", "", *(f"{way}, {DEVICES[name]}" for name in found for way in WAYS.values())]
    rows = table(header, _points(found))
    made = "; ".join(
        f"`{record['command']}`, slotflow {record['version']}, {record['machine']}, torch {record['torch']}"
        for record in found.values()
    )
    return f"{image if picture.exists() else ''}{rows}\n\nMilliseconds a signal. {made}."


def _points(found: dict[str, Record]) -> Iterator[Cells]:
    """One row for each point of each curve."""
    for part, words in CURVES.items():
        points = {
            name: {point["value"]: point for point in record.get(part, ())}
            for name, record in found.items()
        }
        for value in sorted({value for some in points.values() for value in some}):
            ones = [points[name].get(value, {}) for name in found]
            cells = [f"{one[way]:.3g}" if way in one else "" for one in ones for way in WAYS]
            yield words, f"{value:,}", *cells


def _stages(columns: Sequence[Record]) -> Iterator[Cells]:
    """One row for each stage, and what all of them took."""
    for name in columns[0]["shares"] if columns else ():
        yield name, *(f"{100 * one['shares'][name]:.1f} %" for one in columns)
    yield "**all, ms a signal**", *(f"{one['ms']:.3g}" for one in columns)
    yield (
        "signals, of which batches left",
        *(f"{one['signals']:,}, {one['left']:,}" for one in columns),
    )


# ---------------------------------------------------------------------- a catalogue


@dataclass(frozen=True)
class Cost:
    """What a catalogue costs; None where something was not measured."""

    gpu_hours: float | None
    core_hours_left: float | None
    """Of the windows that batches leave."""
    cores: float | None
    """As many as are as quick as the GPU."""
    core_hours: float | None
    """Of all windows, without a GPU."""


def catalogue_cost(
    windows: float, rate: float | None, left: float | None, alone: float | None, each: float | None
) -> Cost:
    """What W windows cost.

    Args:
        windows: W.
        rate: R, windows per second of the GPU.
        left: s, share that batches leave.
        alone: c, seconds of a core for one of these.
        each: b, seconds of a core for any window, in batches.
    """
    beside = None if left is None or alone is None else left * alone
    if left == 0:
        beside = 0.0
    return Cost(
        None if rate is None else windows / rate / HOUR,
        None if beside is None else windows * beside / HOUR,
        None if rate is None or beside is None else rate * beside,
        None if each is None else windows * each / HOUR,
    )


def _catalogue(records: Records) -> Iterator[Cells]:
    """The cost of windows of each kind."""
    for name in SETS:
        one, left = records.batch("batch-exact", name), left_share(records, name)
        rate = batch_rate(records, name) or batch_rate(records, "nominal")
        each = None if one is None else batch_ms(one) / 1e3
        cost = catalogue_cost(WINDOWS, rate, left, _alone_seconds(records), each)
        yield (
            f"the {name} set",
            _hours(cost.gpu_hours, "h"),
            "–" if left is None else f"{100 * left:.2g} %",
            _hours(cost.core_hours_left, "core hours"),
            NOT_MEASURED if cost.cores is None else f"{math.ceil(cost.cores):,} cores",
            _hours(cost.core_hours, "core hours"),
        )
    crowded, eryn = records.get("crowded-now"), eryn_seconds(records)
    mean = None if crowded is None else crowded["results"]["frontier"]["now"]["cpu_seconds"]["mean"]
    yield "the frontier set, one by one", "", "all", "", "", _hours(_core_hours(mean), "core hours")
    seconds = median(one for one, _ in eryn) if eryn else None
    yield (
        "K = 3, by Eryn, 2,000 effective draws",
        "",
        "",
        "",
        "",
        _hours(_core_hours(seconds), "core hours"),
    )


def _core_hours(seconds: float | None) -> float | None:
    """Of all windows, if each takes so many seconds of a core."""
    return catalogue_cost(WINDOWS, None, None, None, seconds).core_hours


def _alone_seconds(records: Records) -> float | None:
    """What a signal that batches leave takes on one core: the mean over all that were timed."""
    record = records.get("cost")
    timed = [] if record is None else [one for one in record.get("stages", ()) if one["left"]]
    if not timed:
        return None
    total = sum(one["left"] * one["ms of one alone"] for one in timed)
    return float(total / sum(one["left"] for one in timed) / 1e3)


def _hours(value: float | None, unit: str) -> str:
    """A number of hours, or that there is none."""
    return NOT_MEASURED if value is None else f"{float(f'{value:.2g}'):,.10g} {unit}"


# ---------------------------------------------------------------------- the picture


def cost_picture(folder: Path) -> Figure | None:
    """The curves; None if they were not measured.

    Args:
        folder: Of the records.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from slotflow.show.plots.style import COLOURS, style

    records = Records(folder)
    found = {name: record for name in DEVICES if (record := records.get(name)) is not None}
    if not found:
        return None
    plain = FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
    with style():
        figure = Figure(figsize=(10, 6), layout="constrained")
        panels: Any = figure.subplots(2, 2, sharey=True)
        for ax, (part, words) in zip(panels.flat, CURVES.items(), strict=True):
            for line, (name, record) in zip(("o-", "s--"), found.items(), strict=False):
                for colour, (way, label) in zip(COLOURS, WAYS.items(), strict=False):
                    points = [p for p in record.get(part, ()) if way in p]
                    x, y = [p["value"] for p in points], [p[way] for p in points]
                    title = f"{label}, {DEVICES[name]}"
                    ax.plot(x, y, line, color=colour, ms=4, lw=1.3, label=title if x else None)
            ticks = sorted({p["value"] for r in found.values() for p in r.get(part, ())})
            ax.set(xscale="log", yscale="log", xlabel=words)
            ax.set_xticks(ticks)
            ax.xaxis.set_major_formatter(plain)
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter(plain)
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.yaxis.set_major_formatter(plain)
        for ax in panels[:, 0]:
            ax.set_ylabel("ms a signal")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", ncols=3 if len(found) == 1 else 2
        )
    return figure


if __name__ == "__main__":
    from slotflow.plots import save_figure

    docs = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Draws the curves of docs/data/cost.json.")
    parser.add_argument("--out", type=Path, default=docs / "images" / PICTURE)
    drawn = cost_picture(docs / "data")
    if drawn is None:
        parser.exit(1, "docs/data/cost.json is not there: run python benchmarks/cost.py first.\n")
    save_figure(drawn, parser.parse_args().out, dpi=110)
