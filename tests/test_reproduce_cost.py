"""Cost and properties of the methods: what is measured, on things of known time, size, symmetry and dependence."""

from __future__ import annotations

import ctypes
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reproduce_helpers import small_paper_network
from statistics_helpers import assert_within

from slotflow import SlotFlow
from slotflow.exact.classical import classical
from slotflow.posterior.sampled import SamplerRun
from slotflow.show.plots.style import save_figure
from slotflow.studies.measures.memory import process_peak, python_peak
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.cost import measure as cost
from slotflow.studies.paper.cost import steps
from slotflow.studies.paper.cost.measure import COST
from slotflow.studies.paper.cost.methods import LABELS, WANTED, chain_seconds, load, published
from slotflow.studies.paper.cost.steps import Sizes, Step, steps_of
from slotflow.studies.paper.cost.table import exponent
from slotflow.studies.paper.cost.worker import signal
from slotflow.studies.paper.pooled import PooledAnalyser
from slotflow.studies.paper.properties import labels
from slotflow.studies.paper.properties import measure as properties
from slotflow.studies.paper.properties.methods import Methods, load_methods
from slotflow.studies.paper.properties.table import COLUMNS, cells, compare, plot
from slotflow.studies.paper.settings import Settings
from slotflow.studies.row import Row
from slotflow.studies.suites.sets import NOMINAL

SIZE = 64_000_000
"""Bytes that a test asks for."""
TINY = Sizes(1, 1, 1, (1, 2), (1, 2), (1, 2), (100, 1000), 500.0, 160)


def row(rows: list[Row], measure: str) -> Row:
    (found,) = [r for r in rows if r.measure == measure]
    return found


# --- memory and time -----------------------------------------------------------------------------


