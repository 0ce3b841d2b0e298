"""Who proposes: the network, the classical search, or both, on bands of data that the network was not trained for.

    python benchmarks/proposers.py --size 60 --jobs 15 --out docs/data/proposers.json

Five kinds of data of 1,000 samples: AR(1) noise (0.9); white plus 1/f² noise; white noise with 10 to 50 % of the
samples missing, in blocks or here and there; uneven times; AR(1) noise that is answered as local noise. Parts named
`few` have 0 to 5 tones in a band of 40 bins, those named `many` 6 to 15 in a band of 100; both are 1.5 bins apart or
more. Parts named `close` are `few` without a smallest distance. Tones have 6 to 40 times the noise of an amplitude at
the band's lower edge. The kind of the noise is stated, its level is not.

Every band is answered by the exact step from the places of the network alone (`network`), from those of the search
alone (`classical`), and from both (`both`), which is what ``model.infer`` does; `unrefined` is the network's own count.
The network counts up to ten: `many` has a column `windows` for what ``model.infer`` does instead of `both`. These bands
take ten times as long, and there is one for ten of the others. Times are CPU times of the proposals and the exact
step; what is assumed of the data is the same for all and timed apart.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed
from slotflow.exact.refine import Effort, exact_posterior
from slotflow.exact.start import CLASSICAL, Start
from slotflow.infer.assume import Basis, assume
from slotflow.infer.proposers import network_places, prominent_sets
from slotflow.infer.request import DataRequest
from slotflow.infer.statement import Statement
from slotflow.network.build import load_model
from slotflow.posterior.posterior import Posterior
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.proof.noise_cases import tones
from slotflow.studies.proof.red_noise import density, red_series, stated
from slotflow.studies.tasks import Record, Worker

SAMPLES = 1000
NOISES = {
    "ar": "ar",
    "power_law": "power_law",
    "gaps": "white",
    "uneven": "white",
    "local": "local",
}
"""What is stated of the noise of each kind of data."""
COUNTS = {"few": (0, 5), "close": (0, 5), "many": (6, 15)}
WIDTHS = {"few": 40.0, "close": 40.0, "many": 100.0}
"""Of the bands, in bins."""
SEPARATIONS = {"few": 1.5, "close": 0.0, "many": 1.5}
"""Smallest distances of two tones, in bins."""
LOWEST, HIGHEST = 50.0, 350.0
"""Bins between which bands begin."""
PARTS = tuple(f"{kind}, {size}" for size in COUNTS for kind in NOISES)
WEAKEST, STRONGEST = 6.0, 40.0
MISSING = (0.1, 0.5)
DRAWS, MAX_SECONDS = 1000, 20.0
FEWER = 10
"""Bands of the other parts for one of `many`."""
SETTINGS: dict[str, Any] = {
    "samples": SAMPLES,
    "counts": COUNTS,
    "widths": WIDTHS,
    "missing": MISSING,
    "amplitudes": (WEAKEST, STRONGEST),
    "separations": SEPARATIONS,
    "lower_edges": (LOWEST, HIGHEST),
    "draws": DRAWS,
    "max_seconds": MAX_SECONDS,
}
METHODS = ("unrefined", "network", "classical", "both", "windows")


def band_of(part: str, rng: np.random.Generator) -> tuple[Observation, Prior, int]:
    """Data of a part, the prior of their tones and their true number."""
    kind, size = part.split(", ")
    colour = {"local": "ar"}.get(kind, kind)
    times = _times(kind, rng)
    low = rng.uniform(LOWEST, HIGHEST) / SAMPLES
    band = (low, low + WIDTHS[size] / SAMPLES)
    red = colour in ("ar", "power_law")
    level = float(density(colour, np.array([low]))[0]) if red else 1.0
    unit = math.sqrt(2 * level / len(times))
    fewest, most = COUNTS[size]
    prior = Prior(
        k_min=0,
        k_max=most,
        amplitude=(WEAKEST * unit, STRONGEST * unit),
        frequency=band,
        min_separation=SEPARATIONS[size] / SAMPLES,
    )
    k = int(rng.integers(fewest, most + 1))
    generator = torch.Generator().manual_seed(spread_seed(int(rng.integers(2**62))))
    theta = prior.sample_theta(torch.tensor([k]), generator)[0, :k].numpy()
    noise = red_series(colour, SAMPLES, rng) if red else rng.standard_normal(len(times))
    return (
        Observation([Channel(tones(theta[None], times, False)[0] + noise, times=times)]),
        prior,
        k,
    )


def _times(kind: str, rng: np.random.Generator) -> Array:
    """Sampling instants of a kind of data, one a second but for gaps and jitter."""
    even: Array = np.arange(SAMPLES, dtype=np.float64)
    if kind == "uneven":
        return even + rng.uniform(-0.4, 0.4, SAMPLES)
    if kind != "gaps":
        return even
    lost = int(rng.uniform(*MISSING) * SAMPLES)
    if rng.random() < 0.5:
        return np.delete(even, rng.choice(np.arange(1, SAMPLES - 1), lost, replace=False))
    blocks = int(rng.integers(1, 5))
    size = lost // blocks
    starts = np.sort(rng.choice(SAMPLES - lost - 1, blocks, replace=False)) + 1
    inside = [range(s + i * size, s + (i + 1) * size) for i, s in enumerate(starts)]
    return np.delete(even, [place for block in inside for place in block])


def answer_from(
    basis: Basis, prior: Prior, places: list[Array], proposed_by: str, seed: int
) -> Posterior:
    """The exact answer from proposed places."""
    assert basis.likelihood is not None and basis.scales is not None
    start = Start.from_places(
        basis.observation, basis.likelihood, prior, basis.scales.level, places, proposed_by
    )
    effort = Effort(DRAWS, seed, MAX_SECONDS)
    return exact_posterior(start, basis.likelihood, prior, effort, basis.noise)


@dataclass(frozen=True)
class Bands:
    """A process's worker, made in it."""

    seed: int
    weights: Path | None
    methods: tuple[str, ...]

    def __call__(self) -> Worker:
        model = SlotFlow.from_pretrained() if self.weights is None else load_model(self.weights)
        model.eval()

        def answer(part: str, index: int) -> Record:
            rng = np.random.default_rng([self.seed, PARTS.index(part), index])
            observation, prior, k = band_of(part, rng)
            noise = NOISES[part.split(", ")[0]]
            return {"i": index, "k": k} | self._answers(model, observation, prior, noise, index)

        return answer

    def _answers(
        self, model: SlotFlow, observation: Observation, prior: Prior, noise: str, seed: int
    ) -> Record:
        """What each proposer leads to."""
        said, request = Statement.of(stated(prior)), DataRequest(noise=noise)
        basis, seconds = timed(lambda: assume(model, observation, said, request=request))
        found: Record = {"assumed": {"seconds": seconds}}
        own = dataclasses.replace(prior, k_max=min(prior.k_max, model.k_max))
        prior = basis.assumed.prior
        network, asked = timed(lambda: network_places(model, basis, own, seed))
        searched, both = prominent_sets(basis, prior), f"{model.config.name} and {CLASSICAL}"
        ways: dict[str, Callable[[], Posterior]] = {}
        if network is not None:
            found["unrefined"] = {"k": int(network.k_probs.argmax()), "seconds": asked}
            ways["network"] = lambda: answer_from(basis, prior, network.sets, "zoom", seed)
            places = searched + network.sets
            ways["both"] = lambda: answer_from(basis, prior, places, both, seed)
        ways["classical"] = lambda: answer_from(basis, prior, searched, CLASSICAL, seed)
        if prior.k_max > model.k_max:
            ways["windows"] = lambda: model.infer(
                observation,
                prior=stated(prior),
                noise=noise,
                draws=DRAWS,
                max_seconds=MAX_SECONDS,
                seed=seed,
            )
        for name in [name for name in METHODS if name in ways and name in self.methods]:
            post, seconds = timed(ways[name])
            seconds += asked if name in ("network", "both") else 0.0
            status = post.verdict.status
            found[name] = {"k": post.k_map, "status": status, "seconds": seconds}
        return found


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the CPU seconds of it."""
    start = time.process_time()
    return work(), time.process_time() - start


def summary(records: list[Record]) -> dict[str, Any]:
    """Counts, verdicts and times of each way to an answer in one part."""
    found: dict[str, Any] = {}
    for method in METHODS:
        chosen = [(r["k"], r[method]) for r in records if method in r]
        if not chosen:
            continue
        seconds = [answer["seconds"] for _, answer in chosen]
        found[method] = {
            "bands": len(chosen),
            "k_right": sum(k == answer["k"] for k, answer in chosen),
            "exact": sum(answer.get("status") == "exact" for _, answer in chosen),
            "median_seconds": round(float(np.median(seconds)), 3),
            "mean_seconds": round(float(np.mean(seconds)), 3),
        }
    assumed = [r["assumed"]["seconds"] for r in records]
    return found | {"assumed": {"median_seconds": round(float(np.median(assumed)), 3)}}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The script's own flags."""
    parser.add_argument("--weights", type=Path, help="a model file instead of the default model's")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))


def main() -> None:
    """Answers every band in every way."""
    options = parse(__doc__, PARTS, 60, add_flags)
    weights, methods = options.flags.weights, tuple(options.flags.methods)
    settings = SETTINGS | {"weights": str(weights or "default"), "methods": methods}
    sizes = {part: options.size // FEWER for part in PARTS if part.endswith("many")}
    records = records_of(options, Bands(options.seed, weights, methods), settings, sizes)
    results = {part: summary(found) for part, found in records.items() if found}
    write_json(options, settings, results)


if __name__ == "__main__":
    main()
