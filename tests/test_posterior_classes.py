"""Tables of components of several classes: the class with its probability, and the parameters of that class."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from slotflow import Observation, Posterior, Prior
from slotflow.cli.components import ShownComponents
from slotflow.core.arrays import Array
from slotflow.many.records import posterior_record
from slotflow.posterior.moments import class_shares, moments, of_likeliest_class
from slotflow.show.plots.colours import MARKS, mark_of
from slotflow.show.plots.components import panels_per_row
from slotflow.show.report.components import components as report_table
from slotflow.waveforms import Chirp, Damped, Tone

CLASSES = {"tone": Tone(), "chirp": Chirp(drift=(-1.0, 1.0)), "damped": Damped(rate=(0.1, 2.0))}
PRIOR = Prior(k_min=0, k_max=2, frequency=(2.0, 3.0), min_separation=0.0, classes=CLASSES)
WAVEFORM = PRIOR.waveform
TONE_ROW = {"amplitude": 1.0, "phase": 0.1, "frequency": 2.2, "class": 0}
CHIRP_ROW = {"amplitude": 2.0, "phase": 6.2, "frequency": 2.7, "drift": 0.5, "class": 1}
DAMPED_ROW = {"amplitude": 5.0, "phase": 3.0, "frequency": 2.7, "rate": 1.5, "class": 2}


def rows(*components: dict[str, float]) -> Array:
    """Components in the columns of all classes, (k, P)."""
    return np.array([[row.get(name, 0.0) for name in WAVEFORM.names] for row in components])


class TwoComponents:
    """A tone, and beside it a chirp in seven of ten draws, otherwise a damped tone."""

    k_max = 2

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws with small errors in what each class has."""
        rng = np.random.default_rng(seed)
        theta = np.tile(rows(TONE_ROW, CHIRP_ROW), (n, 1, 1))
        theta[rng.random(n) < 0.3, 1] = rows(DAMPED_ROW)[0]
        exact = [WAVEFORM.column(p.name) for p in WAVEFORM.parameters if p.categorical]
        noise = np.where(theta == 0, 0.0, 0.01 * rng.normal(size=theta.shape))
        noise[..., exact] = 0.0
        return (theta + noise)[:, :k]

    def log_prob(self, theta: Array) -> Array:
        """Not asked for."""
        raise NotImplementedError

    def constrained_fraction(self, k: int) -> float:
        """None are outside."""
        return 0.0


@pytest.fixture(scope="module")
def post() -> Posterior:
    data = Observation.from_arrays(np.random.default_rng(0).normal(size=64), 0.1)
    found = Posterior([0.0, 0.0, 1.0], TwoComponents(), data, 1.0, None, "test", PRIOR)
    found.waveform = WAVEFORM
    return found


def test_shares_of_classes_by_hand() -> None:
    draws = np.stack([rows(TONE_ROW, row) for row in (CHIRP_ROW, CHIRP_ROW, DAMPED_ROW)])
    np.testing.assert_allclose(class_shares(draws, WAVEFORM), [[1, 0, 0], [0, 2 / 3, 1 / 3]])
    draws[0, 1] = np.nan  # a draw without the second component
    np.testing.assert_allclose(class_shares(draws, WAVEFORM)[1], [0, 0.5, 0.5])


def test_moments_are_those_of_the_likeliest_class() -> None:
    draws = np.stack([rows(row) for row in (CHIRP_ROW, CHIRP_ROW, CHIRP_ROW, DAMPED_ROW)])
    found = moments(draws, WAVEFORM)
    assert found["class"].tolist() == ["chirp"] and found["class_probability"] == [0.75]
    assert found["amplitude_median"] == [2.0] and found["amplitude_sd"] == [0.0]
    assert found["drift_median"] == [0.5] and math.isnan(found["rate_median"][0])
    assert len(of_likeliest_class(draws, WAVEFORM)) == 3
    assert "class_median" not in found


def test_summary_has_the_class_and_its_probability(post: Posterior) -> None:
    n = 2000
    frame = post.summary(n=n)
    assert frame["class"].tolist() == ["tone", "chirp"]
    error = 5 * math.sqrt(0.7 * 0.3 / n)
    assert frame["class_probability"].tolist() == pytest.approx([1.0, 0.7], abs=error)
    assert frame["drift_median"].tolist()[1] == pytest.approx(0.5, abs=0.01)
    assert frame["drift_median"].isna().tolist() == [True, False]
    assert frame["rate_median"].isna().all()
    assert frame["amplitude_median"].tolist() == pytest.approx([1.0, 2.0], abs=0.01)


