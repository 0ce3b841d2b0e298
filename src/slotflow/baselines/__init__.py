"""Baselines: what an expert would use without a network, on the same prior and likelihood.

- `rjmcmc`: reversible-jump MCMC with Eryn; `ensemble`, `moves`, `births`, `chains`, `eryn_compat` are its parts.
- `smc`: tempered sequential Monte Carlo from the prior; `particles`, `annealing`, `redraw` are its parts.
- `tabulated`: the likelihood from tables, which both ask millions of times.
- `laplace_posterior`: the classical estimator (`slotflow.exact.classical`) as a posterior like any other.
"""

from slotflow.baselines.rjmcmc import rjmcmc
from slotflow.baselines.smc import smc
from slotflow.exact.classical import Classical, classical
from slotflow.posterior.sampled import SampledPosterior

__all__ = ["Classical", "SampledPosterior", "classical", "rjmcmc", "smc"]
