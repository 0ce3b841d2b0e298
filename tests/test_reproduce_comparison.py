"""Reproduction: distances between posteriors, RJMCMC beside the network, and two interfering sources."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from oracle_helpers import Oracle
from scipy.stats import norm
from statistics_helpers import assert_within

from slotflow import SlotFlow
from slotflow.network.config import Config
from slotflow.studies.measures.distances import residuals, wasserstein
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.comparison.three_tones import COMPARISON
from slotflow.studies.paper.interference.maps import INTERFERENCE, METHODS, WIDE_PRIOR
from slotflow.studies.paper.interference.plot import COLUMNS, _map
from slotflow.studies.paper.interference.two_sources import (
    AMPLITUDE_BOUNDS,
    SIGMA_BOUNDS,
    cell,
    errors,
    grid,
    simulate_cell,
)
from slotflow.studies.paper.pooled import PooledAnalyser
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.settings import Settings
from slotflow.studies.row import Row
from slotflow.studies.suites.sets import GRIDS

TRUTH = np.array([[1.0, 0.1, 2.60], [0.7, 3.0, 2.61], [1.2, 6.2, 2.80]])


def bench(model: SlotFlow, seed: int, n: int, draws: int) -> Bench:
    return Bench(model, Settings(n, draws, 2, seed % 2**20))


def row(result: Result, data: Data, measure: str) -> Row:
    (found,) = [r for r in result.compare(data) if r.measure == measure]
    return found


# --- distances -----------------------------------------------------------------------------------


def test_wasserstein_distance_of_gaussians(seed: int) -> None:
    """W₂² of N(m, s²) and N(m', s'²) is (m − m')² + (s − s')²."""
    x, y = np.random.default_rng(seed).standard_normal((2, 40_000, 5))
    assert wasserstein(x, x[::-1]).tolist() == [0.0] * 5
    assert np.allclose(wasserstein(x, x + 0.3), 0.3)
    found = wasserstein(0.2 + 1.5 * x, y)
    # Of n draws a mean is good to sd/√n and an sd to sd/√2n.
    spread = math.hypot(1.5, 1.0) / math.sqrt(40_000)
    assert_within(found, math.hypot(0.2, 0.5), spread)
    assert np.allclose(wasserstein(y, 0.2 + 1.5 * x), found)
    with pytest.raises(ValueError, match="one shape"):
        wasserstein(x, y[1:])


def test_the_floor_falls_with_the_number_of_draws(seed: int) -> None:
    rng = np.random.default_rng(seed)
    floors = [wasserstein(*rng.standard_normal((2, n, 400))).mean() for n in (100, 1600)]
    assert 3 < floors[0] / floors[1] < 5  # a little less than √n


def test_residuals_sort_and_wrap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(50, 3, 3)) * [0.01, 0.3, 1e-4]
    draws = TRUTH + noise
    draws[..., 1] %= 2 * math.pi
    shuffled = np.stack([draw[rng.permutation(3)] for draw in draws])
    assert np.allclose(residuals(shuffled, TRUTH), noise)


# --- comparison ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(zoom: SlotFlow) -> Data:
    data: Data = json.loads(json.dumps(COMPARISON.run(bench(zoom, 5, 20, 100)), allow_nan=False))
    return data


def test_three_methods_agree_on_nominal_signals(compared: Data) -> None:
    (entry,), n = compared["signals"], compared["draws"]
    assert sum(entry["k_probs"]["rjmcmc"]) == pytest.approx(1)
    assert entry["k_probs"]["exact"][3] > 0.999 and entry["k_probs"]["network"][3] > 0.99
    assert entry["rjmcmc"]["r_hat"] < 1.1 and entry["rjmcmc"]["least_effective"] > n
    sd = {name: np.array(value) for name, value in entry["sd"].items()}
    # An sd of n draws has a relative error of 1/√2n; the network's own is a few per cent more.
    for name, allowed in (("exact", 1 / math.sqrt(n)), ("network", 1.5 / math.sqrt(n))):
        assert_within(sd[name] / sd["rjmcmc"], 1.0, allowed)
    for pair, value in entry["w2"].items():
        # Means of n draws differ by √(2/n) sd, and their sds by half of its square: W₂ is of that size.
        assert np.all(np.array(value) < 6 * math.sqrt(2 / n) * sd["exact"]), pair
    shift = row(COMPARISON, compared, "W₂ of f, network and RJMCMC [Hz]")
    assert shift.paper == "0.0006" and 0 < shift.value < 1e-4


def test_comparison_sees_a_posterior_that_is_too_broad(compared: Data) -> None:
    """Negative control: twice the width is a ratio of 2, which misses the target."""
    broad = json.loads(json.dumps(compared))
    for entry in broad["signals"]:
        entry["sd"]["exact"] = entry["sd"]["rjmcmc"]
        entry["sd"]["network"] = (2 * np.array(entry["sd"]["rjmcmc"])).tolist()
    broad["signals"] *= 20
    found = row(COMPARISON, broad, "sd of φ, network over RJMCMC")
    assert found.value == pytest.approx(2.0) and found.met is False
    assert row(COMPARISON, broad, "sd of φ, exact over RJMCMC").met is True
    unfinished = json.loads(json.dumps(broad)) | {"draws": 1000}
    unfinished["signals"][0]["rjmcmc"]["least_effective"] = 20.0
    ess = row(COMPARISON, unfinished, "effective draws of RJMCMC, fewest of any parameter")
    assert ess.met is False and ess.value == 20


def test_the_shown_signal_keeps_its_draws(compared: Data) -> None:
    shown = compared["shown"]
    (entry,) = [e for e in compared["signals"] if e["sigma"] == shown["sigma"]]
    for name in ("network", "exact", "rjmcmc"):
        columns = (
            np.array([text.split() for text in shown[name]], float)
            * np.array(shown["step"])[:, None]
        )
        assert columns.shape == (9, compared["draws"])
        assert np.allclose(columns.std(1, ddof=1), np.ravel(entry["sd"][name]), rtol=0.01)


def test_comparison_without_a_signal_to_show(compared: Data) -> None:
    """Signals whose K = 3 one method never saw have no distances; the rest of the table stands."""
    bare = json.loads(json.dumps(compared)) | {"shown": {}}
    for entry in bare["signals"]:
        del entry["w2"], entry["sd"]
    assert [r for r in COMPARISON.compare(bare) if r.measure.startswith("p(K")]
    assert not [r for r in COMPARISON.compare(bare) if r.measure.startswith("W₂")]
    COMPARISON.plot(bare)


def test_figures_are_drawn(compared: Data) -> None:
    assert len(COMPARISON.plot(compared).axes) == 81 + 3


def test_comparison_says_what_to_install(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    assert COMPARISON.needs == ("eryn", "baselines")
    monkeypatch.setitem(__import__("sys").modules, "eryn", None)
    with pytest.raises(ImportError, match=r"slotflow\[baselines\]"):
        COMPARISON.run(bench(zoom, seed, 20, 20))


def test_an_oracle_has_no_exact_step() -> None:
    with pytest.raises(ValueError, match="expected a SlotFlow"):
        Bench(Oracle(), Settings()).network()


# --- interference --------------------------------------------------------------------------------


def test_cells_have_the_snr_that_they_are_named_after(seed: int) -> None:
    with_noise = 0
    for first, second in grid(10_000):
        values = cell(first, second)
        assert values is not None
        a, b, sigma = values
        assert AMPLITUDE_BOUNDS[0] <= min(a, b) <= max(a, b) <= AMPLITUDE_BOUNDS[1] + 1e-12
        assert SIGMA_BOUNDS[0] <= sigma <= SIGMA_BOUNDS[1] + 1e-12
        snr = [10 * math.log10(x**2 / (y**2 + 2 * sigma**2)) for x, y in ((a, b), (b, a))]
        # Where there would be no noise at all, the floor lowers the SNR of a weak source a little.
        assert snr == pytest.approx([first, second], abs=0.35 if first + second == 0 else 1e-9)
        with_noise += first + second < 0
    assert with_noise > 100
    assert cell(10.0, -4.0) is None and cell(-40.0, -40.0) is None
    first, second = -6.0, -14.0
    sim = simulate_cell(first, second, 40, seed)
    x, theta = sim.long.double().numpy(), sim.components(0)
    t = GRIDS[0].dt * np.arange(GRIDS[0].n)
    s = theta[:, 0, None] * np.cos(2 * math.pi * theta[:, 2, None] * t + theta[:, 1, None])
    for i, stated in ((0, first), (1, second)):
        rest = np.sqrt(np.mean((x - s[i]) ** 2, axis=1))
        found = 20 * np.log10(np.sqrt(np.mean(s[i] ** 2)) / rest)
        # 3,000 samples: the power of the rest is good to √(2/3000), hence 0.11 dB each.
        assert_within(found.mean(), stated, 0.11 / math.sqrt(40) + 0.01)


def test_errors_of_draws(seed: int) -> None:
    truth = TRUTH[:2]
    rng = np.random.default_rng(seed)
    sd = np.array([[0.02, 0.05, 2e-4], [0.03, 0.2, 5e-4]])
    draws = truth + sd * rng.standard_normal((4000, 2, 3))
    draws[..., 1] %= 2 * math.pi
    draws[::2] = draws[::2, ::-1]  # labels are not known
    error, spread = errors(draws, truth)
    unit = np.array([[truth[0, 0], 1, 1], [truth[1, 0], 1, 1]])
    half_normal = 2 * norm.pdf(0)
    assert_within(error * unit / sd, half_normal, math.sqrt((1 - half_normal**2) / 4000))
    assert_within(spread * unit / sd, 1.0, 1 / math.sqrt(8000))
    # A source that is missed does not take the other's place with it.
    lost = np.stack([truth[1], [0.3, 1.0, 2.85]])[None].repeat(2, 0)
    error, _ = errors(lost, truth)
    assert error[1].tolist() == [0, 0, 0] and error[0, 2] == pytest.approx(0.25)


def test_interference_finds_loud_sources_and_judges_weak_ones(zoom: SlotFlow, seed: int) -> None:
    data: Data = json.loads(
        json.dumps(INTERFERENCE.run(bench(zoom, seed, 20, 20)), allow_nan=False)
    )
    cells = {tuple(entry["snr"]): entry for entry in data["cells"]}
    assert set(cells) == set(grid(20)) and INTERFERENCE.work(Settings(20, 20, 2)) == len(cells)
    loud, faint = cells[-10.0, 10.0], cells[-30.0, -30.0]
    assert min(faint["amplitude"]) < 0.5  # outside of what `trained` was told
    assert loud["wide"]["found"] == loud["exact"]["found"] == 1.0
    exact = {key: np.array(loud["exact"][key]) for key in ("error", "sd")}
    # The mean distance of draws from the truth, z sd away, is at most |z| sd plus that of draws from their mean.
    assert np.all(exact["error"] < 6 * exact["sd"])
    ratio = exact["sd"] / np.array(loud["bound"])
    assert np.all((ratio > 0.5) & (ratio < 1.5))
    for name in METHODS:
        assert np.array(faint[name]["error"])[:, 2].max() > 1e-3
    labels = [r.measure for r in INTERFERENCE.compare(data)]
    assert len(labels) == len(set(labels))
    assert INTERFERENCE.plot(data).axes


def test_maps_put_cells_in_their_place() -> None:
    part: Any = {
        "error": [[0.1, 0.2, 1e-3], [0.3, 0.2, 3e-3]],
        "sd": [[1, 1, 1e-3], [1, 1, 3e-3]],
        "found": 0.5,
    }
    data = {"cells": [{"snr": [-10.0, 10.0], "exact": part}]}
    for column, value in enumerate((0.2, 0.2, 2.0, 1.0, 0.5)):
        shown = _map(data, "exact", column, [-10.0, 10.0])
        assert shown[0, 1] == pytest.approx(value) and np.isnan(shown).sum() == 3
    assert len(COLUMNS) == 5 and WIDE_PRIOR.amplitude == AMPLITUDE_BOUNDS


def test_a_network_of_one_prior_has_a_map_less(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's network, small and untrained: it has no answer under other bounds than those of its training."""
    config = Config.from_preset("paper").model
    small = replace(
        config,
        encoder=replace(config.encoder, channels=(4, 4, 8), heads=2, context=8),
        flow=replace(config.flow, layers=2, hidden=16, bins=4),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: Any = SlotFlow(small).eval()
    maps = "slotflow.studies.paper.interference.maps"
    monkeypatch.setattr(f"{maps}.grid", lambda n: [(-2.0, -2.0), (-22.0, -2.0)])
    monkeypatch.setattr(
        f"{maps}.EXACT_SECONDS", 1.0
    )  # from a network that knows nothing it is no use
    analyser = Bench(PooledAnalyser(network), Settings(20, 20, 2, seed % 2**20))
    data = json.loads(json.dumps(INTERFERENCE.run(analyser)))
    found = data["cells"][0]
    assert {"trained", "exact"} <= set(found) and "wide" not in found
    measures = [r.measure for r in INTERFERENCE.compare(data)]
    assert not [m for m in measures if m.endswith(METHODS["wide"])]
    assert [m for m in measures if m.endswith(METHODS["trained"])]
