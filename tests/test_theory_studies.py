"""What the studies of the theory measure, on posteriors and flows whose answer is known, and on ones that must fail."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within
from torch import Tensor

from slotflow import SlotFlow, simulate
from slotflow.network.config import Config
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.studies.answers import exact_answer
from slotflow.studies.slots import matched_pairs, paper_network
from slotflow.studies.suites.sets import GRIDS, NOMINAL
from slotflow.studies.theory.distinguishable.pairs import draw_pairs, pair_distance, told_apart
from slotflow.studies.theory.distinguishable.study import DISTINGUISHABLE
from slotflow.studies.theory.elbo.bound import Bound, independence, lower_bound, matched_loss
from slotflow.studies.theory.elbo.study import ELBO
from slotflow.studies.theory.gradient.norms import gradients
from slotflow.studies.trainings import draw_batch

# ---------------------------------------------------------------------- elbo


@pytest.fixture(scope="module")
def solved(zoom: ZoomSlotFlow) -> list[tuple[Any, Any]]:
    """Truth and exact posterior of a signal of one, of two and of four tones."""
    found = []
    for k in (1, 2, 4):
        sim = simulate(NOMINAL, 1, *GRIDS, mode="physical", seed=70 + k, k=k)
        found.append((sim.components(0), exact_answer(zoom, sim.observation(0), NOMINAL, seed=k)))
    return found


def bound_of(exact: Any, draws: int = 400, seed: int = 0) -> Bound:
    def evidence(k: int) -> tuple[float, float]:
        value, error = exact.log_evidence[k]
        return float(value), float(error)

    return lower_bound(exact.amortized, exact, evidence, draws, seed)


def test_the_bound_lies_below_the_evidence(solved: list[tuple[Any, Any]], seed: int) -> None:
    for _, exact in solved:
        bound = bound_of(exact, seed=seed)
        assert bound.gap > -5 * bound.error
        assert bound.log_evidence == pytest.approx(
            exact.log_evidence[exact.k_map, 0] - math.log(10)
        )


def test_the_terms_make_the_bound_and_the_gap(solved: list[tuple[Any, Any]], seed: int) -> None:
    for _, exact in solved:
        bound = bound_of(exact, seed=seed)
        assert bound.gap == pytest.approx(bound.gap_over_k + bound.gap_over_theta, abs=1e-6)
        (order,) = bound.orders  # the count is certain
        assert bound.order == pytest.approx(math.log(10), abs=1e-6)  # KL to a uniform p(K)
        assert bound.value == pytest.approx(order.bound - math.log(10), abs=1e-6)
        assert bound.gap_over_theta == pytest.approx(order.log_evidence - order.bound)


def test_draws_of_q_give_the_evidence(solved: list[tuple[Any, Any]], seed: int) -> None:
    """Importance sampling from q agrees with the exact step; with a density that is off by a factor it does not."""
    checked = 0
    for _, exact in solved:
        (order,) = bound_of(exact, seed=seed).orders
        if order.ess < 50:
            continue
        checked += 1
        error = math.hypot(order.importance_error, order.log_evidence_error)
        assert_within(order.log_importance, order.log_evidence, error)
        with pytest.raises(AssertionError):
            assert_within(order.log_importance + math.log(2), order.log_evidence, error)
    assert checked >= 2


def test_a_wrong_evidence_is_noticed(solved: list[tuple[Any, Any]], seed: int) -> None:
    """The control of the study: evidences that are too small lie below the bound."""
    exact = solved[0][1]

    def too_small(k: int) -> tuple[float, float]:
        value, error = exact.log_evidence[k]
        return float(value) - 1.0, float(error)

    wrong = lower_bound(exact.amortized, exact, too_small, 400, seed)
    assert wrong.gap < -5 * wrong.error


def test_independent_slots_cost_nothing_to_one_tone(solved: list[tuple[Any, Any]]) -> None:
    costs = [independence(exact) for _, exact in solved]
    assert costs[0] == pytest.approx(0, abs=1e-9)
    assert all(cost > 0 for cost in costs[1:])


def test_the_flow_loss_is_that_of_the_best_assignment(solved: list[tuple[Any, Any]]) -> None:
    for truth, exact in solved:
        loss = matched_loss(exact.amortized, truth)
        assert loss == pytest.approx(matched_loss(exact.amortized, truth[::-1].copy()))
        slots = exact.amortized.slots.log_prob(truth[None])[0]
        assert loss == pytest.approx(-np.diag(slots).mean())  # slots and truth are in order


def elbo_signal(**changes: float) -> dict[str, Any]:
    order = {"ess": 100.0, "log_importance": 0.0, "importance_error": 0.1}
    order |= {"log_evidence": 0.0, "log_evidence_error": 0.0}
    signal = {"k": 1, "gap": 0.5, "error": 0.1, "gap_over_k": 0.0, "outside": 0.0, "value": -1.0}
    signal |= {"independence": 0.1, "flow_loss": 1.0, "reconstruction": 1.0, "orders": [order]}
    signal |= {"parameters": 1.0, "order": 1.0}
    return signal | changes


def test_the_table_of_the_bound_judges() -> None:
    good = [
        elbo_signal(k=1 + i % 2, gap=0.5 + i, flow_loss=float(i), value=float(i)) for i in range(4)
    ]
    for one, place in zip(good, range(4), strict=True):
        one["reconstruction"] = float(place)
    rows = ELBO.compare({"zoom": good, "debug": good})
    assert all(row.met is not False for row in rows)
    above = [*good[:3], elbo_signal(gap=-0.5, value=9.0, flow_loss=7.0, reconstruction=8.0)]
    off = deepcopy(good)
    off[0]["orders"][0]["log_importance"] = 0.6
    rows = ELBO.compare({"zoom": above, "debug": off})
    missed = [row.measure for row in rows if row.met is False]
    assert missed == [
        "zoom: signals with ELBO > ln p(x) + 4 standard errors",
        "debug: |ln Z_K from q's draws − exact| / error, largest",
    ]


# ---------------------------------------------------------------------- gradient


@pytest.fixture
def double_debug(debug_model: SlotFlow) -> PaperSlotFlow:
    return paper_network(deepcopy(debug_model)).double()


def test_the_chain_rule_holds_at_trained_weights(double_debug: PaperSlotFlow, seed: int) -> None:
    batch = draw_batch(Config.from_preset("debug"), 16, seed, torch.device("cpu"))
    for weight in (1.0, 2.0, 5.0):
        found = gradients(double_debug, batch, weight)
        assert found.chain_rule < 1e-4
        assert min(found.phase, found.flow, found.encoder) > 0
    assert all(p.grad is None for p in double_debug.parameters())


@pytest.mark.parametrize(("adapted", "power"), [(False, 2), (True, 0)])
def test_gradients_of_flows_that_are_known(
    double_debug: PaperSlotFlow,
    monkeypatch: pytest.MonkeyPatch,
    adapted: bool,
    power: int,
    seed: int,
) -> None:
    """A standard normal density has a factor w², one that is stretched by w has none: the lemma's w is neither."""
    batch = draw_batch(Config.from_preset("debug"), 8, seed, torch.device("cpu"))
    phases = {}
    for weight in (1.0, 3.0):

        def log_prob(projected: Tensor, y: Tensor, weight: float = weight) -> Tensor:
            scale = torch.tensor([1.0, weight, weight, 1.0]) if adapted else torch.ones(4)
            # a trace of the context keeps the weights' gradients defined
            return -((y / scale) ** 2).sum(-1) / 2 + 1e-9 * projected.sum((-2, -1))

        monkeypatch.setattr(double_debug.flow, "log_prob", log_prob)
        pairs = torch.arange(int(batch.k.sum()))
        phases[weight] = gradients(double_debug, batch, weight, pairs).phase
    assert phases[3.0] / phases[1.0] == pytest.approx(3.0**power, rel=1e-6)


