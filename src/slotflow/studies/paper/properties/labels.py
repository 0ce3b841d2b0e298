"""Whether a density depends on the labels of the components: its largest change when labels are permuted."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import torch

from slotflow.baselines.moves import StatePrior
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.classical import classical
from slotflow.signal.evidence import log_evidence
from slotflow.signal.fit import Laplace
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import simulate
from slotflow.studies.answers import exact_answer
from slotflow.studies.measures.parameters import SIZE, WAVEFORM
from slotflow.studies.paper.cost.methods import SAMPLERS
from slotflow.studies.paper.properties.methods import EXACT_SECONDS, SET_NUMBER, Found, Methods
from slotflow.studies.suites.sets import GRIDS, NOMINAL, suite_seed

__all__ = ["label_changes"]

PERMUTED_TONES = 3
"""Tones whose labels are permuted."""
COMPONENT_SETS = 2
"""Sets of tones that densities are asked about."""
LARGEST_CHANGE = 1000.0
"""Changes of a log density are cut off here."""


def label_changes(methods: Methods, seed: int) -> Found:
    """Largest change of a log density when labels are permuted."""
    number = suite_seed(SET_NUMBER, 100, seed)
    sim = simulate(NOMINAL, 1, *GRIDS, mode="physical", seed=number, k=PERMUTED_TONES)
    observation = sim.observation(0)
    exact = exact_answer(
        methods.yardstick, observation, NOMINAL, seed=seed, max_seconds=EXACT_SECONDS
    )
    theta = exact.sample(COMPONENT_SETS, PERMUTED_TONES, seed=seed)
    orders = [list(order) for order in itertools.permutations(range(PERMUTED_TONES))]
    permuted = np.concatenate([theta[:, order] for order in orders])
    posteriors = methods.posteriors(exact, observation)
    found: Found = {
        name: {"label_change": _largest(np.asarray(post.log_prob(permuted)), COMPONENT_SETS)}
        for name, post in posteriors.items()
    }
    for name in methods.networks():
        # of the bare product of the slots, q_1(θ_π(1)) q_2(θ_π(2)) …
        each = posteriors[name].slots.log_prob(theta)  # (sets, slot, component)
        slot = np.arange(PERMUTED_TONES)
        bare = np.concatenate([each[:, slot, order].sum(-1) for order in orders])
        found[name]["bare_change"] = _largest(bare, COMPONENT_SETS)
    change = _largest(_target_of_samplers(observation, permuted), COMPONENT_SETS)
    found |= {name: {"label_change": change} for name in SAMPLERS}
    return found | {"classical": {"label_change": _classical_change(observation, orders)}}


def _target_of_samplers(observation: Observation, theta: Array) -> Array:
    """Ln of what RJMCMC and SMC sample, up to a constant, at labelled components (n, K, P); (n,)."""
    statistics = Statistics.from_observation(observation)
    table, z = Tabulated(statistics, NOMINAL), WAVEFORM.to_z(theta, statistics.reference)
    prior = StatePrior(replace(NOMINAL, k_min=PERMUTED_TONES, k_max=PERMUTED_TONES))
    log_prior = prior(z, np.ones(z.shape[:2], dtype=bool))
    target: Array = log_prior + table.log_likelihood(table.rss(z))
    return target


def _classical_change(observation: Observation, orders: list[list[int]]) -> float:
    """Largest change of Laplace's evidence of the classical fit when its tones are relabelled."""
    fit = classical(observation, NOMINAL).fits[PERMUTED_TONES]
    n = sum(channel.n for channel in observation.channels)
    evidences = [float(log_evidence(_relabelled(fit, order), NOMINAL, n)[0]) for order in orders]
    return _largest(np.array(evidences), 1)


def _relabelled(fit: Laplace, order: list[int]) -> Laplace:
    """A fit of one signal with its tones in another order."""
    index = torch.tensor([SIZE * j + i for j in order for i in range(SIZE)])
    covariance = fit.covariance[:, index][:, :, index]
    return replace(fit, theta=fit.theta[:, order], covariance=covariance)


def _largest(values: Array, sets: int) -> float:
    """Largest change of (orders × sets,) values from the first order to any other, `LARGEST_CHANGE` at most."""
    by_order = values.reshape(-1, sets)
    with np.errstate(invalid="ignore"):
        change = np.nan_to_num(np.abs(by_order - by_order[0]), nan=0.0, posinf=LARGEST_CHANGE)
    return float(min(change.max(), LARGEST_CHANGE))
