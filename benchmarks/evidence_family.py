"""Ln Z of tones, chirps, damped tones, harmonics and mixtures of classes beside nested sampling written out.

    python benchmarks/evidence_family.py --size 10 --jobs 15 --out docs/data/evidence-family.json

Each part is a kind of component, alone or one of three classes, real or complex: series of 200 samples with one or two
components in white noise of a known level. Nested sampling (`studies/proof/nested.py`) knows neither the compressed
data nor fits nor proposals: it evaluates every component at every sample. It runs three times, and the scatter of the
runs is part of the error. Of a mixture the numbers of each class are those of the truth. Components that the data do
not show are compared like any other.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from slotflow import Channel, Observation, Prior
from slotflow.core.arrays import Array
from slotflow.exact.family.analysed import searched
from slotflow.exact.family.sample import sample_layout
from slotflow.signal.simulation_like import simulate_like
from slotflow.signal.waveforms import Classes, Waveform
from slotflow.studies.proof.command import parse, pulls, records_of, write_json
from slotflow.studies.proof.nested import NestedSampling, nested_integral
from slotflow.studies.tasks import Record, Worker
from slotflow.waveforms import Chirp, Damped, Harmonic, Tone

SAMPLES, STEP = 200, 0.5
CHIRP, DAMPED = Chirp((-1e-3, 1e-3)), Damped((0.02, 0.2), law="loguniform")
BASE: dict[str, Any] = {
    "frequency": (0.3, 0.6),
    "min_separation": 0.0,
    "sigma": (1.0, 1.0),
    "k_min": 0,
    "k_max": 3,
    "amplitude": (0.3, 2.0),
    "amplitude_law": "loguniform",
}
KINDS: dict[str, dict[str, Any]] = {
    "tone": {"classes": {"tone": Tone()}},
    "chirp": {"waveform": CHIRP},
    "damped": {"waveform": DAMPED},
    "harmonic": {"waveform": Harmonic(2), "frequency": (0.2, 0.3)},
    "classes": {"classes": {"tone": Tone(), "chirp": CHIRP, "damped": DAMPED}},
}
PARTS = [f"{kind}-{values}" for kind in KINDS for values in ("real", "complex")]
DRAWS, MAX_SECONDS, RUNS = 4000, 300.0, 3
NESTED = NestedSampling(live=600, leaving=60, steps=60)
SETTINGS = {"draws": DRAWS, "nested_runs": RUNS, "nested": dataclasses.asdict(NESTED)}


@dataclass(frozen=True)
class Signals:
    """A process's worker, made in it."""

    seed: int

    def __call__(self) -> Worker:
        def answer(part: str, index: int) -> Record:
            kind, values = part.split("-")
            seed = int(
                np.random.SeedSequence([self.seed, PARTS.index(part), index]).generate_state(1)[0]
            )
            k, prior = 1 + index % 2, Prior(**(BASE | KINDS[kind]))
            zeros = np.zeros(SAMPLES, dtype=np.complex128 if values == "complex" else np.float64)
            template = Observation([Channel(zeros, dt=STEP, trend=-1)])
            made = simulate_like(template, prior, k=k, seed=seed)[0]
            began = time.process_time()
            search = searched(made.observation, prior)
            counts = _counts(search.waveform, made.theta)
            rng = np.random.default_rng(seed)
            ours = sample_layout(search, counts, rng, DRAWS, MAX_SECONDS)
            seconds = time.process_time() - began
            none = float(search.of_order(0)[0].target.log_prob(np.zeros((1, 0)))[0][0])
            log_z, error = _reference(made.observation, prior, search.waveform, counts, seed)
            return {
                "i": index,
                "counts": list(counts),
                "ours": ours.log_evidence,
                "ours_error": ours.log_evidence_error,
                "ess": ours.ess,
                "reference": log_z,
                "reference_error": error,
                "gain": ours.log_evidence - none,
                "seconds": seconds,
            }

        return answer


