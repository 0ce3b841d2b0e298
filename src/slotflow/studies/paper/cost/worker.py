"""One method's cost, measured in a process of its own with one thread.

    python -m slotflow.studies.paper.cost.worker < task.json

The task names the method, the file of the network's weights, the sizes of the samplers, the seed, and a list of steps;
each step gives one line of JSON on standard output as soon as it is done. Steps, for signal i of K tones:

first     time and process peak of the first answer of this process; modules, weights and signal are loaded before it
answer    time of 1,000 effective draws (`methods.py`), median of `repeats` calls
python    Python's allocator peak of an answer, or of the network's without a draw
forward   time of the network's answer without a draw
draws     time of an answer with n draws
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from statistics import median

import torch

from slotflow.data.observation import Observation
from slotflow.network.model import SlotFlow
from slotflow.signal.simulation import simulate
from slotflow.studies.measures.memory import process_peak, python_peak
from slotflow.studies.paper.cost.methods import EXACT_SECONDS, Answer, load
from slotflow.studies.paper.result import Data
from slotflow.studies.suites.sets import GRIDS, NOMINAL, suite_seed

__all__ = ["FEWEST_DRAWS", "main", "measure", "signal"]

SET_NUMBER = 87
"""Of the signals, as a set's."""
NOISE_LEVELS = (0.5, 1.0)
"""Of the signals, about the middle of the prior's: the noise level changes the time of samplers more than K does."""
FEWEST_DRAWS = 100
"""Of an exact step."""


def main() -> None:
    """Reads the task, and prints a line for each of its steps."""
    task = json.load(sys.stdin)
    torch.set_num_threads(1)
    out = sys.stdout
    with redirect_stdout(sys.stderr):
        for record in measure(task):
            print(json.dumps(record), file=out, flush=True)


def signal(k: int, i: int, seed: int) -> Observation:
    """Signal i of k tones."""
    law = replace(NOMINAL, sigma=NOISE_LEVELS)
    number = suite_seed(SET_NUMBER, 100 * k + i, seed)
    return simulate(law, 1, *GRIDS, mode="physical", seed=number, k=k).observation(0)


def measure(task: Data) -> Iterator[Data]:
    """The result of each step, with the step itself."""
    name, seed = task["method"], task["seed"]
    model = (
        SlotFlow.from_pretrained(task["weights"], device="cpu")
        if name in ("network", "exact")
        else None
    )
    method = load(name, model, task["effective"], task["particles"])
    for step in task["steps"]:
        kind, k, i = step["kind"], step["k"], step["i"]
        observation = signal(k, i, seed)

        def answer(observation: Observation = observation, k: int = k, i: int = i) -> Answer:
            return method(observation, NOMINAL, k, i)

        if kind == "first":
            found = _first(answer)
        elif kind == "answer":
            answers = [answer() for _ in range(step["repeats"])]
            found = {
                "seconds": median(one.seconds for one in answers),
                "effective": answers[0].effective,
                "k_map": answers[0].posterior.k_map,
            }
        elif kind == "python":
            asked = _asked(model, observation, step) if step.get("forward") else answer
            found = {"bytes": python_peak(asked)}
        else:
            found = {"seconds": _time(_asked(model, observation, step), step["repeats"])}
        yield step | found


def _first(answer: Callable[[], Answer]) -> Data:
    """Time and memory of the first answer."""
    kept: list[Answer] = []
    before, peak = process_peak(lambda: kept.append(answer()))
    first = kept[0]
    return {
        "seconds": first.seconds,
        "effective": first.effective,
        "k_map": first.posterior.k_map,
        "before": before,
        "peak": peak,
    }


def _asked(model: SlotFlow | None, observation: Observation, step: Data) -> Callable[[], object]:
    """The network's answer without a draw, or an answer with some number of them."""
    assert model is not None  # nobody else is asked
    n = step.get("n", 0)
    if step.get("exact"):
        return lambda: model.infer(
            observation, prior=NOMINAL, draws=n, max_seconds=EXACT_SECONDS
        ).sample(n)
    return lambda: model.infer(observation, prior=NOMINAL, refine=False).sample(n)


def _time(call: Callable[[], object], repeats: int) -> float:
    """Median time of some calls, after one that does not count."""
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:])


if __name__ == "__main__":
    main()
