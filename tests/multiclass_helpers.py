"""A network of several classes so small that it answers in milliseconds, and signals for it."""

from __future__ import annotations

import dataclasses

import torch
from flow_helpers import FLOW, perturb
from torch import Tensor

from slotflow import Grid, Prior, SlotFlow
from slotflow.network.config import EncoderConfig, ModelConfig
from slotflow.network.multiclass.model import MulticlassSlotFlow
from slotflow.signal.simulation_classes import ClassSimulation, simulate_classes, unit_classes
from slotflow.signal.waveforms import Waveform

__all__ = ["CLASSES", "LONG", "SHORT", "WIDTH", "make_batch", "make_model", "small_config"]

LONG, SHORT = Grid(64, 0.1), Grid(40, 0.05)
CLASSES = unit_classes(LONG.duration, sweep=4.0, decay=(1.5, 6.0))
WIDTH = 10


def small_config(
    classes: dict[str, Waveform] | None = None, k_max: int = 3, jitter: float = 0.0
) -> ModelConfig:
    prior = Prior(
        k_min=0,
        k_max=k_max,
        frequency=(2.0, 3.0),
        min_separation=0.0,
        sigma=(1.0, 1.0),
        classes=CLASSES if classes is None else classes,
    )
    encoder = EncoderConfig(channels=(4, 6, 8), heads=2, context=WIDTH)
    flow = dataclasses.replace(FLOW, radius_jitter=jitter)
    return ModelConfig("tiny", LONG, SHORT, prior, encoder, flow)


def make_model(
    seed: int, config: ModelConfig | None = None, dtype: torch.dtype = torch.float64
) -> MulticlassSlotFlow:
    """A network whose slots, classes and coordinates matter."""
    torch.manual_seed(seed)
    model = SlotFlow(small_config() if config is None else config).double()
    assert isinstance(model, MulticlassSlotFlow)
    for i, name in enumerate(model.classes):
        perturb(model.flow_of(name), seed + i, 0.1)
    return model.to(dtype)


def make_batch(model: MulticlassSlotFlow, n: int, seed: int) -> ClassSimulation:
    """Mixtures in the type of the model."""
    config = model.config
    batch = simulate_classes(config.prior, n, LONG, SHORT, gain=config.gain, seed=seed)
    assert batch.short is not None
    streams: dict[str, Tensor] = {
        "long": batch.long.to(model.dtype),
        "short": batch.short.to(model.dtype),
    }
    return dataclasses.replace(batch, **streams)
