"""Tones alone: how many wrong counts the network for several classes has beside the one for tones.

    python benchmarks/family_tones.py --size 10000 --device cuda --out docs/data/family-tones.json

The nominal and the stress set of `slotflow evaluate` as far as the network `family` can read them: one stream of 3,000
samples, a band of 120 bins instead of 150, and at most six tones. Amplitudes, distances and noise levels are those of
the sets, and both networks are told them; `family` is told that components are tones too. `zoom` reads the same stream,
and both streams. Both networks answer alone, without the exact step.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from slotflow import Observation, Observations, Prior, SlotFlow
from slotflow.core.arrays import Array
from slotflow.network.cards import content_hash
from slotflow.network.family.model import FamilySlotFlow
from slotflow.signal.simulation import Simulation
from slotflow.studies.proof.command import Options, parse, write_json
from slotflow.studies.suites.sets import GRIDS, SETS, SignalSet, batches
from slotflow.waveforms import Tone

PARTS = ("nominal", "stress")
BAND, MOST = (2.5, 2.9), 6
"""Band in Hz, 120 bins of the long stream, and tones."""
BATCH = 250
TARGET = 2.0
"""Wrong counts in 10,000 that `family` may have above those of `zoom`."""
LOUD_SIGMA = 0.1
"""Noise level below which tones are louder than those of the training of `family`."""


def readable(name: str) -> SignalSet:
    """A set within what the network for several classes can read."""
    given = SETS[name]
    prior = dataclasses.replace(
        given.prior, frequency=BAND, k_max=MOST, k_min=min(given.prior.k_min, MOST)
    )
    return dataclasses.replace(given, prior=prior)


def answers(
    family: FamilySlotFlow, zoom: SlotFlow, signals: Simulation, prior: Prior
) -> dict[str, Array]:
    """The most probable K of each, (B,)."""
    assert signals.short is not None
    long, short = (values.double().cpu().numpy() for values in (signals.long, signals.short))
    steps = {"dt": GRIDS[0].dt, "t0": GRIDS[0].t0}
    more = {"dt_short": GRIDS[1].dt, "t0_short": GRIDS[1].t0}
    one = Observations.from_arrays(long, **steps)
    both = Observations.from_arrays(long, short=short, **steps, **more)
    tones = Prior(
        classes={"tone": Tone()},
        frequency=prior.frequency,
        k_min=prior.k_min,
        k_max=prior.k_max,
        min_separation=prior.min_separation,
        sigma=prior.sigma,
        amplitude=prior.amplitude,
    )
    ours: list[Observation] = [one[i] for i in range(len(one))]
    found = {"family": np.array([post.k_map for post in family.answers(ours, [tones] * len(ours))])}
    for label, data in {"zoom": one, "zoom, both streams": both}.items():
        posts = zoom.infer(data, prior=prior, method="network")
        found[label] = posts.k_probs.argmax(1)
    return found


def part(name: str, options: Options, family: FamilySlotFlow, zoom: SlotFlow) -> dict[str, Any]:
    """Wrong counts of a set."""
    own = readable(name)
    wrong: dict[str, list[Array]] = {}
    sigma: list[Array] = []
    began = time.perf_counter()
    for signals in _signals(own, options):
        truth = signals.k.cpu().numpy()
        sigma.append(signals.sigma.cpu().numpy().ravel())
        for label, k in answers(family, zoom, signals, own.prior).items():
            wrong.setdefault(label, []).append(k != truth)
    loud = np.concatenate(sigma) < LOUD_SIGMA
    missed = {label: np.concatenate(rows) for label, rows in wrong.items()}
    counts = {label: int(rows.sum()) for label, rows in missed.items()}
    above = 1e4 * (counts["family"] - counts["zoom"]) / options.size
    return {
        "signals": options.size,
        "wrong": counts,
        f"wrong_above_sigma_{LOUD_SIGMA:g}": {
            label: int(rows[~loud].sum()) for label, rows in missed.items()
        },
        f"signals_above_sigma_{LOUD_SIGMA:g}": int((~loud).sum()),
        "above_zoom_in_10000": round(above, 1),
        "target": TARGET,
        "seconds": round(time.perf_counter() - began, 1),
        "device": options.flags.device,
    }


def _signals(own: SignalSet, options: Options) -> Iterator[Simulation]:
    """The signals of a set in batches, none of which any network was trained on."""
    return batches(own, options.size, BATCH, options.seed, torch.device(options.flags.device))


def own_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that only this script has."""
    parser.add_argument("--model", default="family", help="weights by name, a folder or a file")
    parser.add_argument("--device", default="cpu", help="where the networks are")


def main() -> None:
    """Counts the tones of all sets and prints how many counts are wrong."""
    options = parse(__doc__, PARTS, 10000, own_flags)
    family, zoom = SlotFlow.from_pretrained(options.flags.model), SlotFlow.from_pretrained("zoom")
    if not isinstance(family, FamilySlotFlow):
        raise SystemExit(f"{options.flags.model}: expected a network of the family.")
    family.to(options.flags.device)
    zoom.to(options.flags.device)
    results = {name: part(name, options, family, zoom) for name in options.parts}
    settings = {"weights": content_hash(family.state_dict(), {}), "band": BAND, "most": MOST}
    write_json(options, settings, results)


if __name__ == "__main__":
    main()
