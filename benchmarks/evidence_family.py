"""Ln Z of chirps, damped tones, harmonics and mixtures of classes beside nested sampling of the likelihood written out.

    python benchmarks/evidence_family.py --size 10

Series of 200 samples with one or two components in white noise of a known level. Nested sampling
(`studies/proof/nested.py`) knows neither the compressed data nor fits nor proposals: it evaluates every component at
every sample. Of a mixture the numbers of each class are those of the truth.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from slotflow import Channel, Observation, Prior
from slotflow.core.arrays import Array
from slotflow.exact.family.posterior import family_posterior
from slotflow.signal.simulation_like import simulate_like
from slotflow.signal.waveforms import Classes, Waveform
from slotflow.studies.proof.nested import NestedSampling, nested_integral
from slotflow.waveforms import Chirp, Damped, Harmonic, Tone

SAMPLES, STEP = 200, 0.5
CHIRP, DAMPED = Chirp((-1e-3, 1e-3)), Damped((0.02, 0.2), law="loguniform")
BASE: dict[str, Any] = {
    "frequency": (0.3, 0.6),
    "min_separation": 0.0,
    "sigma": (1.0, 1.0),
    "k_min": 0,
    "k_max": 3,
    "amplitude": (0.3, 3.0),
    "amplitude_law": "loguniform",
}
CASES: dict[str, tuple[dict[str, Any], int, type]] = {
    "chirp": ({"waveform": CHIRP}, 1, np.float64),
    "damped": ({"waveform": DAMPED}, 1, np.float64),
    "damped, complex": ({"waveform": DAMPED}, 1, np.complex128),
    "two chirps, complex": ({"waveform": CHIRP}, 2, np.complex128),
    "harmonic": ({"waveform": Harmonic(2), "frequency": (0.2, 0.3)}, 1, np.float64),
    "two of three classes": (
        {"classes": {"tone": Tone(), "chirp": CHIRP, "damped": DAMPED}},
        2,
        np.float64,
    ),
}


def compare(name: str, seed: int) -> tuple[float, float, float, float] | None:
    """Ln Z with its error, ours and the reference's; None where the true numbers were not worth sampling."""
    changes, k, kind = CASES[name]
    prior = Prior(**(BASE | changes))
    template = Observation([Channel(np.zeros(SAMPLES, dtype=kind), dt=STEP, trend=-1)])
    made = simulate_like(template, prior, k=k, seed=seed)[0]
    post = family_posterior(made.observation, prior, draws=4000, seed=seed, max_seconds=300.0)
    waveform = post.waveform
    counts: tuple[int, ...] = (k,)
    members = [waveform]
    if isinstance(waveform, Classes):
        kinds = waveform.class_of(made.theta).astype(int)
        counts = tuple(int(n) for n in np.bincount(kinds, minlength=len(waveform.members)))
        members = list(waveform.members.values())
    found = post.analysed.sampled.results.get(counts)
    if found is None:
        return None
    parts = [m for m, count in zip(members, counts, strict=True) for _ in range(count)]
    circular = np.array([p.circular for member in parts for p in member.parameters])
    log_likelihood = _written_out(made.observation, prior, parts)
    options, rng = NestedSampling(live=800, leaving=80, steps=60), np.random.default_rng(seed)
    log_z, error = nested_integral(log_likelihood, circular, rng, options)
    ways = math.lgamma(k + 1) - sum(math.lgamma(n + 1) for n in counts)
    log_z += ways - k * math.log(len(members))  # the prior of these numbers of each class
    return found.log_evidence, found.log_evidence_error, log_z, error


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


def main() -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10, help="signals of each kind")
    options = parser.parse_args()
    pulls: list[float] = []
    for name in CASES:
        for seed in range(options.size):
            found = compare(name, seed)
            if found is None:
                print(f"{name} {seed}: not sampled")
                continue
            ours, error, reference, spread = found
            pulls.append((ours - reference) / math.hypot(error, spread))
            print(
                f"{name} {seed}: {ours:.3f} ± {error:.3f}, nested {reference:.3f} ± {spread:.3f}, "
                f"pull {pulls[-1]:+.2f}",
                flush=True,
            )
    within = sum(abs(pull) < 3 for pull in pulls)
    print(f"{within} of {len(pulls)} within 3 standard errors")


if __name__ == "__main__":
    main()
