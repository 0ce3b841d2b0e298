"""The tasks of the exact suite: what a process does for one signal of each part."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from slotflow.network.model import SlotFlow
from slotflow.signal.simulation import simulate
from slotflow.studies.measures.correlation import correlation
from slotflow.studies.suites.exact.misfits import ANSWERABLE, misfit
from slotflow.studies.suites.exact.parts import (
    PARTS,
    Part,
    Settings,
    draw_signal,
    measure,
    pair_signal,
    solve,
)
from slotflow.studies.suites.exact.reference import long_evidence, long_pair
from slotflow.studies.suites.sets import GRIDS, suite_seed
from slotflow.studies.suites.sizes import EXACT_DRAWS
from slotflow.studies.tasks import Record, Worker

__all__ = ["worker"]

TIMED_ANSWERS = 5
"""Timed answers of one signal; the median counts."""
CORRELATION_DRAWS = 20_000
"""Draws of a pair, for its correlations."""


def worker(settings: Settings) -> Worker:
    """Loads the network and gives the function that takes (part, index) to a record."""
    model = SlotFlow.from_pretrained(settings.model)
    tasks: dict[str, Callable[[Part, str, int], Record]] = {
        "posterior": lambda part, name, i: _posterior(model, settings, part, name, i),
        "evidence": lambda part, name, i: _evidence(model, settings, part, i),
        "correlation": lambda part, name, i: _correlation(model, settings, part, i),
        "misfit": lambda part, name, i: _misfit(model, settings, part, name, i),
        "time": lambda part, name, i: _time(model, settings, part, i),
        "batch": lambda part, name, i: _batch(model, settings, part),
        "eryn": lambda part, name, i: _eryn(model, settings, part, i),
    }
    return lambda name, i: {"i": i} | tasks[PARTS[name].kind](PARTS[name], name, i)


def _posterior(model: SlotFlow, settings: Settings, part: Part, name: str, i: int) -> Record:
    """A signal of a calibration set."""
    sim = draw_signal(part, i, settings.seed)
    observation, began = sim.observation(0), time.perf_counter()
    post = solve(model, observation, part.prior, settings.draws, i, settings.max_seconds)
    seconds = time.perf_counter() - began
    record = measure(post, sim.components(0), float(sim.sigma), suite_seed(part.number, i, 0))
    record |= {"total_seconds": seconds}
    if name == "frontier":  # rivals
        from slotflow.exact.classical import classical

        network = model.infer(observation, prior=part.prior, method="network")
        record["network"] = network.k_probs.tolist()
        record["classical"] = int(classical([observation], part.prior).k_map[0])
    return record


def _evidence(model: SlotFlow, settings: Settings, part: Part, i: int) -> Record:
    """Evidence at the true K, ours and the independent one."""
    sim = draw_signal(part, i, settings.seed)
    observation, k = sim.observation(0), int(sim.k)
    post = solve(model, observation, part.prior, settings.draws, i, settings.max_seconds)
    other = long_evidence(sim, part.prior, i, settings.long)
    return {
        "k": k,
        "ours": float(post.log_evidence[k, 0]),
        "error": float(post.log_evidence[k, 1]),
        "theirs": other.log_evidence,
        "their_error": other.log_evidence_error,
        "their_seconds": other.seconds,
    }


def _correlation(model: SlotFlow, settings: Settings, part: Part, i: int) -> Record:
    """Correlation matrices of a pair."""
    sim = pair_signal(part, i, settings.seed)
    post = solve(model, sim.observation(0), part.prior, CORRELATION_DRAWS, i, 60.0)
    theta, _, log_weights = post.weighted(2)
    other = long_pair(sim, part.prior, i, settings.longer)
    return {
        "ours": correlation(theta, np.exp(log_weights)).tolist(),
        "theirs": correlation(other.theta, np.exp(other.log_weights)).tolist(),
        "ess": post.orders.results[2].ess,
        "method": post.orders.methods[2],
        "their_ess": other.ess,
    }


def _misfit(model: SlotFlow, settings: Settings, part: Part, kind: str, i: int) -> Record:
    """The verdict on data that tones in white noise do not explain, and whether their tones were found all the same."""
    seed = suite_seed(part.number, i, settings.seed)
    signal = misfit(kind, part.prior, GRIDS, seed)
    k = len(signal.components)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():  # the network warns of the offset of red noise
            warnings.simplefilter("ignore", UserWarning)
            post = solve(
                model, signal.observation, part.prior, settings.draws, i, settings.max_seconds
            )
        record = measure(post, signal.components, signal.sigma, seed)
        found = {name: record[name] for name in ("status", "p", "check")}
        right = post.k_map == k
        levels = record["levels"] if right and kind in ANSWERABLE else []
        found |= {"k_right": right, "levels": np.round(levels, 4).tolist()}
    except ValueError as error:
        found = {"status": "refused", "p": 1.0, "check": str(error), "k_right": False, "levels": []}
    return found | {"snr": signal.snr, "total_seconds": time.perf_counter() - began}


def _time(model: SlotFlow, settings: Settings, part: Part, i: int) -> Record:
    """Seconds of one full answer; a first call of the same process does not count."""
    observation = draw_signal(part, i, settings.seed).observation(0)
    seconds = 0.0
    for _ in range(2 if i == 0 else 1):
        began = time.perf_counter()
        post = solve(model, observation, part.prior, EXACT_DRAWS, i, settings.max_seconds)
        post.sample(EXACT_DRAWS, seed=i)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "methods": {str(k): m for k, m in post.orders.methods.items()}}


def _batch(model: SlotFlow, settings: Settings, part: Part) -> Record:
    """Seconds per signal of a batch: the network on all at once, then each one's exact answer."""
    seed = suite_seed(part.number, 0, settings.seed)
    sim = simulate(part.prior, settings.batch, *GRIDS, mode="physical", seed=seed)
    observations = [sim.observation(i) for i in range(settings.batch)]
    began = time.perf_counter()
    posteriors = model.infer(observations, prior=part.prior, refine=False)
    network = time.perf_counter() - began
    for i, post in enumerate(posteriors):
        post.refine(draws=EXACT_DRAWS, seed=i, max_seconds=settings.max_seconds).sample(
            EXACT_DRAWS, seed=i
        )
    seconds = time.perf_counter() - began
    return {"signals": settings.batch, "seconds": seconds, "network_seconds": network}


