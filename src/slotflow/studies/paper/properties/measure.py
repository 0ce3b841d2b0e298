r"""Table 1 of the paper with measured properties instead of marks.

- **Amortized**: whether work that was done before the signal came, a training, replaces work on the signal. Measured:
  the trained parameters; the time of the first answer of a process and of later ones; and, for networks, the time per
  signal of many that are answered together.
- **Trans-dimensional**: p(K | x) of a signal whose K is in doubt, the most doubtful of several weak ones. Measured:
  half the sum of |p − p_exact| over K, p_exact being the exact step's (total variation).
- **Equivariant**: the density of a labelled set of tones, ln p(θ_1, …, θ_K | x), must not depend on the labels.
  Measured: its largest change under all permutations of three tones. Samplers know no normalized density; for them it
  is that of the target that they sample, and for the classical estimator Laplace's evidence of the relabelled fit.
- **Dependence between slots**: two tones at 1.2/T are correlated. Measured: the correlation between a parameter of one
  and a parameter of the other, of the two that are correlated most in the exact posterior; mean over the pairs, in the
  direction of the exact one.
- **Scaling**: the exponent of K in the time of 1,000 effective draws, as in `cost.py`: its own values if it was run
  before with the same network, or else a small measurement.

Preset `paper` has no weights inside the package and is built untrained: symmetry, independence of the slots and cost
are matters of construction. How good its p(K | x) would be is not, so that it is not compared.
"""

from __future__ import annotations

import itertools
import time
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.baselines.moves import StatePrior
from slotflow.baselines.tabulated import Tabulated
from slotflow.data.observation import Observation
from slotflow.exact.classical import classical
from slotflow.network.model import SlotFlow
from slotflow.posterior.draws import Draws
from slotflow.posterior.posterior import Posterior
from slotflow.signal.evidence import log_evidence
from slotflow.signal.fit import Laplace
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import simulate
from slotflow.studies.answers import exact_answer
from slotflow.studies.measures.correlation import between_components, correlation
from slotflow.studies.measures.parameters import SIZE, WAVEFORM
from slotflow.studies.paper.bench import Bench, Settings
from slotflow.studies.paper.comparison.three_tones import network
from slotflow.studies.paper.cost.measure import SMALL, count_steps, measure, measured
from slotflow.studies.paper.cost.methods import SAMPLERS, Method, load, published
from slotflow.studies.paper.cost.table import exponent
from slotflow.studies.paper.properties.table import compare, plot
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.suites.exact.parts import PARTS, pair_signal
from slotflow.studies.suites.sets import GRIDS, NOMINAL, suite_seed

__all__ = ["PROPERTIES"]

Array = NDArray[np.float64]

NUMBER = 86
"""Of the signals, as a set's."""
DOUBT = Prior(k_min=0, k_max=3, amplitude=(0.05, 0.5), min_separation=0.01, sigma=(0.5, 1.5))
"""Weak tones, some of which cannot be seen."""
CANDIDATES = 12
"""Signals of weak tones, of which the most doubtful is taken."""
TONES = 3
"""Tones whose labels are permuted,"""
SETS = 2
"""and sets of them that densities are asked about."""
TOGETHER = 100
"""Signals that a network answers together."""
DRAWS = 4000
"""Draws behind a correlation."""
UNTRAINED_DRAWS = 1000
"""The same of the untrained network, most of whose draws are drawn again."""
SECONDS = 60.0
"""Budget of an exact step, which takes a small part of it."""
CUT = 1000.0
"""Changes of a log density are cut off here."""


