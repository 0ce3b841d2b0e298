"""What a training step gets: a seed and signals."""

from __future__ import annotations

import random
from functools import lru_cache

import torch

from slotflow.core.seeds import TRAINING_SEED, RandomStream, stream_seed
from slotflow.data.sampling import Grid
from slotflow.network.config import Config, ModelConfig
from slotflow.network.family.mixtures import FamilyBatch, Mixtures
from slotflow.signal.simulation import Simulation, simulate
from slotflow.signal.simulation_classes import simulate_classes
from slotflow.signal.simulation_gaps import with_gaps
from slotflow.signal.waveforms import TONE

__all__ = ["batch_seed", "draw_batch"]

MOST_MISSING = 0.5
"""Largest share of samples that signals with gaps miss."""


def batch_seed(seed: int, step: int, rank: int = 0) -> int:
    """Seed of the batch of one step and process: distinct for steps < 2³² and ranks < 2¹⁰."""
    return TRAINING_SEED + (seed % 2**19) * 2**42 + step * 2**10 + rank


def draw_batch(config: Config, n: int, seed: int, device: torch.device) -> Simulation | FamilyBatch:
    """N signals of a step, under the model's prior or the mixture's.

    They have the model's short stream, another one, or none; some steps' signals have gaps.
    """
    if config.model.family is not None:
        return _mixtures(config.model, device).draw(n, seed)
    model, short = config.model, _short_grid(config, seed)
    if model.prior.waveform != TONE:
        return simulate_classes(
            model.prior, n, model.long, short, gain=model.gain, seed=seed, device=device
        )
    gaps = _has_gaps(config, seed)
    drawn = simulate(
        model.prior,
        n,
        model.long,
        None if gaps else short,
        seed=seed,
        device=device,
        mixture=config.mixture,
    )
    return with_gaps(drawn, MOST_MISSING, seed) if gaps else drawn


def _has_gaps(config: Config, seed: int) -> bool:
    """Whether the signals of a step have gaps."""
    share = config.train.gaps
    return share > 0 and random.Random(stream_seed(seed, RandomStream.GAPS)).random() < share


@lru_cache(maxsize=2)
def _mixtures(model: ModelConfig, device: torch.device) -> Mixtures:
    """The source of a family's signals; its tables are made once."""
    return Mixtures(model, device)


def _short_grid(config: Config, seed: int) -> Grid | None:
    """The short stream of a step's signals: the model's, another one, or none."""
    cfg, grid, long = config.train, config.model.short, config.model.long
    if not cfg.short_dropped + cfg.short_varied:
        return grid
    draw = random.Random(stream_seed(seed, RandomStream.SHORT_GRIDS))
    chance = draw.random()
    if chance < cfg.short_dropped:
        return None
    if chance < cfg.short_dropped + cfg.short_varied:
        # 1 to 30 % of the long stream, anywhere in it
        duration = long.duration * 0.01 * 30 ** draw.random()
        start = long.t0 + draw.random() * (long.duration - duration)
        return Grid(grid.n, duration / grid.n, start)
    return grid