def test_catalogue_follows_the_same_class(post: Posterior, tmp_path: Path) -> None:
    frame = post.to_catalogue(tmp_path / "found.csv", n=500)
    assert frame["class"].tolist() == ["tone", "chirp"]
    assert frame["cov_drift_drift"].tolist()[1] == pytest.approx(1e-4, rel=0.5)
    assert frame["cov_amplitude_amplitude"].max() < 2e-4  # 1.9 with the damped draws among them
    assert not [name for name in frame.columns if "cov_class" in name or name == "class_median"]


def test_probabilities_of_all_classes(post: Posterior) -> None:
    frame = post.class_probs
    assert frame.columns.tolist() == ["tone", "chirp", "damped"]
    np.testing.assert_allclose(frame.sum(axis=1), 1.0)
    assert frame.loc[2, "chirp"] == post.summary()["class_probability"].tolist()[1]
    plain = Posterior([0.0, 1.0], TwoComponents(), post.observation, 1.0, None, "test")
    with pytest.raises(ValueError, match=r"several classes, received a posterior of tone"):
        _ = plain.class_probs


def test_report_and_terminal_show_classes(post: Posterior) -> None:
    table = report_table(post, 0)
    text = str(table)
    assert "chirp (0." in text and "tone (" in text and "nan" not in text
    assert any("drift [" in str(heading) for heading in table.columns.values())
    record = posterior_record(post, post.summary())
    (shown,) = ShownComponents(record, None).tables(200)
    headings = [str(column.header) for column in shown.columns]
    assert "class" in headings and any(heading.startswith("drift") for heading in headings)
    assert any("–" in str(cell) for column in shown.columns for cell in column.cells)


def test_picture_shows_each_component_in_the_parameters_of_its_class(post: Posterior) -> None:
    """Five panels, none for the class; one row of drift and none of the rate, where nothing is damped."""
    figure = post.plot("components")
    panels = {ax.get_title(loc="left").split(" ")[0]: ax for ax in figure.axes}
    assert set(panels) == {"Amplitude", "Phase", "Frequency", "Drift", ""}
    rows = {
        name: len([line for line in ax.lines if line.get_marker() in MARKS])
        for name, ax in panels.items()
    }
    assert rows == {"Amplitude": 2, "Phase": 2, "Frequency": 2, "Drift": 1, "": 0}
    labels = [text.get_text() for text in panels["Amplitude"].get_yticklabels()]
    assert any("chirp" in label for label in labels)
    of_classes = [
        line.get_marker() for line in panels["Frequency"].lines if line.get_marker() in MARKS
    ]
    assert of_classes == [mark_of(0), mark_of(1)]  # a tone and a chirp


def test_no_picture_has_parameters_that_a_class_lacks(post: Posterior) -> None:
    """A tone has three parameters and a chirp four, in the corner plot and among the correlations."""
    assert len(post.plot("corner").axes) == 7 * 7
    image = post.plot("correlation").axes[0].images[0].get_array()
    assert image is not None and image.shape == (7, 7) and np.isfinite(image).all()
    legend = post.plot("spectrum").axes[0].get_legend()
    assert legend is not None
    assert {"tone", "chirp"} <= {text.get_text() for text in legend.get_texts()}


def test_many_parameters_stand_in_several_rows() -> None:
    assert [panels_per_row(n) for n in (1, 3, 5, 6, 9, 11)] == [1, 3, 5, 3, 5, 4]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_cuts_nothing_off(post: Posterior, width: int) -> None:
    """Whatever the width, every column is shown whole, and every table begins with number and class."""
    record = posterior_record(post, post.summary())
    tables = ShownComponents(record, None).tables(width)
    printed = Console(width=width, file=io.StringIO(), record=True)
    for table in tables:
        assert [str(column.header) for column in table.columns][:2] == ["#", "class"]
        printed.print(table)
    text = printed.export_text()
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    for name in post.waveform.measured:
        assert text.count(f"{name.name} ") >= 1
    assert (len(tables) == 1) == (width == 200)
