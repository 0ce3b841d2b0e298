"""Signals with gaps: tones keep their peaks, noise has the level that is said, and training goes on from weights."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from training_helpers import metrics, tiny

from slotflow.data.sampling import Grid
from slotflow.network.config import Config
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation, simulate
from slotflow.signal.simulation_gaps import present, with_gaps
from slotflow.train.batches import draw_batch
from slotflow.train.loop import train

GRID = Grid(2000, 0.1)
MOST = 0.5
CPU = torch.device("cpu")


def signals(n: int, k: int, sigma: tuple[float, float]) -> Simulation:
    prior = Prior(k_min=0, k_max=1, sigma=sigma)
    return simulate(prior, n, GRID, seed=3, k=k)


def at(values: torch.Tensor, frequency: torch.Tensor) -> torch.Tensor:
    """(2/N) |Σ x e^{−2πift}| of (n, N) at one frequency of each signal, (n,)."""
    t = torch.from_numpy(GRID.times)
    return 2 / GRID.n * (values * torch.exp(-2j * math.pi * frequency[:, None] * t)).sum(-1).abs()


def test_tones_keep_their_peaks() -> None:
    whole = signals(200, 1, (0.0, 1e-9))
    gaps = with_gaps(whole, MOST, 0)
    amplitude, frequency = whole.theta[:, 0, 0], whole.theta[:, 0, 2]
    # The image at −f leaks a little: side lobes of a gap at 2f.
    assert (at(gaps.long.double(), frequency) / amplitude - 1).abs().max() < 0.06
    share = (gaps.long != 0).double().mean(-1)
    unscaled = at(gaps.long.double() * share[:, None], frequency)
    assert (unscaled / amplitude - 1).abs().median() > 0.1  # control


def test_noise_has_the_level_that_is_said() -> None:
    n = 400
    gaps = with_gaps(signals(n, 0, (1.0, 1.0 + 1e-9)), MOST, 1)
    power = torch.fft.rfft(gaps.long.double())[:, 1:-1].abs().square() / GRID.n
    ratio = (power.mean(-1) / gaps.sigma**2).numpy()
    error = 1 / math.sqrt(n * 0.5 * GRID.n)  # mean of about N/2 exponentials in each of n signals
    assert abs(ratio.mean() - 1) < 5 * 2 * error
    assert (power.mean(-1)).mean() > 1.2  # control: without a word the level would be wrong


def test_gaps_are_of_both_kinds_and_no_longer_than_asked() -> None:
    kept = present(1000, 500, MOST, 7, CPU)
    missing = 1 - kept.double().mean(-1).numpy()
    assert missing.max() < MOST + 5 * math.sqrt(0.25 / 500)
    runs = np.diff(kept.numpy().astype(int), axis=1)
    number = (runs == -1).sum(1)
    few = number <= 4
    # blocks: half of the signals, and those that miss next to nothing
    assert abs(few.mean() - 0.5) < 5 * math.sqrt(0.25 / 1000) + 0.02
    assert kept.equal(present(1000, 500, MOST, 7, CPU))
    assert not kept.equal(present(1000, 500, MOST, 8, CPU))
    assert present(10, 500, 0.0, 7, CPU).all()


def test_two_streams_and_shares_of_one_are_refused() -> None:
    both = simulate(Prior(), 2, GRID, Grid(100, 0.01), seed=0)
    with pytest.raises(ValueError, match="without a short stream"):
        with_gaps(both, MOST, 0)
    with pytest.raises(ValueError, match=r"missing samples in \[0, 1\), received 1"):
        present(2, 10, 1.0, 0, CPU)


def test_some_steps_have_gaps() -> None:
    config = Config.from_preset("zoom")
    usual = draw_batch(config, 2, 5, CPU)
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, gaps=0.5))
    batches = [draw_batch(config, 2, seed, CPU) for seed in range(30)]
    gaps = [bool((batch.long == 0).any()) for batch in batches]
    assert 5 <= sum(gaps) <= 25
    assert all(batch.short is None for batch, missing in zip(batches, gaps, strict=True) if missing)
    assert batches[5].k.equal(usual.k)  # the same signals, with or without gaps


def test_training_goes_on_from_embedded_weights(tmp_path: Path) -> None:
    config = Config.from_preset("zoom")
    small = {"batch_size": 6, "steps_per_epoch": 1, "max_epochs": 1, "validation_signals": 6}
    usual = {"compile": False, "bfloat16": False, "warmup_steps": 100}
    found = []
    for gaps in (0.0, 1.0):
        folder = tmp_path / str(gaps)
        train(
            tiny(config, gaps=gaps, **small, **usual), folder, init="zoom", quiet=True, device="cpu"
        )
        found += [line["first_count"] for line in metrics(folder, "val")]
    usual_loss, with_gaps_loss = found
    assert usual_loss < 1.5  # untrained weights: ln 11 = 2.4
    assert with_gaps_loss > usual_loss  # what the weights have not seen
