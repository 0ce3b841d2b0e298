"""Baselines: what an expert would use without a network."""

from slotflow.baselines.rjmcmc import rjmcmc
from slotflow.baselines.smc import smc
from slotflow.exact.classical import Classical, classical
from slotflow.posterior.sampled import SampledPosterior

__all__ = ["Classical", "SampledPosterior", "classical", "rjmcmc", "smc"]
