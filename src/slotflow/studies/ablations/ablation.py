r"""An ablation: variants of one network, trained side by side in rounds, and what is measured of each of them.

A round is one variant with one seed, so that the rounds can share out the cores of a machine. All variants of a seed
begin with weights of that seed, see the same signals in the same order (`slotflow.studies.trainings`), and answer the
same fresh ones afterwards, whichever process trains them; only seeds that all variants have count. Each signal is drawn
once; the paper trains for many passes over a set of the stated size.

**In small.** At the published size, trainings that are short enough for an ablation leave the phases unlearned, and
variants differ by chance alone. The task here is one that a core learns within a minute. The record is 15 s long
instead of 300 s, with 96 and 32 samples instead of 3,000 and 5,120, so that the band of 0.5 Hz has 7.5 bins 1/T instead
of 150; tones keep the distance of three bins and are at most three. The noise reaches σ = 1.5 √(96/3000) ≈ 0.27: the
bounds on A, φ and f T from the long stream are those of the paper's data. The network has the parts of preset
`paper` with about a hundred thousand weights. What such a network shows of a choice need not be what a large one would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from slotflow.data.sampling import Grid
from slotflow.network.config import Config
from slotflow.studies.ablations.errors import PARAMETERS, errors_of, score_of
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup
from slotflow.studies.measures.means import mean_and_error
from slotflow.studies.suites.sets import suite_seed
from slotflow.studies.trainings import Training, draw_batch, train_together, training_seed, varied

__all__ = ["Ablation", "Size", "small_config"]

LONG, SHORT = Grid(96, 0.15625), Grid(32, 0.03125)
"""15 s at 6.4 Hz and 1 s at 32 Hz."""
K_MAX = 3
"""Largest number of tones."""
LARGEST_SIGMA = 1.5 * math.sqrt(LONG.n / 3000)
"""The paper's largest noise, where 3,000 samples say as much as these do."""
EVALUATION_BATCH = 256
"""Signals that are evaluated together, which bounds the memory of their draws."""
HIGH_QUANTILE = 0.99
"""Quantile of the gradient's norms that says how calm a training was."""


@dataclass(frozen=True)
class Size:
    """How much a variant is trained and evaluated in a round."""

    steps: int
    """Steps of each training."""
    batch: int
    """Signals of a step."""
    seeds: int
    """Trainings of each variant."""
    signals: int
    """Fresh signals of the evaluation."""
    draws: int
    """Draws of each slot."""
    checkpoints: int
    """Equal parts of the training after which loss and score are looked at."""


QUICK = Size(steps=4, batch=16, seeds=1, signals=16, draws=16, checkpoints=2)


def small_config(size: Size) -> Config:
    """What all variants of an ablation start from: the paper's network in small, for up to three tones.

    Rates and batch are those with the least loss after half a minute in single trials on tasks like this one: 0.01,
    0.02 and 0.05 for the matrices, batches of 32, 64 and 128 signals. The jitter of the radius makes the target
    well posed.
    """
    preset = Config.from_preset("debug")
    prior = replace(
        preset.model.prior,
        k_max=K_MAX,
        min_separation=3 / LONG.duration,
        sigma=(0.0, LARGEST_SIGMA),
    )
    model = replace(preset.model, long=LONG, short=SHORT, prior=prior)
    return varied(
        replace(preset, model=model),
        encoder={"channels": (32, 32, 32), "noise": False},
        train={
            "batch_size": size.batch,
            "optimizer": "muon",
            "learning_rate": 3e-3,
            "matrix_learning_rate": 0.02,
            "schedule": "cosine",
            "warmup_steps": size.steps // 10,
            "ema": 0.98,
            "clip_norm": 5.0,
        },
    )


