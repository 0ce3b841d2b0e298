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

Preset `paper` has no weights inside the package and is built untrained, unless it is the network that is measured:
symmetry, independence of the slots and cost are matters of construction. How good its p(K | x) would be is not, so that
it is not compared. With weights it is, under the prior of its training, which is the only one that it knows; the exact
posterior that all are compared with is then that behind the default network (`slotflow.studies.answers`).
"""

from __future__ import annotations

import time
from copy import deepcopy

import numpy as np

from slotflow.core.arrays import Array
from slotflow.network.model import SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.posterior.draws import Draws
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import simulate
from slotflow.studies.answers import exact_answer
from slotflow.studies.measures.correlation import between_components, correlation
from slotflow.studies.measures.parameters import WAVEFORM
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.cost.measure import measure, measured
from slotflow.studies.paper.cost.steps import SMALL, count_steps
from slotflow.studies.paper.cost.table import exponent
from slotflow.studies.paper.properties.labels import label_changes
from slotflow.studies.paper.properties.methods import (
    EXACT_SECONDS,
    SET_NUMBER,
    Found,
    Methods,
    load_methods,
)
from slotflow.studies.paper.properties.table import compare, plot
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.settings import Settings
from slotflow.studies.suites.exact.parts import PARTS, pair_signal
from slotflow.studies.suites.sets import GRIDS, NOMINAL, suite_seed

__all__ = ["PROPERTIES"]


DOUBT_PRIOR = Prior(k_min=0, k_max=3, amplitude=(0.05, 0.5), min_separation=0.01, sigma=(0.5, 1.5))
"""Weak tones, some of which cannot be seen."""
DOUBT_CANDIDATES = 12
"""Signals of weak tones, from which the most doubtful is taken."""
SIGNALS_TOGETHER = 100
"""Signals that a network answers together."""
DRAWS = 4000
"""Draws behind a correlation."""
UNTRAINED_DRAWS = 1000
"""The same of the untrained network, most of whose draws are drawn again."""


def _pairs(settings: Settings) -> int:
    """Close pairs: five at the paper's size, one at the quick one."""
    return min(5, max(1, settings.n // 1000))


def _run(bench: Bench) -> Data:
    """All properties of all methods that are installed."""
    cost, known = measured(bench), True
    if cost is None:
        cost, known = measure(bench, SMALL, curves=False), False
    else:
        bench.advance(count_steps(SMALL, curves=False))
    network, names = bench.network(), list(cost["methods"])
    methods = load_methods(deepcopy(network).cpu(), names, small=bench.settings.n < 1000)
    seed = bench.settings.seed
    doubt, found = _doubt(methods, seed)
    parts: list[Found] = [
        {name: _from_cost(cost["methods"][name], cost["table_k"]) for name in names},
        _training(methods, seed),
        found,
        _dependence(methods, bench),
        label_changes(methods, seed),
    ]
    bench.advance(1)
    whole = {
        name: {key: value for part in parts for key, value in part.get(name, {}).items()}
        for name in names
    }
    return {
        "network": network.config.name,
        "pairs": _pairs(bench.settings),
        "together": SIGNALS_TOGETHER,
        "cost_k": cost["table_k"],
        "from_cost": known,
        "skipped": cost["skipped"],
        "doubt": doubt,
        "methods": whole,
    }


# ---------------------------------------------------------------------- amortization and scaling


def _from_cost(found: Data, k: int) -> Data:
    """First and later answers at K = k, and the exponent of K in the time, from the measurement of the cost."""
    later = next(entry for entry in found["by_k"] if entry["k"] == k)
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


def _training(methods: Methods, seed: int) -> Found:
    """Trained parameters, and the time per signal of many that are answered together."""
    found: Found = {
        name: {"parameters": one.n_parameters, "together_seconds": _together(one, seed)}
        for name, one in methods.networks().items()
    }
    return found | {"exact": {"parameters": methods.model.n_parameters}}


def _together(model: SlotFlow, seed: int) -> float:
    """Seconds per signal of many that are answered in one call, without draws, one thread."""
    number = suite_seed(SET_NUMBER, 0, seed)
    sim = simulate(NOMINAL, SIGNALS_TOGETHER, *GRIDS, mode="physical", seed=number)
    observations = [sim.observation(i) for i in range(SIGNALS_TOGETHER)]
    model.infer(observations[:2], prior=NOMINAL, refine=False, threads=1)
    began = time.perf_counter()
    model.infer(observations, prior=NOMINAL, refine=False, threads=1)
    return (time.perf_counter() - began) / SIGNALS_TOGETHER


# ---------------------------------------------------------------------- K in doubt


def _doubt(methods: Methods, seed: int) -> tuple[Data, Found]:
    """The most doubtful signal and its exact p(K | x); and p(K | x) of every method with its distance from that."""
    candidates = []
    for i in range(DOUBT_CANDIDATES):
        number = suite_seed(SET_NUMBER, 1 + i, seed)
        sim = simulate(DOUBT_PRIOR, 1, *GRIDS, mode="physical", seed=number)
        observation = sim.observation(0)
        post = exact_answer(
            methods.yardstick, observation, DOUBT_PRIOR, seed=i, max_seconds=EXACT_SECONDS
        )
        candidates.append((observation, int(sim.k), post))
    observation, k, exact = min(candidates, key=lambda one: one[2].k_probs.max())
    answers: dict[str, Array] = {
        name: post.k_probs for name, post in methods.posteriors(exact, observation).items()
    }
    for name, method in methods.samplers.items():
        answers[name] = method(observation, DOUBT_PRIOR, k, seed).posterior.k_probs
    size = DOUBT_PRIOR.k_max + 1
    found: Found = {}
    for name, probs in answers.items():
        beyond = float(probs[size:].sum())  # of a network that was not told the largest K
        distance = 0.5 * (float(np.abs(probs[:size] - exact.k_probs[:size]).sum()) + beyond)
        # The p(K | x) of a network that was never trained means nothing.
        found[name] = {
            "k_probs": probs.tolist(),
            "k_distance": None if name == "paper" else distance,
        }
    return {"k": k, "k_probs": exact.k_probs[:size].tolist()}, found


# ---------------------------------------------------------------------- close pairs


def _dependence(methods: Methods, bench: Bench) -> Found:
    """Correlation between the tones of close pairs, by each method and exactly, pair by pair."""
    found: dict[str, list[float]] = {}
    truth = []
    for i in range(_pairs(bench.settings)):
        strongest, values = _pair(methods, i, bench.settings.seed)
        truth.append(strongest)
        for name, value in values.items():
            found.setdefault(name, []).append(value)
        bench.advance(1)
    return {
        name: {"correlation": values, "correlation_exact": truth} for name, values in found.items()
    }


def _pair(methods: Methods, i: int, seed: int) -> tuple[float, dict[str, float]]:
    """The strongest correlation between the tones of pair i: its exact size, and its value by each method."""
    part = PARTS["correlation"]
    observation = pair_signal(part, i, seed).observation(0)
    exact = exact_answer(
        methods.yardstick, observation, part.prior, draws=DRAWS, seed=i, max_seconds=EXACT_SECONDS
    )
    theta, _, log_weights = exact.weighted(2)
    between = between_components(correlation(theta, np.exp(log_weights)))
    at = np.unravel_index(np.abs(between).argmax(), between.shape)
    posteriors = methods.posteriors(exact, observation)
    draws = {
        "exact": exact.sample(DRAWS, 2, seed=i + 1),
        "network": posteriors["network"].sample(DRAWS, 2, seed=i),
    }
    if "paper" in posteriors:
        draws["paper"] = posteriors["paper"].sample(UNTRAINED_DRAWS, 2, seed=i)
    for name, method in methods.samplers.items():
        post = method(observation, part.prior, 2, seed + i).posterior
        slots = post.slots
        draws[name] = slots.theta[2] if isinstance(slots, Draws) else post.sample(DRAWS, 2)
    values = {}
    as_they_are = "network" if isinstance(methods.model, PaperSlotFlow) else "paper"
    for name, sample in draws.items():
        if name != as_they_are:  # slots that overlap would be made dependent by sorting
            sample = WAVEFORM.sorted(sample)
        matrix = correlation(sample, np.full(len(sample), 1 / len(sample)))
        values[name] = float(np.sign(between[at]) * between_components(matrix)[at])
    return float(abs(between[at])), values


def _work(settings: Settings) -> int:
    """Steps of the cost, pairs, and the rest."""
    return count_steps(SMALL, curves=False) + _pairs(settings) + 1


PROPERTIES = Result(
    name="properties",
    title="Properties of the methods",
    section="1, table 1",
    caption="Measurements of what the paper's table states; the paper's own entries are in italics. The table below "
    "explains the numbers.",
    uses=("n", "seed", "model"),
    work=_work,
    run=_run,
    compare=compare,
    plot=plot,
)
