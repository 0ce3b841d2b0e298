"""Learning curves: annealed points of a metrics file, and laws with an offset whose truth is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slotflow.network.config import TrainConfig
from slotflow.studies.measures.learning_curve import (
    EXPONENTS,
    annealed_points,
    laws_through,
    read_metrics,
)
from slotflow.studies.paper.training_curve import PAPER_SIGNALS, curve_rows, plot_curve
from slotflow.train.schedule import cycle_at, set_learning_rate

ROOT = Path(__file__).resolve().parents[1]
SIGNALS = np.array([1e5, 4e5, 1.3e6, 5e6, 2e7])


def law(signals: float, floor: float = -3.0, factor: float = 200.0, exponent: float = 0.4) -> float:
    return floor + factor * signals**-exponent


def test_points_without_noise_give_the_law_back() -> None:
    found = laws_through([(n, law(n)) for n in SIGNALS], error=1e-5)
    assert np.quantile(found.exponent, (0.05, 0.95)) == pytest.approx([0.4, 0.4], abs=0.03)
    far = found.at(1e9)
    assert float(np.median(far)) == pytest.approx(law(1e9), abs=0.02)
    assert float(np.median(found.floor)) == pytest.approx(-3.0, abs=0.03)
    table = found.at(np.array([1e5, 2e7]))
    assert table.shape == (len(found.exponent), 2)
    assert table.mean(0) == pytest.approx([law(1e5), law(2e7)], abs=1e-3)


def test_the_range_holds_the_truth_as_often_as_it_says(seed: int) -> None:
    """Laws are drawn from the prior of β; 80 % ranges of L far beyond the points, at five standard errors."""
    rng, error, trials, held = np.random.default_rng(seed), 0.05, 200, 0
    for trial in range(trials):
        exponent = float(rng.choice(EXPONENTS))
        truth = [law(n, factor=10 * 1e5**exponent, exponent=exponent) for n in (*SIGNALS, 1e9)]
        losses = np.array(truth[:-1]) + error * rng.standard_normal(len(SIGNALS))
        far = laws_through(list(zip(SIGNALS, losses, strict=True)), error, seed=trial).at(1e9)
        low, high = np.quantile(far, (0.1, 0.9))
        held += low <= truth[-1] <= high
    assert held / trials == pytest.approx(0.8, abs=5 * math.sqrt(0.16 / trials))


def test_three_points_say_little() -> None:
    points = [(n, law(n)) for n in SIGNALS[:3]]
    spread = np.quantile(laws_through(points, error=0.05).at(1.5e9), (0.16, 0.84))
    more = np.quantile(
        laws_through([(n, law(n)) for n in SIGNALS], error=0.05).at(1.5e9), (0.16, 0.84)
    )
    assert np.diff(spread) > 2 * np.diff(more)


def test_too_few_points_and_rising_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="expected at least 3 annealed points"):
        laws_through([(1e5, 1.0), (1e6, 0.5)], 0.01)
    with pytest.raises(ValueError, match="expected losses that fall"):
        laws_through([(1e5, 1.0), (1e6, 2.0), (1e7, 3.0)], 1e-3)


def test_only_the_ends_of_annealings_count() -> None:
    rates = [1.0, 1.0, 0.5, 0.01, 0.9, 0.4, 0.001]
    lines: list[dict[str, float | str]] = []
    for i, rate in enumerate(rates, 1):
        lines.append({"split": "train", "step": i, "lr": rate})
        lines.append({"split": "val", "step": i, "loss": -i})
    assert annealed_points(lines, batch=10) == [(40, -4.0), (70, -7.0)]
    assert annealed_points([line | {"signals": 5} for line in lines], 10) == [(5, -4.0), (5, -7.0)]
    assert annealed_points(lines[:4], batch=10) == []


def training_lines(cfg: TrainConfig, first: int, last: int, total: int) -> list[dict[str, Any]]:
    """Metrics of the steps from `first` to `last` of a training of `total` steps: the loop's lines, without a network.

    The loss is the negative number of the step, so that a point says where it comes from.
    """
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=cfg.learning_rate)
    lines, cycle = [], None
    for step in range(first, last):
        before, cycle = cycle, cycle_at(cfg, step / total)[0]
        head = {"step": step, "signals": 10 * step, "split": "val", "loss": float(-step)}
        if before not in (None, cycle):
            lines.append(head | {"cycle": before})
        set_learning_rate(optimizer, cfg, step, step / total)
        done = {"step": step + 1, "signals": 10 * (step + 1), "loss": float(-step - 1)}
        if (step + 1) % cfg.log_steps == 0 or step + 1 == last:
            lines.append(done | {"split": "train", "lr": optimizer.param_groups[0]["lr"]})
        if (step + 1) % cfg.steps_per_epoch == 0 or step + 1 == last:
            lines.append(done | {"split": "val"})
    return lines


@pytest.mark.parametrize("log_steps", [10, 400])
@pytest.mark.parametrize("stopped", [None, 250, 700])
def test_warm_restarts_give_a_point_each_however_the_training_was_resumed(
    log_steps: int, stopped: int | None
) -> None:
    """Cycles of 1, 3 and 9 parts of 1,300 steps; stopped in between, the metrics go on where they were cut."""
    cfg = TrainConfig(
        schedule="cosine", cycles=3, cycle_growth=3.0, learning_rate=1e-3, min_learning_rate=1e-6,
        warmup_steps=20, steps_per_epoch=150, log_steps=log_steps,
    )  # fmt: skip
    whole = training_lines(cfg, 0, 1300, 1300)
    if stopped is not None:  # lines beyond the last checkpoint are dropped, and written again
        whole = [line for line in whole if line["step"] <= stopped]
        whole += training_lines(cfg, stopped, 1300, 1300)
    expected = [(1000, -100.0), (4000, -400.0), (13_000, -1300.0)]
    assert annealed_points(whole, batch=1) == expected


def test_a_training_that_is_resumed_with_more_time_has_a_point_where_it_ended_before() -> None:
    cfg = TrainConfig(
        schedule="cosine", learning_rate=1e-3, min_learning_rate=1e-6, warmup_steps=20,
        steps_per_epoch=150, log_steps=10,
    )  # fmt: skip
    lines = training_lines(cfg, 0, 1000, 1000) + training_lines(cfg, 1000, 4000, 4000)
    assert annealed_points(lines, batch=1) == [(10_000, -1000.0), (40_000, -4000.0)]
    cut = training_lines(cfg, 0, 700, 1000)  # the control: not annealed when it was stopped
    assert annealed_points(cut, batch=1) == []


def test_the_recorded_training_has_annealed_points() -> None:
    points = annealed_points(read_metrics(ROOT / "docs/data/paper-metrics.jsonl"), batch=1024)
    assert len(points) >= 3
    signals, losses = zip(*points, strict=True)
    assert list(signals) == sorted(signals) and list(losses) == sorted(losses, reverse=True)


def test_rows_and_picture_of_the_recorded_training() -> None:
    metrics = read_metrics(ROOT / "docs/data/paper-metrics.jsonl")
    rows = {row.measure: row for row in curve_rows(metrics, 1024)}
    assert rows["signals seen"].paper == f"{187 * 8_000_000:,}" == f"{PAPER_SIGNALS:,}"
    beyond = rows["our loss after the paper's signals, if it went on [nat]"]
    assert beyond.value < rows["validation loss at the end [nat]"].value
    figure = plot_curve(metrics, 1024)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["Loss, and what its annealed points allow", "Learning rate"]
    first = metrics[: next(i for i, line in enumerate(metrics) if line["split"] == "val") + 1]
    *others, last = [{k: v for k, v in line.items() if k != "noise"} for line in first]
    assert len(curve_rows([*others, last], 1024)) == 4  # nothing is said beyond a single point
    found = {row.measure: row.value for row in curve_rows([*others, {**last, "noise": 0.04}], 1024)}
    assert found["noise pathway: root mean square error of σ"] == pytest.approx(0.2)
