"""What a run leaves in its folder: config, metrics, the best model and checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from slotflow.core.files import atomic_path
from slotflow.network.build import MODEL_FILE
from slotflow.network.checkpoint import save_model
from slotflow.network.config import Config
from slotflow.train.batches import batch_seed
from slotflow.train.metrics import MetricsLog
from slotflow.train.state import TrainingState

__all__ = ["CHECKPOINT_FILE", "RunFolder", "TrainingError", "failure"]

CHECKPOINT_FILE = "checkpoint.safetensors"
"""All that a resumed run needs."""
METRICS_FILE = "metrics.jsonl"
"""Means of the loss terms, line by line."""
CONFIG_FILE = "config.yaml"
"""The config of the run."""


class TrainingError(RuntimeError):
    """Training that cannot go on, with the step and the seed that show why."""


class RunFolder:
    """What process 0 writes: config, metrics, the best model and checkpoints.

    Args:
        config: Of the run.
        out: Its folder, which is made.
        state: The training, resumed or new.
        active: Whether this is process 0; the others write nothing.
    """

    def __init__(self, config: Config, out: Path, state: TrainingState, active: bool) -> None:
        self.config, self.out, self.state, self.active = config, out, state, active
        if not active:
            return
        out.mkdir(parents=True, exist_ok=True)
        with atomic_path(out / CONFIG_FILE) as temporary:
            temporary.write_text(yaml.safe_dump(config.to_dict(), sort_keys=False))
        for leftover in (*out.glob(".checkpoint.*"), *out.glob(".model.*")):
            leftover.unlink(missing_ok=True)  # of a process that was killed while writing
        self.log = MetricsLog(out / METRICS_FILE, state.step)

    def log_training(self, means: dict[str, float], signals_per_second: float) -> None:
        """Appends a line on the last steps."""
        if not self.active:
            return
        rate = self.state.optimizer.param_groups[0]["lr"]
        values = {**means, "lr": rate, "signals_per_second": signals_per_second}
        self.log.write(self.config, "train", self.state.step, self.state.seconds, values)

    def log_validation(self, values: dict[str, float], improved: bool) -> None:
        """Appends a line on a validation and, if it is the best so far, writes the model."""
        if not self.active:
            return
        state, cfg = self.state, self.config.train
        self.log.write(self.config, "val", state.step, state.seconds, values)
        if not improved:
            return
        device = state.model.device
        on_gpu = device.type == "cuda"
        facts = {
            "seed": cfg.seed,
            "steps": state.step,
            "signals": state.step * cfg.batch_size,
            "seconds": round(state.seconds, 1),
            "device": torch.cuda.get_device_name(device) if on_gpu else device.type,
            "validation": values,
        }
        save_model(self.out / MODEL_FILE, state.weights, self.config.model, facts)

    def save(self) -> None:
        """Writes a checkpoint, but never weights that are not finite: a finite loss can have such a gradient."""
        if not self.active:
            return
        state, seed = self.state, self.config.train.seed
        if not all(bool(p.isfinite().all()) for p in state.model.parameters()):
            last = state.step - 1
            raise failure("the gradient is not finite", last, batch_seed(seed, last))
        state.save(self.out / CHECKPOINT_FILE)


def failure(what: str, step: int, seed: int) -> TrainingError:
    """The error of a step that went wrong, with the seed of its batch."""
    return TrainingError(
        f"{what} at step {step}; its batch has the seed {seed}. Lower the learning rate or set clip_norm, "
        "and resume from the last checkpoint, which is whole."
    )
