"""Study `zoom_scaling`: what signals, parameters and the parts on the likelihood are worth to the default network.

A round is one training, of one variant (`variants`) from one seed, looked at with annealed weights at rising numbers
of signals (`annealing`). All variants of a seed take their steps on the same signals and answer the same fresh ones.
The rounds of a seed follow each other, so that a study that ends early has whole seeds and a part of the last one.

The released weights stand beside them: one network of the preset's size, trained once with AdamW, a cosine and larger
batches, at the number of signals that its card states. They answer the fresh signals of each seed too, as they are and
with a part switched off that they were trained with. The latter is no ablation, since the rest of the network expects
that part, but it says what the part does in the network that everybody uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from slotflow.network.cards import embedded_card
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup, Study
from slotflow.studies.measures.means import mean_and_error
from slotflow.studies.measures.parameters import SYMBOLS
from slotflow.studies.suites.sizes import SEED_LIMIT, Sizes
from slotflow.studies.trainings import training_seed
from slotflow.studies.zoom_scaling.annealing import AnnealedTraining
from slotflow.studies.zoom_scaling.looks import look_at
from slotflow.studies.zoom_scaling.pictures import plot
from slotflow.studies.zoom_scaling.rows import RELEASED, compare
from slotflow.studies.zoom_scaling.variants import (
    BASE,
    PARTS,
    VARIANTS,
    variant_config,
    with_switches,
)

__all__ = ["ZOOM_SCALING"]

EVALUATION_SEED_STEP = 1000
"""Distance of the seeds of the fresh signals of two rounds' seeds."""


@dataclass(frozen=True)
class Size:
    """How much is trained and evaluated in a round."""

    steps: tuple[int, ...]
    """Numbers of steps at which the network is looked at, rising."""
    batch: int
    """Signals of a step."""
    seeds: int
    """Trainings of each variant."""
    fresh: Sizes
    """Fresh signals and draws of a look."""


FULL = Size((100, 300, 1000), 1024, 2, Sizes(n=4000, draws=200))
"""Batches are half the preset's: a step takes the host as long with fewer signals, and fewer steps would learn less."""
QUICK = Size((2, 4), 8, 1, Sizes(n=24, draws=16))


def _size(settings: Settings) -> Size:
    return QUICK if settings.quick else FULL


def _rounds(settings: Settings) -> int:
    return _size(settings).seeds * len(VARIANTS)


def _signals(settings: Settings) -> int:
    """Signals of a training, each seen once, and the fresh ones of a look."""
    size = _size(settings)
    return size.steps[-1] * size.batch + size.fresh.n + size.fresh.n // 2


def _measure(setup: Setup, number: int) -> Data:
    """Trains one variant from one seed; the round of the base looks at the released weights as well."""
    size, device = _size(setup.settings), torch.device(setup.device or "cpu")
    seed, place = divmod(number, len(VARIANTS))
    name = list(VARIANTS)[place]
    fresh_seed = (setup.settings.seed + EVALUATION_SEED_STEP * seed) % SEED_LIMIT
    config = variant_config(name, size.batch, setup.settings.quick, device)

    def look(network: SlotFlow, signals: int) -> Data:
        assert isinstance(network, ZoomSlotFlow)
        return {"signals": signals} | look_at(network, size.fresh, fresh_seed, device)

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        training = AnnealedTraining(
            config, size.steps[-1], training_seed(seed, setup.settings.seed), device
        )
        points = [look(training.point(step), step * size.batch) for step in size.steps]
    parameters = training.state.model.n_parameters
    found: Data = {name: {"parameters": parameters, "points": points}}
    if name == BASE:
        released, signals = setup.network("zoom"), embedded_card("zoom").signals
        for words, switches in {"": {}, **PARTS}.items():
            label = f"{RELEASED}, {words}" if words else RELEASED
            network = with_switches(released, switches)
            point = look(network, signals)
            found[label] = {"parameters": network.n_parameters, "points": [point]}
    return found


def _gather(rounds: Sequence[Data]) -> Data:
    """Means over seeds with their standard errors, point by point, of each network."""
    names = dict.fromkeys(name for one in rounds for name in one)
    return {name: _together([one[name] for one in rounds if name in one]) for name in names}


def _together(trainings: Sequence[Data]) -> Data:
    """One network over its seeds."""
    points = list(zip(*(one["points"] for one in trainings), strict=True))  # of all seeds
    return {
        "parameters": trainings[0]["parameters"],
        "seeds": len(trainings),
        "signals": [seeds[0]["signals"] for seeds in points],
        **{
            share: [mean_and_error([one[share] for one in seeds]) for seeds in points]
            for share in ("frontier", "nominal")
        },
        **{
            kind: {
                symbol: [mean_and_error([one[kind][symbol] for one in seeds]) for seeds in points]
                for symbol in SYMBOLS
            }
            for kind in ("width", "error")
        },
    }


ZOOM_SCALING = Study(
    name="zoom_scaling",
    title="Signals, parameters and the steps on the likelihood",
    section="before it was measured",
    source="our own expectation",
    claim="The widths of `zoom` at the bound are owed to its two joint steps on the likelihood, its counts and places "
    "to what was learned. More signals and more parameters make it better.",
    caption="Left and middle: share of wrong counts on the frontier, and robust errors of f over the bound on nominal "
    "signals, against the signals seen in training; bars are standard errors over seeds. The star is the released "
    "network, trained once with another recipe; open marks, the same with a part switched off. "
    "Right: wrong counts against the parameters.",
    code=("studies/zoom_scaling", "studies/trainings", "studies/suites", "train"),
    rounds=_rounds,
    signals=_signals,
    measure=_measure,
    gather=_gather,
    compare=compare,
    plot=plot,
    networks=("zoom",),
)