@dataclass(frozen=True)
class Ablation:
    """One ablation."""

    set_number: int
    """Tells the seeds of its fresh signals from those of other sets; never reused."""
    full: Size
    """Its size, if it is not a quick look."""
    variants: Callable[[Config], dict[str, Config]]
    """The configs to train, by name, from the one that they start from."""

    def size(self, settings: Settings) -> Size:
        """The size that was asked for."""
        return QUICK if settings.quick else self.full

    def rounds(self, settings: Settings) -> int:
        """Number of rounds: those of a seed follow each other."""
        size = self.size(settings)
        return size.seeds * len(self.variants(small_config(size)))

    def signals(self, settings: Settings) -> int:
        """Signals of a round."""
        size = self.size(settings)
        return size.steps * size.batch + size.signals

    def measure(self, setup: Setup, number: int) -> Data:
        """Trains and evaluates one variant with one seed: what was "found", and the "size" of task and network."""
        size, user_seed = self.size(setup.settings), setup.settings.seed
        config = small_config(size)
        variants = self.variants(config)
        seed, place = divmod(number, len(variants))
        name = list(variants)[place]
        device = torch.device(setup.device or "cpu")
        whole, rest = divmod(size.signals, EVALUATION_BATCH)
        fresh = [
            draw_batch(config, n, suite_seed(self.set_number, 1000 * seed + i, user_seed), device)
            for i, n in enumerate([EVALUATION_BATCH] * whole + [rest] * bool(rest))
        ]
        parts = range(1, size.checkpoints + 1)
        steps = [size.steps * part // size.checkpoints for part in parts]
        curve: list[Data] = []
        for step, trainings in train_together(
            {name: variants[name]}, steps, training_seed(seed, user_seed), device
        ):
            training = trainings[name]
            network = training.averaged()
            looked = {"step": step, "loss": _unweighted_loss(training)}
            curve.append(looked | score_of(network, fresh[0], size.draws, user_seed))
        found = errors_of(network, fresh, size.draws, user_seed)
        return {
            "seed": seed,
            "variant": name,
            "variants": len(variants),
            "found": found | _calm(training) | {"curve": curve},
            "size": _size_facts(config, size),
            "weights": sum(p.numel() for p in network.parameters()),
        }

    def gather(self, rounds: Sequence[Data]) -> Data:
        """Means over the seeds that all variants have, of single numbers with standard errors; counts are summed."""
        seeds: dict[int, dict[str, Data]] = {}
        for one in rounds:
            seeds.setdefault(one["seed"], {})[one["variant"]] = one
        expected = rounds[0]["variants"]
        whole = [found for found in seeds.values() if len(found) == expected]
        if not whole:
            raise ValueError(
                f"expected a seed with all of its {expected} variants, received at most "
                f"{max(len(found) for found in seeds.values())} of them in this time; they are kept: go on with "
                "--resume."
            )
        weights = {name: one["weights"] for name, one in whole[0].items()}
        return {
            "variants": {
                name: _together([one[name]["found"] for one in whole]) for name in weights
            },
            "size": rounds[0]["size"] | {"weights": weights},
        }


def _size_facts(config: Config, size: Size) -> Data:
    """How large the task is, for the record."""
    model = config.model
    low, high = model.prior.frequency
    return {
        "seconds": model.long.duration,
        "samples": [model.long.n, model.short.n],
        "bins": (high - low) * model.long.duration,
        "k_max": model.prior.k_max,
        "sigma": model.prior.sigma[1],
        "steps": size.steps,
        "batch": size.batch,
    }


def _unweighted_loss(training: Training) -> float | None:
    """Flow loss since the last checkpoint, as if both weights were 1; None if no step was taken.

    A density of y = w u is smaller by the factor w than that of u, for each of the two coordinates of the phase and for
    the frequency.
    """
    flow, terms = training.config.model.flow, training.mean_terms()
    if not terms:
        return None
    return terms["flow"] - 2 * math.log(flow.phase_weight) - math.log(flow.frequency_weight)


def _calm(training: Training) -> Data:
    """Steps that were left out, and how much larger than usual the gradient was at times."""
    norms = training.gradient_norms
    spread = float(np.quantile(norms, HIGH_QUANTILE) / np.median(norms)) if norms else None
    return {"skipped": training.skipped, "gradient_spread": spread}


def _together(rounds: Sequence[Data]) -> Data:
    """A variant over all seeds."""
    spreads = [one["gradient_spread"] for one in rounds if one["gradient_spread"] is not None]
    return {
        **{
            kind: {name: mean_and_error([one[kind][name] for one in rounds]) for name in PARAMETERS}
            for kind in ("sd", "robust", "mean")
        },
        "histogram": {
            name: np.mean([one["histogram"][name] for one in rounds], axis=0).tolist()
            for name in PARAMETERS
        },
        "accuracy": mean_and_error([one["accuracy"] for one in rounds]),
        "confusion": np.sum([one["confusion"] for one in rounds], axis=0).tolist(),
        "score": mean_and_error([one["score"] for one in rounds]),
        "skipped": sum(one["skipped"] for one in rounds),
        "gradient_spread": mean_and_error(spreads) if spreads else None,
        "curve": {
            key: [_mean([one["curve"][i][key] for one in rounds]) for i in range(len(curve))]
            for curve in [rounds[0]["curve"]]
            for key in curve[0]
        },
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are there; None if there are none."""
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
