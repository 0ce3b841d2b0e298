"""A small network of the family, and mixtures for it."""

from __future__ import annotations

import dataclasses

import torch

from slotflow.network.config import Config
from slotflow.network.family.mixtures import FamilyBatch, Mixtures
from slotflow.network.family.model import FamilySlotFlow


def small_config() -> Config:
    """The preset with parts that are small enough for tests."""
    config = Config.from_preset("family")
    sizes = dataclasses.replace(
        config.model.family,
        stem=32,
        width=48,
        layers=1,
        second_layers=1,
        heads=4,
        slot_width=32,
        slot_layers=1,
        slot_heads=4,
    )
    train = dataclasses.replace(
        config.train,
        batch_size=24,
        steps_per_epoch=1000,
        validation_signals=24,
        warmup_steps=5,
        bfloat16=False,
        compile=False,
        learning_rate=2e-3,
    )
    return dataclasses.replace(
        config, model=dataclasses.replace(config.model, family=sizes), train=train
    )


def small_model(seed: int = 0) -> FamilySlotFlow:
    """An untrained network whose outputs are not zero."""
    torch.manual_seed(seed)
    model = FamilySlotFlow(small_config().model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model.eval()


def mixtures(n: int, seed: int, varied: bool = False) -> FamilyBatch:
    """Simulated signals on the CPU."""
    return Mixtures(small_config().model, torch.device("cpu")).draw(n, seed, varied)
