"""Baselines: what an expert would use without a network."""

from slotflow.baselines.classical import Classical, classical
from slotflow.baselines.rjmcmc import rjmcmc
from slotflow.baselines.sampled import SampledPosterior
from slotflow.baselines.smc import smc

__all__ = ["Classical", "SampledPosterior", "classical", "rjmcmc", "smc"]
