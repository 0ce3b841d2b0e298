"""Three tones: the network, the exact step and reversible-jump MCMC on the same signals, under the same prior.

**Distance.** W₂ (`distances.py`) of each marginal at K = 3, components in the order of their frequencies, of the
paper's residuals A − A*, wrap(φ − φ*), f − f*: in units of the data, rad and Hz. A signal's distance is the root mean
square over its three components. (If the residuals of all components were thrown together, as the paper's one number
per parameter suggests, it could only be smaller: pairing components with themselves is one way to carry one heap to the
other.) The floor is the distance of two independent sets of as many draws of the network.

**Exact step.** Of the network itself; for the paper's network, of the default network on the same signals.

**RJMCMC** starts cold from the prior (`baselines/rjmcmc.py`); the paper starts its chains near the truth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotflow.baselines.eryn_compat import load_eryn
from slotflow.baselines.rjmcmc import ChainOptions, rjmcmc
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.sampled import SampledPosterior
from slotflow.studies.answers import exact_of, proposer_for
from slotflow.studies.measures.distances import residuals, wasserstein
from slotflow.studies.measures.parameters import WAVEFORM
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.comparison.plot import plot
from slotflow.studies.paper.comparison.rows import METHODS, PAIRS, K, compare
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.settings import Settings
from slotflow.studies.suites.sets import NOMINAL, SignalSet, batches

__all__ = ["COMPARISON"]

Array = NDArray[np.float64]

SIGNALS = SignalSet(84, NOMINAL, k=K)
DRAW_STEP = 0.01
"""Draws of the signal on show are kept as whole numbers of such parts of a standard deviation."""
CHAIN_DRAWS = 8
"""Effective draws of a chain's median parameter for each draw that is compared; the worst one has far fewer."""
EXACT_SECONDS = 60.0
"""Budget of an exact step, which takes a small part of it."""


def _signals(settings: Settings) -> int:
    """How many signals: 20 at the paper's size, four at the quick one."""
    return max(settings.n // 500, min(4, settings.n // 20))


def _run(bench: Bench) -> Data:
    """All three methods on each signal."""
    load_eryn()  # says at once if it is not installed
    model, s = bench.network(), bench.settings
    proposer = proposer_for(model)
    n, size = 2 * s.draws, _signals(s)
    (sim,) = batches(SIGNALS, size, size, s.seed, bench.device)
    shown = int(np.argsort(sim.sigma.cpu().numpy())[size // 2])
    found: list[Data] = []
    kept: Data = {}
    for i in range(size):
        observation, truth = sim.observation(i), sim.components(i)
        amortized = model.infer(observation, refine=False, prior=NOMINAL)
        proposed = amortized
        if proposer is not model:
            proposed = proposer.infer(observation, refine=False, prior=NOMINAL)
        exact = exact_of(
            proposed.refine(draws=max(4 * n, 100), seed=s.seed + i, max_seconds=EXACT_SECONDS)
        )
        chain = rjmcmc(
            observation, NOMINAL, ChainOptions(effective=CHAIN_DRAWS * n), seed=s.seed + i
        )
        posteriors = {"network": amortized, "exact": exact, "rjmcmc": chain}
        entry: Data = {
            "sigma": float(sim.sigma[i]),
            "gap": float(np.diff(WAVEFORM.place_of(truth)).min()),
            "k_probs": {name: post.k_probs.tolist() for name, post in posteriors.items()},
            "exact_ess": exact.ess,
        } | _chain(chain)
        if exact.sampled(K) and K in chain.slots.theta:
            draws = _draws(posteriors, truth, n, s.seed + i)
            entry |= _distances(draws)
            if i == shown:
                kept = _shown(draws, truth, entry)
        found.append(entry)
        bench.advance(1)
    return {
        "network": model.config.name,
        "k": K,
        "draws": n,
        "signals": found,
        "shown": kept,
    }


def _chain(post: SampledPosterior) -> Data:
    """How a chain went."""
    s = post.sampling
    return {
        "rjmcmc": {
            "effective": s.effective,
            "least_effective": s.least_effective,
            "r_hat": s.r_hat,
            "k_error": s.k_error,
            "jumps": s.jumps,
            "warm_up": s.warm_up,
            "steps": s.steps,
            "seconds": round(s.seconds, 2),
        }
    }


def _draws(posteriors: dict[str, Posterior], truth: Array, n: int, seed: int) -> dict[str, Array]:
    """Residuals of n draws of each method at the true K, (n, K, P), and of the network's once more."""
    draws = {name: post.sample(n, K, seed) for name, post in posteriors.items()}
    draws["again"] = posteriors["network"].sample(n, K, seed + 1)
    return {name: residuals(sample, truth) for name, sample in draws.items()}


def _distances(draws: dict[str, Array]) -> Data:
    """W₂ of each pair and sd of each method, (K, P) each."""
    return {
        "w2": {
            pair: _short(wasserstein(draws[one], draws[other]))
            for pair, (one, other) in PAIRS.items()
        },
        "sd": {name: _short(draws[name].std(0, ddof=1)) for name in METHODS},
    }


def _shown(draws: dict[str, Array], truth: Array, entry: Data) -> Data:
    """One signal's draws, small enough for a file: whole numbers, as text, of a step per parameter."""
    step = DRAW_STEP * np.asarray(entry["sd"]["exact"]).ravel()
    columns = {
        name: [" ".join(map(str, column)) for column in _whole(draws[name], step).T]
        for name in METHODS
    }
    return {"truth": truth.tolist(), "sigma": entry["sigma"], "step": step.tolist()} | columns


def _whole(draws: Array, step: Array) -> NDArray[np.int64]:
    """Draws in units of the steps, (n, KP)."""
    return np.rint(draws.reshape(len(draws), -1) / step).astype(np.int64)


def _short(x: Array) -> list[list[float]]:
    """Values to four digits."""
    return [[float(f"{value:.4g}") for value in line] for line in x]


COMPARISON = Result(
    name="comparison",
    title="Network, exact step and RJMCMC on three tones",
    section="5.1.5, figures 7 and 8, table 2",
    caption="Corner: all nine parameters, less the truth (grey lines), of the signal whose σ is the median; contours "
    "hold 39 % and 86 %. Slots of the network are independent, so its contours between tones are never tilted. Upper "
    "right: the mean of p(K | x) over all signals (values below the axis are drawn on it); W₂ in units of the exact "
    "posterior's standard deviation, with the W₂ of two samples of one law as a floor; and ratios of standard "
    "deviations, one point per component, beside the ranges of the paper.",
    uses=("n", "draws", "seed", "model"),
    work=_signals,
    run=_run,
    compare=compare,
    plot=plot,
    needs=("eryn", "baselines"),
)