def test_pairs_are_permutations_within_signals(double_debug: PaperSlotFlow, seed: int) -> None:
    batch = draw_batch(Config.from_preset("debug"), 12, seed, torch.device("cpu"))
    pairs = matched_pairs(double_debug, batch).tolist()
    first = 0
    for k in batch.k.tolist():
        assert sorted(pairs[first : first + k]) == list(range(first, first + k))
        first += k


def test_only_the_papers_parts_have_a_phase_weight(zoom: ZoomSlotFlow) -> None:
    with pytest.raises(TypeError, match="paper's parts"):
        paper_network(zoom)


# ---------------------------------------------------------------------- distinguishable


def test_pairs_differ_in_their_distance_alone(seed: int) -> None:
    near, far = draw_pairs(NOMINAL, GRIDS, (0.5, 3.0), seed)
    (a, b), (c, d) = near.components(0), far.components(0)
    assert (a[0], b[0]) == (c[0], d[0]) and near.sigma == far.sigma
    mid, width = GRIDS[0].mid_time, 1 / GRIDS[0].duration
    for one, other in ((a, c), (b, d)):
        turn = (one[1] - other[1] + 2 * math.pi * mid * (one[2] - other[2])) / (2 * math.pi)
        assert turn == pytest.approx(round(turn), abs=1e-6)
    assert b[2] - a[2] == pytest.approx(0.5 * width) and d[2] - c[2] == pytest.approx(3 * width)
    assert pair_distance(near) > 0
    noise = [sim.long - _signal(sim) for sim in (near, far)]
    torch.testing.assert_close(noise[0], noise[1], rtol=0, atol=1e-5)