def _pairs(settings: Settings) -> int:
    """Close pairs: five at the paper's size, one at the quick one."""
    return min(5, max(1, settings.n // 1000))


def _run(bench: Bench) -> Data:
    """All properties of all methods that are installed."""
    model = deepcopy(network(bench)).cpu()
    cost = measured(bench)
    known = cost is not None
    if cost is None:
        cost = measure(bench, SMALL, curves=False)
    else:
        bench.advance(count_steps(SMALL, curves=False))
    methods = {name: _from_cost(name, found, cost) for name, found in cost["methods"].items()}
    untrained = published()
    for name, one in (("network", model), ("exact", model), ("paper", untrained)):
        methods[name]["parameters"] = one.n_parameters
    seed, small = bench.settings.seed, bench.settings.n < 1000
    for name, one in (("network", model), ("paper", untrained)):
        methods[name]["together_seconds"] = _together(one, seed)
    samplers = {
        name: load(name, effective=500.0 if small else 2000.0, particles=320 if small else 1000)
        for name in (*SAMPLERS, "classical")
        if name in methods
    }
    data: Data = {
        "pairs": _pairs(bench.settings),
        "together": TOGETHER,
        "cost_k": cost["table_k"],
        "from_cost": known,
        "skipped": cost["skipped"],
    }
    data["doubt"] = _doubt(model, untrained, samplers, methods, seed)
    _dependence(model, untrained, samplers, methods, bench)
    _symmetry(model, untrained, methods, seed)
    bench.advance(1)
    return data | {"methods": methods}


def _from_cost(name: str, found: Data, cost: Data) -> Data:
    """First and later answers, and the exponent."""
    later = next(entry for entry in found["by_k"] if entry["k"] == cost["table_k"])
    fitted = exponent(found["by_k"])
    assert fitted is not None  # two K at least
    return {
        "parameters": 0,
        "first_seconds": found["first_seconds"],
        "later_seconds": later["seconds"],
        "together_seconds": None,
        "exponent": fitted[0],
        "exponent_error": fitted[1],
        "exponent_counts": [entry["k"] for entry in found["by_k"]],
    }


def _together(model: SlotFlow, seed: int) -> float:
    """Seconds per signal of many that are answered in one call, without draws, one thread."""
    number = suite_seed(NUMBER, 0, seed)
    sim = simulate(NOMINAL, TOGETHER, *GRIDS, mode="physical", seed=number)
    observations = [sim.observation(i) for i in range(TOGETHER)]
    model.infer(observations[:2], prior=NOMINAL, refine=False, threads=1)
    began = time.perf_counter()
    model.infer(observations, prior=NOMINAL, refine=False, threads=1)
    return (time.perf_counter() - began) / TOGETHER


# ---------------------------------------------------------------------- K in doubt


def _doubt(
    model: SlotFlow, untrained: SlotFlow, samplers: dict[str, Method], methods: Data, seed: int
) -> Data:
    """p(K | x) of every method, and its distance from the exact one."""
    best: tuple[Observation, int, Posterior] | None = None
    for i in range(CANDIDATES):
        number = suite_seed(NUMBER, 1 + i, seed)
        sim = simulate(DOUBT, 1, *GRIDS, mode="physical", seed=number)
        observation = sim.observation(0)
        post = exact_answer(model, observation, DOUBT, seed=i, max_seconds=SECONDS)
        if best is None or post.k_probs.max() < best[2].k_probs.max():
            best = observation, int(sim.k), post
    assert best is not None
    observation, k, exact = best
    answers: dict[str, Array] = {
        "exact": exact.k_probs,
        "network": exact.amortized.k_probs,
        "paper": untrained.infer(observation, refine=False).k_probs,
    }
    for name, method in samplers.items():
        answers[name] = method(observation, DOUBT, k, seed).posterior.k_probs
    for name, probs in answers.items():
        size = DOUBT.k_max + 1
        distance = 0.5 * float(np.abs(probs[:size] - exact.k_probs[:size]).sum())
        methods[name] |= {
            "k_probs": probs.tolist(),
            "k_distance": None if name == "paper" else distance,
        }
    return {"k": k, "k_probs": exact.k_probs[: DOUBT.k_max + 1].tolist()}


# ---------------------------------------------------------------------- close pairs


def _dependence(
    model: SlotFlow, untrained: SlotFlow, samplers: dict[str, Method], methods: Data, bench: Bench
) -> None:
    """Correlation between the tones of close pairs."""
    part, seed = PARTS["correlation"], bench.settings.seed
    found: dict[str, list[float]] = {name: [] for name in methods}
    truth = []
    for i in range(_pairs(bench.settings)):
        sim = pair_signal(part, i, seed)
        observation = sim.observation(0)
        exact = exact_answer(
            model, observation, part.prior, draws=DRAWS, seed=i, max_seconds=SECONDS
        )
        theta, _, log_weights = exact.weighted(2)
        between = between_components(correlation(theta, np.exp(log_weights)))
        at = np.unravel_index(np.abs(between).argmax(), between.shape)
        truth.append(float(abs(between[at])))
        draws = {
            "exact": exact.sample(DRAWS, 2, seed=i + 1),
            "network": exact.amortized.sample(DRAWS, 2, seed=i),
            "paper": untrained.infer(observation, refine=False).sample(UNTRAINED_DRAWS, 2, seed=i),
        }
        for name, method in samplers.items():
            post = method(observation, part.prior, 2, seed + i).posterior
            slots = post.slots
            draws[name] = slots.theta[2] if isinstance(slots, Draws) else post.sample(DRAWS, 2)
        for name, sample in draws.items():
            if name != "paper":  # whose slots are looked at as they are
                sample = WAVEFORM.sorted(sample)
            matrix = correlation(sample, np.full(len(sample), 1 / len(sample)))
            found[name].append(float(np.sign(between[at]) * between_components(matrix)[at]))
        bench.advance(1)
    for name, values in found.items():
        methods[name] |= {"correlation": values, "correlation_exact": truth}


# ---------------------------------------------------------------------- labels


def _symmetry(model: SlotFlow, untrained: SlotFlow, methods: Data, seed: int) -> None:
    """Largest change of a log density when labels are permuted."""
    sim = simulate(NOMINAL, 1, *GRIDS, mode="physical", seed=suite_seed(NUMBER, 100, seed), k=TONES)
    observation = sim.observation(0)
    exact = exact_answer(model, observation, NOMINAL, seed=seed, max_seconds=SECONDS)
    theta = exact.sample(SETS, TONES, seed=seed)
    orders = [list(order) for order in itertools.permutations(range(TONES))]
    permuted = np.concatenate([theta[:, order] for order in orders])
    posteriors = {
        "exact": exact,
        "network": exact.amortized,
        "paper": untrained.infer(observation, refine=False),
    }
    for name, post in posteriors.items():
        methods[name]["label_change"] = _largest(np.asarray(post.log_prob(permuted)), SETS)
    for name in ("network", "paper"):
        # of the bare product of the slots, q_1(θ_π(1)) q_2(θ_π(2)) …
        each = posteriors[name].slots.log_prob(theta)  # (SETS, slot, component)
        slot = np.arange(TONES)
        bare = np.concatenate([each[:, slot, order].sum(-1) for order in orders])
        methods[name]["bare_change"] = _largest(bare, SETS)
    statistics = Statistics.from_observation(observation)
    table, z = Tabulated(statistics, NOMINAL), WAVEFORM.to_z(permuted, statistics.reference)
    prior = StatePrior(replace(NOMINAL, k_min=TONES, k_max=TONES))
    target = prior(z, np.ones(z.shape[:2], dtype=bool)) + table.log_likelihood(table.rss(z))
    for name in SAMPLERS:
        if name in methods:
            methods[name]["label_change"] = _largest(target, SETS)
    fit = classical(observation, NOMINAL).fits[TONES]
    n = sum(stream.n for stream in observation.channels)
    evidences = [float(log_evidence(_relabelled(fit, order), NOMINAL, n)[0]) for order in orders]
    methods["classical"]["label_change"] = _largest(np.array(evidences), 1)


def _relabelled(fit: Laplace, order: list[int]) -> Laplace:
    """A fit of one signal with its tones in another order."""
    index = torch.tensor([SIZE * j + i for j in order for i in range(SIZE)])
    covariance = fit.covariance[:, index][:, :, index]
    return replace(fit, theta=fit.theta[:, order], covariance=covariance)


def _largest(values: Array, sets: int) -> float:
    """Largest change from the first order to any other, of (orders × sets,) in this order of axes; cut off at `CUT`."""
    by_order = values.reshape(-1, sets)
    with np.errstate(invalid="ignore"):
        change = np.nan_to_num(np.abs(by_order - by_order[0]), nan=0.0, posinf=CUT)
    return float(min(change.max(), CUT))


def _work(settings: Settings) -> int:
    """Steps of the cost, pairs, and the rest."""
    return count_steps(SMALL, curves=False) + _pairs(settings) + 1


PROPERTIES = Result(
    name="properties",
    title="Properties of the methods",
    section="1, table 1",
    caption="What the paper's table states, measured; the paper's marks in italics. Numbers are explained in the table "
    "below.",
    uses=("n", "seed", "model"),
    work=_work,
    run=_run,
    compare=compare,
    plot=plot,
)