def hand_back() -> None:
    """Gives freed memory back to the system: what other tests have left would serve without growing the process."""
    with suppress(AttributeError):  # only glibc keeps it, and has this function
        ctypes.CDLL(None).malloc_trim(0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the mark cannot be put back")
def test_tensors_are_in_the_process_but_not_in_pythons_allocator() -> None:
    def tensor() -> None:
        torch.ones(SIZE // 4)

    def array() -> None:
        np.ones(SIZE // 8)

    for call in (tensor, array):
        hand_back()
        before, peak = process_peak(call)
        assert peak - before == pytest.approx(SIZE, rel=0.1)
    assert python_peak(array) == pytest.approx(SIZE, rel=0.01)
    assert python_peak(tensor) < SIZE / 1000
    before, peak = process_peak(lambda: None)  # what was freed is forgotten
    assert peak - before < SIZE / 10


def test_exponent_of_times() -> None:
    entries = [
        {"k": k, "seconds": 0.2 * k**1.5, "log_error": e} for k, e in ((1, 0.1), (2, 0.1), (8, 0.1))
    ]
    slope, error = exponent(entries) or (0.0, None)
    assert slope == pytest.approx(1.5) and error is not None and 0 < error < 0.1
    single = [entry | {"log_error": None} for entry in entries]
    assert exponent(single) == (pytest.approx(1.5), None)
    assert exponent(entries[:1]) is None


def test_time_of_a_chain() -> None:
    """The warm-up counts once, the rest in proportion to what is wanted."""
    run = SamplerRun(500.0, 100.0, 0.0, 0, 1.0, 1.0, warm_up=100, steps=300, seconds=4.0)
    assert chain_seconds(run, 500.0) == pytest.approx(4.0)
    assert chain_seconds(run, 1000.0) == pytest.approx(7.0)


def test_methods_by_name() -> None:
    observation = signal(2, 0, 0)
    for name in ("classical", "paper"):
        answer = load(name)(observation, NOMINAL, 2, 0)
        assert answer.effective == WANTED and answer.seconds > 0
    assert load("classical")(observation, NOMINAL, 2, 0).posterior.k_map == 2
    assert published().n_parameters == SlotFlow.from_preset("paper").n_parameters
    for wrong in ("network", "nested"):  # the first for want of a network
        with pytest.raises(ValueError, match="expected one of rjmcmc"):
            load(wrong)


# --- the result ----------------------------------------------------------------------------------


def test_what_is_measured_of_each_method() -> None:
    """Samplers are asked once, their first answer counts, and only the network has curves without the exact step."""
    small = Sizes(2, 1, 3, (1, 2), (1, 2), (1, 2), (10, 1000), 500.0, 160)
    rjmcmc = steps_of("rjmcmc", small)
    assert rjmcmc == [Step("first", 2), Step("python", 2), Step("answer", 1)]
    answers = [step for step in steps_of("classical", small) if step.kind == "answer"]
    assert answers == [Step("answer", k, i, 3) for k in (1, 2) for i in (0, 1)]
    network, exact = steps_of("network", small), steps_of("exact", small)
    assert [step.draws for step in network if step.kind == "draws"] == [10, 1000]
    assert [step.draws for step in exact if step.kind == "draws"] == [1000]  # it needs a hundred
    assert {step.k for step in network if step.kind == "forward"} == set(range(1, 11))
    assert not [step for step in exact if step.kind == "forward"]
    assert {step.k for step in steps_of("exact", small, curves=False)} == {1, 2}


def test_cost_without_eryn(zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Network and exact step in processes of their own; a sampler that is not installed has a line."""
    chosen = {name: LABELS[name] for name in ("rjmcmc", "network", "exact")}
    for module in (cost, steps):
        monkeypatch.setattr(module, "LABELS", chosen)
    monkeypatch.setattr(cost, "find_spec", lambda name: None)
    monkeypatch.setattr(cost, "SMALL", TINY)
    monkeypatch.setattr(steps, "COUNTS", (1, 2, 10))
    bench, done = Bench(zoom, Settings(n=20)), []
    bench.advance = done.append
    data = COST.run(bench)
    assert cost.measured(bench) is data and cost.measured(Bench(bench.model, Settings())) is None
    assert sum(done) == COST.work(bench.settings)
    rows = COST.compare(data)
    left = row(rows, "methods left out")
    assert left.value == 1 and "Eryn is not installed" in left.note
    for name in ("network", "exact"):
        found = data["methods"][name]
        assert [entry["k"] for entry in found["by_k"]] == [1, 2, 10]
        assert all(entry["right"] == 1 for entry in found["by_k"])
        # The weights alone take 20 MB; Python's allocator hardly sees the answer.
        assert found["process_peak"] > found["process_before"] > 1e8 > found["python_peak"]
        assert 0.9 * WANTED < found["by_k"][0]["effective"] <= WANTED
    # The fastest of three times each: whatever runs beside this test slows some of them down.
    forward, drawn = (
        min(entry["seconds"] for entry in data["methods"]["network"][key])
        for key in ("forward", "by_k")
    )
    assert forward < 2 * drawn
    assert row(rows, "network, no draw, K = 10 [ms]").paper == "13.60"
    save_figure(COST.plot(data), tmp_path / "cost.png")


def test_a_process_that_fails_says_why() -> None:
    task = {"method": "smc", "weights": "", "seed": 0, "effective": 1.0, "particles": 1}
    with pytest.raises(RuntimeError, match=r"measuring SMC ended with 1: .*at least two islands"):
        list(cost._records(task | {"steps": []}))


# --- properties ----------------------------------------------------------------------------------


def test_labels_do_not_matter_to_a_density(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Of every method; the bare product of slots is the control that fails."""
    monkeypatch.setattr(labels, "COMPONENT_SETS", 1)
    found = labels.label_changes(Methods(zoom, published(), {}), seed % 2**20)
    assert set(found) == set(LABELS)
    assert all(one["label_change"] < 1e-9 for one in found.values())
    assert found["network"]["bare_change"] > 100 and found["paper"]["bare_change"] > 1e-3


def test_a_fit_whose_covariance_is_not_relabelled_with_it_has_another_evidence() -> None:
    from slotflow.signal.evidence import log_evidence

    observation = signal(2, 0, 0)
    fit = classical(observation, NOMINAL).fits[2]
    other = labels._relabelled(fit, [1, 0])
    assert torch.equal(other.theta[:, 0], fit.theta[:, 1])
    assert torch.equal(other.covariance[:, :3, 3:], fit.covariance[:, 3:, :3])
    values = [float(log_evidence(one, NOMINAL, 8120)[0]) for one in (fit, other)]
    assert values[0] == pytest.approx(values[1], abs=1e-9)
    assert labels._largest(np.array([0.0, 0.5, -math.inf]), 1) == labels.LARGEST_CHANGE
    assert labels._largest(np.array([0.0, 1.0, 0.25, 1.5]), 2) == 0.5


def test_only_the_exact_step_knows_that_close_tones_depend_on_each_other(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(properties, "UNTRAINED_DRAWS", 400)
    bench = Bench(zoom, Settings(n=20, seed=seed % 2**20))
    found = properties._dependence(Methods(zoom, published(), {}), bench)
    (exact,) = found["exact"]["correlation_exact"]
    assert exact > 0.5
    assert_within(found["exact"]["correlation"][0], exact, 1 / math.sqrt(properties.DRAWS))
    assert_within(found["network"]["correlation"][0], 0.0, 1 / math.sqrt(properties.DRAWS))
    assert_within(found["paper"]["correlation"][0], 0.0, 1 / math.sqrt(400))


def test_the_papers_network_is_measured_with_its_weights(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The untrained one does not stand beside it, and the exact posterior is that behind the default network."""
    network, seed = small_paper_network(), seed % 2**20
    measured = ("paper", "classical", "network", "exact")
    monkeypatch.setattr(cost, "LABELS", {name: LABELS[name] for name in measured})
    monkeypatch.setattr(properties, "DOUBT_CANDIDATES", 2)
    monkeypatch.setattr(properties, "DRAWS", 400)
    bench = Bench(PooledAnalyser(network), Settings(n=20, seed=seed))  # type: ignore[arg-type]
    found = cost.measure(bench, TINY, curves=False)
    assert list(found["methods"]) == ["classical", "network"]
    rows = COST.compare(found)
    assert row(rows, "network, 1,000 effective draws, K = 1 [ms]").value > 0
    assert not [r.measure for r in rows if "exact" in r.measure or "untrained" in r.measure]
    assert len(COST.plot(found).axes) == 3
    methods = load_methods(network, ["network"], small=True)
    assert methods.untrained is None and set(methods.networks()) == {"network"}
    assert methods.yardstick.config.name == "zoom"
    doubt, answers = properties._doubt(methods, seed)
    assert set(answers) == {"exact", "network"} and answers["exact"]["k_distance"] == 0.0
    own = answers["network"]
    probs, exact = np.array(own["k_probs"]), np.zeros(len(own["k_probs"]))
    exact[: len(doubt["k_probs"])] = doubt["k_probs"]
    assert own["k_distance"] == pytest.approx(0.5 * np.abs(probs - exact).sum()) and probs[4:].any()
    dependence = properties._dependence(methods, bench)
    assert_within(dependence["network"]["correlation"][0], 0.0, 1 / math.sqrt(400))
    named = compare(table() | {"network": "paper"})
    assert row(named, "Scaling, paper: exponent of K in the time").value == 1.2


def table() -> dict[str, Any]:
    """Data of the table in which `network` has every property, and `classical` none."""
    base = {
        "first_seconds": 2.0, "later_seconds": 0.5, "together_seconds": None, "exponent": 1.2,
        "exponent_error": None, "exponent_counts": [1, 2], "correlation_exact": [0.9, 0.8],
    }  # fmt: skip
    good = base | {
        "parameters": 5_000_000, "k_probs": [0.1, 0.5, 0.4], "k_distance": 0.02,
        "label_change": 1e-12, "bare_change": 1000.0, "correlation": [0.85, 0.8],
    }  # fmt: skip
    bad = base | {
        "parameters": 0, "k_probs": [0.0, 1.0, 0.0], "k_distance": 0.5,
        "label_change": 0.3, "correlation": [0.0, 0.1],
    }  # fmt: skip
    return {
        "methods": {"classical": bad, "network": good},
        "doubt": {"k": 1, "k_probs": [0.1, 0.5, 0.4]},
        "skipped": {"rjmcmc": "Eryn is not installed"},
        "together": 100,
        "cost_k": 2,
        "from_cost": False,
    }


def test_table_of_properties(tmp_path: Path) -> None:
    data = table()
    found = cells(data)
    for column in COLUMNS[:4]:
        assert found["network", column].verdict == "yes"
        assert found["classical", column].verdict == "no"
    data["methods"]["classical"]["k_probs"] = [0.0, 0.9, 0.1]  # several, but wrong
    assert cells(data)["classical", "Trans-dimensional"].verdict == "off"
    rows = compare(data)
    assert len(rows) == 2 * len(COLUMNS) + 1
    scaling = row(rows, "Scaling, zoom: exponent of K in the time")
    assert scaling.value == 1.2 and scaling.paper == "O(K)" and "small measurement" in scaling.note
    assert row(rows, "methods left out").value == 1
    save_figure(plot(data), tmp_path / "properties.png")
