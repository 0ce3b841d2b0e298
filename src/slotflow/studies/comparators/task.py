"""The task of the leaderboard, and the recipe with which every method is trained on it.

One to five tones, as in the paper's ablations (5.3.1), on a record of 40 s instead of 300 s with 256 and 64 samples
instead of 3,000 and 5,120. The band of 0.5 Hz has 20 bins 1/T instead of 150; tones keep the distance of three bins,
and the noise reaches σ = 1.5 √(256/3000) ≈ 0.44, so that the bounds on A, φ and f T from the long stream are those of
the paper's data. At the published size a training of minutes learns the counts at best, and methods would differ by
chance. Here all of them count within some hundred steps and go on to learn phases and frequencies.

Encoder and flow have the sizes of preset `debug`, which gives each method between one and two hundred thousand weights.
Optimizer and rates are those of the ablations (`slotflow.studies.ablations.ablation.small_config`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from slotflow.data.sampling import Grid
from slotflow.network.config import Config
from slotflow.studies.trainings import varied

__all__ = ["task_config"]

LONG, SHORT = Grid(256, 0.15625), Grid(64, 0.03125)
"""40 s at 6.4 Hz and 2 s at 32 Hz."""
K_MAX = 5
LARGEST_SIGMA = 1.5 * math.sqrt(LONG.n / 3000)
"""The paper's largest noise, where 3,000 samples say as much as these do."""
TINY: dict[str, dict[str, Any]] = {
    "encoder": {"channels": (8, 8, 16), "context": 16},
    "flow": {"hidden": 16, "bins": 4},
}
"""Sizes of the networks of a quick look."""


def task_config(steps: int, batch: int, quick: bool = False) -> Config:
    """Model, signals and training that all methods share.

    Args:
        steps: Steps of a training, over which the learning rate rises and falls.
        batch: Signals of a step.
        quick: Whether tiny networks and the three tones of preset `debug` will do.
    """
    config = varied(
        Config.from_preset("debug"),
        encoder={"channels": (32, 32, 32), "noise": False},
        train={
            "batch_size": batch,
            "optimizer": "muon",
            "learning_rate": 3e-3,
            "matrix_learning_rate": 0.02,
            "schedule": "cosine",
            "warmup_steps": steps // 10,
            "ema": 0.98,
            "clip_norm": 5.0,
        },
    )
    if quick:
        return varied(config, **TINY)
    prior = replace(
        config.model.prior,
        k_max=K_MAX,
        min_separation=3 / LONG.duration,
        sigma=(0.0, LARGEST_SIGMA),
    )
    return replace(config, model=replace(config.model, long=LONG, short=SHORT, prior=prior))