def _signal(sim: Any) -> Tensor:
    from slotflow.signal.simulation import tones

    return tones(sim.theta, sim.grids[0])


class Gaussians:
    """Two slots with Gaussian frequencies, behind a posterior."""

    def __init__(self, centres: tuple[float, float], sd: float, k_map: int = 2) -> None:
        self.centres, self.sd, self.k_map, self.slots = np.array(centres), sd, k_map, self

    def sample(self, n: int, k: int, seed: int) -> np.ndarray:
        theta = np.ones((n, k, 3))
        normal = np.random.default_rng(seed).normal(size=(n, k))
        theta[..., 2] = self.centres + self.sd * normal
        return theta

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        return -((theta[:, None, :, 2] - self.centres[:, None]) ** 2) / (2 * self.sd**2)


TRUTH = np.array([[1.0, 0.0, 2.70], [1.0, 0.0, 2.71]])


@pytest.mark.parametrize(
    ("slots", "separated", "labelled"),
    [
        (Gaussians((2.70, 2.71), 1e-4), True, 1.0),
        (Gaussians((2.71, 2.70), 1e-4), True, 1.0),  # slots have no order
        (Gaussians((2.70, 2.70), 1e-4), False, 0.5),  # collapsed
        (Gaussians((2.705, 2.705), 1e-3), False, 0.5),  # in the middle
        (Gaussians((2.70, 2.80), 1e-4), False, 1.0),  # apart, but not where the tones are
    ],
)
def test_slots_that_are_known(slots: Any, separated: bool, labelled: float, seed: int) -> None:
    told = told_apart(slots, TRUTH, 400, seed)
    assert told.counted and told.separated == separated
    assert told.labelled == pytest.approx(labelled, abs=1e-3)
    assert not told_apart(Gaussians((2.70, 2.71), 1e-4, k_map=1), TRUTH, 10, seed).counted  # type: ignore[arg-type]


def test_slots_that_overlap_are_told_apart_in_part(seed: int) -> None:
    """The mean of 1/(1 + e^−2r) over the log ratio r of two Gaussians a distance of two sd apart, by quadrature."""
    n = 20_000
    told = told_apart(Gaussians((2.70, 2.702), 1e-3), TRUTH, n, seed)  # type: ignore[arg-type]
    x, w = np.polynomial.hermite_e.hermegauss(60)
    # the log ratio of both labellings is normal with mean 4 and variance 8
    right = 1 / (1 + np.exp(-(4 + math.sqrt(8) * x)))
    expected = float((w * right).sum() / w.sum())
    spread = math.sqrt(float((w * right**2).sum() / w.sum()) - expected**2)
    assert_within(told.labelled, expected, spread / math.sqrt(n))


def cell(bins: float, share: float) -> dict[str, Any]:
    found: dict[str, Any] = {key: [share, 0.01] for key in ("counted", "separated", "labelled")}
    found |= {"bins": bins, "pairs": 10, "least_distance": 5.0, "median_distance": 9.0}
    return found | {"above_gamma": [10, round(10 * share)]}


def test_the_table_of_pairs_judges() -> None:
    """Slots that take one component each from one bin on, and the control: slots that never do."""
    good = [cell(0.5, 0.2), cell(1.0, 1.0), cell(3.0, 1.0)]
    bad = [cell(0.5, 0.2), cell(1.0, 0.94), cell(3.0, 0.9)]
    rows = {row.measure: row for row in DISTINGUISHABLE.compare({"zoom": good, "debug": bad})}
    every = "pairs with D > 2 whose slots take one component each"
    assert rows[f"zoom: {every}"].met is False and rows[f"debug: {every}"].met is False
    assert rows["zoom: slots take one component each at Δf = 3/T"].met is True
    assert rows["debug: slots take one component each at Δf = 3/T"].met is False
    slots = rows["debug: slots take one component each at Δf = 1/T"]
    assert slots.value == 0.94 and slots.met is None  # within its error of what is expected
    least = "least Δf from which 95 % of pairs have a slot for each tone [1/T]"
    assert rows[f"zoom: {least}"].value == 1.0 and f"debug: {least}" not in rows