def _counts(waveform: Waveform, theta: Array) -> tuple[int, ...]:
    """Numbers of components of each class."""
    if not isinstance(waveform, Classes):
        return (len(theta),)
    kinds = waveform.class_of(theta).astype(int)
    return tuple(int(n) for n in np.bincount(kinds, minlength=len(waveform.members)))


def _reference(
    observation: Observation, prior: Prior, waveform: Waveform, counts: tuple[int, ...], seed: int
) -> tuple[float, float]:
    """Ln Z and its standard error by several runs of nested sampling."""
    members = list(waveform.members.values()) if isinstance(waveform, Classes) else [waveform]
    parts = [m for m, count in zip(members, counts, strict=True) for _ in range(count)]
    circular = np.array([p.circular for member in parts for p in member.parameters])
    log_likelihood = _written_out(observation, prior, parts)
    found = [
        nested_integral(log_likelihood, circular, np.random.default_rng([seed, run]), NESTED)
        for run in range(RUNS)
    ]
    values, errors = np.array(found).T
    spread = max(float(values.std(ddof=1)), float(np.sqrt((errors**2).mean())))
    k = len(parts)
    ways = math.lgamma(k + 1) - sum(math.lgamma(n + 1) for n in counts)
    ways -= k * math.log(len(members))  # the prior of these numbers of each class
    return float(logsumexp(values)) - math.log(RUNS) + ways, spread / math.sqrt(RUNS)


def _written_out(
    observation: Observation, prior: Prior, parts: list[Waveform]
) -> Callable[[Array], Array]:
    """The likelihood as a function of points of the unit cube, component after component."""
    long, sigma = observation.long, prior.known_sigma
    assert sigma is not None
    t, degrees = long.times - long.mid_time, long.n * (2 if long.is_complex else 1)
    constant = degrees * math.log(sigma) + 0.5 * degrees * math.log(2 * math.pi)

    def log_likelihood(u: Array) -> Array:
        model: Any = 0.0
        first = 0
        for member in parts:
            theta = _drawn(member, prior, u[:, first : first + member.size])
            first += member.size
            xi, c = member.split(theta[:, None], long.mid_time)
            model = model + (c[..., None] * member.basis(t, xi)).sum((1, 2))
        left = np.abs(long.values - (model if long.is_complex else model.real)) ** 2
        found: Array = -0.5 * left.sum(-1) / sigma**2 - constant
        return found

    return log_likelihood


def _drawn(member: Waveform, prior: Prior, u: Array) -> Array:
    """A component of a class, (n, P), of uniform numbers, (n, P)."""
    column = dict(zip(member.names, u.T, strict=True))
    own, (low, high), (a_lo, a_hi) = member.drawn(column), prior.frequency, prior.amplitude
    values = []
    for parameter in member.parameters:
        x = column[parameter.name]
        if parameter.circular:
            x = 2 * math.pi * x
        elif parameter.name == member.place:
            x = low + x * (high - low)
        elif parameter.name not in own:
            x = a_lo * (a_hi / a_lo) ** x
        values.append(own.get(parameter.name, x))
    return np.stack(values, -1)


def summary(records: list[Record]) -> dict[str, Any]:
    """Differences of one kind in units of their standard errors."""
    return pulls(records) | {
        "log_bayes_factors": [round(r["gain"], 2) for r in records],
        "ess": [round(r["ess"], 3) for r in records],
        "mean_seconds": round(float(np.mean([r["seconds"] for r in records])), 2),
    }


def main() -> None:
    """Compares the evidences of all kinds."""
    options = parse(__doc__, PARTS, 10)
    records = records_of(options, Signals(options.seed), SETTINGS)
    results = {part: summary(found) for part, found in records.items()}
    away = np.concatenate([one["pulls"] for one in results.values()])
    results["all"] = {
        "signals": len(away),
        "within": int(sum(one["within"] for one in results.values())),
        "rms_pull": round(float(np.sqrt(np.mean(away**2))), 3),
    }
    write_json(options, SETTINGS, results)


if __name__ == "__main__":
    main()