def _eryn(model: SlotFlow, settings: Settings, part: Part, i: int) -> Record:
    """Seconds until Eryn has as many effective draws of the true K as we have.

    Its chain is run for longer. The time that counts is that of its warm-up and of as many steps as give our number of
    effective draws, at the rate of the whole chain.
    """
    from slotflow.baselines.rjmcmc import rjmcmc

    sim = draw_signal(part, i, settings.seed)
    observation, k, seconds = sim.observation(0), int(sim.k), []
    for repeat in range(TIMED_ANSWERS + 1):
        began = time.perf_counter()
        post = solve(model, observation, part.prior, EXACT_DRAWS, i, settings.max_seconds)
        post.sample(EXACT_DRAWS, k, seed=i)
        seconds += [time.perf_counter() - began] if repeat else []
    ours = {"seconds": float(np.median(seconds)), "effective": EXACT_DRAWS * post.ess}
    record: Record = {"k": k, "k_probs": post.k_probs.tolist()} | ours
    for name, start in (("cold", None), ("truth", sim.components(0))):
        chain = rjmcmc(observation, part.prior, settings.chain, start=start, seed=i)
        run, steps = chain.sampling, chain.sampling.warm_up + chain.sampling.steps
        each, wanted = run.seconds / steps, ours["effective"]
        record[name] = {
            "seconds": each * (run.warm_up + run.steps * wanted / run.effective),
            "least_seconds": each * (run.warm_up + run.steps * wanted / run.least_effective),
            "warm_up_seconds": each * run.warm_up,
            "effective": run.effective,
            "r_hat": run.r_hat,
            "autocorrelation": run.autocorrelation,
            "acceptance": dict(run.acceptance),
            "k_probs": chain.k_probs.tolist(),
        }
    return record
