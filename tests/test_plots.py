"""Pictures: what they show, that they need no window, and that they are written whole."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotflow import Prior
from slotflow.exact.verdict import Verdict
from slotflow.plots import plot_posterior, plot_training, save_figure
from slotflow.streams import Observation, Stream

TRUTH = np.array([[0.7, 0.1, 2.55], [1.3, 4.0, 2.72], [0.9, 2.0, 2.91]])
WIDTHS = np.array([0.05, 0.1, 0.002])


class Gaussian:
    """A posterior of independent Gaussians around the truth, with what the plots ask of one."""

    def __init__(self, truth: NDArray[np.float64], k: int, short: bool, prior: bool) -> None:
        t = 0.1 * np.arange(512)
        a, phi, f = truth.T[..., None]
        x = (a * np.cos(2 * np.pi * f * t + phi)).sum(0)
        x += 0.3 * np.random.default_rng(0).standard_normal(t.size)
        self.observation = Observation(Stream(x, 0.1), Stream(x[:128], 1 / 128) if short else None)
        self.truth = truth
        self.k_map = k
        self.k_probs = np.eye(4)[k]
        self.noise_std = 0.3 if short else float("nan")
        self.prior = Prior() if prior else None
        self.verdict = Verdict("approximate", "drawn from Gaussians")

    def sample(self, n: int, k: int | None = None, seed: int = 0) -> NDArray[np.float64]:
        noise = np.random.default_rng(seed).standard_normal((n, self.k_map, 3))
        theta = self.truth[: self.k_map][::-1] + WIDTHS * noise  # slots in no particular order
        theta[..., 1] %= 2 * np.pi
        return np.asarray(theta)


def texts(figure: Any) -> str:
    """All text of a figure."""
    import matplotlib.text

    return "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


@pytest.mark.parametrize(
    ("k", "with_truth", "prior"),
    [(0, True, True), (0, False, False), (1, False, True), (3, True, True), (3, False, False)],
)
def test_posterior(tmp_path: Path, k: int, with_truth: bool, prior: bool) -> None:
    post: Any = Gaussian(TRUTH, k, short=with_truth, prior=prior)
    figure = plot_posterior(post, TRUTH if with_truth else None)
    assert len(figure.axes) == 6
    text = texts(figure)
    assert f"{k} component{'' if k == 1 else 's'} (probability 1.00)" in text
    assert ("true K" in text) == with_truth
    assert ("noise σ = 0.3" in text) == with_truth
    assert ("no component to show" in text) == (k == 0)
    assert "approximate: drawn from Gaussians" in text and "q(K | x), not exact" in text
    save_figure(figure, tmp_path / "a.png", dpi=40)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_components_are_sorted_and_marked_with_their_truth() -> None:
    figure = plot_posterior(Gaussian(TRUTH, 3, short=True, prior=True), TRUTH)  # type: ignore[arg-type]
    amplitude, phase, frequency = figure.axes[3:]
    labels = [label.get_text() for label in amplitude.get_yticklabels()]
    assert [label.split()[0] for label in labels] == ["1", "2", "3"]
    np.testing.assert_allclose([float(s.split()[1]) for s in labels], TRUTH[:, 2], atol=1e-3)
    for column, ax in enumerate((amplitude, phase, frequency)):
        crosses = [line.get_xdata()[0] for line in ax.get_lines() if line.get_marker() == "x"]
        values = [text.get_text() for text in ax.texts]  # "0.701 ± 0.010 rad" beside each row
        medians = [float(value.split()[0]) for value in values]
        digits = max(len(value.split()[0].partition(".")[2]) for value in values)
        offset = TRUTH[:, column] - medians
        if column == 1:
            offset = np.mod(offset + np.pi, 2 * np.pi) - np.pi  # across 0 for the first
        np.testing.assert_allclose(
            unit_of(ax) * np.array(crosses), offset, atol=0.6 * 10.0**-digits
        )
        assert np.abs(crosses).max() > 0


def unit_of(ax: Any) -> float:
    """What one on the axis stands for, from the unit in its title."""
    title = ax.get_title() or ax.get_title(loc="left")
    if "$10^" in title:
        return 10.0 ** int(title.split("{")[1].split("}")[0])
    unit = title.partition("[")[2].rstrip("]")
    return {"µ": 1e-6, "m": 1e-3}.get(unit[:1], 1.0)


def test_fewer_components_than_the_truth() -> None:
    figure = plot_posterior(Gaussian(TRUTH, 1, short=True, prior=True), TRUTH)  # type: ignore[arg-type]
    spectrum, amplitude = figure.axes[1], figure.axes[3]
    assert sum(line.get_marker() == "x" for line in amplitude.get_lines()) == 1
    marks = [line for line in spectrum.get_lines() if line.get_marker() == "x"]
    assert len(marks[0].get_xdata()) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_files_are_reproducible(tmp_path: Path, suffix: str) -> None:
    for name in "ab":
        post: Any = Gaussian(TRUTH[:1], 1, short=False, prior=True)
        save_figure(plot_posterior(post), tmp_path / f"{name}.{suffix}", dpi=40)
    a, b = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert a[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    if suffix == "svg":  # clip paths are named after addresses in memory
        a, b = (re.sub(rb"\bp[0-9a-f]{10}\b", b"clip", x) for x in (a, b))
    assert a == b


def test_pyplot_and_global_style_are_left_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    post: Any = Gaussian(TRUTH[:1], 1, short=False, prior=True)
    save_figure(plot_posterior(post), tmp_path / "a.png", dpi=40)
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


def test_unknown_suffix_is_refused(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    with pytest.raises(ValueError, match=r"\.png \.svg \.pdf, received '\.gif'"):
        save_figure(Figure(), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


# --- Training ------------------------------------------------------------------------------------


def metrics(path: Path, noise: bool = True, tail: str = "") -> Path:
    """A short course of training."""
    lines = []
    for step in range(0, 100, 10):
        record = {"step": step, "split": "train", "loss": 2.0, "ce": 1.0, "flow": 1.0, "lr": 1e-3}
        record |= {"signals_per_second": 1e3}
        record |= {"noise": 0.1} if noise else {}
        lines.append(record)
        if step % 50 == 0:
            lines.append({"step": step, "split": "val", "loss": 1.9, "k_accuracy": 0.5})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, encoding="utf-8")
    return path


def test_training(tmp_path: Path) -> None:
    figure = plot_training(metrics(tmp_path / "metrics.jsonl"))
    loss, terms, accuracy = figure.axes[:3]
    assert [len(line.get_xdata()) for line in loss.get_lines()] == [10, 2]  # type: ignore[arg-type]
    assert len(terms.get_lines()) == 3
    assert len(accuracy.get_lines()) == 1
    save_figure(figure, tmp_path / "training.png", dpi=40)


def test_training_without_some_terms_or_with_a_cut_last_line(tmp_path: Path) -> None:
    figure = plot_training(metrics(tmp_path / "a.jsonl", noise=False, tail='{"step": 1'))
    assert len(figure.axes[1].get_lines()) == 2
    (tmp_path / "b.jsonl").write_text('{"step": 1, "split": "train", "loss": NaN}\n')
    assert "not recorded" in texts(plot_training(tmp_path / "b.jsonl"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("", "holds no records yet"),
        ("nonsense\n{}\n", "line 1: expected a JSON object"),
        ("[1]\n", "line 1: expected a JSON object with a 'step'"),
    ],
)
def test_bad_metrics(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "metrics.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        plot_training(path)
