"""One method's cost, measured in a process of its own with one thread.

    python -m slotflow.studies.paper.cost.worker < task.json

The task names the method, the file of the network's weights, the sizes of the samplers, the seed, and a list of steps
(`steps.py`); each step gives one line of JSON on standard output as soon as it is done.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from statistics import median

import torch

from slotflow.data.observation import Observation
from slotflow.network.model import SlotFlow
from slotflow.signal.simulation import simulate
from slotflow.studies.measures.memory import process_peak, python_peak
from slotflow.studies.paper.cost.methods import EXACT_SECONDS, Answer, load
from slotflow.studies.paper.cost.steps import Step
from slotflow.studies.paper.result import Data
from slotflow.studies.suites.sets import GRIDS, NOMINAL, suite_seed

__all__ = ["main", "measure", "signal"]

SET_NUMBER = 87
"""Number of the signals, as that of a test set."""
NOISE_LEVELS = (0.5, 1.0)
"""Noise levels of the signals, about the middle of the prior's: they change the time of samplers more than K does."""


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
    model = None
    if name in ("network", "exact"):
        model = SlotFlow.from_pretrained(task["weights"], device="cpu")
    method = load(name, model, task["effective"], task["particles"])
    for values in task["steps"]:
        step = Step(**values)
        observation = signal(step.k, step.i, seed)
        answer = partial(method, observation, NOMINAL, step.k, step.i)
        asked = answer if step.draws is None else _asked(model, observation, step)
        if step.kind == "first":
            found = _first(answer)
        elif step.kind == "answer":
            answers = [answer() for _ in range(step.repeats)]
            found = _facts(answers[0]) | {"seconds": median(one.seconds for one in answers)}
        elif step.kind == "python":
            found = {"bytes": python_peak(asked)}
        else:
            found = {"seconds": _time(asked, step.repeats)}
        yield values | found


def _facts(answer: Answer) -> Data:
    """What is kept of an answer."""
    return {
        "seconds": answer.seconds,
        "effective": answer.effective,
        "k_map": answer.posterior.k_map,
    }


def _first(answer: Callable[[], Answer]) -> Data:
    """Time and memory of the first answer."""
    kept: list[Answer] = []
    before, peak = process_peak(lambda: kept.append(answer()))
    return _facts(kept[0]) | {"before": before, "peak": peak}


def _asked(model: SlotFlow | None, observation: Observation, step: Step) -> Callable[[], object]:
    """An answer with a number of draws, none among them, of the network or of the exact step."""
    assert (
        model is not None and step.draws is not None
    )  # only network and exact step are asked this
    n = step.draws
    if step.exact:
        options: Data = {"draws": n, "max_seconds": EXACT_SECONDS}
        return lambda: model.infer(observation, prior=NOMINAL, **options).sample(n)
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
