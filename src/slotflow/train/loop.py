"""Training: one function, read from top to bottom.

Signals are simulated on the fly. The batch of step s on process r has the seed batch_seed(seed, s, r), so that a
resumed run sees the same signals as an unbroken one, and any batch can be drawn again from the seed that an error
names. Validation uses seeds of its own, the same at every epoch.

On several GPUs or machines start it with `torchrun --nproc-per-node N -m slotflow train ...`: each process simulates
its share of the batch, DistributedDataParallel averages the gradients, and process 0 alone writes.
"""

from __future__ import annotations

import dataclasses
import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from slotflow.core.devices import check_device
from slotflow.core.progress import progress
from slotflow.core.seeds import VALIDATION_SEED
from slotflow.network.build import MODEL_FILE, load_pretrained
from slotflow.network.checkpoint import CheckpointError, load_weights
from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.objective import Objective
from slotflow.train.batches import batch_seed, draw_batch
from slotflow.train.folder import CHECKPOINT_FILE, RunFolder, TrainingError, failure
from slotflow.train.means import TermMeans
from slotflow.train.objectives import build_objective
from slotflow.train.processes import agree, process_group, stop_signals
from slotflow.train.schedule import cycle_at, predicted_share, set_learning_rate
from slotflow.train.state import TrainingState

__all__ = ["TrainingError", "train"]


