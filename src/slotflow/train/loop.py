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
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from slotflow.core.files import atomic_path
from slotflow.core.progress import progress
from slotflow.core.seeds import VALIDATION_SEED
from slotflow.network.checkpoint import (
    CheckpointError,
    flatten_optimizer,
    load_model,
    load_training,
    load_weights,
    restore_optimizer,
    save_model,
    save_training,
)
from slotflow.network.config import Config, LossConfig
from slotflow.network.model import SlotFlow
from slotflow.network.paper.loss import SlotFlowLoss
from slotflow.network.paper.model import PooledSlotFlow
from slotflow.network.zoom.loss import ZoomLoss
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.train.batches import batch_seed, draw_batch
from slotflow.train.metrics import MetricsLog
from slotflow.train.processes import agree, process_group, reduce, stop_signals
from slotflow.train.schedule import predicted_share, set_learning_rate

__all__ = ["TrainingError", "train"]


class TrainingError(RuntimeError):
    """Training that cannot go on, with the step and the seed that show why."""


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
        init: A model file whose weights to start from, with a fresh optimizer.
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
    out, cfg = Path(out), config.train
    if minutes is not None and cfg.schedule == "plateau":
        # A plateau cannot be fitted to a budget: it may end before the first epoch does.
        cfg = dataclasses.replace(cfg, schedule="cosine")
    checkpoint, model_file, metrics_file = (
        out / name for name in ("checkpoint.safetensors", "model.safetensors", "metrics.jsonl")
    )
    with process_group(device) as (device, rank, world):
        # --- what to train, and from where -------------------------------------------------------
        if checkpoint.exists() and not resume:
            raise ValueError(
                f"{out} already holds a checkpoint; resume it or choose another folder."
            )
        if resume and not checkpoint.exists():
            raise CheckpointError(
                f"{out} holds no checkpoint to resume; check the path or start a new run."
            )
        if minutes is not None and not minutes > 0:
            raise ValueError(f"expected minutes > 0, received {minutes}.")
        if cfg.batch_size % world:
            raise ValueError(
                f"expected a batch_size that {world} processes can share, received {cfg.batch_size}."
            )
        torch.manual_seed(cfg.seed)
        model = SlotFlow(config.model)
        if init is not None:
            load_weights(model, load_model(init).state_dict(), init)
        model.to(device)
        objective = build_objective(model, config.loss, cfg.bfloat16)
        if cfg.compile:
            objective.compile_parts()
        ema = {n: p.detach().clone() for n, p in model.state_dict().items()} if cfg.ema else {}
        kind = torch.optim.AdamW if cfg.optimizer == "adamw" else torch.optim.Adam
        decay = cfg.weight_decay if cfg.optimizer == "adamw" else 0.0
        optimizer = kind(
            model.parameters(),
            cfg.learning_rate,
            cfg.betas,
            weight_decay=decay,
            fused=device.type == "cuda",
        )
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer,
            factor=cfg.plateau_factor,
            patience=cfg.plateau_patience,
            min_lr=cfg.min_learning_rate,
            threshold_mode="abs",  # a relative one points the wrong way once the loss is negative
        )
        state: dict[str, Any] = {
            "step": 0, "seconds": 0.0, "best": math.inf, "bad_epochs": 0, "sums": {}, "summed": 0,
        }  # fmt: skip
        if resume:
            parts, saved = load_training(checkpoint)
            _check_same_run(saved["config"], config.to_dict(), checkpoint)
            load_weights(model, parts["model"], checkpoint)
            ema = {n: t.to(device) for n, t in parts.get("ema", {}).items()}
            restore_optimizer(optimizer, parts.get("optimizer", {}), saved["optimizer_groups"])
            plateau.load_state_dict(saved["plateau"])
            torch.set_rng_state(parts["rng"]["cpu"])
            state = {name: saved[name] for name in state}
        if rank == 0:
            out.mkdir(parents=True, exist_ok=True)
            with atomic_path(out / "config.yaml") as temporary:
                temporary.write_text(yaml.safe_dump(config.to_dict(), sort_keys=False))
            for leftover in (*out.glob(".checkpoint.*"), *out.glob(".model.*")):
                leftover.unlink(missing_ok=True)  # of a process that was killed while writing
        current = model.state_dict()
        averages = [t for t in ema.values() if t.is_floating_point()]
        weights = [current[name] for name, t in ema.items() if t.is_floating_point()]
        log = MetricsLog(metrics_file, state["step"]) if rank == 0 else None
        step_module: nn.Module = objective
        if world > 1:
            step_module = nn.parallel.DistributedDataParallel(objective)

        def save() -> None:
            if rank == 0:
                _check_weights(model, state["step"], cfg.seed)
                tensors, groups = flatten_optimizer(optimizer)
                rng = {"cpu": torch.get_rng_state()}
                parts = {"model": model.state_dict(), "ema": ema, "optimizer": tensors, "rng": rng}
                rest = {"optimizer_groups": groups, "plateau": plateau.state_dict()}
                rest |= {**state, "sums": {n: float(v) for n, v in state["sums"].items()}}
                save_training(checkpoint, parts, {"config": config.to_dict(), **rest})

        clock, resumed_seconds = time.monotonic(), state["seconds"]
        last_save = last_log = clock
        logged_step = state["step"]

        def report() -> dict[str, float]:
            nonlocal last_log, logged_step
            means, now = reduce(state, device, world), time.monotonic()
            rate = (state["step"] - logged_step) * cfg.batch_size / max(now - last_log, 1e-9)
            last_log, logged_step = now, state["step"]
            if log is not None:
                rest = {"lr": optimizer.param_groups[0]["lr"], "signals_per_second": rate}
                log.write(config, "train", state["step"], state["seconds"], {**means, **rest})
            return {**means, "signals_per_second": rate}

        # --- the loop ----------------------------------------------------------------------------
        total = cfg.max_epochs * cfg.steps_per_epoch
        last_loss = loss = torch.zeros(())
        done = 0.0
        with stop_signals() as stop, progress(1.0, "train", quiet or rank > 0) as bar:
            while True:
                step = state["step"]
                now = time.monotonic()
                state["seconds"] = resumed_seconds + now - clock
                done = step / total
                if minutes is not None:
                    done = max(done, state["seconds"] / (60 * minutes))
                done, stopping = agree(done, stop.is_set(), device, world)
                if done >= 1 or stopping:
                    break

                seed = batch_seed(cfg.seed, step, rank)
                batch = draw_batch(config, cfg.batch_size // world, seed, device)
                share = predicted_share(config.loss.curriculum, done)
                terms = step_module(batch, share)
                _check_finite(last_loss, step - 1, cfg.seed, rank)
                loss = terms["loss"].detach()
                last_loss = loss.to("cpu", non_blocking=True)  # read one step later: no GPU waits
                optimizer.zero_grad(set_to_none=True)
                terms["loss"].backward()
                if cfg.clip_norm:
                    nn.utils.clip_grad_norm_(model.parameters(), cfg.clip_norm)
                set_learning_rate(optimizer, cfg, step, done)
                optimizer.step()
                if ema:
                    decay = min(cfg.ema, (1 + step) / (10 + step))
                    torch._foreach_lerp_(averages, weights, 1 - decay)

                state["step"] = step = step + 1
                state["summed"] += 1
                for name, term in terms.items():
                    state["sums"][name] = state["sums"].get(name, 0.0) + term.detach()
                epoch_end = step % cfg.steps_per_epoch == 0
                if step % cfg.log_steps == 0 or epoch_end:
                    _check_finite(loss, step - 1, cfg.seed, rank)
                    bar.update(done, step=step, **report())

                # --- validation, schedule, checkpoint --------------------------------------------
                if epoch_end:
                    values = validate(objective, config, device, rank, world, ema)
                    if cfg.schedule == "plateau":
                        plateau.step(values["loss"])
                    improved = values["loss"] < state["best"]
                    state["best"] = min(state["best"], values["loss"])
                    state["bad_epochs"] = 0 if improved else state["bad_epochs"] + 1
                    if log is not None:
                        log.write(config, "val", step, state["seconds"], values)
                        if improved:
                            save_model(
                                model_file,
                                _averaged(model, ema),
                                facts(config, state, values, device),
                            )
                    if cfg.early_stopping and state["bad_epochs"] >= cfg.early_stopping:
                        break
                    last_log = time.monotonic()
                if epoch_end or time.monotonic() - last_save > 60 * cfg.checkpoint_minutes:
                    _check_finite(loss, step - 1, cfg.seed, rank)
                    save()
                    last_save = time.monotonic()

        # --- the end -----------------------------------------------------------------------------
        _check_finite(loss, state["step"] - 1, cfg.seed, rank)
        if stopping and done < 1:
            save()
            raise KeyboardInterrupt(
                f"training stopped at step {state['step']}; resume it from {out}"
            )
        if state["step"] % cfg.steps_per_epoch:  # the time budget ended inside an epoch
            if state["summed"]:
                report()
            values = validate(objective, config, device, rank, world, ema)
            if log is not None:
                log.write(config, "val", state["step"], state["seconds"], values)
                if values["loss"] < state["best"]:
                    save_model(
                        model_file, _averaged(model, ema), facts(config, state, values, device)
                    )
            state["best"] = min(state["best"], values["loss"])
        save()
        return model_file


# --- parts of the loop -------------------------------------------------------------------------------


def build_objective(
    model: SlotFlow, config: LossConfig, low_precision: bool
) -> SlotFlowLoss | ZoomLoss:
    """The objective that belongs to a model."""
    if isinstance(model, ZoomSlotFlow):
        return ZoomLoss(model, config, low_precision)
    assert isinstance(model, PooledSlotFlow)
    return SlotFlowLoss(model, config, low_precision)


@torch.no_grad()
def validate(
    objective: SlotFlowLoss | ZoomLoss,
    config: Config,
    device: torch.device,
    rank: int,
    world: int,
    ema: dict[str, Tensor],
) -> dict[str, float]:
    """Mean loss terms on the fixed validation set, shared among the processes."""
    model = objective.model
    trained = {n: t.clone() for n, t in model.state_dict().items()} if ema else None
    if ema:
        model.load_state_dict(ema)
    model.eval()
    size = max(config.train.batch_size // world, 1)
    chunks = -(-config.train.validation_signals // size)
    totals: dict[str, Any] = {"sums": {}, "summed": 0}
    for chunk in range(rank, -(-chunks // world) * world, world):
        terms = objective(draw_batch(config, size, VALIDATION_SEED + chunk, device))
        for name, term in terms.items():
            totals["sums"][name] = totals["sums"].get(name, 0.0) + term
        totals["summed"] += 1
    model.train()
    if trained is not None:
        model.load_state_dict(trained)
    return reduce(totals, device, world)


def _check_finite(loss: Tensor, step: int, seed: int, rank: int) -> None:
    """Raises if the loss of a step is not finite."""
    if not math.isfinite(value := loss.item()):
        raise _failure(f"the loss is {value}", step, batch_seed(seed, step, rank))


def _check_weights(model: nn.Module, step: int, seed: int) -> None:
    """Keeps weights that are not finite out of a checkpoint: a finite loss can have such a gradient."""
    if not all(bool(p.isfinite().all()) for p in model.parameters()):
        raise _failure("the gradient is not finite", step - 1, batch_seed(seed, step - 1))


def _failure(what: str, step: int, seed: int) -> TrainingError:
    return TrainingError(
        f"{what} at step {step}; its batch has the seed {seed}. Lower the learning rate or set clip_norm, "
        "and resume from the last checkpoint, which is whole."
    )


def _check_same_run(saved: dict[str, Any], config: dict[str, Any], checkpoint: Path) -> None:
    """Refuses to resume with another config, but for what does not change the steps taken so far."""
    free = {"max_epochs", "early_stopping", "log_steps", "checkpoint_minutes"}
    for section, entries in config.items():
        before = saved.get(section)
        if (before is None) != (entries is None):  # one has a mixture, the other has not
            raise CheckpointError(
                f"{checkpoint}: trained with {section} = {before}, asked to resume with {entries}; resume with the "
                "run's own config, or start a new run with init."
            )
        known: dict[str, Any] = before or {}
        for key, value in (entries or {}).items():
            if key not in free and known.get(key, value) != value:
                raise CheckpointError(
                    f"{checkpoint}: trained with {section}.{key} = {known[key]}, asked to resume with "
                    f"{value}; resume with the run's own config, or start a new run with init."
                )


def _averaged(model: SlotFlow, ema: dict[str, Tensor]) -> SlotFlow:
    """The model with its averaged weights, as a copy; the model itself where there are none."""
    if not ema:
        return model
    copy = SlotFlow(model.config)
    copy.load_state_dict(ema)
    return copy


def facts(
    config: Config, state: dict[str, Any], values: dict[str, float], device: torch.device
) -> dict[str, object]:
    """What a model file says of its training."""
    return {
        "seed": config.train.seed,
        "steps": state["step"],
        "signals": state["step"] * config.train.batch_size,
        "seconds": round(state["seconds"], 1),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "validation": values,
    }
