"""Pictures of the documentation: drawn from their records, each names its network, and none hides what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

from slotflow.show.plots import plot_training
from slotflow.studies.frame.registry import STUDIES
from slotflow.studies.paper.files import Record, collect
from slotflow.studies.paper.pictures import draw_result
from slotflow.studies.paper.registry import RESULTS

ROOT = Path(__file__).resolve().parents[1]
LARGEST_FILE = 300_000
"""Bytes of a picture in the documentation."""


def name_of(record: Record) -> str:
    return f"{record.model}-{record.result.name}"


RECORDS = [r for group in collect(ROOT / "docs" / "results", list(RESULTS.values())) for r in group]
BY_NAME = {name_of(record): record for record in RECORDS}


def drawn(record: Record) -> Figure:
    return draw_result(record.result, record.content["data"], record.model)


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    """The picture of every result and every study that has a record."""
    found = {name: drawn(record) for name, record in BY_NAME.items()}
    for path in sorted((ROOT / "docs" / "data" / "studies").glob("*.json")):
        data = json.loads(path.read_text("utf-8"))["data"]
        found[f"study-{path.stem}"] = STUDIES[path.stem].plot(data)
    return found


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def bars_on_a_logarithmic_axis(figure: Figure) -> Iterator[Axes]:
    """Panels with bars whose length is measured on a logarithmic axis, which has no zero for them to start from."""
    for ax in figure.axes:
        for bars in ax.containers:
            if isinstance(bars, BarContainer):
                flat = bars.orientation == "horizontal"
                if (ax.get_xscale() if flat else ax.get_yscale()) != "linear":
                    yield ax


def is_empty(ax: Axes) -> bool:
    """Whether a panel shows nothing but perhaps words."""
    return not (ax.lines or ax.patches or ax.collections or ax.images)


def test_a_picture_names_its_network(figures: dict[str, Figure]) -> None:
    """With the same panels for both networks, the name alone tells the pictures apart."""
    assert {record.model for record in RECORDS} >= {"zoom", "paper"}
    for name, record in BY_NAME.items():
        named = [text for text in words(figures[name]) if text.startswith("Network ")]
        assert (f"Network {record.model}" in named) == ("model" in record.result.uses), name
        assert record.model == "paper" or "Network paper" not in named


def test_a_training_curve_names_its_network() -> None:
    path = ROOT / "docs" / "data" / "debug-metrics.jsonl"
    assert "Training of network debug" in words(plot_training(path, model="debug"))
    assert not [text for text in words(plot_training(path)) if "network" in text]


def test_no_bar_stands_on_a_logarithmic_axis(figures: dict[str, Figure]) -> None:
    for name, figure in figures.items():
        assert not list(bars_on_a_logarithmic_axis(figure)), name
    bad = Figure()
    bad.subplots().barh([0, 1], [1, 10])
    assert not list(bars_on_a_logarithmic_axis(bad))
    bad.axes[0].set_xscale("log")
    assert list(bars_on_a_logarithmic_axis(bad))


def test_no_panel_is_empty(figures: dict[str, Figure]) -> None:
    for name, figure in figures.items():
        if not name.endswith("comparison"):  # the free half of a corner plot
            assert not [ax for ax in figure.axes if is_empty(ax)], name
    assert len(figures["paper-cardinality"].axes) == 2  # one set, and how reliable q(K | x) is
    nothing = Figure()
    nothing.subplots().text(0.5, 0.5, "not asked")
    assert is_empty(nothing.axes[0])


@pytest.mark.parametrize("model", ["zoom", "paper"])
def test_slots_stand_in_the_order_of_their_frequencies(
    model: str, figures: dict[str, Figure]
) -> None:
    """As in the paper, whose slots are reordered too; their own numbers are written at both axes."""
    medians = [q[2] for q in BY_NAME[f"{model}-slots"].content["data"]["frequency"]]
    order = [str(slot + 1) for slot in np.argsort(medians)]
    frequency, amplitude, draws, noise, *_ = figures[f"{model}-slots"].axes
    for ax in (frequency, amplitude):
        assert [text.get_text() for text in ax.get_xticklabels()] == order
    for ax in (draws, noise):
        assert [text.get_text() for text in ax.get_yticklabels()] == order
        shown = np.asarray(ax.images[0].get_array())
        assert (shown.argmax(1) == np.arange(len(order))).all()
    assert (order == sorted(order, key=int)) == (model == "zoom")


@pytest.mark.parametrize("model", ["zoom", "paper"])
def test_the_worst_coverage_is_in_the_picture(model: str, figures: dict[str, Figure]) -> None:
    """A mean over parameters would hide a phase 17 % too narrow behind a frequency 14 % too wide."""
    record = BY_NAME[f"{model}-calibration"]
    rows = {row["measure"]: row["value"] for row in record.content["rows"]}
    panels = [
        ax for ax in figures[f"{model}-calibration"].axes if "Network: cov" in ax.get_title("left")
    ]
    curves = [line.get_ydata() for ax in panels for line in ax.lines if len(line.get_xdata()) > 2]
    assert len(panels) == 3 and len(curves) == 3 * 5
    largest = max(float(np.abs(curve).max()) for curve in curves)
    assert largest == pytest.approx(rows["largest |coverage − α|, all sets and parameters"])
    low, high = panels[0].get_ylim()
    assert all(low < np.min(curve) and np.max(curve) < high for curve in curves)


def test_ratios_fill_their_panels(figures: dict[str, Figure]) -> None:
    """The range of the lower panels is that of all values with their errors, whatever the targets are."""
    for model in ("zoom", "paper"):
        panels = [
            ax for ax in figures[f"{model}-scaling"].axes if ax.get_ylabel().endswith("/ bound")
        ]
        drawn = [collection for ax in panels for collection in ax.collections]
        sizes = np.concatenate([piece[:, 1] for lines in drawn for piece in lines.get_segments()])
        ends = np.array(panels[0].get_ylim())
        if panels[0].get_yscale() == "log":
            sizes, ends = np.log(sizes), np.log(ends)
        assert np.ptp(sizes) > 0.5 * np.ptp(ends)


def shown_ticks(ax: Axes) -> list[str]:
    """Labels of the vertical axis that lie within it."""
    low, high = ax.get_ylim()
    ticks = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    return [label.get_text() for tick, label in ticks if low <= tick <= high]


def test_logarithmic_axes_of_the_scaling_can_be_read(figures: dict[str, Figure]) -> None:
    counts, _, sizes = figures["study-zoom_scaling"].axes
    for ax in (counts, sizes):
        assert shown_ticks(ax) == ["0.05", "0.1", "0.2", "0.4"]
    assert [label.get_text() for label in sizes.get_xticklabels()] == ["0.5 M", "2 M", "8 M"]


def test_training_sets_outside_the_range_are_explained(figures: dict[str, Figure]) -> None:
    legend = figures["study-sample_complexity"].axes[-1].get_legend()
    assert legend is not None
    assert {"at most 100", "more than 10,000"} <= {text.get_text() for text in legend.get_texts()}


def test_pictures_are_small() -> None:
    for folder in ("results", "results/paper", "images"):
        for path in (ROOT / "docs" / folder).glob("*.png"):
            assert path.stat().st_size < LARGEST_FILE, path


def test_diagrams_name_files_that_exist() -> None:
    for name in ("zoom", "exact"):
        text = (ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8")
        files = re.findall(r"\((\w+/\w+(?:\.py|/))\)", text)
        assert len(files) >= 5
        for file in files:
            assert list((ROOT / "src").rglob(file.rstrip("/"))), file