def train(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    init: str | Path | None = None,
    minutes: float | None = None,
    device: str | torch.device | None = None,
    quiet: bool = False,
) -> Path:
    """Trains a model.

    Args:
        config: Model, loss and training.
        out: Folder for checkpoint.safetensors, model.safetensors (the best validation), metrics.jsonl and
            config.yaml.
        resume: Continue from the folder's checkpoint.
        init: A model file, a training folder or the name of embedded weights to start from, with a fresh optimizer.
        minutes: Time budget, resumed time included. The learning rate falls as a cosine over it, also where the
            config says "plateau".
        device: Where to train; a GPU if there is one.
        quiet: No progress bar.

    Returns:
        The model file.

    Raises:
        TrainingError: The loss is not finite.
        KeyboardInterrupt: Ctrl-C or SIGTERM, after a checkpoint was written.
    """
    check_device(device)
    out, cfg = Path(out), config.train
    if minutes is not None and cfg.schedule == "plateau":
        # A plateau cannot be fitted to a budget: it may end before the first epoch does.
        cfg = dataclasses.replace(cfg, schedule="cosine")
    with process_group(device) as (device, rank, world):
        # --- what to train, and from where -------------------------------------------------------
        _check_request(config, out, resume, minutes, world)
        torch.manual_seed(cfg.seed)
        model = SlotFlow(config.model)
        if init is not None:
            load_weights(model, load_pretrained(init).state_dict(), init)
        objective = build_objective(model.to(device), config.loss, cfg.bfloat16)
        if cfg.compile:
            objective.compile_parts()
        state = TrainingState(model, config)
        if resume:
            state.restore(out / CHECKPOINT_FILE)
        folder = RunFolder(config, out, state, active=rank == 0)
        step_module: nn.Module = objective
        if world > 1:
            step_module = nn.parallel.DistributedDataParallel(objective)

        # --- the loop ----------------------------------------------------------------------------
        total = cfg.max_epochs * cfg.steps_per_epoch
        clock, resumed_seconds = time.monotonic(), state.seconds
        last_save, pace = clock, _Pace(state.step, clock)
        last_loss = loss = torch.zeros(())
        cycle: int | None = None  # that of the learning rate's cosine
        with stop_signals() as stop, progress(1.0, "train", quiet or rank > 0) as bar:
            while True:
                state.seconds = resumed_seconds + time.monotonic() - clock
                done = state.step / total
                if minutes is not None:
                    done = max(done, state.seconds / (60 * minutes))
                done, stopping = agree(done, stop.is_set(), device, world)
                if done >= 1 or stopping:
                    break
                before, cycle = cycle, cycle_at(cfg, done)[0]
                if before not in (
                    None,
                    cycle,
                ):  # annealed: what a training of this length would give
                    values = validate(objective, config, device, rank, world, state.ema)
                    folder.log_validation(values | {"cycle": before}, state.improve(values["loss"]))
                    pace.restart(state.step)

                seed = batch_seed(cfg.seed, state.step, rank)
                batch = draw_batch(config, cfg.batch_size // world, seed, device)
                objective.ordered = done < config.loss.ordered
                terms = step_module(batch, predicted_share(config.loss.curriculum, done))
                _check_finite(last_loss, state.step - 1, cfg.seed, rank)
                loss = terms["loss"].detach()
                last_loss = loss.to("cpu", non_blocking=True)  # read one step later: no GPU waits
                state.optimizer.zero_grad(set_to_none=True)
                terms["loss"].backward()
                if cfg.clip_norm:
                    nn.utils.clip_grad_norm_(model.parameters(), cfg.clip_norm)
                set_learning_rate(state.optimizer, cfg, state.step, done)
                state.optimizer.step()
                state.follow()
                state.step += 1
                state.means.add(terms)

                # --- metrics, validation, checkpoint ---------------------------------------------
                epoch_end = state.step % cfg.steps_per_epoch == 0
                if state.step % cfg.log_steps == 0 or epoch_end:
                    _check_finite(loss, state.step - 1, cfg.seed, rank)
                    values = state.means.take(device, world)
                    rate = pace.rate(state.step) * cfg.batch_size
                    folder.log_training(values, rate)
                    bar.update(done, step=state.step, **values, signals_per_second=rate)
                if epoch_end:
                    values = validate(objective, config, device, rank, world, state.ema)
                    if cfg.schedule == "plateau":
                        state.plateau.step(values["loss"])
                    improved = state.improve(values["loss"])
                    folder.log_validation(values, improved)
                    if cfg.early_stopping and state.bad_epochs >= cfg.early_stopping:
                        break
                    pace.restart(state.step)
                if epoch_end or time.monotonic() - last_save > 60 * cfg.checkpoint_minutes:
                    _check_finite(loss, state.step - 1, cfg.seed, rank)
                    folder.save()
                    last_save = time.monotonic()

        # --- the end -----------------------------------------------------------------------------
        _check_finite(loss, state.step - 1, cfg.seed, rank)
        if stopping and done < 1:
            folder.save()
            raise KeyboardInterrupt(f"training stopped at step {state.step}; resume it from {out}")
        if state.step % cfg.steps_per_epoch:  # the time budget ended inside an epoch
            if state.means.count:
                values = state.means.take(device, world)
                folder.log_training(values, pace.rate(state.step) * cfg.batch_size)
            values = validate(objective, config, device, rank, world, state.ema)
            improved = values["loss"] < state.best
            state.best = min(state.best, values["loss"])
            folder.log_validation(values, improved)
        folder.save()
        return out / MODEL_FILE


# --- parts of the loop -------------------------------------------------------------------------------


class _Pace:
    """Steps per second since the last line of the metrics."""

    def __init__(self, step: int, now: float) -> None:
        self.step, self.since = step, now

    def rate(self, step: int) -> float:
        """Steps per second since it was last asked."""
        now = time.monotonic()
        rate = (step - self.step) / max(now - self.since, 1e-9)
        self.step, self.since = step, now
        return rate

    def restart(self, step: int) -> None:
        """Leaves the time since it was last asked, a validation, out of the account."""
        self.step, self.since = step, time.monotonic()


@torch.no_grad()
def validate(
    objective: Objective[Any],
    config: Config,
    device: torch.device,
    rank: int,
    world: int,
    ema: dict[str, Tensor],
) -> dict[str, float]:
    """Mean loss terms on the fixed validation set, shared among the processes.

    A compiled encoder is not used: without gradients it would be compiled once more, which takes longer than all
    validations of a short training.
    """
    model = objective.model
    trained = {n: t.clone() for n, t in model.state_dict().items()} if ema else None
    if ema:
        model.load_state_dict(ema)
    model.eval()
    size = max(config.train.batch_size // world, 1)
    chunks = -(-config.train.validation_signals // size)
    means = TermMeans()
    with torch.compiler.set_stance("force_eager") if config.train.compile else nullcontext():
        for chunk in range(rank, -(-chunks // world) * world, world):
            means.add(objective(draw_batch(config, size, VALIDATION_SEED + chunk, device)))
    model.train()
    if trained is not None:
        model.load_state_dict(trained)
    return means.take(device, world)


def _check_request(
    config: Config, out: Path, resume: bool, minutes: float | None, world: int
) -> None:
    """Refuses a run that cannot start, before anything is written."""
    exists = (out / CHECKPOINT_FILE).exists()
    if exists and not resume:
        raise ValueError(f"{out} already holds a checkpoint; resume it or choose another folder.")
    if resume and not exists:
        raise CheckpointError(
            f"{out} holds no checkpoint to resume; check the path or start a new run."
        )
    if minutes is not None and not minutes > 0:
        raise ValueError(f"expected minutes > 0, received {minutes}.")
    if config.train.batch_size % world:
        raise ValueError(
            f"expected a batch_size that {world} processes can share, received {config.train.batch_size}."
        )


def _check_finite(loss: Tensor, step: int, seed: int, rank: int) -> None:
    """Raises if the loss of a step is not finite."""
    if not math.isfinite(value := loss.item()):
        raise failure(f"the loss is {value}", step, batch_seed(seed, step, rank))
