"""The methods whose cost and properties are compared, each asked for the same: 1,000 effective draws of one signal.

Effective draws are independent draws with the same Monte-Carlo error of a mean. How many there are:

- **network**, **preset paper**, **classical**: as many as are drawn, of the method's own approximation;
- **exact**: Kish's (Σw)²/Σw² of its importance weights; the time of 1,000 weighted draws counts in proportion;
- **RJMCMC**: from the autocorrelation of the ensemble's mean (`baselines/chains.py`), median over the parameters. The
  chain is run longer; the time is that of its warm-up and of as many steps as give 1,000 at the chain's own rate;
- **SMC**: from the scatter of its independent islands (`baselines/smc.py`), median over the parameters. Its cost goes
  with the number of particles, so that the time of a run counts in proportion to what is wanted over what it gave.

**Preset `paper`** has random weights here: time and memory do not depend on them. It is the network of the paper's text
(8.06 M parameters, coupling layers); the authors' public code is larger (31.3 M) and has autoregressive layers, which
draw far more slowly (`benchmarks/published.py`). Without training most draws lie outside the prior's bounds. They would
be drawn again after training; here they are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from slotflow.data.observation import Observation
from slotflow.network.model import SlotFlow
from slotflow.network.paper.densities import PaperSlotDensities
from slotflow.network.paper.onehot import slot_contexts
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.sampled import SamplerRun
from slotflow.signal.prior import Prior
from slotflow.studies.answers import exact_answer
from slotflow.studies.suites.exact.parts import CHAIN

__all__ = ["LABELS", "SAMPLERS", "WANTED", "Answer", "Method", "chain_seconds", "load", "published"]

LABELS = {
    "rjmcmc": "RJMCMC (Eryn)",
    "smc": "SMC",
    "classical": "classical",
    "paper": "preset paper, untrained",
    "network": "network",
    "exact": "network + exact",
}
"""The methods, slow ones first."""
SAMPLERS = ("rjmcmc", "smc")
"""Those that take seconds."""
WANTED = 1000
"""Effective draws."""
EXACT_SECONDS = 60.0
"""Budget of an exact step, which takes a small part of it."""
CHAIN_SECONDS = 240.0
"""A chain that has not converged by then is taken as it is."""


@dataclass(frozen=True)
class Answer:
    """What a method gave for one signal."""

    seconds: float
    """Time of `wanted` effective draws."""
    effective: float
    """Effective draws of the run behind it."""
    posterior: Posterior


class Method(Protocol):
    """Answers an observation of K tones under a prior."""

    def __call__(self, observation: Observation, prior: Prior, k: int, seed: int) -> Answer:
        """`WANTED` effective draws."""


def load(
    name: str, model: SlotFlow | None = None, effective: float = 2.0 * WANTED, particles: int = 1000
) -> Method:
    """A method by its name, with all that it needs loaded.

    Args:
        name: Key of `LABELS`.
        model: The network, for "network" and "exact".
        effective: Effective draws after which a chain ends.
        particles: Of SMC.
    """
    if name == "rjmcmc":
        return _rjmcmc(effective)
    if name == "smc":
        return _smc(particles)
    if name == "classical":
        return _classical()
    if name == "paper":
        return _paper()
    if model is None or name not in LABELS:
        raise ValueError(
            f"expected one of {', '.join(LABELS)}, with a network for the last two, received {name!r}."
        )
    return _network(model) if name == "network" else _exact(model)


def chain_seconds(run: SamplerRun, wanted: float) -> float:
    """Time of the warm-up and of as many steps as give the wanted effective draws at the chain's rate."""
    each = run.seconds / (run.warm_up + run.steps)
    return each * (run.warm_up + run.steps * wanted / run.effective)


def published() -> SlotFlow:
    """Preset `paper` with random weights, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SlotFlow.from_preset("paper").eval()


# ---------------------------------------------------------------------- the methods


def _rjmcmc(effective: float) -> Method:
    from slotflow.baselines.eryn_compat import load_eryn
    from slotflow.baselines.rjmcmc import rjmcmc

    load_eryn()
    options = replace(CHAIN, effective=effective, max_seconds=CHAIN_SECONDS)

    def answer(observation: Observation, prior: Prior, k: int, seed: int) -> Answer:
        post = rjmcmc(observation, prior, options, seed=seed)
        return Answer(chain_seconds(post.sampling, WANTED), post.sampling.effective, post)

    return answer


def _smc(particles: int) -> Method:
    from slotflow.baselines.smc import ParticleOptions, smc

    options = ParticleOptions(particles=particles)

    def answer(observation: Observation, prior: Prior, k: int, seed: int) -> Answer:
        post = smc(observation, prior, options, seed=seed)
        run = post.sampling
        return Answer(run.seconds * WANTED / run.effective, run.effective, post)

    return answer


def _classical() -> Method:
    from slotflow.baselines.laplace_posterior import classical_posterior

    def answer(observation: Observation, prior: Prior, k: int, seed: int) -> Answer:
        return _timed(lambda: classical_posterior(observation, prior), seed)

    return answer


def _network(model: SlotFlow) -> Method:
    def answer(observation: Observation, prior: Prior, k: int, seed: int) -> Answer:
        return _timed(lambda: model.infer(observation, prior=prior, refine=False), seed)

    return answer


def _exact(model: SlotFlow) -> Method:
    def answer(observation: Observation, prior: Prior, k: int, seed: int) -> Answer:
        began = time.perf_counter()
        post = exact_answer(
            model, observation, prior, draws=WANTED, seed=seed, max_seconds=EXACT_SECONDS
        )
        post.sample(WANTED, seed=seed)
        seconds = time.perf_counter() - began
        assert post.ess is not None
        return Answer(seconds / post.ess, WANTED * post.ess, post)

    return answer


def _paper() -> Method:
    model = published()

    @torch.inference_mode()
    def answer(observation: Observation, prior: Prior, k: int, seed: int) -> Answer:
        began = time.perf_counter()
        post = model.infer(observation, refine=False)
        slots = post.slots
        assert isinstance(slots, PaperSlotDensities)  # of the pooled network
        index = torch.arange(k)
        contexts = slot_contexts(slots.context[None], torch.zeros_like(index), index, slots.k_max)
        generator = torch.Generator().manual_seed(seed)
        slots.target.decode(slots.flow.draw(slots.flow.project(contexts), WANTED, generator))
        return Answer(time.perf_counter() - began, WANTED, post)

    return answer


def _timed(call: Callable[[], Posterior], seed: int) -> Answer:
    """An answer whose draws are independent."""
    began = time.perf_counter()
    post = call()
    post.sample(WANTED, seed=seed)
    return Answer(time.perf_counter() - began, WANTED, post)
